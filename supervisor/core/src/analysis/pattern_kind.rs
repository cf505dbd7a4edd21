//! The kinds of failure that the analysis tells apart.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($kind:ident $name:literal $title:literal,)+) => {
        /// A kind of failure, as the failure's own text shows it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum PatternKind {
            $(#[doc = $title] $kind,)+
        }

        impl PatternKind {
            /// The name in answers.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(PatternKind::$kind => $name,)+ }
            }

            /// What it is, in a few words for people.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(PatternKind::$kind => $title,)+ }
            }
        }
    };
}

kinds! {
    AddressInUse "address_in_use" "a port that is already in use",
    AlreadyBorrowed "already_borrowed" "a RefCell that is already borrowed",
    ArithmeticOverflow "arithmetic_overflow" "an arithmetic overflow",
    Assertion "assertion" "a failed assertion",
    BorrowError "borrow_error" "an error of the borrow checker",
    BuildError "build_error" "a build error",
    CircularImport "circular_import" "a circular import",
    ClosedEventLoop "closed_event_loop" "a closed event loop",
    ConnectionRefused "connection_refused" "a refused connection",
    Crash "crash" "a crash of the test process",
    DataRace "data_race" "a data race",
    Deadlock "deadlock" "a deadlock",
    DependencyFailed "dependency_failed" "a failed prerequisite",
    DiskFull "disk_full" "no space left",
    DivisionByZero "division_by_zero" "a division by zero",
    Exception "exception" "an exception",
    FileNotFound "file_not_found" "a missing file",
    FloatRounding "float_rounding" "floating-point rounding",
    IndexOutOfRange "index_out_of_range" "an index out of range",
    LeakedResource "leaked_resource" "a leaked resource",
    LinkError "link_error" "a link error",
    Locale "locale" "a locale that is not there",
    MissingDependency "missing_dependency" "a missing dependency",
    MissingEnvironmentVariable "missing_environment_variable" "a missing environment variable",
    MissingException "missing_exception" "an expected error that did not occur",
    MissingKey "missing_key" "a missing key",
    MissingModule "missing_module" "a missing module of the project",
    MissingSymbol "missing_symbol" "an unknown name",
    MockExpectation "mock_expectation" "an unmet expectation of a mock",
    ModuleFormat "module_format" "a mix of ES modules and CommonJS",
    NetworkRefused "network_refused" "a host name that cannot be resolved or reached",
    NullDereference "null_dereference" "a use of a missing value",
    OrderDependence "order_dependence" "a different order",
    OutOfMemory "out_of_memory" "not enough memory",
    OutputFlood "output_flood" "too much output",
    PermissionDenied "permission_denied" "a denied access",
    PidsExhausted "pids_exhausted" "too many processes or threads",
    PoisonedLock "poisoned_lock" "a poisoned lock",
    SnapshotMismatch "snapshot_mismatch" "a snapshot that differs",
    StackOverflow "stack_overflow" "a stack overflow",
    SyntaxError "syntax_error" "a syntax error",
    TimeZone "time_zone" "a different time zone",
    Timeout "timeout" "a timeout",
    TypeMismatch "type_mismatch" "a wrong type or number of arguments",
    UndefinedFixture "undefined_fixture" "an unknown fixture",
    Unknown "unknown" "a failure of no known form",
    UnhandledRejection "unhandled_rejection" "an unhandled rejection",
}

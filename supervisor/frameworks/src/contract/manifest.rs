//! What a framework declares about itself, as data: everything in proctor that depends on frameworks is derived from it.

use crate::contract::{IgnoredDirs, NameScope, ReservedVariables, ScopeSupport, StackDump, Toolchain};
use proctor_core::test_order::TestOrder;

/// A framework's description. Each adapter has one, and [`FRAMEWORKS`](crate::FRAMEWORKS) leads to all of them.
#[derive(Debug, Clone, Copy)]
pub struct Manifest {
    /// Name in requests and reports: `go`.
    pub name: &'static str,
    /// The evidence that a passed run needs, as one sentence for documentation. The parser checks it and reports the result in
    /// [`StreamSummary::proof`](crate::StreamSummary::proof).
    pub proof: &'static str,
    /// Bytes of which the output of every run with a proof contains one; empty where an exit status is the proof.
    pub proof_markers: &'static [&'static [u8]],
    /// Names of files whose content detection reads (`go.mod`). The supervisor puts the content into the tree.
    pub markers: &'static [&'static str],
    /// Extensions of its source files, without the dot.
    pub extensions: &'static [&'static str],
    /// Names of build output directories beside a marker (`target`). They hold no edited files.
    pub output_dirs: &'static [&'static str],
    /// Directories that a scan of the workspace ignores, besides those of the toolchains.
    pub ignored_dirs: IgnoredDirs,
    /// Wall time in milliseconds of a run that requests none; `None` for [`Limits::DEFAULT`].
    ///
    /// [`Limits::DEFAULT`]: proctor_core::limits::Limits::DEFAULT
    pub default_wall_ms: Option<u64>,
    /// Whether it runs only what other frameworks leave: it has a project if no other framework has it, or if one test script
    /// starts both.
    pub is_fallback: bool,
    /// Whether a build or load error keeps other tests from running without the runner reporting them.
    pub build_error_hides_tests: bool,
    /// Whether every test that starts also finishes in a run that ends by itself.
    pub finishes_started_tests: bool,
    /// What separates package and name in the node ids of its tests; `None` where a node id is no package and name.
    pub node_id_separator: Option<&'static str>,
    /// The options of a request that it can carry out.
    pub options: OptionSupport,
    /// Sources of chance that a request can take away by a variable.
    pub fixed_chance: &'static [FixedChance],
    /// How its processes print their stacks at the deadline; `None` if they cannot.
    pub stack_dump: Option<StackDump>,
    /// How the names of its tests relate to each other in a rerun.
    pub rerun_names: RerunNames,
    /// Variables that a request may not set, besides those of the toolchains.
    pub reserved: ReservedVariables,
    /// The tools that its runs use.
    pub toolchains: &'static [&'static Toolchain],
    /// A smallest project that detection finds, for tests: path and content of each file.
    pub sample: &'static [(&'static str, &'static str)],
}

/// Which options of a request a framework can carry out. Every framework takes `env`, `repeat`, `fresh` and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSupport {
    /// `filter` and `files`: whether it can run the tests of given files, or those that match a filter.
    pub selection: bool,
    /// The project file's `patterns` and `exclude`.
    pub scope: ScopeSupport,
    /// `parallel`: the number of tests that run at the same time.
    pub parallel: ParallelSupport,
    /// `coverage`: whether proctor measures it. Where it does not, the option costs nothing.
    pub coverage: bool,
    /// `browser` and `headed`: whether it drives browsers, perhaps only with a plugin of the project.
    pub browsers: bool,
    /// The orders of tests that it can be told.
    pub orders: OrderSupport,
}

/// The orders of tests that a runner can be told, besides the project's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderSupport {
    /// The reverse of its own.
    pub reversed: bool,
    /// A random order, from a seed that it prints or is given.
    pub shuffled: bool,
    /// The order in which the request names the tests.
    pub selected: bool,
}

impl OrderSupport {
    /// No other order.
    pub const NONE: OrderSupport = OrderSupport { reversed: false, shuffled: false, selected: false };

    /// Whether the runner can be told this order.
    #[must_use]
    pub fn has(self, order: TestOrder) -> bool {
        match order {
            TestOrder::Project => true,
            TestOrder::Reversed => self.reversed,
            TestOrder::Shuffled { .. } => self.shuffled,
            TestOrder::Selected => self.selected,
        }
    }
}

/// A source of chance that a variable of the environment takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedChance {
    /// The variable.
    pub variable: &'static str,
    /// The value that fixes it.
    pub value: &'static str,
    /// What is random without it.
    pub what: &'static str,
}

/// What a framework does with the option `parallel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParallelSupport {
    /// Its plan passes the number to the runner.
    Applied(DefaultConcurrency),
    /// The runner has no such setting, which this note says.
    NoEffect(&'static str),
    /// The option is refused.
    Refused,
    /// The project's own commands decide.
    Ignored,
}

/// How a runner that has the option `parallel` runs tests without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultConcurrency {
    /// Several at the same time, or as many as there are devices.
    Several,
    /// One after the other. With the option it runs any two at the same time, for which the project has to have `needs`.
    OneTest {
        /// A package that may be missing.
        needs: Option<&'static str>,
    },
    /// One after the other. With the option it runs the tests of different files at the same time.
    OneFile,
}

/// How names of tests relate to each other in a rerun, where the result of one name may stand for another.
#[derive(Debug, Clone, Copy)]
pub struct RerunNames {
    /// Whether names are sentences, one of which may be the beginning of another: only a title separator parts parent and child.
    pub are_titles: bool,
    /// Separators between a test and its parameters, besides the usual ones (`/`, `#`, `::`, `.`, `$`, `[`, `(`).
    pub separators: &'static [&'static str],
    /// Whether a name is reported only when it fails: a hook, a fixture, a process. Any other result of its file then shows that
    /// it did not fail.
    pub is_reported_only_on_failure: fn(&str) -> bool,
    /// The part of a name that stays when the project changes (a doctest's, without its line); `None` if all of it does.
    pub stable_part: fn(&str) -> Option<&str>,
    /// The test that a part of a test belongs to, if a passed test does not report its parts (Python's subtests).
    pub parent: fn(&str) -> Option<&str>,
}

impl RerunNames {
    /// Names without relations beyond the separators between parent and child.
    pub(crate) const PLAIN: RerunNames = RerunNames {
        are_titles: false,
        separators: &[],
        is_reported_only_on_failure: |_| false,
        stable_part: |_| None,
        parent: |_| None,
    };
}

impl Manifest {
    /// A manifest with the defaults of most frameworks. `name`, `proof`, `extensions` and `sample` have no default.
    pub(crate) const DEFAULT: Manifest = Manifest {
        name: "",
        proof: "",
        proof_markers: &[],
        markers: &[],
        extensions: &[],
        output_dirs: &[],
        ignored_dirs: IgnoredDirs::NONE,
        default_wall_ms: None,
        is_fallback: false,
        build_error_hides_tests: true,
        finishes_started_tests: true,
        node_id_separator: None,
        options: OptionSupport {
            selection: true,
            scope: ScopeSupport { names: NameScope::Refused, files: false },
            parallel: ParallelSupport::Applied(DefaultConcurrency::Several),
            coverage: false,
            browsers: false,
            orders: OrderSupport::NONE,
        },
        fixed_chance: &[],
        stack_dump: None,
        rerun_names: RerunNames::PLAIN,
        reserved: ReservedVariables::NONE,
        toolchains: &[],
        sample: &[],
    };
}

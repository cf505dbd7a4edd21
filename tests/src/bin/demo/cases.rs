//! The fixtures of the demo and their expected results, one row each.

use proctor_proto::v1::{Limits, Outcome, Summary};
use std::collections::BTreeSet;

const MIB: u64 = 1024 * 1024;

/// One fixture of the demo.
pub(crate) struct DemoCase {
    /// Directory below `fixtures/go`.
    pub(crate) fixture: &'static str,
    /// Title for the reader.
    pub(crate) about: &'static str,
    /// Limits of the run; 0 keeps the default.
    pub(crate) limits: Limits,
    /// Expected result.
    pub(crate) expected: ExpectedRun,
}

/// The expected result of a run.
pub(crate) struct ExpectedRun {
    pub(crate) outcome: Outcome,
    pub(crate) passed: u64,
    pub(crate) skipped: u64,
    /// Node ids that `last_test_failures` must list, all of them. A parent that failed only because of its subtest is
    /// not listed.
    pub(crate) failures: &'static [&'static str],
    /// Tests that must be running when the run is cut off.
    pub(crate) running: &'static [&'static str],
}

const NO_LIMITS: Limits = Limits {
    memory_bytes: 0,
    cpu_millis: 0,
    pids: 0,
    wall_ms: 0,
    grace_ms: 0,
    log_bytes: 0,
    tmp_bytes: 0,
    disk_bytes: 0,
};

const PASSED: ExpectedRun =
    ExpectedRun { outcome: Outcome::Passed, passed: 0, skipped: 0, failures: &[], running: &[] };

/// The fixture whose covering tests the demo queries.
pub(crate) const COVERED: &str = "pass";
/// The fixture that the demo repairs, to run its failed tests again.
pub(crate) const REPAIRED: &str = "fail";
/// The fixture that is running when the demo stops the supervisor.
pub(crate) const ENDLESS: &str = "hang";

/// All fixtures, in display order.
pub(crate) const CASES: [DemoCase; 8] = [
    DemoCase {
        fixture: COVERED,
        about: "everything passes, and coverage tells which test executes which line",
        limits: NO_LIMITS,
        expected: ExpectedRun { passed: 5, ..PASSED },
    },
    DemoCase {
        fixture: REPAIRED,
        about: "failures of several kinds, each with its location and the expected value",
        limits: NO_LIMITS,
        expected: ExpectedRun {
            outcome: Outcome::Failed,
            passed: 2,
            skipped: 1,
            failures: &[
                "example.com/fail/TestGreet/name_world",
                "example.com/fail/TestLines",
                "example.com/fail/TestPlain",
                "example.com/fail/TestSilent",
            ],
            ..PASSED
        },
    },
    DemoCase {
        fixture: "panic",
        about: "a panic ends the test process, and takes a parallel test with it",
        limits: NO_LIMITS,
        expected: ExpectedRun {
            outcome: Outcome::Failed,
            passed: 1,
            failures: &["example.com/panic/TestPanics/empty", "example.com/panic/TestParallelSibling"],
            ..PASSED
        },
    },
    DemoCase {
        fixture: "builderror",
        about: "one package does not compile; what can run still runs",
        limits: NO_LIMITS,
        expected: ExpectedRun {
            outcome: Outcome::BuildFailed,
            passed: 1,
            failures: &["example.com/builderror/broken"],
            ..PASSED
        },
    },
    DemoCase {
        fixture: "twomodules",
        about: "two Go modules side by side in one workspace",
        limits: NO_LIMITS,
        expected: ExpectedRun {
            outcome: Outcome::Failed,
            passed: 2,
            failures: &["example.com/twomodules/beta/TestName"],
            ..PASSED
        },
    },
    DemoCase {
        fixture: ENDLESS,
        about: "a test that never ends meets a timeout of 5 s",
        limits: Limits { wall_ms: 5_000, ..NO_LIMITS },
        expected: ExpectedRun {
            outcome: Outcome::TimedOut,
            passed: 1,
            running: &["example.com/hang/TestHangs"],
            ..PASSED
        },
    },
    DemoCase {
        fixture: "oom",
        about: "a test that takes ever more memory meets a limit of 512 MiB",
        limits: Limits { memory_bytes: 512 * MIB, ..NO_LIMITS },
        expected: ExpectedRun {
            outcome: Outcome::OutOfMemory,
            passed: 1,
            running: &["example.com/oom/TestEatsMemory"],
            ..PASSED
        },
    },
    DemoCase {
        fixture: "forkbomb",
        about: "a test that starts ever more processes meets a limit of 200",
        limits: Limits { pids: 200, ..NO_LIMITS },
        expected: ExpectedRun {
            outcome: Outcome::PidsExhausted,
            passed: 1,
            failures: &["example.com/forkbomb/TestForksUntilRefused"],
            ..PASSED
        },
    },
];

/// A line that tests of two packages execute.
pub(crate) const COVERED_LINE: (&str, u32) = ("calc/calc.go", 6);
/// The packages with tests that execute [`COVERED_LINE`].
pub(crate) const COVERING_PACKAGES: [&str; 2] = ["example.com/pass/calc", "example.com/pass/invoice"];

/// The repairs of [`REPAIRED`]: file, wrong text, right text.
pub(crate) const REPAIRS: [(&str, &str, &str); 2] = [
    (
        "greet.go",
        "return \"Hello, \" + name\n",
        "if name == \"\" {\n\t\treturn \"Hello, \"\n\t}\n\treturn \"Hello, \" + name + \"!\"\n",
    ),
    ("greet.go", "return parts[:len(parts)-1]\n", "return parts\n"),
];

/// Expected result of the rerun after the repairs: two of the failures are in the tests themselves.
pub(crate) const AFTER_REPAIR: ExpectedRun = ExpectedRun {
    outcome: Outcome::Failed,
    passed: 3,
    failures: &["example.com/fail/TestPlain", "example.com/fail/TestSilent"],
    ..PASSED
};

/// The actual result of a run.
pub(crate) struct ActualRun {
    pub(crate) outcome: Outcome,
    pub(crate) summary: Summary,
    pub(crate) failures: BTreeSet<String>,
    pub(crate) running: BTreeSet<String>,
}

impl ExpectedRun {
    /// All differences between the expected and the actual result, one sentence each.
    pub(crate) fn differences(&self, actual: &ActualRun) -> Vec<String> {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let mut differences = Vec::new();
        let mut compare = |what: &str, expected: String, actual: String| {
            if expected != actual {
                differences.push(format!("{what}: expected {expected}, got {actual}"));
            }
        };
        compare("outcome", format!("{:?}", self.outcome), format!("{:?}", actual.outcome));
        compare("passed", self.passed.to_string(), actual.summary.passed.to_string());
        compare("skipped", self.skipped.to_string(), actual.summary.skipped.to_string());
        compare("failures", format!("{:?}", set(self.failures)), format!("{:?}", actual.failures));
        compare("running", format!("{:?}", set(self.running)), format!("{:?}", actual.running));
        differences
    }
}

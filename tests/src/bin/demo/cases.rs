//! What is run and what has to come of it: one row for each fixture. Must not know how it is run or shown.

use proctor_proto::v1::{Limits, Outcome, Summary};
use std::collections::BTreeSet;

const MIB: u64 = 1024 * 1024;

/// One fixture.
pub(crate) struct Case {
    /// Directory below `fixtures/go`.
    pub(crate) fixture: &'static str,
    /// What it shows.
    pub(crate) about: &'static str,
    /// Limits of its run; 0 leaves the default.
    pub(crate) limits: Limits,
    /// What has to come of it.
    pub(crate) expected: Expected,
}

/// What has to come of a run.
pub(crate) struct Expected {
    pub(crate) outcome: Outcome,
    pub(crate) passed: u64,
    pub(crate) skipped: u64,
    /// Everything that `last_test_failures` has to list, by its node id. A parent that fails only because of its subtest is
    /// not listed.
    pub(crate) failures: &'static [&'static str],
    /// Tests that have to be running when the run is cut off.
    pub(crate) running: &'static [&'static str],
}

const NO_LIMITS: Limits =
    Limits { memory_bytes: 0, cpu_millis: 0, pids: 0, wall_ms: 0, grace_ms: 0, log_bytes: 0, tmp_bytes: 0, disk_bytes: 0 };

const PASSED: Expected = Expected { outcome: Outcome::Passed, passed: 0, skipped: 0, failures: &[], running: &[] };

/// Its covering tests are asked for.
pub(crate) const COVERED: &str = "pass";
/// Its failing tests are run again after it was mended.
pub(crate) const MENDED: &str = "fail";
/// It is in flight when the supervisor is told to stop.
pub(crate) const ENDLESS: &str = "hang";

/// All fixtures, in the order in which they are shown.
pub(crate) const CASES: [Case; 8] = [
    Case {
        fixture: COVERED,
        about: "everything passes, and coverage says which test executes which line",
        limits: NO_LIMITS,
        expected: Expected { passed: 5, ..PASSED },
    },
    Case {
        fixture: MENDED,
        about: "failures of several shapes, each with its place and what was expected",
        limits: NO_LIMITS,
        expected: Expected {
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
    Case {
        fixture: "panic",
        about: "a panic ends the test process, and takes a parallel test with it",
        limits: NO_LIMITS,
        expected: Expected {
            outcome: Outcome::Failed,
            passed: 1,
            failures: &["example.com/panic/TestPanics/empty", "example.com/panic/TestParallelSibling"],
            ..PASSED
        },
    },
    Case {
        fixture: "builderror",
        about: "one package does not compile; what can run still runs",
        limits: NO_LIMITS,
        expected: Expected {
            outcome: Outcome::BuildFailed,
            passed: 1,
            failures: &["example.com/builderror/broken"],
            ..PASSED
        },
    },
    Case {
        fixture: "twomodules",
        about: "two Go modules side by side in one workspace",
        limits: NO_LIMITS,
        expected: Expected {
            outcome: Outcome::Failed,
            passed: 2,
            failures: &["example.com/twomodules/beta/TestName"],
            ..PASSED
        },
    },
    Case {
        fixture: ENDLESS,
        about: "a test that never ends meets a timeout of 5 s",
        limits: Limits { wall_ms: 5_000, ..NO_LIMITS },
        expected: Expected {
            outcome: Outcome::TimedOut,
            passed: 1,
            running: &["example.com/hang/TestHangs"],
            ..PASSED
        },
    },
    Case {
        fixture: "oom",
        about: "a test that takes ever more memory meets a limit of 512 MiB",
        limits: Limits { memory_bytes: 512 * MIB, ..NO_LIMITS },
        expected: Expected {
            outcome: Outcome::OutOfMemory,
            passed: 1,
            running: &["example.com/oom/TestEatsMemory"],
            ..PASSED
        },
    },
    Case {
        fixture: "forkbomb",
        about: "a test that starts ever more processes meets a limit of 200",
        limits: Limits { pids: 200, ..NO_LIMITS },
        expected: Expected {
            outcome: Outcome::PidsExhausted,
            passed: 1,
            failures: &["example.com/forkbomb/TestForksUntilRefused"],
            ..PASSED
        },
    },
];

/// A line that tests of two packages execute.
pub(crate) const COVERED_LINE: (&str, u32) = ("calc/calc.go", 6);
/// The packages whose tests do.
pub(crate) const COVERING_PACKAGES: [&str; 2] = ["example.com/pass/calc", "example.com/pass/invoice"];

/// How the source of [`MENDED`] is mended: file, what is wrong, what is right.
pub(crate) const MENDING: [(&str, &str, &str); 2] = [
    (
        "greet.go",
        "return \"Hello, \" + name\n",
        "if name == \"\" {\n\t\treturn \"Hello, \"\n\t}\n\treturn \"Hello, \" + name + \"!\"\n",
    ),
    ("greet.go", "return parts[:len(parts)-1]\n", "return parts\n"),
];

/// What the rerun of its failing tests has to come to then: two failures had nothing to do with the source.
pub(crate) const AFTER_MENDING: Expected = Expected {
    outcome: Outcome::Failed,
    passed: 3,
    failures: &["example.com/fail/TestPlain", "example.com/fail/TestSilent"],
    ..PASSED
};

/// What a run came to.
pub(crate) struct Found {
    pub(crate) outcome: Outcome,
    pub(crate) summary: Summary,
    pub(crate) failures: BTreeSet<String>,
    pub(crate) running: BTreeSet<String>,
}

impl Expected {
    /// Every difference between what was expected and what was found, one sentence each.
    pub(crate) fn differences(&self, found: &Found) -> Vec<String> {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let mut differences = Vec::new();
        let mut compare = |what: &str, expected: String, found: String| {
            if expected != found {
                differences.push(format!("{what}: expected {expected}, found {found}"));
            }
        };
        compare("outcome", format!("{:?}", self.outcome), format!("{:?}", found.outcome));
        compare("passed", self.passed.to_string(), found.summary.passed.to_string());
        compare("skipped", self.skipped.to_string(), found.summary.skipped.to_string());
        compare("failures", format!("{:?}", set(self.failures)), format!("{:?}", found.failures));
        compare("running", format!("{:?}", set(self.running)), format!("{:?}", found.running));
        differences
    }
}

//! The types of the table of expected outcomes.

/// One run and its expected result at every interface.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Name of the row and of its tests.
    pub name: &'static str,
    /// Directory below `fixtures` that becomes the workspace.
    pub fixture: &'static str,
    /// Options of the request.
    pub options: RunOptions,
    /// Expected outcome of the run.
    pub outcome: &'static str,
    /// Exit status of `proctor run`.
    pub exit_status: i32,
    /// `exit_code` of the report, the N in the text's `exit: N`.
    pub exit_code: i32,
    /// `raw_exit_code` of the report.
    pub raw_exit_code: Option<i32>,
    /// `framework` of the report.
    pub framework: &'static str,
    /// Whether the report has results for single tests.
    pub structured: bool,
    /// Whether the run was cut off.
    pub partial: bool,
    /// Whether the report must say that tests were left out. Where false, the report may still say so.
    pub unreached: bool,
    /// All outcomes in the evidence, in order.
    pub held: &'static [&'static str],
    /// Reason for which proctor killed the run.
    pub killed: Option<&'static str>,
    /// All tests except the numbered ones, in any order.
    pub tests: &'static [Case],
    /// Further passing tests: a node id in which `{}` stands for a number from 0, and their count.
    pub numbered_passed: (&'static str, usize),
    /// Number of tests that both failed and passed.
    pub flaky: u64,
    /// Further skipped tests, in the same form. For runners with a process per test, where 10,000 passes take minutes.
    pub numbered_skipped: (Case, usize),
    /// All build and collection errors, in any order.
    pub collectors: &'static [Collector],
    /// Node ids of the tests that were running when the run was cut off.
    pub running: &'static [&'static str],
    /// Where those of them hang whose runner printed a stack: node id, file and line.
    pub hung: &'static [(&'static str, &'static str, u32)],
    /// Number of tests that the runner announces while it runs; checked in rows that last until their deadline.
    pub announced: Option<u64>,
    /// Names of the limits that the run hit.
    pub limit_hits: &'static [&'static str],
    /// Expected attribution of lines to tests.
    pub covering: &'static [Covering],
    /// Least number of bytes that the run writes.
    pub output_bytes_min: u64,
    /// All artifacts in order; empty where the test does not check them.
    pub artifacts: &'static [Artifact],
}

/// An artifact: its kind, its name, and its first bytes.
pub type Artifact = (&'static str, &'static str, &'static [u8]);

/// The request options of a row; everything else has its default.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Filter; empty for none.
    pub filter: &'static str,
    /// Command in place of the framework's own; empty for none.
    pub command: &'static [&'static str],
    /// Memory limit in MiB, used by interfaces that accept one.
    pub memory_mib: Option<u64>,
    /// Process limit, used by interfaces that accept one.
    pub pids: Option<u32>,
    /// Wall time limit in seconds.
    pub timeout_s: Option<u64>,
}

/// A test and its expected result.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Full name in the runner's own form.
    pub nodeid: &'static str,
    /// passed, failed, skipped, xfailed, xpassed or error.
    pub outcome: &'static str,
    /// Where it failed.
    pub at: Option<(&'static str, u32)>,
    /// Failure message.
    pub message: Option<&'static str>,
    /// Expected value in the message.
    pub expected: Option<&'static str>,
    /// Actual value in the message.
    pub actual: Option<&'static str>,
    /// Whether the list of failures leaves it out: a parent that failed only because its subtests did.
    pub hidden: bool,
}

/// A build or collection error.
#[derive(Debug, Clone, Copy)]
pub struct Collector {
    /// Package or file.
    pub nodeid: &'static str,
    /// build or collection.
    pub kind: &'static str,
    /// Location of the first error.
    pub at: Option<(&'static str, u32)>,
    /// Text of the first error.
    pub message: &'static str,
}

/// The tests that execute a line.
#[derive(Debug, Clone, Copy)]
pub struct Covering {
    /// Source file.
    pub file: &'static str,
    /// Line number, from 1.
    pub line: u32,
    /// Packages whose tests execute the line, in order. Go attributes coverage to packages.
    pub packages: &'static [&'static str],
}

impl RunOptions {
    /// All tests with all defaults.
    pub const ALL: RunOptions = RunOptions { filter: "", command: &[], memory_mib: None, pids: None, timeout_s: None };
}

impl Row {
    /// A passing Go run, the base for other rows.
    pub const PASSED: Row = Row {
        name: "",
        fixture: "",
        options: RunOptions::ALL,
        outcome: "passed",
        exit_status: 0,
        exit_code: 0,
        raw_exit_code: Some(0),
        framework: "go",
        structured: true,
        partial: false,
        unreached: false,
        held: &["passed"],
        killed: None,
        tests: &[],
        numbered_passed: ("", 0),
        flaky: 0,
        numbered_skipped: (Case::skipped(""), 0),
        collectors: &[],
        running: &[],
        hung: &[],
        announced: None,
        limit_hits: &[],
        covering: &[],
        output_bytes_min: 0,
        artifacts: &[],
    };

    /// A Go run with failed tests.
    pub const FAILED: Row = Row {
        outcome: "failed",
        exit_status: 1,
        exit_code: 1,
        raw_exit_code: Some(1),
        held: &["failed"],
        ..Row::PASSED
    };

    /// A Go run that does not build.
    pub const BUILD_FAILED: Row =
        Row { outcome: "build_failed", exit_status: 3, held: &["build_failed"], ..Row::FAILED };

    /// The failures that `last_test_failures` must list: failed tests, then collectors.
    #[must_use]
    pub fn failures(&self) -> Vec<Case> {
        let tests = self.tests.iter().filter(|case| case.is_failure() && !case.hidden).copied();
        let collectors = self.collectors.iter().map(|collector| Case {
            at: collector.at,
            message: Some(collector.message),
            ..Case::failed(collector.nodeid)
        });
        tests.chain(collectors).collect()
    }

    /// Number of tests.
    #[must_use]
    pub fn total(&self) -> usize {
        self.tests.len() + self.numbered_passed.1 + self.numbered_skipped.1
    }

    /// Number of tests with this outcome.
    #[must_use]
    pub fn count(&self, outcome: &str) -> u64 {
        let numbered = match outcome {
            "passed" => self.numbered_passed.1,
            "skipped" => self.numbered_skipped.1,
            _ => 0,
        };
        (self.tests.iter().filter(|case| case.outcome == outcome).count() + numbered) as u64
    }
}

impl Case {
    /// A passing test.
    #[must_use]
    pub const fn passed(nodeid: &'static str) -> Case {
        Case { nodeid, outcome: "passed", at: None, message: None, expected: None, actual: None, hidden: false }
    }

    /// A failing test without message.
    #[must_use]
    pub const fn failed(nodeid: &'static str) -> Case {
        Case { outcome: "failed", ..Case::passed(nodeid) }
    }

    /// A parent test that fails only because its subtests do.
    #[must_use]
    pub const fn parent(nodeid: &'static str) -> Case {
        Case { hidden: true, ..Case::failed(nodeid) }
    }

    /// A test cut off by a crash.
    #[must_use]
    pub const fn error(nodeid: &'static str) -> Case {
        Case { outcome: "error", ..Case::passed(nodeid) }
    }

    /// A skipped test.
    #[must_use]
    pub const fn skipped(nodeid: &'static str) -> Case {
        Case { outcome: "skipped", ..Case::passed(nodeid) }
    }

    /// A test that is expected to fail and fails.
    #[must_use]
    pub const fn xfailed(nodeid: &'static str) -> Case {
        Case { outcome: "xfailed", ..Case::passed(nodeid) }
    }

    /// A test that is expected to fail and passes.
    #[must_use]
    pub const fn xpassed(nodeid: &'static str) -> Case {
        Case { outcome: "xpassed", ..Case::passed(nodeid) }
    }

    /// Sets the location; line 0 where the line is unknown.
    #[must_use]
    pub const fn at(self, file: &'static str, line: u32) -> Case {
        Case { at: Some((file, line)), ..self }
    }

    /// Sets the message.
    #[must_use]
    pub const fn with_message(self, message: &'static str) -> Case {
        Case { message: Some(message), ..self }
    }

    /// Sets the expected and the actual value.
    #[must_use]
    pub const fn with_values(self, expected: &'static str, actual: &'static str) -> Case {
        Case { expected: Some(expected), actual: Some(actual), ..self }
    }

    /// Whether the test counts as a failure.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.outcome, "failed" | "error")
    }
}

impl Collector {
    /// A build error.
    #[must_use]
    pub const fn build(nodeid: &'static str, message: &'static str) -> Collector {
        Collector { nodeid, kind: "build", at: None, message }
    }

    /// A collection error: the code compiles but cannot be loaded or listed.
    #[must_use]
    pub const fn collection(nodeid: &'static str, message: &'static str) -> Collector {
        Collector { kind: "collection", ..Collector::build(nodeid, message) }
    }

    /// Sets the location.
    #[must_use]
    pub const fn at(self, file: &'static str, line: u32) -> Collector {
        Collector { at: Some((file, line)), ..self }
    }
}

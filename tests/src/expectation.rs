//! The words of the table of expected outcomes. Must not know any fixture.

/// One run and everything that has to come of it, at every entrance.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// The directory below `fixtures` that is copied as its workspace.
    pub fixture: &'static str,
    /// What is asked for.
    pub options: RunOptions,
    /// The outcome.
    pub outcome: &'static str,
    /// Exit status of `proctor run`.
    pub exit_status: i32,
    /// The report's exit_code, the N of the text's `exit: N`.
    pub exit_code: i32,
    /// The report's raw_exit_code.
    pub raw_exit_code: Option<i32>,
    /// `go`, or `custom`.
    pub framework: &'static str,
    /// Whether there are results test by test.
    pub structured: bool,
    /// Whether the run was cut off.
    pub partial: bool,
    /// Whether it says that tests were left out. It may say so of any row where nobody asks.
    pub unreached: bool,
    /// Every outcome that held.
    pub held: &'static [&'static str],
    /// Why proctor killed it.
    pub killed: Option<&'static str>,
    /// The tests, all of them, in any order.
    pub tests: &'static [Case],
    /// So many more that pass: node ids in which each `{}` stands for a number, from 0.
    pub many: (&'static str, usize),
    /// How many both failed and passed.
    pub flaky: u64,
    /// So many more that are skipped, in the same form: where each test that runs is a process, ten thousand take minutes.
    pub many_skipped: (Case, usize),
    /// What could not be built or collected, all of it, in any order.
    pub collectors: &'static [Collector],
    /// Node ids of the tests that were running when it was cut off.
    pub running: &'static [&'static str],
    /// Names of the limits that were hit.
    pub hits: &'static [&'static str],
    /// Which tests execute which lines.
    pub covering: &'static [Covering],
    /// Bytes that it writes at least.
    pub output_bytes_min: u64,
    /// Files that it leaves, all of them: kind, name, and how they begin. Empty where nobody looks.
    pub artifacts: &'static [Artifact],
}

/// A file that a run leaves: its kind, its name, and how it begins.
pub type Artifact = (&'static str, &'static str, &'static [u8]);

/// What a row asks for; the rest is left to the defaults.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// The filter; empty for none.
    pub filter: &'static str,
    /// A command that replaces the framework's own.
    pub command: &'static [&'static str],
    /// Memory in MiB, for entrances that can ask for it.
    pub memory_mib: Option<u64>,
    /// Processes, for entrances that can ask for them.
    pub pids: Option<u32>,
    /// Seconds of wall time.
    pub timeout_s: Option<u64>,
}

/// A test and what becomes of it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The runner's own form of its whole name.
    pub nodeid: &'static str,
    /// passed, failed, skipped, xfailed, xpassed or error.
    pub outcome: &'static str,
    /// Where it failed.
    pub at: Option<(&'static str, u32)>,
    /// What is said about it.
    pub message: Option<&'static str>,
    /// The wanted value.
    pub expected: Option<&'static str>,
    /// The value that came instead.
    pub actual: Option<&'static str>,
    /// Whether the list of failures leaves it out: a parent that failed only because its subtests did.
    pub hidden: bool,
}

/// Something that could not be built or collected.
#[derive(Debug, Clone, Copy)]
pub struct Collector {
    /// The package.
    pub nodeid: &'static str,
    /// build or collection.
    pub kind: &'static str,
    /// Where the first error is.
    pub at: Option<(&'static str, u32)>,
    /// The first error.
    pub message: &'static str,
}

/// The tests that execute a line.
#[derive(Debug, Clone, Copy)]
pub struct Covering {
    /// The file.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// Packages whose tests execute it, in order. Go attributes to packages.
    pub packages: &'static [&'static str],
}

impl RunOptions {
    /// All tests with all defaults.
    pub const ALL: RunOptions = RunOptions { filter: "", command: &[], memory_mib: None, pids: None, timeout_s: None };
}

impl Row {
    /// A row of a Go run that passes, to begin others with.
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
        many: ("", 0),
        flaky: 0,
        many_skipped: (Case::skipped(""), 0),
        collectors: &[],
        running: &[],
        hits: &[],
        covering: &[],
        output_bytes_min: 0,
        artifacts: &[],
    };

    /// A row of a Go run in which tests fail.
    pub const FAILED: Row = Row {
        outcome: "failed",
        exit_status: 1,
        exit_code: 1,
        raw_exit_code: Some(1),
        held: &["failed"],
        ..Row::PASSED
    };

    /// A row of a Go run that does not build.
    pub const BUILD_FAILED: Row =
        Row { outcome: "build_failed", exit_status: 3, held: &["build_failed"], ..Row::FAILED };

    /// What `last_test_failures` lists: node id, place, message, and the diff.
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

    /// How many tests there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.tests.len() + self.many.1 + self.many_skipped.1
    }

    /// Tests with that outcome.
    #[must_use]
    pub fn count(&self, outcome: &str) -> u64 {
        let many = match outcome {
            "passed" => self.many.1,
            "skipped" => self.many_skipped.1,
            _ => 0,
        };
        (self.tests.iter().filter(|case| case.outcome == outcome).count() + many) as u64
    }
}

impl Case {
    /// A test that passes.
    #[must_use]
    pub const fn passed(nodeid: &'static str) -> Case {
        Case { nodeid, outcome: "passed", at: None, message: None, expected: None, actual: None, hidden: false }
    }

    /// A test that fails and says nothing.
    #[must_use]
    pub const fn failed(nodeid: &'static str) -> Case {
        Case { outcome: "failed", ..Case::passed(nodeid) }
    }

    /// A parent that fails because its subtests do.
    #[must_use]
    pub const fn parent(nodeid: &'static str) -> Case {
        Case { hidden: true, ..Case::failed(nodeid) }
    }

    /// A test that a crash cut off.
    #[must_use]
    pub const fn error(nodeid: &'static str) -> Case {
        Case { outcome: "error", ..Case::passed(nodeid) }
    }

    /// A test that is skipped.
    #[must_use]
    pub const fn skipped(nodeid: &'static str) -> Case {
        Case { outcome: "skipped", ..Case::passed(nodeid) }
    }

    /// A test that is expected to fail, and does.
    #[must_use]
    pub const fn xfailed(nodeid: &'static str) -> Case {
        Case { outcome: "xfailed", ..Case::passed(nodeid) }
    }

    /// A test that is expected to fail, and passes.
    #[must_use]
    pub const fn xpassed(nodeid: &'static str) -> Case {
        Case { outcome: "xpassed", ..Case::passed(nodeid) }
    }

    /// The same with a place; line 0 where none is known.
    #[must_use]
    pub const fn at(self, file: &'static str, line: u32) -> Case {
        Case { at: Some((file, line)), ..self }
    }

    /// The same with a message.
    #[must_use]
    pub const fn says(self, message: &'static str) -> Case {
        Case { message: Some(message), ..self }
    }

    /// The same with the wanted and the actual value.
    #[must_use]
    pub const fn wants(self, expected: &'static str, actual: &'static str) -> Case {
        Case { expected: Some(expected), actual: Some(actual), ..self }
    }

    /// Whether somebody has to look at it.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.outcome, "failed" | "error")
    }
}

impl Collector {
    /// Something that does not compile.
    #[must_use]
    pub const fn build(nodeid: &'static str, message: &'static str) -> Collector {
        Collector { nodeid, kind: "build", at: None, message }
    }

    /// Something that compiles and cannot be run as tests.
    #[must_use]
    pub const fn collection(nodeid: &'static str, message: &'static str) -> Collector {
        Collector { kind: "collection", ..Collector::build(nodeid, message) }
    }

    /// The same with a place.
    #[must_use]
    pub const fn at(self, file: &'static str, line: u32) -> Collector {
        Collector { at: Some((file, line)), ..self }
    }
}

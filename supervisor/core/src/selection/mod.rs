//! Which tests a change may affect: the tests that have to run, most likely to fail first, or that all have to, and why.
//!
//! The input is what changed since an earlier state, the coverage index with the text that its lines refer to, the imports of
//! the sources, and the last result of every test. Wherever one of these does not tell, the answer is a full run. The table
//! of files is in `file_kind`; `rules` applies it.

mod baseline;
mod body;
mod changed_lines;
mod file_kind;
mod go;
mod javascript_bodies;
mod javascript_files;
mod javascript_rules;
mod javascript_text;
mod line_shape;
mod picks;
mod python_bodies;
mod python_modules;
mod python_names;
mod python_rules;
mod python_stores;
mod rules;
mod rust_bodies;
mod rust_manifest;
mod rust_packages;
mod rust_rules;
mod rust_text;
mod selection_input;
mod snapshot;
mod text;

pub use baseline::{Baseline, CoveringNow, EndedRun, LastResult, SeenFiles, covering_now};
pub use file_kind::{Ecosystem, FileKind};
pub use rules::select;
pub use selection_input::SelectionInput;
pub use snapshot::{ChangedFile, HowChanged, Snapshot, SnapshotFile};
pub use text::{ContentHash, FileText, LineMap};

use crate::bounds::{SELECTION_CHANGES_MAX, SELECTION_NAMED_FILES_MAX};
use crate::request::RerunTarget;
use crate::test_case::TestId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a test is selected. The order is from more to less likely to fail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It failed, or did not come to its end, when it last ran.
    FailedLast,
    /// It executed a changed line of this file.
    ExecutedLine(String),
    /// It, or another test of its file, package or target, executed a function in which lines of this file changed.
    ExecutedFunction(String),
    /// Its own file or package changed.
    OwnFile(String),
    /// It executed lines of this file.
    TouchedFile(String),
    /// This file sets up its tests.
    SetUp(String),
    /// Its file or package imports this file, directly or through others.
    Imports(String),
    /// Its file loaded this file, or names it.
    Loaded(String),
    /// It passed and failed in one run.
    Flaky,
    /// It may run or read any source, and this one changed.
    ReachesAll(String),
    /// What it executes is not known.
    Unmapped,
    /// It was skipped when it last ran.
    SkippedLast,
}

impl Reason {
    /// The reason without its file, for counts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Reason::FailedLast => "failed last time",
            Reason::ExecutedLine(_) => "executed a changed line",
            Reason::ExecutedFunction(_) => "its file, package or target executed a changed function",
            Reason::OwnFile(_) => "own file or package changed",
            Reason::TouchedFile(_) => "executed lines of a changed file",
            Reason::SetUp(_) => "set up by a changed file",
            Reason::Imports(_) => "imports a changed file",
            Reason::Loaded(_) => "loads a changed file",
            Reason::Flaky => "flaky",
            Reason::ReachesAll(_) => "may run or read any source",
            Reason::Unmapped => "what it executes is not known",
            Reason::SkippedLast => "skipped last time",
        }
    }

    /// The file of the reason.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        match self {
            Reason::ExecutedLine(file)
            | Reason::ExecutedFunction(file)
            | Reason::OwnFile(file)
            | Reason::TouchedFile(file)
            | Reason::SetUp(file)
            | Reason::Imports(file)
            | Reason::Loaded(file)
            | Reason::ReachesAll(file) => Some(file),
            Reason::FailedLast | Reason::Flaky | Reason::Unmapped | Reason::SkippedLast => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file() {
            Some(file) => write!(formatter, "{}: {file}", self.kind()),
            None => formatter.write_str(self.kind()),
        }
    }
}

/// Why all tests have to run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FullReason {
    /// No run of all tests has ended here with the result of each.
    #[error("no run of all tests has ended here with a result for each of them")]
    NoBaseline,
    /// No such run has passed.
    #[error("no run of all tests has passed here")]
    NeverGreen,
    /// The framework's tests cannot be selected.
    #[error(
        "tests of {framework} are not selected by changes: that works for cargo, go, jest, mocha, nextest, node, pytest, unittest and vitest"
    )]
    Unsupported {
        /// The framework.
        framework: String,
    },
    /// No coverage was measured.
    #[error("no coverage has been measured here")]
    NoCoverage,
    /// A file that decides what is built or run, and how.
    #[error("{file}, {what}, was {how}")]
    Settings {
        /// The file.
        file: String,
        /// What it is.
        what: &'static str,
        /// How it changed.
        how: &'static str,
    },
    /// A file that any test may read.
    #[error("{file} was {how}, and any test may read it")]
    Data {
        /// The file.
        file: String,
        /// How it changed.
        how: &'static str,
    },
    /// A source that belongs to no package.
    #[error("{file} was {how}, and it belongs to no package of the workspace")]
    NoPackage {
        /// The file.
        file: String,
        /// How it changed.
        how: &'static str,
    },
    /// What the test files load was not measured.
    #[error("which files the tests load has not been measured here in the last run of all tests")]
    NoLoads,
    /// A source that no test was seen to load.
    #[error("{file} was {how}, and no test was seen to load it: a setting, a transformer or a type check may")]
    NotLoaded {
        /// The file.
        file: String,
        /// How it changed.
        how: &'static str,
    },
    /// The runner may build what tests load.
    #[error("{file}, which the runner loads for itself, {sign}: it may build what any test loads")]
    RunnerBuild {
        /// The runner's file.
        file: String,
        /// What its text says, in words.
        sign: String,
    },
    /// A source may set something up for tests that do not load it.
    #[error("{file} was {how}, and may now set something up for tests that do not load it: a new line names {word}")]
    SetsUpOthers {
        /// The file.
        file: String,
        /// How it changed.
        how: &'static str,
        /// What the line has.
        word: &'static str,
    },
    /// More than [`SELECTION_NAMED_FILES_MAX`] files whose names are searched in sources.
    #[error("there are more than {SELECTION_NAMED_FILES_MAX} {what}, and which sources name them is not looked up")]
    TooManyNames {
        /// The files, in words.
        what: &'static str,
    },
    /// More than [`SELECTION_CHANGES_MAX`] files changed.
    #[error("more than {SELECTION_CHANGES_MAX} files changed, and so many are not compared line by line")]
    TooManyChanges,
    /// A file that may stand in for another.
    #[error("{file} was {how}, and it may be loaded in place of {other}")]
    InPlaceOf {
        /// The file.
        file: String,
        /// How it changed.
        how: &'static str,
        /// The other, in words.
        other: String,
    },
    /// A source of which the types are checked.
    #[error("{file} was {how}, and {checker} checks types, also of files that load nothing of it")]
    TypeChecked {
        /// The file.
        file: String,
        /// How it changed.
        how: &'static str,
        /// Who checks.
        checker: &'static str,
    },
    /// A file that may be a test file.
    #[error("{file} was {how}, and it may be a test file: {why}")]
    MaybeTest {
        /// The file.
        file: String,
        /// How it changed.
        how: &'static str,
        /// Why.
        why: &'static str,
    },
    /// Modules are loaded by a convention.
    #[error("sources or settings with {word} load modules by a convention that no import shows")]
    Convention {
        /// The word.
        word: &'static str,
    },
    /// The request's settings differ from those of the baseline.
    #[error("{what} of the last run differ from those of the last run of all tests")]
    OtherSettings {
        /// Which.
        what: &'static str,
    },
    /// A run of some packages builds something else than a run of all.
    #[error("a run of some packages may build other programs than a run of all: {why}")]
    OtherBuild {
        /// Why.
        why: &'static str,
    },
    /// A program or installed library changed.
    #[error("{what} changed, which the tests run with")]
    Tools {
        /// Its name.
        what: String,
    },
    /// Files are missing in a comparison.
    #[error("what changed is not known: {why}")]
    UnknownChanges {
        /// Why.
        why: String,
    },
    /// The last run names not all of its failures.
    #[error("the last run did not pass, and not all of its failures are known by name")]
    UnknownFailures,
    /// The files of all known tests were removed.
    #[error("the files of all known tests are gone")]
    NoneLeft,
    /// The runner cannot be called with the selected tests.
    #[error("the selected tests need more commands than one run may have")]
    TooManyCommands,
}

impl FullReason {
    /// Whether a run that measures coverage is what is missing.
    #[must_use]
    pub fn lacks_coverage(&self) -> bool {
        matches!(self, FullReason::NoBaseline | FullReason::NoCoverage | FullReason::NoLoads)
    }
}

/// A test that has to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedTest {
    /// The test.
    pub test: TestId,
    /// Why: the strongest reason.
    pub reason: Reason,
}

/// The tests that a change may affect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffectedTests {
    /// The state that the workspace was compared with, in words.
    pub since: String,
    /// Why all tests have to run; `None` if not all have to.
    pub full_reason: Option<FullReason>,
    /// The known tests that have to run, most likely to fail first. Empty for a full run.
    pub selected: Vec<SelectedTest>,
    /// What to run: whole packages or files where all of their tests are selected.
    pub targets: Vec<RerunTarget>,
    /// Number of all known tests.
    pub known: u64,
    /// Number of changed files.
    pub changed_files: u64,
    /// Tests that ran alone, too, where what tests executed decides.
    pub ran_alone: u64,
    /// What the comparison does not see.
    pub notes: Vec<String>,
}

/// What a run of affected tests selected, for its report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffectedSummary {
    /// The state that the workspace was compared with, in words.
    pub since: String,
    /// Known tests that were selected; of a full run all.
    pub selected: u64,
    /// Known tests that were left out.
    pub left_out: u64,
    /// Why all tests ran; `None` if not all did.
    pub full_reason: Option<String>,
    /// Why it is safe to leave out the others; empty if none is left out.
    pub safe_because: String,
    /// Selected tests by reason, the strongest reason first.
    pub reasons: Vec<ReasonCount>,
    /// Packages or files that ran as a whole.
    #[serde(skip)]
    pub whole_units: Vec<String>,
}

/// Number of tests with one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonCount {
    /// The reason.
    pub reason: String,
    /// The tests.
    pub tests: u64,
}

impl AffectedSummary {
    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let units: usize = self.whole_units.iter().map(|unit| unit.len() + size_of::<String>()).sum();
        units + self.since.len() + self.safe_because.len() + self.reasons.len() * 2 * size_of::<ReasonCount>()
    }
}

impl AffectedTests {
    /// A full run.
    #[must_use]
    pub fn full(since: String, reason: FullReason, known: u64) -> AffectedTests {
        AffectedTests {
            since,
            full_reason: Some(reason),
            selected: Vec::new(),
            targets: Vec::new(),
            known,
            changed_files: 0,
            ran_alone: 0,
            notes: Vec::new(),
        }
    }

    /// Whether nothing has to run.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.full_reason.is_none() && self.targets.is_empty()
    }

    /// Known tests that are left out.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        if self.full_reason.is_some() { 0 } else { self.known.saturating_sub(self.selected.len() as u64) }
    }

    /// Why it is safe to leave out the others.
    #[must_use]
    pub fn safe_because(&self) -> String {
        if self.left_out() == 0 {
            return String::new();
        }
        let alone = match self.ran_alone {
            0 => String::new(),
            count => format!("; {count} test(s) also ran alone, to find what a test executes for later ones"),
        };
        format!(
            "no measured line, import or setting leads from the {} file(s) changed since {} to the {} test(s) left out, \
             and each of them passed or was skipped when it last ran{alone}",
            self.changed_files,
            self.since,
            self.left_out()
        )
    }

    /// The summary for a report.
    #[must_use]
    pub fn summary(&self) -> AffectedSummary {
        let mut reasons: Vec<ReasonCount> = Vec::new();
        for test in &self.selected {
            match reasons.iter_mut().find(|count| count.reason == test.reason.kind()) {
                Some(count) => count.tests += 1,
                None => reasons.push(ReasonCount { reason: test.reason.kind().to_owned(), tests: 1 }),
            }
        }
        let whole = |target: &RerunTarget| match target {
            RerunTarget::Package(unit) => Some(unit.clone()),
            RerunTarget::Test(_) | RerunTarget::Name(_) => None,
        };
        AffectedSummary {
            since: self.since.clone(),
            selected: if self.full_reason.is_some() { self.known } else { self.selected.len() as u64 },
            left_out: self.left_out(),
            full_reason: self.full_reason.as_ref().map(ToString::to_string),
            safe_because: self.safe_because(),
            reasons,
            whole_units: self.targets.iter().filter_map(whole).collect(),
        }
    }
}

#[cfg(test)]
mod javascript_tests;
#[cfg(test)]
mod python_tests;
#[cfg(test)]
mod rust_tests;
#[cfg(test)]
mod tests;

//! What the run of a mutant showed.

use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_core::test_case::TestId;
use std::collections::BTreeSet;

/// Words of compilers in the errors of files that could not be loaded: the mutant is no program.
const COMPILER_WORDS: [&str; 4] = ["SyntaxError", "error TS", "TransformError", "Transform failed"];

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Tests failed.
    Killed { by: Vec<TestId> },
    /// The tests did not end in time.
    TimedOut,
    /// The run ended in another way that no test allows: a crash, no memory left.
    Ended(Outcome),
    /// The tests could not be loaded.
    NotLoaded,
    /// No test noticed it.
    Survived,
    /// It is no valid program.
    NotCompiled,
    /// Nothing can be said, and why.
    NotRun(String),
}

/// How the suite ends without a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unmutated {
    /// Tests that fail.
    pub(super) failing: BTreeSet<TestId>,
    pub(super) outcome: Outcome,
    /// Number of files and packages that cannot be built or loaded.
    pub(super) collectors: usize,
}

impl Verdict {
    /// What the run of some tests shows; `None` if the runner could not select them, so that only all tests can show it.
    pub(super) fn from_report(report: &Report, before: &Unmutated, ran_all: bool) -> Option<Verdict> {
        let failed = report.own_failures().map(proctor_core::test_case::TestCase::id);
        let by: Vec<TestId> = failed.filter(|test| !before.failing.contains(test)).collect();
        let ended_as_before = report.outcome == before.outcome && report.collectors.len() <= before.collectors;
        Some(match report.outcome {
            Outcome::Cancelled => Verdict::NotRun("cancelled".to_owned()),
            _ if !by.is_empty() => Verdict::Killed { by },
            _ if ran_all && ended_as_before => Verdict::Survived,
            Outcome::TimedOut => Verdict::TimedOut,
            Outcome::OutOfMemory
            | Outcome::DiskFull
            | Outcome::PidsExhausted
            | Outcome::OutputFlood
            | Outcome::Crashed => Verdict::Ended(report.outcome),
            Outcome::BuildFailed => Verdict::NotCompiled,
            Outcome::CollectionFailed if is_compile_error(report) => Verdict::NotCompiled,
            Outcome::CollectionFailed if ran_all => Verdict::NotLoaded,
            // A test whose name depends on the mutated code is not found under the old one.
            Outcome::CollectionFailed | Outcome::NoTests if !ran_all => return None,
            Outcome::Passed => Verdict::Survived,
            // The runner failed without a failed test: its own exit shows the mutant.
            Outcome::Failed if ran_all => Verdict::Ended(report.outcome),
            Outcome::Failed => return None,
            Outcome::WorkerLost | Outcome::RunnerMissing | Outcome::NoTests | Outcome::CollectionFailed => {
                Verdict::NotRun(report.outcome.name().to_owned())
            }
        })
    }

    /// The name in reports.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Verdict::Killed { .. } => "killed",
            Verdict::TimedOut => "timed_out",
            Verdict::Ended(outcome) => outcome.name(),
            Verdict::NotLoaded => "not_loaded",
            Verdict::Survived => "survived",
            Verdict::NotCompiled => "not_compiled",
            Verdict::NotRun(_) => "not_run",
        }
    }

    /// Whether the tests noticed it; `None` if it does not count.
    pub(super) fn is_noticed(&self) -> Option<bool> {
        match self {
            Verdict::Killed { .. } | Verdict::TimedOut | Verdict::Ended(_) | Verdict::NotLoaded => Some(true),
            Verdict::Survived => Some(false),
            Verdict::NotCompiled | Verdict::NotRun(_) => None,
        }
    }
}

fn is_compile_error(report: &Report) -> bool {
    let texts = report.collectors.iter().flat_map(|collector| [collector.message.as_str(), collector.output.as_str()]);
    texts.chain([report.stderr_tail.as_str()]).any(|text| COMPILER_WORDS.iter().any(|word| text.contains(word)))
}

//! What turns a runner's output into events, and what a parser concludes about a run.

use crate::contract::Step;
use proctor_core::artifact::ArtifactKind;
use proctor_core::check::CheckReport;
use proctor_core::coverage::{CoverageMeasurement, LoadedFiles, LoadedSource};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::TestId;

/// Reads a runner's output as it arrives. Memory stays bounded for any output, and nothing panics.
pub trait Parser: Send {
    /// A step starts.
    fn step_started(&mut self, step: usize);

    /// Bytes of stdout, split at any position.
    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>);

    /// Bytes of stderr, split at any position.
    fn stderr(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>);

    /// Bytes of the report, split at any position. They may arrive before or after output written to the streams at the same time.
    fn report(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    /// The processes were asked for their stacks, which may end them: what they report from now on is no fault of a test.
    fn stacks_requested(&mut self) {}

    /// A step ended, or proctor ended it (`killed`). Tests that started and did not finish become errors here, unless the run
    /// was killed: then they stay in [`Parser::running`].
    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>);

    /// The files that the run left in its artifact directory, by path. Called after the last step, also after a kill.
    fn files(&mut self, _files: &[(String, Vec<u8>)], _events: &mut Vec<RunnerEvent>) {}

    /// Commands to run because of the result of the step that just ended: after [`Parser::step_ended`], before the plan's next
    /// step, and not after a kill. [`Parser::step_started`] gets them with numbers that continue the plan's own, in the order in
    /// which they were returned. At most as many as the plan has steps.
    fn follow_up(&mut self) -> Vec<Step> {
        Vec::new()
    }

    /// Whether the runner reported in the last step that no test was selected. Several runners then exit with a status other
    /// than 0.
    fn nothing_selected(&self) -> bool {
        false
    }

    /// Kind of the file at `path` below [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY) and the test that
    /// left it, if the runner reported them.
    fn artifact_source(&self, _path: &str) -> Option<(ArtifactKind, TestId)> {
        None
    }

    /// Number of tests that both failed and passed in this run, each named in a note of [`Parser::summary`].
    fn flaky(&self) -> u64 {
        0
    }

    /// Tests that started and did not finish, the longest running first.
    fn running(&self) -> Vec<TestId>;

    /// Number of tests that the whole run will report, as the runner announced it: `None` until it has, and from one that does
    /// not. Never an estimate.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Where a running test is declared, if the runner reported it: file relative to the workspace, and line.
    fn declared_at(&self, _test: &TestId) -> Option<(String, u32)> {
        None
    }

    /// The report of a check by linters and type checkers, of what ran until now; `None` in a run of tests.
    fn check_report(&self) -> Option<CheckReport> {
        None
    }

    /// What the whole stream shows, after the last step.
    fn summary(&self) -> StreamSummary;
}

/// What a parser concludes from the whole stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamSummary {
    /// Whether the runner gives results test by test.
    pub structured: bool,
    /// Evidence that the runner finished and reported everything: missing unless a parser has seen it.
    pub proof: Proof,
    /// Whether the runner left out tests for another reason than the selection, without naming them.
    pub unreached: bool,
    /// Packages whose tests did not run because what they need was not built.
    pub not_built: Vec<String>,
    /// Whether the runner is not installed where its project looks for it (a module, a package).
    pub runner_missing: bool,
    /// Frameworks of several that executed no test, in a run whose scope leaves out tests.
    pub idle_frameworks: Vec<&'static str>,
    /// Sentences for the report's evidence.
    pub notes: Vec<String>,
}

/// Coverage measured by one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoverageHarvest {
    /// Sets of tests and the lines they executed.
    pub measured: Vec<CoverageMeasurement>,
    /// Sources that tests loaded, each once.
    pub sources: Vec<LoadedSource>,
    /// The files that test files loaded, where each has modules of its own.
    pub loaded: LoadedFiles,
    /// Why coverage is missing or incomplete.
    pub notes: Vec<String>,
}

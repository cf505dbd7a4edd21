//! Runs the mutants, several at a time, each in a session of its own: first the tests that execute its line, then, if none
//! of them fails, the tests that started processes, and on request the whole suite.

use super::baseline::Baseline;
use super::candidates::{Candidate, Candidates};
use super::verdict::Verdict;
use crate::cli::arguments::Output;
use crate::cli::mutate_arguments::MutateArgs;
use crate::cli::signals::Signals;
use crate::cli::{CommandError, run};
use crate::sessions::SessionHandle;
use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use proctor_core::limits::LimitRequest;
use proctor_core::report::Report;
use proctor_core::request::{CoverageMode, IfBusy, ReplacedFile, RerunTarget, RunKind, RunRequest, Selection};
use proctor_core::test_case::TestId;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// What became of one mutant.
#[derive(Debug, Clone)]
pub(super) struct MutantResult {
    pub(super) verdict: Verdict,
    /// Tests that were asked to notice it.
    pub(super) tests: usize,
    /// Whether only the whole suite noticed it: the covering tests did not suffice.
    pub(super) by_suite_only: bool,
    /// Wall time of its runs with their set-up, in seconds.
    pub(super) duration_s: f64,
}

/// The tests that a mutant is run with.
enum Tests<'a> {
    Some(&'a [TestId]),
    All,
}

/// The runs of all mutants.
pub(super) struct Campaign<'a> {
    sessions: &'a [SessionHandle],
    baseline: &'a Baseline,
    arguments: &'a MutateArgs,
}

impl<'a> Campaign<'a> {
    pub(super) fn new(
        sessions: &'a [SessionHandle],
        baseline: &'a Baseline,
        arguments: &'a MutateArgs,
    ) -> Campaign<'a> {
        Campaign { sessions, baseline, arguments }
    }

    /// Runs every mutant. The results are in the order of the mutants; those after a signal have none.
    pub(super) async fn run(
        &self,
        candidates: &Candidates,
        signals: &mut Signals,
    ) -> Result<Vec<Option<MutantResult>>, CommandError> {
        let chosen = &candidates.chosen;
        let results: RefCell<Vec<Option<MutantResult>>> = RefCell::new(vec![None; chosen.len()]);
        let (cancel, cancelled) = watch::channel(false);
        let (next, survived, bar) = (Cell::new(0), Cell::new(0_u64), self.bar(chosen.len()));
        let work = async |session: &SessionHandle| {
            while !*cancelled.borrow() {
                let index = next.replace(next.get() + 1);
                let Some(candidate) = chosen.get(index) else { break };
                let result = self.judge(session, candidate, cancelled.clone()).await;
                // The others need not go on for results that nobody gets.
                let result = result.inspect_err(|_| _ = cancel.send(true))?;
                survived.set(survived.get() + u64::from(result.verdict == Verdict::Survived));
                bar.inc(1);
                bar.set_message(format!("{} survived", survived.get()));
                results.borrow_mut()[index] = Some(result);
            }
            Ok::<(), CommandError>(())
        };
        let mut all = Box::pin(join_all(self.sessions.iter().map(work)));
        let ended = loop {
            tokio::select! {
                ended = &mut all => break ended,
                () = signals.any() => { _ = cancel.send(true); }
            }
        };
        bar.finish_and_clear();
        drop(all);
        ended.into_iter().collect::<Result<Vec<()>, CommandError>>()?;
        Ok(results.into_inner())
    }

    fn bar(&self, mutants: usize) -> ProgressBar {
        let is_shown = self.arguments.output == Output::Human;
        let target = if is_shown { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(mutants as u64), target);
        let style = ProgressStyle::with_template("{spinner} {elapsed} · mutant {pos} of {len} · {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    }

    async fn judge(
        &self,
        session: &SessionHandle,
        candidate: &Candidate,
        cancelled: watch::Receiver<bool>,
    ) -> Result<MutantResult, CommandError> {
        let started = Instant::now();
        let further: Vec<TestId> = self.baseline.sound(self.baseline.with_processes.clone());
        let further: Vec<TestId> = further.into_iter().filter(|test| !candidate.tests.contains(test)).collect();
        let mut stages = vec![Tests::Some(&candidate.tests)];
        if !further.is_empty() {
            stages.push(Tests::Some(&further));
        }
        if self.arguments.confirm {
            stages.push(Tests::All);
        }
        let (mut verdict, mut by_suite_only) = (Verdict::Survived, false);
        for stage in stages {
            let report = match self.run_stage(session, candidate, &stage, cancelled.clone()).await? {
                Ok(report) => report,
                Err(why) => {
                    verdict = Verdict::NotRun(why);
                    break;
                }
            };
            let is_all = matches!(stage, Tests::All);
            let shown = match Verdict::from_report(&report, &self.baseline.unmutated, is_all) {
                Some(shown) => shown,
                None => match self.run_stage(session, candidate, &Tests::All, cancelled.clone()).await? {
                    Ok(report) => Verdict::from_report(&report, &self.baseline.unmutated, true)
                        .unwrap_or_else(|| Verdict::NotRun(report.outcome.name().to_owned())),
                    Err(why) => Verdict::NotRun(why),
                },
            };
            verdict = shown;
            by_suite_only = is_all && verdict.is_noticed() == Some(true);
            if verdict != Verdict::Survived {
                break;
            }
        }
        let tests = candidate.tests.len() + further.len();
        Ok(MutantResult { verdict, tests, by_suite_only, duration_s: started.elapsed().as_secs_f64() })
    }

    /// The report of one run, or why it did not start.
    async fn run_stage(
        &self,
        session: &SessionHandle,
        candidate: &Candidate,
        tests: &Tests<'_>,
        mut cancelled: watch::Receiver<bool>,
    ) -> Result<Result<Arc<Report>, String>, CommandError> {
        let request = self.request(candidate, tests);
        let started = match session.start(request, RunKind::Tests, IfBusy::Queue).await {
            Ok(started) => started,
            Err(error) => return Ok(Err(run::failure(&error).text)),
        };
        let _watch = started.handle.watch();
        let mut end = Box::pin(started.handle.end());
        let ended = tokio::select! {
            ended = &mut end => ended,
            _ = cancelled.wait_for(|cancelled| *cancelled) => {
                _ = session.cancel(started.run.clone()).await;
                end.await
            }
        };
        let ended = ended.map_err(|_| CommandError::host("the session crashed; see the log above"))?;
        Ok(run::report_of(ended).map_err(|error| error.text))
    }

    fn request(&self, candidate: &Candidate, tests: &Tests<'_>) -> RunRequest {
        let (selection, wall_ms) = match tests {
            Tests::Some(tests) => {
                let targets = tests.iter().cloned().map(RerunTarget::from_test).collect();
                (Selection::Exactly(targets), self.baseline.wall_ms(tests))
            }
            Tests::All => (Selection::All, self.baseline.suite_wall_ms()),
        };
        let replaced = ReplacedFile { path: candidate.file.clone(), text: candidate.mutant.apply(&candidate.text) };
        RunRequest {
            framework: Some(self.baseline.framework.clone()),
            // A run of all tests would stop at a test that fails without the mutant.
            stop_at_first_failure: selection != Selection::All || self.baseline.unmutated.failing.is_empty(),
            selection,
            limits: LimitRequest { wall_ms: Some(wall_ms), ..LimitRequest::default() },
            coverage: CoverageMode::Off,
            replaced_file: Some(Arc::new(replaced)),
            ..RunRequest::default()
        }
    }
}

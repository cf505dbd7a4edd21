//! Executes a test under one condition after the other until one makes it fail, then looks for the test that is to blame.
//!
//! A test that fails alone needs no other one: the sources of chance that its runner can fix, and little processor time, are
//! compared with that. One that passes alone is executed among others: in their own order, after the tests of an earlier run in
//! which it failed, in the reverse order, in random ones; and under cpu pressure. The tests before a failure are halved until
//! one is left, or until neither half is enough.

use super::stage::{Condition, Found, LITTLE_CPU_MILLIS, Stage, are_related};
use crate::cli::arguments::{FlakyArgs, Output};
use crate::cli::signals::Signals;
use crate::cli::{CommandError, run, xdg_dirs};
use crate::history::WorkspaceKey;
use crate::history::query::{FailingRun, failing_run};
use crate::sessions::SessionHandle;
use crate::workspace::Workspace;
use proctor_core::limits::LimitRequest;
use proctor_core::outcome::Outcome;
use proctor_core::repetition::Repetition;
use proctor_core::request::{RerunTarget, RunKind, RunRequest, Selection};
use proctor_core::test_case::TestId;
use proctor_core::test_name::TestName;
use proctor_core::test_order::TestOrder;
use proctor_frameworks::{FRAMEWORKS, FixedChance, OrderSupport};
use proctor_proto::printable::line;
use std::collections::BTreeMap;

/// Executions that halve a group of tests, where it failed each time: one might be chance.
const HALVING_EXECUTIONS_MIN: u32 = 2;

/// The chance of a wrong turn of one halving, where the test does not fail each time.
const WRONG_TURN: f64 = 0.05;

/// What a hunt found.
pub(super) struct Hunted {
    pub(super) stages: Vec<Stage>,
    /// The conditions that were not executed, and why.
    pub(super) left_out: Vec<String>,
}

/// A hunt in progress.
pub(super) struct Hunt<'a> {
    arguments: &'a FlakyArgs,
    workspace: &'a Workspace,
    session: &'a SessionHandle,
    signals: &'a mut Signals,
    hunted: Hunted,
    /// The test, as soon as a report has it.
    test: Option<TestId>,
    orders: OrderSupport,
    chances: &'static [FixedChance],
    framework: String,
}

impl<'a> Hunt<'a> {
    pub(super) fn new(
        arguments: &'a FlakyArgs,
        workspace: &'a Workspace,
        session: &'a SessionHandle,
        signals: &'a mut Signals,
    ) -> Hunt<'a> {
        let hunted = Hunted { stages: Vec::new(), left_out: Vec::new() };
        let (orders, chances, framework) = (OrderSupport::NONE, &[], String::new());
        Hunt { arguments, workspace, session, signals, hunted, test: None, orders, chances, framework }
    }

    /// Executes the conditions.
    pub(super) async fn execute(mut self) -> Result<Hunted, CommandError> {
        // Of a damaged history the next run makes a new one; the hunt goes on without it.
        let earlier = self.earlier_failure();
        let alone = self.named(&self.arguments.test)?;
        self.stage(Condition::Alone, alone.clone()).await?;
        let Some(first) = self.hunted.stages.first() else { return Ok(self.hunted) };
        let (executions, failures, seed) = (first.executions, first.failures, first.seed.clone());
        if executions == 0 && first.outcome == Outcome::NoTests {
            let text = format!("no test is named {:?}: `proctor list` prints the names", line(&self.arguments.test));
            return Err(CommandError::usage(text));
        }
        if failures > 0 && failures == executions || self.has_ended() {
            return Ok(self.hunted);
        }
        if failures > 0 {
            self.sources_of_chance(&alone, seed).await?;
            if !self.has_decided() {
                self.little_cpu(&alone).await?;
            }
            return Ok(self.hunted);
        }
        let has_failed = self.orders(earlier).await?;
        if has_failed {
            self.find_culprit().await?;
        } else if !self.has_ended() {
            self.little_cpu(&alone).await?;
        }
        Ok(self.hunted)
    }

    fn named(&self, name: &str) -> Result<RunRequest, CommandError> {
        let names = TestName::parse_all(&[name.to_owned()]).map_err(|error| CommandError::usage(error.to_string()))?;
        Ok(self.request(Selection::Named(names), self.arguments.repeat))
    }

    fn request(&self, selection: Selection, repeat: u32) -> RunRequest {
        RunRequest {
            framework: self.arguments.framework.clone(),
            selection,
            limits: LimitRequest {
                wall_ms: self.arguments.timeout.map(|timeout| timeout.ms),
                ..LimitRequest::default()
            },
            repetition: Repetition { repeat, ..Repetition::ONCE },
            ..RunRequest::default()
        }
    }

    /// Whether a person or a broken project ended the hunt: no further stage has a result.
    fn has_ended(&self) -> bool {
        let ends = |stage: &Stage| {
            matches!(stage.outcome, Outcome::Cancelled | Outcome::BuildFailed | Outcome::CollectionFailed)
        };
        self.hunted.stages.last().is_some_and(ends)
    }

    /// Whether a stage surely differs from the first one.
    fn has_decided(&self) -> bool {
        let Some((alone, others)) = self.hunted.stages.split_first() else { return false };
        others.iter().any(|stage| stage.fails_more_than(alone) || alone.fails_more_than(stage))
    }

    async fn stage(&mut self, condition: Condition, request: RunRequest) -> Result<(), CommandError> {
        let is_human = self.arguments.output == Output::Human;
        let (_, report) = run::execute(self.session, request, RunKind::Tests, is_human, self.signals).await?;
        let Found { stage, test, framework } = Stage::from_report(condition, &report, &self.arguments.test)?;
        if let Some(found) = FRAMEWORKS.iter().find(|known| known.name() == framework) {
            (self.orders, self.chances) = (found.manifest().options.orders, found.manifest().fixed_chance);
        }
        self.framework = framework;
        self.test = self.test.take().or(test);
        self.hunted.stages.push(stage);
        Ok(())
    }

    /// Fixes what the runner can fix, one after the other.
    async fn sources_of_chance(&mut self, alone: &RunRequest, seed: Option<String>) -> Result<(), CommandError> {
        for chance in self.chances {
            let env = BTreeMap::from([(chance.variable.to_owned(), chance.value.to_owned())]);
            self.stage(Condition::AloneFixed(*chance), RunRequest { env, ..alone.clone() }).await?;
            if self.has_ended() {
                return Ok(());
            }
        }
        if let Some(seed) = seed.and_then(|seed| seed.parse().ok()).filter(|_| self.orders.shuffled) {
            let order = TestOrder::Shuffled { seed: Some(seed) };
            self.stage(Condition::AloneSeeded(seed), RunRequest { order, ..alone.clone() }).await?;
        }
        Ok(())
    }

    /// Limits the processor time. A host that cannot do that has no such stage.
    async fn little_cpu(&mut self, alone: &RunRequest) -> Result<(), CommandError> {
        if self.has_ended() {
            return Ok(());
        }
        let limits = LimitRequest { cpu_millis: Some(LITTLE_CPU_MILLIS), ..alone.limits };
        match self.stage(Condition::AloneLittleCpu, RunRequest { limits, ..alone.clone() }).await {
            Ok(()) => {}
            Err(error) => self.leave_out(&Condition::AloneLittleCpu, &error.text),
        }
        Ok(())
    }

    fn leave_out(&mut self, condition: &Condition, why: &str) {
        self.hunted.left_out.push(format!("{}: {}", condition.name(), line(why)));
    }

    /// Executes the test among others until it fails. Returns whether it did.
    async fn orders(&mut self, earlier: Option<FailingRun>) -> Result<bool, CommandError> {
        let all = self.request(Selection::All, self.arguments.repeat);
        self.stage(Condition::AmongAll, all.clone()).await?;
        if self.last_failed() || self.has_ended() {
            return Ok(self.last_failed());
        }
        if let Some(FailingRun { run_id, before, .. }) = earlier {
            let condition = Condition::AfterEarlier { run_id, tests: before.len() };
            if let Some(request) = self.after(&before, self.arguments.repeat) {
                self.stage(condition, request).await?;
            }
            if self.last_failed() || self.has_ended() {
                return Ok(self.last_failed());
            }
        }
        for (condition, order) in
            [(Condition::Reversed, TestOrder::Reversed), (Condition::Shuffled, TestOrder::Shuffled { seed: None })]
        {
            if !self.orders.has(order) {
                let why = format!("{} cannot be told this order", self.framework);
                self.leave_out(&condition, &why);
                continue;
            }
            self.stage(condition, RunRequest { order, ..all.clone() }).await?;
            if self.last_failed() || self.has_ended() {
                break;
            }
        }
        Ok(self.last_failed())
    }

    fn last_failed(&self) -> bool {
        self.hunted.stages.last().is_some_and(|stage| stage.failures > 0)
    }

    /// The test behind these tests, in their order where the runner takes one.
    fn after(&self, before: &[TestId], repeat: u32) -> Option<RunRequest> {
        let test = self.test.clone()?;
        let targets = before.iter().cloned().chain([test]).map(RerunTarget::from_test).collect();
        let order = if self.orders.selected { TestOrder::Selected } else { TestOrder::Project };
        Some(RunRequest { order, ..self.request(Selection::Exactly(targets), repeat) })
    }

    /// The latest run of the history in which the test failed after others.
    fn earlier_failure(&self) -> Option<FailingRun> {
        let location = xdg_dirs::history()?;
        let key = WorkspaceKey::for_workspace(self.workspace);
        let found = failing_run(&location, key, &self.arguments.test);
        let mut run = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "the hunt goes on without the history");
            None
        })?;
        run.before.retain(|test| !are_related(test, &run.test));
        (!run.before.is_empty()).then_some(run)
    }

    /// Halves the tests that finished before a failure until one is left, or no half is enough.
    async fn find_culprit(&mut self) -> Result<(), CommandError> {
        let Some(failed) = self.hunted.stages.last() else { return Ok(()) };
        let (mut group, seed) = (failed.before.clone(), failed.seed.clone());
        let is_group = matches!(failed.condition, Condition::AfterEarlier { .. });
        let mut rate = failed.rate();
        if group.len() > 1 && !is_group {
            if !self.fails_after(&group, self.arguments.repeat).await? {
                return self.same_seed(seed).await;
            }
            rate = self.hunted.stages.last().map_or(rate, Stage::rate);
        }
        let repeat = halving_executions(rate.low).min(self.arguments.repeat);
        while group.len() > 1 {
            let (first, second) = group.split_at(group.len() / 2);
            // The nearer half first: a test is usually disturbed by what ran just before it.
            let (first, second) = (first.to_vec(), second.to_vec());
            group = if self.fails_after(&second, repeat).await? {
                second
            } else if !self.has_ended() && self.fails_after(&first, repeat).await? {
                first
            } else {
                // Neither half: the sentence is about the smallest group that was enough.
                return Ok(());
            };
        }
        if let [culprit] = group.as_slice()
            && let Some(request) = self.after(&group, self.arguments.repeat)
        {
            self.stage(Condition::After(culprit.full_name()), request).await?;
        }
        Ok(())
    }

    async fn fails_after(&mut self, group: &[TestId], repeat: u32) -> Result<bool, CommandError> {
        let Some(request) = self.after(group, repeat) else { return Ok(false) };
        self.stage(Condition::AfterSome(group.to_vec()), request).await?;
        Ok(self.last_failed())
    }

    /// The order of a random seed, where its tests in their own order do not fail.
    async fn same_seed(&mut self, seed: Option<String>) -> Result<(), CommandError> {
        let Some(seed) = seed.and_then(|seed| seed.parse().ok()).filter(|_| self.orders.shuffled) else {
            return Ok(());
        };
        let order = TestOrder::Shuffled { seed: Some(seed) };
        let request = RunRequest { order, ..self.request(Selection::All, self.arguments.repeat) };
        self.stage(Condition::ShuffledBy(seed), request).await
    }
}

/// Executions after which a group that makes the test fail with at least this rate has failed, but for [`WRONG_TURN`].
fn halving_executions(rate_low: f64) -> u32 {
    let passes = (1.0 - rate_low).clamp(1e-6, 1.0 - 1e-6);
    let needed = (WRONG_TURN.ln() / passes.ln()).ceil();
    // The bound of `--repeat` is far below.
    (HALVING_EXECUTIONS_MIN..=1_000).find(|count| f64::from(*count) >= needed).unwrap_or(1_000)
}

#[cfg(test)]
mod tests {
    use super::halving_executions;

    #[test]
    fn a_test_that_fails_rarely_is_executed_more_often() {
        assert_eq!([0.99, 0.84, 0.5, 0.1, 0.0].map(halving_executions), [2, 2, 5, 29, 1_000]);
    }
}

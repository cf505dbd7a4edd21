//! `proctor flaky TEST`: looks for what makes a test fail at times.
//!
//! [`hunt`] executes the test under one condition after the other, [`stage`] counts its results, [`conclusion`] says only what
//! follows from these counts.

mod conclusion;
mod hunt;
mod stage;
#[cfg(test)]
mod tests;

use super::arguments::{FlakyArgs, Output};
use super::signals::Signals;
use super::{CommandError, in_process, print, run};
use conclusion::{conclusion, exit_status};
use hunt::{Hunt, Hunted};
use proctor_core::history::flakiness::Rate;
use serde_json::json;
use stage::Stage;
use std::fmt::Write as _;

/// Executes the test in stages and says what follows. Exit status 1 if it failed at least once, 0 if it had results and
/// never failed, else that of the outcome which kept the tests from running to their end.
pub(super) fn flaky(arguments: &FlakyArgs) -> Result<u8, CommandError> {
    let workspace = in_process::workspace(&arguments.path)?;
    in_process::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let (session, _) = in_process::session(workspace.clone())?;
        let hunted = Hunt::new(arguments, &workspace, &session, &mut signals).execute().await;
        run::flush_history(&session).await;
        session.close().await;
        let hunted = hunted?;
        match arguments.output {
            Output::Human => print::text(&human(&hunted))?,
            Output::Json => print::document(&document(&hunted))?,
        }
        Ok(exit_status(&hunted.stages))
    })
}

fn human(hunted: &Hunted) -> String {
    let mut text = String::new();
    for stage in &hunted.stages {
        let _ = writeln!(text, "{}", stage.shown());
    }
    for left_out in &hunted.left_out {
        let _ = writeln!(text, "not executed: {left_out}");
    }
    let _ = writeln!(text, "{}", conclusion(&hunted.stages));
    text
}

fn document(hunted: &Hunted) -> serde_json::Value {
    let stage = |stage: &Stage| {
        let Rate { rate, low, high } = stage.rate();
        json!({
            "name": stage.condition.name(), "other_tests": stage.others, "executions": stage.executions,
            "failures": stage.failures, "rate": rate, "rate_low": low, "rate_high": high,
            "failed_after": stage.before.last().map(proctor_core::test_case::TestId::full_name), "seed": stage.seed,
            "outcome": stage.outcome,
        })
    };
    json!({
        "stages": hunted.stages.iter().map(stage).collect::<Vec<_>>(),
        "not_executed": hunted.left_out,
        "conclusion": conclusion(&hunted.stages),
    })
}

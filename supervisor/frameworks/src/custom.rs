//! The custom command: a pseudo framework without test-level output, judged by its exit status alone. It takes the place
//! of an adapter when a request brings its own command. Must not know what the command does.

use crate::framework::{Parser, Plan, Step, StreamSummary};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::TestId;
use std::collections::BTreeMap;

/// The framework's name in reports.
pub const NAME: &str = "custom";

/// The plan that runs `command` in the workspace's root. An empty command gives a plan without steps.
#[must_use]
pub fn plan(command: &[String]) -> Plan {
    let steps = command
        .split_first()
        .map(|(program, args)| Step {
            programs: vec![program.clone()],
            args: args.to_vec(),
            dir: String::new(),
            env: BTreeMap::new(),
        })
        .into_iter()
        .collect();
    Plan { steps, ..Plan::default() }
}

/// The parser of a custom command.
#[must_use]
pub fn parser() -> Box<dyn Parser> {
    Box::new(ExitStatusOnly)
}

/// Reads nothing, so nothing that the command prints can change the verdict.
struct ExitStatusOnly;

impl Parser for ExitStatusOnly {
    fn step_started(&mut self, _step: usize) {}

    fn stdout(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    fn stderr(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    fn step_ended(&mut self, _exit: Exit, _killed: bool, _events: &mut Vec<RunnerEvent>) {}

    fn running(&self) -> Vec<TestId> {
        Vec::new()
    }

    fn summary(&self) -> StreamSummary {
        StreamSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_step_and_says_nothing_structured() {
        let plan = plan(&["make".to_owned(), "check".to_owned()]);
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(
            (plan.steps[0].programs[0].as_str(), plan.steps[0].args.as_slice()),
            ("make", &["check".to_owned()][..])
        );
        let mut parser = parser();
        let mut events = Vec::new();
        parser.stdout(b"--- FAIL: TestGhost\n", &mut events);
        parser.step_ended(Exit::Code(1), false, &mut events);
        assert!(events.is_empty());
        assert!(!parser.summary().structured);
        assert!(super::plan(&[]).steps.is_empty());
    }
}

//! Reads the stacks that Python's `faulthandler` prints, and finds those of the running tests.

use crate::contract::{StackDump, StackOutput, StackSource};
use crate::parsing::stack_frames::{Stack, attribute};
use crate::parsing::thread_stacks;
use proctor_core::hung_test::{HungTest, StackSignal};
use proctor_core::test_case::TestId;

/// The stacks of both runners. Their injected modules register the signal.
pub(crate) const STACK_DUMP: StackDump =
    StackDump { source: StackSource::Signal(StackSignal::Reserved), read: hung_tests, declared_note: None };

/// Files of the runners whose frames are below those of a test and its fixtures, and of nothing else.
const RUNNERS: [&str; 3] = ["/_pytest/runner.py", "/unittest/case.py", "/unittest/suite.py"];

/// Beginning of the line above the stack of an asyncio task, which has no frames of the runner.
const TASK: &str = "Task ";

fn hung_tests(output: &StackOutput<'_>) -> Vec<HungTest> {
    let is_runner = |path: &str| RUNNERS.iter().any(|runner| path.contains(runner));
    let mut stacks = thread_stacks::read(output.stderr, output.workspace, is_runner);
    for task in stacks.iter_mut().filter(|stack| stack.title.starts_with(TASK)) {
        task.is_of_test = output.running.iter().any(|test| is_stack_of(test, task));
    }
    attribute(&stacks, output.running, is_stack_of)
}

/// Whether a function of the project in the stack has the test's name: `test_b` for `TestA.test_b[1]` and `test_b/(i=1)`.
fn is_stack_of(test: &TestId, stack: &Stack) -> bool {
    let name = test.name.split(['[', '/', '@', '#']).next().unwrap_or_default();
    let name = name.rsplit(['.', ':']).next().unwrap_or_default();
    stack.frames.iter().any(|frame| frame.own.is_some() && frame.function == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = r#"Thread 0x00007f2b1d7fa6c0 (most recent call first):
  File "/w/app/worker.py", line 5 in drain
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f2b1e1b1740 (most recent call first):
  File "/w/app/client.py", line 10 in wait
  File "/w/tests/test_hang.py", line 10 in test_hangs
  File "/w/.venv/lib/python3.11/site-packages/_pytest/runner.py", line 194 in pytest_runtest_call
  File "/w/.venv/lib/python3.11/site-packages/pluggy/_callers.py", line 103 in _multicall
"#;

    fn hung(stderr: &str, running: &[&str]) -> Vec<HungTest> {
        let test = |name: &&str| TestId { package: "tests/test_hang.py".to_owned(), name: (*name).to_owned() };
        let running: Vec<TestId> = running.iter().map(test).collect();
        (STACK_DUMP.read)(&StackOutput {
            stdout: "",
            stderr,
            running: &running,
            workspace: "/w",
            ..StackOutput::default()
        })
    }

    #[test]
    fn finds_the_thread_of_the_test() {
        for name in ["test_hangs", "TestA.test_hangs[a b]", "test_hangs/(i=1)"] {
            let found = hung(DUMP, &[name, "test_other"]);
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!((found[0].file.as_deref(), found[0].line), (Some("app/client.py"), Some(10)));
            assert_eq!(
                found[0].stack,
                "app/client.py:10 in wait\ntests/test_hang.py:10 in test_hangs\n\
                 Thread 0x00007f2b1d7fa6c0 (most recent call first):\napp/worker.py:5 in drain"
            );
        }
    }

    #[test]
    fn a_test_that_awaits_hangs_where_its_task_does() {
        let loop_and_task = r#"Current thread 0x1 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 468 in select
  File "/usr/lib/python3.11/unittest/case.py", line 623 in run
Task (most recent call first):
  File "/usr/lib/python3.11/asyncio/locks.py", line 213 in wait
  File "/w/tests/test_hang.py", line 21 in test_hangs
"#;
        let found = hung(loop_and_task, &["TestA.test_hangs"]);
        assert_eq!((found[0].file.as_deref(), found[0].line), (Some("tests/test_hang.py"), Some(21)));
        let foreign = loop_and_task.replace("test_hangs", "refresh");
        assert_eq!(hung(&foreign, &["TestA.test_hangs"])[0].line, None, "a task that is no test's");
    }

    #[test]
    fn claims_nothing_without_a_stack() {
        assert_eq!(hung("E   File \"/w/a.py\", line 3\n", &["test_hangs"]), []);
        assert_eq!(hung(DUMP, &["test_one", "test_two"]), []);
    }
}

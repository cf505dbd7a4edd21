//! Reads the stacks that `stacks.cjs` prints, and finds those of the running tests.

use crate::contract::{StackDump, StackOutput, StackPrinter, StackSource};
use crate::parsing::stack_frames::{Frame, Stack, attribute};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::{NAME_BYTES_MAX, clip};
use proctor_core::hung_test::HungTest;
use proctor_core::test_case::TestId;
use serde::Deserialize;

/// The stacks of all runners in Node.
pub(crate) const STACK_DUMP: StackDump =
    StackDump { source: StackSource::Printer(PRINTER), read: hung_tests, declared_note: Some(DECLARED_NOTE) };

/// Its inspectors are on the loopback interface.
const PRINTER: StackPrinter = StackPrinter {
    interpreter: "node",
    path: "js/stacks.cjs",
    source: include_str!("stacks.cjs"),
    needs_own_network: true,
};

/// Most threads that are read: those of 16 processes with some workers.
const THREADS_MAX: usize = 64;

/// Most frames that are read of one thread.
const FRAMES_MAX: usize = 200;

/// Explains a place that is not from a stack.
const DECLARED_NOTE: &str =
    "(here the test begins: it waits for a promise or a callback, or its process gave no stack)";

/// Explains frames of functions that are on no stack.
const SUSPENDED_NOTE: &str =
    "(suspended in an await, in no order: the test waits, and nothing of the project is on a stack)";

/// Where a thread was.
#[derive(Debug, Deserialize)]
struct Thread {
    state: State,
    frames: Vec<(String, u32, String)>,
    /// Files of the project that its process has loaded, relative to the workspace.
    #[serde(default)]
    loaded: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Running,
    Suspended,
    Declared,
}

impl Thread {
    /// The stack, with frames in the running tests' own files first where there is no order.
    fn into_stack(self, output: &StackOutput<'_>, paths: &WorkspacePaths) -> Stack {
        let frames = self.frames.into_iter().take(FRAMES_MAX);
        let frame = |(path, line, name): (String, u32, String)| {
            Frame::new(paths, &clip(path, NAME_BYTES_MAX), line, &clip(name, NAME_BYTES_MAX))
        };
        let mut frames: Vec<Frame> = frames.map(frame).collect();
        if self.state != State::Running {
            frames.sort_by_key(|frame| !output.running.iter().any(|test| frame.own.as_ref() == Some(&test.package)));
        }
        // The tests may have started other processes, whose stacks are not theirs: a server that a test asks.
        let is_running = |file: &str| output.running.iter().any(|test| test.package == file);
        let is_of_process = self.loaded.iter().any(|file| is_running(file));
        let own = |frame: &Frame| frame.own.as_deref().is_some_and(|file| is_of_process || is_running(file));
        let is_of_test = frames.iter().any(own);
        Stack { title: "another process:".to_owned(), frames, is_of_test }
    }
}

fn hung_tests(output: &StackOutput<'_>) -> Vec<HungTest> {
    let paths = WorkspacePaths::new(output.workspace);
    let threads = output.printed.lines().filter_map(|line| serde_json::from_str::<Thread>(line).ok());
    let stacks: Vec<(State, Stack)> =
        threads.take(THREADS_MAX).map(|thread| (thread.state, thread.into_stack(output, &paths))).collect();
    let mut found: Vec<HungTest> = Vec::new();
    // A stack says more than a suspended function, and that more than the beginning of the test.
    for (state, note) in [(State::Running, ""), (State::Suspended, SUSPENDED_NOTE), (State::Declared, DECLARED_NOTE)] {
        let left: Vec<TestId> =
            output.running.iter().filter(|test| found.iter().all(|hung| hung.test != **test)).cloned().collect();
        let stacks: Vec<Stack> = stacks.iter().filter(|(of, _)| *of == state).map(|(_, stack)| stack.clone()).collect();
        found.extend(attribute(&stacks, &left, is_stack_of).into_iter().map(|hung| with_note(hung, note)));
    }
    found
}

/// Whether a frame is in the test's file.
fn is_stack_of(test: &TestId, stack: &Stack) -> bool {
    stack.is_in(&test.package)
}

fn with_note(hung: HungTest, note: &str) -> HungTest {
    if note.is_empty() { hung } else { HungTest { stack: format!("{}\n{note}", hung.stack), ..hung }.bounded() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: &str = r#"{"state":"running","frames":[["/w/src/cart.js",5,"spin"],["/w/test/a.test.js",3,"<anonymous>"],["",12,"runMicrotask"]]}"#;
    const SERVER: &str = r#"{"state":"running","frames":[["/w/src/server.js",2,"poll"]],"loaded":["src/server.js"]}"#;
    const SUSPENDED: &str =
        r#"{"state":"suspended","frames":[["/w/src/db.js",7,"query"],["/w/test/b.test.js",9,"<anonymous>"]]}"#;
    const DECLARED: &str = r#"{"state":"declared","frames":[["/w/test/b.test.js",8,"<anonymous>"]]}"#;

    fn test(file: &str, name: &str) -> TestId {
        TestId { package: file.to_owned(), name: name.to_owned() }
    }

    fn hung(printed: &[&str], running: &[TestId]) -> Vec<(String, Option<String>, Option<u32>, String)> {
        let printed = printed.join("\n");
        let output = StackOutput { printed: &printed, running, workspace: "/w", ..StackOutput::default() };
        hung_tests(&output).into_iter().map(|hung| (hung.test.name, hung.file, hung.line, hung.stack)).collect()
    }

    #[test]
    fn a_busy_test_has_the_stack_of_its_thread() {
        let found = hung(&[RUNNING], &[test("test/a.test.js", "spins")]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].1.as_deref(), found[0].2), (Some("src/cart.js"), Some(5)));
        assert_eq!(found[0].3, "src/cart.js:5 in spin\ntest/a.test.js:3 in <anonymous>");
    }

    #[test]
    fn a_waiting_test_has_the_place_in_its_own_file_at_which_it_waits() {
        let running = [test("test/a.test.js", "spins"), test("test/b.test.js", "waits")];
        let found = hung(&[DECLARED, SUSPENDED, RUNNING], &running);
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].1.as_deref(), found[1].2), (Some("test/b.test.js"), Some(9)));
        assert_eq!(found[1].3, format!("test/b.test.js:9 in <anonymous>\nsrc/db.js:7 in query\n{SUSPENDED_NOTE}"));
    }

    #[test]
    fn a_test_without_any_function_has_the_place_where_it_begins() {
        let running = [test("test/b.test.js", "outer > waits")];
        let found = hung(&[DECLARED], &running);
        assert_eq!(found[0].3, format!("test/b.test.js:8 in <anonymous>\n{DECLARED_NOTE}"));
    }

    #[test]
    fn a_process_that_has_not_loaded_the_tests_file_does_not_run_the_test() {
        let running = [test("test/b.test.js", "waits")];
        assert_eq!(hung(&[SERVER], &running), []);
        assert_eq!(hung(&[SERVER, DECLARED], &running)[0].2, Some(8));
        let found = hung(&[SERVER, RUNNING], &[test("test/a.test.js", "spins")]);
        assert!(found[0].3.ends_with("another process:\nsrc/server.js:2 in poll"), "{found:?}");
    }

    #[test]
    fn a_process_that_has_loaded_the_tests_file_runs_the_test_whatever_its_functions_are() {
        let loaded = SERVER.replace("[\"src/server.js\"]", "[\"src/server.js\",\"test/a.test.js\"]");
        let found = hung(&[&loaded], &[test("test/a.test.js", "spins")]);
        assert_eq!((found[0].1.as_deref(), found[0].2), (Some("src/server.js"), Some(2)));
    }

    #[test]
    fn claims_nothing_for_tests_that_cannot_be_told_apart() {
        assert_eq!(hung(&[RUNNING], &[test("test/a.test.js", "one"), test("test/a.test.js", "two")]), []);
    }

    #[test]
    fn reads_whatever_a_run_prints() {
        let running = [test("test/a.test.js", "spins")];
        let many = format!(
            r#"{{"state":"running","frames":[{}]}}"#,
            vec![r#"["/w/test/a.test.js",3,"f"]"#; 100_000].join(",")
        );
        for printed in
            ["", "{", "[]", r#"{"state":"x","frames":[]}"#, r#"{"state":"running","frames":[["/etc/passwd",-1,""]]}"#]
        {
            assert_eq!(hung(&[printed], &running), [], "{printed}");
        }
        let escaped = r#"{"state":"running","frames":[["/w/../etc/passwd",1,"f"]]}"#;
        assert!(hung(&[escaped], &running).iter().all(|found| !found.3.contains("..") && !found.3.contains("/w")));
        assert!(hung(&[&many], &running)[0].3.lines().count() <= 40);
        assert_eq!(hung(&vec![RUNNING; 1_000], &running).len(), 1);
    }
}

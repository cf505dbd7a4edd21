//! Shared by the golden tests of Maven and Gradle: the recorded workspace, and a runner of one parser step.

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_frameworks::{FileTree, Parser};

/// The workspace of the tool whose project file is `build`, with these test classes.
pub(crate) fn tree(build: &str, tests: &[&str]) -> FileTree {
    let mut tree = FileTree::default();
    tree.add_with_content(build, "");
    tests.iter().for_each(|name| tree.add(format!("src/test/java/com/example/{name}Test.java")));
    for file in [
        "core/src/main/java/com/example/Price.java",
        "core/src/test/java/com/example/PriceTest.java",
        "tools/src/test/java/com/example/PriceTest.java",
    ] {
        tree.add(file);
    }
    tree
}

/// Output of one command, in pieces.
#[derive(Clone, Copy, Default)]
pub(crate) struct StepOutput<'a> {
    pub(crate) out: &'a [&'a [u8]],
    pub(crate) err: &'a [u8],
    pub(crate) report: &'a [&'a [u8]],
}

/// Parses the output of one command with this exit.
pub(crate) fn read(
    mut parser: Box<dyn Parser>,
    output: StepOutput<'_>,
    exit: Exit,
    killed: bool,
) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let mut events = Vec::new();
    parser.step_started(0);
    output.out.iter().for_each(|piece| parser.stdout(piece, &mut events));
    output.report.iter().for_each(|piece| parser.report(piece, &mut events));
    parser.stderr(output.err, &mut events);
    parser.step_ended(exit, killed, &mut events);
    (events, parser)
}

//! What the goldens of build tools of the JVM share: the workspace that they were made in, and how what one command says is
//! read. Must not know either tool.

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_frameworks::{FileTree, Parser};

/// The workspace of the tool whose file is `build`, with these test classes.
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

/// What one command says, in pieces.
#[derive(Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    pub(crate) out: &'a [&'a [u8]],
    pub(crate) err: &'a [u8],
    pub(crate) report: &'a [&'a [u8]],
}

/// Reads one command that ended so.
pub(crate) fn read(
    mut parser: Box<dyn Parser>,
    said: Said<'_>,
    exit: Exit,
    killed: bool,
) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let mut events = Vec::new();
    parser.step_started(0);
    said.out.iter().for_each(|piece| parser.stdout(piece, &mut events));
    said.report.iter().for_each(|piece| parser.report(piece, &mut events));
    parser.stderr(said.err, &mut events);
    parser.step_ended(exit, killed, &mut events);
    (events, parser)
}

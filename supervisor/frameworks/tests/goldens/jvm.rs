//! Shared by Maven and Gradle: the recorded workspace.

use proctor_frameworks::FileTree;

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

//! Reads the Rust sources of the tree, for tests that check rules of the code and what the READMEs say about it.

use crate::process::source_root;
use std::fs;
use std::path::Path;

/// Every Rust source below a directory of the tree: its path relative to the root of the tree, and its text. At least one.
#[must_use]
pub fn rust_sources(below: &str) -> Vec<(String, String)> {
    fn walk(dir: &Path, root: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, root, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.push((relative, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let (root, mut found) = (source_root(), Vec::new());
    walk(&root.join(below), &root, &mut found);
    assert!(!found.is_empty(), "{below} has no sources");
    found
}

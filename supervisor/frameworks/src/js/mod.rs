//! What the JavaScript and TypeScript runners share: which projects there are and whose they are (`detect`, from the
//! manifests that `manifest` reads), what a project's test script says (`script`), how a runner is started (`launch`), and
//! how a selection becomes files and names (`selection`). Must not know how any runner spells its options.
//!
//! A test's `package` is its file, its `name` the titles around it and its own, joined with [`TITLES`].

mod detect;
mod handed;
mod launch;
mod manifest;
mod script;
mod selection;

use crate::framework::{InjectedFile, REPORT, Want};
use crate::tree::FileTree;

pub(crate) use detect::{MARKERS, Runner, is_tested_by, projects};
pub(crate) use handed::{Handed, injected, retold, tests_among};
pub(crate) use launch::{Launch, PROGRAM};
pub(crate) use script::{Flag, Options, Script};
pub(crate) use selection::{Group, Names, groups, groups_spelt, quote};

/// Extensions of what a runner could take for a source.
pub(crate) const EXTENSIONS: &[&str] = &["cjs", "cts", "js", "jsx", "mjs", "mts", "svelte", "ts", "tsx", "vue"];

/// The variable by which a reporter of ours knows that it shall list: an expression over names, empty for all.
pub(crate) const LISTING: &str = "PROCTOR_LISTING";

/// A file of ours below the scratch directory.
pub(crate) fn file(path: &str, bytes: &[u8]) -> InjectedFile {
    InjectedFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
}

/// How a file of ours, which speaks through the report, is started for a group.
pub(crate) fn launch(tree: &FileTree, group: &Group<'_>, want: &Want<'_>, file: &str, script: &Script) -> Launch {
    let report = format!("{}/{REPORT}", want.scratch);
    let file = format!("{}/{file}", want.scratch);
    Launch::of_file(tree, group.project, want, file, script).with("PROCTOR_REPORT", report)
}

/// What a file of ours said when it found no runner, or one that is too old: `proctor: jest is not installed ...`. And what
/// Yarn's file says where its archives should be and are not.
pub(crate) fn missing(said: &str, runner: &str) -> Option<String> {
    let begins = |line: &&str| line.strip_prefix(runner).is_some_and(|rest| rest.starts_with(' '));
    let ours = said.lines().filter_map(|line| line.strip_prefix("proctor: ")).find(begins).map(str::to_owned);
    ours.or_else(|| {
        let is_unseen = said.lines().any(|line| line.starts_with("Error: Required package missing from disk."));
        is_unseen.then(|| {
            format!(
                "{runner}: Yarn keeps its packages where runs do not see them: set `enableGlobalCache: false` in \
                 .yarnrc.yml and run `yarn install`"
            )
        })
    })
}

/// What stands between the titles of nested suites and of a test in the test's name.
pub(crate) const TITLES: &str = " > ";

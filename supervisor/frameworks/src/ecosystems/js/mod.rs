//! What the JavaScript and TypeScript runners share: which projects there are and whose they are (`detect`, from the
//! manifests that `manifest` reads), what a project's test script says (`script`, from the words that `shell` reads), what of it
//! is handed on (`options`), how often and with what that starts a runner (`start`), how it is started (`launch`), and how a
//! selection becomes files and names (`selection`). Must not know how any runner spells its options.
//!
//! A test's `package` is its file, its `name` the titles around it and its own, joined with [`TITLES`].

mod borp;
mod detect;
mod launch;
mod manifest;
mod options;
mod plain;
mod runner;
mod script;
mod selection;
mod shell;
mod start;
mod words;

use crate::contract::FileTree;
use crate::contract::{InjectedFile, PlanRequest, REPORT};

pub(crate) use detect::{
    MARKERS, aside, is_left_to_script, is_linked, is_tested_by, manifest_of, may_start_ours, plain_projects,
    plain_tests, projects, signs, starts_it, unbuilt,
};
pub(crate) use launch::{Launch, PROGRAM};
pub(crate) use options::{Flag, Handed, Options, Takes};
pub(crate) use plain::Plain;
pub(crate) use runner::Runner;
pub(crate) use script::{NODE_VALUED, Script};
pub(crate) use selection::{Group, Names, groups, groups_spelt, quote, retold, tests_among};
pub(crate) use start::{Start, starts};
pub(crate) use words::{blamed, reason};

/// A file of ours, below the scratch directory, that Node loads first in every process below a test script.
pub(crate) const INJECT: (&str, &[u8]) = ("js/inject.cjs", include_bytes!("inject.cjs"));

/// Extensions of what a runner could take for a source.
pub(crate) const EXTENSIONS: &[&str] = &["cjs", "cts", "js", "jsx", "mjs", "mts", "svelte", "ts", "tsx", "vue"];

/// The variable by which a reporter of ours knows that it shall list: an expression over names, empty for all.
pub(crate) const LISTING: &str = "PROCTOR_LISTING";

/// A file of ours below the scratch directory.
pub(crate) fn file(path: &str, bytes: &[u8]) -> InjectedFile {
    InjectedFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
}

/// Files of ours for reporters that are handed errors, beside those of one runner.
pub(crate) fn injected(files: &[(&str, &[u8])]) -> Vec<InjectedFile> {
    let shared: [(&str, &[u8]); 3] = [
        (PROGRAM, include_bytes!("program.cjs")),
        ("js/report.cjs", include_bytes!("report.cjs")),
        ("js/thrown.cjs", include_bytes!("thrown.cjs")),
    ];
    shared.iter().chain(files).map(|(path, bytes)| file(path, bytes)).collect()
}

/// A file as a pattern that it fits, where such runners have no way to quote the characters of patterns: any other would do in
/// their place.
pub(crate) fn literal(file: &str) -> String {
    file.chars().map(|char| if "[]{}()*!+@\\,".contains(char) { '?' } else { char }).collect()
}

/// How a file of ours, which speaks through the report, is started for a group.
pub(crate) fn launch(
    tree: &FileTree,
    group: &Group<'_>,
    request: &PlanRequest<'_>,
    file: &str,
    script: &Script,
) -> Launch {
    let report = format!("{}/{REPORT}", request.scratch);
    let file = format!("{}/{file}", request.scratch);
    Launch::of_file(tree, group.project, request, file, script).with("PROCTOR_REPORT", report)
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

//! What the JavaScript and TypeScript runners share: which projects there are and whose they are (`detect`, from the
//! manifests that `manifest` reads), what a project's test script says (`script`, from the words that `shell` reads), what of it
//! is handed on (`options`), how often and with what that starts a runner (`start`), how it is started (`launch`), and how a
//! selection becomes files and names (`selection`). Must not know how any runner spells its options.
//!
//! A test's `package` is its file, its `name` the titles around it and its own, joined with [`TITLE_SEPARATOR`].

mod borp;
mod detect;
mod forwarded_options;
mod launch;
mod node_errors;
mod package_json;
mod runner;
mod runner_starts;
mod selection;
mod shell_command;
mod shell_parser;
mod test_script;

use crate::contract::FileTree;
use crate::contract::{InjectedFile, PlanRequest, REPORT};

pub(crate) use detect::{
    MARKERS, describe_markers, is_left_to_test_script, is_monorepo, is_tested_by, may_start_reported_runner,
    missing_build_output, package_json_path, projects, script_starts, shell_projects, shell_test_commands,
    skipped_command_notes,
};
pub(crate) use forwarded_options::{Arity, Flag, ForwardPolicy, ForwardedOptions};
pub(crate) use launch::{Launch, PROGRAM_FILE};
pub(crate) use node_errors::{error_location, error_reason};
pub(crate) use runner::JsRunner;
pub(crate) use runner_starts::{RunnerStart, runner_starts};
pub(crate) use selection::{
    NameFilter, TestGroup, group_selection, group_selection_with, likely_test_files, map_targets, quote_regex,
};
pub(crate) use shell_command::ShellCommand;
pub(crate) use test_script::{Invocation, NODE_VALUE_OPTIONS};

/// A file of ours, below the scratch directory, that Node loads first in every process below a test script.
pub(crate) const INJECT_FILE: (&str, &[u8]) = ("js/inject.cjs", include_bytes!("inject.cjs"));

/// Extensions of what a runner could take for a source.
pub(crate) const EXTENSIONS: &[&str] = &["cjs", "cts", "js", "jsx", "mjs", "mts", "svelte", "ts", "tsx", "vue"];

/// The variable by which a reporter of ours knows that it shall list: an expression over names, empty for all.
pub(crate) const LISTING_VARIABLE: &str = "PROCTOR_LISTING";

/// A file of ours below the scratch directory.
pub(crate) fn injected_file(path: &str, bytes: &[u8]) -> InjectedFile {
    InjectedFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
}

/// Files of ours for reporters that are handed errors, beside those of one runner.
pub(crate) fn shared_files(files: &[(&str, &[u8])]) -> Vec<InjectedFile> {
    let shared: [(&str, &[u8]); 3] = [
        (PROGRAM_FILE, include_bytes!("program.cjs")),
        ("js/report.cjs", include_bytes!("report.cjs")),
        ("js/failure.cjs", include_bytes!("failure.cjs")),
    ];
    shared.iter().chain(files).map(|(path, bytes)| injected_file(path, bytes)).collect()
}

/// A file as a pattern that it fits, where such runners have no way to quote the characters of patterns: any other would do in
/// their place.
pub(crate) fn glob_literal(file: &str) -> String {
    file.chars().map(|char| if "[]{}()*!+@\\,".contains(char) { '?' } else { char }).collect()
}

/// How a file of ours, which speaks through the report, is started for a group.
pub(crate) fn launch_with_report(
    tree: &FileTree,
    group: &TestGroup<'_>,
    request: &PlanRequest<'_>,
    file: &str,
    script: &Invocation,
) -> Launch {
    let report = format!("{}/{REPORT}", request.scratch);
    let file = format!("{}/{file}", request.scratch);
    Launch::for_file(tree, group.project, request, file, script).with_env("PROCTOR_REPORT", report)
}

/// What a file of ours said when it found no runner, or one that is too old: `proctor: jest is not installed ...`. And what
/// Yarn's file says where its archives should be and are not.
pub(crate) fn missing_runner(said: &str, runner: &str) -> Option<String> {
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
pub(crate) const TITLE_SEPARATOR: &str = " > ";

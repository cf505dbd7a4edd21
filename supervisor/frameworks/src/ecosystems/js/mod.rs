//! What the JavaScript and TypeScript runners share.
//!
//! `detect` finds projects, from the manifests that `package_json` reads. `test_script` finds the runners that a project's test
//! script starts, from the words that `shell_parser` reads; `shell_command` describes its other commands. `runner_starts` decides
//! how often a runner is started and with which files, `forwarded_options` which of the script's options it gets, `launch` with
//! which program and environment. `stacks` reads where a test hangs. `probes.cjs`, `hits.cjs` and `lines.cjs` measure the lines
//! of each test. `selection` turns a selection into files and names. `framework` is the contract that an adapter fills in.
//!
//! A test's `package` is its file; its `name` is the titles around it and its own, joined with [`TITLE_SEPARATOR`]. A control
//! character of a title, such as a line end, is reported as its picture (U+2400 and on).

mod borp;
mod detect;
mod forwarded_options;
mod framework;
mod launch;
mod node_errors;
mod package_json;
mod runner;
mod runner_starts;
mod selection;
mod shell_command;
mod shell_parser;
mod stacks;
mod test_script;
mod toolchain;

use crate::contract::FileTree;
use crate::contract::{InjectedFile, NameScope, PlanRequest, REPORT, RerunNames, ScopeSupport};

pub(crate) use detect::{
    MARKERS, describe_markers, is_left_to_test_script, is_monorepo, is_tested_by, may_start_reported_runner,
    missing_build_output, package_json_path, projects, script_starts, shell_projects, shell_test_commands,
    skipped_command_notes,
};
pub(crate) use forwarded_options::{Arity, Flag, ForwardPolicy, ForwardedOptions};
pub(crate) use framework::JsFramework;
pub(crate) use launch::{Launch, PROGRAM_FILE, program_paths, program_step};
pub(crate) use node_errors::{error_location, error_reason};
pub(crate) use runner::JsRunner;
pub(crate) use runner_starts::{RunnerStart, runner_starts};
pub(crate) use selection::{
    NameFilter, TestGroup, default_title_expression, group_selection, group_selection_with, likely_test_files,
    map_targets, quote_regex,
};
pub(crate) use shell_command::ShellCommand;
pub(crate) use stacks::STACK_DUMP;
pub(crate) use test_script::{Invocation, NODE_VALUE_OPTIONS};
pub(crate) use toolchain::NODE;

/// An injected script that Node loads first in every process below a test script.
pub(crate) const INJECT_FILE: (&str, &[u8]) = ("js/inject.cjs", include_bytes!("inject.cjs"));

/// Extensions of files that a runner may treat as source.
pub(crate) const EXTENSIONS: &[&str] = &["cjs", "cts", "js", "jsx", "mjs", "mts", "svelte", "ts", "tsx", "vue"];

/// Variable that makes a reporter list tests instead of running them: an expression over names, empty for all.
pub(crate) const LISTING_VARIABLE: &str = "PROCTOR_LISTING";

/// A file to inject below the scratch directory.
pub(crate) fn injected_file(path: &str, bytes: &[u8]) -> InjectedFile {
    InjectedFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
}

/// The files that every reporter with access to error objects needs, followed by those of one runner.
pub(crate) fn shared_files(files: &[(&str, &[u8])]) -> Vec<InjectedFile> {
    let shared: [(&str, &[u8]); 3] = [
        (PROGRAM_FILE, include_bytes!("program.cjs")),
        ("js/report.cjs", include_bytes!("report.cjs")),
        ("js/failure.cjs", include_bytes!("failure.cjs")),
    ];
    shared.iter().chain(files).map(|(path, bytes)| injected_file(path, bytes)).collect()
}

/// The same for a runner whose lines are measured.
pub(crate) fn shared_files_with_lines(files: &[(&str, &[u8])]) -> Vec<InjectedFile> {
    let lines: [(&str, &[u8]); 5] = [
        ("js/hits.cjs", include_bytes!("hits.cjs")),
        ("js/lines.cjs", include_bytes!("lines.cjs")),
        ("js/modules.cjs", include_bytes!("modules.cjs")),
        ("js/node_internals.cjs", include_bytes!("node_internals.cjs")),
        ("js/probes.cjs", include_bytes!("probes.cjs")),
    ];
    shared_files(&[&lines[..], files].concat())
}

/// A glob that matches the file. Runners without quoting get `?` for each special character, which may match another file, too.
pub(crate) fn glob_literal(file: &str) -> String {
    file.chars().map(|char| if "[]{}()*!+@\\,".contains(char) { '?' } else { char }).collect()
}

/// Starts an injected script, which writes to the report, for a group.
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

/// The remedy if the output says that the runner is not installed: an injected script's `proctor: jest is not installed ...`, or
/// Yarn's error for an archive that is not where its file says.
pub(crate) fn missing_runner(output: &str, runner: &str) -> Option<String> {
    let begins = |line: &&str| line.strip_prefix(runner).is_some_and(|rest| rest.starts_with(' '));
    let ours = output.lines().filter_map(|line| line.strip_prefix("proctor: ")).find(begins).map(str::to_owned);
    ours.or_else(|| {
        let is_unseen = output.lines().any(|line| line.starts_with("Error: Required package missing from disk."));
        is_unseen.then(|| {
            format!(
                "{runner}: Yarn keeps its packages where runs do not see them: set `enableGlobalCache: false` in \
                 .yarnrc.yml and run `yarn install`"
            )
        })
    })
}

/// Separator between titles in a test's name.
pub(crate) const TITLE_SEPARATOR: &str = " > ";

/// Runners whose adapters apply globs for names to titles joined by blanks, beside the project's own filter.
pub(crate) const TITLE_SCOPE: ScopeSupport = ScopeSupport { names: NameScope::Adapter, files: false };

/// How names of JavaScript's tests relate to each other.
pub(crate) const RERUN_NAMES: RerunNames = RerunNames { are_titles: true, ..RerunNames::PLAIN };

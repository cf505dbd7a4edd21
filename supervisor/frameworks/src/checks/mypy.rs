//! mypy from 1.11 on, in JSON lines.
//!
//! It exits with 0 without findings, with 1 with some, and with 2 if it gives up, also after an error of syntax, which
//! keeps it from checking any types. Of settings that it cannot read it only writes to standard error and goes on with
//! its defaults.

use super::command_output::{beginning, position};
use super::projects::{add_with_content, with_file};
use super::settings::{has_ini_section, has_toml_table, or_root};
use super::settings_files;
use super::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest, ReservedVariables, Step};
use crate::ecosystems::python;
use crate::parsing::workspace_paths::join;
use proctor_core::check::{CheckKind, CheckerStatus, Finding, Range, Severity};
use serde::Deserialize;
use std::collections::BTreeMap;

/// mypy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mypy;

const NAME: &str = "mypy";

/// The rule of errors of syntax.
const SYNTAX: &str = "syntax";

/// Its own settings files, in its order.
const CONFIGS: [&str; 2] = ["mypy.ini", ".mypy.ini"];

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Typecheck,
    selected_by: "mypy.ini, .mypy.ini, [mypy] in setup.cfg, or [tool.mypy] in pyproject.toml",
    markers: &["mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"],
    settings: &[settings_files::PYTHON, &["mypy*.ini", ".mypy*.ini"]],
    extensions: &["py", "pyi"],
    reserved: ReservedVariables { names: &["MYPYPATH"], prefixes: &["MYPY_"], ..ReservedVariables::NONE },
    toolchains: &[&python::PYTHON],
    remedy: "install mypy in the project's environment (.venv/bin/pip install mypy), or on the PATH of proctor",
    sample: &[("mypy.ini", "[mypy]\n"), ("a.py", "")],
    ..CheckerManifest::DEFAULT
};

impl Checker for Mypy {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        let mut projects = with_file(tree, &CONFIGS);
        add_with_content(&mut projects, tree, "pyproject.toml", |text| has_toml_table(text, NAME));
        add_with_content(&mut projects, tree, "setup.cfg", |text| has_ini_section(text, NAME));
        projects
    }

    fn detect_explicit(&self, tree: &FileTree) -> Vec<CheckProject> {
        or_root(self.detect(tree), tree, MANIFEST.extensions)
    }

    fn plan(&self, tree: &FileTree, run: &CheckerRun<'_>, _request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        let dir = &run.project.dir;
        // mypy's cache takes a file of the same size and of the same second for unchanged, and agents make such edits.
        let options = [
            "--output=json",
            "--show-error-end",
            "--no-error-summary",
            "--no-color-output",
            "--no-pretty",
            "--cache-dir=/dev/null",
        ];
        let mut args: Vec<String> = options.map(str::to_owned).into();
        if !run.files.is_empty() || !names_files(tree, run.project) {
            args.push("--".to_owned());
            args.extend(run.paths());
        }
        let programs = python::program_candidates(dir, NAME);
        vec![CheckerCommand::of(Step { programs, args, dir: dir.clone(), env: BTreeMap::new() })]
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        let (mut findings, mut other) = (Vec::new(), Vec::new());
        for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            match serde_json::from_slice::<Line>(line) {
                Ok(line) => findings.extend(line.finding(output)),
                Err(_) => other.push(line),
            }
        }
        let is_cut = other.iter().any(|line| line.starts_with(b"{"));
        let has_syntax_errors = findings.iter().any(|finding| finding.rule == SYNTAX);
        let status = match output.status {
            _ if is_cut => output.failed_because("its output is not whole"),
            2 if has_syntax_errors => CheckerStatus::Partial {
                reason: "errors of syntax kept mypy from checking types, in these files and in all others".to_owned(),
            },
            _ => settings_status(output, output.ended(&findings, 0, 1)),
        };
        (findings, status)
    }
}

/// Whether the settings name what to check.
fn names_files(tree: &FileTree, project: &CheckProject) -> bool {
    let Some(text) = tree.content(&join(&project.dir, &project.config)) else { return false };
    let is_key = |line: &str| {
        let key = line.split(['=', ':']).next().unwrap_or_default().trim();
        matches!(key, "files" | "packages" | "modules") && line.contains(['=', ':'])
    };
    // Of a shared file, only the lines of mypy's own section count.
    let mut is_own = false;
    text.lines().any(|line| {
        let line = line.trim();
        if line.starts_with('[') {
            is_own = matches!(line.trim_end(), "[mypy]" | "[tool.mypy]");
        }
        is_own && is_key(line)
    })
}

/// `status`, or that settings were not applied. Each complaint about them begins with the name of their file.
fn settings_status(output: &CheckerOutput<'_>, status: CheckerStatus) -> CheckerStatus {
    let errors = output.error_text();
    let is_about_settings = |line: &str| {
        MANIFEST.markers.iter().any(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
    };
    let about: Vec<&str> = errors.lines().filter(|line| is_about_settings(line)).collect();
    let is_of_section = |line: &&str| line.split_once(": ").is_some_and(|(_, rest)| rest.starts_with('['));
    match status {
        CheckerStatus::Complete if about.is_empty() => CheckerStatus::Complete,
        CheckerStatus::Complete if about.iter().all(is_of_section) => {
            let reason = format!("mypy did not apply all of its settings: {}", about.join("; "));
            CheckerStatus::Partial { reason }
        }
        CheckerStatus::Complete => {
            let said = beginning(&errors).unwrap_or_default();
            CheckerStatus::Failed { reason: format!("mypy could not read its settings and used its defaults: {said}") }
        }
        status => status,
    }
}

/// A line of mypy's output. Lines count from 1; columns from 0, but for errors of syntax.
#[derive(Debug, Deserialize)]
struct Line {
    file: String,
    line: i64,
    column: i64,
    #[serde(default)]
    end_line: Option<i64>,
    #[serde(default)]
    end_column: Option<i64>,
    message: String,
    #[serde(default)]
    hint: Option<String>,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    severity: String,
}

impl Line {
    fn finding(self, output: &CheckerOutput<'_>) -> Option<Finding> {
        let rule = self.code.unwrap_or_default();
        let shift = i64::from(rule != SYNTAX);
        let column = |column: i64| if column < 0 { 0 } else { position(column.saturating_add(shift)) };
        let hint = self.hint.unwrap_or_default();
        let url = hint.split_whitespace().find(|word| word.starts_with("https://")).unwrap_or_default();
        let url = match url {
            "" if rule.is_empty() => String::new(),
            "" => format!("https://mypy.readthedocs.io/en/stable/_refs.html#code-{rule}"),
            url => url.to_owned(),
        };
        let message = if hint.is_empty() || hint.starts_with("See https://") {
            self.message
        } else {
            format!("{}\n{hint}", self.message)
        };
        Some(Finding {
            range: Range {
                line: position(self.line),
                column: column(self.column),
                end_line: self.end_line.map_or(0, position),
                end_column: self.end_column.map_or(0, column),
            },
            rule,
            severity: if self.severity == "note" { Severity::Info } else { Severity::Error },
            url,
            ..output.finding(NAME, CheckKind::Typecheck, &self.file, &message)?
        })
    }
}

//! Pyright, in JSON: as npm's package, or as PyPI's, which needs its own copy of the program beside it.
//!
//! It exits with 0 without errors, with 1 with some, with 2 and 3 if it or its settings fail, and with 4 for wrong
//! arguments (Pyright's documentation, "Pyright Exit Codes"). A run that found no file exits with 0, so the number of
//! analyzed files counts.

use super::command_output::position;
use super::projects::{add_with_content, with_file};
use super::settings::{has_toml_table, or_root};
use super::settings_files;
use super::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest, ReservedVariables, Step};
use crate::ecosystems::{js, python};
use proctor_core::check::{CheckKind, CheckerStatus, Finding, Range, Severity};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Pyright.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pyright;

const NAME: &str = "pyright";

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Typecheck,
    selected_by: "pyrightconfig.json, or [tool.pyright] in pyproject.toml",
    markers: &["pyproject.toml"],
    settings: &[settings_files::PYTHON, &["pyrightconfig*.json"]],
    extensions: &["py", "pyi"],
    reserved: ReservedVariables { prefixes: &["PYRIGHT_"], ..ReservedVariables::NONE },
    toolchains: &[&python::PYTHON, &js::NODE],
    remedy: "install pyright in the project (npm install --save-dev pyright), or on the PATH of proctor",
    sample: &[("pyrightconfig.json", "{}"), ("a.py", "")],
    ..CheckerManifest::DEFAULT
};

impl Checker for Pyright {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        let mut projects = with_file(tree, &["pyrightconfig.json"]);
        add_with_content(&mut projects, tree, "pyproject.toml", |text| has_toml_table(text, NAME));
        projects
    }

    fn detect_explicit(&self, tree: &FileTree) -> Vec<CheckProject> {
        or_root(self.detect(tree), tree, MANIFEST.extensions)
    }

    fn plan(&self, _tree: &FileTree, run: &CheckerRun<'_>, _request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        let dir = &run.project.dir;
        let mut args = vec!["--outputjson".to_owned()];
        // Without paths it checks what its settings include.
        args.extend(run.files.iter().map(|file| format!("./{file}")));
        let programs = [js::program_paths(dir, NAME), python::program_candidates(dir, NAME)].concat();
        vec![CheckerCommand::of(Step { programs, args, dir: dir.clone(), env: BTreeMap::new() })]
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        if !matches!(output.status, 0 | 1) {
            return (Vec::new(), output.failed());
        }
        let Report { general_diagnostics, summary } = match output.json() {
            Ok(report) => report,
            Err(status) => return (Vec::new(), status),
        };
        let findings: Vec<Finding> = general_diagnostics.into_iter().filter_map(|one| one.finding(output)).collect();
        let status = match summary.files_analyzed {
            0 => output.failed_because("it found no file to check"),
            _ => output.ended(&findings, 0, 1),
        };
        (findings, output.partial_if_left_out(summary.files_analyzed, status))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    general_diagnostics: Vec<Diagnostic>,
    summary: Summary,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    files_analyzed: u64,
}

/// A diagnostic, with lines and characters from 0.
#[derive(Debug, Deserialize)]
struct Diagnostic {
    file: String,
    severity: String,
    message: String,
    range: Option<DiagnosticRange>,
    #[serde(default)]
    rule: String,
}

#[derive(Debug, Deserialize)]
struct DiagnosticRange {
    start: Place,
    end: Place,
}

#[derive(Debug, Deserialize)]
struct Place {
    line: u64,
    character: u64,
}

impl Diagnostic {
    fn finding(self, output: &CheckerOutput<'_>) -> Option<Finding> {
        let from_one = |number: u64| position(number.saturating_add(1));
        let range = self.range.map(|DiagnosticRange { start, end }| Range {
            line: from_one(start.line),
            column: from_one(start.character),
            end_line: from_one(end.line),
            end_column: from_one(end.character),
        });
        let severity = match self.severity.as_str() {
            "warning" => Severity::Warning,
            "information" => Severity::Info,
            _ => Severity::Error,
        };
        let url = match self.rule.as_str() {
            "" => String::new(),
            rule => format!("https://github.com/microsoft/pyright/blob/main/docs/configuration.md#{rule}"),
        };
        Some(Finding {
            range: range.unwrap_or_default(),
            rule: self.rule,
            severity,
            url,
            ..output.finding(NAME, CheckKind::Typecheck, &self.file, &self.message)?
        })
    }
}

//! ruff: `ruff check`, in JSON.
//!
//! Settings of subdirectories apply as ruff finds them. A file that was named is checked although settings exclude it
//! (`--no-force-exclude`): else it would be dropped without a word. It exits with 0 without findings, with 1 with some, and with 2
//! if it gives up (ruff's documentation, "The Ruff Linter", exit codes).

use super::command_output::{SYNTAX_REASON, position};
use super::projects::{add_with_content, with_file};
use super::settings::{has_toml_table, or_root};
use super::settings_files;
use super::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest, ReservedVariables, Step};
use crate::ecosystems::python;
use proctor_core::check::{CheckKind, CheckerStatus, Edit, Finding, Fix, Range, Severity};
use serde::Deserialize;
use std::collections::BTreeMap;

/// ruff.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ruff;

const NAME: &str = "ruff";

/// The rule of errors of syntax.
const SYNTAX: &str = "invalid-syntax";

/// The same before ruff 0.5.
const SYNTAX_BEFORE: &str = "E999";

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Lint,
    selected_by: "ruff.toml, .ruff.toml, or [tool.ruff] in pyproject.toml",
    markers: &["pyproject.toml"],
    settings: &[settings_files::PYTHON, settings_files::IGNORE, &["ruff*.toml", ".ruff*.toml"]],
    extensions: &["py", "pyi", "ipynb"],
    reserved: ReservedVariables { prefixes: &["RUFF_"], ..ReservedVariables::NONE },
    toolchains: &[&python::PYTHON],
    remedy: "install ruff in the project's environment (.venv/bin/pip install ruff), or on the PATH of proctor",
    sample: &[("ruff.toml", ""), ("a.py", "")],
    ..CheckerManifest::DEFAULT
};

impl Checker for Ruff {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        let mut projects = with_file(tree, &[".ruff.toml", "ruff.toml"]);
        add_with_content(&mut projects, tree, "pyproject.toml", |text| has_toml_table(text, "ruff"));
        projects
    }

    fn detect_explicit(&self, tree: &FileTree) -> Vec<CheckProject> {
        or_root(self.detect(tree), tree, MANIFEST.extensions)
    }

    fn plan(&self, _tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        let mut args: Vec<String> =
            ["check", "--output-format=json", "--no-fix", "--no-force-exclude"].map(str::to_owned).into();
        args.push("--".to_owned());
        args.extend(run.paths());
        let cache = format!("{}/ruff{}", request.cache, request.workspace);
        let step = Step {
            programs: python::program_candidates(&run.project.dir, NAME),
            args,
            dir: run.project.dir.clone(),
            env: BTreeMap::from([("RUFF_CACHE_DIR".to_owned(), cache)]),
        };
        vec![CheckerCommand::of(step)]
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        if !matches!(output.status, 0 | 1) {
            return (Vec::new(), output.failed());
        }
        let diagnostics: Vec<Diagnostic> = match output.json() {
            Ok(diagnostics) => diagnostics,
            Err(status) => return (Vec::new(), status),
        };
        let findings: Vec<Finding> = diagnostics.into_iter().filter_map(|one| one.finding(output)).collect();
        if output.error_text().contains("No Python files found") {
            return (findings, output.failed_because("it found no file to check"));
        }
        let has_syntax_errors = findings.iter().any(|finding| [SYNTAX, SYNTAX_BEFORE].contains(&finding.rule.as_str()));
        let status = output.partial_if(has_syntax_errors, SYNTAX_REASON, output.ended(&findings, 0, 1));
        (findings, status)
    }
}

/// A finding in ruff's JSON.
#[derive(Debug, Deserialize)]
struct Diagnostic {
    filename: String,
    code: Option<String>,
    message: String,
    #[serde(default)]
    severity: Option<String>,
    location: Option<Place>,
    end_location: Option<Place>,
    #[serde(default)]
    fix: Option<RuffFix>,
    #[serde(default)]
    url: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RuffFix {
    #[serde(default)]
    applicability: String,
    #[serde(default)]
    message: Option<String>,
    edits: Vec<RuffEdit>,
}

#[derive(Debug, Deserialize)]
struct RuffEdit {
    content: Option<String>,
    location: Place,
    end_location: Place,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Place {
    row: u64,
    column: u64,
}

impl Diagnostic {
    fn finding(self, output: &CheckerOutput<'_>) -> Option<Finding> {
        let found = output.finding(NAME, CheckKind::Lint, &self.filename, &self.message)?;
        let severity = match self.severity.as_deref() {
            Some("warning") => Severity::Warning,
            Some("info") => Severity::Info,
            _ => Severity::Error,
        };
        Some(Finding {
            range: range(self.location, self.end_location),
            // Some versions give errors of syntax no name.
            rule: self.code.unwrap_or_else(|| SYNTAX.to_owned()),
            severity,
            fix: self.fix.map(RuffFix::fix),
            url: self.url.unwrap_or_default(),
            ..found
        })
    }
}

impl RuffFix {
    fn fix(self) -> Fix {
        let edits = self.edits.into_iter().map(|edit| Edit {
            range: range(Some(edit.location), Some(edit.end_location)),
            text: edit.content.unwrap_or_default(),
        });
        Fix {
            description: self.message.unwrap_or_default(),
            edits: edits.collect(),
            is_safe: self.applicability == "safe",
        }
    }
}

fn range(start: Option<Place>, end: Option<Place>) -> Range {
    let numbers = |place: Option<Place>| place.map_or((0, 0), |place| (position(place.row), position(place.column)));
    let ((line, column), (end_line, end_column)) = (numbers(start), numbers(end));
    Range { line, column, end_line, end_column }
}

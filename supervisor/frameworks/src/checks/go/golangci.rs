//! golangci-lint from version 2 on, in JSON.
//!
//! It exits with 0 without findings, with the status that it was given (1) with some, and with another if it gives up;
//! of a failure within an analysis it writes a line with `level=error`. The linter `typecheck` stands for what does not
//! compile.

use super::module_command::{command, compiler_error, modules};
use crate::checks::command_output::position;
use crate::checks::settings_files;
use crate::checks::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest, ReservedVariables};
use crate::parsing::workspace_paths::{ancestors, join};
use crate::runners::go::GO;
use proctor_core::check::{CheckKind, CheckerStatus, Finding, Fix, Range, Severity};
use serde::Deserialize;

/// golangci-lint.
#[derive(Debug, Clone, Copy)]
pub(in crate::checks) struct GolangciLint;

const NAME: &str = "golangci-lint";

/// Names of its settings.
const CONFIGS: [&str; 4] = [".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"];

/// Linters whose messages begin with the name of their own check.
const WITH_CHECKS: [&str; 6] = ["govet", "staticcheck", "revive", "gosec", "gocritic", "modernize"];

/// The linter for what does not compile.
const TYPECHECK: &str = "typecheck";

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Lint,
    selected_by: ".golangci.yml, .yaml, .toml or .json, in the directory of a go.mod or above it",
    markers: &["go.mod", "go.work"],
    settings: &[settings_files::GO, &[".golangci*", ".custom-gcl.*"]],
    extensions: &["go"],
    reserved: ReservedVariables { prefixes: &["GOLANGCI_LINT_", "GL_"], ..ReservedVariables::NONE },
    toolchains: &[&GO],
    remedy: "install golangci-lint 2 on the PATH of proctor (go install \
             github.com/golangci/golangci-lint/v2/cmd/golangci-lint@latest)",
    sample: &[("go.mod", "module example.com/a\n"), ("a.go", "package a\n"), (".golangci.yml", "version: \"2\"\n")],
    ..CheckerManifest::DEFAULT
};

/// `--path-mode=abs` because paths are else relative to the settings; no bounds on the number of findings; never fixes.
const ARGS: &[&str] = &[
    "run",
    "--output.json.path=stdout",
    "--output.text.path=",
    "--path-mode=abs",
    "--show-stats=false",
    "--max-issues-per-linter=0",
    "--max-same-issues=0",
    "--issues-exit-code=1",
    "--fix=false",
    "--timeout=0",
    "--allow-parallel-runners",
    "--color=never",
];

impl Checker for GolangciLint {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        let config = |dir: &str| ancestors(dir).any(|dir| CONFIGS.iter().any(|name| tree.contains(&join(dir, name))));
        modules(tree).into_iter().filter(|module| config(&module.dir)).collect()
    }

    fn detect_explicit(&self, tree: &FileTree) -> Vec<CheckProject> {
        modules(tree)
    }

    fn substitute(&self) -> Option<&'static dyn Checker> {
        Some(&super::GoVet)
    }

    fn plan(&self, tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        let mut command = command(NAME, ARGS, tree, run, request);
        command.step.env.insert("GOLANGCI_LINT_CACHE".to_owned(), format!("{}/golangci-lint", request.cache));
        vec![command]
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        let errors = output.error_text();
        if errors.contains("unknown flag: --output.json.path") {
            return (
                Vec::new(),
                CheckerStatus::Failed { reason: "golangci-lint 2 or newer is needed, and this is older".to_owned() },
            );
        }
        if !matches!(output.status, 0 | 1) {
            return (Vec::new(), output.failed());
        }
        // A line of text may follow the document.
        let document = serde_json::Deserializer::from_slice(output.stdout).into_iter::<Report>().next();
        let Some(Ok(Report { issues, report })) = document else {
            return (Vec::new(), output.failed_because("its output is not whole"));
        };
        let issues = issues.unwrap_or_default();
        let does_not_compile = issues.iter().any(|issue| issue.from_linter == TYPECHECK);
        let findings: Vec<Finding> = issues.into_iter().flat_map(|issue| issue.findings(output)).collect();
        let status = match output.ended(&findings, 0, 1) {
            CheckerStatus::Complete if !report.error.is_empty() => output.failed_because(&report.error),
            CheckerStatus::Complete if errors.contains("level=error") => output.failed_because("a part of it failed"),
            CheckerStatus::Complete if does_not_compile => {
                CheckerStatus::Partial { reason: "packages that do not compile were not linted".to_owned() }
            }
            status => status,
        };
        (findings, status)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    issues: Option<Vec<Issue>>,
    #[serde(default)]
    report: Analysis,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Analysis {
    error: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Issue {
    from_linter: String,
    text: String,
    #[serde(default)]
    severity: String,
    pos: Pos,
    #[serde(default)]
    suggested_fixes: Option<Vec<SuggestedFix>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Pos {
    filename: String,
    line: u64,
    column: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SuggestedFix {
    #[serde(default)]
    message: String,
}

impl Issue {
    fn findings(self, output: &CheckerOutput<'_>) -> Vec<Finding> {
        // The errors of a compiler, below the name of the package.
        if let Some(errors) = self.text.strip_prefix(": # ").filter(|_| self.from_linter == TYPECHECK) {
            return errors.lines().filter_map(|line| compiler_error(NAME, TYPECHECK, line, output)).collect();
        }
        self.finding(output).into_iter().collect()
    }

    fn finding(self, output: &CheckerOutput<'_>) -> Option<Finding> {
        let is_name = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
        let check =
            self.text.split_once(": ").filter(|(name, _)| is_name(name) && WITH_CHECKS.contains(&&*self.from_linter));
        let (rule, message) = match check {
            Some((check, message)) => (format!("{}/{check}", self.from_linter), message),
            None => (self.from_linter.clone(), self.text.as_str()),
        };
        let severity = match self.severity.to_ascii_lowercase().as_str() {
            "error" => Severity::Error,
            // Whatever severity the settings give a finding, golangci-lint fails because of it.
            _ if self.from_linter == TYPECHECK => Severity::Error,
            _ => Severity::Warning,
        };
        let fix =
            self.suggested_fixes.unwrap_or_default().into_iter().map(|fix| fix.message).find(|text| !text.is_empty());
        Some(Finding {
            range: Range { line: position(self.pos.line), column: position(self.pos.column), ..Range::default() },
            rule,
            severity,
            fix: fix.map(|description| Fix { description, ..Fix::default() }),
            url: format!("https://golangci-lint.run/docs/linters/configuration/#{}", self.from_linter),
            ..output.finding(NAME, CheckKind::Lint, &self.pos.filename, message)?
        })
    }
}

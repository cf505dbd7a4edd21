//! `go vet -json`: one JSON document for each package, with the findings of each analyzer.
//!
//! With `-json` it exits with 0 whatever the analyzers find, and with 1 if a package does not compile: the first error
//! of each such package is then on standard error, behind `vet: `, and its analyzers do not run. The documents are on
//! standard output from Go 1.25 on, and on standard error before.

use super::module_command::{command, compiler_error, modules, place};
use crate::checks::settings_files;
use crate::checks::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest};
use crate::runners::go::GO;
use proctor_core::check::{CheckKind, CheckerStatus, Finding, Fix, Range, Severity};
use serde::Deserialize;
use std::collections::BTreeMap;

/// `go vet`.
#[derive(Debug, Clone, Copy)]
pub(in crate::checks) struct GoVet;

const NAME: &str = "go-vet";

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Lint,
    selected_by: "go.mod, where golangci-lint is not set up or not installed",
    markers: &["go.mod", "go.work"],
    settings: &[settings_files::GO],
    extensions: &["go"],
    toolchains: &[&GO],
    remedy: "install Go 1.21 or newer and put its bin directory on the PATH of proctor",
    sample: &[("go.mod", "module example.com/a\n"), ("a.go", "package a\n")],
    ..CheckerManifest::DEFAULT
};

impl Checker for GoVet {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        modules(tree)
    }

    fn plan(&self, tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        vec![command("go", &["vet", "-json"], tree, run, request)]
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        let (mut findings, mut documents_read, mut is_whole) = (Vec::new(), 0_u64, true);
        let (mut other, mut failed): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for stream in [output.stdout, output.stderr] {
            let text = String::from_utf8_lossy(stream);
            let mut rest = text.as_ref();
            while let Some(line) = rest.lines().next() {
                if line.starts_with('{') {
                    let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Packages>();
                    match documents.next() {
                        Some(Ok(packages)) => {
                            documents_read += 1;
                            findings.extend(of_packages(packages, output, &mut failed));
                        }
                        Some(Err(_)) | None => {
                            is_whole = false;
                            break;
                        }
                    }
                    rest = rest.get(documents.byte_offset()..).unwrap_or_default().trim_start();
                    continue;
                }
                rest = rest.get(line.len()..).unwrap_or_default().trim_start();
                match line.strip_prefix("vet: ").and_then(|error| compiler_error(NAME, COMPILES, error, output)) {
                    Some(error) => findings.push(error),
                    None if line.starts_with('#') => {}
                    None => other.push(line.to_owned()),
                }
            }
        }
        let does_not_compile = findings.iter().any(|finding| finding.rule == COMPILES);
        let status = match output.status {
            _ if !is_whole => output.failed_because("its output is not whole"),
            _ if !failed.is_empty() => output.failed_because(&failed.join("; ")),
            0 if documents_read == 0 => output.failed_because("it analyzed no package"),
            // The go tool also writes warnings and what it downloads.
            0 => CheckerStatus::Complete,
            _ if does_not_compile && other.is_empty() => CheckerStatus::Partial {
                reason: "packages that do not compile were not analyzed, and only the first error of each is shown"
                    .to_owned(),
            },
            _ => output.failed(),
        };
        (findings, status)
    }
}

/// The rule of an error of the compiler.
const COMPILES: &str = "compile";

/// Findings by package and analyzer.
type Packages = BTreeMap<String, BTreeMap<String, AnalyzerResult>>;

/// The findings of one analyzer, or why it failed.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum AnalyzerResult {
    Findings(Vec<Diagnostic>),
    Failed { error: String },
}

#[derive(Debug, Deserialize)]
struct Diagnostic {
    posn: String,
    #[serde(default)]
    end: String,
    message: String,
    #[serde(default)]
    suggested_fixes: Vec<SuggestedFix>,
}

#[derive(Debug, Deserialize)]
struct SuggestedFix {
    message: String,
}

/// The findings of all packages; errors of analyzers go to `errors`.
fn of_packages(packages: Packages, output: &CheckerOutput<'_>, errors: &mut Vec<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (analyzer, result) in packages.into_values().flatten() {
        match result {
            AnalyzerResult::Findings(diagnostics) => {
                findings.extend(diagnostics.into_iter().filter_map(|one| one.finding(&analyzer, output)));
            }
            AnalyzerResult::Failed { error } => errors.push(format!("the analyzer {analyzer} failed: {error}")),
        }
    }
    findings
}

impl Diagnostic {
    fn finding(self, analyzer: &str, output: &CheckerOutput<'_>) -> Option<Finding> {
        let (file, line, column) = place(&self.posn)?;
        let (_, end_line, end_column) = place(&self.end).unwrap_or_default();
        // The edits have offsets in bytes, and the file's text is not known here.
        let fix = self.suggested_fixes.into_iter().next();
        Some(Finding {
            range: Range { line, column, end_line, end_column },
            rule: analyzer.to_owned(),
            severity: Severity::Warning,
            fix: fix.map(|fix| Fix { description: fix.message, ..Fix::default() }),
            url: format!("https://pkg.go.dev/cmd/vet#{analyzer}"),
            ..output.finding(NAME, CheckKind::Lint, file, &self.message)?
        })
    }
}

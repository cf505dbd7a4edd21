//! The checkers of Cargo workspaces, `cargo clippy` and `cargo check`, in JSON lines.
//!
//! Cargo exits with 0 if everything compiles, warnings or not, and with 101 if something does not or if it gives up.
//! The line `build-finished` shows that it reached its end. `--keep-going` checks what does not depend on a failure.

use super::command_output::position;
use super::settings_files;
use super::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest, Step};
use crate::runners::rust::{RUST, workspaces};
use proctor_core::check::{CheckKind, CheckerStatus, Edit, Finding, Fix, Range, Severity};
use serde::Deserialize;
use std::collections::BTreeMap;

/// `cargo clippy`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clippy;

/// `cargo check`.
#[derive(Debug, Clone, Copy)]
pub(super) struct CargoCheck;

static CLIPPY: CheckerManifest = CheckerManifest {
    name: "clippy",
    kind: CheckKind::Lint,
    selected_by: "Cargo.toml",
    markers: &["Cargo.toml"],
    settings: &[settings_files::CARGO],
    extensions: &["rs"],
    toolchains: &[&RUST],
    remedy: "install Clippy for the project's toolchain (rustup component add clippy)",
    sample: &[("Cargo.toml", "[package]\nname = 'a'\n"), ("src/lib.rs", "")],
    ..CheckerManifest::DEFAULT
};

static CARGO_CHECK: CheckerManifest = CheckerManifest {
    name: "cargo-check",
    kind: CheckKind::Typecheck,
    remedy: "install Rust with rustup and put cargo on the PATH of proctor",
    ..CLIPPY
};

/// Exit status of Cargo after any failure.
const FAILED: i32 = 101;

impl Checker for Clippy {
    fn manifest(&self) -> &'static CheckerManifest {
        &CLIPPY
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        projects(tree)
    }

    fn plan(&self, _tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        plan("clippy", run, request)
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        if output.error_text().contains("no such command: `clippy`")
            || output.error_text().contains("'cargo-clippy' is not installed")
        {
            return (Vec::new(), CheckerStatus::Missing { remedy: CLIPPY.remedy.to_owned() });
        }
        let build = Build::read(output);
        let findings = build.findings(output, &CLIPPY);
        let reason = "what does not compile was not linted, nor was what depends on it";
        let status = output.partial_if(build.has_error(), reason, build.status(output, &findings));
        (findings, status)
    }
}

impl Checker for CargoCheck {
    fn manifest(&self) -> &'static CheckerManifest {
        &CARGO_CHECK
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        projects(tree)
    }

    fn plan(&self, _tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        plan("check", run, request)
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        let build = Build::read(output);
        let findings = build.findings(output, &CARGO_CHECK);
        let reason = "an error hides others: those that the compiler looks for later, and those in what depends on it";
        let status = output.partial_if(build.has_error(), reason, build.status(output, &findings));
        (findings, status)
    }
}

fn projects(tree: &FileTree) -> Vec<CheckProject> {
    workspaces(tree).into_iter().map(|project| CheckProject::new(project.dir, "Cargo.toml")).collect()
}

/// All targets of all members: also tests, benches and examples, where a change may break a use.
fn plan(command: &str, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
    let dir = &run.project.dir;
    let mut args: Vec<String> =
        [command, "--workspace", "--all-targets", "--keep-going", "--message-format=json", "--color=never"]
            .map(str::to_owned)
            .into();
    let identity = blake3::hash(format!("{}/{dir}", request.workspace).as_bytes()).to_hex();
    args.push(format!("--target-dir={}/cargo-check-{}", request.cache, identity.get(..16).unwrap_or_default()));
    let step = Step { programs: vec!["cargo".to_owned()], args, dir: dir.clone(), env: BTreeMap::new() };
    vec![CheckerCommand::of(step)]
}

/// What Cargo reported.
#[derive(Default)]
struct Build {
    diagnostics: Vec<Diagnostic>,
    /// Whether the line at its end arrived.
    has_finished: bool,
    /// Whether a line could not be read.
    is_cut: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Line {
    CompilerMessage {
        message: Box<Diagnostic>,
    },
    BuildFinished {},
    #[serde(other)]
    Other,
}

/// A message of the compiler (The rustc book, "JSON Output").
#[derive(Debug, Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(default)]
    children: Vec<Child>,
}

#[derive(Debug, Deserialize)]
struct Code {
    code: String,
}

#[derive(Debug, Deserialize)]
struct Child {
    message: String,
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Debug, Deserialize)]
struct Span {
    file_name: String,
    line_start: u64,
    line_end: u64,
    column_start: u64,
    column_end: u64,
    #[serde(default)]
    is_primary: bool,
    label: Option<String>,
    suggested_replacement: Option<String>,
    suggestion_applicability: Option<String>,
    expansion: Option<Box<Expansion>>,
}

#[derive(Debug, Deserialize)]
struct Expansion {
    span: Span,
}

impl Build {
    fn read(output: &CheckerOutput<'_>) -> Build {
        let mut build = Build::default();
        // A build script or a macro may print lines of its own.
        for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{")) {
            match serde_json::from_slice::<Line>(line) {
                Ok(Line::CompilerMessage { message }) => build.diagnostics.push(*message),
                Ok(Line::BuildFinished {}) => build.has_finished = true,
                Ok(Line::Other) => {}
                Err(_) => build.is_cut = true,
            }
        }
        build
    }

    /// Whether something does not compile, a denied lint included. The compiler stops at the errors of an early phase,
    /// and Cargo compiles nothing that depends on the target: no program, test or example of a package whose library
    /// fails, and no other package that uses it.
    fn has_error(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    fn findings(&self, output: &CheckerOutput<'_>, checker: &CheckerManifest) -> Vec<Finding> {
        self.diagnostics.iter().filter_map(|one| one.finding(output, checker)).collect()
    }

    fn status(&self, output: &CheckerOutput<'_>, findings: &[Finding]) -> CheckerStatus {
        let has_error = findings.iter().any(|finding| finding.severity == Severity::Error);
        match output.status {
            0 | FAILED if self.is_cut => output.failed_because("its output is not whole"),
            0 if self.has_finished => CheckerStatus::Complete,
            0 => output.failed_because("it did not report its end"),
            FAILED if self.has_finished && has_error => {
                // A build script that fails has no message of the compiler, and neither has a crash of the compiler
                // itself.
                let errors = output.error_text();
                let is_other = |line: &&str| line.starts_with("error") && !line.starts_with("error: could not compile");
                match errors.lines().find(is_other) {
                    Some(other) => CheckerStatus::Failed { reason: other.to_owned() },
                    None => CheckerStatus::Complete,
                }
            }
            _ => output.failed(),
        }
    }
}

impl Diagnostic {
    /// Whether something does not compile because of it. The last errors of the compiler only count the others, and
    /// have no place.
    fn is_error(&self) -> bool {
        self.level.starts_with("error") && !self.spans.is_empty()
    }

    fn finding(&self, output: &CheckerOutput<'_>, checker: &CheckerManifest) -> Option<Finding> {
        let severity = match self.level.as_str() {
            "warning" => Severity::Warning,
            "note" | "help" => Severity::Info,
            level if level.starts_with("error") => Severity::Error,
            _ => return None,
        };
        let primary = self.spans.iter().find(|span| span.is_primary).or_else(|| self.spans.first())?;
        let spans =
            std::iter::successors(Some(primary), |span| span.expansion.as_ref().map(|expansion| &expansion.span));
        // In a macro from elsewhere, where the workspace expands it.
        let mut own = spans.filter(|span| output.file(&span.file_name).is_some());
        let span = own.next()?;
        let rule = self.code.as_ref().map(|code| code.code.clone()).unwrap_or_default();
        let help = self.children.iter().find_map(|child| child.message.strip_prefix("for further information visit "));
        let url = match help {
            Some(url) => url.to_owned(),
            None if is_error_code(&rule) => format!("https://doc.rust-lang.org/error_codes/{rule}.html"),
            None => String::new(),
        };
        let label = primary.label.as_deref().filter(|label| !label.is_empty() && !self.message.contains(*label));
        let message = label.map_or_else(|| self.message.clone(), |label| format!("{}: {label}", self.message));
        Some(Finding {
            range: span.range(),
            rule,
            severity,
            fix: self.fix(span),
            url,
            ..output.finding(checker.name, checker.kind, &span.file_name, &message)?
        })
    }

    /// The first help with replacements, all of them in the finding's file.
    fn fix(&self, own: &Span) -> Option<Fix> {
        let is_suggested = |child: &&Child| child.spans.iter().any(|span| span.suggested_replacement.is_some());
        let help = self.children.iter().find(is_suggested)?;
        let is_in_file = |span: &Span| span.file_name == own.file_name && span.suggested_replacement.is_some();
        let edit =
            |span: &Span| Edit { range: span.range(), text: span.suggested_replacement.clone().unwrap_or_default() };
        let may_apply = |span: &Span| span.suggestion_applicability.as_deref() != Some("HasPlaceholders");
        let is_whole = help.spans.iter().all(|span| is_in_file(span) && may_apply(span));
        let edits = if is_whole { help.spans.iter().map(edit).collect() } else { Vec::new() };
        let is_safe =
            help.spans.iter().all(|span| span.suggestion_applicability.as_deref() == Some("MachineApplicable"));
        Some(Fix { description: help.message.clone(), edits, is_safe: is_safe && is_whole })
    }
}

impl Span {
    fn range(&self) -> Range {
        Range {
            line: position(self.line_start),
            column: position(self.column_start),
            end_line: position(self.line_end),
            end_column: position(self.column_end),
        }
    }
}

/// Whether a code is one of the compiler's own errors: `E0308`.
fn is_error_code(code: &str) -> bool {
    code.strip_prefix('E').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

//! ESLint from version 8 on, in JSON.
//!
//! It exits with 0 without errors, with 1 with some or with more warnings than its settings allow, and with 2 if it
//! gives up (ESLint's documentation, "Command Line Interface", exit codes). Named files that its settings ignore are
//! warnings without a rule.

use super::command_output::{SYNTAX_REASON, position};
use super::projects::{add_with_content, with_file};
use super::settings_files;
use super::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest, ReservedVariables};
use crate::ecosystems::js;
use proctor_core::check::{CheckKind, CheckerStatus, Edit, Finding, Fix, Range, Severity, counted};
use serde::Deserialize;

/// ESLint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Eslint;

const NAME: &str = "eslint";

/// Settings files, the current form first.
const CONFIGS: [&str; 13] = [
    "eslint.config.js",
    "eslint.config.mjs",
    "eslint.config.cjs",
    "eslint.config.ts",
    "eslint.config.mts",
    "eslint.config.cts",
    ".eslintrc.js",
    ".eslintrc.cjs",
    ".eslintrc.mjs",
    ".eslintrc.yaml",
    ".eslintrc.yml",
    ".eslintrc.json",
    ".eslintrc",
];

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Lint,
    selected_by: "eslint.config.*, .eslintrc.*, or eslintConfig in package.json",
    markers: &["package.json"],
    settings: &[
        settings_files::NODE,
        settings_files::IGNORE,
        &["eslint.config.*", ".eslintrc*", ".eslintignore", ".prettierrc*", "prettier.config.*"],
    ],
    extensions: js::EXTENSIONS,
    reserved: ReservedVariables { prefixes: &["ESLINT_"], ..ReservedVariables::NONE },
    toolchains: &[&js::NODE],
    remedy: "install eslint in the project (npm install --save-dev eslint)",
    sample: &[("eslint.config.js", ""), ("a.js", "")],
    ..CheckerManifest::DEFAULT
};

impl Checker for Eslint {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        let mut projects = with_file(tree, &CONFIGS);
        add_with_content(&mut projects, tree, "package.json", |text| {
            serde_json::from_str(text).is_ok_and(|json: serde_json::Value| json.get("eslintConfig").is_some())
        });
        projects
    }

    fn plan(&self, tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        let mut args: Vec<String> = ["--format=json", "--no-color", "--"].map(str::to_owned).into();
        args.extend(run.paths());
        let (step, files) = js::program_step(tree, &run.project.dir, request, NAME, args);
        vec![CheckerCommand { files, ..CheckerCommand::of(step) }]
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        if !matches!(output.status, 0 | 1) {
            return (Vec::new(), output.failed());
        }
        let files: Vec<FileResult> = match output.json() {
            Ok(files) => files,
            Err(status) => return (Vec::new(), status),
        };
        let messages = || files.iter().flat_map(|file| &file.messages);
        let has_syntax_errors = messages().any(|message| message.fatal);
        let ignored = messages().filter(|message| message.is_of_ignored_file()).count() as u64;
        let is_empty = files.is_empty();
        let findings: Vec<Finding> = files.iter().flat_map(|file| file.findings(output)).collect();
        let status = match output.ended(&findings, 0, 1) {
            CheckerStatus::Complete if is_empty => output.failed_because("it found no file to check"),
            CheckerStatus::Complete if ignored > 0 => {
                let verb = if ignored == 1 { "is" } else { "are" };
                CheckerStatus::Partial {
                    reason: format!("{} {verb} ignored by ESLint's settings", counted(ignored, "named file")),
                }
            }
            status => output.partial_if(has_syntax_errors, SYNTAX_REASON, status),
        };
        (findings, status)
    }
}

/// The result of one file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileResult {
    file_path: String,
    messages: Vec<Message>,
    /// The file's text, if it has messages.
    #[serde(default)]
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    rule_id: Option<String>,
    #[serde(default)]
    fatal: bool,
    severity: u8,
    message: String,
    #[serde(default)]
    line: Option<u64>,
    #[serde(default)]
    column: Option<u64>,
    #[serde(default)]
    end_line: Option<u64>,
    #[serde(default)]
    end_column: Option<u64>,
    #[serde(default)]
    fix: Option<Replacement>,
    #[serde(default)]
    suggestions: Option<Vec<Suggestion>>,
}

/// A replacement; the range counts UTF-16 code units.
#[derive(Debug, Deserialize)]
struct Replacement {
    range: (u64, u64),
    text: String,
}

#[derive(Debug, Deserialize)]
struct Suggestion {
    desc: String,
    fix: Replacement,
}

impl FileResult {
    fn findings(&self, output: &CheckerOutput<'_>) -> Vec<Finding> {
        let own = self.messages.iter().filter(|message| !message.is_of_ignored_file());
        let source = self.source.as_deref().map(LineStarts::of);
        own.filter_map(|message| message.finding(&self.file_path, source.as_ref(), output)).collect()
    }
}

impl Message {
    fn is_of_ignored_file(&self) -> bool {
        self.rule_id.is_none() && !self.fatal && self.message.starts_with("File ignored")
    }

    fn finding(&self, file: &str, source: Option<&LineStarts>, output: &CheckerOutput<'_>) -> Option<Finding> {
        let number = |number: Option<u64>| number.map_or(0, position);
        let rule = self.rule_id.clone().unwrap_or_default();
        // Rules of plugins have a `/` and are described elsewhere.
        let is_own = !rule.is_empty() && !rule.contains('/');
        let url = if is_own { format!("https://eslint.org/docs/latest/rules/{rule}") } else { String::new() };
        Some(Finding {
            range: Range {
                line: number(self.line),
                column: number(self.column),
                end_line: number(self.end_line),
                end_column: number(self.end_column),
            },
            rule,
            severity: if self.severity >= 2 { Severity::Error } else { Severity::Warning },
            fix: self.fix(source),
            url,
            ..output.finding(NAME, CheckKind::Lint, file, &self.message)?
        })
    }

    /// The fix that ESLint would make, or else its first suggestion.
    fn fix(&self, source: Option<&LineStarts>) -> Option<Fix> {
        let edits =
            |replacement: &Replacement| source.and_then(|source| source.edit(replacement)).into_iter().collect();
        if let Some(fix) = &self.fix {
            return Some(Fix {
                description: "ESLint fixes it with --fix".to_owned(),
                edits: edits(fix),
                is_safe: true,
            });
        }
        let suggestion = self.suggestions.as_ref()?.first()?;
        Some(Fix { description: suggestion.desc.clone(), edits: edits(&suggestion.fix), is_safe: false })
    }
}

/// Where the lines of a text begin, in UTF-16 code units.
struct LineStarts(Vec<u64>);

impl LineStarts {
    fn of(text: &str) -> LineStarts {
        let mut starts = vec![0];
        let mut at = 0;
        for letter in text.chars() {
            at += letter.len_utf16() as u64;
            if letter == '\n' {
                starts.push(at);
            }
        }
        LineStarts(starts)
    }

    fn edit(&self, replacement: &Replacement) -> Option<Edit> {
        let (start, end) = replacement.range;
        let ((line, column), (end_line, end_column)) = (self.place(start)?, self.place(end)?);
        (start <= end)
            .then(|| Edit { range: Range { line, column, end_line, end_column }, text: replacement.text.clone() })
    }

    fn place(&self, at: u64) -> Option<(u32, u32)> {
        let line = self.0.partition_point(|start| *start <= at);
        let start = self.0.get(line.checked_sub(1)?)?;
        Some((position(line), position(at - start + 1)))
    }
}

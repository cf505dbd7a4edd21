//! Biome: `biome lint`, in JSON.
//!
//! It exits with 0 without errors and with 1 with some or if it gives up; then it prints no JSON. The summary counts
//! the files that it read and the diagnostics that it did not print.

use super::command_output::{SYNTAX_REASON, position};
use super::projects::with_file;
use super::settings_files;
use super::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest, ReservedVariables};
use crate::ecosystems::js;
use proctor_core::check::{CheckKind, CheckerStatus, Finding, Fix, Range, Severity, counted};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Biome.
#[derive(Debug, Clone, Copy)]
pub(super) struct Biome;

const NAME: &str = "biome";

/// The category of errors of syntax.
const SYNTAX: &str = "parse";

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Lint,
    selected_by: "biome.json, biome.jsonc, .biome.json or .biome.jsonc",
    settings: &[
        settings_files::NODE,
        settings_files::IGNORE,
        &["biome*.json", "biome*.jsonc", ".biome*.json", ".biome*.jsonc"],
    ],
    extensions: &[
        "cjs", "css", "cts", "graphql", "html", "js", "json", "jsonc", "jsx", "mjs", "mts", "svelte", "ts", "tsx",
        "vue",
    ],
    reserved: ReservedVariables { prefixes: &["BIOME_"], ..ReservedVariables::NONE },
    toolchains: &[&js::NODE],
    remedy: "install Biome in the project (npm install --save-dev @biomejs/biome)",
    sample: &[("biome.json", "{}"), ("a.js", "")],
    ..CheckerManifest::DEFAULT
};

impl Checker for Biome {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        with_file(tree, &["biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc"])
    }

    fn plan(&self, tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        let mut args: Vec<String> =
            ["lint", "--reporter=json", "--max-diagnostics=none", "--colors=off"].map(str::to_owned).into();
        args.extend(run.paths());
        let (step, files) = js::program_step(tree, &run.project.dir, request, NAME, args);
        vec![CheckerCommand { files, ..CheckerCommand::of(step) }]
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        if !matches!(output.status, 0 | 1) {
            return (Vec::new(), output.failed());
        }
        let Report { summary, diagnostics } = match output.json() {
            Ok(report) => report,
            Err(status) => return (Vec::new(), status),
        };
        let has_syntax_errors = diagnostics.iter().any(|one| one.category.as_deref() == Some(SYNTAX));
        let findings: Vec<Finding> = diagnostics.into_iter().filter_map(|one| one.finding(output)).collect();
        let read = summary.changed.saturating_add(summary.unchanged);
        let status = match output.ended(&findings, 0, 1) {
            CheckerStatus::Complete if read == 0 => output.failed_because("it found no file to check"),
            CheckerStatus::Complete if summary.diagnostics_not_printed > 0 => CheckerStatus::Partial {
                reason: format!("Biome left out {}", counted(summary.diagnostics_not_printed, "finding")),
            },
            status => output.partial_if(has_syntax_errors, SYNTAX_REASON, status),
        };
        (findings, output.partial_if_left_out(read, status))
    }
}

#[derive(Debug, Deserialize)]
struct Report {
    summary: Summary,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    changed: u64,
    unchanged: u64,
    #[serde(default)]
    diagnostics_not_printed: u64,
}

#[derive(Debug, Deserialize)]
struct Diagnostic {
    category: Option<String>,
    severity: String,
    message: Text,
    #[serde(default)]
    location: Location,
    #[serde(default)]
    advices: Advices,
}

/// What Biome adds to a diagnostic. Code frames and backtraces, which are most of the output, are not kept.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Advices {
    List(Vec<Advice>),
    /// Before 2.4.
    Object {
        #[serde(default)]
        advices: Vec<OldAdvice>,
    },
    Other(IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct Advice {
    #[serde(default)]
    text: Option<Text>,
}

#[derive(Debug, Deserialize)]
struct OldAdvice {
    /// A category and a text.
    #[serde(default)]
    log: Option<(IgnoredAny, Text)>,
}

/// A text, or before 2.4 its parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(String),
    Parts(Vec<TextPart>),
    Other(IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct TextPart {
    #[serde(default)]
    content: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FilePath {
    Name(String),
    /// Before 2.4.
    Object {
        file: String,
    },
    Other(IgnoredAny),
}

#[derive(Debug, Default, Deserialize)]
struct Location {
    #[serde(default)]
    path: Option<FilePath>,
    #[serde(default)]
    start: Option<Place>,
    #[serde(default)]
    end: Option<Place>,
    /// Before 2.4: offsets in bytes, and the text that they are in.
    #[serde(default)]
    span: Option<(usize, usize)>,
    #[serde(default, rename = "sourceCode")]
    source_code: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Place {
    line: u64,
    column: u64,
}

impl Diagnostic {
    fn finding(self, output: &CheckerOutput<'_>) -> Option<Finding> {
        let message = self.message.content();
        let file = match self.location.path.as_ref()? {
            FilePath::Name(file) | FilePath::Object { file } => file,
            FilePath::Other(_) => return None,
        };
        let category = self.category.unwrap_or_default();
        let severity = match self.severity.as_str() {
            "warning" => Severity::Warning,
            "information" | "hint" => Severity::Info,
            _ => Severity::Error,
        };
        let rule = category.strip_prefix("lint/").unwrap_or(&category);
        let name = rule.rsplit('/').next().unwrap_or_default();
        let url = if rule.contains('/') {
            format!("https://biomejs.dev/linter/rules/{}", with_dashes(name))
        } else {
            String::new()
        };
        Some(Finding {
            range: self.location.range(),
            severity,
            fix: self.advices.fix(),
            url,
            rule: rule.to_owned(),
            ..output.finding(NAME, CheckKind::Lint, file, &message)?
        })
    }
}

impl Location {
    fn range(&self) -> Range {
        let of_offset = |offset: usize| {
            let before = self.source_code.as_deref()?.get(..offset)?;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            Some((position(before.matches('\n').count() + 1), position(column)))
        };
        let of_place = |place: Place| (position(place.line), position(place.column));
        let start = self.start.map(of_place).or_else(|| of_offset(self.span?.0));
        let end = self.end.map(of_place).or_else(|| of_offset(self.span?.1));
        let ((line, column), (end_line, end_column)) = (start.unwrap_or_default(), end.unwrap_or_default());
        Range { line, column, end_line, end_column }
    }
}

impl Default for Advices {
    fn default() -> Advices {
        Advices::List(Vec::new())
    }
}

impl Advices {
    /// The fix that an advice describes: `Safe fix: ...`.
    fn fix(&self) -> Option<Fix> {
        let texts: Vec<&Text> = match self {
            Advices::List(list) => list.iter().filter_map(|advice| advice.text.as_ref()).collect(),
            Advices::Object { advices } => {
                advices.iter().filter_map(|advice| advice.log.as_ref()).map(|(_, text)| text).collect()
            }
            Advices::Other(_) => Vec::new(),
        };
        texts.into_iter().map(Text::content).find_map(|text| {
            let (is_safe, description) = match text.strip_prefix("Safe fix: ") {
                Some(description) => (true, description),
                None => (false, text.strip_prefix("Unsafe fix: ")?),
            };
            Some(Fix { description: description.to_owned(), edits: Vec::new(), is_safe })
        })
    }
}

impl Text {
    fn content(&self) -> String {
        match self {
            Text::Whole(text) => text.clone(),
            Text::Parts(parts) => parts.iter().map(|part| part.content.as_str()).collect(),
            Text::Other(_) => String::new(),
        }
    }
}

/// `useConst` as `use-const`.
fn with_dashes(name: &str) -> String {
    let mut dashed = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !dashed.is_empty() {
            dashed.push('-');
        }
        dashed.push(letter.to_ascii_lowercase());
    }
    dashed
}

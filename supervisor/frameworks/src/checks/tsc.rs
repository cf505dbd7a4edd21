//! The TypeScript compiler: `tsc --noEmit` on each `tsconfig.json`, in its one-line form.
//!
//! It exits with 0 without errors, and with 1 or 2 with some. `--listFiles` shows which files it read: a configuration
//! that only refers to others checks none and exits with 0. Errors of syntax (TS1000 to TS1999) keep it from checking
//! types.

use super::command_output::position;
use super::projects::with_file;
use super::settings::plain_json;
use super::settings_files;
use super::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest};
use crate::ecosystems::js;
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::check::{CheckKind, CheckerStatus, Finding, Range, Severity};
use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The TypeScript compiler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tsc;

const NAME: &str = "tsc";

const CONFIG: &str = "tsconfig.json";

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Typecheck,
    selected_by: "tsconfig.json",
    markers: &[CONFIG],
    settings: &[settings_files::NODE],
    extensions: &["cts", "mts", "ts", "tsx", "cjs", "js", "jsx", "mjs"],
    toolchains: &[&js::NODE],
    leaves_out: "tsconfig.json leaves out",
    remedy: "install TypeScript in the project (npm install --save-dev typescript)",
    sample: &[("tsconfig.json", "{}"), ("a.ts", "")],
    ..CheckerManifest::DEFAULT
};

/// `file(line,column): error TS1234: message`, or the same without a place.
static DIAGNOSTIC: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let place = r"(?P<file>[^\n]+?)\((?P<line>\d+),(?P<column>\d+)\): ";
    let rest = r"(?P<level>error|warning|message) TS(?P<code>\d+): (?P<text>.*)";
    Regex::new(&format!("^(?:{place})?{rest}$")).ok()
});

impl Checker for Tsc {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        with_file(tree, &[CONFIG])
    }

    fn plan(&self, tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        let dir = &run.project.dir;
        let configs = configs(tree, dir);
        let command = |config: &String| {
            let mut args: Vec<String> =
                ["--noEmit", "--pretty", "false", "--listFiles", "--incremental", "--tsBuildInfoFile"]
                    .map(str::to_owned)
                    .into();
            let identity = blake3::hash(format!("{}/{dir}/{config}", request.workspace).as_bytes()).to_hex();
            args.push(format!("{}/tsc/{identity}.tsbuildinfo", request.cache));
            args.extend(["-p".to_owned(), format!("./{config}")]);
            let (step, files) = js::program_step(tree, dir, request, NAME, args);
            CheckerCommand { files, ..CheckerCommand::of(step) }
        };
        configs.iter().map(command).collect()
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        let text = String::from_utf8_lossy(output.stdout);
        let (mut findings, mut general): (Vec<Finding>, Vec<String>) = (Vec::new(), Vec::new());
        let (mut has_syntax_errors, mut has_settings_errors) = (false, false);
        for line in text.lines() {
            if let Some(parts) = DIAGNOSTIC.as_ref().and_then(|form| form.captures(line)) {
                let part = |name| parts.name(name).map_or("", |found| found.as_str());
                let found = finding(output, part("file"), part("level"), part("code"), part("text"));
                let number = |name| position(part(name).parse::<u64>().unwrap_or_default());
                has_syntax_errors |= part("code").len() == 4 && part("code").starts_with('1');
                has_settings_errors |= part("file").ends_with(".json");
                match found {
                    Some(found) => findings.push(Finding {
                        range: Range { line: number("line"), column: number("column"), ..Range::default() },
                        ..found
                    }),
                    None if part("file").is_empty() => {
                        general.push(format!("TS{}: {}", part("code"), output.scrub(part("text"))))
                    }
                    None => {}
                }
            } else if let Some(last) = findings.last_mut().filter(|_| line.starts_with(' ')) {
                last.message.push('\n');
                last.message.push_str(&output.scrub(line));
            }
        }
        let said = general.join("; ");
        let status = match output.status {
            0..=2 if !general.is_empty() => CheckerStatus::Failed { reason: said },
            0..=2 if has_settings_errors => output.failed_because("its settings have errors"),
            0..=2 if read_files(output).next().is_none() => output.failed_because("it read no file of the workspace"),
            2 => output.ended(&findings, 0, 2),
            _ => output.ended(&findings, 0, 1),
        };
        let reason = "errors of syntax kept tsc from checking types, in these files and in all others";
        (findings, output.partial_if(has_syntax_errors, reason, status))
    }

    fn unread(&self, output: &CheckerOutput<'_>) -> Vec<String> {
        let read: BTreeSet<String> = read_files(output).collect();
        let is_read = |asked: &String| read.iter().any(|file| is_within(file, &join(output.dir, asked)));
        output.files.iter().filter(|asked| !is_read(asked)).cloned().collect()
    }
}

/// The files of the workspace in the list of `--listFiles`: lines that are an absolute path.
fn read_files(output: &CheckerOutput<'_>) -> impl Iterator<Item = String> {
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"/"));
    let is_diagnostic = |line: &str| DIAGNOSTIC.as_ref().is_some_and(|form| form.is_match(line));
    lines.filter_map(move |line| {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        output.file(&line).filter(|file| !file.contains("node_modules/") && !is_diagnostic(&line))
    })
}

fn finding(output: &CheckerOutput<'_>, file: &str, level: &str, code: &str, text: &str) -> Option<Finding> {
    if file.is_empty() {
        return None;
    }
    Some(Finding {
        rule: format!("TS{code}"),
        severity: match level {
            "error" => Severity::Error,
            "warning" => Severity::Warning,
            _ => Severity::Info,
        },
        ..output.finding(NAME, CheckKind::Typecheck, file, text)?
    })
}

/// The parts of a `tsconfig.json` that are read.
#[derive(Debug, Default, Deserialize)]
struct TsConfig {
    files: Option<Vec<String>>,
    include: Option<Vec<String>>,
    #[serde(default)]
    references: Vec<Reference>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    path: String,
}

/// The configurations of a directory, relative to it: its `tsconfig.json`, unless that only refers to others, and those
/// beside it that it refers to. A reference to another directory has a `tsconfig.json` of its own there.
fn configs(tree: &FileTree, dir: &str) -> BTreeSet<String> {
    let text = tree.content(&join(dir, CONFIG)).map(plain_json).unwrap_or_default();
    let TsConfig { files, include, references } = serde_json::from_str(&text).unwrap_or_default();
    let is_file = |path: &String| path.ends_with(".json");
    let mut configs: BTreeSet<String> = references
        .iter()
        .map(|reference| join("", &reference.path))
        .filter(is_file)
        .filter(|path| tree.contains(&join(dir, path)))
        .collect();
    let has_own = files.is_none_or(|files| !files.is_empty()) || include.is_some();
    let only_refers = !has_own && !references.is_empty();
    if !only_refers {
        configs.insert(CONFIG.to_owned());
    }
    configs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: &str) -> Vec<String> {
        let tree = FileTree::with_contents(&[
            ("a/tsconfig.json", config),
            ("a/tsconfig.app.json", ""),
            ("a/b/tsconfig.json", ""),
        ]);
        configs(&tree, "a").into_iter().collect()
    }

    #[test]
    fn a_configuration_that_only_refers_to_others_is_replaced_by_them() {
        let references = r#""references": [{"path": "./tsconfig.app.json"}, {"path": "./b"}, {"path": "./gone.json"}]"#;
        assert_eq!(of(&format!("{{ \"files\": [], {references}, }} // x")), ["tsconfig.app.json"]);
        assert_eq!(of(&format!("{{ {references} }}")), ["tsconfig.app.json", "tsconfig.json"]);
        assert_eq!(of("{ broken"), ["tsconfig.json"]);
    }
}

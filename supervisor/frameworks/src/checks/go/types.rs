//! The Go compiler, by `go list -e -export -test`: it compiles every package with its tests and links and runs nothing.
//!
//! `-gcflags=-e` lifts the compiler's bound of ten errors for each package. With `-e` the go tool exits with 0 whatever
//! does not compile and has the errors in its JSON, so that another status means that it gave up.

use super::module_command::{command, modules, place};
use crate::checks::settings_files;
use crate::checks::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest};
use crate::parsing::workspace_paths::join;
use crate::runners::go::GO;
use proctor_core::check::{CheckKind, CheckerStatus, Finding, Range, counted};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The Go compiler.
#[derive(Debug, Clone, Copy)]
pub(in crate::checks) struct GoTypes;

const NAME: &str = "go-types";

static MANIFEST: CheckerManifest = CheckerManifest {
    name: NAME,
    kind: CheckKind::Typecheck,
    selected_by: "go.mod",
    markers: &["go.mod", "go.work"],
    settings: &[settings_files::GO],
    extensions: &["go"],
    toolchains: &[&GO],
    leaves_out: "build constraints, in the file or in its name, leave out",
    remedy: "install Go 1.21 or newer and put its bin directory on the PATH of proctor",
    sample: &[("go.mod", "module example.com/a\n"), ("a.go", "package a\n")],
    ..CheckerManifest::DEFAULT
};

const ARGS: &[&str] = &[
    "list",
    "-e",
    "-export",
    "-test",
    "-gcflags=-e",
    "-json=ImportPath,ForTest,Incomplete,Error,DepsErrors,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles",
];

/// Beginnings of the errors of syntax (cmd/compile/internal/syntax, parser.go and scanner.go). The compiler does not
/// check the types of a package that has one.
const SYNTAX: &[&str] = &[
    "syntax error",
    "invalid character",
    "invalid digit",
    "invalid BOM",
    "invalid NUL",
    "invalid UTF-8",
    "identifier cannot begin",
    "newline in ",
    "string not terminated",
    "comment not terminated",
    "rune literal not terminated",
    "empty rune literal",
    "more than one character in rune literal",
    "unknown escape",
    "escape ",
    "octal escape",
];

impl Checker for GoTypes {
    fn manifest(&self) -> &'static CheckerManifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<CheckProject> {
        modules(tree)
    }

    fn plan(&self, tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand> {
        vec![command("go", ARGS, tree, run, request)]
    }

    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus) {
        let packages = match packages(output) {
            Ok(packages) => packages,
            Err(_) if output.status == 0 => return (Vec::new(), output.failed_because("its output is not whole")),
            Err(_) => return (Vec::new(), output.failed()),
        };
        let errors: BTreeSet<&PackageError> =
            packages.iter().flat_map(|package| package.error.iter().chain(&package.deps_errors)).collect();
        let (mut findings, mut other) = (Vec::new(), Vec::new());
        for error in errors {
            let found = error.findings(output);
            if found.is_empty() {
                other.push(output.scrub(error.text.trim()));
            }
            findings.extend(found);
        }
        let count = |holds: fn(&Package) -> bool| packages.iter().filter(|package| holds(package)).count() as u64;
        let (skipped, unparsed) = (count(Package::was_skipped), count(Package::has_syntax_errors));
        let status = match output.status {
            0 if packages.is_empty() => output.failed_because("it found no package to compile"),
            0 if !other.is_empty() => CheckerStatus::Failed { reason: other.join("; ") },
            0 if skipped + unparsed > 0 => {
                let skipped =
                    (skipped > 0).then(|| format!("{}, because an import fails", counted(skipped, "package")));
                let unparsed =
                    (unparsed > 0).then(|| format!("{}, because of errors of syntax", counted(unparsed, "package")));
                let parts: Vec<String> = skipped.into_iter().chain(unparsed).collect();
                CheckerStatus::Partial { reason: format!("types were not checked in {}", parts.join(", and in ")) }
            }
            0 => CheckerStatus::Complete,
            _ => output.failed(),
        };
        (findings, status)
    }

    fn unread(&self, output: &CheckerOutput<'_>) -> Vec<String> {
        let packages = packages(output).unwrap_or_default();
        let read: BTreeSet<String> = packages.iter().flat_map(|package| package.files(output)).collect();
        let is_unread = |file: &&String| file.ends_with(".go") && !read.contains(&join(output.dir, file));
        output.files.iter().filter(is_unread).cloned().collect()
    }
}

fn packages(output: &CheckerOutput<'_>) -> Result<Vec<Package>, serde_json::Error> {
    serde_json::Deserializer::from_slice(output.stdout).into_iter().collect()
}

/// A package of `go list`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Package {
    import_path: String,
    error: Option<PackageError>,
    deps_errors: Vec<PackageError>,
    dir: String,
    go_files: Vec<String>,
    cgo_files: Vec<String>,
    test_go_files: Vec<String>,
    #[serde(rename = "XTestGoFiles")]
    external_test_go_files: Vec<String>,
}

#[derive(Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "PascalCase", default)]
struct PackageError {
    pos: String,
    #[serde(rename = "Err")]
    text: String,
}

impl Package {
    /// Whether the package itself was not compiled: something that it imports failed, or the go tool has an error with
    /// a position, such as that of an import, where the compiler has its errors in the text. The program of a package's
    /// tests (`p.test`) has no source of its own.
    fn was_skipped(&self) -> bool {
        let is_of_go_tool = self.error.as_ref().is_some_and(|error| place(&error.pos).is_some());
        (is_of_go_tool || !self.deps_errors.is_empty()) && !self.import_path.ends_with(".test")
    }

    /// Whether one of the compiler's errors keeps it from checking the package's types.
    fn has_syntax_errors(&self) -> bool {
        let lines = self.error.iter().flat_map(|error| error.text.lines());
        let mut messages = lines.filter_map(|line| line.split_once(": ").filter(|(posn, _)| place(posn).is_some()));
        messages.any(|(_, message)| SYNTAX.iter().any(|beginning| message.starts_with(beginning)))
    }

    /// The files that it is compiled from, relative to the workspace.
    fn files(&self, output: &CheckerOutput<'_>) -> impl Iterator<Item = String> {
        let names = [&self.go_files, &self.cgo_files, &self.test_go_files, &self.external_test_go_files];
        names.into_iter().flatten().filter_map(|name| output.file(&format!("{}/{name}", self.dir)))
    }
}

impl PackageError {
    /// The errors of the compiler below the package's name (`# example.com/p`), or the one of the go tool at its
    /// position.
    fn findings(&self, output: &CheckerOutput<'_>) -> Vec<Finding> {
        if let Some((file, line, column)) = place(&self.pos) {
            return finding(output, file, line, column, &self.text).into_iter().collect();
        }
        let mut found: Vec<Finding> = Vec::new();
        for text in self.text.lines() {
            let parsed = text.split_once(": ").and_then(|(posn, message)| Some((place(posn)?, message)));
            match (parsed, found.last_mut()) {
                (Some(((file, line, column), message)), _) => {
                    found.extend(finding(output, file, line, column, message))
                }
                (None, Some(last)) if text.starts_with('\t') => {
                    last.message.push('\n');
                    last.message.push_str(&output.scrub(text.trim()));
                }
                _ => {}
            }
        }
        found
    }
}

fn finding(output: &CheckerOutput<'_>, file: &str, line: u32, column: u32, message: &str) -> Option<Finding> {
    let found = output.finding(NAME, CheckKind::Typecheck, file, message)?;
    Some(Finding { range: Range { line, column, ..Range::default() }, ..found })
}

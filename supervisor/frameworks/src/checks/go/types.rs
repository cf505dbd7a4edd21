//! The Go compiler, by `go list -e -export -test`: it compiles every package with its tests and links and runs nothing.
//!
//! `-gcflags=-e` lifts the compiler's bound of ten errors for each package. With `-e` the go tool exits with 0 whatever
//! does not compile and has the errors in its JSON, so that another status means that it gave up.

use super::module_command::{command, modules};
use super::vet::place;
use crate::checks::settings_files;
use crate::checks::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest};
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
    remedy: "install Go 1.21 or newer and put its bin directory on the PATH of proctor",
    nested_are_apart: true,
    sample: &[("go.mod", "module example.com/a\n"), ("a.go", "package a\n")],
    ..CheckerManifest::DEFAULT
};

const ARGS: &[&str] =
    &["list", "-e", "-export", "-test", "-gcflags=-e", "-json=ImportPath,ForTest,Incomplete,Error,DepsErrors"];

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
        let mut packages: Vec<Package> = Vec::new();
        for package in serde_json::Deserializer::from_slice(output.stdout).into_iter() {
            match package {
                Ok(package) => packages.push(package),
                Err(_) if output.status == 0 => return (Vec::new(), output.failed_because("its output is not whole")),
                Err(_) => return (Vec::new(), output.failed()),
            }
        }
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
        let skipped = packages.iter().filter(|package| package.was_skipped()).count() as u64;
        let status = match output.status {
            0 if packages.is_empty() => output.failed_because("it found no package to compile"),
            0 if !other.is_empty() => CheckerStatus::Failed { reason: other.join("; ") },
            0 if skipped > 0 => CheckerStatus::Partial {
                reason: format!(
                    "what {} import does not compile, so that they were not compiled",
                    counted(skipped, "package")
                ),
            },
            0 => CheckerStatus::Complete,
            _ => output.failed(),
        };
        (findings, status)
    }
}

/// A package of `go list`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Package {
    import_path: String,
    error: Option<PackageError>,
    deps_errors: Vec<PackageError>,
}

#[derive(Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "PascalCase", default)]
struct PackageError {
    pos: String,
    #[serde(rename = "Err")]
    text: String,
}

impl Package {
    /// Whether the package itself was not compiled because something else failed. The program of a package's tests
    /// (`p.test`) has no source of its own.
    fn was_skipped(&self) -> bool {
        self.error.is_none() && !self.deps_errors.is_empty() && !self.import_path.ends_with(".test")
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

//! Reads build errors: gathers the output of compilers and vet by package, and makes one collector of each.

use super::event::OutputKind;
use super::output_buffer::OutputBuffer;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::{COLLECTORS_MAX, MESSAGE_BYTES_MAX, TEST_OUTPUT_BYTES_MAX, clip};
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{Collector, CollectorKind};
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// `file.go:3:5: message`, `vet: ./file.go:3:5: message`, `go.mod:1: message`, and, from the coverage instrumentation of a file
/// with a syntax error, `2026/11/23 06:29:21 cover: file.go: file.go:3:5: message`.
static POSITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:vet: |(?:[\d/]+ [\d:]+ )?cover: [^:\s][^:]*: )?(?P<file>(?:[A-Za-z]:)?[^:\s][^:]*\.[A-Za-z]\w*):(?P<line>\d+)(?::\d+)?: (?P<text>.+)$")
        .ok()
});

/// Build output and failed packages of a run.
#[derive(Debug)]
pub(super) struct BuildErrors {
    paths: WorkspacePaths,
    /// Compiler output by the import path that failed.
    outputs: HashMap<String, OutputBuffer>,
    reported: HashSet<String>,
    /// Packages that really failed, by the import path that was reported in their place.
    culprits: HashMap<String, String>,
}

impl BuildErrors {
    pub(super) fn new(paths: WorkspacePaths) -> BuildErrors {
        BuildErrors { paths, outputs: HashMap::new(), reported: HashSet::new(), culprits: HashMap::new() }
    }

    /// Whether the build failure of a package was reported.
    pub(super) fn is_reported(&self, package: &str) -> bool {
        self.reported.contains(package)
    }

    /// Records compiler output about `import_path`.
    pub(super) fn record_output(&mut self, import_path: &str, literal: &str) {
        // Each buffer is bounded, so their number has to be too.
        if self.outputs.len() < COLLECTORS_MAX || self.outputs.contains_key(import_path) {
            self.outputs.entry(import_path.to_owned()).or_default().push(OutputKind::Plain, literal);
        }
    }

    /// Reports that `import_path` could not be built in the module at `dir`.
    pub(super) fn report_failure(&mut self, import_path: &str, dir: &str, events: &mut Vec<RunnerEvent>) {
        let lines = self.outputs.remove(import_path).map(|buffer| buffer.lines()).unwrap_or_default();
        let text: Vec<String> = lines.into_iter().map(|line| line.text).collect();
        let package = failed_package(import_path, &text);
        if package != base_package(import_path) && self.culprits.len() < COLLECTORS_MAX {
            self.culprits.insert(import_path.to_owned(), package.clone());
        }
        self.report(&package, &text, dir, events);
    }

    /// Resolves which package's build failure made the test run of `package` fail, and reports it if that has not happened yet.
    pub(super) fn report_culprit(
        &mut self,
        package: &str,
        import_path: &str,
        dir: &str,
        events: &mut Vec<RunnerEvent>,
    ) -> String {
        let culprit = self.culprits.get(import_path).cloned().unwrap_or_else(|| base_package(import_path).to_owned());
        if !self.reported.contains(&culprit) && !self.reported.contains(package) {
            self.report(package, &[format!("{import_path} could not be built")], dir, events);
        }
        culprit
    }

    /// Reports compiler errors on stderr, where they were before Go 1.24: blocks that begin with `# package`.
    pub(super) fn report_failures_on_stderr(&mut self, stderr: &[String], dir: &str, events: &mut Vec<RunnerEvent>) {
        let mut block: Vec<String> = Vec::new();
        for line in stderr.iter().map(String::as_str).chain(["# "]) {
            if line.starts_with("# ") && !line.starts_with("# [") {
                if let Some(import_path) = block.first().and_then(|header| header.strip_prefix("# ")) {
                    self.report(base_package(import_path), &block, dir, events);
                }
                block.clear();
            }
            if !line.starts_with("# ") && block.is_empty() || line.starts_with("go: ") {
                continue;
            }
            block.push(line.to_owned());
        }
    }

    fn report(&mut self, package: &str, text: &[String], dir: &str, events: &mut Vec<RunnerEvent>) {
        // A package and its test variant fail with the same text.
        if self.reported.len() < COLLECTORS_MAX && self.reported.insert(package.to_owned()) {
            events.push(collector(package, CollectorKind::Build, text, dir, &self.paths));
        }
    }
}

/// The package that failed to build. The output's header names it even when `import_path` is a package that it imports.
fn failed_package(import_path: &str, text: &[String]) -> String {
    let header = text.first().and_then(|line| line.strip_prefix("# ")).filter(|header| !header.starts_with('['));
    base_package(header.unwrap_or(import_path)).to_owned()
}

/// The package of a test variant: `p [p.test]`, `p_test [p.test]` and `p.test` are `p`.
pub(super) fn base_package(import_path: &str) -> &str {
    let (path, variant) = match import_path.split_once(" [") {
        Some((path, variant)) => (path, variant.trim_end_matches(']')),
        None => (import_path, import_path),
    };
    match variant.strip_suffix(".test") {
        // A variant of another package, recompiled because it imports the one under test, is that package itself.
        Some(tested) if path == variant || path.trim_end_matches("_test") == tested => tested,
        _ => path,
    }
}

/// The collector of a package that could not be built or started; its message is the first line with a position.
pub(super) fn collector(
    package: &str,
    kind: CollectorKind,
    text: &[String],
    dir: &str,
    paths: &WorkspacePaths,
) -> RunnerEvent {
    let positioned = text.iter().enumerate().find_map(|(index, line)| {
        let found = POSITION.as_ref()?.captures(line)?;
        let file = paths.relative_to(dir, &found["file"]);
        Some((index, file, found["line"].parse::<u32>().ok(), found["text"].to_owned()))
    });
    let (at, file, line, first) = positioned.unwrap_or_else(|| {
        let at = text.iter().position(|line| !line.trim().is_empty() && !line.starts_with("# ")).unwrap_or(0);
        (at, None, None, text.get(at).cloned().unwrap_or_default())
    });
    let mut message = first.trim().to_owned();
    for continued in text.iter().skip(at + 1).take_while(|line| line.starts_with('\t')) {
        message.push_str(if message.ends_with(':') { " " } else { "\n" });
        message.push_str(continued.trim());
    }
    if let Some(remedy) = remedy(&message) {
        message.push_str(&format!("\n{remedy}"));
    }
    let line = line.filter(|_| file.is_some());
    RunnerEvent::Collector(Box::new(
        Collector {
            nodeid: package.to_owned(),
            kind,
            file,
            line,
            message: clip(paths.scrub(&message), MESSAGE_BYTES_MAX),
            output: clip(paths.scrub(&text.join("\n")), TEST_OUTPUT_BYTES_MAX),
        }
        .bounded(),
    ))
}

/// A remedy for errors whose text names none.
fn remedy(message: &str) -> Option<&'static str> {
    if message.contains("GOTOOLCHAIN=local") {
        return Some("install that Go version on the host: a run uses the toolchain that is there");
    }
    if message.contains("flag provided but not defined: -fullpath") {
        return Some("Go 1.21 or later is needed");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_variants_map_to_their_package() {
        for (import_path, package) in [
            ("m/p", "m/p"),
            ("m/p [m/p.test]", "m/p"),
            ("m/p_test [m/p.test]", "m/p"),
            ("m/p.test", "m/p"),
            ("m/q [m/p.test]", "m/q"),
        ] {
            assert_eq!(base_package(import_path), package);
        }
    }

    #[test]
    fn a_syntax_error_has_a_place_with_coverage_too() {
        let error =
            "2026/11/23 06:29:21 cover: /w/m/a/a.go: /w/m/a/a.go:5:6: expected '(', found ')' (and 3 more errors)";
        let text = ["# x/a", "# [/go/cover -mode atomic /w/m/a/a.go]", error].map(str::to_owned);
        let RunnerEvent::Collector(collector) =
            collector("x/a", CollectorKind::Build, &text, "m", &WorkspacePaths::new("/w"))
        else {
            panic!("not a collector")
        };
        assert_eq!((collector.file.as_deref(), collector.line), (Some("m/a/a.go"), Some(5)));
        assert_eq!(collector.message, "expected '(', found ')' (and 3 more errors)");
    }
}

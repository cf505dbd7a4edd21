//! Reads build errors, one collector for each target: compiler errors, or Cargo's own error if it gave up before.

use super::binary_names::{Binary, package_name};
use super::event::{CompilerMessage, Diagnostic};
use super::failure::{PathContext, from_script};
use proctor_core::bounds::{COLLECTORS_MAX, TEST_OUTPUT_BYTES_MAX};
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{Collector, CollectorKind};
use std::collections::BTreeMap;

/// Targets that do not compile.
#[derive(Debug, Default)]
pub(super) struct CompileErrors(BTreeMap<String, Collector>);

impl CompileErrors {
    /// Records a compiler message. A library is compiled for itself and for its tests, so its messages come twice.
    pub(super) fn record(&mut self, message: &CompilerMessage, here: PathContext<'_>) {
        let CompilerMessage { package_id, target, message } = message;
        // The compiler's last message only counts the errors, and has no place.
        let is_count = message.spans.is_empty() && message.message.starts_with("aborting due to");
        if !message.level.starts_with("error") || is_count {
            return;
        }
        let kind = target.kind.first().map(String::as_str).unwrap_or_default();
        let nodeid = Binary::from_target(kind, &target.name).id(package_name(package_id));
        let rendered = here.paths.scrub(message.rendered.as_deref().unwrap_or(&message.message));
        if !self.0.contains_key(&nodeid) && self.0.len() >= COLLECTORS_MAX {
            return;
        }
        let collector = self.0.entry(nodeid.clone()).or_insert_with(|| {
            let (file, line) = place(message, here).unzip();
            let text = here.paths.scrub(&explained(message));
            Collector { nodeid, kind: CollectorKind::Build, file, line, message: text, output: String::new() }
        });
        if collector.output.len() < TEST_OUTPUT_BYTES_MAX && !collector.output.contains(&rendered) {
            collector.output.push_str(&rendered);
        }
    }

    /// Emits a collector for each target that did not compile, and returns their number.
    pub(super) fn emit_collectors(&mut self, events: &mut Vec<RunnerEvent>) -> u64 {
        let collectors = std::mem::take(&mut self.0);
        let count = collectors.len() as u64;
        events.extend(collectors.into_values().map(|collector| RunnerEvent::Collector(Box::new(collector.bounded()))));
        count
    }
}

/// The message; one about types names them, which the compiler does below the source line or, for long ones, in a note.
fn explained(message: &Diagnostic) -> String {
    let labels = message.spans.iter().filter(|span| span.is_primary).filter_map(|span| span.label.as_deref());
    let notes = message.children.iter().map(|note| note.message.as_str());
    let types = |text: &&str| text.starts_with("expected ") && text.contains("found ");
    let mut parts = vec![message.message.as_str()];
    for text in labels.chain(notes).filter(types) {
        if !parts.iter().any(|part| part.contains(text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

/// The place of the first error within the workspace; for a macro from elsewhere, where the workspace expands it.
fn place(message: &Diagnostic, here: PathContext<'_>) -> Option<(String, u32)> {
    let primary = message.spans.iter().find(|span| span.is_primary).or_else(|| message.spans.first())?;
    std::iter::successors(Some(primary), |span| span.expansion.as_ref().map(|expansion| &expansion.span))
        .find_map(|span| Some((here.paths.relative_to(here.dir, &span.file_name)?, span.line_start)))
}

/// The collector of Cargo's own error when it gave up without naming a target: its first error, with the file it names.
pub(super) fn cargo_error_collector(
    nodeid: &str,
    kind: CollectorKind,
    output: &str,
    here: PathContext<'_>,
) -> Option<RunnerEvent> {
    let output = here.paths.scrub(output);
    let from = output.lines().position(|line| line.starts_with("error"))?;
    let lines: Vec<&str> = output.lines().skip(from).collect();
    let message = cargo_error(&lines);
    let (file, line) = lines.iter().find_map(|line| place_in_line(line, here)).unzip();
    let collector = Collector { nodeid: nodeid.to_owned(), kind, file, line, message, output: lines.join("\n") };
    Some(RunnerEvent::Collector(Box::new(collector.bounded())))
}

/// Most lines of the list below the first line of Cargo's error, and most causes (one line each), that its message shows.
const ERROR_LINES_MAX: usize = 8;

/// Cargo's error in one line: the first line, the list that it announces, and the chain of its causes.
fn cargo_error(lines: &[&str]) -> String {
    let first = lines.first().copied().unwrap_or_default();
    let first = first.split_once(": ").map_or(first, |(_, message)| message);
    let is_set_in = |line: &&&str| line.starts_with("  ");
    let mut listed: Vec<&str> = Vec::new();
    if first.ends_with(':') {
        listed.extend(lines.iter().skip(1).take_while(is_set_in).map(|line| line.trim()));
        listed.dedup();
    }
    listed.truncate(ERROR_LINES_MAX);
    let after = lines.iter().zip(lines.iter().skip(1));
    let causes = after.filter(|(line, _)| **line == "Caused by:").map(|(_, cause)| cause.trim());
    let parts = [first].into_iter().filter(|_| listed.is_empty()).chain(causes.take(ERROR_LINES_MAX));
    let announced = (!listed.is_empty()).then(|| format!("{first} {}", listed.join("; ")));
    let parts: Vec<String> = announced.into_iter().chain(parts.map(str::to_owned)).collect();
    parts.join(": ")
}

/// Cargo's error line about a failed build script, before the package: `a v0.1.0 (/workspace/a)`.
const BUILD_SCRIPT_ERROR: &str = "error: failed to run custom build command for `";

/// Collectors of failed build scripts. Cargo reports them in its text output only, with their output indented below.
pub(super) fn failed_build_scripts(output: &str, here: PathContext<'_>) -> Vec<RunnerEvent> {
    let output = here.paths.scrub(output);
    let lines: Vec<&str> = output.lines().collect();
    let begin = lines.iter().enumerate().filter(|(_, line)| line.starts_with(BUILD_SCRIPT_ERROR)).take(COLLECTORS_MAX);
    begin.map(|(at, _)| build_script_collector(&lines[at..], here)).collect()
}

fn build_script_collector(lines: &[&str], here: PathContext<'_>) -> RunnerEvent {
    let is_over = |line: &&&str| ["error", "warning"].iter().any(|word| line.starts_with(word));
    let end = lines.iter().skip(1).position(|line| is_over(&line)).map_or(lines.len(), |at| at + 1);
    let lines = &lines[..end];
    let first = lines.first().copied().unwrap_or_default();
    let package =
        first.strip_prefix(BUILD_SCRIPT_ERROR).and_then(|rest| rest.split([' ', '`']).next()).unwrap_or_default();
    let printed = lines.iter().skip_while(|line| line.trim() != "--- stderr").skip(1);
    let printed: Vec<&str> = printed.map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    let failure = from_script(&printed.join("\n"), here);
    let (file, line) = failure.place.unzip();
    let collector = Collector {
        nodeid: package.to_owned(),
        kind: CollectorKind::Build,
        file,
        line,
        message: failure.message.unwrap_or_else(|| first.trim_start_matches("error: ").to_owned()),
        output: lines.join("\n"),
    };
    RunnerEvent::Collector(Box::new(collector.bounded()))
}

/// Parses ` --> Cargo.toml:3:1`.
fn place_in_line(line: &str, here: PathContext<'_>) -> Option<(String, u32)> {
    let mut parts = line.trim_start().strip_prefix("--> ")?.splitn(3, ':');
    let (file, line) = (parts.next()?, parts.next()?.parse().ok()?);
    Some((here.paths.relative_to(here.dir, file)?, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsing::workspace_paths::WorkspacePaths;

    fn parse_scripts(output: &str) -> Vec<Collector> {
        let paths = WorkspacePaths::new("/ws");
        failed_build_scripts(output, PathContext { paths: &paths, dir: "" })
            .into_iter()
            .map(|event| match event {
                RunnerEvent::Collector(collector) => *collector,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn joins_cargos_error_with_its_list_and_its_causes() {
        let paths = WorkspacePaths::new("/ws");
        for (output, wanted) in [
            (
                "warning: x\nerror: rustc 1.85.0 is not supported by the following packages:\n  a@0.1.0 requires rustc 1.99\n  \
                 a@0.1.0 requires rustc 1.99\n  b@1.0.0 requires rustc 1.98\nEither upgrade rustc or select compatible\n",
                "rustc 1.85.0 is not supported by the following packages: a@0.1.0 requires rustc 1.99; b@1.0.0 requires \
                 rustc 1.98",
            ),
            (
                "error: failed to parse manifest at `/ws/Cargo.toml`\n\nCaused by:\n  failed to parse the `edition` key\n\n\
                 Caused by:\n  supported edition values are `2015` or `2018`, but `2099` is unknown\n",
                "failed to parse manifest at `Cargo.toml`: failed to parse the `edition` key: supported edition values are \
                 `2015` or `2018`, but `2099` is unknown",
            ),
            (
                "error: no matching package named `x` found\nlocation searched: y\n",
                "no matching package named `x` found",
            ),
            ("error: there is:\n", "there is:"),
        ] {
            match cargo_error_collector(".", CollectorKind::Collection, output, PathContext { paths: &paths, dir: "" })
            {
                Some(RunnerEvent::Collector(collector)) => assert_eq!(collector.message, wanted),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn reads_package_place_and_message_of_a_failed_build_script() {
        let output = "   Compiling a v0.1.0 (/ws/a)\n\
                    error: failed to run custom build command for `a v0.1.0 (/ws/a)`\n\
                    note: To improve backtraces for build dependencies, set the X=true environment variable.\n\n\
                    Caused by:\n  process didn't exit successfully: `/c/build-script-build` (exit status: 101)\n  \
                    --- stdout\n  cargo:rerun-if-env-changed=X\n\n  --- stderr\n  looking\n\n  \
                    thread 'main' (17) panicked at a/build.rs:3:2:\n  build script boom\n  and more\n  \
                    note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n\
                    warning: build failed, waiting for other jobs to finish...\n\
                    error: failed to run custom build command for `x-sys v1.0.0`\n\nCaused by:\n  \
                    process didn't exit successfully: `/c/y` (exit status: 3)\n  --- stderr\n  no such lib: libx\n\
                    error: failed to run custom build command for `y v1.0.0`\n\nCaused by:\n  \
                    process didn't exit successfully: `/c/z` (exit status: 3)\n";
        let collectors = parse_scripts(output);
        let short: Vec<_> = collectors
            .iter()
            .map(|one| (one.nodeid.as_str(), one.file.as_deref(), one.line, one.message.as_str()))
            .collect();
        assert_eq!(
            short,
            [
                ("a", Some("a/build.rs"), Some(3), "build script boom\nand more"),
                ("x-sys", None, None, "no such lib: libx"),
                ("y", None, None, "failed to run custom build command for `y v1.0.0`"),
            ]
        );
        assert!(collectors[0].output.ends_with("display a backtrace") && collectors[1].output.ends_with("libx"));
    }
}

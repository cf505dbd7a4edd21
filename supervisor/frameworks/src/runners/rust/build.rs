//! What could not be built, one record for each target: what the compiler says of it, or what Cargo says when it gave up
//! before. Must not know tests.

use super::event::{Diagnostic, Message};
use super::failure::{Here, of_script};
use super::names::{Binary, package_of};
use proctor_core::bounds::{COLLECTORS_MAX, TEST_OUTPUT_BYTES_MAX};
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{Collector, CollectorKind};
use std::collections::BTreeMap;

/// Targets that do not compile.
#[derive(Debug, Default)]
pub(super) struct Builds(BTreeMap<String, Collector>);

impl Builds {
    /// Takes in a message of the compiler. A library is compiled for itself and for its tests, and says everything twice.
    pub(super) fn message(&mut self, message: &Message, here: Here<'_>) {
        let Message { package_id, target, message } = message;
        // The last word of the compiler counts what it said, and is at no place.
        let is_count = message.spans.is_empty() && message.message.starts_with("aborting due to");
        if !message.level.starts_with("error") || is_count {
            return;
        }
        let kind = target.kind.first().map(String::as_str).unwrap_or_default();
        let nodeid = Binary::of(kind, &target.name).id(package_of(package_id));
        let rendered = here.paths.scrub(message.rendered.as_deref().unwrap_or(&message.message));
        if !self.0.contains_key(&nodeid) && self.0.len() >= COLLECTORS_MAX {
            return;
        }
        let collector = self.0.entry(nodeid.clone()).or_insert_with(|| {
            let (file, line) = place(message, here).unzip();
            let text = here.paths.scrub(&message.message);
            Collector { nodeid, kind: CollectorKind::Build, file, line, message: text, output: String::new() }
        });
        if collector.output.len() < TEST_OUTPUT_BYTES_MAX && !collector.output.contains(&rendered) {
            collector.output.push_str(&rendered);
        }
    }

    /// Tells what did not compile, and says how much that is.
    pub(super) fn tell(&mut self, events: &mut Vec<RunnerEvent>) -> u64 {
        let collectors = std::mem::take(&mut self.0);
        let count = collectors.len() as u64;
        events.extend(collectors.into_values().map(|collector| RunnerEvent::Collector(Box::new(collector.bounded()))));
        count
    }
}

/// Where the first error is: in the workspace, also when a macro from elsewhere holds it.
fn place(message: &Diagnostic, here: Here<'_>) -> Option<(String, u32)> {
    let primary = message.spans.iter().find(|span| span.is_primary).or_else(|| message.spans.first())?;
    std::iter::successors(Some(primary), |span| span.expansion.as_ref().map(|expansion| &expansion.span))
        .find_map(|span| Some((here.paths.relative_to(here.dir, &span.file_name)?, span.line_start)))
}

/// What Cargo said when it gave up without naming a target: its first error, with the file that it blames.
pub(super) fn refusal(nodeid: &str, kind: CollectorKind, said: &str, here: Here<'_>) -> Option<RunnerEvent> {
    let said = here.paths.scrub(said);
    let from = said.lines().position(|line| line.starts_with("error"))?;
    let lines: Vec<&str> = said.lines().skip(from).collect();
    let message = complaint(&lines);
    let (file, line) = lines.iter().find_map(|line| blamed(line, here)).unzip();
    let collector = Collector { nodeid: nodeid.to_owned(), kind, file, line, message, output: lines.join("\n") };
    Some(RunnerEvent::Collector(Box::new(collector.bounded())))
}

/// Most lines of Cargo's that become one message: those below the first, and of each cause the first.
const COMPLAINT_LINES_MAX: usize = 8;

/// What Cargo complains about, in one line: the first one, the list that it announces, and the chain of its causes.
fn complaint(lines: &[&str]) -> String {
    let first = lines.first().copied().unwrap_or_default();
    let first = first.split_once(": ").map_or(first, |(_, message)| message);
    let is_set_in = |line: &&&str| line.starts_with("  ");
    let mut listed: Vec<&str> = Vec::new();
    if first.ends_with(':') {
        listed.extend(lines.iter().skip(1).take_while(is_set_in).map(|line| line.trim()));
        listed.dedup();
    }
    listed.truncate(COMPLAINT_LINES_MAX);
    let after = lines.iter().zip(lines.iter().skip(1));
    let causes = after.filter(|(line, _)| **line == "Caused by:").map(|(_, cause)| cause.trim());
    let parts = [first].into_iter().filter(|_| listed.is_empty()).chain(causes.take(COMPLAINT_LINES_MAX));
    let announced = (!listed.is_empty()).then(|| format!("{first} {}", listed.join("; ")));
    let parts: Vec<String> = announced.into_iter().chain(parts.map(str::to_owned)).collect();
    parts.join(": ")
}

/// How Cargo begins to tell of a build script that failed, before its package: `a v0.1.0 (/workspace/a)`.
const SCRIPT: &str = "error: failed to run custom build command for `";

/// Build scripts that failed: Cargo tells nothing of them but what it says to people, with what they printed set in below.
pub(super) fn scripts(said: &str, here: Here<'_>) -> Vec<RunnerEvent> {
    let said = here.paths.scrub(said);
    let lines: Vec<&str> = said.lines().collect();
    let begin = lines.iter().enumerate().filter(|(_, line)| line.starts_with(SCRIPT)).take(COLLECTORS_MAX);
    begin.map(|(at, _)| script(&lines[at..], here)).collect()
}

fn script(lines: &[&str], here: Here<'_>) -> RunnerEvent {
    let is_over = |line: &&&str| ["error", "warning"].iter().any(|word| line.starts_with(word));
    let end = lines.iter().skip(1).position(|line| is_over(&line)).map_or(lines.len(), |at| at + 1);
    let lines = &lines[..end];
    let first = lines.first().copied().unwrap_or_default();
    let package = first.strip_prefix(SCRIPT).and_then(|rest| rest.split([' ', '`']).next()).unwrap_or_default();
    let printed = lines.iter().skip_while(|line| line.trim() != "--- stderr").skip(1);
    let printed: Vec<&str> = printed.map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    let failure = of_script(&printed.join("\n"), here);
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

/// ` --> Cargo.toml:3:1`.
fn blamed(line: &str, here: Here<'_>) -> Option<(String, u32)> {
    let mut parts = line.trim_start().strip_prefix("--> ")?.splitn(3, ':');
    let (file, line) = (parts.next()?, parts.next()?.parse().ok()?);
    Some((here.paths.relative_to(here.dir, file)?, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsing::workspace_paths::WorkspacePaths;

    fn told(said: &str) -> Vec<Collector> {
        let paths = WorkspacePaths::new("/ws");
        scripts(said, Here { paths: &paths, dir: "" })
            .into_iter()
            .map(|event| match event {
                RunnerEvent::Collector(told) => *told,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_refusal_has_the_list_that_it_announces_and_its_causes() {
        let paths = WorkspacePaths::new("/ws");
        for (said, wanted) in [
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
            match refusal(".", CollectorKind::Collection, said, Here { paths: &paths, dir: "" }) {
                Some(RunnerEvent::Collector(told)) => assert_eq!(told.message, wanted),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_build_script_has_its_package_its_place_and_its_words() {
        let said = "   Compiling a v0.1.0 (/ws/a)\n\
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
        let told = told(said);
        let short: Vec<_> =
            told.iter().map(|one| (one.nodeid.as_str(), one.file.as_deref(), one.line, one.message.as_str())).collect();
        assert_eq!(
            short,
            [
                ("a", Some("a/build.rs"), Some(3), "build script boom\nand more"),
                ("x-sys", None, None, "no such lib: libx"),
                ("y", None, None, "failed to run custom build command for `y v1.0.0`"),
            ]
        );
        assert!(told[0].output.ends_with("display a backtrace") && told[1].output.ends_with("libx"));
    }
}

//! What could not be built, one record for each target: what the compiler says of it, or what Cargo says when it gave up
//! before. Must not know tests.

use super::event::{Diagnostic, Message};
use super::failure::Here;
use super::names::{Binary, package_of};
use proctor_core::bound::{COLLECTORS_MAX, TEST_OUTPUT_BYTES_MAX};
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
    let message = lines[0].split_once(": ").map_or(lines[0], |(_, message)| message).to_owned();
    let (file, line) = lines.iter().find_map(|line| blamed(line, here)).unzip();
    let collector = Collector { nodeid: nodeid.to_owned(), kind, file, line, message, output: lines.join("\n") };
    Some(RunnerEvent::Collector(Box::new(collector.bounded())))
}

/// ` --> Cargo.toml:3:1`.
fn blamed(line: &str, here: Here<'_>) -> Option<(String, u32)> {
    let mut parts = line.trim_start().strip_prefix("--> ")?.splitn(3, ':');
    let (file, line) = (parts.next()?, parts.next()?.parse().ok()?);
    Some((here.paths.relative_to(here.dir, file)?, line))
}

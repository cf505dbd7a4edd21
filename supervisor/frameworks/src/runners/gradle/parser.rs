//! Adds workspace paths to what the init script reports: the file of a class, the line of a failure, a record for each file that
//! does not compile.

use super::NAME;
use super::command::SOURCES;
use super::compiler::{FileErrors, compile_errors};
use crate::contract::{Parser, Plan, PlanRequest, StreamSummary};
use crate::ecosystems::jvm::{CaseNamer, SourceIndex, split, test_id};
use crate::formats::junit::UNNAMED_TEST;
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use crate::parsing::assertion_values::assertion_values;
use crate::parsing::workspace_paths::join;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId};
use regex::Regex;
use std::sync::LazyLock;

/// Stands in for the file of a class whose file is not known.
const BUILD_SCRIPT: &str = "build.gradle";

static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"'(/[^'\n]+)' line: (\d+)").ok());

const PROFILE: RunnerProfile = RunnerProfile {
    missing_remedy: |said| {
        said.contains("gradle: not found").then(|| {
            "the project's Gradle was not downloaded yet and the host has none: run it once with --network host"
                .to_owned()
        })
    },
    nothing_selected: |said| said.contains("ask 'test' not found in "),
    error_location: |said| {
        let found = PLACE.as_ref()?.captures(said)?;
        Some((found[1].to_owned(), found[2].parse().ok()?))
    },
    error_reason: |said| {
        let (_, why) = said.split_once("* What went wrong:\n")?;
        let why: Vec<&str> = why.lines().take_while(|line| !line.trim().is_empty()).collect();
        Some(why.join("\n"))
    },
    ..RunnerProfile::new(NAME)
};

/// Parser of a run or a listing.
pub(super) struct GradleParser {
    reported: ReporterParser,
    sources: SourceIndex,
    namer: CaseNamer,
}

impl GradleParser {
    pub(super) fn new(plan: &Plan, request: &PlanRequest<'_>) -> GradleParser {
        GradleParser {
            reported: ReporterParser::new(PROFILE, plan, request),
            sources: SourceIndex::from_file(&plan.files, SOURCES),
            namer: CaseNamer::default(),
        }
    }

    /// Feeds the report's parser, and forwards its events with workspace paths.
    fn forward(
        &mut self,
        events: &mut Vec<RunnerEvent>,
        feed: impl FnOnce(&mut ReporterParser, &mut Vec<RunnerEvent>),
    ) {
        let mut reported = Vec::new();
        feed(&mut self.reported, &mut reported);
        for event in reported {
            match event {
                RunnerEvent::TestStarted(id) => events.push(RunnerEvent::TestStarted(self.id_with_file(&id).bounded())),
                RunnerEvent::TestFinished(case) => {
                    let case = self.case_with_place(*case);
                    events.push(RunnerEvent::TestFinished(Box::new(case)));
                }
                RunnerEvent::Collector(collector) => self.emit_collectors(*collector, events),
            }
        }
    }

    /// The ID of a test of a project directory, by its file.
    fn id_with_file(&self, id: &TestId) -> TestId {
        test_id(&self.sources, &id.package, &join(&id.package, BUILD_SCRIPT), &id.name)
    }

    fn case_with_place(&mut self, case: TestCase) -> TestCase {
        let module = case.id().package;
        let (class, method) = split(&case.name);
        let values = case.message.as_deref().and_then(assertion_values);
        let (expected, actual) = values.filter(|_| case.outcome.is_failure()).unzip();
        let case = TestCase {
            package: class.to_owned(),
            name: method.unwrap_or(UNNAMED_TEST).to_owned(),
            expected,
            actual,
            ..case
        };
        self.namer.name_case(case, &self.sources, &module, &join(&module, BUILD_SCRIPT))
    }

    /// Splits the failure of a compile task into one collector for each file.
    fn emit_collectors(&mut self, collector: Collector, events: &mut Vec<RunnerEvent>) {
        let found = if collector.kind == CollectorKind::Build { compile_errors(&collector.output) } else { Vec::new() };
        if found.is_empty() {
            events.push(RunnerEvent::Collector(Box::new(collector)));
            return;
        }
        for FileErrors { file, line, message, output } in found {
            // Paths in the report are already relative to the workspace.
            let place = (!file.starts_with('/')).then(|| file.clone());
            let collector = Collector {
                nodeid: place.clone().unwrap_or(file),
                kind: CollectorKind::Build,
                line: place.is_some().then_some(line),
                file: place,
                message,
                output,
            };
            events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
        }
    }
}

impl Parser for GradleParser {
    fn step_started(&mut self, step: usize) {
        self.namer = CaseNamer::default();
        self.reported.step_started(step);
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.forward(events, |reported, events| reported.stdout(bytes, events));
    }

    fn stderr(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.forward(events, |reported, events| reported.stderr(bytes, events));
    }

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.forward(events, |reported, events| reported.report(bytes, events));
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        self.forward(events, |reported, events| reported.step_ended(exit, killed, events));
    }

    fn nothing_selected(&self) -> bool {
        self.reported.nothing_selected()
    }

    fn running(&self) -> Vec<TestId> {
        self.reported.running().iter().map(|id| self.id_with_file(id)).collect()
    }

    fn summary(&self) -> StreamSummary {
        self.reported.summary()
    }
}

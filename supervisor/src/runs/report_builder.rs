//! Builds the report of a run from what was recorded. Reads artifacts and output tails from files, so it belongs on a
//! blocking thread.

use super::report_limits;
use super::run_state::RunState;
use super::stack_capture::StackCapture;
use crate::workspace::{Workspace, WorkspaceError};
use proctor_core::artifact::{Artifact, ArtifactKind};
use proctor_core::bounds::{
    NOTE_BYTES_MAX, NOTES_MAX, REPORT_ARTIFACTS_BYTES_MAX, REPORT_NOT_RUN_BYTES_MAX, SECRET_BYTES_MAX, TAIL_BYTES_MAX,
    clip,
};
use proctor_core::coverage::RunCoverage;
use proctor_core::hung_test::HungTest;
use proctor_core::isolation::Isolation;
use proctor_core::limits::Limits;
use proctor_core::outcome::{Evidence, KillReason};
use proctor_core::redact::{redact_from, redacted};
use proctor_core::report::{CoverageSummary, Report, Resources, Summary, Truncated};
use proctor_core::test_case::TestId;
use proctor_core::timestamp::Timestamp;
use proctor_core::verdict::{CheckFacts, Facts, judge};
use proctor_frameworks::{FrameworkChoice, Parser, StackOutput};
use proctor_sandbox::{Ending, SpoolReader};
use std::collections::{BTreeMap, BTreeSet};

/// Note for a run that outlived its workspace: the tested files are not the ones that are there now.
const WORKSPACE_REPLACED: &str = "the workspace was moved, replaced or removed during the run";

/// Everything that is known once the last process is gone.
pub(super) struct ReportBuilder {
    pub(super) state: RunState,
    pub(super) ending: Ending,
    /// Files that the run left in its artifact directory.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// Number of commands in all rounds.
    pub(super) commands: usize,
    pub(super) limits: Limits,
    pub(super) framework: String,
    pub(super) chosen: Option<FrameworkChoice>,
    /// Whether the request selected tests.
    pub(super) selected: bool,
    /// Whether the project file left out tests.
    pub(super) is_scoped: bool,
    pub(super) notes: Vec<String>,
    pub(super) workspace: Workspace,
    pub(super) accepted_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) stdout: SpoolReader,
    pub(super) stderr: SpoolReader,
}

/// Builds the report, and returns it with the measured coverage.
pub(super) fn build_report(builder: ReportBuilder) -> (Report, RunCoverage) {
    let ReportBuilder {
        state,
        ending,
        files,
        commands,
        limits,
        framework,
        chosen,
        selected,
        is_scoped,
        notes,
        workspace,
        accepted_at,
        ended_at,
        stdout,
        stderr,
    } = builder;
    let RunState {
        parser,
        tally,
        expected,
        isolation,
        launched_at,
        running,
        nothing_selected,
        artifacts: retained_files,
        missed,
        stacks,
        asked_by_signal,
        usage,
        ..
    } = state;
    let stream = parser.summary();
    let replaced = matches!(workspace.owner(), Err(WorkspaceError::Replaced)).then(|| WORKSPACE_REPLACED.to_owned());
    let left_out = (ending.streamed_artifacts_left_out > 0).then(|| {
        let left_out = ending.streamed_artifacts_left_out;
        format!("{left_out} file(s) that tests left are not kept: too many, too large, too deep, or oddly named")
    });
    let (check, check_notes) = report_limits::bounded_check(parser.check_report()).unzip();
    // Proctor's own notes come first: plan and runner may produce more notes than the report has room for.
    let own_notes = replaced.into_iter().chain(ending.notes).chain(left_out).chain(tally.note());
    let notes =
        bounded_notes(own_notes.chain(notes).chain(stream.notes).chain(check_notes.into_iter().flatten()).collect());
    let artifacts = build_artifacts(retained_files, parser.as_ref());
    let (measured, coverage) =
        harvest(chosen.as_ref(), &workspace, (&files, ending.artifacts_left_out), &tally.finished());
    let mut verdict = judge(Facts {
        commands,
        exits: ending.exits,
        killed: ending.killed,
        stacks_requested: asked_by_signal,
        worker_lost: ending.worker_lost,
        limit_hits: ending.limit_hits,
        summary: tally.summary,
        build_errors: tally.build_errors,
        collection_errors: tally.collection_errors,
        structured: stream.structured,
        proof: stream.proof,
        nothing_selected,
        runner_missing: stream.runner_missing,
        selected,
        not_run: expected.missing().into_iter().filter(|test| !running.contains(test)).collect(),
        unreached: stream.unreached
            || missed
            || (chosen.as_ref().is_some_and(FrameworkChoice::build_error_hides_tests)
                && tally.build_errors + tally.collection_errors > 0),
        not_built: stream.not_built,
        check: check.as_ref().map(CheckFacts::of),
        idle_frameworks: stream.idle_frameworks,
        running,
        notes,
    });
    verdict.evidence.hung =
        hung_tests(stacks.as_ref(), chosen.as_ref(), &workspace, &verdict.evidence.running, parser.as_ref());
    let not_run = verdict.evidence.not_run.len();
    verdict.evidence.not_run = within_limit(verdict.evidence.not_run);
    let not_run = (not_run - verdict.evidence.not_run.len()) as u64;
    let mut resources = ending.resources;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a wait are far below 2^52")]
    let queue_wait_s = launched_at.ms_since(accepted_at) as f64 / 1_000.0;
    resources.queue_wait_s = queue_wait_s;
    let (stdout_tail, stdout_bytes) = tail(&stdout);
    let (stderr_tail, stderr_bytes) = tail(&stderr);
    let (summary, failed_parents) = (tally.summary, tally.failed_parents);
    let (tests, collectors, truncated) = tally.into_parts();
    let report = Report {
        outcome: verdict.outcome,
        exit_code: verdict.exit_code,
        raw_exit_code: verdict.raw_exit_code,
        framework,
        summary,
        failed_parents,
        flaky_in_run: parser.flaky(),
        duration_s: resources.wall_s,
        started_at: launched_at,
        ended_at,
        partial: verdict.partial,
        is_scoped,
        structured: stream.structured,
        tests,
        collectors,
        evidence: verdict.evidence,
        resources,
        usage: usage.into_vec(),
        limits,
        isolation: isolation.as_ref().clone(),
        coverage,
        stdout_tail,
        stderr_tail,
        artifacts,
        since_last_run: None,
        since_last_green: None,
        repetitions: None,
        quarantined: None,
        affected: None,
        untested: None,
        check,
        checked_since: None,
        truncated: Truncated { not_run, stdout_bytes, stderr_bytes, ..truncated },
    };
    (report, measured)
}

// Redacts before clipping, so that no half of a secret is left.
pub(super) fn bounded_notes(notes: Vec<String>) -> Vec<String> {
    let omitted = notes.len().saturating_sub(NOTES_MAX);
    let more = (omitted > 0).then(|| format!("{omitted} further notes are omitted"));
    let bounded = notes.into_iter().take(NOTES_MAX).map(|note| clip(redacted(note), NOTE_BYTES_MAX));
    bounded.chain(more).collect()
}

pub(super) fn within_limit(not_run: Vec<TestId>) -> Vec<TestId> {
    let mut bytes = 0;
    let within = |test: &TestId| {
        bytes += report_limits::json_bytes(test);
        bytes <= REPORT_NOT_RUN_BYTES_MAX
    };
    not_run.into_iter().take_while(within).collect()
}

fn build_artifacts(retained_files: Vec<(String, u64)>, parser: &dyn Parser) -> Vec<Artifact> {
    let mut bytes = 0;
    let artifact = |(name, bytes): (String, u64)| {
        let (kind, test) = match parser.artifact_source(&name) {
            Some((kind, test)) => (kind, Some(test)),
            None => (ArtifactKind::from_file_name(&name), None),
        };
        Artifact { name, kind, bytes, test }
    };
    let within = |mut artifact: Artifact| {
        bytes += report_limits::json_bytes(&artifact.test);
        // Every artifact keeps its name, by which clients fetch it; only some keep their test.
        artifact.test.take_if(|_| bytes > REPORT_ARTIFACTS_BYTES_MAX / 2);
        artifact
    };
    retained_files.into_iter().map(artifact).map(within).collect()
}

/// Where the running tests hang, from what was printed when the processes were asked for their stacks.
fn hung_tests(
    stacks: Option<&StackCapture>,
    chosen: Option<&FrameworkChoice>,
    workspace: &Workspace,
    running: &[TestId],
    parser: &dyn Parser,
) -> Vec<HungTest> {
    let (Some(stacks), Some(chosen), Some(root)) = (stacks, chosen, workspace.root().to_str()) else {
        return Vec::new();
    };
    let [stdout, stderr, printed] = stacks.texts();
    let declared = |test: &TestId| parser.declared_at(test).map(|(file, line)| (test.clone(), file, line));
    let declared: Vec<(TestId, String, u32)> = running.iter().filter_map(declared).collect();
    chosen.hung_tests(&StackOutput {
        stdout: &stdout,
        stderr: &stderr,
        printed: &printed,
        running,
        declared: &declared,
        workspace: root,
    })
}

fn harvest(
    chosen: Option<&FrameworkChoice>,
    workspace: &Workspace,
    (files, left_out): (&[(String, Vec<u8>)], u64),
    finished: &BTreeMap<String, BTreeSet<String>>,
) -> (RunCoverage, CoverageSummary) {
    let (Some(chosen), Some(root)) = (chosen, workspace.root().to_str()) else {
        return (RunCoverage::default(), CoverageSummary::default());
    };
    let mut harvest = chosen.ingest_coverage(root, files, finished);
    if left_out > 0 {
        harvest.notes.push(format!("{left_out} files that the run left were not read: too many or too large"));
    }
    let covered: BTreeSet<&str> =
        harvest.measured.iter().flat_map(|set| &set.files).map(|(file, _)| file.as_str()).collect();
    let summary = CoverageSummary {
        measured: !harvest.measured.is_empty(),
        attribution: harvest.measured.iter().map(|set| set.attribution).max(),
        files: covered.len() as u64,
        notes: bounded_notes(harvest.notes),
    };
    let loaded = Box::new(harvest.loaded);
    (RunCoverage { tests: harvest.measured, sources: harvest.sources, loaded, unchanged: Box::default() }, summary)
}

// The end of a stream as text without escape sequences and with known kinds of secrets redacted, and the number of bytes
// before it. Reading starts one maximum secret length earlier, so that the cut leaves no half of a secret.
fn tail(spool: &SpoolReader) -> (String, u64) {
    let from = spool.len().saturating_sub(TAIL_BYTES_MAX as u64);
    let before = from.min(SECRET_BYTES_MAX as u64);
    let len = SECRET_BYTES_MAX + TAIL_BYTES_MAX;
    let mut bytes = spool.read_at(from - before, len).unwrap_or_else(|error| {
        tracing::error!(%error, "a run's output could not be read back");
        Vec::new()
    });
    let cut = usize::try_from(before).unwrap_or(SECRET_BYTES_MAX).min(bytes.len());
    let tail = bytes.split_off(cut);
    // An escape sequence that the cut divides belongs to the tail, where it is removed as a whole.
    let escape = bytes.iter().rposition(|byte| *byte == ESCAPE).filter(|at| bytes.len() - at < ESCAPE_BYTES_MAX);
    let divided = bytes.split_off(escape.filter(|at| without_escapes(&bytes[*at..]).is_empty()).unwrap_or(bytes.len()));
    let mut text = without_escapes(&bytes);
    let cut = text.len();
    text.push_str(&without_escapes(&[divided, tail].concat()));
    (redact_from(&text, cut), from)
}

const ESCAPE: u8 = 0x1b;

/// Longest escape sequence that is recognised across the cut: a colour has some 20 bytes.
const ESCAPE_BYTES_MAX: usize = 64;

/// The text without escape sequences, which have no meaning to a reader of the report.
fn without_escapes(bytes: &[u8]) -> String {
    anstream::adapter::strip_str(&String::from_utf8_lossy(bytes)).to_string()
}

/// The report of a run that was accepted but ended before anything was started.
#[must_use]
pub fn without_running(now: Timestamp, limits: Limits, framework: &str, killed: KillReason, note: &str) -> Report {
    let outcome = killed.outcome();
    Report {
        outcome,
        exit_code: i32::from(outcome.exit_code(None)),
        raw_exit_code: None,
        framework: framework.to_owned(),
        summary: Summary::default(),
        failed_parents: 0,
        flaky_in_run: 0,
        duration_s: 0.0,
        started_at: now,
        ended_at: now,
        partial: true,
        is_scoped: false,
        structured: true,
        tests: Vec::new(),
        collectors: Vec::new(),
        evidence: Evidence {
            held: vec![outcome],
            killed: Some(killed),
            notes: vec![note.to_owned()],
            ..Evidence::default()
        },
        resources: Resources::default(),
        usage: Vec::new(),
        limits,
        isolation: Isolation::default(),
        coverage: CoverageSummary::default(),
        stdout_tail: String::new(),
        stderr_tail: String::new(),
        artifacts: Vec::new(),
        since_last_run: None,
        since_last_green: None,
        repetitions: None,
        quarantined: None,
        affected: None,
        untested: None,
        check: None,
        checked_since: None,
        truncated: Truncated::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::bounds::{
        COLLECTORS_MAX, HUNG_STACK_BYTES_MAX, HUNG_TESTS_MAX, NAME_BYTES_MAX, RUNNING_NAMES_MAX, TEST_CASES_MAX,
        USAGE_SAMPLES_MAX,
    };
    use proctor_core::event::RunnerEvent;
    use proctor_core::repetition::{ExecutionTally, Repetitions};
    use proctor_core::request::{RerunTarget, Selection};
    use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestOutcome};
    use proctor_core::usage_samples::UsageSample;
    use proctor_frameworks::ExpectedTests;
    use proctor_proto::MESSAGE_BYTES_MAX;
    use proctor_sandbox::Spool;
    use prost::Message;
    use std::sync::Arc;

    /// A control character, which is one byte here and six in JSON.
    const WORST: &str = "\u{1}";

    fn case(name: &str, number: usize, outcome: TestOutcome) -> TestCase {
        let name = format!("{number:07}{name}");
        let nodeid = format!("p/{name}");
        TestCase::new(TestId { package: "p".to_owned(), name }, nodeid, outcome)
    }

    // A test whose every field has its maximum length.
    fn worst_case(number: usize, outcome: TestOutcome) -> TestCase {
        let text = |bytes: usize| Some(WORST.repeat(bytes));
        TestCase {
            package: WORST.repeat(NAME_BYTES_MAX),
            file: text(NAME_BYTES_MAX),
            message: text(16 << 10),
            expected: text(16 << 10),
            actual: text(16 << 10),
            stack: text(64 << 10),
            output: text(64 << 10),
            ..case(&WORST.repeat(2 * NAME_BYTES_MAX), number, outcome)
        }
    }

    fn report_of(tests: impl Iterator<Item = TestCase>, collectors: usize) -> Report {
        let dir = tempfile::tempdir().unwrap();
        let parser = proctor_frameworks::runners::custom::parser("/workspace");
        let targets = (0..2_000).map(|number| {
            RerunTarget::Test(TestId {
                package: "p".to_owned(),
                name: format!("{number}{}", WORST.repeat(NAME_BYTES_MAX)),
            })
        });
        let expected = ExpectedTests::from_selection(&Selection::Exactly(targets.collect()));
        let mut state = RunState::new(Timestamp(0), Limits::DEFAULT, parser, expected);
        for test in tests {
            state.tally.record(RunnerEvent::TestFinished(Box::new(test)));
        }
        for number in 0..collectors {
            let collector = Collector {
                nodeid: format!("{number}{}", WORST.repeat(NAME_BYTES_MAX)),
                kind: CollectorKind::Build,
                file: Some(WORST.repeat(NAME_BYTES_MAX)),
                line: Some(u32::MAX),
                message: WORST.repeat(16 << 10),
                output: WORST.repeat(64 << 10),
            };
            state.tally.record(RunnerEvent::Collector(Box::new(collector)));
        }
        let id = |number: usize| TestId { package: WORST.repeat(NAME_BYTES_MAX), name: format!("{number}") };
        state.running = (0..RUNNING_NAMES_MAX).map(id).collect();
        state.artifacts = (0..1_024).map(|number| (format!("{number:04}{}", "\"".repeat(1_300)), 1)).collect();
        let mut spool = Spool::default();
        spool.append(WORST.repeat(2 * TAIL_BYTES_MAX).as_bytes()).unwrap();
        let builder = ReportBuilder {
            state,
            ending: Ending { notes: vec!["the host".to_owned()], streamed_artifacts_left_out: 7, ..Ending::default() },
            files: Vec::new(),
            commands: 1,
            limits: Limits::DEFAULT,
            framework: "go".to_owned(),
            chosen: None,
            selected: false,
            is_scoped: false,
            notes: vec![WORST.repeat(10_000); 1_000],
            workspace: Workspace::open(dir.path()).unwrap(),
            accepted_at: Timestamp(0),
            ended_at: Timestamp(1),
            stdout: spool.reader(),
            stderr: spool.reader(),
        };
        std::fs::remove_dir(dir.path()).unwrap();
        let mut report = build_report(builder).0;
        let hung = |number: usize| HungTest {
            test: TestId { package: WORST.repeat(NAME_BYTES_MAX), name: WORST.repeat(NAME_BYTES_MAX) },
            file: Some(WORST.repeat(NAME_BYTES_MAX)),
            line: u32::try_from(number).ok(),
            stack: WORST.repeat(HUNG_STACK_BYTES_MAX),
        };
        report.evidence.hung = (0..HUNG_TESTS_MAX).map(hung).collect();
        report
    }

    #[test]
    fn a_tail_has_no_escape_sequences_not_even_divided_ones() {
        let line = "\u{1b}[38;5;196mred\u{1b}[0m\n";
        for shift in 0..line.len() {
            let mut spool = Spool::default();
            spool.append(line.repeat(TAIL_BYTES_MAX / 10).as_bytes()).unwrap();
            spool.append(&vec![b'.'; shift]).unwrap();
            let (tail, before) = tail(&spool.reader());
            assert!(
                before > 0
                    && tail.trim_end_matches('.').split('\n').skip(1).all(|line| line == "red" || line.is_empty())
            );
            assert!(["", "d", "ed", "red"].contains(&tail.split('\n').next().unwrap()), "{shift}: {:?}", &tail[..20]);
        }
    }

    #[test]
    fn notes_of_proctor_come_first_and_the_number_of_omitted_notes_is_reported() {
        let notes = report_of(std::iter::empty(), 0).evidence.notes;
        assert_eq!(notes[..2], [WORKSPACE_REPLACED, "the host"]);
        assert!(notes[2].starts_with("7 file(s) that tests left are not kept"), "{}", notes[2]);
        assert!(notes[3..].iter().any(|note| note == "939 further notes are omitted"), "{notes:?}");
    }

    // Flaky tests whose names have their maximum length.
    fn worst_repetitions() -> Repetitions {
        let mut tally = ExecutionTally::default();
        let name = WORST.repeat(NAME_BYTES_MAX - 8);
        for (number, outcome) in [(1, TestOutcome::Passed), (2, TestOutcome::Failed)] {
            let tests: Vec<TestCase> = (0..60).map(|test| case(&name, test, outcome)).collect();
            let before = tests.iter().map(|test| (test.id(), test.id())).collect();
            tally.add(number, &tests, &before, "Seed: 18446744073709551615");
        }
        let counts = Arc::new(tally.counts());
        let (_, flaky) = tally.flaky();
        assert!(!flaky.is_empty());
        let (requested, executions, failed, retries) = (u32::MAX, u32::MAX, u32::MAX, u32::MAX);
        let failing_orders = Arc::default();
        Repetitions { requested, executions, failed, retries, flaky, counts, failing_orders, files_changed: true }
    }

    #[test]
    fn notes_about_flaky_tests_are_clipped_and_redacted() {
        let notes =
            bounded_notes(vec!["n".repeat(2 * NOTE_BYTES_MAX), "ghp_abcdefghijklmnopqrstuvwxyz0123456789".into()]);
        assert!(notes[0].len() <= NOTE_BYTES_MAX && !notes[1].contains("abcdefghij"), "{}", notes[1]);
    }

    #[test]
    fn the_largest_report_fits_into_one_message_with_exact_counts() {
        use TestOutcome::{Failed, Passed, Skipped};
        let long = "x".repeat(4_080);
        let many = || (0..TEST_CASES_MAX + 10_000).map(|number| case("", number, Passed));
        let pytest = |outcome| (0..8_000).map(|number| case(&long, number, outcome)).collect::<Vec<_>>();
        let worst = |outcome| (0..300).map(move |number| worst_case(number, outcome));
        let rows: [(&str, Vec<TestCase>, usize); 6] = [
            ("nothing", Vec::new(), 0),
            ("long names that passed", pytest(Passed), 0),
            ("long names that failed, after many that passed", many().chain(pytest(Failed)).collect(), 0),
            ("texts, then long names", worst(Failed).chain(pytest(Passed)).collect(), 0),
            ("errors", Vec::new(), COLLECTORS_MAX + 10),
            ("all", worst(Skipped).chain(many()).chain(worst(Failed)).collect(), COLLECTORS_MAX),
        ];
        for (name, tests, collectors) in rows {
            let (total, failed) = (tests.len(), tests.iter().filter(|test| test.outcome == Failed).count());
            let mut report = report_of(tests.into_iter(), collectors);
            report.repetitions = Some(worst_repetitions());
            let most = UsageSample {
                at_ms: u64::MAX,
                memory_bytes: Some(u64::MAX),
                cpu_ms: Some(u64::MAX),
                processes: Some(4_096),
            };
            report.usage = vec![most; USAGE_SAMPLES_MAX];
            let json = serde_json::to_vec(&report).unwrap().len();
            let document = serde_json::to_vec(&crate::reports::json_document(&report)).unwrap().len();
            let event = proctor_proto::v1::RunEvent {
                run_id: "r".repeat(64),
                sequence: u64::MAX,
                at_ms: u64::MAX,
                event: Some(proctor_proto::v1::run_event::Event::Finished(crate::grpc::convert::report(&report))),
            };
            // The envelope around the document takes some hundred bytes.
            assert!(
                document + 1_024 <= MESSAGE_BYTES_MAX,
                "{name}: {document} bytes of JSON, {json} of them proctor's own"
            );
            assert!(event.encoded_len() <= json, "{name}: {} bytes on the wire, {json} of JSON", event.encoded_len());
            let not_run = report.evidence.not_run.len();
            assert!((100..2_000).contains(&not_run), "{name}: {not_run} unreported tests are listed");
            assert_eq!(report.truncated.not_run, 2_000 - not_run as u64, "{name}");
            assert!(report.evidence.notes.iter().any(|note| note.starts_with("2000 selected test(s)")), "{name}");
            let counts = (report.summary.total, report.summary.failed);
            assert_eq!(counts, (total as u64, failed as u64), "{name}");
            assert_eq!(report.truncated.tests, (total - report.tests.len()) as u64, "{name}");
            assert_eq!(report.truncated.collectors, (collectors - report.collectors.len()) as u64, "{name}");
            // Passed and skipped tests are dropped first.
            let listed = report.tests.iter().filter(|test| test.outcome == Failed).count();
            assert!(listed == failed || listed == report.tests.len(), "{name}: {listed} of {failed} failures");
            assert!(total == 0 || report.tests.len() >= 150, "{name}: {} tests are listed", report.tests.len());
        }
    }
}

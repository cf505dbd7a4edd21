//! The second block of a run's answer: the outcome in one sentence, warnings and notes, and a hint for the next call.

use proctor_proto::printable::line;
use proctor_proto::text;
use proctor_proto::v1::{Isolation, Outcome, Report, Resources, Summary, TestId};

/// Most tests named that were running when the run was cut off.
const RUNNING_MAX: usize = 3;

/// The summary of an ended run, with a hint for the next call. `attached_age_ms`: age of the run when the call attached to it.
pub(crate) fn lines_with_hint(report: &Report, attached_age_ms: Option<u64>) -> Vec<String> {
    let mut lines = lines(report, attached_age_ms);
    lines.extend(next_hint(report));
    lines
}

/// The summary without a hint.
pub(crate) fn lines(report: &Report, attached_age_ms: Option<u64>) -> Vec<String> {
    let mut lines = vec![headline(report)];
    if let Some(age_ms) = attached_age_ms {
        lines.push(format!("attached, started {}", text::ago(age_ms)));
    }
    lines.extend(missing_layers(report));
    lines.extend(notes(report));
    lines
}

fn notes(report: &Report) -> Vec<String> {
    let notes =
        report.evidence.as_ref().map(|evidence| text::merge_repeated_notes(&evidence.notes)).unwrap_or_default();
    notes.iter().map(|note| line(note).into_owned()).collect()
}

/// The outcome of a run in one sentence.
pub(crate) fn headline(report: &Report) -> String {
    let counts = report.summary.unwrap_or_default();
    let run = format!("({}, {:.1}s)", report.framework, report.duration_s);
    let failing = counts.failed + counts.error;
    let not_run =
        report.evidence.as_ref().map_or(0, |evidence| evidence.not_run.len() as u64 + evidence.not_run_left_out);
    match report.outcome() {
        Outcome::Passed if !report.structured => {
            format!("The command exited 0 {run}; it gives no results test by test.")
        }
        Outcome::Passed if counts.total > 0 && counts.skipped == counts.total => {
            format!("All {} tests were skipped {run}.", counts.total)
        }
        Outcome::Passed => format!("{} tests passed{} {run}.", counts.passed, other_counts(&counts)),
        Outcome::Failed if failing > 0 => {
            format!("{failing} of {} tests failed{} {run}.", counts.total, other_counts(&counts))
        }
        Outcome::Failed if not_run > 0 => {
            let passed = counts.passed;
            format!(
                "{passed} tests passed, and of {not_run} that were to run again nothing came{} {run}.",
                exit_cause(report)
            )
        }
        Outcome::Failed => {
            format!("The runner failed with exit {} although no single test did {run}.", report.exit_code)
        }
        Outcome::BuildFailed => {
            format!("build_failed: {} {run}; {}.", broken_units(report, "did not build"), partial_counts(report))
        }
        Outcome::CollectionFailed => {
            format!(
                "collection_failed: {} {run}; {}.",
                broken_units(report, "could not be loaded"),
                partial_counts(report)
            )
        }
        Outcome::NoTests => format!("no_tests: nothing ran {run}."),
        outcome => format!("{} {run}; {}.", text::outcome_name(outcome), partial_counts(report)),
    }
}

// The runner's exit status, if it explains why no results came.
fn exit_cause(report: &Report) -> String {
    match report.raw_exit_code {
        Some(code) if code != 0 => format!(": the runner exited with {code}"),
        _ => String::new(),
    }
}

fn other_counts(counts: &Summary) -> String {
    let kinds =
        [(counts.skipped, "skipped"), (counts.xfailed, "failed as expected"), (counts.xpassed, "passed unexpectedly")];
    kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!(", {count} {kind}")).collect()
}

fn broken_units(report: &Report, what: &str) -> String {
    let count = report.collectors.len() as u64 + report.collectors_left_out;
    match report.collectors.first() {
        Some(first) if count == 1 => format!("{} {what}", line(&first.nodeid)),
        _ => format!("{count} packages or files {what}"),
    }
}

fn partial_counts(report: &Report) -> String {
    let counts = report.summary.unwrap_or_default();
    let running = report.evidence.as_ref().map(|evidence| running(&evidence.running)).unwrap_or_default();
    format!("{} tests passed, {} failed{running}", counts.passed, counts.failed + counts.error)
}

fn running(tests: &[TestId]) -> String {
    if tests.is_empty() {
        return String::new();
    }
    let names: Vec<String> = tests
        .iter()
        .take(RUNNING_MAX)
        .map(|test| line(&format!("{}/{}", test.package, test.name)).into_owned())
        .collect();
    let more = if tests.len() > RUNNING_MAX { ", ..." } else { "" };
    format!(", running when it was cut off: {}{more}", names.join(", "))
}

fn missing_layers(report: &Report) -> Option<String> {
    let missing = &report.isolation.as_ref()?.missing;
    if missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = missing.iter().map(|missing| missing.name.as_str()).collect();
    Some(format!(
        "Not in force on this host: {} (reasons and remedies in isolation.missing, or by `proctor doctor`).",
        names.join(", ")
    ))
}

/// The resources that a run used, in one line.
pub(crate) fn resources(used: &Resources) -> String {
    let memory = used.memory_peak_bytes.map(|bytes| format!(", {} MiB at most", bytes >> 20)).unwrap_or_default();
    let pids = used.pids_peak.map(|pids| format!(", {pids} processes at most")).unwrap_or_default();
    format!(
        "used: {:.1}s wall, {:.1}s user, {:.1}s system{memory}{pids}, {} bytes of output; waited {:.1}s",
        used.wall_s, used.cpu_user_s, used.cpu_system_s, used.output_bytes, used.queue_wait_s
    )
}

/// The isolation layers that were in force, in one line.
pub(crate) fn isolation(isolation: &Isolation) -> String {
    match isolation.layers.as_slice() {
        [] => "sandbox: no layer was in force".to_owned(),
        layers => format!("sandbox: {}", layers.join(", ")),
    }
}

fn next_hint(report: &Report) -> Option<String> {
    let measured = report.coverage.as_ref().is_some_and(|coverage| coverage.measured);
    let hint = match report.outcome() {
        Outcome::Passed if measured => "tests_covering {file, line} names the tests that execute what you change next.",
        Outcome::Passed => return None,
        Outcome::Failed | Outcome::BuildFailed | Outcome::CollectionFailed if report.structured => {
            "last_test_failures for file:line and messages; run_failing_tests after a fix."
        }
        Outcome::Failed | Outcome::BuildFailed | Outcome::CollectionFailed => "read the output; run_tests after a fix.",
        Outcome::NoTests => "list_tests shows what there is; then run_tests with another filter or files.",
        Outcome::TimedOut => {
            "last_test_failures; then run_tests with a filter or files, or with a larger timeout (at most 1800)."
        }
        Outcome::OutOfMemory | Outcome::DiskFull | Outcome::PidsExhausted | Outcome::OutputFlood => {
            "evidence.limit_hits says which limit; then run_tests with a filter or files to find the test."
        }
        Outcome::RunnerMissing => "install the runner on the build host, or name another framework.",
        Outcome::Cancelled | Outcome::WorkerLost | Outcome::Unspecified => "run_tests starts a new run.",
        Outcome::Crashed => "last_test_failures; evidence.signal says which signal ended the runner.",
    };
    Some(format!("Next: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_proto::v1::{Collector, Evidence, Missing};

    fn report(outcome: Outcome, summary: Summary) -> Report {
        Report {
            outcome: outcome.into(),
            framework: "go".into(),
            duration_s: 1.34,
            structured: true,
            summary: Some(summary),
            ..Report::default()
        }
    }

    #[test]
    fn describes_each_outcome_in_one_sentence() {
        let counts = Summary { total: 12, passed: 9, failed: 2, skipped: 1, ..Summary::default() };
        assert_eq!(headline(&report(Outcome::Failed, counts)), "2 of 12 tests failed, 1 skipped (go, 1.3s).");
        let passed = Summary { total: 12, passed: 12, ..Summary::default() };
        assert_eq!(headline(&report(Outcome::Passed, passed)), "12 tests passed (go, 1.3s).");
        let skipped = Summary { total: 3, skipped: 3, ..Summary::default() };
        assert_eq!(headline(&report(Outcome::Passed, skipped)), "All 3 tests were skipped (go, 1.3s).");
        let mut cut = report(Outcome::TimedOut, counts);
        let hang = TestId { package: "a/b".into(), name: "TestHang".into() };
        cut.evidence = Some(Evidence { running: vec![hang], ..Evidence::default() });
        assert_eq!(
            headline(&cut),
            "timed_out (go, 1.3s); 9 tests passed, 2 failed, running when it was cut off: a/b/TestHang."
        );
        let mut again = report(Outcome::Failed, Summary { total: 1, passed: 1, ..Summary::default() });
        again.evidence = Some(Evidence { not_run: vec![TestId::default(); 2], ..Evidence::default() });
        let sentence = "1 tests passed, and of 2 that were to run again nothing came (go, 1.3s).";
        assert_eq!(headline(&again), sentence);
        again.raw_exit_code = Some(2);
        let sentence =
            "1 tests passed, and of 2 that were to run again nothing came: the runner exited with 2 (go, 1.3s).";
        assert_eq!(headline(&again), sentence);
        let mut build = report(Outcome::BuildFailed, Summary::default());
        build.collectors = vec![Collector { nodeid: "a/b".into(), ..Collector::default() }];
        assert_eq!(headline(&build), "build_failed: a/b did not build (go, 1.3s); 0 tests passed, 0 failed.");
        build.outcome = Outcome::CollectionFailed.into();
        assert!(headline(&build).starts_with("collection_failed: a/b could not be loaded (go, 1.3s); "));
        build.collectors_left_out = 1;
        assert!(headline(&build).starts_with("collection_failed: 2 packages or files could not be loaded (go, "));
    }

    #[test]
    fn names_missing_layers_and_the_next_call() {
        let mut report = report(Outcome::Failed, Summary { total: 1, failed: 1, ..Summary::default() });
        let missing = |name: &str| Missing { name: name.into(), ..Missing::default() };
        report.isolation =
            Some(Isolation { missing: vec![missing("seccomp"), missing("memory")], ..Isolation::default() });
        let lines = lines_with_hint(&report, Some(12_000));
        assert_eq!(lines[1], "attached, started 12s ago");
        assert!(lines[2].starts_with("Not in force on this host: seccomp, memory ("), "{lines:?}");
        assert!(lines[3].starts_with("Next: last_test_failures"), "{lines:?}");
    }
}

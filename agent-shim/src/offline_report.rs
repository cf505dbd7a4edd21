//! The answer for an ended run that the supervisor can no longer be queried about (its session was closed, or the supervisor
//! is gone), built from the report in the run's last event.

use crate::report_json::{self, Context};
use crate::run_follower::EndedRun;
use crate::tool_answer::ToolAnswer;
use crate::{run_summary, shortened_text};
use proctor_proto::text::{self, Head};
use proctor_proto::v1::{Collector, Evidence, Report, TestCase};
use serde_json::{Map, Value, json};

/// A tail of this size or more may be cut: reports have the last 16 KiB of each stream, less a cut character and redacted
/// secrets.
const CUT_TAIL_BYTES: usize = 15 * 1024;

const OUTPUT_LOST: &str = "This run's output can no longer be read, since the supervisor closed the session or ended when the run \
                    had. What is shown of it, at most the last 16 KiB of each stream, came with the report.";

/// The answer for `ended`, in about `bytes_max` bytes of text.
pub(crate) fn answer(ended: &EndedRun, bytes_max: Option<usize>) -> ToolAnswer {
    let report = &ended.report;
    let context = Context { run_id: &ended.run_id, attached: ended.attached_age_ms.is_some(), bytes_max };
    // Without a next call: the supervisor knows nothing about the run any more.
    let mut summary = run_summary::lines(report, ended.attached_age_ms);
    summary.push(OUTPUT_LOST.to_owned());
    let structured = report_json::bound_report(document(report), &context);
    ToolAnswer { text: text(report, bytes_max.unwrap_or(usize::MAX)), summary, structured }
}

fn text(report: &Report, bytes_max: usize) -> String {
    let tails = [&report.stdout_tail, &report.stderr_tail];
    let [stdout, stderr] =
        tails.map(|tail| Head { bytes: tail.as_bytes(), total: tail.len() as u64, read_on_hint: "" });
    let whole = text::run(stdout, stderr, report);
    if tails.iter().all(|tail| tail.len() < CUT_TAIL_BYTES) && whole.len() <= bytes_max {
        return whole;
    }
    shortened_text::shorten_run(report, None, "only the end of the output is known", bytes_max)
}

// The members of the supervisor's JSON document that tell how the run ended, under the same names.
fn document(report: &Report) -> Map<String, Value> {
    let document = json!({
        "outcome": text::outcome_name(report.outcome()),
        "exit_code": report.exit_code,
        "raw_exit_code": report.raw_exit_code,
        "framework": report.framework,
        "summary": report_json::counts(&report.summary.unwrap_or_default()),
        "flaky_in_run": report.flaky_in_run,
        "duration_s": report.duration_s,
        "partial": report.partial,
        "structured": report.structured,
        "tests": report.tests.iter().map(test).collect::<Vec<_>>(),
        "collectors": report.collectors.iter().map(collector).collect::<Vec<_>>(),
        "evidence": report.evidence.as_ref().map(evidence),
        "stdout_tail": report.stdout_tail,
        "stderr_tail": report.stderr_tail,
        "truncated": {"tests": report.tests_left_out, "collectors": report.collectors_left_out},
    });
    match document {
        Value::Object(document) => document,
        _ => Map::new(),
    }
}

fn test(test: &TestCase) -> Value {
    let outcome = test.outcome().as_str_name().trim_start_matches("TEST_OUTCOME_").to_ascii_lowercase();
    json!({
        "nodeid": test.nodeid, "package": test.package, "name": test.name, "outcome": outcome,
        "duration_s": test.duration_s, "file": test.file, "line": test.line, "message": test.message,
        "expected": test.expected, "actual": test.actual, "stack": test.stack, "output": test.output,
    })
}

fn collector(collector: &Collector) -> Value {
    json!({
        "nodeid": collector.nodeid, "file": collector.file, "line": collector.line, "message": collector.message,
        "output": collector.output,
    })
}

fn evidence(evidence: &Evidence) -> Value {
    json!({
        "held": evidence.held().map(text::outcome_name).collect::<Vec<_>>(),
        "exit_code": evidence.exit_code,
        "signal": evidence.signal,
        "killed": Some(&evidence.killed).filter(|why| !why.is_empty()),
        "running": report_json::tests(&evidence.running),
        "not_run": report_json::tests(&evidence.not_run),
        "unreached": evidence.unreached,
        "not_built": evidence.not_built,
        "tests_finished": evidence.tests_finished,
        "notes": evidence.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_proto::v1::{Outcome, TestOutcome};

    fn ended(stdout_tail: String) -> EndedRun {
        let failing = TestCase { name: "TestB".into(), outcome: TestOutcome::Failed.into(), ..TestCase::default() };
        let report = Report {
            outcome: Outcome::Failed.into(),
            exit_code: 1,
            framework: "go".into(),
            tests: vec![failing],
            stdout_tail,
            ..Report::default()
        };
        EndedRun { run_id: "r1".into(), report, attached_age_ms: None }
    }

    #[test]
    fn shows_short_output_whole_and_the_end_of_long_output() {
        let short = answer(&ended("ok\n".into()), None);
        assert_eq!(short.text, "ok\nexit: 1\n");
        assert_eq!(
            (&short.structured["outcome"], &short.structured["tests"][0]["outcome"]),
            (&json!("failed"), &json!("failed"))
        );
        let long = answer(&ended("line\n".repeat(3_200)), None);
        assert!(long.text.starts_with("[TRUNCATED] only the end of the output is known\n"), "{}", long.text);
        assert!(long.text.ends_with("line\nexit: 1\n") && long.text.len() > 15_000, "{}", long.text.len());
        let limited = answer(&ended("line\n".repeat(100)), Some(200));
        assert!(limited.text.len() <= 200 && limited.text.ends_with("exit: 1\n"), "{}", limited.text);
    }
}

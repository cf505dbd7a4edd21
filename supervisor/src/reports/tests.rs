//! Tests of the formats against hostile, red and large reports. Readers of others are in `tests/tests/report_formats`.

use super::context::CoverageFindings;
use super::*;
use crate::history::query::HistoryAnswer;
use crate::runs::without_running;
use proctor_core::bounds::{MESSAGE_BYTES_MAX, TEST_OUTPUT_BYTES_MAX};
use proctor_core::limits::Limits;
use proctor_core::outcome::{KillReason, Outcome};
use proctor_core::report::Summary;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;

/// Text that breaks out of each format, if the format lets it.
const HOSTILE: &str = "]]></failure><b>&\u{0}\u{1b}[31mred\u{202e}\tevil\u{fffe}</script><script>alert(1)</script>\n::error::owned\n%0A::warning::owned\nok 99 - owned # SKIP\n...\n\u{85}x\u{2028}y\"'`";

fn report(outcome: Outcome, tests: Vec<TestCase>) -> Report {
    let empty = without_running(Timestamp(1_700_000_000_000), Limits::DEFAULT, "go", KillReason::Cancelled, "note");
    let mut summary = Summary::default();
    tests.iter().for_each(|test| summary.count(test.outcome));
    Report { outcome, summary, tests, partial: false, evidence: Default::default(), ..empty }
}

fn test(name: &str, outcome: TestOutcome) -> TestCase {
    let id = TestId { package: "pkg".to_owned(), name: name.to_owned() };
    TestCase { duration_s: Some(0.25), ..TestCase::new(id, format!("pkg/{name}"), outcome) }
}

fn hostile_test(outcome: TestOutcome) -> TestCase {
    let text = || Some(HOSTILE.to_owned());
    TestCase {
        file: Some(format!("a,b:c{HOSTILE}.go")),
        line: Some(7),
        message: text(),
        expected: text(),
        actual: Some("other".to_owned()),
        stack: text(),
        output: text(),
        package: HOSTILE.to_owned(),
        ..test(HOSTILE, outcome)
    }
}

fn text(format: ReportFormat, report: &Report, bytes_max: usize) -> String {
    String::from_utf8(
        render(format, ReportInput { run_id: "s-1", report, context: &ReportContext::default() }, bytes_max).unwrap(),
    )
    .unwrap()
}

#[test]
fn no_text_of_a_run_steers_a_terminal_or_hides() {
    let outcomes = [TestOutcome::Failed, TestOutcome::Error, TestOutcome::Skipped, TestOutcome::Xfailed];
    let report = report(Outcome::Failed, outcomes.map(hostile_test).into());
    for format in ReportFormat::ALL.into_iter().filter(|format| *format != ReportFormat::Json) {
        let text = text(format, &report, usize::MAX);
        let hidden = text.chars().find(|c| proctor_proto::printable::is_hidden(*c) && !matches!(c, '\n' | '\t'));
        assert_eq!(hidden, None, "{}: {text}", format.name());
    }
}

#[test]
fn junit_keeps_the_columns_of_a_text_with_tabs() {
    let failing = TestCase {
        message: Some("got:\t1".to_owned()),
        stack: Some("main.go:7\n\tx := 1".to_owned()),
        output: Some("a\tb".to_owned()),
        ..test("t", TestOutcome::Failed)
    };
    let text = text(ReportFormat::Junit, &report(Outcome::Failed, vec![failing]), usize::MAX);
    for kept in ["message=\"got:    1\"", "got:    1\n\nmain.go:7\n    x := 1", ">a    b</system-out>"] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
}

#[test]
fn a_hostile_text_begins_no_command_of_github() {
    let report = report(Outcome::Failed, vec![hostile_test(TestOutcome::Failed)]);
    let text = text(ReportFormat::Github, &report, usize::MAX);
    assert_eq!(text.lines().count(), 2, "{text}");
    let annotation = text.lines().last().unwrap();
    let (properties, message) = annotation.strip_prefix("::error ").unwrap().split_once("::").unwrap();
    assert!(properties.starts_with("file=a%2Cb%3Ac]]>"), "{properties}");
    assert!(properties.contains(",line=7,title=") && properties.matches(',').count() == 2, "{properties}");
    assert!(message.contains("%0A::error::owned%0A%250A::warning::owned"), "{message}");
}

#[test]
fn a_hostile_text_is_no_line_of_tap() {
    let report = report(Outcome::Failed, vec![hostile_test(TestOutcome::Failed), hostile_test(TestOutcome::Skipped)]);
    let text = text(ReportFormat::Tap, &report, usize::MAX);
    assert!(text.starts_with("TAP version 14\n1..2\n# failed: "), "{text}");
    let points: Vec<&str> =
        text.lines().filter(|line| line.starts_with("ok ") || line.starts_with("not ok ")).collect();
    assert_eq!(points.len(), 2, "{text}");
    assert!(points[0].starts_with("not ok 1 - ]]>") && points[0].contains("\\#") && !points[0].contains(" # "));
    assert!(points[1].starts_with("ok 2 - ") && points[1].contains(" # SKIP "), "{}", points[1]);
    assert_eq!(text.lines().filter(|line| *line == "  ...").count(), 1, "{text}");
}

#[test]
fn a_run_that_did_not_pass_is_red_without_a_failed_test() {
    for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Passed) {
        let report = report(outcome, vec![test("a", TestOutcome::Passed)]);
        let name = outcome.name();
        let junit = text(ReportFormat::Junit, &report, usize::MAX);
        assert!(junit.contains(&format!("<error message=\"the run ended as {name}\" type=\"{name}\"")), "{junit}");
        let ctrf: serde_json::Value = serde_json::from_str(&text(ReportFormat::Ctrf, &report, usize::MAX)).unwrap();
        assert_eq!(ctrf["results"]["summary"]["failed"], 1, "{ctrf}");
        assert!(text(ReportFormat::Tap, &report, usize::MAX).contains("\nnot ok 1 - proctor > run\n"));
        assert!(text(ReportFormat::Github, &report, usize::MAX).starts_with("::error title=proctor::"));
    }
    let green = report(Outcome::Passed, vec![test("a", TestOutcome::Passed)]);
    assert!(!text(ReportFormat::Junit, &green, usize::MAX).contains("<error"));
    assert!(!text(ReportFormat::Tap, &green, usize::MAX).contains("not ok"));
    assert!(text(ReportFormat::Github, &green, usize::MAX).starts_with("::notice title=proctor::passed"));
}

#[test]
fn every_format_keeps_to_its_bound_and_says_what_it_leaves_out() {
    let large = |number: usize| TestCase {
        message: Some("&\u{1}\"".repeat(MESSAGE_BYTES_MAX / 4)),
        stack: Some("<'\u{2}".repeat(TEST_OUTPUT_BYTES_MAX / 4)),
        output: Some("\u{e0041}".repeat(TEST_OUTPUT_BYTES_MAX / 4)),
        ..test(&format!("failing-{number}-{}", "&".repeat(900)), TestOutcome::Failed)
    };
    let passed = |number: usize| test(&format!("passing-{number}-{}", "\"<".repeat(400)), TestOutcome::Passed);
    let report = report(Outcome::Failed, (0..24).map(large).chain((0..1_000).map(passed)).collect());
    for format in ReportFormat::ALL.into_iter().filter(|format| *format != ReportFormat::Json) {
        for bytes_max in [REPORT_DOCUMENT_BYTES_MIN, 1_000_000, REPORT_DOCUMENT_BYTES_MAX] {
            let text = text(format, &report, bytes_max);
            assert!(text.len() <= bytes_max, "{}: {} of {bytes_max}", format.name(), text.len());
        }
        let small = text(format, &report, REPORT_DOCUMENT_BYTES_MIN);
        let said = ["left out, as there is no room for more", "further failures have no annotation", "more\n  Next: "];
        assert!(small.contains("failing-0-"), "{}: no failure at all", format.name());
        assert!(said.iter().any(|said| small.contains(said)), "{}: {small}", format.name());
    }
}

#[test]
fn failures_that_the_report_has_no_room_for_count_as_failures() {
    let mut report = report(Outcome::Failed, vec![test("a", TestOutcome::Failed), test("b", TestOutcome::Passed)]);
    (0..5).for_each(|_| report.summary.count(TestOutcome::Failed));
    (0..3).for_each(|_| report.summary.count(TestOutcome::Passed));
    report.truncated.tests = 8;
    let ctrf: serde_json::Value = serde_json::from_str(&text(ReportFormat::Ctrf, &report, usize::MAX)).unwrap();
    let counts = ["tests", "passed", "failed", "other"].map(|name| ctrf["results"]["summary"][name].as_u64().unwrap());
    assert_eq!(counts, [10, 1, 6, 3], "{ctrf}");
    let github = text(ReportFormat::Github, &report, usize::MAX);
    assert!(github.contains("::5 further failures have no annotation"), "{github}");
    assert!(text(ReportFormat::Optimization, &report, usize::MAX).contains("\n## Broken (6)\n"));
    for format in [ReportFormat::Ctrf, ReportFormat::Junit, ReportFormat::Tap, ReportFormat::Html] {
        let text = text(format, &report, usize::MAX);
        assert!(text.contains("no room for more: 5 failures, 3 other tests"), "{}: {text}", format.name());
    }
}

#[test]
fn a_test_without_a_name_has_one_in_ctrf() {
    let nameless = TestCase { nodeid: String::new(), ..test("", TestOutcome::Passed) };
    let ctrf = text(ReportFormat::Ctrf, &report(Outcome::Passed, vec![nameless]), usize::MAX);
    assert!(ctrf.contains("\"name\":\"(unnamed)\"") && !ctrf.contains("testId"), "{ctrf}");
}

#[test]
fn the_json_document_counts_the_tests_without_a_call() {
    let tests = (0..50_000).map(|number| test(&format!("{number}"), TestOutcome::Passed)).collect();
    let document = text(ReportFormat::Json, &report(Outcome::Passed, tests), 0);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let without = document["tests"].as_array().unwrap().iter().filter(|test| test.get("call").is_none()).count();
    assert!(without > 0 && document["truncated"]["calls"] == without, "{without}: {}", document["truncated"]);
    assert!(document["tests"][0].get("lineno").is_none());
}

#[test]
fn many_small_packages_keep_to_the_bound() {
    let outcomes = [TestOutcome::Passed, TestOutcome::Failed, TestOutcome::Xpassed, TestOutcome::Skipped];
    for outcome in outcomes {
        let case = |number: usize| TestCase {
            package: format!("{number}"),
            output: Some("x".to_owned()),
            ..test("a", outcome)
        };
        let report = report(Outcome::Failed, (0..20_000).map(case).collect());
        for format in ReportFormat::ALL.into_iter().filter(|format| *format != ReportFormat::Json) {
            let text = text(format, &report, 1_000_000);
            assert!(text.len() <= 1_000_000, "{}, {}: {}", format.name(), outcome.name(), text.len());
        }
    }
}

#[test]
fn the_plan_states_only_what_is_recorded() {
    let report = report(Outcome::Failed, vec![hostile_test(TestOutcome::Failed), test("a b", TestOutcome::Failed)]);
    let plan = text(ReportFormat::Optimization, &report, usize::MAX);
    assert!(plan.starts_with("# Optimization plan\n\nLast run: failed: 2 of 2 tests failed"), "{plan}");
    assert!(plan.contains("\n## Broken (2)\n"), "{plan}");
    assert!(plan.contains("  Next: `proctor run --test='pkg/a b'`\n"), "{plan}");
    assert!(plan.contains("\n## Flaky\n\nNot known: there is no history"), "{plan}");
    assert!(plan.contains("\n## Uncovered\n\nNot known: no run of this workspace has measured"), "{plan}");
    assert!(!plan.contains("\n::") && !plan.contains("\nok 99"), "a hostile text begins no line: {plan}");
    let coverage = CoverageFindings {
        uncovered: vec!["shop/unused.py".to_owned()],
        uncovered_found: 31,
        uncovered_more: true,
        same_lines: Some((vec![["a", "b"].map(|name| test(name, TestOutcome::Passed).id()).into()], 1)),
    };
    let context =
        ReportContext { coverage: Some(coverage), history: Some(HistoryAnswer::default()), ..ReportContext::default() };
    let input = ReportInput { run_id: "", report: &report, context: &context };
    let plan = String::from_utf8(render(ReportFormat::Optimization, input, usize::MAX).unwrap()).unwrap();
    for line in [
        "## Flaky (0)",
        "## Uncovered (at least 31)",
        "There are more source files than were compared.",
        "- `shop/unused.py`: no measured test executes a line of it",
        "  Next: `proctor covering shop/unused.py`",
        "- … and 30 more",
        "## Never failing (0)",
        "No test has 20 recorded results that all passed.",
        "- 2 tests execute exactly the same lines: `pkg` `a`, `pkg` `b`",
        "  Next: `proctor history --test=pkg/a`",
    ] {
        assert!(plan.lines().any(|found| found == line), "{line}: {plan}");
    }
}

#[test]
fn the_json_document_is_proctors_own_with_the_fields_of_pytest_json_report() {
    let failing = TestCase {
        file: Some("a_test.go".to_owned()),
        line: Some(7),
        message: Some("got 1\nwant 2".to_owned()),
        stack: Some("frame".to_owned()),
        ..test("a", TestOutcome::Failed)
    };
    let report = report(Outcome::Failed, vec![failing, test("b", TestOutcome::Passed)]);
    let document: serde_json::Value = serde_json::from_str(&text(ReportFormat::Json, &report, 0)).unwrap();
    let own = serde_json::to_value(&report).unwrap();
    for (name, value) in own.as_object().unwrap() {
        match name.as_str() {
            "tests" | "summary" | "collectors" => {}
            name => assert_eq!(&document[name], value, "{name}"),
        }
    }
    for (name, value) in own["tests"][0].as_object().unwrap() {
        assert_eq!(&document["tests"][0][name], value, "{name}");
    }
    assert_eq!(document["root"], ".");
    assert_eq!(document["created"], 1_700_000_000.0);
    assert_eq!(document["summary"]["collected"], 2);
    let crash = serde_json::json!({ "path": "a_test.go", "lineno": 7, "message": "got 1" });
    let call = serde_json::json!({ "duration": 0.25, "outcome": "failed", "crash": crash, "longrepr": "got 1\nwant 2\nframe" });
    assert_eq!(document["tests"][0]["call"], call);
    assert_eq!(document["tests"][1]["call"], serde_json::json!({ "duration": 0.25, "outcome": "passed" }));
    assert_eq!(serde_json::from_value::<Report>(document).unwrap(), report, "a report can be read back");
}

#[test]
fn the_plan_has_what_the_run_showed_in_itself_and_an_estimate_where_a_setting_is_not_in_use() {
    let slow = |name: &str, seconds| TestCase {
        duration_s: Some(seconds),
        setup_s: Some(seconds / 2.0),
        cpu_s: Some(0.25),
        ..test(name, TestOutcome::Passed)
    };
    let tests = vec![slow("a", 6.0), slow("b", 3.0), slow("c", 3.0), slow("c/part", 2.0), slow("d", 1.0)];
    let mut report = Report { duration_s: 15.0, ..report(Outcome::Passed, tests) };
    let plan = text(ReportFormat::Optimization, &report, usize::MAX);
    assert!(plan.contains("its tests took 13.00 s together, the longest 6.00 s"), "a part counts once: {plan}");
    assert!(plan.contains("Set-up and tear-down took 6.50 s (50 %) of the 13.00 s of 4 tests.\n"), "{plan}");
    assert!(plan.contains("In the 13.00 s of 4 tests their own process used 1.00 s of processor time."), "{plan}");
    assert!(plan.contains("- `pkg` `a` takes 6.00 s (set-up 3.00 s, processor 0.25 s), 46 % of the 13.00 s"), "{plan}");
    assert!(!plan.contains("--parallel"), "Go runs packages at the same time: {plan}");
    report.framework = "pytest".to_owned();
    let plan = text(ReportFormat::Optimization, &report, usize::MAX);
    let estimate = "One after the other the tests take 15.00 s. With `proctor run --parallel 2`, which needs pytest-xdist, they would \
                    take about 8.00 s, and not less than the 6.00 s of `pkg/a`. This is an estimate from the times of this run: 2 \
                    tests at a time, the longest first";
    assert!(plan.contains(estimate), "pytest has no subtests: {plan}");
    let processors = std::mem::replace(&mut report.limits.cpu_millis_max, 1_500);
    let plan = text(ReportFormat::Optimization, &report, usize::MAX);
    assert!(!plan.contains("--parallel"), "there is one processor: {plan}");
    report.limits.cpu_millis_max = processors;
    report.framework = "mocha".to_owned();
    let plan = text(ReportFormat::Optimization, &report, usize::MAX);
    assert!(!plan.contains("--parallel"), "there is one file: {plan}");
    (report.framework, report.duration_s) = ("pytest".to_owned(), 10.0);
    let plan = text(ReportFormat::Optimization, &report, usize::MAX);
    assert!(!plan.contains("--parallel"), "the tests ran at the same time: {plan}");
    let mut tally = proctor_core::repetition::ExecutionTally::default();
    for (number, outcome) in [(1, TestOutcome::Failed), (2, TestOutcome::Passed)] {
        tally.add(number, &[test("a", outcome)], &std::collections::BTreeMap::new(), "");
    }
    report.repetitions = Some(proctor_core::repetition::Repetitions {
        requested: 2,
        executions: 2,
        failed: 1,
        retries: 0,
        flaky: tally.flaky().1,
        counts: std::sync::Arc::default(),
        failing_orders: std::sync::Arc::default(),
        files_changed: false,
    });
    let plan = text(ReportFormat::Optimization, &report, usize::MAX);
    assert!(plan.contains("\n## Flaky (1)\n\n- `pkg` `a` failed 1 of 2 executions of this run (50 %"), "{plan}");
    assert!(plan.contains("  Next: `proctor flaky pkg/a`\n") && !plan.contains("together, the longest"), "{plan}");
}

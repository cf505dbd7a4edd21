//! The result of a run in one form for every interface, and its comparison with the expected row.

use crate::expectation::{Case, Row};
use proctor_proto::v1;
use serde_json::Value;
use std::collections::BTreeSet;

/// One test, failure or collector of a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TestRecord {
    /// Name in the runner's own form.
    pub nodeid: String,
    /// Test outcome (passed, failed, skipped, error, …), or the collector kind (build, collection).
    pub outcome: String,
    /// File and line.
    pub at: Option<(String, u64)>,
    /// Failure message.
    pub message: Option<String>,
    /// Expected value.
    pub expected: Option<String>,
    /// Actual value.
    pub actual: Option<String>,
    /// Whether it failed only because a subtest of it did.
    pub failed_by_subtest: bool,
}

/// The fields of a report that the table checks, from any interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    outcome: String,
    exit_code: i64,
    raw_exit_code: Option<i64>,
    framework: String,
    structured: bool,
    partial: bool,
    unreached: bool,
    /// Counts of total, passed, failed, skipped, xfailed, xpassed, error.
    summary: [u64; 7],
    tests: BTreeSet<TestRecord>,
    listed: usize,
    collectors: BTreeSet<TestRecord>,
    held: Vec<String>,
    killed: Option<String>,
    running: Vec<String>,
    limit_hits: Vec<String>,
    output_bytes: u64,
    missing: usize,
    limits_in_force: usize,
    flaky: u64,
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn name(id: &Value) -> String {
    format!("{}/{}", id["package"].as_str().unwrap(), id["name"].as_str().unwrap())
}

impl TestRecord {
    /// From an element of `tests` or `collectors` in the JSON report, or of `failures` in `last_test_failures`.
    #[must_use]
    pub fn from_json(value: &Value) -> TestRecord {
        let file = text(&value["file"]);
        TestRecord {
            nodeid: text(&value["nodeid"]).unwrap(),
            // A collector's `outcome` is for readers of pytest-json-report, who expect the same word of each.
            outcome: text(&value["kind"]).or_else(|| text(&value["outcome"])).unwrap_or_default(),
            at: file.map(|file| (file, value["line"].as_u64().unwrap_or(0))),
            message: text(&value["message"]),
            expected: text(&value["expected"]),
            actual: text(&value["actual"]),
            failed_by_subtest: value["failed_by_subtest"] == true,
        }
    }

    fn from_case(case: &v1::TestCase) -> TestRecord {
        let outcome = case.outcome().as_str_name().trim_start_matches("TEST_OUTCOME_").to_ascii_lowercase();
        TestRecord {
            nodeid: case.nodeid.clone(),
            outcome,
            at: case.file.clone().map(|file| (file, case.line.unwrap_or(0).into())),
            message: case.message.clone(),
            expected: case.expected.clone(),
            actual: case.actual.clone(),
            failed_by_subtest: case.failed_by_subtest,
        }
    }

    fn from_collector(collector: &v1::Collector) -> TestRecord {
        let kind = collector.kind().as_str_name().trim_start_matches("COLLECTOR_KIND_").to_ascii_lowercase();
        TestRecord {
            nodeid: collector.nodeid.clone(),
            outcome: kind,
            at: collector.file.clone().map(|file| (file, collector.line.unwrap_or(0).into())),
            message: Some(collector.message.clone()),
            ..TestRecord::default()
        }
    }

    /// From an element of `LastTestFailures`, which has no outcome since it lists only failures.
    #[must_use]
    pub fn from_failure(failure: &v1::Failure) -> TestRecord {
        TestRecord {
            nodeid: failure.nodeid.clone(),
            outcome: String::new(),
            at: failure.file.clone().map(|file| (file, failure.line.unwrap_or(0).into())),
            message: Some(failure.message.clone()),
            expected: failure.expected.clone(),
            actual: failure.actual.clone(),
            failed_by_subtest: false,
        }
    }

    fn from_expected(case: &Case) -> TestRecord {
        TestRecord {
            nodeid: case.nodeid.to_owned(),
            outcome: case.outcome.to_owned(),
            at: case.at.map(|(file, line)| (file.to_owned(), line.into())),
            message: case.message.map(str::to_owned),
            expected: case.expected.map(str::to_owned),
            actual: case.actual.map(str::to_owned),
            failed_by_subtest: case.hidden,
        }
    }
}

/// The expected list of failures after a run of `row`.
#[must_use]
pub fn expected_failures(row: &Row) -> BTreeSet<TestRecord> {
    let failures = row.failures();
    let wanted = failures.iter().map(|case| TestRecord {
        outcome: String::new(),
        message: Some(case.message.unwrap_or_default().to_owned()),
        ..TestRecord::from_expected(case)
    });
    wanted.collect()
}

impl RunResult {
    /// From the JSON report of `proctor run --output json`, `GetReport` or `run_tests`'s `structuredContent`.
    #[must_use]
    pub fn from_json(report: &Value) -> RunResult {
        let summary = ["total", "passed", "failed", "skipped", "xfailed", "xpassed", "error"];
        let evidence = &report["evidence"];
        let texts = |list: &Value| array(list).iter().map(|held| text(held).unwrap()).collect();
        // Only answers of MCP leave out tests.
        let left_out = usize::try_from(report["tests_left_out"].as_u64().unwrap_or(0)).unwrap();
        let running = array(&evidence["running"]).iter().map(name).collect();
        RunResult {
            outcome: text(&report["outcome"]).unwrap(),
            exit_code: report["exit_code"].as_i64().unwrap(),
            raw_exit_code: report["raw_exit_code"].as_i64(),
            framework: text(&report["framework"]).unwrap(),
            structured: report["structured"].as_bool().unwrap(),
            partial: report["partial"].as_bool().unwrap(),
            unreached: evidence["unreached"].as_bool().unwrap(),
            summary: summary.map(|name| number(&report["summary"][name])),
            tests: array(&report["tests"]).iter().map(TestRecord::from_json).collect(),
            listed: array(&report["tests"]).len() + left_out,
            collectors: array(&report["collectors"]).iter().map(TestRecord::from_json).collect(),
            held: texts(&evidence["held"]),
            killed: text(&evidence["killed"]),
            running,
            limit_hits: array(&evidence["limit_hits"]).iter().map(|hit| text(&hit["limit"]).unwrap()).collect(),
            output_bytes: number(&report["resources"]["output_bytes"]),
            missing: array(&report["isolation"]["missing"]).len(),
            limits_in_force: array(&report["isolation"]["limits"]).len(),
            flaky: number(&report["flaky_in_run"]),
        }
    }

    /// From the report in a run's last event.
    #[must_use]
    pub fn from_report(report: &v1::Report) -> RunResult {
        let outcome = |outcome: v1::Outcome| proctor_proto::text::outcome_name(outcome);
        let summary = report.summary.unwrap();
        let evidence = report.evidence.as_ref().unwrap();
        let isolation = report.isolation.as_ref().unwrap();
        RunResult {
            outcome: outcome(report.outcome()),
            exit_code: report.exit_code.into(),
            raw_exit_code: report.raw_exit_code.map(Into::into),
            framework: report.framework.clone(),
            structured: report.structured,
            partial: report.partial,
            unreached: evidence.unreached,
            summary: [
                summary.total,
                summary.passed,
                summary.failed,
                summary.skipped,
                summary.xfailed,
                summary.xpassed,
                summary.error,
            ],
            tests: report.tests.iter().map(TestRecord::from_case).collect(),
            listed: report.tests.len(),
            collectors: report.collectors.iter().map(TestRecord::from_collector).collect(),
            held: evidence.held().map(outcome).collect(),
            killed: Some(evidence.killed.clone()).filter(|killed| !killed.is_empty()),
            running: evidence.running.iter().map(|test| format!("{}/{}", test.package, test.name)).collect(),
            limit_hits: evidence.limit_hits.iter().map(|hit| hit.limit.clone()).collect(),
            output_bytes: report.resources.as_ref().unwrap().output_bytes,
            missing: isolation.missing.len(),
            limits_in_force: isolation.limits.len(),
            flaky: report.flaky_in_run,
        }
    }

    /// Fails with every difference from the row.
    pub fn assert_matches(&self, row: &Row) {
        let numbered = [(Case::passed(row.numbered_passed.0), row.numbered_passed.1), row.numbered_skipped];
        let numbered = numbered.into_iter().flat_map(|(case, count)| {
            let nodeid = move |number: usize| case.nodeid.replace("{}", &number.to_string());
            (0..count).map(move |number| TestRecord { nodeid: nodeid(number), ..TestRecord::from_expected(&case) })
        });
        let mut tests: BTreeSet<TestRecord> = row.tests.iter().map(TestRecord::from_expected).chain(numbered).collect();
        if row.total() > row.tests.len() {
            // Answers of MCP have room for a part of the tests only.
            assert!(self.tests.is_subset(&tests) && self.tests.len() >= 100, "row {}: {:?}", row.name, self.tests);
            tests.retain(|test| self.tests.contains(test));
        }
        let wanted = RunResult {
            outcome: row.outcome.to_owned(),
            exit_code: row.exit_code.into(),
            raw_exit_code: row.raw_exit_code.map(Into::into),
            framework: row.framework.to_owned(),
            structured: row.structured,
            partial: row.partial,
            unreached: row.unreached || self.unreached,
            summary: [
                row.total() as u64,
                row.count("passed"),
                row.count("failed"),
                row.count("skipped"),
                row.count("xfailed"),
                row.count("xpassed"),
                row.count("error"),
            ],
            tests,
            listed: row.total(),
            collectors: row
                .collectors
                .iter()
                .map(|collector| TestRecord {
                    nodeid: collector.nodeid.to_owned(),
                    outcome: collector.kind.to_owned(),
                    at: collector.at.map(|(file, line)| (file.to_owned(), line.into())),
                    message: Some(collector.message.to_owned()),
                    ..TestRecord::default()
                })
                .collect(),
            held: row.held.iter().map(|held| (*held).to_owned()).collect(),
            killed: row.killed.map(str::to_owned),
            running: row.running.iter().map(|test| (*test).to_owned()).collect(),
            limit_hits: row.limit_hits.iter().map(|hit| (*hit).to_owned()).collect(),
            output_bytes: self.output_bytes.max(row.output_bytes_min),
            // The suites need a host that enforces everything: memory, cpu, pids, wall, log, tmp, disk, writes.
            missing: 0,
            limits_in_force: 8,
            flaky: row.flaky,
        };
        assert!(*self == wanted, "row {}: got\n{self:#?}\nwant\n{wanted:#?}", row.name);
    }
}

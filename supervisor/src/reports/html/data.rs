//! The JSON block of the page: suites, tests and details as arrays, which take less room than objects.

use super::super::budget::{Budget, beginning, cut};
use super::super::context::SourceExcerpt;
use super::super::entries::{Entry, Subject};
use super::super::{RenderError, ReportInput, escaped_json};
use crate::grpc::convert;
use crate::history::query::{HistoryAnswer, PastRun};
use proctor_core::analysis::Suspects;
use proctor_core::human_units::format_bytes;
use proctor_core::isolation::Network;
use proctor_core::report::Report;
use proctor_core::test_case::TestId;
use proctor_core::usage_samples::UsageSample;
use proctor_proto::printable::{block as printable, line};
use proctor_proto::test_times::Subtests;
use proctor_proto::untested_text::untested_line;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Flaky and slower tests shown.
const UNSTEADY_MAX: usize = 30;

/// Bytes of a name in a list of flaky or slower tests.
const NAME_BYTES: usize = 200;

/// Bytes of a test's array without its name.
const TEST_BYTES: usize = 72;

/// Bytes of the names of a detail's members.
const DETAIL_BYTES: usize = 64;

/// Bytes of the number of a test in the list of subtests.
const SUBTEST_BYTES: usize = 8;

/// Of a test: whether it failed before.
#[derive(Clone, Copy)]
enum Trend {
    Unknown = 0,
    New = 1,
    Still = 2,
}

/// Renders the block. `<` is escaped, so that nothing ends the element that holds it.
pub(super) fn block_of(value: &impl Serialize) -> serde_json::Result<String> {
    let text = escaped_json::to_vec(value)?;
    Ok(String::from_utf8_lossy(&text).replace('<', "\\u003c"))
}

fn bytes_of(value: &impl Serialize) -> usize {
    block_of(value).map_or(0, |text| text.len())
}

pub(super) fn block<'a>(input: ReportInput<'a>, all: &[Entry<'a>], budget: &mut Budget) -> Result<String, RenderError> {
    let report = input.report;
    let trends = trends(report);
    let (mut kinds, mut suites) = (Names::default(), Names::default());
    let (mut tests, mut details) = (Vec::new(), Vec::new());
    let mut index_of: HashMap<(&str, &str), usize> = HashMap::new();
    let known = Subtests::new(&report.framework, report.tests.iter().map(|test| test.nodeid.as_str()));
    let mut subtests = Vec::new();
    for entry in all {
        let (name, suite) = (line(&entry.name), line(entry.suite));
        let is_known = suites.index.contains_key(&suite);
        let suite_bytes = if is_known { 0 } else { bytes_of(&suite) + 1 };
        let message = printable(&entry.message);
        let own = if entry.message.is_empty() && entry.file.is_none() { 0 } else { DETAIL_BYTES };
        let message_bytes = own + bytes_of(&beginning(&message)) + entry.file.map_or(0, |file| bytes_of(&line(file)));
        let is_subtest = matches!(entry.subject, Subject::Test(test) if known.contains(&test.nodeid));
        let subtest_bytes = if is_subtest { SUBTEST_BYTES } else { 0 };
        if !budget.take_entry(entry, TEST_BYTES + bytes_of(&name) + suite_bytes + message_bytes + subtest_bytes) {
            continue;
        }
        let detail = detail(input, entry, &message, budget).map(|detail| {
            details.push(detail);
            details.len() - 1
        });
        let trend = trends.get(&(entry.suite, &*entry.name)).copied().unwrap_or(Trend::Unknown);
        index_of.entry((entry.suite, &*entry.name)).or_insert(tests.len());
        if is_subtest {
            subtests.push(tests.len());
        }
        let ended_ms = match entry.subject {
            Subject::Test(test) => test.finished_s.map(milliseconds),
            _ => None,
        };
        let (setup_s, cpu_s) = match entry.subject {
            Subject::Test(test) => (test.setup_s, test.cpu_s),
            _ => (None, None),
        };
        let mut columns = vec![
            json!(suites.number(suite)),
            json!(name),
            json!(kinds.number(Cow::Borrowed(entry.kind))),
            json!(entry.duration_s.map(milliseconds)),
            json!(ended_ms),
            json!(detail.map_or(-1, |index| i64::try_from(index).unwrap_or(-1))),
            json!(trend as u8),
        ];
        if setup_s.is_some() || cpu_s.is_some() {
            columns.extend([setup_s, cpu_s].map(|seconds| json!(seconds.map(milliseconds))));
        }
        tests.push(Value::from(columns));
    }
    let history = input.context.history.as_ref();
    let number = |test: &TestId| index_of.get(&(test.package.as_str(), test.name.as_str())).copied();
    let samples = json!(report.usage.iter().map(sample).collect::<Vec<_>>());
    let samples = if budget.take_text(bytes_of(&samples)) { samples } else { json!([]) };
    Ok(block_of(&json!({
        "usage": samples,
        "run": { "started_ms": report.started_at.0, "duration_s": report.duration_s },
        "kinds": kinds.names,
        "suites": suites.names,
        "tests": tests,
        "subtests": subtests,
        "details": details,
        "history": history.map_or_else(Vec::new, |history| history.runs.iter().map(past_run).collect()),
        "flaky": history.map_or_else(Vec::new, |history| flaky(history, number)),
        "slower": history.map_or_else(Vec::new, |history| slower(history, number)),
        "suspects": input.context.suspects.as_ref().map(|found| suspects(found, number)),
        "facts": facts(report),
    }))?)
}

/// Names with their numbers, in the order of their first use.
#[derive(Default)]
struct Names<'a> {
    names: Vec<Cow<'a, str>>,
    index: BTreeMap<Cow<'a, str>, usize>,
}

impl<'a> Names<'a> {
    fn number(&mut self, name: Cow<'a, str>) -> usize {
        if let Some(number) = self.index.get(&name) {
            return *number;
        }
        self.names.push(name.clone());
        self.index.insert(name, self.names.len() - 1);
        self.names.len() - 1
    }
}

fn detail(input: ReportInput<'_>, entry: &Entry<'_>, message: &str, budget: &mut Budget) -> Option<Value> {
    let mut detail = Map::new();
    let mut is_cut = false;
    if !message.is_empty() {
        let shown = budget.message(message, bytes_of(&message));
        is_cut |= shown.len() < message.len();
        detail.insert("message".to_owned(), shown.into());
    }
    if let Some(file) = entry.file {
        detail.insert("file".to_owned(), line(file).into());
        detail.extend(entry.line.map(|line| ("line".to_owned(), line.into())));
    }
    let marks = entry.marks();
    if !marks.is_empty() && budget.take_text(bytes_of(&marks) + DETAIL_BYTES) {
        detail.insert("marks".to_owned(), marks.into());
    }
    let (expected, actual, stack) = match entry.subject {
        Subject::Test(test) => (test.expected.as_deref(), test.actual.as_deref(), test.stack.as_deref()),
        Subject::Collector(collector) => (None, None, Some(collector.output.as_str())),
        Subject::CutOff(hung) => (None, None, hung.map(|hung| hung.stack.as_str())),
        Subject::Run | Subject::NotRun | Subject::Finding(_) | Subject::Checker => (None, None, None),
    };
    let excerpt = entry.file.zip(entry.line);
    let excerpt = excerpt.and_then(|(file, line)| input.context.excerpts.get(&(file.to_owned(), line)));
    let fix = match entry.subject {
        Subject::Finding(_) => entry.details(),
        _ => None,
    };
    let tails = matches!(entry.subject, Subject::Run).then(|| tails(input.report));
    let texts = [
        ("expected", expected.map(|text| printable(text).into())),
        ("actual", actual.map(|text| printable(text).into())),
        ("source", excerpt.map(source)),
        ("fix", fix.map(Value::from)),
        ("stack", stack.map(|text| printable(text).into())),
        ("output", entry.output().map(Into::into).or(tails)),
    ];
    for (name, value) in texts {
        let Some(value) = value.filter(|value: &Value| value.as_str().is_none_or(|text| !text.trim().is_empty()))
        else {
            continue;
        };
        if budget.take_text(bytes_of(&value) + DETAIL_BYTES / 4) {
            detail.insert(name.to_owned(), value);
        } else {
            is_cut = true;
        }
    }
    if is_cut {
        detail.insert("cut".to_owned(), true.into());
    }
    (!detail.is_empty()).then(|| detail.into())
}

fn source(excerpt: &SourceExcerpt) -> Value {
    let lines: Vec<Cow<'_, str>> = excerpt.lines.iter().map(|line| printable(line)).collect();
    json!({ "first": excerpt.first, "lines": lines, "edited": excerpt.is_edited })
}

fn tails(report: &Report) -> Value {
    let tails = [("stdout", &report.stdout_tail), ("stderr", &report.stderr_tail)];
    let tails = tails.into_iter().filter(|(_, tail)| !tail.trim().is_empty());
    let text: Vec<String> = tails.map(|(name, tail)| format!("--- end of {name} ---\n{}", printable(tail))).collect();
    text.join("\n").into()
}

fn trends(report: &Report) -> HashMap<(&str, &str), Trend> {
    let groups =
        report.since_last_run.iter().flat_map(|since| [(&since.new, Trend::New), (&since.still_failing, Trend::Still)]);
    let tests = groups.flat_map(|(group, trend)| group.tests.iter().map(move |test| (test, trend)));
    tests.map(|(test, trend)| ((test.package.as_str(), test.name.as_str()), trend)).collect()
}

fn sample(sample: &UsageSample) -> (u64, Option<u64>, Option<u64>, Option<u32>) {
    (sample.at_ms, sample.memory_bytes, sample.cpu_ms, sample.processes)
}

fn past_run(run: &PastRun) -> Value {
    json!({
        "ended": run.ended_at.0,
        "outcome": run.outcome.name(),
        "passed": run.summary.passed,
        "failed": run.summary.failures(),
        "duration_s": seconds(run.duration_us),
        "memory_peak_bytes": run.memory_peak_bytes,
    })
}

fn cut_name(test: &TestId) -> String {
    let name = format!("{} {}", line(&test.package), line(&test.name));
    cut(&name, NAME_BYTES).to_owned()
}

fn flaky(history: &HistoryAnswer, number: impl Fn(&TestId) -> Option<usize>) -> Vec<Value> {
    let percent = |part: f64| (part * 100.0).round();
    let shown = history.flaky.iter().take(UNSTEADY_MAX);
    shown
        .map(|flaky| {
            json!({
                "name": cut_name(&flaky.test), "test": number(&flaky.test), "runs": flaky.runs, "failures": flaky.failures,
                "low": percent(flaky.rate.low), "high": percent(flaky.rate.high),
            })
        })
        .collect()
}

fn slower(history: &HistoryAnswer, number: impl Fn(&TestId) -> Option<usize>) -> Vec<Value> {
    let shown = history.slow.iter().take(UNSTEADY_MAX);
    shown
        .map(|(test, slow)| {
            json!({
                "name": cut_name(test), "test": number(test), "before_ms": slow.before_us / 1e3, "now_ms": slow.now_us / 1e3,
                "factor": slow.factor(),
            })
        })
        .collect()
}

fn suspects(suspects: &Suspects, number: impl Fn(&TestId) -> Option<usize>) -> Value {
    let test = |test: &TestId| json!({ "name": cut(&line(&test.name), NAME_BYTES), "test": number(test) });
    let tests = |tests: &[TestId]| -> Vec<Value> { tests.iter().map(test).collect() };
    let lines = suspects.lines.iter().map(|one| {
        json!({
            "path": line(&one.path), "first": one.first_line, "last": one.last_line,
            "function": one.function.as_deref().map(line), "source": one.source.as_deref().map(line),
            "failed": one.failed, "passed": one.passed, "in_stacks": one.in_stacks, "edited": one.is_edited,
            "failed_tests": tests(&one.failed_tests), "passed_tests": tests(&one.passed_tests),
        })
    });
    json!({
        "failed": suspects.failed_tests,
        "passed": suspects.passed_tests,
        "lines": lines.collect::<Vec<_>>(),
    })
}

fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let used = &report.resources;
    let s = |seconds: f64| format!("{seconds:.2} s");
    let network = if report.isolation.network == Network::None { "loopback only" } else { "the host's" };
    let layers: BTreeSet<&str> = report.isolation.layers.iter().map(|layer| layer.name()).collect();
    let coverage = report.coverage.measured.then(|| format!("{} files", report.coverage.files));
    let since = report.since_last_run.as_ref().map(|since| {
        let (new, fixed, still) = (since.new.total, since.fixed.total, since.still_failing.total);
        format!("{new} new, {fixed} fixed, {still} still failing")
    });
    let untested = report.untested.as_ref().and_then(|untested| untested_line(&convert::untested(untested)));
    let all = [
        ("Since the last run", since),
        ("Untested", untested),
        ("Wall time", Some(s(used.wall_s))),
        ("CPU, user", Some(s(used.cpu_user_s))),
        ("CPU, system", Some(s(used.cpu_system_s))),
        ("Held back by the cpu limit", used.throttled_s.map(s)),
        ("Peak memory", used.memory_peak_bytes.map(format_bytes)),
        ("Memory limit", Some(format_bytes(report.limits.memory_bytes_max))),
        ("Most processes", used.pids_peak.map(|pids| pids.to_string())),
        ("Read from disk", used.read_bytes.map(format_bytes)),
        ("Written to disk", used.written_bytes.map(format_bytes)),
        ("Waited for a processor", used.cpu_pressure_s.map(s)),
        ("Waited for memory", used.memory_pressure_s.map(s)),
        ("Waited for disks", used.io_pressure_s.map(s)),
        ("In the queue", Some(s(used.queue_wait_s))),
        ("Set-up of the sandbox", Some(s(used.setup_s))),
        ("Covered", coverage),
        ("Network", Some(network.to_owned())),
        ("Layers in force", Some(layers.into_iter().collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

// To a hundredth: more digits say nothing and take room.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 100_000.0).round() / 100.0
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a run are far below 2^52")]
fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

//! The answer for an ended run, drawn from the report in its last event.

use super::budget::{self, Detail, Draw, clip_end, last_lines};
use super::failure::{self, FailureEntry};
use super::failure_list::{FailureList, Selection, named_json, named_text};
use super::next_call::{failures_from, larger_answer};
use super::{ReportMembers, Text, ToolAnswer, failure_text, run_headline, run_text};
use crate::bounded_report;
use crate::run_follower::EndedRun;
use crate::run_uri;
use proctor_proto::printable::line;
use proctor_proto::text;
use proctor_proto::untested_text::{place, untested_line};
use proctor_proto::v1::{Affected, LimitHit, Outcome, Report, Stream, UntestedLines};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Most notes shown unless all are asked for, and most bytes of each.
const NOTES_MAX: usize = 5;
const NOTE_BYTES_MAX: usize = 400;

/// Most bytes of a stream's end that is shown without being asked for.
const TAIL_BYTES_MAX: usize = 1_500;

/// Shortest wait in the queue, in seconds, that an answer names. A loaded host takes a second to prepare a run.
const WAIT_SHOWN_S: f64 = 5.0;

/// Most artifacts named.
const ARTIFACTS_MAX: usize = 3;

/// The answer for one ended run.
pub(crate) struct RunAnswer {
    ended: EndedRun,
    failures: FailureList,
    /// Whether this is the last run of the session, whose failures `last_test_failures` pages through.
    is_last: bool,
    /// Failures that the report itself had to leave out, known by their number only.
    beyond_report: u64,
    /// The notes of the evidence, each once.
    evidence_notes: Vec<String>,
    raw: Option<String>,
    verbose: Option<VerboseReport>,
    notes: Vec<String>,
    leading: Vec<(&'static str, Value)>,
}

impl RunAnswer {
    /// The compact answer.
    pub(crate) fn new(ended: EndedRun, is_last: bool) -> RunAnswer {
        let failures = FailureList::new(failure::entries(&ended.report));
        let beyond_report = count_beyond(&ended.report);
        let evidence = ended.report.evidence.as_ref();
        let evidence_notes = evidence.map(|evidence| text::merge_repeated_notes(&evidence.notes)).unwrap_or_default();
        RunAnswer {
            ended,
            failures,
            is_last,
            beyond_report,
            evidence_notes,
            raw: None,
            verbose: None,
            notes: Vec::new(),
            leading: Vec::new(),
        }
    }

    /// Replaces the text by the runner's own output.
    #[must_use]
    pub(crate) fn with_raw(self, raw: String) -> RunAnswer {
        RunAnswer { raw: Some(raw), ..self }
    }

    /// Adds what the caller asked for beside the failures: the members of the JSON report.
    #[must_use]
    pub(crate) fn with_report(self, document: Map<String, Value>) -> RunAnswer {
        RunAnswer { verbose: Some(VerboseReport::new(document)), ..self }
    }

    /// Adds a note.
    #[must_use]
    pub(crate) fn with_note(mut self, note: String) -> RunAnswer {
        self.notes.push(note);
        self
    }

    /// Adds members that stand before those of the run.
    #[must_use]
    pub(crate) fn with_members(mut self, members: Vec<(&'static str, Value)>) -> RunAnswer {
        self.leading.extend(members);
        self
    }

    fn report(&self) -> &Report {
        &self.ended.report
    }

    // The whole report, as far as `detail` allows.
    fn verbose(&self, detail: &Detail) -> Option<&VerboseReport> {
        self.verbose.as_ref().filter(|_| detail.is_verbose)
    }

    fn is_verbose(&self, detail: &Detail) -> bool {
        self.verbose.is_some() && detail.is_verbose
    }

    // The ends of both streams, where nothing else explains how the run ended.
    fn tails(&self, detail: &Detail) -> [(&'static str, String); 2] {
        let report = self.report();
        let explains_itself = match report.outcome() {
            Outcome::Passed | Outcome::Cancelled => true,
            Outcome::Failed | Outcome::BuildFailed | Outcome::CollectionFailed | Outcome::TimedOut => {
                !self.failures.entries().is_empty()
            }
            // A failed test does not say why the runner ended.
            _ => false,
        };
        let bytes = match (self.is_verbose(detail), explains_itself) {
            (true, _) => detail.output_bytes,
            (false, true) => 0,
            (false, false) => detail.output_bytes.min(TAIL_BYTES_MAX),
        };
        // stderr is short where it matters (a panic, a missing module), so it gets its room first.
        let stderr = run_text::tail(last_lines(&report.stderr_tail, bytes / 2));
        let stdout = run_text::tail(last_lines(&report.stdout_tail, bytes.saturating_sub(stderr.len())));
        [("stdout_tail", stdout), ("stderr_tail", stderr)]
    }

    // The usual next call, and the one that lists the failures that are not shown.
    fn next(&self, shown: &Selection) -> Option<String> {
        let usual = run_text::next(self.report(), &self.ended.run_id);
        let left_out = shown.left_out as u64 + self.beyond_report;
        let rest = match self.is_last {
            _ if left_out == 0 => None,
            true => Some(format!("{} lists {left_out} more failures", failures_from(&self.ended.run_id, shown.shown))),
            // A larger answer shows no more than the report holds.
            false if shown.left_out == 0 => None,
            false => {
                let (larger, report) = (larger_answer(&self.ended.run_id), run_uri::report_uri(&self.ended.run_id));
                Some(format!("{larger} or the resource {report} shows {} more failures", shown.left_out))
            }
        };
        let calls: Vec<String> = usual.into_iter().chain(rest).collect();
        (!calls.is_empty()).then(|| calls.join("; "))
    }

    // Where more of the output is, for each stream of which only the end is shown.
    fn more_output(&self, detail: &Detail) -> Option<String> {
        let report = self.report();
        let tails = self.tails(detail);
        if tails.iter().all(|(_, tail)| tail.is_empty()) {
            return None;
        }
        let streams = [(Stream::Stdout, &report.stdout_tail), (Stream::Stderr, &report.stderr_tail)];
        let cut = tails.iter().zip(streams).filter(|((_, tail), (_, whole))| tail.len() < run_text::tail(whole).len());
        let uris: Vec<_> = cut.map(|(_, (stream, _))| run_uri::output_uri(&self.ended.run_id, stream)).collect();
        (!uris.is_empty()).then(|| format!("more of the output: resource {}", uris.join(", ")))
    }

    fn notes(&self, detail: &Detail) -> Vec<String> {
        let report = self.report();
        let evidence = report.evidence.as_ref();
        let all = &self.evidence_notes;
        let count = if self.is_verbose(detail) { all.len() } else { NOTES_MAX };
        let bytes = detail.message_bytes.clamp(100, NOTE_BYTES_MAX);
        let shown = all.iter().take(count).map(|note| clip_end(&line(note), bytes));
        let more = all.len().saturating_sub(count);
        let hits = evidence.iter().flat_map(|evidence| &evidence.limit_hits).map(describe_hit);
        let lost = match (detail.is_verbose, detail.lists_passed) {
            (false, _) => Some("limits, isolation, resources and passed tests need a larger max_tokens"),
            (true, false) => Some("passed tests need a larger max_tokens"),
            (true, true) => None,
        };
        let waited = report.resources.map(|used| used.queue_wait_s).filter(|waited| *waited >= WAIT_SHOWN_S);
        let waited = waited.map(|waited| format!("waited {waited:.1}s for its turn"));
        let lost_failures = (!self.is_last && self.beyond_report > 0)
            .then(|| format!("{} more failures were counted and not kept", self.beyond_report));
        let affected = report.affected.as_ref().map(affected_note);
        hits.chain(affected)
            .chain(waited)
            .chain(lost_failures)
            .chain(shown)
            .chain((more > 0).then(|| format!("{more} more notes: verbose shows them")))
            .chain(run_text::artifacts(report, &self.ended.run_id, ARTIFACTS_MAX))
            .chain(self.more_output(detail))
            .chain(lost.filter(|_| self.verbose.is_some()).map(str::to_owned))
            .chain(self.notes.iter().cloned())
            .collect()
    }
}

impl Draw for RunAnswer {
    fn items(&self) -> usize {
        self.failures.entries().len()
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let report = self.report();
        let shown = self.failures.select(detail);
        let tails = self.tails(detail);
        let verbose = self.verbose(detail);
        let mut members = self.leading.clone();
        members.extend([
            ("outcome", Value::from(text::outcome_name(report.outcome()))),
            ("affected", report.affected.as_ref().map_or(Value::Null, affected_json)),
            ("summary", summary(report)),
            ("failures", failures_json(&shown.explained)),
            ("named", named_json(&shown.named)),
            ("exit_code", Value::from(report.exit_code)),
            ("run_id", Value::from(self.ended.run_id.as_str())),
        ]);
        let untested = report.untested.as_ref().and_then(|untested| Some((untested, untested_line(untested)?)));
        members.extend(untested.as_ref().map(|(untested, _)| ("untested", untested_json(untested))));
        members.extend(tails.iter().map(|(name, tail)| (*name, text_value(tail))));
        let listed = failure_text::list(&shown.explained) + &named_text(&shown.named);
        let untested = untested.map(|(_, line)| format!("{line}\n")).unwrap_or_default();
        let body = listed + &untested + &run_text::streams(&tails);
        let body = match verbose {
            Some(whole) => body + &run_text::details(report, if detail.lists_passed { whole.others } else { 0 }),
            None => body,
        };
        let trailer = text::run_trailer(report);
        let text = match &self.raw {
            Some(raw) => Text::Raw(raw.clone()),
            None => Text::Composed { body, trailer },
        };
        ToolAnswer {
            headline: run_headline::headline(report, self.failures.entries()),
            text,
            members,
            report: verbose.map(|whole| whole.members(detail)),
            next: self.next(&shown),
            notes: self.notes(detail),
            attached: self.ended.attached_age_ms.map(|age| format!("attached, started {}", text::ago(age))),
            picture: None,
        }
    }
}

/// Lines that no test executed: `{"changed_lines": 14, "executed_lines": 11, "lines": ["shop/cart.py:12-14"]}`.
fn untested_json(untested: &UntestedLines) -> Value {
    let mut members = Map::new();
    members.insert("changed_lines".to_owned(), untested.changed_lines.into());
    members.insert("executed_lines".to_owned(), untested.executed_lines.into());
    members.insert("lines".to_owned(), untested.spans.iter().map(place).collect());
    let files = [("not_loaded", &untested.not_loaded), ("not_known", &untested.not_known)];
    for (name, files) in files.into_iter().filter(|(_, files)| !files.is_empty()) {
        members.insert(name.to_owned(), files.clone().into());
    }
    let left_out = untested.spans_left_out + untested.not_loaded_left_out + untested.not_known_left_out;
    if left_out > 0 {
        members.insert("left_out".to_owned(), left_out.into());
    }
    Value::Object(members)
}

/// The members of the JSON report, for a caller that asked for them, as each level of detail has them.
struct VerboseReport {
    whole: Arc<ReportMembers>,
    without_output: Arc<ReportMembers>,
    /// The failures among the tests are in the answer anyway.
    without_tests: Arc<ReportMembers>,
    /// Number of tests listed in the report that did not fail.
    others: usize,
}

impl VerboseReport {
    fn new(mut document: Map<String, Value>) -> VerboseReport {
        let tests = document.get("tests").and_then(Value::as_array);
        let others = tests.map_or(0, |tests| tests.iter().filter(|test| !bounded_report::has_failed(test)).count());
        let whole = ReportMembers::new(document.clone());
        document.retain(|name, _| !matches!(name.as_str(), "stdout_tail" | "stderr_tail"));
        let without_output = ReportMembers::new(document.clone());
        document.retain(|name, _| !matches!(name.as_str(), "tests" | "collectors"));
        VerboseReport { whole, without_output, without_tests: ReportMembers::new(document), others }
    }

    fn members(&self, detail: &Detail) -> Arc<ReportMembers> {
        let members = match (detail.lists_passed, detail.output_bytes == budget::FULL.output_bytes) {
            (false, _) => &self.without_tests,
            (true, false) => &self.without_output,
            (true, true) => &self.whole,
        };
        members.clone()
    }
}

/// What a run of affected tests selected, without what is empty.
pub(crate) fn affected_json(affected: &Affected) -> Value {
    let mut members = Map::new();
    members.insert("since".to_owned(), json!(affected.since));
    members.insert("selected".to_owned(), json!(affected.selected));
    members.insert("left_out".to_owned(), json!(affected.left_out));
    if let Some(reason) = &affected.full_reason {
        members.insert("full_reason".to_owned(), json!(reason));
    }
    if !affected.safe_because.is_empty() {
        members.insert("safe_because".to_owned(), json!(affected.safe_because));
    }
    let reasons: Map<String, Value> =
        affected.reasons.iter().map(|count| (count.reason.clone(), json!(count.tests))).collect();
    if !reasons.is_empty() {
        members.insert("reasons".to_owned(), Value::Object(reasons));
    }
    Value::Object(members)
}

/// What a run of affected tests selected, in a sentence.
fn affected_note(affected: &Affected) -> String {
    match &affected.full_reason {
        Some(reason) => format!("all tests ran: {}", line(reason)),
        None if affected.left_out > 0 => format!("{} left out: {}", affected.left_out, line(&affected.safe_because)),
        None => format!("all known tests are affected by what changed since {}", line(&affected.since)),
    }
}

fn count_beyond(report: &Report) -> u64 {
    let listed = report.tests.iter().filter(|test| failure::is_own_failure(test)).count() as u64;
    let tests = run_headline::failing(report).saturating_sub(listed).min(report.tests_left_out);
    tests + report.collectors_left_out
}

fn failures_json(failures: &[FailureEntry]) -> Value {
    match failures {
        [] => Value::Null,
        failures => failures.iter().map(FailureEntry::to_json).collect(),
    }
}

/// Counts as JSON, without zeros.
fn summary(report: &Report) -> Value {
    let summary = report.summary.unwrap_or_default();
    let counts = [
        ("total", summary.total),
        ("passed", summary.passed),
        ("failed", summary.failed),
        ("failed_parents", report.failed_parents),
        ("skipped", summary.skipped),
        ("xfailed", summary.xfailed),
        ("xpassed", summary.xpassed),
        ("error", summary.error),
    ];
    let counted: Map<String, Value> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), json!(count)))
        .collect();
    if counted.is_empty() { Value::Null } else { Value::Object(counted) }
}

fn describe_hit(hit: &LimitHit) -> String {
    format!("limit reached: {} of {}, peak {}, {} times", hit.limit, hit.max, hit.peak, hit.count)
}

fn text_value(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::from(text) }
}

//! The tool `last_test_failures`: the failures of the last run, without running anything.

use super::Answer;
use super::tool_spec::ToolSpec;
use crate::answer::budget::{Detail, Draw};
use crate::answer::failure::FailureEntry;
use crate::answer::failure_list::{FailureList, Selection, named_json, named_text};
use crate::answer::next_call::{FAILURES_LIMIT, failures_from, output};
use crate::answer::{ToolAnswer, by_package};
use crate::arguments::{ArgumentError, Arguments, clip};
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{self, list, number, plain, string};
use proctor_proto::text::{self, FailuresPage, Reader};
use proctor_proto::v1::{
    Failure, HungTest, LastTestFailuresRequest, LastTestFailuresResponse, Outcome, Stream, TestId,
};
use serde_json::Value;

const DESCRIPTION: &str = "\
The failures of the last run of tests in this session: file:line, message, wanted and actual value. Runs nothing. \
Use it for what a run's answer left out. Build and collection errors count as failures. During a run it shows the \
run before.";

/// Most running tests of an answer that say where they hang: as many as were asked for their stacks.
const RUNNING_MAX: usize = 16;

pub(super) fn spec() -> ToolSpec {
    let run = json_schema::run_in_brief().into_iter();
    ToolSpec {
        title: "Failures of the last run",
        description: DESCRIPTION,
        input: vec![
            ("limit", number("Most failures listed. Default 50, at most 500.")),
            ("cursor", number("Failures to skip; an answer that stops early gives the next.")),
            ("run_id", string("Fails if another run has ended since: pages are of one run.")),
        ],
        required: &[],
        output: Some(run.chain([("total", plain("number")), ("not_run", list(plain("object")))]).collect()),
        read_only: true,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let limit = arguments.count("limit", FAILURES_LIMIT)?.unwrap_or_default();
    // No run has that many failures, and their numbers do not overflow.
    let cursor = arguments.offset("cursor")?.unwrap_or_default().min(u32::MAX.into());
    let run_id = arguments.text("run_id")?;
    let answer = call
        .request_in_session(|mut clients, session_id| {
            let request = LastTestFailuresRequest { session_id, limit, offset: cursor };
            async move { Ok(clients.results.last_test_failures(request).await?.into_inner()) }
        })
        .await?;
    match run_id {
        Some(run_id) if answer.run_id != run_id => {
            Err(ArgumentError::OtherRun { run_id: clip(&run_id).into_owned() }.into())
        }
        _ if answer.has_run => Ok(Box::new(LastFailures::new(answer, cursor, limit))),
        _ => Ok(Box::new(ToolAnswer::no_run_yet())),
    }
}

/// The failures of a run that has ended, from `cursor` on.
struct LastFailures {
    answer: LastTestFailuresResponse,
    /// Tests that were running when the run was cut off, on the first page: the cursor counts failures only.
    running: Vec<FailureEntry>,
    failures: FailureList,
    cursor: u64,
    limit: u32,
}

impl LastFailures {
    fn new(answer: LastTestFailuresResponse, cursor: u64, limit: u32) -> LastFailures {
        let hung = |test: &TestId| answer.hung.iter().find(|hung| hung.test.as_ref() == Some(test));
        let running = answer.running.iter().filter(|_| cursor == 0).take(RUNNING_MAX);
        let running = running.map(|test| FailureEntry::from_running(test, hung(test))).collect();
        let failures = FailureList::new(answer.failures.iter().map(FailureEntry::from_listed).collect());
        LastFailures { running, failures, answer, cursor, limit }
    }

    fn next_cursor(&self, shown: &Selection) -> u64 {
        self.cursor + shown.shown as u64
    }

    // Failures after those of `shown`.
    fn more(&self, shown: &Selection) -> u64 {
        self.answer.total.saturating_sub(self.next_cursor(shown))
    }

    // Whether the supervisor has none of the failures after those of `shown`.
    fn is_rest_lost(&self, shown: &Selection) -> bool {
        shown.shown == 0 && self.answer.failures.is_empty()
    }

    fn text(&self, shown: &Selection, detail: &Detail) -> String {
        let all = &self.answer;
        let (is_first, next) = (self.cursor == 0, self.next_cursor(shown));
        let advice = match shown.left_out {
            0 if self.limit < FAILURES_LIMIT => "pass a larger limit".to_owned(),
            0 => format!("pass cursor {next}"),
            _ => "pass a larger max_tokens".to_owned(),
        };
        let (not_run, not_run_left_out) = self.not_run(detail);
        let failures: Vec<Failure> = shown.explained.iter().map(listed).collect();
        let first = self.cursor + 1;
        let named = named_text(&shown.named);
        let hung = all.hung.iter().filter(|_| is_first).take(detail.items).map(|hung| clip_stack(hung, detail));
        let running = all.running.iter().filter(|_| is_first).take(detail.items);
        let response = LastTestFailuresResponse {
            failures,
            hung: hung.collect(),
            not_run,
            not_run_left_out,
            running: running.cloned().collect(),
            framework: all.framework.clone(),
            run_id: all.run_id.clone(),
            since_last_run: None,
            since_last_green: None,
            ..*all
        };
        let more = if self.is_rest_lost(shown) { 0 } else { self.more(shown) };
        text::failures_page(&response, Reader::Agent, &FailuresPage { first, named: &named, more, advice: &advice })
    }

    // As many tests that still have to run as fit, and the number of the others. Later pages need not repeat them.
    fn not_run(&self, detail: &Detail) -> (Vec<TestId>, u64) {
        let all = &self.answer.not_run;
        if self.cursor > 0 {
            return (Vec::new(), 0);
        }
        let named: Vec<TestId> = all.iter().take(detail.items).cloned().collect();
        let left_out = self.answer.not_run_left_out + (all.len() - named.len()) as u64;
        (named, left_out)
    }

    fn next(&self, shown: &Selection) -> Option<String> {
        let usual = next_call(&self.answer);
        let (more, cursor) = (self.more(shown), self.next_cursor(shown));
        if more == 0 || self.is_rest_lost(shown) {
            return usual;
        }
        let rest = failures_from(&self.answer.run_id, usize::try_from(cursor).unwrap_or(usize::MAX));
        Some(format!("{rest} lists the next ones of {more} more failures; run_failing_tests after a fix"))
    }

    fn lost(&self, shown: &Selection) -> Option<String> {
        let total = self.answer.total;
        match self.is_rest_lost(shown) && total > 0 {
            true if self.cursor >= total => {
                Some(format!("nothing is at cursor {}: there are {total} failures", self.cursor))
            }
            true => Some(format!("failures beyond the first {} were counted and not kept", self.cursor)),
            false => None,
        }
    }
}

impl Draw for LastFailures {
    fn items(&self) -> usize {
        self.failures.entries().len().max(self.running.len())
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let all = &self.answer;
        // The form of the text has no place for failures made one.
        let shown = self.failures.select(&Detail { folds_failures: false, ..*detail });
        let (not_run, _) = self.not_run(detail);
        let running = self.running.iter().take(detail.items).map(|entry| entry.clipped(detail).to_json());
        let members = vec![
            ("outcome", text::outcome_name(all.outcome()).into()),
            ("failures", running.chain(shown.explained.iter().map(FailureEntry::to_json)).collect::<Value>()),
            ("named", named_json(&shown.named)),
            ("run_id", all.run_id.as_str().into()),
            ("total", all.total.into()),
            ("not_run", if not_run.is_empty() { Value::Null } else { by_package(&not_run) }),
        ];
        let changes = text::changes_line(all).filter(|_| self.cursor == 0);
        let notes = changes.into_iter().chain(self.lost(&shown));
        let answer = ToolAnswer::with_own_headline(self.text(&shown, detail), members).with_notes(notes);
        ToolAnswer { next: self.next(&shown), ..answer }
    }
}

fn listed(entry: &FailureEntry) -> Failure {
    Failure {
        nodeid: entry.name.clone(),
        file: entry.file.clone(),
        line: entry.line,
        message: entry.message.clone(),
        expected: entry.expected.clone(),
        actual: entry.actual.clone(),
        ..Failure::default()
    }
}

fn clip_stack(hung: &HungTest, detail: &Detail) -> HungTest {
    let stack: Vec<&str> = hung.stack.lines().take(detail.stack_frames).collect();
    HungTest { test: hung.test.clone(), file: hung.file.clone(), line: hung.line, stack: stack.join("\n") }
}

fn next_call(answer: &LastTestFailuresResponse) -> Option<String> {
    match answer {
        answer if answer.total > 0 || !answer.not_run.is_empty() => Some("run_failing_tests after a fix".to_owned()),
        answer if answer.outcome() == Outcome::Passed => None,
        _ => Some(format!("{} reads the output of that run", output(&answer.run_id, Stream::Stdout))),
    }
}

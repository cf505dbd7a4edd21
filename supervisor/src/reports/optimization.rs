//! The plan of what to improve, as Markdown: broken, flaky, slow, uncovered, never-failing and duplicated tests, each with the
//! next command. Every line rests on a record; where there is none, the plan says what is not known.

use super::budget::cut;
use super::entries::{Entry, Subject, entries, headline};
use super::parallelism::{Estimate, timed_tests};
use super::{ReportContext, ReportInput};
use proctor_core::bounds::NEVER_FAILING_RESULTS_MIN;
use proctor_core::human_units::first_names;
use proctor_core::repetition::FlakyInRun;
use proctor_core::report::Report;
use proctor_core::shell_word::shell_word;
use proctor_core::test_case::{TestCase, TestId};
use proctor_proto::printable::line;
use proctor_proto::test_times::parts_in_brackets;
use std::fmt::Write as _;

/// Items of a section. Nobody improves more at once.
const ITEMS_MAX: usize = 20;

/// Bytes of a name or message.
const TEXT_BYTES: usize = 300;

/// Bytes of a test's name in a command; a longer one is selected by its file.
const NAME_BYTES: usize = 1_024;

/// A test is slow if it takes this part of the time of all tests.
const SLOW_PART: f64 = 0.05;

/// And at least this long, in seconds.
const SLOW_S: f64 = 0.5;

/// Bytes of the sentence about what is left out.
const LEFT_OUT_BYTES: usize = 200;

/// The document. Every section has few items, so that only names of many KiB bring it to its bound.
pub(super) fn render(input: ReportInput<'_>, bytes_max: usize) -> String {
    let ReportInput { run_id, report, context } = input;
    let run = if run_id.is_empty() { String::new() } else { format!(" Run {}.", code(run_id)) };
    let mut plan = format!("# Optimization plan\n\nLast run: {}.{run}\n", prose(&headline(report)));
    broken(&mut plan, report);
    flaky(&mut plan, report, context);
    slow(&mut plan, report, context);
    uncovered(&mut plan, context);
    never_failing(&mut plan, context);
    duplicated(&mut plan, context);
    if plan.len() > bytes_max {
        let end = cut(&plan, bytes_max - LEFT_OUT_BYTES).rfind('\n').unwrap_or(0);
        let left_out = plan.len() - end;
        plan.truncate(end);
        let _ = write!(plan, "\n\nleft out, as there is no room for more: the last {left_out} bytes of the plan\n");
    }
    plan
}

fn section(plan: &mut String, title: &str, count: u64, none: &str) {
    let _ = write!(plan, "\n## {title} ({count})\n\n");
    if count == 0 {
        let _ = writeln!(plan, "{none}");
    }
}

fn unknown(plan: &mut String, title: &str, why: &str) {
    let _ = write!(plan, "\n## {title}\n\nNot known: {why}\n");
}

fn item(plan: &mut String, text: &str, next: &str) {
    let _ = writeln!(plan, "- {text}\n  Next: {}", code(next));
}

fn more(plan: &mut String, left_out: u64, next: &str) {
    if left_out > 0 {
        let _ = writeln!(plan, "- … and {left_out} more\n  Next: {}", code(next));
    }
}

fn broken(plan: &mut String, report: &Report) {
    let all = entries(report);
    let failing: Vec<&Entry<'_>> = all.iter().filter(|entry| entry.is_own_failure()).collect();
    let total = failing.len() as u64 + report.own_failures_left_out() + report.truncated.collectors;
    section(plan, "Broken", total, "Nothing failed in the last run.");
    for entry in failing.iter().take(ITEMS_MAX) {
        let mut text = format!("{} {}", code(cut(entry.suite, TEXT_BYTES)), code(cut(&entry.name, TEXT_BYTES)));
        if let Some(file) = entry.file {
            let number = entry.line.map_or_else(String::new, |number| format!(":{number}"));
            let _ = write!(text, " at {}", code(&format!("{}{number}", cut(file, TEXT_BYTES))));
        }
        let message = entry.message.lines().next().unwrap_or_default();
        if !message.is_empty() {
            let _ = write!(text, ": {}", prose(cut(message, TEXT_BYTES)));
        }
        for mark in entry.marks() {
            let _ = write!(text, " ({})", prose(&mark));
        }
        let next = match entry.subject {
            Subject::Test(test) => run_test(&test.nodeid),
            Subject::Run => "proctor report".to_owned(),
            Subject::Finding(finding) => format!("proctor check {}", shell_word(&finding.file)),
            Subject::Checker => "proctor check".to_owned(),
            _ => "proctor analyze".to_owned(),
        };
        item(plan, &text, &next);
    }
    more(plan, total - failing.len().min(ITEMS_MAX) as u64, "proctor run --failed");
}

fn flaky(plan: &mut String, report: &Report, context: &ReportContext) {
    let known = context.history.as_ref().map_or(&[][..], |history| &history.flaky);
    // Of a run without a history, or whose files changed meanwhile, what it showed in itself.
    let in_run = report.repetitions.iter().flat_map(|repetitions| &repetitions.flaky);
    let in_run: Vec<&FlakyInRun> = in_run.filter(|flaky| known.iter().all(|known| known.test != flaky.test)).collect();
    if context.history.is_none() && in_run.is_empty() {
        return unknown(plan, "Flaky", "there is no history of this workspace.");
    }
    let none = "No test passed and failed on the same files, command and environment.";
    let total = known.len() + in_run.len();
    section(plan, "Flaky", total as u64, none);
    for flaky in in_run.iter().take(ITEMS_MAX) {
        let (failures, executions, rate) = (flaky.failures, flaky.executions, flaky.rate);
        let text = format!("{} failed {failures} of {executions} executions of this run ({rate})", test(&flaky.test));
        item(plan, &text, &hunt(&flaky.test));
    }
    for flaky in known.iter().take(ITEMS_MAX.saturating_sub(in_run.len())) {
        let (rate, percent) = (flaky.rate, |part: f64| format!("{:.0} %", part * 100.0));
        let text = format!(
            "{} failed {} of {} runs on equal files (95 % interval of the rate: {} to {})",
            test(&flaky.test),
            flaky.failures,
            flaky.runs,
            percent(rate.low),
            percent(rate.high)
        );
        item(plan, &text, &hunt(&flaky.test));
    }
    more(plan, total.saturating_sub(ITEMS_MAX) as u64, "proctor history --flaky");
}

fn slow(plan: &mut String, report: &Report, context: &ReportContext) {
    let timed = timed_tests(report);
    let all_s: f64 = timed.iter().map(|(_, seconds)| seconds).sum();
    let is_slow = |seconds: f64| seconds >= SLOW_S && seconds >= SLOW_PART * all_s;
    let mut slowest: Vec<_> = timed.iter().filter(|(_, seconds)| is_slow(*seconds)).collect();
    slowest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let slower = context.history.as_ref().map_or(&[][..], |history| &history.slow);
    let count = (slower.len() + slowest.len()) as u64;
    section(
        plan,
        "Slow",
        count,
        "No test became slower, and none takes 5 % of the time of all tests and half a second.",
    );
    times(plan, report, &timed, all_s);
    for (id, slowdown) in slower.iter().take(ITEMS_MAX) {
        let (before, now) = (slowdown.before_us / 1e6, slowdown.now_us / 1e6);
        let (earlier, factor) = (slowdown.earlier_runs, slowdown.factor());
        let text = format!(
            "{} became slower: {now:.2} s in its latest three runs, {before:.2} s in {earlier} before ({factor:.1} times)",
            test(id)
        );
        item(plan, &text, &trend(id));
    }
    for (case, seconds) in slowest.iter().take(ITEMS_MAX) {
        let part = 100.0 * seconds / all_s.max(f64::MIN_POSITIVE);
        let parts = parts_in_brackets(case.setup_s, case.cpu_s);
        let text = format!(
            "{} takes {seconds:.2} s{parts}, {part:.0} % of the {all_s:.2} s of all tests together",
            test(&case.id())
        );
        item(plan, &text, &run_test(&case.nodeid));
    }
    more(plan, count.saturating_sub(2 * ITEMS_MAX as u64), "proctor history --slow");
}

/// What the times of the run consist of, and what running tests at the same time would give. Nothing for a run whose times do
/// not add up to it.
fn times(plan: &mut String, report: &Report, timed: &[(&TestCase, f64)], all_s: f64) {
    let is_once = report.repetitions.is_none() && !report.partial && report.truncated.tests == 0;
    if !is_once || all_s < SLOW_S || timed.len() < 2 {
        return;
    }
    let longest_s = timed.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let cpu_s = report.resources.cpu_user_s + report.resources.cpu_system_s;
    let _ = writeln!(
        plan,
        "The run took {:.2} s and {cpu_s:.2} s of processor time; its tests took {all_s:.2} s together, the longest \
         {longest_s:.2} s.\n",
        report.duration_s,
    );
    let part = |what: fn(&TestCase) -> Option<f64>| {
        let known: Vec<(f64, f64)> = timed.iter().filter_map(|(test, seconds)| Some((what(test)?, *seconds))).collect();
        let sums = known.iter().fold((0.0, 0.0), |(part, all), (one, of)| (part + one, all + of));
        (known.len() > 1 && sums.1 > 0.0).then_some((known.len(), sums.0, sums.1))
    };
    if let Some((count, setup_s, of_s)) = part(|test| test.setup_s) {
        let percent = 100.0 * setup_s / of_s;
        let _ = writeln!(
            plan,
            "Set-up and tear-down took {setup_s:.2} s ({percent:.0} %) of the {of_s:.2} s of {count} tests.\n"
        );
    }
    if let Some((count, cpu_s, of_s)) = part(|test| test.cpu_s) {
        let _ = writeln!(
            plan,
            "In the {of_s:.2} s of {count} tests their own process used {cpu_s:.2} s of processor time. The rest it waited: for \
             a processor, a child process, a disk, the network or a timer.\n"
        );
    }
    if let Some(Estimate { at_a_time, seconds, longest: (name, longest_s), by_file, needs }) = Estimate::new(report) {
        let what = if by_file { "files" } else { "tests" };
        let needs = needs.map_or_else(String::new, |needs| format!(", which needs {needs},"));
        let longest = code(cut(name, TEXT_BYTES));
        let _ = writeln!(
            plan,
            "One after the other the tests take {all_s:.2} s. With {}{needs} they would take about {seconds:.2} s, and not less \
             than the {longest_s:.2} s of {longest}. This is an estimate from the times of this run: {at_a_time} {what} at a \
             time, the longest first, if each keeps its time and none needs what another one leaves; start and build of the \
             runner are left out.\n",
            code(&format!("proctor run --parallel {at_a_time}")),
        );
    }
}

fn uncovered(plan: &mut String, context: &ReportContext) {
    let Some(coverage) = &context.coverage else {
        let why = "no run of this workspace has measured which tests execute which lines (`proctor run --coverage auto`, where the \
                   runner can).";
        return unknown(plan, "Uncovered", why);
    };
    let none = "Some test executes a line of each source file that was compared.";
    if coverage.uncovered_more {
        let found = coverage.uncovered_found;
        let _ =
            write!(plan, "\n## Uncovered (at least {found})\n\nThere are more source files than were compared.\n\n");
    } else {
        section(plan, "Uncovered", coverage.uncovered_found, none);
    }
    for file in &coverage.uncovered {
        let text = format!("{}: no measured test executes a line of it", code(cut(file, TEXT_BYTES)));
        item(plan, &text, &format!("proctor covering {}", shell_word(file)));
    }
    more(plan, coverage.uncovered_found.saturating_sub(coverage.uncovered.len() as u64), "proctor run");
}

fn never_failing(plan: &mut String, context: &ReportContext) {
    let Some(history) = &context.history else {
        return unknown(plan, "Never failing", "there is no history of this workspace.");
    };
    let none = format!("No test has {NEVER_FAILING_RESULTS_MIN} recorded results that all passed.");
    section(plan, "Never failing", history.never_failing_total, &none);
    if history.never_failing_total > 0 {
        plan.push_str("They caught nothing in this history, which is no fault by itself. Break what they test, and see that they fail.\n\n");
    }
    for never in history.never_failing.iter().take(ITEMS_MAX / 2) {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a test are far below 2^52")]
        let time = never.duration_us.map_or_else(String::new, |us| format!(", {:.2} s the last time", us as f64 / 1e6));
        let text = format!("{} passed in all of its {} recorded results{time}", test(&never.test), never.results);
        item(plan, &text, &trend(&never.test));
    }
    let shown = history.never_failing.len().min(ITEMS_MAX / 2) as u64;
    more(plan, history.never_failing_total - shown, "proctor history");
}

fn duplicated(plan: &mut String, context: &ReportContext) {
    let Some(coverage) = &context.coverage else {
        return unknown(plan, "Duplicated", "no run of this workspace has measured which tests execute which lines.");
    };
    let Some((groups, total)) = &coverage.same_lines else {
        let why = "the lines of these runs are known by package or file, not by test.";
        return unknown(plan, "Duplicated", why);
    };
    let none = "No two tests that were measured one by one execute exactly the same lines.";
    section(plan, "Duplicated", *total, none);
    for tests in groups {
        let names = first_names(tests.iter().map(test), 5);
        let text = format!("{} tests execute exactly the same lines: {names}", tests.len());
        item(plan, &text, &tests.first().map_or_else(|| "proctor list".to_owned(), trend));
    }
    let left_out = total.saturating_sub(groups.len() as u64);
    more(plan, left_out, "proctor list");
}

fn test(id: &TestId) -> String {
    format!("{} {}", code(cut(&id.package, TEXT_BYTES)), code(cut(&id.name, TEXT_BYTES)))
}

fn run_test(nodeid: &str) -> String {
    if nodeid.len() > NAME_BYTES || nodeid.chars().any(char::is_control) || nodeid.trim().is_empty() {
        return "proctor run --failed".to_owned();
    }
    format!("proctor run --test={}", shell_word(nodeid))
}

/// The search for the cause of a flaky test.
fn hunt(id: &TestId) -> String {
    let name = id.full_name();
    match name.len() > NAME_BYTES || name.chars().any(char::is_control) || name.starts_with('-') {
        true => "proctor history --flaky".to_owned(),
        false => format!("proctor flaky {}", shell_word(&name)),
    }
}

fn trend(id: &TestId) -> String {
    let name = id.full_name();
    match name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        true => "proctor history".to_owned(),
        false => format!("proctor history --test={}", shell_word(&name)),
    }
}

/// Text as code: between more backticks than it has in a row.
fn code(text: &str) -> String {
    let text = line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Text that is no Markdown and no HTML.
fn prose(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in line(text).chars() {
        if "\\`*_[]<>|~&".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_whatever_the_test_is_named() {
        assert_eq!(run_test("a.py::test_b"), "proctor run --test=a.py::test_b");
        assert_eq!(run_test("a.py::t[x y]'; rm -rf /"), r"proctor run --test='a.py::t[x y]'\''; rm -rf /'");
        assert_eq!(run_test("a\nb"), "proctor run --failed");
        assert_eq!(code("a ``b` c"), "```a ``b` c```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(prose("<script>*a*"), r"\<script\>\*a\*");
    }
}

//! Prints the demo's output. Colours are removed when stdout is no terminal.

use proctor_proto::text::outcome_name;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Isolation, Limits, Report, RunEvent, TestCase, TestOutcome};

const MIB: u64 = 1024 * 1024;

/// A heading with the name of a section and its title.
pub(crate) fn heading(name: &str, about: &str) {
    anstream::println!("\n\x1b[1m{name}\x1b[0m  \x1b[2m{about}\x1b[0m");
}

/// One aligned line with a label and a text.
pub(crate) fn line(label: &str, text: &str) {
    anstream::println!("  \x1b[2m{label:<11}\x1b[0m{text}");
}

/// The result of one of the demo's own checks.
pub(crate) fn finding(good: bool, text: &str) {
    let mark = if good { "\x1b[32m✓\x1b[0m" } else { "\x1b[31m✗\x1b[0m" };
    anstream::println!("  {mark} {text}");
}

/// A text of several lines, indented.
pub(crate) fn block(text: &str) {
    for line in text.trim_end().lines() {
        anstream::println!("{}", format!("    {line}").trim_end());
    }
}

/// Progress of a run: one line per finished test.
pub(crate) fn progress(event: &RunEvent) {
    let at = f64::from(u32::try_from(event.at_ms).unwrap_or(u32::MAX)) / 1_000.0;
    match &event.event {
        Some(Event::Started(_)) => {
            anstream::println!("    \x1b[2m{at:>6.2}s … the sandbox is up, the runner builds\x1b[0m")
        }
        Some(Event::TestFinished(test)) => finished(at, test),
        Some(Event::Collector(collector)) => {
            anstream::println!("    \x1b[2m{at:>6.2}s\x1b[0m \x1b[31m✗\x1b[0m {} does not build", collector.nodeid);
        }
        _ => {}
    }
}

fn finished(at: f64, test: &TestCase) {
    let (mark, note) = match test.outcome() {
        TestOutcome::Passed | TestOutcome::Xfailed => ("\x1b[32m✓\x1b[0m", ""),
        TestOutcome::Skipped => ("\x1b[33m-\x1b[0m", " (skipped)"),
        TestOutcome::Error => ("\x1b[31m✗\x1b[0m", " (cut off)"),
        _ => ("\x1b[31m✗\x1b[0m", ""),
    };
    anstream::println!("    \x1b[2m{at:>6.2}s\x1b[0m {mark} {}{note}", test.nodeid);
}

/// The result of a run and its resource usage.
pub(crate) fn report(report: &Report) {
    let summary = report.summary.unwrap_or_default();
    let counts = [
        (summary.passed, "passed"),
        (summary.failed, "failed"),
        (summary.error, "cut off"),
        (summary.skipped, "skipped"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let outcome = outcome_name(report.outcome()).replace('_', " ");
    line("outcome", &format!("\x1b[1m{outcome}\x1b[0m, exit {} ({})", report.exit_code, counts.join(", ")));
    line("resources", &resources(report));
    let evidence = report.evidence.clone().unwrap_or_default();
    for hit in &evidence.limit_hits {
        let (peak, max) = (amount(&hit.limit, hit.peak), amount(&hit.limit, hit.max));
        line("limit hit", &format!("{}: {peak} of {max}", hit.limit));
    }
    for test in &evidence.running {
        line("running", &format!("{}/{} when it was cut off", test.package, test.name));
    }
}

fn resources(report: &Report) -> String {
    let used = report.resources.unwrap_or_default();
    let cpu = used.cpu_user_s + used.cpu_system_s;
    let mut text = format!("{:.2} s wall, {cpu:.2} s cpu", used.wall_s);
    if let Some(bytes) = used.memory_peak_bytes {
        text.push_str(&format!(", {} memory peak", mib(bytes)));
    }
    if let Some(pids) = used.pids_peak {
        text.push_str(&format!(", {pids} processes and threads at once"));
    }
    text.push_str(&format!(", {:.1} ms to set up", used.setup_s * 1_000.0));
    text
}

/// The isolation layers and limits of a run.
pub(crate) fn isolation(isolation: &Isolation, limits: &Limits) {
    line("layers", &isolation.layers.join(", "));
    for limit in &isolation.limits {
        line("limit", &in_force(&limit.limit, limit.max, &limit.by));
    }
    if !isolation.limits.iter().any(|limit| limit.limit == "timeout") {
        line("limit", &in_force("timeout", limits.wall_ms, "supervisor"));
    }
    for missing in &isolation.missing {
        line("missing", &format!("{}: {}; {}", missing.name, missing.reason, missing.remedy));
    }
}

fn in_force(limit: &str, max: u64, by: &str) -> String {
    format!("{limit:<9}{:>12}   by {by}", amount(limit, max))
}

// In the unit of the limit's field in `Limits`.
fn amount(limit: &str, value: u64) -> String {
    match limit {
        "memory" | "log" | "tmp" => mib(value),
        "cpus" => thousandths(value, ""),
        "timeout" => thousandths(value, " s"),
        _ => value.to_string(),
    }
}

fn thousandths(value: u64, unit: &str) -> String {
    match value % 1_000 {
        0 => format!("{}{unit}", value / 1_000),
        rest => format!("{}.{rest:03}{unit}", value / 1_000),
    }
}

fn mib(bytes: u64) -> String {
    let tenths = bytes * 10 / MIB;
    match tenths % 10 {
        0 => format!("{} MiB", tenths / 10),
        rest => format!("{}.{rest} MiB", tenths / 10),
    }
}

//! Parts of the text of an ended run beside its failures.

use super::next_call;
use crate::run_uri;
use proctor_proto::printable::{block, line};
use proctor_proto::v1::{Isolation, Limits, Outcome, Report, Resources, Stream, TestCase, TestOutcome};

/// The end of a stream as shown: without colours, and without empty lines around it.
pub(crate) fn tail(text: &str) -> String {
    block(text).trim_matches('\n').trim_end().to_owned()
}

/// The ends of the streams, each under its heading.
pub(crate) fn streams(tails: &[(&'static str, String)]) -> String {
    let shown = tails.iter().filter(|(_, tail)| !tail.is_empty());
    shown.map(|(name, tail)| format!("--- {} (end) ---\n{tail}\n", name.trim_end_matches("_tail"))).collect()
}

/// What a caller sees only if it asks for it: passed tests, resources, isolation.
/// `others_max`: number of tests listed that did not fail, as many as the structured content lists.
pub(crate) fn details(report: &Report, others_max: usize) -> String {
    let others = report.tests.iter().filter(|test| !super::failure::has_failed(test));
    let left_out = others.clone().count().saturating_sub(others_max) as u64 + report.tests_left_out;
    let left_out = (left_out > 0 && others_max > 0).then(|| format!("{left_out} more tests are not listed\n"));
    let others = others.take(others_max).map(test).chain(left_out);
    let used = report.resources.as_ref().map(|used| resources(used) + "\n");
    let used = report.limits.as_ref().map(|limits| describe_limits(limits) + "\n").into_iter().chain(used);
    let layers = report.isolation.as_ref().map(|layers| isolation(layers) + "\n");
    others.chain(used).chain(layers).collect()
}

fn test(test: &TestCase) -> String {
    let outcome = test.outcome().as_str_name().trim_start_matches("TEST_OUTCOME_").to_ascii_lowercase();
    let why = test.message.as_ref().filter(|_| test.outcome() != TestOutcome::Passed);
    let why = why.map(|why| format!(": {}", line(why))).unwrap_or_default();
    format!("{outcome} {}{why}\n", line(&test.nodeid))
}

// The limits of a run, in one line; a limit of zero is none.
fn describe_limits(limits: &Limits) -> String {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let parts = [
        (limits.wall_ms, format!("{}s wall", limits.wall_ms / 1_000)),
        (limits.memory_bytes, format!("{} memory", mib(limits.memory_bytes))),
        (limits.cpu_millis.into(), format!("{:.2} processors", f64::from(limits.cpu_millis) / 1_000.0)),
        (limits.pids.into(), format!("{} processes", limits.pids)),
        (limits.disk_bytes, format!("{} more on disk", mib(limits.disk_bytes))),
        (limits.tmp_bytes, format!("{} in /tmp", mib(limits.tmp_bytes))),
        (limits.log_bytes, format!("{} of output", mib(limits.log_bytes))),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(value, _)| *value > 0).map(|(_, text)| text).collect();
    format!("limits: {}", parts.join(", "))
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

/// The isolation layers that were in force, and those that were not, in one line.
pub(crate) fn isolation(isolation: &Isolation) -> String {
    let layers = match isolation.layers.as_slice() {
        [] => "no layer was in force".to_owned(),
        layers => layers.join(", "),
    };
    let missing: Vec<&str> = isolation.missing.iter().map(|missing| missing.name.as_str()).collect();
    match missing.as_slice() {
        [] => format!("sandbox: {layers}"),
        missing => format!("sandbox: {layers}; not in force on this host: {} (`proctor doctor`)", missing.join(", ")),
    }
}

/// That the run left files, naming the first `names_max`.
pub(crate) fn artifacts(report: &Report, run_id: &str, names_max: usize) -> Option<String> {
    let first = report.artifacts.first()?;
    let names: Vec<_> = report.artifacts.iter().take(names_max).map(|artifact| line(&artifact.name)).collect();
    let more = report.artifacts.len().saturating_sub(names_max);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let call = next_call::artifact(&first.name);
    let uri = run_uri::artifact_uri(run_id, &first.name);
    Some(format!("artifacts: {}{more}; {call} shows one, which is the resource {uri}", names.join(", ")))
}

/// The call that usually follows.
pub(crate) fn next(report: &Report, run_id: &str) -> Option<String> {
    let fixed = match report.outcome() {
        Outcome::Passed if report.affected.as_ref().is_some_and(|affected| affected.left_out > 0) => {
            "run_tests runs what was left out, too"
        }
        Outcome::Passed => return None,
        Outcome::Failed | Outcome::BuildFailed | Outcome::CollectionFailed if report.structured => {
            "run_failing_tests after a fix"
        }
        Outcome::Failed | Outcome::BuildFailed | Outcome::CollectionFailed => {
            let output = next_call::output(run_id, Stream::Stdout);
            return Some(format!("run_tests after a fix; {output} reads the output page by page"));
        }
        Outcome::NoTests => "list_tests shows what there is",
        Outcome::TimedOut => {
            return Some(next_call::run_with_more_time(report.limits.map_or(0, |limits| limits.wall_ms)));
        }
        Outcome::OutOfMemory | Outcome::DiskFull | Outcome::PidsExhausted | Outcome::OutputFlood => {
            "run_tests with tests or files finds the test that reaches the limit"
        }
        Outcome::RunnerMissing => "install the runner on the build host, or name another framework",
        Outcome::Cancelled | Outcome::WorkerLost | Outcome::Unspecified => "run_tests starts a new run",
        Outcome::Crashed => {
            return Some(format!("{} reads what the runner wrote", next_call::output(run_id, Stream::Stderr)));
        }
    };
    Some(fixed.to_owned())
}

//! What the sandbox caused, by the evidence of the run: why it was killed, limits that the kernel enforced, layers in force. Each cause
//! comes with the setting that changes it.

use super::analyzed_failure::AnalyzedFailure;
use super::classify::Classification;
use super::clusters::Cluster;
use super::pattern_kind::PatternKind;
use super::patterns::NOT_DOWNLOADED;
use super::root_cause::FailureCount;
use super::{Confidence, FailureLocation, RootCause, WorkspaceFacts};
use crate::human_units::format_bytes;
use crate::isolation::{Layer, Network};
use crate::limits::LimitKind;
use crate::outcome::{KillReason, Outcome};
use crate::report::Report;
use crate::test_case::TestId;

/// Directories of the system that the sandbox shows as they are. Of `/etc` it has a few files, and `/var` and `/run` are empty.
const SYSTEM: [&str; 8] = ["/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/dev/", "/proc/", "/sys/"];

/// A failure that the sandbox may have caused.
struct Suspect<'a> {
    class: &'a Classification,
    /// What the pattern captured in this failure's own words.
    subject: Option<&'a str>,
    failed: AnalyzedFailure<'a>,
}

/// Causes that lie in the sandbox, the most certain first.
pub(super) fn causes(
    report: &Report,
    failed: &[AnalyzedFailure<'_>],
    clusters: &[Cluster],
    facts: &WorkspaceFacts,
    count: FailureCount,
) -> Vec<RootCause> {
    let suspects: Vec<Suspect<'_>> = clusters
        .iter()
        .flat_map(|cluster| {
            let members = cluster.members.iter().zip(&cluster.subjects);
            members.map(|(at, subject)| Suspect {
                class: &cluster.class,
                subject: subject.as_deref(),
                failed: failed[*at],
            })
        })
        .collect();
    let in_force = |layer| report.isolation.layers.contains(&layer);
    let has_no_network = report.isolation.network == Network::None && in_force(Layer::NetNamespace);
    let network = has_no_network.then(|| network_missing(&suspects, count)).flatten();
    let read_only = in_force(Layer::PivotRoot).then(|| read_only(&suspects, count)).flatten();
    let hidden = in_force(Layer::PivotRoot).then(|| file_hidden(&suspects, facts, count)).flatten();
    let denied = in_force(Layer::Landlock).then(|| write_denied(&suspects, facts, count)).flatten();
    let unset = in_force(Layer::CleanEnvironment).then(|| variable_unset(&suspects, count)).flatten();
    limits_reached(report)
        .into_iter()
        .chain(network)
        .chain(read_only)
        .chain(hidden)
        .chain(denied)
        .chain(unset)
        .collect()
}

// The limits of which the kernel or proctor recorded that the run reached them, those that ended it first.
fn limits_reached(report: &Report) -> Vec<RootCause> {
    let evidence = &report.evidence;
    let mut found = Vec::new();
    found.extend(evidence.killed.and_then(|reason| killed(report, reason)));
    let is_killed_by = |limit: LimitKind| match evidence.killed {
        Some(KillReason::OutOfMemory | KillReason::KernelMemory) => limit == LimitKind::Memory,
        Some(KillReason::DiskFull) => limit == LimitKind::Disk,
        _ => false,
    };
    // A run that ended well in spite of a limit has no outcome of it.
    let holds = |outcome| report.outcome == outcome || evidence.held.contains(&outcome);
    for hit in evidence.limit_hits.iter().filter(|hit| hit.count > 0 && !is_killed_by(hit.limit)) {
        let times = |event: &str| match hit.count {
            1 => format!("once, the kernel {event}"),
            count => format!("{count} times, the kernel {event}"),
        };
        let (outcome, kind, what, change) = match hit.limit {
            LimitKind::Memory => (
                Outcome::OutOfMemory,
                PatternKind::OutOfMemory,
                format!("memory limit of {}: {}", format_bytes(hit.max), times("ended a process or refused it memory")),
                larger("memory"),
            ),
            LimitKind::Pids => (
                Outcome::PidsExhausted,
                PatternKind::PidsExhausted,
                format!("limit of {} processes and threads: {}", hit.max, times("refused a further one")),
                larger("pids"),
            ),
            LimitKind::Tmp => (
                Outcome::DiskFull,
                PatternKind::DiskFull,
                format!("limit of {} in /tmp", format_bytes(hit.max)),
                "write less to /tmp; if the tests need more: a larger `tmp` limit in the host file".to_owned(),
            ),
            LimitKind::Disk => (
                Outcome::DiskFull,
                PatternKind::DiskFull,
                format!("limit of {} more on disk", format_bytes(hit.max)),
                larger("disk"),
            ),
            LimitKind::Cpu | LimitKind::Wall | LimitKind::Log | LimitKind::Writes => continue,
        };
        if holds(outcome) {
            found.push(of_limit(report, kind, format!("the run reached its {what}"), change));
        }
    }
    found
}

fn larger(name: &str) -> String {
    format!(
        "if the tests need more: a larger `{name}` in the request (`proctor run --{name}`), up to what the tenant may have"
    )
}

fn killed(report: &Report, reason: KillReason) -> Option<RootCause> {
    let limits = &report.limits;
    let (kind, what, change) = match reason {
        KillReason::Deadline => {
            let time = format!("its time limit of {} s", limits.wall_ms_max as f64 / 1000.0);
            (PatternKind::Timeout, time, larger("timeout"))
        }
        KillReason::KernelMemory => (
            PatternKind::OutOfMemory,
            "the kernel memory that locks and sockets may take".to_owned(),
            "have fewer sockets open and fewer files locked at a time".to_owned(),
        ),
        KillReason::OutOfMemory => (
            PatternKind::OutOfMemory,
            format!("its memory limit of {}", format_bytes(limits.memory_bytes_max)),
            larger("memory"),
        ),
        KillReason::DiskFull => (
            PatternKind::DiskFull,
            format!("its limit of {} more on disk", format_bytes(limits.disk_bytes_max)),
            larger("disk"),
        ),
        KillReason::OutputFlood => (
            PatternKind::OutputFlood,
            format!("its limit of {} of output", format_bytes(limits.log_bytes_max)),
            "print less; if the tests need more: a larger `log` limit in the host file".to_owned(),
        ),
        KillReason::Cancelled | KillReason::Abandoned | KillReason::Closed | KillReason::HostFailed => return None,
    };
    Some(of_limit(report, kind, format!("the sandbox stopped the run at {what}"), change))
}

// A limit, with the test that ran when the run was cut off.
fn of_limit(report: &Report, kind: PatternKind, what: String, change: String) -> RootCause {
    let hung = report.evidence.hung.first();
    let running = &report.evidence.running;
    let test = hung.map(|hung| &hung.test).or(running.first());
    let of_report = |test: &TestId| {
        let mut tests = report.tests.iter();
        tests.find(|one| one.package == test.package && one.name == test.name).map(|one| one.nodeid.clone())
    };
    let location = FailureLocation {
        test: test.map(|test| of_report(test).unwrap_or_else(|| test.name.clone())).unwrap_or_default(),
        file: hung.and_then(|hung| hung.file.clone()),
        line: hung.and_then(|hung| hung.line),
    };
    let others = match running.len().saturating_sub(1) {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        count => format!(" and {count} others"),
    };
    let in_test = match (test, location.file_and_line()) {
        (Some(test), Some(at)) if others.is_empty() => format!(" while {} ran, which was at {at}", test.name),
        (Some(test), Some(at)) => format!(" while {} (at {at}){others} ran", test.name),
        (Some(test), None) => format!(" while {}{others} ran", test.name),
        (None, _) => String::new(),
    };
    RootCause {
        kind: Some(kind),
        statement: format!("{what}{in_test}"),
        confidence: Confidence::Certain,
        evidence: Some(location).filter(|location| !location.test.is_empty()),
        failures: 0,
        suggestion: Some(change),
        suggestion_confidence: Confidence::Certain,
        is_sandbox: true,
    }
}

const LOCAL_STAND_IN: &str = "replace the host by a local stand-in, or run with the network of the host (`proctor run \
     --network host`), if the tenant may";

// A cause of `suspects`, as sure as the least sure of their kinds and `most`.
fn of_suspects(
    suspects: &[&Suspect<'_>],
    statement: impl FnOnce(usize) -> String,
    suggestion: &str,
    most: Confidence,
) -> Option<RootCause> {
    let first = suspects.first()?;
    let confidence = suspects.iter().map(|suspect| suspect.class.confidence).min()?.min(most);
    Some(RootCause {
        kind: Some(first.class.kind),
        statement: statement(suspects.len()),
        confidence,
        evidence: Some(first.failed.location()),
        failures: suspects.len() as u64,
        suggestion: Some(suggestion.to_owned()),
        suggestion_confidence: confidence,
        is_sandbox: true,
    })
}

fn of_kind<'a>(suspects: &'a [Suspect<'a>], kind: PatternKind) -> impl Iterator<Item = &'a Suspect<'a>> {
    suspects.iter().filter(move |suspect| suspect.class.kind == kind)
}

// The missing network is a fact; that it is the reason of a failure is as sure as the failure's kind.
fn network_missing(suspects: &[Suspect<'_>], count: FailureCount) -> Option<RootCause> {
    let not_downloaded =
        |suspect: &&Suspect<'_>| suspect.failed.message.lines().any(|line| line.starts_with(NOT_DOWNLOADED));
    let downloads: Vec<&Suspect<'_>> =
        of_kind(suspects, PatternKind::MissingDependency).filter(not_downloaded).collect();
    let hosts: Vec<&Suspect<'_>> = of_kind(suspects, PatternKind::NetworkRefused).collect();
    let (of, what, suggestion) = if downloads.is_empty() {
        (hosts, "could not reach a host", LOCAL_STAND_IN)
    } else {
        (downloads, "need what was not downloaded before", "run it once with `--network host`, if the tenant may")
    };
    let statement = |of: usize| format!("the sandbox gives the run no network, and {} {what}", count.part(of));
    // A refused connection or unknown host of `lo` itself reads the same.
    of_suspects(&of, statement, suggestion, Confidence::Certain)
}

fn read_only(suspects: &[Suspect<'_>], count: FailureCount) -> Option<RootCause> {
    let says_so = |suspect: &&Suspect<'_>| {
        suspect.failed.message.to_ascii_lowercase().contains("read-only file system")
            || suspect.failed.message.contains("ReadOnlyFilesystem")
    };
    let of: Vec<&Suspect<'_>> = of_kind(suspects, PatternKind::PermissionDenied).filter(says_so).collect();
    let statement = |of: usize| {
        format!("the sandbox mounts system directories read-only, and {} tried to write to one", count.part(of))
    };
    of_suspects(&of, statement, "write below the workspace or the temporary directory", Confidence::Likely)
}

// Whether the file exists on the host is not known, nor told.
fn file_hidden(suspects: &[Suspect<'_>], facts: &WorkspaceFacts, count: FailureCount) -> Option<RootCause> {
    let path = |suspect: &Suspect<'_>| absolute_path(suspect.subject?).map(str::to_owned);
    let outside = |suspect: &&Suspect<'_>| path(suspect).is_some_and(|path| is_outside(&path, facts));
    let of: Vec<&Suspect<'_>> = of_kind(suspects, PatternKind::FileNotFound).filter(outside).collect();
    let first = path(of.first()?)?;
    let statement = |of: usize| {
        let files = if of == 1 { format!("finds no file {first}") } else { format!("find no files as {first}") };
        format!(
            "the sandbox shows only the workspace, system directories, toolchains and caches, and {} {files}",
            count.part(of)
        )
    };
    let suggestion = "keep what the tests read in the workspace; if it has to be elsewhere: `toolchains` in the host file \
         lists further directories that runs can read";
    of_suspects(&of, statement, suggestion, Confidence::Possible)
}

fn write_denied(suspects: &[Suspect<'_>], facts: &WorkspaceFacts, count: FailureCount) -> Option<RootCause> {
    let outside = |suspect: &&Suspect<'_>| {
        let path = suspect.failed.message.lines().next().and_then(absolute_path);
        let is_write_error = !suspect.failed.message.to_ascii_lowercase().contains("read-only file system");
        is_write_error
            && path.is_some_and(|path| is_outside(path, facts) || SYSTEM.iter().any(|dir| path.starts_with(dir)))
    };
    let of: Vec<&Suspect<'_>> = of_kind(suspects, PatternKind::PermissionDenied).filter(outside).collect();
    let statement = |of: usize| {
        format!(
            "the sandbox lets the run write only in the workspace, the caches and /tmp, and {} got no access elsewhere",
            count.part(of)
        )
    };
    of_suspects(&of, statement, "write below the workspace or the temporary directory", Confidence::Possible)
}

fn variable_unset(suspects: &[Suspect<'_>], count: FailureCount) -> Option<RootCause> {
    let of: Vec<&Suspect<'_>> = of_kind(suspects, PatternKind::MissingEnvironmentVariable).collect();
    let statement = |of: usize| {
        format!("the sandbox passes on only some variables of the environment, and {} lack one", count.part(of))
    };
    let suggestion = "set it for the run: `env` in the request, `--env NAME=VALUE`, or `environment` in .proctor.yaml";
    let cause = of_suspects(&of, statement, suggestion, Confidence::Possible)?;
    // The failure's own suggestion names the variable.
    let is_suggested = of.iter().all(|suspect| suspect.class.suggestion.is_some());
    Some(RootCause { suggestion: cause.suggestion.filter(|_| !is_suggested), ..cause })
}

// The first absolute path in `text`, as it stands alone or in quotes.
fn absolute_path(text: &str) -> Option<&str> {
    let is_begin = |at: usize| text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "'\"`(:".contains(c));
    let (at, _) = text.match_indices('/').find(|(at, _)| is_begin(*at) && !text[*at + 1..].starts_with('/'))?;
    let path = &text[at..];
    let end = path.find(|c: char| c.is_whitespace() || "'\"`):,".contains(c)).unwrap_or(path.len());
    Some(&path[..end]).filter(|path| path.len() > 1)
}

fn is_outside(path: &str, facts: &WorkspaceFacts) -> bool {
    let is_below = |dir: &str| path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_of_run = is_below("/tmp") || SYSTEM.iter().any(|dir| path.starts_with(dir));
    !facts.root.is_empty() && !is_below(&facts.root) && !is_of_run
}

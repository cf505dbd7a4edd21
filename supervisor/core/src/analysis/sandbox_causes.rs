//! What the sandbox itself caused: limits that were reached, the missing network, read-only directories. Each cause comes with the
//! setting that changes it.

use super::failure_kind::FailureKind;
use super::{Confidence, FailureLocation, RootCause};
use crate::human_units::format_bytes;
use crate::isolation::Network;
use crate::outcome::{KillReason, Outcome};
use crate::report::Report;

/// A failure's kind and place, of those that the sandbox may have caused.
pub(super) struct Suspect<'a> {
    pub(super) kind: FailureKind,
    pub(super) confidence: Confidence,
    pub(super) message: &'a str,
    pub(super) place: FailureLocation,
}

/// Causes that lie in the sandbox, the most certain first.
pub(super) fn causes(report: &Report, suspects: &[Suspect<'_>], failures: usize) -> Vec<RootCause> {
    let limit = limit_reached(report);
    let network = (report.isolation.network == Network::None).then(|| network_missing(suspects, failures)).flatten();
    limit.into_iter().chain(network).chain(read_only(suspects, failures)).collect()
}

fn limit_reached(report: &Report) -> Option<RootCause> {
    let limits = &report.limits;
    let setting = |name: &str| {
        format!(
            "if the tests need more: a larger `{name}` in the request (`proctor run --{name}`), up to what the tenant may have"
        )
    };
    let (kind, what, change) = match report.outcome {
        Outcome::TimedOut => {
            let time = format!("its time limit of {} s", limits.wall_ms_max as f64 / 1000.0);
            (FailureKind::Timeout, time, setting("timeout"))
        }
        Outcome::OutOfMemory if report.evidence.killed == Some(KillReason::KernelMemory) => (
            FailureKind::OutOfMemory,
            "the kernel memory that locks and sockets may take".to_owned(),
            "have fewer sockets open and fewer files locked at a time".to_owned(),
        ),
        Outcome::OutOfMemory => (
            FailureKind::OutOfMemory,
            format!("its memory limit of {}", format_bytes(limits.memory_bytes_max)),
            setting("memory"),
        ),
        Outcome::PidsExhausted => (
            FailureKind::PidsExhausted,
            format!("its limit of {} processes and threads", limits.pids_max),
            setting("pids"),
        ),
        Outcome::DiskFull => (
            FailureKind::DiskFull,
            format!("its limit of {} more on disk", format_bytes(limits.disk_bytes_max)),
            setting("disk"),
        ),
        Outcome::OutputFlood => (
            FailureKind::OutputFlood,
            format!("its limit of {} of output", format_bytes(limits.log_bytes_max)),
            "print less; if the tests need more: a larger `log` limit in the host file".to_owned(),
        ),
        _ => return None,
    };
    let hung = report.evidence.hung.first();
    let running = report.evidence.running.first();
    let test = hung.map(|hung| &hung.test).or(running);
    let place = FailureLocation {
        test: test.map(|test| test.name.clone()).unwrap_or_default(),
        file: hung.and_then(|hung| hung.file.clone()),
        line: hung.and_then(|hung| hung.line),
    };
    let in_test = match (test, place.file_and_line()) {
        (Some(test), Some(at)) => format!(" while {} ran, which hangs at {at}", test.name),
        (Some(test), None) => format!(" while {} ran", test.name),
        (None, _) => String::new(),
    };
    Some(RootCause {
        kind: Some(kind),
        statement: format!("the sandbox stopped the run at {what}{in_test}"),
        confidence: Confidence::Certain,
        evidence: Some(place).filter(|place| !place.test.is_empty()),
        failures: 0,
        suggestion: Some(change),
        is_sandbox: true,
    })
}

const LOCAL_STAND_IN: &str = "replace the host by a local stand-in, or run with the network of the host (`proctor run \
     --network host`), if the tenant may";

// The missing network is a fact; that it is the reason of a failure is as sure as the failure's kind.
fn network_missing(suspects: &[Suspect<'_>], failures: usize) -> Option<RootCause> {
    let not_downloaded = |suspect: &&Suspect<'_>| {
        suspect.kind == FailureKind::MissingDependency && suspect.message.contains("the run has no network")
    };
    let downloads: Vec<&Suspect<'_>> = suspects.iter().filter(not_downloaded).collect();
    let hosts: Vec<&Suspect<'_>> =
        suspects.iter().filter(|suspect| suspect.kind == FailureKind::NetworkRefused).collect();
    let (of, what, suggestion) = if downloads.is_empty() {
        (hosts, "could not reach a host", LOCAL_STAND_IN)
    } else {
        (downloads, "need what was not downloaded before", "run it once with `--network host`, if the tenant may")
    };
    let first = of.first()?;
    Some(RootCause {
        kind: Some(first.kind),
        statement: format!("the sandbox gives the run no network, and {} of {failures} failures {what}", of.len()),
        confidence: of.iter().map(|suspect| suspect.confidence).min()?,
        evidence: Some(first.place.clone()),
        failures: of.len() as u64,
        suggestion: Some(suggestion.to_owned()),
        is_sandbox: true,
    })
}

fn read_only(suspects: &[Suspect<'_>], failures: usize) -> Option<RootCause> {
    let is_read_only = |suspect: &&Suspect<'_>| {
        suspect.kind == FailureKind::PermissionDenied
            && suspect.message.to_ascii_lowercase().contains("read-only file system")
    };
    let of: Vec<&Suspect<'_>> = suspects.iter().filter(is_read_only).collect();
    let first = of.first()?;
    Some(RootCause {
        kind: Some(first.kind),
        statement: format!(
            "the sandbox mounts system directories read-only, and {} of {failures} failures tried to write to one",
            of.len()
        ),
        confidence: Confidence::Likely,
        evidence: Some(first.place.clone()),
        failures: of.len() as u64,
        suggestion: Some("write below the workspace or the temporary directory".to_owned()),
        is_sandbox: true,
    })
}

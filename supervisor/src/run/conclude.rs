//! The conclusion of a run: from what was recorded to the report. Reads artefacts and tails, so it belongs on a thread
//! of its own. Must not know how events travelled.

use super::course::Course;
use crate::workspace::Workspace;
use proctor_core::artifact::{Artifact, ArtifactKind};
use proctor_core::bound::TAIL_BYTES_MAX;
use proctor_core::coverage::Measured;
use proctor_core::isolation::Isolation;
use proctor_core::limits::Limits;
use proctor_core::moment::Moment;
use proctor_core::outcome::{Evidence, KillReason};
use proctor_core::redact::{SECRET_BYTES_MAX, redact_from, redacted};
use proctor_core::report::{CoverageSummary, Report, Resources, Summary, Truncated};
use proctor_core::verdict::{Facts, judge};
use proctor_frameworks::{Chosen, Parser};
use proctor_sandbox::{Ending, SpoolReader};
use std::collections::{BTreeMap, BTreeSet};

/// Said of a run that outlived its workspace: what it tested is not what is there now.
const GONE: &str = "the workspace was moved, replaced or removed during the run";

/// Everything that is known when the last process is gone.
pub(super) struct Concluding {
    pub(super) course: Course,
    pub(super) ending: Ending,
    /// What the run left in its artefact directory.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// Commands of all rounds.
    pub(super) commands: usize,
    pub(super) limits: Limits,
    pub(super) framework: String,
    pub(super) chosen: Option<Chosen>,
    pub(super) notes: Vec<String>,
    pub(super) workspace: Workspace,
    pub(super) accepted_at: Moment,
    pub(super) ended_at: Moment,
    pub(super) stdout: SpoolReader,
    pub(super) stderr: SpoolReader,
}

/// The report and what was measured of coverage.
pub(super) fn conclude(concluding: Concluding) -> (Report, Vec<Measured>) {
    let Concluding {
        course,
        ending,
        files,
        commands,
        limits,
        framework,
        chosen,
        mut notes,
        workspace,
        accepted_at,
        ended_at,
        stdout,
        stderr,
    } = concluding;
    let Course { parser, tally, isolation, launched_at, running, nothing_selected, kept, .. } = course;
    let stream = parser.summary();
    notes.extend(stream.notes);
    notes.extend(tally.note());
    notes.extend(workspace.owner().is_err().then(|| GONE.to_owned()));
    notes.extend((ending.kept_left_out > 0).then(|| {
        let left_out = ending.kept_left_out;
        format!("{left_out} file(s) that tests left are not kept: too many, too large, too deep, or oddly named")
    }));
    let notes = notes.into_iter().map(redacted).collect();
    let kept = artifacts(kept, parser.as_ref());
    let artifacts = Artifacts { files, left_out: ending.artifacts_left_out };
    let (measured, coverage) = harvest(chosen.as_ref(), &workspace, &artifacts, &tally.finished());
    let verdict = judge(Facts {
        commands,
        exits: ending.exits,
        killed: ending.killed,
        worker_lost: ending.worker_lost,
        limit_hits: ending.limit_hits,
        summary: tally.summary,
        build_errors: tally.build_errors,
        collection_errors: tally.collection_errors,
        structured: stream.structured,
        cut_off: stream.cut_off,
        nothing_selected,
        runner_missing: stream.runner_missing,
        running,
        notes,
    });
    let mut resources = ending.resources;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a wait are far below 2^52")]
    let queue_wait_s = launched_at.ms_since(accepted_at) as f64 / 1_000.0;
    resources.queue_wait_s = queue_wait_s;
    let (stdout_tail, stdout_bytes) = tail(&stdout);
    let (stderr_tail, stderr_bytes) = tail(&stderr);
    let summary = tally.summary;
    let (tests, collectors, truncated) = tally.into_parts();
    let report = Report {
        outcome: verdict.outcome,
        exit_code: verdict.exit_code,
        raw_exit_code: verdict.raw_exit_code,
        framework,
        summary,
        flaky_in_run: parser.flaky(),
        duration_s: resources.wall_s,
        started_at: launched_at,
        ended_at,
        partial: verdict.partial,
        structured: stream.structured,
        tests,
        collectors,
        evidence: verdict.evidence,
        resources,
        limits,
        isolation: isolation.as_ref().clone(),
        coverage,
        stdout_tail,
        stderr_tail,
        artifacts: kept,
        truncated: Truncated { stdout_bytes, stderr_bytes, ..truncated },
    };
    (report, measured)
}

fn artifacts(kept: Vec<(String, u64)>, parser: &dyn Parser) -> Vec<Artifact> {
    let told = |(name, bytes): (String, u64)| {
        let (kind, test) = match parser.left_by(&name) {
            Some((kind, test)) => (kind, Some(test)),
            None => (ArtifactKind::of_name(&name), None),
        };
        Artifact { name, kind, bytes, test }
    };
    kept.into_iter().map(told).collect()
}

struct Artifacts {
    files: Vec<(String, Vec<u8>)>,
    left_out: u64,
}

fn harvest(
    chosen: Option<&Chosen>,
    workspace: &Workspace,
    artifacts: &Artifacts,
    finished: &BTreeMap<String, BTreeSet<String>>,
) -> (Vec<Measured>, CoverageSummary) {
    let (Some(chosen), Some(root)) = (chosen, workspace.root().to_str()) else {
        return (Vec::new(), CoverageSummary::default());
    };
    let mut harvest = chosen.ingest(root, &artifacts.files, finished);
    if artifacts.left_out > 0 {
        harvest.notes.push(format!("{} files that the run left were too many or too large", artifacts.left_out));
    }
    let covered: BTreeSet<&str> =
        harvest.measured.iter().flat_map(|set| &set.files).map(|(file, _)| file.as_str()).collect();
    let summary = CoverageSummary {
        measured: !harvest.measured.is_empty(),
        attribution: harvest.measured.iter().map(|set| set.attribution).max(),
        files: covered.len() as u64,
        notes: harvest.notes,
    };
    (harvest.measured, summary)
}

// The end of a stream as text without secrets of a known form, and how many bytes come before it. What comes before is read
// as far as a secret can reach, so that the cut leaves no half of one.
fn tail(spool: &SpoolReader) -> (String, u64) {
    let from = spool.len().saturating_sub(TAIL_BYTES_MAX as u64);
    let before = from.min(SECRET_BYTES_MAX as u64);
    let len = SECRET_BYTES_MAX + TAIL_BYTES_MAX;
    let mut bytes = spool.read_at(from - before, len).unwrap_or_else(|error| {
        tracing::error!(%error, "a run's output could not be read back");
        Vec::new()
    });
    let cut = usize::try_from(before).unwrap_or(SECRET_BYTES_MAX).min(bytes.len());
    let tail = bytes.split_off(cut);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let cut = text.len();
    text.push_str(&String::from_utf8_lossy(&tail));
    (redact_from(&text, cut), from)
}

/// The report of a run that was accepted and ended before anything was started.
#[must_use]
pub fn without_running(now: Moment, limits: Limits, framework: &str, killed: KillReason, note: &str) -> Report {
    let outcome = killed.outcome();
    Report {
        outcome,
        exit_code: i32::from(outcome.exit_code(None)),
        raw_exit_code: None,
        framework: framework.to_owned(),
        summary: Summary::default(),
        flaky_in_run: 0,
        duration_s: 0.0,
        started_at: now,
        ended_at: now,
        partial: true,
        structured: true,
        tests: Vec::new(),
        collectors: Vec::new(),
        evidence: Evidence {
            held: vec![outcome],
            killed: Some(killed),
            notes: vec![note.to_owned()],
            ..Evidence::default()
        },
        resources: Resources::default(),
        limits,
        isolation: Isolation::default(),
        coverage: CoverageSummary::default(),
        stdout_tail: String::new(),
        stderr_tail: String::new(),
        artifacts: Vec::new(),
        truncated: Truncated::default(),
    }
}

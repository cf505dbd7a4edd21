//! Builds the [`Ending`] of a run from counters and observations: resources used and limits reached.

use crate::artifacts::CollectedFiles;
use crate::cgroup::Counters;
use crate::spec::Ending;
use crate::worker_protocol::CpuTimes;
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::{Exit, KillReason, LimitHit};
use proctor_core::report::Resources;
use rustix::fs::fstatfs;
use std::os::fd::AsFd;
use std::time::Duration;

/// Observations of the run loop.
#[derive(Debug, Default)]
pub(crate) struct RunObservations {
    pub(crate) exits: Vec<Exit>,
    pub(crate) killed: Option<KillReason>,
    pub(crate) worker_lost: bool,
    /// Whether the last command has ended and no process of the run is alive but its init.
    pub(crate) is_empty: bool,
    pub(crate) cpu: CpuTimes,
    pub(crate) output_bytes: u64,
    /// Counters at the start of a program that prints stacks, whose own use of memory and processes is not the tests'.
    pub(crate) before_stacks: Option<Counters>,
    /// From the request to the first command's start.
    pub(crate) setup: Duration,
    /// From the first command's start to the last one's end.
    pub(crate) wall: Duration,
    /// Whether the private `/tmp` was seen full.
    pub(crate) tmp_full: bool,
    /// Bytes by which the workspace and the writable paths had grown when they exceeded their limit or their disk was
    /// full.
    pub(crate) disk_touched: Option<u64>,
    /// Sentences about what the host could not do for the run, and why commands could not be started.
    pub(crate) host_notes: Vec<String>,
}

/// Builds the ending of a run whose processes are all dead. `counters` are those of its leaf, if it has one.
pub(crate) fn build(
    observations: RunObservations,
    counters: Option<Counters>,
    limits: &Limits,
    CollectedFiles { artifacts, artifacts_left_out, streamed_artifacts_left_out }: CollectedFiles,
) -> Ending {
    let counters = counters.unwrap_or_default();
    let counters = observations.before_stacks.map_or(counters, |before| counters.with_occupancy_of(before));
    Ending {
        limit_hits: limit_hits(&observations, &counters, limits),
        resources: resources(&observations, &counters),
        exits: observations.exits,
        killed: observations.killed,
        worker_lost: observations.worker_lost,
        notes: observations.host_notes,
        artifacts,
        artifacts_left_out,
        streamed_artifacts_left_out,
    }
}

fn resources(observations: &RunObservations, counters: &Counters) -> Resources {
    let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
    Resources {
        wall_s: observations.wall.as_secs_f64(),
        // Without a leaf: the times of the processes that init has reaped.
        cpu_user_s: counters.cpu_user_s.unwrap_or_else(|| seconds(observations.cpu.user_us)),
        cpu_system_s: counters.cpu_system_s.unwrap_or_else(|| seconds(observations.cpu.system_us)),
        memory_peak_bytes: counters.memory_peak_bytes,
        throttled_s: counters.throttled_s,
        pids_peak: counters.pids_peak,
        read_bytes: counters.read_bytes,
        written_bytes: counters.written_bytes,
        cpu_pressure_s: counters.cpu_pressure_s,
        memory_pressure_s: counters.memory_pressure_s,
        io_pressure_s: counters.io_pressure_s,
        queue_wait_s: 0.0,
        setup_s: observations.setup.as_secs_f64(),
        output_bytes: observations.output_bytes,
    }
}

/// Limits that were reached. A memory hit with a count of 0 was reclaimed by the kernel without a kill.
fn limit_hits(observations: &RunObservations, counters: &Counters, limits: &Limits) -> Vec<LimitHit> {
    let mut hits = Vec::new();
    if counters.oom_kills > 0 || counters.memory_limit_reached > 0 {
        let (max, peak) = (limits.memory_bytes_max, counters.memory_peak_bytes.unwrap_or(0));
        hits.push(LimitHit { limit: LimitKind::Memory, max, peak, count: counters.oom_kills });
    }
    if counters.pids_refused > 0 {
        let (max, count) = (limits.pids_max.into(), counters.pids_refused);
        hits.push(LimitHit { limit: LimitKind::Pids, max, peak: counters.pids_peak.unwrap_or(max), count });
    }
    if observations.tmp_full {
        let max = limits.tmp_bytes_max;
        hits.push(LimitHit { limit: LimitKind::Tmp, max, peak: max, count: 1 });
    }
    if let Some(peak) = observations.disk_touched {
        hits.push(LimitHit { limit: LimitKind::Disk, max: limits.disk_bytes_max, peak, count: 1 });
    }
    if observations.output_bytes > limits.log_bytes_max {
        let (max, peak) = (limits.log_bytes_max, observations.output_bytes);
        hits.push(LimitHit { limit: LimitKind::Log, max, peak, count: 1 });
    }
    hits
}

/// Whether the file system of `dir` has no free block or no free inode.
pub(crate) fn is_full(dir: impl AsFd) -> bool {
    fstatfs(dir).is_ok_and(|stat| stat.f_bfree == 0 || (stat.f_files > 0 && stat.f_ffree == 0))
}

/// Size of the file system of `dir`, bytes.
pub(crate) fn size_bytes(dir: impl AsFd) -> Option<u64> {
    let stat = fstatfs(dir).ok()?;
    stat.f_blocks.checked_mul(u64::try_from(stat.f_bsize).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_that_prints_stacks_uses_is_no_evidence_against_the_tests() {
        let before = Counters { memory_peak_bytes: Some(10), pids_peak: Some(3), ..Counters::default() };
        let after = Counters {
            memory_peak_bytes: Some(90),
            memory_limit_reached: 4,
            oom_kills: 1,
            pids_peak: Some(9),
            pids_refused: 2,
            written_bytes: Some(7),
            ..Counters::default()
        };
        let end = |before_stacks| {
            let observations = RunObservations { before_stacks, ..RunObservations::default() };
            build(observations, Some(after), &Limits::DEFAULT, CollectedFiles::default())
        };
        let kinds = |ending: &Ending| ending.limit_hits.iter().map(|hit| hit.limit).collect::<Vec<_>>();
        assert_eq!(kinds(&end(None)), [LimitKind::Memory, LimitKind::Pids]);
        let ending = end(Some(before));
        assert_eq!(kinds(&ending), []);
        assert_eq!((ending.resources.memory_peak_bytes, ending.resources.pids_peak), (Some(10), Some(3)));
        assert_eq!(ending.resources.written_bytes, Some(7));
        assert_eq!(kinds(&end(Some(after))), [LimitKind::Memory, LimitKind::Pids], "what the tests had reached before");
    }
}

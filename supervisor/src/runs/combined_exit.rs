//! Joins the endings of a run's rounds. A runner may show that further commands are needed; these run in another
//! sandbox.

use proctor_core::report::Resources;
use proctor_sandbox::Ending;

/// Joins the endings of all earlier rounds with the ending of round `round`.
pub(super) fn join(first: Ending, then: Ending, round: usize) -> Ending {
    let artifacts = then.artifacts.into_iter().map(|mut artifact| {
        // Each round has its own scratch directory, so names can repeat between rounds.
        artifact.path = format!("round-{round}/{}", artifact.path);
        artifact
    });
    Ending {
        exits: [first.exits, then.exits].concat(),
        killed: first.killed.or(then.killed),
        worker_lost: first.worker_lost || then.worker_lost,
        notes: [first.notes, then.notes].concat(),
        limit_hits: [first.limit_hits, then.limit_hits].concat(),
        resources: add(first.resources, then.resources),
        artifacts: first.artifacts.into_iter().chain(artifacts).collect(),
        streamed_artifacts_left_out: first.streamed_artifacts_left_out + then.streamed_artifacts_left_out,
        artifacts_left_out: first.artifacts_left_out + then.artifacts_left_out,
    }
}

pub(super) fn add(first: Resources, then: Resources) -> Resources {
    let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    let sum_s = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    Resources {
        wall_s: first.wall_s + then.wall_s,
        cpu_user_s: first.cpu_user_s + then.cpu_user_s,
        cpu_system_s: first.cpu_system_s + then.cpu_system_s,
        memory_peak_bytes: first.memory_peak_bytes.max(then.memory_peak_bytes),
        throttled_s: sum_s(first.throttled_s, then.throttled_s),
        pids_peak: first.pids_peak.max(then.pids_peak),
        read_bytes: sum(first.read_bytes, then.read_bytes),
        written_bytes: sum(first.written_bytes, then.written_bytes),
        cpu_pressure_s: sum_s(first.cpu_pressure_s, then.cpu_pressure_s),
        memory_pressure_s: sum_s(first.memory_pressure_s, then.memory_pressure_s),
        io_pressure_s: sum_s(first.io_pressure_s, then.io_pressure_s),
        queue_wait_s: first.queue_wait_s,
        setup_s: first.setup_s + then.setup_s,
        output_bytes: first.output_bytes + then.output_bytes,
    }
}

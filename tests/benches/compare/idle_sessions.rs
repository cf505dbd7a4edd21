//! Idle sessions: memory of a hundred thousand of them in one supervisor, the rate at which they open, and the latency of
//! queries while runs go on.

use crate::bench_setup::{BenchSetup, WORKSPACES};
use crate::demo_supervisor::ExtraKeys;
use crate::seeded_random::SeededRandom;
use crate::soak::ResourceUsage;
use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, ensure};
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::v1::{CreateSessionRequest, GetSessionRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const SESSIONS: usize = 100_000;

/// Workspaces, each with an equal share of the sessions.
const WORKSPACE_COUNT: usize = 1_000;

/// Concurrent requests while sessions are opened, as from a platform service with as many users.
const IN_FLIGHT: usize = 256;

/// Command of the runs that keep all processors busy.
const BUSY: [&str; 3] = ["/bin/sh", "-c", "while :; do :; done"];

/// Measured queries, one after the other.
const QUERIES: usize = 10_000;

/// Pause before each query, so that queries meet the runs at arbitrary moments.
const PAUSE: Duration = Duration::from_micros(500);

#[expect(clippy::cast_precision_loss, reason = "counts of sessions, and kibibytes")]
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let sessions_max = format!("sessions_max = {}", SESSIONS + WORKSPACES);
    // Room for a run in each workspace with a session that runs.
    let host = format!("memory = \"{}GiB\"\ncpus = {}\ndrain = \"1s\"\n{sessions_max}", 2 * WORKSPACES, 2 * WORKSPACES);
    // The tenant's request quota must not limit what is measured.
    let tenant = format!("{sessions_max}\n[tenant.quota]\nrequests_per_second = 1000000");
    let setup = BenchSetup::start_with(WORKSPACE_COUNT, ExtraKeys { host: &host, tenant: &tenant })?;
    let pid = setup.supervisor.as_ref().context("no supervisor")?.pid();
    let workspaces = (0..WORKSPACE_COUNT).map(|number| setup.workspace(number).display().to_string()).collect();
    let running = (0..WORKSPACES).map(|number| setup.session(number)).collect::<Result<Vec<_>>>()?;
    // Starts the supervisor's threads and fills its pools before its memory is measured.
    setup.run_in_parallel(&running, 100)?;
    let before = ResourceUsage::measure(pid)?.rss_kib;

    let started = Instant::now();
    let sessions = setup.runtime.block_on(open_sessions(setup.channel(), Arc::new(workspaces), SESSIONS))?;
    let made_per_s = SESSIONS as f64 / started.elapsed().as_secs_f64();
    ensure!(sessions.len() == SESSIONS, "{} sessions", sessions.len());
    let rss = ResourceUsage::measure(pid)?.rss_kib;

    let runs: Vec<_> = running
        .into_iter()
        .map(|mut session| setup.runtime.spawn(async move { session.run_command(&BUSY).await }))
        .collect();
    let times = setup.runtime.block_on(query_sessions(setup.channel(), &sessions))?;
    ensure!(runs.iter().all(|run| !run.is_finished()), "a run ended during the measurement");
    let (median, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));

    let ending = Instant::now();
    setup.stop()?;
    anstream::println!(
        "\nsessions: {SESSIONS} at rest, made {made_per_s:.0}/s with {IN_FLIGHT} in flight; RSS {before} -> {rss} KiB, \
         {:.2} KiB each;\n  GetSession while {WORKSPACES} runs go on: median {median:.2} ms, \
         p99 {p99:.2} ms; all closed and the supervisor gone in {:.1} s",
        (rss - before) as f64 / SESSIONS as f64,
        ending.elapsed().as_secs_f64(),
    );
    Ok(vec![
        Figure::at_least("sessions: made", "/s", made_per_s, 10_000.0).firm(),
        Figure::at_most("sessions: RSS with 100,000 at rest", "MiB", rss as f64 / 1024.0, 1024.0).firm(),
        Figure::at_most("sessions: GetSession p99 while 8 runs go on", "ms", p99, 5.0).firm(),
    ])
}

/// Opens `count` sessions, spread over the workspaces, and returns their ids.
pub(crate) async fn open_sessions(channel: Channel, workspaces: Arc<Vec<String>>, count: usize) -> Result<Vec<String>> {
    let claimed = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (mut sessions, claimed) = (SessionsClient::new(channel.clone()), Arc::clone(&claimed));
            let workspaces = Arc::clone(&workspaces);
            tokio::spawn(async move {
                let mut opened = Vec::new();
                loop {
                    let number = claimed.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return anyhow::Ok(opened);
                    }
                    let workspace = workspaces[number % workspaces.len()].clone();
                    let request = CreateSessionRequest { workspace, separate: true, ..CreateSessionRequest::default() };
                    let answer = sessions.create_session(request).await?.into_inner();
                    opened.push(answer.session.context("an answer without a session")?.session_id);
                }
            })
        })
        .collect();
    let mut sessions = Vec::with_capacity(count);
    for task in tasks {
        sessions.extend(task.await??);
    }
    Ok(sessions)
}

// Queries random sessions and returns the duration of each query in milliseconds.
async fn query_sessions(channel: Channel, sessions: &[String]) -> Result<Vec<f64>> {
    let (mut client, mut random) = (SessionsClient::new(channel), SeededRandom::new());
    let mut times = Vec::with_capacity(QUERIES);
    for _ in 0..QUERIES {
        tokio::time::sleep(PAUSE).await;
        let request = GetSessionRequest { session_id: sessions[random.below(sessions.len())].clone() };
        let started = Instant::now();
        client.get_session(request).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

//! Sessions at rest: what a hundred thousand of them cost one supervisor, how fast they are made, and how soon any of them
//! answers while runs go on beside them. Must not know how the supervisor keeps them.

use crate::bench_setup::{Stage, WORKSPACES};
use crate::demo_supervisor::More;
use crate::seeded_random::Dice;
use crate::soak::Held;
use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, ensure};
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::v1::{CreateSessionRequest, GetSessionRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const SESSIONS: usize = 100_000;

/// Workspaces that hold them, each an equal share.
const PLACES: usize = 1_000;

/// Requests in flight while sessions are made: a platform service with as many users at once.
const IN_FLIGHT: usize = 256;

/// What goes on meanwhile, on every processor: more is there to do than the host can.
const BUSY: [&str; 3] = ["/bin/sh", "-c", "while :; do :; done"];

/// Questions that are timed, one after the other.
const QUESTIONS: usize = 10_000;

/// Pause before each, so that they meet the runs at every moment.
const PAUSE: Duration = Duration::from_micros(500);

#[expect(clippy::cast_precision_loss, reason = "counts of sessions, and kibibytes")]
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let sessions_max = format!("sessions_max = {}", SESSIONS + WORKSPACES);
    // Room for a run in each workspace.
    let host = format!("memory = \"{}GiB\"\ncpus = {}\ndrain = \"1s\"\n{sessions_max}", 2 * WORKSPACES, 2 * WORKSPACES);
    // What the supervisor can do is measured, and not what a tenant may ask of it.
    let tenant = format!("{sessions_max}\n[tenant.quota]\nrequests_per_second = 1000000");
    let stage = Stage::open_with(PLACES, More { host: &host, tenant: &tenant })?;
    let pid = stage.supervisor.as_ref().context("no supervisor")?.pid();
    let places = (0..PLACES).map(|number| stage.workspace(number).display().to_string()).collect();
    let running = (0..WORKSPACES).map(|number| stage.session(number)).collect::<Result<Vec<_>>>()?;
    // Its threads and pools are there before its memory is looked at.
    stage.storm(&running, 100)?;
    let before = Held::by(pid)?.rss_kib;

    let begun = Instant::now();
    let sessions = stage.runtime.block_on(make(stage.channel(), Arc::new(places)))?;
    let made_per_s = SESSIONS as f64 / begun.elapsed().as_secs_f64();
    ensure!(sessions.len() == SESSIONS, "{} sessions", sessions.len());
    let rss = Held::by(pid)?.rss_kib;

    let runs: Vec<_> = running
        .into_iter()
        .map(|mut session| stage.runtime.spawn(async move { session.run_of(&BUSY).await }))
        .collect();
    let times = stage.runtime.block_on(ask(stage.channel(), &sessions))?;
    ensure!(runs.iter().all(|run| !run.is_finished()), "a run has ended while it should have gone on");
    let (median, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));

    let ending = Instant::now();
    stage.close()?;
    anstream::println!(
        "\nsessions: {SESSIONS} at rest, made {made_per_s:.0}/s with {IN_FLIGHT} in flight; RSS {before} -> {rss} KiB, \
         {:.2} KiB each;\n  GetSession while {WORKSPACES} runs go on: median {median:.2} ms, \
         p99 {p99:.2} ms; all closed and the supervisor gone in {:.1} s",
        (rss - before) as f64 / SESSIONS as f64,
        ending.elapsed().as_secs_f64(),
    );
    Ok(vec![
        Figure::at_least("sessions: made", "/s", made_per_s, 10_000.0).promised(),
        Figure::at_most("sessions: RSS with 100,000 at rest", "MiB", rss as f64 / 1024.0, 1024.0).promised(),
        Figure::at_most("sessions: GetSession p99 while 8 runs go on", "ms", p99, 5.0).promised(),
    ])
}

async fn make(channel: Channel, places: Arc<Vec<String>>) -> Result<Vec<String>> {
    let drawn = Arc::new(AtomicUsize::new(0));
    let makers: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (mut sessions, drawn) = (SessionsClient::new(channel.clone()), Arc::clone(&drawn));
            let places = Arc::clone(&places);
            tokio::spawn(async move {
                let mut made = Vec::new();
                loop {
                    let number = drawn.fetch_add(1, Ordering::Relaxed);
                    if number >= SESSIONS {
                        return anyhow::Ok(made);
                    }
                    let workspace = places[number % places.len()].clone();
                    let request = CreateSessionRequest { workspace, separate: true, ..CreateSessionRequest::default() };
                    let answer = sessions.create_session(request).await?.into_inner();
                    made.push(answer.session.context("an answer without a session")?.session_id);
                }
            })
        })
        .collect();
    let mut sessions = Vec::with_capacity(SESSIONS);
    for maker in makers {
        sessions.extend(maker.await??);
    }
    Ok(sessions)
}

// Milliseconds of each question, to sessions drawn at random.
async fn ask(channel: Channel, sessions: &[String]) -> Result<Vec<f64>> {
    let (mut client, mut dice) = (SessionsClient::new(channel), Dice::new());
    let mut times = Vec::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        tokio::time::sleep(PAUSE).await;
        let request = GetSessionRequest { session_id: sessions[dice.below(sessions.len())].clone() };
        let asked = Instant::now();
        client.get_session(request).await?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

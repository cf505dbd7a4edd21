//! What a run costs beyond its command: `/bin/true` bare, through the sandbox, and through a real supervisor over gRPC, in
//! turn within one process so that a noisy machine disturbs all three. Must not know how any of them works.

use crate::figures::{Better, Figure, quantile};
use crate::supervisor::{Supervisor, program};
use anyhow::{Context as _, Result, ensure};
use proctor_core::limits::Limits;
use proctor_core::outcome::Exit;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::runs_client::RunsClient;
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::v1::{CreateSessionRequest, Outcome, RunTestsRequest};
use proctor_sandbox::{CommandSpec, Jail, KillSwitch, LAYERS, LinuxSandbox, PoolBounds, RunSpec, Sandbox};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tonic::transport::Channel;

/// Rounds that are not counted: caches fill, the supervisor's pools grow.
const WARM_UP: usize = 20;
const ROUNDS: usize = 500;

const TRUE: &str = "/bin/true";

#[expect(clippy::disallowed_methods, reason = "the bare spawn is what the sandbox is compared with")]
fn bare() -> Result<()> {
    let status = Command::new(TRUE).spawn()?.wait()?;
    ensure!(status.success(), "the bare command ended with {status}");
    Ok(())
}

/// A run with every limit and layer; `workspace` exists and is empty.
fn spec(workspace: &Path) -> RunSpec {
    RunSpec {
        commands: vec![CommandSpec {
            program: TRUE.into(),
            args: Vec::new(),
            dir: workspace.to_owned(),
            env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        }],
        jail: Jail { required_layers: LAYERS.to_vec(), ..Jail::at(workspace) },
        scratch_files: Vec::new(),
        scratch_dirs: Vec::new(),
        artifacts: String::new(),
        limits: Limits::DEFAULT,
        required_limits: Limits::ENFORCED.to_vec(),
    }
}

fn sandboxed(sandbox: &LinuxSandbox, spec: &RunSpec) -> Result<()> {
    let ending = sandbox.run(spec, &KillSwitch::new()?, &mut |_| {})?;
    ensure!(ending.exits == [Exit::Code(0)], "the sandboxed command ended with {:?}", ending.exits);
    Ok(())
}

/// A session of a real supervisor.
struct Remote {
    runs: RunsClient<Channel>,
    session_id: String,
}

impl Remote {
    async fn open(channel: Channel, workspace: &Path) -> Result<Remote> {
        let workspace = workspace.to_str().context("the workspace's path is not UTF-8")?.to_owned();
        let request = CreateSessionRequest { workspace, ..CreateSessionRequest::default() };
        let answer = SessionsClient::new(channel.clone()).create_session(request).await?.into_inner();
        let session_id = answer.session.context("an answer without a session")?.session_id;
        Ok(Remote { runs: RunsClient::new(channel), session_id })
    }

    /// From the request to `finished`.
    async fn run(&mut self) -> Result<()> {
        let (session_id, command) = (self.session_id.clone(), vec![TRUE.to_owned()]);
        let request = RunTestsRequest { session_id, command, ..RunTestsRequest::default() };
        let mut stream = self.runs.run_tests(request).await?.into_inner();
        while let Some(event) = stream.message().await? {
            if let Some(Event::Finished(report)) = event.event {
                let outcome = report.outcome();
                ensure!(outcome == Outcome::Passed, "the supervisor's run ended as {outcome:?}");
                return Ok(());
            }
        }
        anyhow::bail!("the stream of a run ended without its report")
    }
}

/// Milliseconds of every round.
#[derive(Default)]
struct Samples {
    bare: Vec<f64>,
    sandbox: Vec<f64>,
    grpc: Vec<f64>,
}

async fn measure() -> Result<Samples> {
    let dir = tempfile::Builder::new().prefix("proctor-bench-").tempdir().context("making a directory")?;
    let workspace = dir.path().join("workspaces/empty");
    fs::create_dir_all(&workspace).context("making a workspace")?;
    let (supervisor, channel) =
        Supervisor::start(dir.path(), &dir.path().join("state"), &dir.path().join("workspaces")).await?;
    anstream::println!("\n{TRUE}, {ROUNDS} rounds, the supervisor is process {}", supervisor.pid());
    let mut remote = Remote::open(channel, &workspace).await?;
    let (sandbox, spec) = (LinuxSandbox::new(program("proctor-worker")?, PoolBounds::DEFAULT)?, spec(&workspace));
    let mut samples = Samples::default();
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            samples = Samples::default();
        }
        // The kernel takes the namespaces of a run apart after its end, at the cost of whoever comes next: take turns.
        for turn in 0..3 {
            let begun = Instant::now();
            let times = match (round + turn) % 3 {
                0 => bare().map(|()| &mut samples.bare),
                1 => tokio::task::block_in_place(|| sandboxed(&sandbox, &spec)).map(|()| &mut samples.sandbox),
                _ => remote.run().await.map(|()| &mut samples.grpc),
            }?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    let status = supervisor.stop().await?;
    ensure!(status.success(), "the supervisor ended with {status}");
    Ok(samples)
}

/// Measures and prints the times; the figures that have targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let samples = runtime.block_on(measure())?;
    let p50 = |samples: &[f64]| quantile(samples, 0.5);
    let bare = p50(&samples.bare);
    anstream::println!("{:<28}{:>8}{:>8}{:>14}{:>8}", "milliseconds", "p50", "p99", "p50 over bare", "ratio");
    for (name, of) in
        [("bare spawn", &samples.bare), ("sandbox", &samples.sandbox), ("gRPC, request to finished", &samples.grpc)]
    {
        let p50 = p50(of);
        let (over, ratio) = (p50 - bare, p50 / bare);
        anstream::println!("{name:<28}{p50:>8.2}{:>8.2}{over:>14.2}{ratio:>8.1}", quantile(of, 0.99));
    }
    let (sandbox, grpc) = (p50(&samples.sandbox), p50(&samples.grpc));
    let figure = |name, measured, target| Figure { name, unit: "ms", measured, target, better: Better::Lower };
    Ok(vec![
        figure("sandbox p50 over bare", sandbox - bare, 8.0),
        figure("gRPC request to finished p50 over bare", grpc - bare, 10.0),
        figure("gRPC request to finished p50 over sandbox", grpc - sandbox, 4.0),
    ])
}

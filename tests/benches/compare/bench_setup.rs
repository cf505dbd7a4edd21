//! Common setup of the benchmarks: a real supervisor with workspaces of one tenant, and the sandbox without a supervisor, both
//! with all layers and limits.

use crate::demo_supervisor::{ExtraKeys, Supervisor, program};
use anyhow::{Context as _, Result, ensure};
use proctor_core::limits::Limits;
use proctor_core::outcome::Exit;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::runs_client::RunsClient;
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::v1::{CloseSessionRequest, CreateSessionRequest, Outcome, RunTestsRequest};
use proctor_sandbox::{
    CommandSpec, Jail, KillSwitch, LAYERS, LinuxSandbox, PoolBounds, RunAs, RunSpec, Sandbox, SandboxEvent,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

pub(crate) const TRUE: &str = "/bin/true";

/// Number of workspaces, which bounds the concurrent sessions. Half as many keep two processors busy.
pub(crate) const WORKSPACES: usize = 8;

/// A supervisor with its directories, removed on drop.
pub(crate) struct BenchSetup {
    /// Declared first, since it uses the other fields until it ends.
    pub(crate) supervisor: Option<Supervisor>,
    channel: Channel,
    pub(crate) runtime: Runtime,
    dir: TempDir,
}

impl BenchSetup {
    pub(crate) fn start() -> Result<BenchSetup> {
        BenchSetup::start_with(WORKSPACES, ExtraKeys::default())
    }

    /// Starts a supervisor with this number of workspaces and additional keys in its host file.
    pub(crate) fn start_with(workspaces: usize, extra: ExtraKeys<'_>) -> Result<BenchSetup> {
        let dir = tempfile::Builder::new().prefix("proctor-bench-").tempdir().context("making a directory")?;
        let roots = dir.path().join("workspaces");
        for number in 0..workspaces {
            fs::create_dir_all(roots.join(number.to_string())).context("making a workspace")?;
        }
        // The rivals map users, which must be able to enter the directory.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let state = dir.path().join("state");
        let (supervisor, channel) = runtime.block_on(Supervisor::start(dir.path(), &state, &roots, extra))?;
        Ok(BenchSetup { supervisor: Some(supervisor), channel, runtime, dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn workspace(&self, number: usize) -> PathBuf {
        self.dir.path().join("workspaces").join(number.to_string())
    }

    /// The connection to the supervisor.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A run of `command` for `owner` with all layers and the default limits.
    pub(crate) fn spec(&self, owner: &str, number: usize, command: &[&str]) -> Result<RunSpec> {
        let workspace = self.workspace(number);
        let user = fs::metadata(&workspace)?;
        let (program, args) = command.split_first().context("a command without a program")?;
        Ok(RunSpec {
            commands: vec![CommandSpec {
                program: program.into(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                dir: workspace.clone(),
                env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            }],
            jail: Jail {
                owner: owner.to_owned(),
                session: format!("{owner}-1"),
                read_only: vec![self.dir.path().join("tools")],
                run_as: RunAs::User { uid: user.uid(), gid: user.gid() },
                required_layers: LAYERS.to_vec(),
                ..Jail::new(workspace)
            },
            stack_requests: vec![],
            scratch_files: Vec::new(),
            scratch_dirs: Vec::new(),
            artifacts: String::new(),
            report: false,
            alone: false,
            limits: Limits::DEFAULT,
            required_limits: Limits::ENFORCED.to_vec(),
        })
    }

    /// Opens a session on a workspace.
    pub(crate) fn session(&self, number: usize) -> Result<SupervisorSession> {
        let workspace = self.workspace(number).to_str().context("the workspace's path is not UTF-8")?.to_owned();
        let request = CreateSessionRequest { workspace, ..CreateSessionRequest::default() };
        let answer = self.runtime.block_on(SessionsClient::new(self.channel.clone()).create_session(request))?;
        let session_id = answer.into_inner().session.context("an answer without a session")?.session_id;
        Ok(SupervisorSession { runs: RunsClient::new(self.channel.clone()), session_id })
    }

    /// Runs [`TRUE`] `runs` times, spread over these sessions in parallel, and returns the duration.
    pub(crate) fn run_in_parallel(&self, sessions: &[SupervisorSession], runs: usize) -> Result<Duration> {
        let (started, claimed) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = sessions
            .iter()
            .map(|session| {
                let (mut session, claimed) = (session.clone(), Arc::clone(&claimed));
                self.runtime.spawn(async move {
                    while claimed.fetch_add(1, Ordering::Relaxed) < runs {
                        session.run().await?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        tasks.into_iter().try_for_each(|task| self.runtime.block_on(task)?)?;
        Ok(started.elapsed())
    }

    /// Stops the supervisor and checks its exit status.
    pub(crate) fn stop(mut self) -> Result<()> {
        let supervisor = self.supervisor.take().context("the supervisor was stopped already")?;
        let status = self.runtime.block_on(supervisor.stop())?;
        ensure!(status.success(), "the supervisor ended with {status}");
        Ok(())
    }

    /// Compiles the neighbour program (see `noisy_neighbour.c`), executable for every user.
    pub(crate) fn compile_neighbour(&self) -> Result<PathBuf> {
        let tools = self.dir.path().join("tools");
        fs::create_dir_all(&tools)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/compare/noisy_neighbour.c");
        let program = tools.join("neighbour");
        let status = command("cc").args(["-static", "-O1", "-o"]).arg(&program).arg(source).status();
        let status = status.context("no C compiler (Debian: apt-get install gcc libc6-dev)")?;
        ensure!(status.success(), "the neighbour does not compile (Debian: apt-get install gcc libc6-dev)");
        Ok(program)
    }
}

/// A session of the supervisor.
#[derive(Clone)]
pub(crate) struct SupervisorSession {
    runs: RunsClient<Channel>,
    session_id: String,
}

impl SupervisorSession {
    /// Runs [`TRUE`] and reads all events. Dropping the stream before its end would break the connection, which other
    /// sessions share.
    pub(crate) async fn run(&mut self) -> Result<()> {
        let outcome = self.run_command(&[TRUE]).await?;
        ensure!(outcome == Some(Outcome::Passed), "the supervisor's run ended as {outcome:?}");
        Ok(())
    }

    pub(crate) async fn close(self, sessions: &mut SessionsClient<Channel>) -> Result<()> {
        sessions.close_session(CloseSessionRequest { session_id: self.session_id }).await?;
        Ok(())
    }

    /// Runs a command and returns its outcome.
    pub(crate) async fn run_command(&mut self, command: &[&str]) -> Result<Option<Outcome>> {
        let session_id = self.session_id.clone();
        let command = command.iter().map(|&word| word.to_owned()).collect();
        let request = RunTestsRequest { session_id, command, ..RunTestsRequest::default() };
        let mut stream = self.runs.run_tests(request).await?.into_inner();
        let mut outcome = None;
        while let Some(event) = stream.message().await? {
            if let Some(Event::Finished(report)) = event.event {
                outcome = Some(report.outcome());
            }
        }
        Ok(outcome)
    }
}

/// The sandbox without a supervisor.
pub(crate) fn sandbox(bounds: PoolBounds) -> Result<LinuxSandbox> {
    let sandbox = LinuxSandbox::new(program("proctor-worker")?, bounds)?;
    sandbox.sweep();
    Ok(sandbox)
}

/// Runs a command in the sandbox and checks that it exits with 0.
pub(crate) fn run_and_check(sandbox: &LinuxSandbox, spec: &RunSpec) -> Result<()> {
    let ending = sandbox.run(spec, &KillSwitch::new()?, &mut |_| {})?;
    ensure!(ending.exits == [Exit::Code(0)], "the sandboxed command ended as {ending:?}");
    Ok(())
}

/// Whether a run has written output, as the neighbour does once all its processes run.
pub(crate) fn is_ready(event: &SandboxEvent<'_>) -> bool {
    matches!(event, SandboxEvent::Output { .. })
}

#[expect(clippy::disallowed_methods, reason = "the bare spawn and the rivals are the baseline for the sandbox")]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// Duration of `work` in milliseconds.
pub(crate) fn time_ms(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

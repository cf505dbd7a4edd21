//! What the parts of the benchmark stand on: a real supervisor with workspaces of one tenant, and the sandbox by itself, both
//! with every layer and limit. Must not know what is measured.

use crate::demo_supervisor::{More, Supervisor, program};
use anyhow::{Context as _, Result, ensure};
use proctor_core::limits::Limits;
use proctor_core::outcome::Exit;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::runs_client::RunsClient;
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::v1::{CreateSessionRequest, Outcome, RunTestsRequest};
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

/// Workspaces, and so sessions that run at the same time at most. Two processors are busy with half as many.
pub(crate) const WORKSPACES: usize = 8;

/// Everything that one part of the benchmark uses, gone with it.
pub(crate) struct Stage {
    /// Ends first: what is in it uses the rest.
    pub(crate) supervisor: Option<Supervisor>,
    channel: Channel,
    pub(crate) runtime: Runtime,
    dir: TempDir,
}

impl Stage {
    pub(crate) fn open() -> Result<Stage> {
        Stage::open_with(WORKSPACES, More::default())
    }

    /// The same with so many workspaces, and more in the host file.
    pub(crate) fn open_with(workspaces: usize, more: More<'_>) -> Result<Stage> {
        let dir = tempfile::Builder::new().prefix("proctor-bench-").tempdir().context("making a directory")?;
        let roots = dir.path().join("workspaces");
        for number in 0..workspaces {
            fs::create_dir_all(roots.join(number.to_string())).context("making a workspace")?;
        }
        // The rivals' mapped users have to get to what is below.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let state = dir.path().join("state");
        let (supervisor, channel) = runtime.block_on(Supervisor::start(dir.path(), &state, &roots, more))?;
        Ok(Stage { supervisor: Some(supervisor), channel, runtime, dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn workspace(&self, number: usize) -> PathBuf {
        self.dir.path().join("workspaces").join(number.to_string())
    }

    /// A connection to the supervisor.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A run of `command` for `owner` with every layer and the default limits.
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
            scratch_files: Vec::new(),
            scratch_dirs: Vec::new(),
            artifacts: String::new(),
            report: false,
            limits: Limits::DEFAULT,
            required_limits: Limits::ENFORCED.to_vec(),
        })
    }

    /// Opens the session of a workspace.
    pub(crate) fn session(&self, number: usize) -> Result<Remote> {
        let workspace = self.workspace(number).to_str().context("the workspace's path is not UTF-8")?.to_owned();
        let request = CreateSessionRequest { workspace, ..CreateSessionRequest::default() };
        let answer = self.runtime.block_on(SessionsClient::new(self.channel.clone()).create_session(request))?;
        let session_id = answer.into_inner().session.context("an answer without a session")?.session_id;
        Ok(Remote { runs: RunsClient::new(self.channel.clone()), session_id })
    }

    /// `runs` of [`TRUE`] through these sessions at the same time; how long they took.
    pub(crate) fn storm(&self, sessions: &[Remote], runs: usize) -> Result<Duration> {
        let (begun, drawn) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = sessions
            .iter()
            .map(|session| {
                let (mut session, drawn) = (session.clone(), Arc::clone(&drawn));
                self.runtime.spawn(async move {
                    while drawn.fetch_add(1, Ordering::Relaxed) < runs {
                        session.run().await?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        tasks.into_iter().try_for_each(|task| self.runtime.block_on(task)?)?;
        Ok(begun.elapsed())
    }

    /// Stops the supervisor, which has to end well.
    pub(crate) fn close(mut self) -> Result<()> {
        let supervisor = self.supervisor.take().context("a stage without its supervisor")?;
        let status = self.runtime.block_on(supervisor.stop())?;
        ensure!(status.success(), "the supervisor ended with {status}");
        Ok(())
    }

    /// Compiles the program whose runs are hard to kill or to live beside, for every user to execute.
    pub(crate) fn neighbour(&self) -> Result<PathBuf> {
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
pub(crate) struct Remote {
    runs: RunsClient<Channel>,
    session_id: String,
}

impl Remote {
    /// From the request to `finished`, and to the end of the stream: who goes away before that breaks the connection that
    /// others share.
    pub(crate) async fn run(&mut self) -> Result<()> {
        let outcome = self.run_of(&[TRUE]).await?;
        ensure!(outcome == Some(Outcome::Passed), "the supervisor's run ended as {outcome:?}");
        Ok(())
    }

    /// The same for any command and any end.
    pub(crate) async fn run_of(&mut self, command: &[&str]) -> Result<Option<Outcome>> {
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

/// The sandbox by itself.
pub(crate) fn sandbox(bounds: PoolBounds) -> Result<LinuxSandbox> {
    let sandbox = LinuxSandbox::new(program("proctor-worker")?, bounds)?;
    sandbox.sweep();
    Ok(sandbox)
}

/// A run that has to end well.
pub(crate) fn run_well(sandbox: &LinuxSandbox, spec: &RunSpec) -> Result<()> {
    let ending = sandbox.run(spec, &KillSwitch::new()?, &mut |_| {})?;
    ensure!(ending.exits == [Exit::Code(0)], "the sandboxed command ended as {ending:?}");
    Ok(())
}

/// Whether a run has written something: the neighbour does when all of it is there.
pub(crate) fn is_ready(event: &SandboxEvent<'_>) -> bool {
    matches!(event, SandboxEvent::Output { .. })
}

#[expect(clippy::disallowed_methods, reason = "the bare spawn and the rivals are what the sandbox is compared with")]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// Milliseconds that `work` takes.
pub(crate) fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

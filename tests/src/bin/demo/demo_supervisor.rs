//! A real `proctor serve` as a child process: host file, start and stop.

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use proctor_proto::client::connect_unix;
use std::fs::{self, File};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

/// Id of the demo's tenant: the user that runs the demo.
const TENANT: &str = "demo";

/// User id of the tenant's runs.
const TENANT_UID: u32 = 500_000;

/// Longest wait for the supervisor's start and for its end, which includes killing a run in flight.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Additional keys for tables of the host file.
#[derive(Default)]
pub(crate) struct ExtraKeys<'a> {
    pub(crate) host: &'a str,
    pub(crate) tenant: &'a str,
}

/// A running supervisor. Dropping it kills the process.
pub(crate) struct Supervisor {
    child: Child,
    log: PathBuf,
}

impl Supervisor {
    /// Starts the `proctor` beside this program with socket and log in `dir` and caches in `state`. Workspaces lie below
    /// `roots`, which is given to the tenant's user. Returns the supervisor with a channel once it answers.
    pub(crate) async fn start(
        dir: &Path,
        state: &Path,
        roots: &Path,
        extra: ExtraKeys<'_>,
    ) -> Result<(Supervisor, Channel)> {
        let (config, socket, log) = (dir.join("proctor.toml"), dir.join("proctor.sock"), dir.join("supervisor.log"));
        fs::write(&config, host_file(&socket, state, roots, &extra)).context("writing the host file")?;
        chown_tree(roots).context("giving the workspaces to the tenant")?;
        let mut supervisor = Supervisor::spawn(&config, log, &[])?;
        let channel = supervisor.wait_until_ready(&socket).await?;
        Ok((supervisor, channel))
    }

    /// Starts the process with an existing host file and additional environment variables, without waiting for it.
    pub(crate) fn spawn(config: &Path, log: PathBuf, env: &[(&str, &Path)]) -> Result<Supervisor> {
        let output = File::create(&log).context("making the supervisor's log")?;
        let child = command(&program("proctor")?)
            .args(["serve", "--config"])
            .arg(config)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .context("starting `proctor serve`")?;
        Ok(Supervisor { child, log })
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and returns the exit status.
    pub(crate) async fn stop(mut self) -> Result<ExitStatus> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).context("the supervisor's process id")?);
        kill(pid, Signal::SIGTERM).context("SIGTERM to the supervisor")?;
        let deadline = Instant::now() + WAIT_MAX;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bail!("the supervisor did not end within {WAIT_MAX:?} of SIGTERM; {}", self.log_tail())
    }

    async fn wait_until_ready(&mut self, socket: &Path) -> Result<Channel> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Ok(channel) = connect_unix(socket.to_owned()).await {
                return Ok(channel);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the supervisor ended at once ({status}); {}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("the supervisor does not answer after {WAIT_MAX:?}; {}", self.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("its log ends with:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // After `stop` the child is reaped already and both calls return errors.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

// Everything else has its default, including the required layers: a host that lacks one refuses every run.
fn host_file(socket: &Path, state: &Path, roots: &Path, extra: &ExtraKeys<'_>) -> String {
    let (uid, ExtraKeys { host, tenant }) = (getuid(), extra);
    format!(
        "state_dir = {state:?}\n\n[listen]\nunix = {socket:?}\n\n[defaults]\nkill_grace = \"2s\"\n\n\
         [host]\n{host}\n[operators]\nuids = [{uid}]\n\n[[tenant]]\nid = {TENANT:?}\nuids = [{uid}]\nroots = [{roots:?}]\n\
         uid_range = {{ first = {TENANT_UID}, count = 1 }}\n{tenant}\n"
    )
}

// The tenant's runs have a user id of their own, which must own the workspaces.
fn chown_tree(path: &Path) -> std::io::Result<()> {
    lchown(path, Some(TENANT_UID), Some(TENANT_UID))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            chown_tree(&entry?.path())?;
        }
    }
    Ok(())
}

/// Path of a program from the same build: beside this one, or one directory up when this is a benchmark.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program")?;
    let dirs = own.ancestors().skip(1).take(2);
    let found = dirs.map(|dir| dir.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is not built: `cargo build --release --locked --bins` builds it"))
}

#[expect(clippy::disallowed_methods, reason = "the supervisor is the one process that starts outside of a sandbox")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

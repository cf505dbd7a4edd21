//! A real `proctor serve` as a child process: its host file, its start, its end. Must not know what is asked of it.

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

/// The demo's tenant, which is whoever runs it.
const TENANT: &str = "demo";

/// The user of this host whom the tenant's runs are.
const TENANT_UID: u32 = 500_000;

/// Longest wait for the supervisor's start and for its end, which includes the death of a run in flight.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a host file says beyond what is needed: more keys of its tables.
#[derive(Default)]
pub(crate) struct More<'a> {
    pub(crate) host: &'a str,
    pub(crate) tenant: &'a str,
}

/// A supervisor that is killed when this is dropped.
pub(crate) struct Supervisor {
    child: Child,
    log: PathBuf,
}

impl Supervisor {
    /// Starts the `proctor` beside this program with its socket and log in `dir`, its caches in `state`, for workspaces
    /// below `roots`, which are given to the tenant's user, with `more` in its host file. Returns it with a channel when it answers.
    pub(crate) async fn start(dir: &Path, state: &Path, roots: &Path, more: More<'_>) -> Result<(Supervisor, Channel)> {
        let (config, socket, log) = (dir.join("proctor.toml"), dir.join("proctor.sock"), dir.join("supervisor.log"));
        fs::write(&config, host_file(&socket, state, roots, &more)).context("writing the host file")?;
        give(roots).context("giving the workspaces to the tenant")?;
        let mut supervisor = Supervisor::spawn(&config, log, &[])?;
        let channel = supervisor.answering(&socket).await?;
        Ok((supervisor, channel))
    }

    /// Starts it with a host file that is there, and more in its environment. It may not answer yet.
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

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM, and the status with which it ended.
    pub(crate) async fn stop(mut self) -> Result<ExitStatus> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).context("the supervisor's process id")?);
        kill(pid, Signal::SIGTERM).context("SIGTERM to the supervisor")?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bail!("the supervisor did not end within {PATIENCE:?} of SIGTERM; {}", self.last_words())
    }

    async fn answering(&mut self, socket: &Path) -> Result<Channel> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(channel) = connect_unix(socket.to_owned()).await {
                return Ok(channel);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the supervisor ended at once ({status}); {}", self.last_words());
            }
            if Instant::now() > until {
                bail!("the supervisor does not answer after {PATIENCE:?}; {}", self.last_words());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("its log ends with:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // After `stop` the child is reaped already, and both calls say so.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

// Everything that this file does not name is built in, the required layers too: a host that lacks one refuses every run.
fn host_file(socket: &Path, state: &Path, roots: &Path, more: &More<'_>) -> String {
    let (uid, More { host, tenant }) = (getuid(), more);
    format!(
        "state_dir = {state:?}\n\n[listen]\nunix = {socket:?}\n\n[defaults]\nkill_grace = \"2s\"\n\n\
         [host]\n{host}\n[operators]\nuids = [{uid}]\n\n[[tenant]]\nid = {TENANT:?}\nuids = [{uid}]\nroots = [{roots:?}]\n\
         uid_range = {{ first = {TENANT_UID}, count = 1 }}\n{tenant}\n"
    )
}

// A tenant's runs are a user of its own, to whom its workspaces belong.
fn give(path: &Path) -> std::io::Result<()> {
    lchown(path, Some(TENANT_UID), Some(TENANT_UID))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path())?;
        }
    }
    Ok(())
}

/// A program that was built together with this one: beside it, or one directory up for a benchmark.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program")?;
    let dirs = own.ancestors().skip(1).take(2);
    let found = dirs.map(|dir| dir.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is not built: `cargo build --release --locked --bins` builds it"))
}

#[expect(clippy::disallowed_methods, reason = "the supervisor is the one process that is started outside of a sandbox")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

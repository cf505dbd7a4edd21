//! A zygote: the launcher process that has set up what all runs of a jail share and forks a prepared worker for each
//! run.

use crate::buffered_writes::BufferedWriteLimiter;
use crate::cgroup::{
    self, BlockDevice, Counters, CpuLedger, CpuMeter, Hierarchies, HierarchyMode, Leaf, LeafSetup, REMOVE_WAIT,
    TransientFailure,
};
use crate::control_socket::{Channel, wait_readable};
use crate::enforcement::{Enforcement, init_limits};
use crate::error::SandboxError;
use crate::exhausted_resource::exhausted_resource;
use crate::layer_plan;
use crate::setup_wait::{SETUP_TIMEOUTS, receive_first_message};
use crate::spec::{Jail, RunAs, RunSpec};
use crate::unkillable::UnkillableProcesses;
use crate::user_limits::UserLimits;
use crate::worker_protocol::{
    Failure, FromInit, FromLauncher, Identity, MissingLayer, ToInit, ToLauncher, ZygotePlan, pack,
};
use crate::workspace_fd::DirId;
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getegid, geteuid, pidfd_open, pidfd_send_signal, waitid,
};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a killed run may take to die. A namespace of a thousand spinning processes takes about a second; a process
/// that waits for a hanging disk or network file system takes as long as that hangs.
pub const DEATH_WAIT: Duration = Duration::from_secs(60);

/// The same for a worker whose setup failed: it runs nothing of a tenant, and was already waited for.
const DEATH_WAIT_AT_SETUP: Duration = Duration::from_secs(2);

/// How long the launcher may take to exit when all its children are dead.
const LAUNCHER_WAIT: Duration = Duration::from_secs(2);

/// Most bytes of a launcher's stderr that are logged.
const STDERR_BYTES_MAX: usize = 4 * 1024;

/// User and group of runs in a workspace of another user: beyond the ids that distributions and systemd give to people,
/// services and containers.
pub(crate) const NOBODY: u32 = 2_000_000_000;

/// A launcher in which workers can be forked.
pub(crate) struct Zygote {
    launcher: Arc<Launcher>,
}

/// A running launcher process. Dropping the last handle, the zygote's or a worker's, ends it and every worker it has
/// forked.
struct Launcher {
    child: Child,
    /// Readable when it is dead.
    pidfd: OwnedFd,
    stderr: ChildStderr,
    /// Control socket; `None` when the launcher is being ended.
    channel: Option<Channel>,
    /// Whether the setup was given up because the launcher does not answer.
    is_stuck: AtomicBool,
    unkillable: Arc<UnkillableProcesses>,
}

impl Launcher {
    /// Spawns `binary`, which then waits for its plan.
    ///
    /// The supervisor is not forked: std spawns without copying page tables as long as there is no `pre_exec`.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
    fn spawn(binary: &Path, unkillable: &Arc<UnkillableProcesses>) -> Result<Launcher, SandboxError> {
        let (channel, their_end) = Channel::pair().map_err(SandboxError::kernel("making a control socket"))?;
        let missing = |source| {
            SandboxError::from_io(source, "starting a worker", |source| SandboxError::WorkerMissing {
                binary: binary.to_owned(),
                source,
            })
        };
        let mut child = Command::new(binary)
            .arg(crate::worker::RUN)
            .env_clear()
            // Ctrl-C in a terminal is for the supervisor, which then ends the run itself.
            .process_group(0)
            .stdin(Stdio::from(their_end))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(missing)?;
        let stderr = child.stderr.take().ok_or_else(|| io::Error::other("the worker has no stderr"));
        let handles = stderr.and_then(|stderr| {
            fcntl_setfl(&stderr, fcntl_getfl(&stderr)? | OFlags::NONBLOCK)?;
            Ok((stderr, pidfd(&child)?))
        });
        match handles {
            Ok((stderr, pidfd)) => {
                let (is_stuck, unkillable) = (AtomicBool::new(false), Arc::clone(unkillable));
                Ok(Launcher { child, pidfd, stderr, channel: Some(channel), is_stuck, unkillable })
            }
            Err(source) => {
                // Without a pidfd the wait for its death would have no bound.
                let _gone = child.kill().and_then(|()| child.wait());
                Err(SandboxError::kernel("opening a pidfd")(source))
            }
        }
    }

    fn send(&self, message: &ToLauncher, fds: &[BorrowedFd<'_>]) -> Result<(), SandboxError> {
        let sent = match &self.channel {
            Some(channel) => channel.send(message, fds),
            None => Err(io::Error::from(io::ErrorKind::NotConnected)),
        };
        sent.map_err(|error| self.channel_error("taking its plan", error, Launcher::exit_error))
    }

    fn receive(&self) -> Result<(FromLauncher, Option<OwnedFd>), SandboxError> {
        let received = match &self.channel {
            Some(channel) => receive_first_message(channel, self.child.id(), SETUP_TIMEOUTS),
            None => Ok(None),
        };
        match received {
            Ok(Some((FromLauncher::Refused(missing), _))) => Err(layer_missing(missing)),
            Ok(Some((FromLauncher::Failed(failure), _))) => Err(self.error_from_failure(failure)),
            Ok(Some((message, fds))) => Ok((message, fds.into_iter().next())),
            Ok(None) => Err(self.exit_error("set-up")),
            Err(error) => {
                let error = self.channel_error("set-up", error, Launcher::exit_error);
                self.is_stuck.store(matches!(error, SandboxError::WorkerStuck { .. }), Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Error for a failure that the worker has reported.
    fn error_from_failure(&self, Failure { step, reason, errno }: Failure) -> SandboxError {
        match errno.map(io::Error::from_raw_os_error).filter(|source| exhausted_resource(source).is_some()) {
            Some(source) => SandboxError::HostExhausted { operation: step, source },
            None => self.failed(&step, reason),
        }
    }

    /// Error for a broken control socket; `gone` makes the error for a process that is dead.
    fn channel_error(&self, step: &str, error: io::Error, gone: fn(&Launcher, &str) -> SandboxError) -> SandboxError {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => gone(self, step),
            io::ErrorKind::TimedOut => SandboxError::WorkerStuck { step: step.to_owned(), state: error.to_string() },
            _ => SandboxError::from_io(error, step, |error| self.failed(step, error.to_string())),
        }
    }

    /// Error for a dead launcher. A killed launcher could not report why; one that exits without a report is a wrong
    /// binary.
    fn exit_error(&self, step: &str) -> SandboxError {
        match self.exit_code() {
            Some(code) => self.failed(step, format!("the worker exited with {code} without a message")),
            None => self.killed_error(step),
        }
    }

    /// Error for a process that was killed.
    fn killed_error(&self, step: &str) -> SandboxError {
        SandboxError::WorkerDied { step: step.to_owned(), stderr: self.stderr_text() }
    }

    /// Exit code; `None` if the launcher was killed.
    fn exit_code(&self) -> Option<i32> {
        // Its socket closes a little before its death can be seen.
        wait_readable(&self.pidfd, LAUNCHER_WAIT).ok()?;
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::PidFd(self.pidfd.as_fd()), how).ok()??.exit_status()
    }

    /// Error for a worker that cannot go on, with what it has written to stderr so far.
    fn failed(&self, step: &str, reason: String) -> SandboxError {
        SandboxError::WorkerFailed { step: step.to_owned(), reason, stderr: self.stderr_text() }
    }

    fn stderr_text(&self) -> String {
        let mut text = [0; STDERR_BYTES_MAX];
        let len = rustix::io::read(&self.stderr, &mut text).unwrap_or(0);
        String::from_utf8_lossy(&text[..len]).into_owned()
    }

    fn is_dead(&self) -> bool {
        wait_readable(&self.pidfd, Duration::ZERO).is_ok()
    }

    /// Closes the control socket, upon which the launcher kills its children, and waits until it is dead and reaped.
    fn kill_and_wait(&mut self) -> io::Result<()> {
        self.channel = None;
        if wait_readable(&self.pidfd, LAUNCHER_WAIT).is_err() {
            self.child.kill()?;
            // A launcher that was given up is not waited for in full.
            let is_stuck = self.is_stuck.load(Ordering::Relaxed);
            wait_readable(&self.pidfd, if is_stuck { DEATH_WAIT_AT_SETUP } else { DEATH_WAIT })?;
        }
        self.child.wait().map(drop)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Err(error) = self.kill_and_wait() {
            tracing::error!(%error, "a launcher is still alive after its kill");
            self.unkillable.add(&self.pidfd, None);
        }
    }
}

impl Zygote {
    /// Spawns `binary` and waits until it has set up what all runs share.
    pub(crate) fn start(
        binary: &Path,
        jail: &Jail,
        workspace_id: DirId,
        privileged: bool,
        unkillable: &Arc<UnkillableProcesses>,
    ) -> Result<Zygote, SandboxError> {
        let plan = zygote_plan(jail, workspace_id, privileged)?;
        let launcher = Launcher::spawn(binary, unkillable)?;
        let packed = pack(&plan, std::iter::empty()).map_err(SandboxError::kernel("packing a plan"))?;
        launcher.send(&ToLauncher::Plan, &[packed.as_fd()])?;
        match launcher.receive()? {
            (FromLauncher::Ready, _) => Ok(Zygote { launcher: Arc::new(launcher) }),
            (message, _) => Err(launcher.failed("starting a zygote", format!("unexpected message {message:?}"))),
        }
    }

    /// Forks a worker for one run with `limits`, inside a leaf whose limits have read back, and waits until every layer
    /// is installed.
    pub(crate) fn prepare(
        &self,
        hierarchies: &Hierarchies,
        ledger: &Arc<CpuLedger>,
        jail: &Jail,
        limits: &Limits,
    ) -> Result<Worker, SandboxError> {
        let LeafSetup { leaf, limits: in_force, missing } =
            cgroup::open(hierarchies, &jail.owner, limits, &block_devices(jail)).map_err(transient_error)?;
        let enforcement = Enforcement::from_leaf(leaf.is_some(), in_force, missing);
        enforcement.refuse_without_leaf(jail)?;
        let (our_end, their_end) = Channel::pair().map_err(SandboxError::kernel("making a control socket"))?;
        let cpu_meter = leaf.as_deref().map(|leaf| CpuMeter::new(ledger, &jail.owner, leaf));
        let clone_target = leaf.as_deref().and_then(Leaf::clone_target);
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(their_end.as_fd()).chain(clone_target).collect();
        let reply = self.launcher.send(&ToLauncher::Fork, &fds).and_then(|()| self.launcher.receive());
        drop(fds);
        drop(their_end);
        // If a group was removed from outside meanwhile, the removal is the cause of any error.
        let (pid, init) = match reply {
            Ok((FromLauncher::Forked { pid }, Some(init))) => (pid, init),
            Ok((message, _)) => {
                return Err(self.launcher.failed("forking init", format!("unexpected message {message:?}")));
            }
            Err(error) => return Err(or_group_removed(error, leaf.as_deref(), "forking init")),
        };
        let launcher = Arc::clone(&self.launcher);
        let death_wait = Cell::new(DEATH_WAIT);
        let mut worker = Worker {
            pid,
            init,
            channel: our_end,
            leaf,
            cpu_meter,
            enforcement,
            scratch: None,
            mounts: None,
            death_wait,
            launcher,
        };
        match self.install_layers(hierarchies, jail, limits, &mut worker) {
            Ok(()) => Ok(worker),
            Err(error) => {
                worker.death_wait.set(DEATH_WAIT_AT_SETUP);
                Err(or_group_removed(error, worker.leaf.as_deref(), "set-up"))
            }
        }
    }

    /// Makes `worker` enter its leaf and install every layer.
    fn install_layers(
        &self,
        hierarchies: &Hierarchies,
        jail: &Jail,
        limits: &Limits,
        worker: &mut Worker,
    ) -> Result<(), SandboxError> {
        let launcher = &self.launcher;
        let join_files = worker.leaf.as_ref().map_or_else(|| Ok(Vec::new()), |leaf| leaf.join_files());
        let join_files = join_files.map_err(SandboxError::kernel("opening a cgroup leaf"))?;
        let join_files: Vec<BorrowedFd<'_>> = join_files.iter().map(AsFd::as_fd).collect();
        let is_v2 = worker.leaf.is_some() && hierarchies.mode == HierarchyMode::V2;
        let sent = worker.channel.send(&ToInit::Begin(init_limits(limits, is_v2)), &join_files);
        sent.map_err(|error| launcher.channel_error("its start", error, Launcher::killed_error))?;
        let received = receive_first_message::<FromInit>(&worker.channel, worker.pid, SETUP_TIMEOUTS);
        match received.map_err(|error| launcher.channel_error("set-up", error, Launcher::killed_error))? {
            Some((FromInit::Ready { applied, missing }, fds)) => {
                // Init asked for its death signal the last time before this message. From now on it dies with its
                // launcher, unless the launcher was dead before.
                if launcher.is_dead() {
                    return Err(launcher.killed_error("set-up"));
                }
                let mut fds = fds.into_iter();
                (worker.scratch, worker.mounts) = (fds.next(), fds.next());
                let scratch = worker.scratch.as_ref();
                worker.enforcement.record_worker_layers(jail, limits, &applied, missing, scratch)
            }
            Some((FromInit::Refused(missing), _)) => Err(layer_missing(missing)),
            Some((FromInit::Failed(failure), _)) => Err(launcher.error_from_failure(failure)),
            Some((message, _)) => Err(launcher.failed("set-up", format!("unexpected message {message:?}"))),
            None => Err(launcher.killed_error("set-up")),
        }
    }
}

/// Disks that a run can write to.
fn block_devices(jail: &Jail) -> Vec<BlockDevice> {
    let paths = std::iter::once(&jail.workspace).chain(&jail.writable);
    cgroup::block_devices_of(paths.map(PathBuf::as_path))
}

/// Limiter of a run's buffered writes to the disks that its write limit covers.
pub(crate) fn buffered_writes(spec: &RunSpec, now: Instant) -> BufferedWriteLimiter {
    let devices = u64::try_from(block_devices(&spec.jail).len()).unwrap_or(1).max(1);
    BufferedWriteLimiter::new(spec.limits.write_bytes_per_s_max, devices, now)
}

fn transient_error(failure: TransientFailure) -> SandboxError {
    let step = "making a cgroup leaf".to_owned();
    match failure {
        TransientFailure::Exhausted(source) => SandboxError::HostExhausted { operation: step, source },
        TransientFailure::Removed => SandboxError::GroupRemoved { step },
    }
}

/// Returns the error, or that a group of `leaf` was removed, which then caused the error.
fn or_group_removed(error: SandboxError, leaf: Option<&dyn Leaf>, step: &str) -> SandboxError {
    match leaf {
        Some(leaf) if !error.is_transient() && leaf.is_removed() => {
            tracing::warn!(%error, "a run's cgroup was removed while its worker was prepared");
            SandboxError::GroupRemoved { step: step.to_owned() }
        }
        _ => error,
    }
}

fn layer_missing(MissingLayer { layer, reason, remedy }: MissingLayer) -> SandboxError {
    SandboxError::LayerMissing { layer, reason, remedy }
}

fn zygote_plan(jail: &Jail, workspace_id: DirId, privileged: bool) -> Result<ZygotePlan, SandboxError> {
    Ok(ZygotePlan {
        privileged,
        rows: layer_plan::rows_for(jail, privileged)?,
        user_limits: UserLimits::read(),
        identity: match jail.left_off.contains(&Layer::TenantUid) {
            true => identity(RunAs::Supervisor),
            false => identity(jail.run_as),
        },
        workspace: jail.workspace.clone(),
        workspace_id,
        read_only: jail.read_only.clone(),
        writable: jail.writable.clone(),
        replaced_file: jail.replaced_file.as_deref().cloned(),
        kept_paths: layer_plan::paths_to_keep(jail),
        has_network: jail.network == Network::Host,
    })
}

fn identity(run_as: RunAs) -> Identity {
    match run_as {
        RunAs::Supervisor => {
            Identity { uid: geteuid().as_raw(), gid: getegid().as_raw(), is_other: false, owner_shown_as_run: None }
        }
        RunAs::User { uid, gid } => Identity { uid, gid, is_other: true, owner_shown_as_run: None },
        RunAs::Nobody { owner_uid, owner_gid } => {
            Identity { uid: NOBODY, gid: NOBODY, is_other: true, owner_shown_as_run: Some((owner_uid, owner_gid)) }
        }
    }
}

/// Init of one run, in its leaf, with all layers installed. Dropping it kills the whole run, waits for its death and
/// removes the leaf: fields are dropped in their order.
pub(crate) struct Worker {
    /// Pid of init on the host.
    pub(crate) pid: u32,
    /// Pidfd of init: readable when everything in the run's pid namespace is dead.
    init: OwnedFd,
    pub(crate) channel: Channel,
    pub(crate) leaf: Option<Box<dyn Leaf>>,
    cpu_meter: Option<CpuMeter>,
    pub(crate) enforcement: Enforcement,
    /// The run's scratch directory, as a descriptor that outlives the run's mounts.
    pub(crate) scratch: Option<OwnedFd>,
    /// The run's mount namespace. The last process to release it takes the mounts apart, which takes longer than the
    /// rest of the run's end, so this handle outlives init.
    pub(crate) mounts: Option<OwnedFd>,
    /// How long its death is waited for; zero after a wait has failed.
    death_wait: Cell<Duration>,
    /// Reaps init, and init dies with it.
    launcher: Arc<Launcher>,
}

impl Worker {
    /// Whether init is alive.
    pub(crate) fn is_alive(&self) -> bool {
        wait_readable(&self.init, Duration::ZERO).is_err()
    }

    /// Updates the tenant's CPU boost, which may have changed while the worker waited.
    pub(crate) fn refresh_cpu_boost(&self) {
        if let (Some(leaf), Some(cpu_meter)) = (&self.leaf, &self.cpu_meter) {
            cpu_meter.refresh(leaf.as_ref());
        }
    }

    /// Reads the leaf's counters and charges its processor time to the tenant.
    pub(crate) fn charge_and_read_counters(&self) -> Option<Counters> {
        let (leaf, cpu_meter) = (self.leaf.as_ref()?, self.cpu_meter.as_ref()?);
        let counters = leaf.counters();
        cpu_meter.charge(leaf.as_ref(), &counters);
        Some(counters)
    }

    /// Kills the whole run: killing init kills its pid namespace. The launcher reaps init.
    pub(crate) fn kill(&self) {
        // Fails only if init is dead and reaped.
        let _killed = pidfd_send_signal(&self.init, Signal::KILL);
    }

    /// Kills what is left of the run and waits until the last process is dead.
    pub(crate) fn kill_and_wait(&self) -> io::Result<()> {
        self.kill();
        wait_readable(&self.init, self.death_wait.replace(Duration::ZERO))
    }

    /// Ends a worker that never had a run.
    pub(crate) fn end_unused(&self) -> io::Result<()> {
        self.death_wait.set(DEATH_WAIT_AT_SETUP);
        self.kill_and_wait()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Err(error) = self.kill_and_wait() {
            tracing::error!(%error, "a run is still alive after its kill");
            if let Some(leaf) = &self.leaf {
                leaf.kill();
            }
            self.launcher.unkillable.add(&self.init, self.leaf.take());
        }
        if let Some(Err(error)) = self.leaf.as_mut().map(|leaf| leaf.remove(REMOVE_WAIT)) {
            tracing::error!(%error, "a cgroup leaf could not be removed");
        }
    }
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the process id is out of range"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

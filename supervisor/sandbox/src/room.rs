//! A room as the supervisor holds it: the launcher, which has made what all runs of a jail share, and the workers that it
//! forks. Must not know what a run is, or how many rooms there are.

use crate::buffered_writes::BufferedWrites;
use crate::cgroup::{self, Counters, Disk, Leaf, Ledger, Mode, Opened, Passing, Places, REMOVE_WAIT, Tab};
use crate::channel::{Channel, wait_readable};
use crate::error::SandboxError;
use crate::hold::Id;
use crate::in_force::{InForce, allotment};
use crate::lack::lack;
use crate::message::{Failure, FromInit, FromLauncher, Identity, MissingLayer, RoomPlan, ToInit, ToLauncher, pack};
use crate::plan;
use crate::set_up::{SET_UP_WAITS, first_word};
use crate::spec::{Jail, RunAs, RunSpec};
use crate::undead::Undead;
use crate::user_limits::UserLimits;
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

/// How long a killed run may take to be dead. A namespace of a thousand spinning processes takes about a second; a
/// process inside a hanging disk or network file system takes as long as that hangs.
pub const DEATH_WAIT: Duration = Duration::from_secs(60);

/// The same for one that was never set up: nothing of a tenant is in it, and it was waited for already.
const DEATH_WAIT_AT_SET_UP: Duration = Duration::from_secs(2);

/// How long the launcher may take to exit when nothing of it is alive.
const LAUNCHER_WAIT: Duration = Duration::from_secs(2);

/// Bytes of a launcher's own stderr that are kept for the log.
const STDERR_BYTES_MAX: usize = 4 * 1024;

/// The user, and the group, of runs whose files are those of somebody else: beyond what distributions and systemd give to
/// people, services and containers.
pub(crate) const NOBODY: u32 = 2_000_000_000;

/// A room that workers can be forked in.
pub(crate) struct Room {
    launcher: Arc<Launcher>,
}

/// A running launcher. The last handle to it, the room's or a worker's, ends it and every worker that it has forked.
struct Launcher {
    child: Child,
    /// Readable when it is dead.
    pidfd: OwnedFd,
    stderr: ChildStderr,
    /// `None` when it is to end.
    channel: Option<Channel>,
    /// Whether it was given up at its set-up.
    is_stuck: AtomicBool,
    undead: Arc<Undead>,
}

impl Launcher {
    /// Spawns `binary`; it then waits for its plan.
    ///
    /// Nothing of the supervisor is forked: std spawns without copying page tables as long as there is no `pre_exec`.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
    fn spawn(binary: &Path, undead: &Arc<Undead>) -> Result<Launcher, SandboxError> {
        let (channel, theirs) = Channel::pair().map_err(SandboxError::kernel("making a control socket"))?;
        let missing = |source| {
            SandboxError::of(source, "starting a worker", |source| SandboxError::WorkerMissing {
                binary: binary.to_owned(),
                source,
            })
        };
        let mut child = Command::new(binary)
            .arg(crate::worker::RUN)
            .env_clear()
            // Ctrl-C in a terminal is for the supervisor, which then ends the run in its own way.
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(missing)?;
        let stderr = child.stderr.take().ok_or_else(|| io::Error::other("the worker has no stderr"));
        let quiet = stderr.and_then(|stderr| {
            fcntl_setfl(&stderr, fcntl_getfl(&stderr)? | OFlags::NONBLOCK)?;
            Ok((stderr, pidfd(&child)?))
        });
        match quiet {
            Ok((stderr, pidfd)) => {
                let (is_stuck, undead) = (AtomicBool::new(false), Arc::clone(undead));
                Ok(Launcher { child, pidfd, stderr, channel: Some(channel), is_stuck, undead })
            }
            Err(source) => {
                // Without a pidfd nobody could wait for it with a bound.
                let _gone = child.kill().and_then(|()| child.wait());
                Err(SandboxError::kernel("opening a pidfd")(source))
            }
        }
    }

    fn tell(&self, message: &ToLauncher, fds: &[BorrowedFd<'_>]) -> Result<(), SandboxError> {
        let told = match &self.channel {
            Some(channel) => channel.send(message, fds),
            None => Err(io::Error::from(io::ErrorKind::NotConnected)),
        };
        told.map_err(|error| self.deaf("taking its plan", error, Launcher::died))
    }

    fn hear(&self) -> Result<(FromLauncher, Option<OwnedFd>), SandboxError> {
        let heard = match &self.channel {
            Some(channel) => first_word(channel, self.child.id(), SET_UP_WAITS),
            None => Ok(None),
        };
        match heard {
            Ok(Some((FromLauncher::Refused(missing), _))) => Err(refused(missing)),
            Ok(Some((FromLauncher::Failed(failure), _))) => Err(self.gave_up(failure)),
            Ok(Some((said, fds))) => Ok((said, fds.into_iter().next())),
            Ok(None) => Err(self.died("set-up")),
            Err(error) => {
                let error = self.deaf("set-up", error, Launcher::died);
                self.is_stuck.store(matches!(error, SandboxError::WorkerStuck { .. }), Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// What the worker says of its end.
    fn gave_up(&self, Failure { step, reason, errno }: Failure) -> SandboxError {
        match errno.map(io::Error::from_raw_os_error).filter(|source| lack(source).is_some()) {
            Some(source) => SandboxError::HostLacks { operation: step, source },
            None => self.failed(&step, reason),
        }
    }

    /// What it means that the worker cannot be spoken with; `gone`, when it is not there any more.
    fn deaf(&self, step: &str, error: io::Error, gone: fn(&Launcher, &str) -> SandboxError) -> SandboxError {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => gone(self, step),
            io::ErrorKind::TimedOut => SandboxError::WorkerStuck { step: step.to_owned(), state: error.to_string() },
            _ => SandboxError::of(error, step, |error| self.failed(step, error.to_string())),
        }
    }

    /// What it means that the launcher is gone: whoever was killed had no chance to say why, and one that exits without a word
    /// is not ours.
    fn died(&self, step: &str) -> SandboxError {
        match self.exit_code() {
            Some(code) => self.failed(step, format!("the worker exited with {code} without a word")),
            None => self.lost(step),
        }
    }

    /// What it means that an init of its own is gone.
    fn lost(&self, step: &str) -> SandboxError {
        SandboxError::WorkerDied { step: step.to_owned(), stderr: self.last_words() }
    }

    /// With what it exited; `None` when it was killed.
    fn exit_code(&self) -> Option<i32> {
        // Its socket closes a little before its end can be seen.
        wait_readable(&self.pidfd, LAUNCHER_WAIT).ok()?;
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::PidFd(self.pidfd.as_fd()), how).ok()??.exit_status()
    }

    /// Why the worker cannot go on, with its own last words as far as they have come.
    fn failed(&self, step: &str, reason: String) -> SandboxError {
        SandboxError::WorkerFailed { step: step.to_owned(), reason, stderr: self.last_words() }
    }

    fn last_words(&self) -> String {
        let mut said = [0; STDERR_BYTES_MAX];
        let len = rustix::io::read(&self.stderr, &mut said).unwrap_or(0);
        String::from_utf8_lossy(&said[..len]).into_owned()
    }

    fn is_dead(&self) -> bool {
        wait_readable(&self.pidfd, Duration::ZERO).is_ok()
    }

    /// Lets go of it, upon which it kills what it has forked, and waits until it is dead and reaped.
    fn end(&mut self) -> io::Result<()> {
        self.channel = None;
        if wait_readable(&self.pidfd, LAUNCHER_WAIT).is_err() {
            self.child.kill()?;
            // One that is given up is never reaped.
            let is_stuck = self.is_stuck.load(Ordering::Relaxed);
            wait_readable(&self.pidfd, if is_stuck { DEATH_WAIT_AT_SET_UP } else { DEATH_WAIT })?;
        }
        self.child.wait().map(drop)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "a launcher could not be ended");
            self.undead.add(&self.pidfd, None);
        }
    }
}

impl Room {
    /// Spawns `binary` and waits until it has made the room.
    pub(crate) fn open(
        binary: &Path,
        jail: &Jail,
        workspace_id: Id,
        privileged: bool,
        undead: &Arc<Undead>,
    ) -> Result<Room, SandboxError> {
        let plan = room_plan(jail, workspace_id, privileged)?;
        let launcher = Launcher::spawn(binary, undead)?;
        let packed = pack(&plan, std::iter::empty()).map_err(SandboxError::kernel("packing a plan"))?;
        launcher.tell(&ToLauncher::Room, &[packed.as_fd()])?;
        match launcher.hear()? {
            (FromLauncher::Ready, _) => Ok(Room { launcher: Arc::new(launcher) }),
            (said, _) => Err(launcher.failed("making the room", format!("it said {said:?}"))),
        }
    }

    /// Forks a worker for one run with `limits`, inside a leaf whose limits have read back, and waits until it has put on
    /// every layer.
    pub(crate) fn prepare(
        &self,
        places: &Places,
        ledger: &Arc<Ledger>,
        jail: &Jail,
        limits: &Limits,
    ) -> Result<Worker, SandboxError> {
        let Opened { leaf, in_force, missing } =
            cgroup::open(places, &jail.owner, limits, &disks(jail)).map_err(passing)?;
        let in_force = InForce::of_leaf(leaf.is_some(), in_force, missing);
        in_force.refuse_without_leaf(jail)?;
        let (ours, theirs) = Channel::pair().map_err(SandboxError::kernel("making a control socket"))?;
        let tab = leaf.as_deref().map(|leaf| Tab::open(ledger, &jail.owner, leaf));
        let birth = leaf.as_deref().and_then(Leaf::birth);
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(theirs.as_fd()).chain(birth).collect();
        let forked = self.launcher.tell(&ToLauncher::Fork, &fds).and_then(|()| self.launcher.hear());
        drop(fds);
        drop(theirs);
        // Whatever is said of a group that somebody has removed meanwhile is about the removal.
        let (pid, init) = match forked {
            Ok((FromLauncher::Forked { pid }, Some(init))) => (pid, init),
            Ok((said, _)) => return Err(self.launcher.failed("forking init", format!("it said {said:?}"))),
            Err(error) => return Err(or_gone(error, leaf.as_deref(), "forking init")),
        };
        let launcher = Arc::clone(&self.launcher);
        let death_wait = Cell::new(DEATH_WAIT);
        let mut worker =
            Worker { pid, init, channel: ours, leaf, tab, in_force, scratch: None, mounts: None, death_wait, launcher };
        match self.set_up(places, jail, limits, &mut worker) {
            Ok(()) => Ok(worker),
            Err(error) => {
                worker.death_wait.set(DEATH_WAIT_AT_SET_UP);
                Err(or_gone(error, worker.leaf.as_deref(), "set-up"))
            }
        }
    }

    /// Has `worker` go into its leaf and put on every layer.
    fn set_up(&self, places: &Places, jail: &Jail, limits: &Limits, worker: &mut Worker) -> Result<(), SandboxError> {
        let launcher = &self.launcher;
        let doors = worker.leaf.as_ref().map_or_else(|| Ok(Vec::new()), |leaf| leaf.doors());
        let doors = doors.map_err(SandboxError::kernel("opening a cgroup leaf"))?;
        let doors: Vec<BorrowedFd<'_>> = doors.iter().map(AsFd::as_fd).collect();
        let is_in_v2 = worker.leaf.is_some() && places.mode == Mode::V2;
        let told = worker.channel.send(&ToInit::Begin(allotment(limits, is_in_v2)), &doors);
        told.map_err(|error| launcher.deaf("beginning", error, Launcher::lost))?;
        let heard = first_word::<FromInit>(&worker.channel, worker.pid, SET_UP_WAITS);
        match heard.map_err(|error| launcher.deaf("set-up", error, Launcher::lost))? {
            Some((FromInit::Ready { applied, missing }, fds)) => {
                // Before this word init asks for its death signal for the last time. From here on it dies with its launcher,
                // unless that was dead before.
                if launcher.is_dead() {
                    return Err(launcher.lost("set-up"));
                }
                let mut fds = fds.into_iter();
                (worker.scratch, worker.mounts) = (fds.next(), fds.next());
                let scratch = worker.scratch.as_ref();
                worker.in_force.complete(jail, limits, &applied, missing, scratch)
            }
            Some((FromInit::Refused(missing), _)) => Err(refused(missing)),
            Some((FromInit::Failed(failure), _)) => Err(launcher.gave_up(failure)),
            Some((said, _)) => Err(launcher.failed("set-up", format!("it said {said:?}"))),
            None => Err(launcher.lost("set-up")),
        }
    }
}

/// The disks that a run can write to.
fn disks(jail: &Jail) -> Vec<Disk> {
    let paths = std::iter::once(&jail.workspace).chain(&jail.writable);
    cgroup::disks_of(paths.map(PathBuf::as_path))
}

/// The watch of what a run writes behind the page cache, to disks that its limit `writes` is for.
pub(crate) fn buffered_writes(spec: &RunSpec, now: Instant) -> BufferedWrites {
    let disks = u64::try_from(disks(&spec.jail).len()).unwrap_or(1).max(1);
    BufferedWrites::new(spec.limits.write_bytes_per_s_max, disks, now)
}

fn passing(passing: Passing) -> SandboxError {
    let step = "making a cgroup leaf".to_owned();
    match passing {
        Passing::Lacking(source) => SandboxError::HostLacks { operation: step, source },
        Passing::Gone => SandboxError::GroupGone { step },
    }
}

/// The error, or that a group of `leaf` is gone, of which it came then.
fn or_gone(error: SandboxError, leaf: Option<&dyn Leaf>, step: &str) -> SandboxError {
    match leaf {
        Some(leaf) if !error.is_passing() && leaf.is_gone() => {
            tracing::warn!(%error, "a run's cgroup was removed while it was made");
            SandboxError::GroupGone { step: step.to_owned() }
        }
        _ => error,
    }
}

fn refused(MissingLayer { layer, reason, remedy }: MissingLayer) -> SandboxError {
    SandboxError::LayerMissing { layer, reason, remedy }
}

fn room_plan(jail: &Jail, workspace_id: Id, privileged: bool) -> Result<RoomPlan, SandboxError> {
    Ok(RoomPlan {
        privileged,
        rows: plan::rows(jail, privileged)?,
        user_limits: UserLimits::read(),
        identity: match jail.left_off.contains(&Layer::TenantUid) {
            true => identity(RunAs::Supervisor),
            false => identity(jail.run_as),
        },
        workspace: jail.workspace.clone(),
        workspace_id,
        read_only: jail.read_only.clone(),
        writable: jail.writable.clone(),
        keep: plan::paths_to_keep(jail),
        has_network: jail.network == Network::Host,
    })
}

fn identity(run_as: RunAs) -> Identity {
    match run_as {
        RunAs::Supervisor => {
            Identity { uid: geteuid().as_raw(), gid: getegid().as_raw(), is_other: false, files_of: None }
        }
        RunAs::User { uid, gid } => Identity { uid, gid, is_other: true, files_of: None },
        RunAs::Nobody { owner_uid, owner_gid } => {
            Identity { uid: NOBODY, gid: NOBODY, is_other: true, files_of: Some((owner_uid, owner_gid)) }
        }
    }
}

/// Init of one run, in its leaf, with all layers on. Dropping it kills the whole run, waits for its death and removes the
/// leaf: the order of the fields is the order of their end.
pub(crate) struct Worker {
    /// Init as the host numbers it.
    pub(crate) pid: u32,
    /// Readable when everything in the run's pid namespace is dead.
    init: OwnedFd,
    pub(crate) channel: Channel,
    pub(crate) leaf: Option<Box<dyn Leaf>>,
    tab: Option<Tab>,
    pub(crate) in_force: InForce,
    /// The run's scratch directory, as a descriptor that outlives the run's mounts.
    pub(crate) scratch: Option<OwnedFd>,
    /// The run's mounts. Whoever lets go of them last takes them apart, which takes longer than all the rest of the
    /// run's end: so it should not be init.
    pub(crate) mounts: Option<OwnedFd>,
    /// How long its end is waited for. Nothing once it was waited for in vain.
    death_wait: Cell<Duration>,
    /// It reaps init, and would take it along.
    launcher: Arc<Launcher>,
}

impl Worker {
    /// Whether it still waits for its run.
    pub(crate) fn is_alive(&self) -> bool {
        wait_readable(&self.init, Duration::ZERO).is_err()
    }

    /// Sees that the tenant's favour is what it should be, which may have changed while the worker waited.
    pub(crate) fn look_up_favour(&self) {
        if let (Some(leaf), Some(tab)) = (&self.leaf, &self.tab) {
            tab.look(leaf.as_ref());
        }
    }

    /// What the leaf has counted, which is on the tenant's account then.
    pub(crate) fn count(&self) -> Option<Counters> {
        let (leaf, tab) = (self.leaf.as_ref()?, self.tab.as_ref()?);
        let counters = leaf.counters();
        tab.charge(leaf.as_ref(), &counters);
        Some(counters)
    }

    /// Kills the whole run. Killing init kills its pid namespace; the launcher reaps it.
    pub(crate) fn kill(&self) {
        // Fails only when there is nobody left to kill.
        let _killed = pidfd_send_signal(&self.init, Signal::KILL);
    }

    /// Kills what is left of the run and waits until the last process is dead.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.kill();
        wait_readable(&self.init, self.death_wait.replace(Duration::ZERO))
    }

    /// Ends a worker that never had a run.
    pub(crate) fn end_unused(&self) -> io::Result<()> {
        self.death_wait.set(DEATH_WAIT_AT_SET_UP);
        self.end()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "a run is still alive after its kill");
            if let Some(leaf) = &self.leaf {
                leaf.kill();
            }
            self.launcher.undead.add(&self.init, self.leaf.take());
        }
        if let Some(Err(error)) = self.leaf.as_mut().map(|leaf| leaf.remove(REMOVE_WAIT)) {
            tracing::error!(%error, "a cgroup leaf could not be removed");
        }
    }
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process id that is none"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

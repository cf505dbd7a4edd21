//! Carries out the rows of a plan, one after the other, and keeps account of what is in force. Must not decide which rows
//! there are (`plan`).

use super::root::HostTrees;
use super::seccomp::{Filter, SetId};
use super::shared::{HOST_NAME, Halt};
use super::{capabilities, identity, landlock, mounts, root};
use crate::hold::hold;
use crate::lack::is_for_good;
use crate::message::{Allotment, Identity, MissingLayer, RoomPlan};
use crate::plan::{Demand, LOCKED_BYTES_MAX, QUEUE_BYTES_MAX, Row, SIGNALS_MAX, Stage, Step};
use crate::spec::SCRATCH;
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proctor_core::isolation::Layer;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Limits that the kernel counts for a user, and the most that a run has of each, which is half of the user's at most: pending
/// signals and timers, bytes of POSIX message queues.
const OF_A_USER: [(Resource, u64); 2] =
    [(Resource::RLIMIT_SIGPENDING, SIGNALS_MAX), (Resource::RLIMIT_MSGQUEUE, QUEUE_BYTES_MAX)];

/// Limits that the kernel counts for a process: bytes of memory that cannot be moved, and no priority over others.
const OF_A_PROCESS: [(Resource, u64); 3] =
    [(Resource::RLIMIT_MEMLOCK, LOCKED_BYTES_MAX), (Resource::RLIMIT_NICE, 0), (Resource::RLIMIT_RTPRIO, 0)];

/// The worker at work on its own isolation.
pub(super) struct Hands {
    pub(super) plan: RoomPlan,
    /// Who the run is, once that is known: the plan's wish may not be had.
    identity: Identity,
    /// Why the run is not who the plan wished.
    fallen_back: Option<io::Error>,
    trees: Option<HostTrees>,
    /// Whether the root is the run's own.
    is_pivoted: bool,
    filter: Option<Filter>,
    /// What this run gets, once there is a run.
    pub(super) allotment: Option<Allotment>,
    /// What the run may write of its scratch directory, once the private `/tmp` is there.
    pub(super) scratch: Option<OwnedFd>,
    /// The rest of it, which init alone may write.
    pub(super) helpers: Option<OwnedFd>,
    /// This run's mount namespace.
    pub(super) mounts: Option<OwnedFd>,
    pub(super) missing: Vec<MissingLayer>,
}

impl Hands {
    pub(super) fn new(plan: RoomPlan) -> Self {
        Hands {
            identity: plan.identity,
            plan,
            fallen_back: None,
            trees: None,
            is_pivoted: false,
            filter: None,
            allotment: None,
            scratch: None,
            helpers: None,
            mounts: None,
            missing: Vec::new(),
        }
    }

    /// Carries out all rows of `stage`. Halts at the first failure of one without which there is no run, and at the first for
    /// which the host is the cause.
    pub(super) fn put_on_all(&mut self, stage: Stage) -> Result<(), Halt> {
        let rows: Vec<Row> = self.plan.rows.iter().filter(|row| row.stage == stage).copied().collect();
        for row in &rows {
            // A layer that has failed in part is not in force; what would rest on it cannot be.
            let has_failed = self.missing.iter().any(|missing| missing.layer == row.layer);
            if has_failed && row.demand != Demand::Structural {
                continue;
            }
            let Err(error) = self.put_on(row.step) else { continue };
            let error = self.plan.user_limits.explain(row.step, error);
            // What the host is short of now says nothing about the layer.
            if !is_for_good(&error) {
                return Err(Halt::Failed { step: row.step.name(), source: error });
            }
            let missing = explain(row, &error);
            if self.must_not_go_on_without(row, &error) {
                return Err(Halt::Refused(missing));
            }
            self.missing.push(missing);
        }
        Ok(())
    }

    /// Beside what the plan demands: a run whose user could not be changed is somebody whom nobody has chosen, and without
    /// its workspace in hand a run would go on in whatever is there now.
    fn must_not_go_on_without(&self, row: &Row, error: &io::Error) -> bool {
        let is_replaced = || hold(&self.plan.workspace, Some(self.plan.workspace_id)).is_err();
        match row.demand {
            Demand::Structural | Demand::Required => true,
            Demand::RequiredOfRoot if self.plan.privileged && self.identity.uid == 0 => true,
            Demand::RequiredOfRoot | Demand::Wanted => match row.step {
                Step::HostTrees => is_replaced(),
                Step::TenantUid => error.raw_os_error().is_some(),
                _ => false,
            },
        }
    }

    /// The layers of which every row was carried out.
    pub(super) fn applied(&self) -> Vec<Layer> {
        let mut layers: Vec<Layer> = self.plan.rows.iter().map(|row| row.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        layers.retain(|layer| !self.missing.iter().any(|missing| missing.layer == *layer));
        layers
    }

    fn put_on(&mut self, step: Step) -> io::Result<()> {
        match step {
            Step::NoCores => no_cores(),
            Step::HostTrees => self.take_trees(),
            Step::UserNamespace => {
                self.settle_identity();
                identity::user_namespace(self.identity, self.plan.privileged)
            }
            Step::MountNamespace => {
                unshare(CloneFlags::CLONE_NEWNS)?;
                mounts::make_private()
            }
            Step::NetNamespace => Ok(unshare(CloneFlags::CLONE_NEWNET)?),
            Step::Loopback => loopback_up(),
            Step::UtsNamespace => Ok(unshare(CloneFlags::CLONE_NEWUTS)?),
            Step::HostName => Ok(nix::unistd::sethostname(HOST_NAME)?),
            // The number is that of this user namespace, whichever `/proc` shows it.
            Step::NoNestedUsers => fs::write("/proc/sys/user/max_user_namespaces", "0"),
            Step::ShareOfWatches => self.plan.user_limits.give_share(),
            Step::RootTree => self.build_root(),
            Step::Filter => {
                self.filter = Some(Filter::compile(self.set_id())?);
                Ok(())
            }
            // It came with the fork. `kill(-1)` outside of a pid namespace of one's own would end the host.
            Step::PidNamespace if std::process::id() == 1 => Ok(()),
            Step::PidNamespace => Err(io::Error::other("this is not pid 1")),
            Step::RunMounts => Ok(unshare(CloneFlags::CLONE_NEWNS)?),
            Step::IpcNamespace => Ok(unshare(CloneFlags::CLONE_NEWIPC)?),
            Step::CgroupNamespace => Ok(unshare(CloneFlags::CLONE_NEWCGROUP)?),
            Step::TenantUid => self.become_user(),
            Step::OwnProc => mounts::own_proc(),
            Step::SealedProc if self.identity.uid != 0 => Ok(()),
            Step::SealedProc => mounts::seal_proc(),
            // Where other hierarchies hold the limits there is nothing to see, and on the host's root everything.
            Step::OwnCgroup if !self.allotment()?.is_in_v2 || !self.is_pivoted => Ok(()),
            Step::OwnCgroup => mounts::own_cgroup(),
            Step::OwnTerminals => mounts::own_terminals(),
            Step::PrivateTmp => {
                let scratch = mounts::private_tmp(&self.plan, self.allotment()?)?;
                (self.scratch, self.helpers) = (Some(scratch.written), Some(scratch.helpers));
                self.mounts = Some(fs::File::open("/proc/self/ns/mnt")?.into());
                Ok(())
            }
            Step::PrivateShm => mounts::private_shm(&self.plan, self.allotment()?),
            Step::HiddenInit => hide_init(),
            Step::Rlimits => limit_resources(self.allotment()?.files_max),
            Step::Capabilities => capabilities::drop_all(),
            Step::NoNewPrivs => Ok(rustix::thread::set_no_new_privs(true)?),
            Step::Landlock => landlock::restrict(&self.writable()),
            Step::Seccomp => match &self.filter {
                Some(filter) => filter.install(),
                None => Err(io::Error::other("no filter was compiled")),
            },
        }
    }

    fn allotment(&self) -> io::Result<Allotment> {
        self.allotment.ok_or_else(|| io::Error::other("there is no run yet"))
    }

    fn take_trees(&mut self) -> io::Result<()> {
        let mut trees = HostTrees::take(&self.plan, self.identity)?;
        if let Some(owner) = self.identity.files_of
            && let Err(error) = trees.show_files_of(owner, self.identity)
        {
            let error = self.plan.user_limits.explain(Step::UserNamespace, error);
            if !is_for_good(&error) {
                return Err(error);
            }
            // Half of the trees may be translated already.
            self.identity = Identity { uid: owner.0, gid: owner.1, files_of: None, ..self.identity };
            self.fallen_back = Some(error);
            trees = HostTrees::take(&self.plan, self.identity)?;
        }
        self.trees = Some(trees);
        Ok(())
    }

    /// Without the host's directories in hand nothing can be shown as the run's own: it has to be the owner of the files.
    fn settle_identity(&mut self) {
        if let Some((uid, gid)) = self.identity.files_of.filter(|_| self.trees.is_none() && !self.is_pivoted) {
            self.identity = Identity { uid, gid, files_of: None, ..self.identity };
            self.fallen_back = Some(io::Error::other("it takes a root of its own"));
        }
    }

    fn build_root(&mut self) -> io::Result<()> {
        let trees = self.trees.take().ok_or_else(|| io::Error::other("no directory of the host was taken"))?;
        root::build(trees, self.identity)?;
        self.is_pivoted = true;
        Ok(())
    }

    fn become_user(&mut self) -> io::Result<()> {
        if !self.identity.is_other {
            return Err(io::Error::other("the run is the user who runs the supervisor"));
        }
        self.settle_identity();
        identity::become_user(self.identity)?;
        match self.fallen_back.take() {
            Some(error) => Err(io::Error::other(format!("no idmapped mount of the workspace: {error}"))),
            None => Ok(()),
        }
    }

    /// What a run makes in a workspace that is shown as its own belongs on the host to the workspace's owner, also where it
    /// could not be shown; and nothing that a run leaves may be root to whoever executes it.
    fn set_id(&self) -> SetId {
        let Identity { uid, gid, .. } = self.identity;
        let is_safe = self.plan.identity.files_of.is_none() && uid != 0 && gid != 0;
        if is_safe { SetId::Allowed } else { SetId::Denied }
    }

    /// Directories that landlock leaves writable. What else can be written in them is for the other layers: the scratch
    /// directory is named because init writes it by a mount that is nowhere, and its processes' mount of it is read-only.
    fn writable(&self) -> Vec<&Path> {
        let own = ["/tmp", SCRATCH, "/dev/shm", "/proc"].map(Path::new);
        let given = self.plan.writable.iter().chain([&self.plan.workspace]).map(AsRef::as_ref);
        own.into_iter().chain(given).collect()
    }
}

fn explain(row: &Row, error: &io::Error) -> MissingLayer {
    MissingLayer {
        layer: row.layer,
        reason: format!("{}: {error}", row.step.name()),
        remedy: row.step.remedy().to_owned(),
    }
}

/// Nobody in the run may trace init or read its memory: it holds the socket to the supervisor. The new user took the death
/// signal away, too.
fn hide_init() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// A core is the memory of a test, as large as that, in the workspace or worse: handed to a program that the kernel starts as
/// root, outside of every sandbox, whatever the limit says. Only a limit of 1 byte keeps it from that (`fs/coredump.c`), and
/// no file has less than a page. The filter keeps a run from changing it.
fn no_cores() -> io::Result<()> {
    let Err(error) = setrlimit(Resource::RLIMIT_CORE, 1, 1) else { return Ok(()) };
    let is_given_to_program = fs::read("/proc/sys/kernel/core_pattern")?.starts_with(b"|");
    match getrlimit(Resource::RLIMIT_CORE)? {
        (_, 0) if !is_given_to_program => Ok(()),
        (_, 0) => Err(io::Error::other("no core file is allowed, and a program of the host gets cores all the same")),
        _ => Err(error.into()),
    }
}

fn limit_resources(files_max: u64) -> io::Result<()> {
    let lower = |resource, max: u64, share: u64| -> io::Result<()> {
        let (soft, hard) = getrlimit(resource)?;
        let hard = max.min(hard.div_ceil(share));
        Ok(setrlimit(resource, soft.min(hard), hard)?)
    };
    OF_A_USER.into_iter().try_for_each(|(resource, max)| lower(resource, max, 2))?;
    OF_A_PROCESS.into_iter().try_for_each(|(resource, max)| lower(resource, max, 1))?;
    lower(Resource::RLIMIT_NOFILE, files_max, 1)
}

/// The part of `struct ifreq` that `SIOCSIFFLAGS` reads, at its full size.
#[repr(C)]
struct InterfaceFlags {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// A fresh network namespace has `lo`, and it is down.
fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    let mut name = [0; libc::IFNAMSIZ];
    name[..2].copy_from_slice(b"lo");
    let up = libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?;
    let request = InterfaceFlags { name, flags: up, rest: [0; 22] };
    // SAFETY: the request is at least as large as the kernel's `struct ifreq` (40 bytes) and outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_request_is_as_large_as_the_kernel_reads() {
        assert_eq!(size_of::<InterfaceFlags>(), size_of::<libc::ifreq>());
    }
}

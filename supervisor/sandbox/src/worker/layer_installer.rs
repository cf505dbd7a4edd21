//! Carries out the rows of a plan, one after the other, and records which layers are in force.

use super::halt::Halt;
use super::root_fs::{HOST_NAME, HostTrees};
use super::seccomp::{Filter, SetId};
use super::{capabilities, identity, landlock, root_fs, run_mounts};
use crate::exhausted_resource::is_permanent;
use crate::layer_plan::{Demand, LOCKED_BYTES_MAX, PlanRow, QUEUE_BYTES_MAX, SIGNALS_MAX, Stage, Step};
use crate::spec::SCRATCH;
use crate::worker_protocol::{Identity, InitLimits, MissingLayer, ZygotePlan};
use crate::workspace_fd::open_workspace;
use nix::sched::{CloneFlags, unshare};
use proctor_core::isolation::Layer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Limits that the kernel counts per user, and the most that a run has of each, which is at most half of the user's:
/// pending signals and timers, bytes of POSIX message queues.
const PER_USER_LIMITS: [(Resource, u64); 2] =
    [(Resource::Sigpending, SIGNALS_MAX), (Resource::Msgqueue, QUEUE_BYTES_MAX)];

/// Limits that the kernel counts per process: bytes of locked memory, and no priority over others.
const PER_PROCESS_LIMITS: [(Resource, u64); 3] =
    [(Resource::Memlock, LOCKED_BYTES_MAX), (Resource::Nice, 0), (Resource::Rtprio, 0)];

/// State of the installation: the plan, what the steps have produced, and the layers that failed.
pub(super) struct LayerInstaller {
    pub(super) plan: ZygotePlan,
    /// User of the run. It differs from the plan's if the host cannot show the workspace as that user's own.
    identity: Identity,
    /// Why the identity differs from the plan's.
    identity_fallback: Option<io::Error>,
    host_trees: Option<HostTrees>,
    /// Whether the run has its private root.
    is_pivoted: bool,
    filter: Option<Filter>,
    /// Limits of this run, once there is a run.
    pub(super) init_limits: Option<InitLimits>,
    /// Part of the scratch directory that the run may write, once the private `/tmp` is mounted.
    pub(super) scratch: Option<OwnedFd>,
    /// The rest of the scratch directory, which only init may write.
    pub(super) scratch_root: Option<OwnedFd>,
    /// This run's mount namespace.
    pub(super) mounts: Option<OwnedFd>,
    pub(super) missing: Vec<MissingLayer>,
}

impl LayerInstaller {
    pub(super) fn new(plan: ZygotePlan) -> Self {
        LayerInstaller {
            identity: plan.identity,
            plan,
            identity_fallback: None,
            host_trees: None,
            is_pivoted: false,
            filter: None,
            init_limits: None,
            scratch: None,
            scratch_root: None,
            mounts: None,
            missing: Vec::new(),
        }
    }

    /// Carries out all rows of `stage`. Halts at the first failure of a required row, and at the first failure that the
    /// host causes for the moment.
    pub(super) fn install_stage(&mut self, stage: Stage) -> Result<(), Halt> {
        let rows: Vec<PlanRow> = self.plan.rows.iter().filter(|row| row.stage == stage).copied().collect();
        for row in &rows {
            // A layer that has failed in part is not in force, and its later steps may depend on the failed one.
            let has_failed = self.missing.iter().any(|missing| missing.layer == row.layer);
            if has_failed && row.demand != Demand::Structural {
                continue;
            }
            let Err(error) = self.install(row.step) else { continue };
            let error = self.plan.user_limits.explain(row.step, error);
            // An exhausted resource of the host says nothing about the layer.
            if !is_permanent(&error) {
                return Err(Halt::Failed { step: row.step.name(), source: error });
            }
            let missing = missing_layer(row, &error);
            if self.is_indispensable(row, &error) {
                return Err(Halt::Refused(missing));
            }
            self.missing.push(missing);
        }
        Ok(())
    }

    /// Whether a failed row ends the run, besides what the plan demands: a run whose user could not be changed would
    /// run as a user that nobody chose, and a run without its workspace's descriptor would use whatever directory is
    /// there now.
    fn is_indispensable(&self, row: &PlanRow, error: &io::Error) -> bool {
        let is_replaced = || open_workspace(&self.plan.workspace, Some(self.plan.workspace_id)).is_err();
        match row.demand {
            Demand::Structural | Demand::Required => true,
            Demand::RequiredOfRoot if self.plan.privileged && self.identity.uid == 0 => true,
            Demand::RequiredOfRoot | Demand::Optional => match row.step {
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

    fn install(&mut self, step: Step) -> io::Result<()> {
        match step {
            Step::NoCoreDumps => disable_core_dumps(),
            Step::HostTrees => self.take_host_trees(),
            Step::UserNamespace => {
                self.use_owner_identity_without_root();
                identity::user_namespace(self.identity, self.plan.privileged)
            }
            Step::MountNamespace => {
                unshare(CloneFlags::CLONE_NEWNS)?;
                run_mounts::make_mounts_private()
            }
            Step::NetNamespace => Ok(unshare(CloneFlags::CLONE_NEWNET)?),
            Step::Loopback => bring_loopback_up(),
            Step::UtsNamespace => Ok(unshare(CloneFlags::CLONE_NEWUTS)?),
            Step::HostName => Ok(rustix::system::sethostname(HOST_NAME.as_bytes())?),
            // This sysctl is that of the current user namespace, whichever `/proc` shows it.
            Step::NoNestedUserNamespaces => fs::write("/proc/sys/user/max_user_namespaces", "0"),
            Step::InotifyShare => self.plan.user_limits.apply_share(),
            Step::RootTree => self.build_root(),
            Step::CompileFilter => {
                self.filter = Some(Filter::compile(self.set_id())?);
                Ok(())
            }
            // Made by the fork. `kill(-1)` outside of an own pid namespace would end the host.
            Step::PidNamespace if std::process::id() == 1 => Ok(()),
            Step::PidNamespace => Err(io::Error::other("this is not pid 1")),
            Step::RunMountNamespace => Ok(unshare(CloneFlags::CLONE_NEWNS)?),
            Step::IpcNamespace => Ok(unshare(CloneFlags::CLONE_NEWIPC)?),
            Step::CgroupNamespace => Ok(unshare(CloneFlags::CLONE_NEWCGROUP)?),
            Step::TenantUid => self.become_user(),
            Step::PrivateProc => run_mounts::mount_private_proc(),
            Step::ReadOnlyProc if self.identity.uid != 0 => Ok(()),
            Step::ReadOnlyProc => run_mounts::make_proc_read_only(),
            // If v1 holds the limits there is nothing to see, and on the host's root everything is visible already.
            Step::CgroupMount if !self.init_limits()?.is_in_v2 || !self.is_pivoted => Ok(()),
            Step::CgroupMount => run_mounts::mount_cgroup_read_only(),
            Step::PrivatePts => run_mounts::mount_private_pts(),
            Step::PrivateTmp => {
                let scratch = run_mounts::mount_private_tmp(&self.plan, self.init_limits()?)?;
                (self.scratch, self.scratch_root) = (Some(scratch.writable), Some(scratch.root));
                self.mounts = Some(fs::File::open("/proc/self/ns/mnt")?.into());
                Ok(())
            }
            Step::PrivateShm => run_mounts::mount_private_shm(&self.plan, self.init_limits()?),
            Step::ReplacedFile => self.plan.replaced_file.as_ref().map_or(Ok(()), |replaced| {
                run_mounts::mount_replaced_file((&self.plan.workspace, self.plan.workspace_id), replaced)
            }),
            Step::UntraceableInit => make_init_untraceable(),
            Step::Rlimits => limit_resources(self.init_limits()?.files_max),
            Step::Capabilities => capabilities::drop_all(),
            Step::NoNewPrivs => Ok(rustix::thread::set_no_new_privs(true)?),
            Step::Landlock => landlock::restrict(&self.writable()),
            Step::Seccomp => match &self.filter {
                Some(filter) => filter.install(),
                None => Err(io::Error::other("no filter was compiled")),
            },
        }
    }

    fn init_limits(&self) -> io::Result<InitLimits> {
        self.init_limits.ok_or_else(|| io::Error::other("the limits of the run are not known yet"))
    }

    fn take_host_trees(&mut self) -> io::Result<()> {
        let mut host_trees = HostTrees::clone_from_host(&self.plan, self.identity)?;
        if let Some(owner) = self.identity.owner_shown_as_run
            && let Err(error) = host_trees.map_owner_to_run(owner, self.identity)
        {
            let error = self.plan.user_limits.explain(Step::UserNamespace, error);
            if !is_permanent(&error) {
                return Err(error);
            }
            // Some of the trees may be mapped already.
            self.identity = Identity { uid: owner.0, gid: owner.1, owner_shown_as_run: None, ..self.identity };
            self.identity_fallback = Some(error);
            host_trees = HostTrees::clone_from_host(&self.plan, self.identity)?;
        }
        self.host_trees = Some(host_trees);
        Ok(())
    }

    /// Without clones of the host's directories the workspace cannot be shown as the run's own: the run becomes its
    /// owner.
    fn use_owner_identity_without_root(&mut self) {
        if let Some((uid, gid)) =
            self.identity.owner_shown_as_run.filter(|_| self.host_trees.is_none() && !self.is_pivoted)
        {
            self.identity = Identity { uid, gid, owner_shown_as_run: None, ..self.identity };
            self.identity_fallback = Some(io::Error::other("the run has no private root"));
        }
    }

    fn build_root(&mut self) -> io::Result<()> {
        let host_trees =
            self.host_trees.take().ok_or_else(|| io::Error::other("the host's directories were not cloned"))?;
        root_fs::build(host_trees, self.identity)?;
        self.is_pivoted = true;
        Ok(())
    }

    fn become_user(&mut self) -> io::Result<()> {
        if !self.identity.is_other {
            return Err(io::Error::other("the run has the supervisor's own user"));
        }
        self.use_owner_identity_without_root();
        identity::become_user(self.identity)?;
        match self.identity_fallback.take() {
            Some(error) => Err(io::Error::other(format!("no idmapped mount of the workspace: {error}"))),
            None => Ok(()),
        }
    }

    /// What a run creates in a workspace that is shown as its own belongs to the workspace's owner on the host, also if
    /// it could not be shown; and no program that a run leaves may run as root when it is executed.
    fn set_id(&self) -> SetId {
        let Identity { uid, gid, .. } = self.identity;
        let is_safe = self.plan.identity.owner_shown_as_run.is_none() && uid != 0 && gid != 0;
        if is_safe { SetId::Allowed } else { SetId::Denied }
    }

    /// Directories that landlock leaves writable. Other layers restrict writes inside them: the scratch directory is in
    /// the list because init writes it through a detached mount, while the run's own mount of it is read-only.
    fn writable(&self) -> Vec<&Path> {
        let private_dirs = ["/tmp", SCRATCH, "/dev/shm", "/proc"].map(Path::new);
        let granted = self.plan.writable.iter().chain([&self.plan.workspace]).map(AsRef::as_ref);
        private_dirs.into_iter().chain(granted).collect()
    }
}

fn missing_layer(row: &PlanRow, error: &io::Error) -> MissingLayer {
    MissingLayer {
        layer: row.layer,
        reason: format!("{}: {error}", row.step.name()),
        remedy: row.step.remedy().to_owned(),
    }
}

/// Makes init untraceable and its memory unreadable for the run: it holds the socket to the supervisor. Also sets the
/// death signal again, which the change of user has cleared.
fn make_init_untraceable() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Disables core dumps. A core is as large as a test's memory and would be written to the workspace, or piped to a
/// program that the kernel starts as root, outside of every sandbox and whatever the limit is. Only a limit of 1 byte
/// prevents the latter (`fs/coredump.c`), and no core file fits into it. The filter keeps a run from changing the
/// limit.
fn disable_core_dumps() -> io::Result<()> {
    let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) }) else { return Ok(()) };
    let is_given_to_program = fs::read("/proc/sys/kernel/core_pattern")?.starts_with(b"|");
    match getrlimit(Resource::Core).maximum {
        Some(0) if !is_given_to_program => Ok(()),
        Some(0) => Err(io::Error::other("core files are forbidden, but the host sends core dumps to a program")),
        _ => Err(error.into()),
    }
}

fn limit_resources(files_max: u64) -> io::Result<()> {
    let lower = |resource, max: u64, share: u64| -> io::Result<()> {
        let Rlimit { current, maximum } = getrlimit(resource);
        let hard = max.min(maximum.unwrap_or(u64::MAX).div_ceil(share));
        let soft = current.unwrap_or(u64::MAX).min(hard);
        Ok(setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })?)
    };
    PER_USER_LIMITS.into_iter().try_for_each(|(resource, max)| lower(resource, max, 2))?;
    PER_PROCESS_LIMITS.into_iter().try_for_each(|(resource, max)| lower(resource, max, 1))?;
    lower(Resource::Nofile, files_max, 1)
}

/// The part of `struct ifreq` that `SIOCSIFFLAGS` reads, at its full size.
#[repr(C)]
struct InterfaceFlags {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// Brings up `lo`, which is down in a new network namespace.
fn bring_loopback_up() -> io::Result<()> {
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
    fn the_interface_request_has_the_size_that_the_kernel_reads() {
        assert_eq!(size_of::<InterfaceFlags>(), size_of::<libc::ifreq>());
    }
}

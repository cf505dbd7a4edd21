//! The cgroup leaf of a run: which limits it holds, what its counters say, and its end. One trait, one implementation
//! for each kind of host. Must not know workers or namespaces.

mod favour;
mod group;
mod hybrid;
mod name;
mod place;
mod settle;
mod sweep;
mod v1;
mod v2;
mod writes;

#[cfg(test)]
mod tests;

pub(crate) use favour::{Ledger, Tab};
pub(crate) use place::{Mode, Places};
pub(crate) use settle::{leave, settle, would_hand_down};
pub(crate) use sweep::{given_up, sweep};
pub(crate) use v1::{SOCKETS, V1};
pub(crate) use writes::{Disk, all_disks, disks_of};

use writes::Throttle;

pub(crate) use group::{Passing, REMOVE_WAIT};

use favour::Favour;
use group::Obstacle;
use hybrid::HybridLeaf;

use proctor_core::isolation::LimitInForce;
use proctor_core::limits::{LimitKind, Limits};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// A group of its own for one run. Made with its limits written and read back; gone after `remove` or drop.
pub(crate) trait Leaf: Send {
    /// Whether a group of its tenant's was made with it, which knows nothing of the tenant's favour yet.
    fn is_first(&self) -> bool;
    /// The leaf's directory in the v2 hierarchy, for a process that is born there (`CLONE_INTO_CGROUP`). On a hybrid host
    /// it holds only a part of the limits; `None` on v1.
    fn birth(&self) -> Option<BorrowedFd<'_>>;
    /// Files of what the leaf has beside [`Leaf::birth`], into each of which a process of one thread writes
    /// [`THIS_THREAD`] to move itself there. To move another process would hold up every fork and exit on the host for some
    /// milliseconds.
    fn doors(&self) -> io::Result<Vec<OwnedFd>>;
    /// Whether somebody else has removed a group of the leaf.
    fn is_gone(&self) -> bool;
    /// Moves another process into the leaf, where its children are born. One that was `born` at [`Leaf::birth`] is moved
    /// into what the leaf has beside that.
    #[cfg(test)]
    fn add(&self, pid: u32, born: bool) -> io::Result<()>;
    /// The processes in the leaf right now, at most 4,096.
    fn pids(&self) -> Vec<u32>;
    /// Memory in use, bytes.
    fn memory_bytes(&self) -> Option<u64>;
    /// Bytes of the leaf's pages that are not yet on a disk; `None` where v1 does not count them.
    fn unwritten_bytes(&self) -> Option<u64>;
    /// Processes that the kernel has killed for memory so far.
    fn oom_kills(&self) -> u64;
    /// Readable when the leaf was at its memory limit, until [`Leaf::hush`]. The counter may rise a little later, or never
    /// where the kernel could reclaim.
    fn oom_bell(&self) -> Option<BorrowedFd<'_>>;
    /// Resets the bell and says whether it had rung.
    fn hush(&self) -> bool;
    /// All that the leaf has counted. Whole only when everything in it is dead, and before `remove`.
    fn counters(&self) -> Counters;
    /// Gives the tenant's group the weight of its favour: a help only, and nothing where no controller is.
    fn favour(&self, favour: Favour);
    /// Lifts what a run would die slowly with: the bounds of processors and of writes.
    fn lift(&self);
    /// Stops everything in the leaf until it is told to go on. A kill reaches what is stopped. False where the host has no
    /// v2 hierarchy, whose core can do it: the v1 freezer holds up kills as well.
    fn freeze(&self, frozen: bool) -> bool;
    /// Whether everything in the leaf has stopped, which takes until system calls under way have returned.
    fn is_frozen(&self) -> bool;
    /// Kills everything in the leaf: at once with `cgroup.kill`, else one by one with no new ones meanwhile. The last
    /// resort, since the end of init is the end of the run.
    fn kill(&self);
    /// Removes the leaf, what the run has made below it, and its tenant's group with the last leaf in it. Waits at most `wait`
    /// until the kernel lets go.
    fn remove(&mut self, wait: Duration) -> io::Result<()>;
}

/// What a thread writes to a door to go through it.
pub(crate) const THIS_THREAD: &[u8] = b"0";

/// What a leaf has counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counters {
    pub(crate) cpu_user_s: Option<f64>,
    pub(crate) cpu_system_s: Option<f64>,
    pub(crate) throttled_s: Option<f64>,
    pub(crate) memory_peak_bytes: Option<u64>,
    /// How often the memory limit was reached; the kernel may have reclaimed and nobody noticed.
    pub(crate) memory_touched: u64,
    pub(crate) oom_kills: u64,
    pub(crate) pids_peak: Option<u64>,
    /// Forks and new threads refused.
    pub(crate) pids_refused: u64,
    pub(crate) read_bytes: Option<u64>,
    pub(crate) written_bytes: Option<u64>,
    /// Time in which at least one process of the leaf waited for it.
    pub(crate) cpu_pressure_s: Option<f64>,
    pub(crate) memory_pressure_s: Option<f64>,
    pub(crate) io_pressure_s: Option<f64>,
}

/// A limit that did not read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingLimit {
    pub(crate) limit: LimitKind,
    /// Without host paths.
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

/// What could be had for a run.
pub(crate) struct Opened {
    /// `None` when not even one controller could be used.
    pub(crate) leaf: Option<Box<dyn Leaf>>,
    pub(crate) in_force: Vec<LimitInForce>,
    pub(crate) missing: Vec<MissingLimit>,
}

/// The limits that every leaf enforces, beside how fast it writes where it has a disk.
pub(crate) const LEAF_LIMITS: [LimitKind; 3] = [LimitKind::Memory, LimitKind::Cpu, LimitKind::Pids];

/// The kernel clips larger memory limits to its largest page counter, which v2 reads as no limit.
const MEMORY_BYTES_CEILING: u64 = 0x7FFF_FFFF_FFFF_0000;

/// The kernel refuses larger numbers of processes.
const PIDS_CEILING: u64 = 4_194_304;

/// The kernel refuses larger quotas; this many thousandths are 100,000 processors.
const CPU_MILLIS_CEILING: u64 = 100_000_000;

/// The cpu controller's period. A quota is a share of it.
const PERIOD_US: u64 = 100_000;

/// The kernel's name of the controller that enforces `limit`, in v2.
pub(crate) fn controller(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Memory => "memory",
        LimitKind::Cpu => "cpu",
        LimitKind::Writes => "io",
        _ => "pids",
    }
}

/// What a leaf is bounded to.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    limits: &'a Limits,
    /// The disks to which [`LimitKind::Writes`] applies.
    disks: &'a [Disk],
}

/// How one kind of hierarchy takes the limits for which it has files of its own.
struct Files {
    /// Each writes a limit into a group, and returns what read back.
    memory: fn(&Path, u64) -> Result<u64, Obstacle>,
    cpu: fn(&Path, u64) -> Result<u64, Obstacle>,
    writes: Throttle,
}

/// The part of a leaf that one kind of hierarchy has, and what became of each limit.
type Part<L> = Result<(Option<L>, Vec<Result<LimitInForce, MissingLimit>>), Passing>;

/// Puts `limit` on the group `dir`. Both kinds of hierarchies have the same file for pids.
fn put_on(dir: &Path, limit: LimitKind, Bounds { limits, disks }: Bounds<'_>, files: &Files) -> Result<u64, Obstacle> {
    match limit {
        LimitKind::Memory => (files.memory)(dir, limits.memory_bytes_max.min(MEMORY_BYTES_CEILING)),
        LimitKind::Cpu => (files.cpu)(dir, limits.cpu_millis_max.into()),
        LimitKind::Writes => files.writes.bound(dir, disks, limits.write_bytes_per_s_max),
        _ => group::set_exactly(dir, "pids.max", pids(limits)),
    }
}

/// Init counts as one of these.
fn pids(limits: &Limits) -> u64 {
    PIDS_CEILING.min(limits.pids_max.into())
}

/// Quota and period of a share of the processors.
fn quota_us(cpu_millis_max: u64) -> (u64, u64) {
    (cpu_millis_max.min(CPU_MILLIS_CEILING) * PERIOD_US / 1_000, PERIOD_US)
}

/// Makes a leaf for a run of `owner`, which can write to `disks`, below the supervisor's own group, with `limits` written and
/// read back: each in v1 where its controller is mounted there, else in v2. What cannot be had on this host is told in
/// [`Opened::missing`], and the caller decides. It fails for what says nothing about the host, as a run must not be without a
/// limit for that, and leaves nothing then.
///
/// `owner` may be any text. All leaves of one owner share the processors with those of each other owner alike.
pub(crate) fn open(places: &Places, owner: &str, limits: &Limits, disks: &[Disk]) -> Result<Opened, Passing> {
    let in_v1 = |limit: &LimitKind| places.v1.contains_key(v1::controller(*limit));
    let has_pace = !disks.is_empty() && limits.write_bytes_per_s_max < u64::MAX;
    let kinds = LEAF_LIMITS.into_iter().chain(has_pace.then_some(LimitKind::Writes));
    let (of_v1, of_v2): (Vec<LimitKind>, Vec<LimitKind>) = kinds.partition(in_v1);
    let bounds = Bounds { limits, disks };
    let (v2, told_by_v2) = match &places.v2 {
        Some(own) => v2::open(places, own, owner, bounds, &of_v2)?,
        None => (None, of_v2.iter().map(|limit| Err(not_mounted(places.mode, *limit))).collect()),
    };
    // A group in v2 has the times of the processor without any controller.
    let (v1, told_by_v1) = v1::open(places, owner, bounds, &of_v1, v2.is_none())?;
    let (mut in_force, mut missing) = (Vec::new(), Vec::new());
    for told in told_by_v1.into_iter().chain(told_by_v2) {
        match told {
            Ok(limit) => in_force.push(limit),
            Err(limit) => missing.push(limit),
        }
    }
    let leaf: Option<Box<dyn Leaf>> = match (v1, v2) {
        (Some(v1), Some(v2)) => Some(Box::new(HybridLeaf { v2, v1 })),
        (Some(v1), None) => Some(Box::new(v1)),
        (None, Some(v2)) => Some(Box::new(v2)),
        (None, None) => None,
    };
    Ok(Opened { leaf, in_force, missing })
}

/// What of a run's writes the bound holds for on this host.
pub(crate) fn scope_of_writes(places: &Places) -> &'static str {
    if !places.v1.contains_key(v1::controller(LimitKind::Writes)) {
        "of all that a run writes to a disk"
    } else if places.v2.is_some() {
        "of all that a run writes to a disk; one that writes faster behind the page cache, which cgroup v1 does not bound, is frozen \
         for a time"
    } else {
        "of what a run waits for (fsync, O_DIRECT); cgroup v1 does not bound what the kernel writes back behind it, and there is no \
         v2 hierarchy to freeze a run by"
    }
}

fn not_mounted(mode: Mode, limit: LimitKind) -> MissingLimit {
    let controller = controller(limit);
    let (reason, remedy) = match mode {
        Mode::None => {
            ("no cgroup hierarchy is mounted".to_owned(), "mount cgroups, or run on a host that has them".to_owned())
        }
        _ => (
            format!("the {controller} controller is not mounted"),
            format!("mount the {controller} controller, or boot the host with it enabled"),
        ),
    };
    MissingLimit { limit, reason, remedy }
}

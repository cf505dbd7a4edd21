//! The cgroup leaf of a run: which limits it holds, what its counters say, and its end. One trait, one implementation
//! for each kind of host. Must not know workers or namespaces.

mod name;
mod place;
mod sweep;
mod v1;

pub(crate) use place::{Mode, Places};
pub(crate) use sweep::sweep;

use proctor_core::isolation::LimitInForce;
use proctor_core::limits::{LimitKind, Limits};
use std::io;
use std::os::fd::BorrowedFd;

/// A group of its own for one run. Made with its limits written and read back; gone after `remove` or drop.
pub(crate) trait Leaf: Send {
    /// The group's directory in the v2 hierarchy, in which a process can be born.
    fn birth(&self) -> Option<BorrowedFd<'_>>;
    /// Moves a process into the leaf; `born` when it was born at `birth` already. Its children are born there.
    fn add(&self, pid: u32, born: bool) -> io::Result<()>;
    /// Memory in use, bytes.
    fn memory_bytes(&self) -> Option<u64>;
    /// Processes that the kernel has killed for memory so far.
    fn oom_kills(&self) -> u64;
    /// Readable when the leaf was at its memory limit and could not reclaim. The counter rises a little later.
    fn oom_bell(&self) -> Option<BorrowedFd<'_>>;
    /// All that the leaf has counted. Whole only when everything in it is dead, and before `remove`.
    fn counters(&self) -> Counters;
    /// Lifts the cpu limit for the death of the run, since a throttled group dies slowly.
    fn lift_cpu(&self);
    /// Kills everything in the leaf, as far as its kind of cgroup can. The last resort: the worker is in the leaf too,
    /// and without it the run's init becomes a zombie of whoever adopts it.
    fn kill(&self);
    /// Removes the leaf and what the run has made below it. Waits, within bounds, until the kernel lets go.
    fn remove(&mut self) -> io::Result<()>;
}

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

/// The limits that a leaf enforces.
pub(crate) const LEAF_LIMITS: [LimitKind; 3] = [LimitKind::Memory, LimitKind::Cpu, LimitKind::Pids];

/// Makes a leaf below the supervisor's own group, with `limits` written and read back. Never fails: what could not be had
/// is told in [`Opened::missing`], and the caller decides.
pub(crate) fn open(places: &Places, _owner: &str, limits: &Limits) -> Opened {
    match places.mode {
        Mode::V1 | Mode::Hybrid => v1::open(places, limits),
        Mode::V2 => nothing(
            "this host has cgroup v2 only, for which this version has no backend",
            "use a host with cgroup v1 or hybrid cgroups",
        ),
        Mode::None => nothing("no cgroup hierarchy is mounted", "mount cgroups, or run on a host that has them"),
    }
}

fn nothing(reason: &str, remedy: &str) -> Opened {
    let missing = LEAF_LIMITS
        .into_iter()
        .map(|limit| MissingLimit { limit, reason: reason.to_owned(), remedy: remedy.to_owned() })
        .collect();
    Opened { leaf: None, in_force: Vec::new(), missing }
}

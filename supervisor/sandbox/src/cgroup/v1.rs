//! The part of a leaf that is in v1 hierarchies: a group for each limit whose controller is mounted there. Must not know
//! anything of v2.
//!
//! Only in the cpu hierarchy the groups are nested in one of their tenant, whose weight is its favour. Memory and pids have
//! no shares, and a level more costs every run the attempt to remove it. In the blkio hierarchy a run has a group
//! for its bound alone: it counts next to nothing of buffered writes.

use super::favour::Favour;
use super::group::{self, Gauge, Obstacle, Passing};
use super::writes::{Disk, Throttle};
use super::{Bounds, Counters, Files, Leaf, MissingLimit, Part, Places};
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::LimitKind;
use rustix::event::{EventfdFlags, eventfd};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Every controller in whose v1 hierarchy a leaf may have a group.
pub(super) const CONTROLLERS: [&str; 5] = ["memory", "cpu", "pids", "cpuacct", "blkio"];

/// What reports call it.
pub(crate) const V1: &str = "cgroup-v1";

const FILES: Files = Files { memory: limit_memory, cpu: limit_cpu, writes: Throttle::V1 };

/// The name in v1 of the controller that enforces `limit`.
pub(super) fn controller(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Writes => "blkio",
        _ => super::controller(limit),
    }
}

pub(super) struct V1Leaf {
    /// By controller. Controllers that are mounted together share a directory.
    dirs: Vec<(&'static str, PathBuf)>,
    is_first: bool,
    oom_bell: Option<OwnedFd>,
    oom_kills: Gauge,
    memory_peak: Gauge,
    memory_touched: Gauge,
    memory_stat: Gauge,
    throttled: Gauge,
    cpu_user: Gauge,
    cpu_system: Gauge,
    pids_peak: Gauge,
    pids_refused: Gauge,
    /// Whose bound is lifted for the death of the run.
    disks: Vec<Disk>,
}

/// A group for each of `kinds`, with its limit written and read back, and for the times of the processor if `with_times`.
/// `None` when not even one could be made.
pub(super) fn open(
    places: &Places,
    owner: &str,
    bounds: Bounds<'_>,
    kinds: &[LimitKind],
    with_times: bool,
) -> Part<V1Leaf> {
    let (tenant, name) = (places.maker.tenant(owner), places.maker.leaf());
    let mut made = Made::default();
    let mut told = Vec::with_capacity(kinds.len());
    for &limit in kinds {
        let done = made
            .group(places, controller(limit), &tenant, &name)
            .and_then(|dir| super::put_on(&dir, limit, bounds, &FILES));
        told.push(match done {
            Ok(max) => Ok(LimitInForce { limit, max, by: V1.to_owned() }),
            Err(Obstacle::Denied(reason)) => Err(MissingLimit { limit, reason, remedy: remedy(limit) }),
            Err(Obstacle::Passing(passing)) => return Err(passing),
        });
    }
    if with_times {
        // The run's init has the times of all that it reaped as well.
        let _times = made.group(places, "cpuacct", &tenant, &name);
    }
    let leaf = (!made.dirs.is_empty()).then(|| V1Leaf::watching(made, bounds.disks)).transpose()?;
    Ok((leaf, told))
}

fn remedy(limit: LimitKind) -> String {
    let controller = controller(limit);
    format!("run as root, or hand a writable {controller} group to this user and start proctor in it")
}

/// The groups that were made for a leaf.
#[derive(Default)]
struct Made {
    /// By controller. Controllers that are mounted together share a directory.
    dirs: Vec<(&'static str, PathBuf)>,
    /// Whether a group of the tenant's was made with them.
    is_first: bool,
}

impl Made {
    /// Makes the group of one controller below the supervisor's own. It must be new: a group that was there is not ours.
    fn group(
        &mut self,
        places: &Places,
        controller: &'static str,
        tenant: &str,
        name: &str,
    ) -> Result<PathBuf, Obstacle> {
        let own = places.v1.get(controller).ok_or_else(|| format!("the {controller} controller is not mounted"))?;
        let shared = self.dirs.iter().find(|(other, _)| places.v1.get(*other) == Some(own)).map(|(_, dir)| dir.clone());
        let made = match shared {
            Some(dir) => Ok(dir),
            None if places.v1.get("cpu") == Some(own) => group::make_nested(own, tenant, name).map(|nested| {
                self.is_first |= nested.is_first;
                nested.dir
            }),
            None => match fs::create_dir(own.join(name)) {
                Ok(()) => Ok(own.join(name)),
                Err(error) => Err(Obstacle::met(own, error)),
            },
        };
        let dir = made.map_err(|obstacle| obstacle.at(&format!("a {controller} group cannot be made")))?;
        self.dirs.push((controller, dir.clone()));
        Ok(dir)
    }
}

/// What does not come to be a leaf is removed.
impl Drop for Made {
    fn drop(&mut self) {
        for (controller, dir) in self.dirs.drain(..) {
            if let Err(error) = group::try_remove(&dir) {
                tracing::error!(%error, "a cgroup leaf could not be removed");
            }
            if controller == "cpu" {
                group::leave_tenant(&dir);
            }
        }
    }
}

/// Bytes that the buffers of a run's sockets may take in v1, which does not count them as memory: a quarter of it, and not so
/// little that a connection crawls.
fn socket_bytes(memory_bytes_max: u64) -> u64 {
    (memory_bytes_max / 4).max(8 << 20)
}

/// The file of that bound. It holds for UDP as well (measured on Linux 6.18: of 200 MiB that were sent to sockets that nobody
/// reads, as much was kept as the bound says). A kernel booted with `cgroup.memory=nokmem` has no such file.
pub(crate) const SOCKETS: &str = "memory.kmem.tcp.limit_in_bytes";

/// Memory, memory with swap at the same bound, so that swap is off, and the buffers of sockets.
fn limit_memory(dir: &Path, bytes_max: u64) -> Result<u64, Obstacle> {
    let max = group::set_pages(dir, "memory.limit_in_bytes", bytes_max)?;
    match group::set_pages(dir, "memory.memsw.limit_in_bytes", bytes_max) {
        // Without swap accounting the kernel can at least be told not to swap this group.
        Err(Obstacle::Denied(_)) if !dir.join("memory.memsw.limit_in_bytes").exists() => {
            group::set_exactly(dir, "memory.swappiness", 0)?;
        }
        outcome => _ = outcome?,
    }
    match group::set_pages(dir, SOCKETS, socket_bytes(bytes_max)) {
        // `proctor doctor` tells of a host that lacks it.
        Err(Obstacle::Denied(_)) if !dir.join(SOCKETS).exists() => {}
        outcome => _ = outcome?,
    }
    let control = Gauge::open(Some(dir), "memory.oom_control").map_err(Obstacle::Passing)?;
    let waits = || control.keyed("oom_kill_disable");
    // A parent may have handed down that its processes wait at the limit for ever instead of being killed.
    if waits() == Some(1) {
        group::set(dir, "memory.oom_control", "0")?;
    }
    match waits() {
        Some(0) => Ok(max),
        None if group::is_missing(dir) => Err(Obstacle::Passing(Passing::Gone)),
        _ => Err("the group does not kill at its memory limit".to_owned().into()),
    }
}

fn limit_cpu(dir: &Path, millis_max: u64) -> Result<u64, Obstacle> {
    let (quota_us, period_us) = super::quota_us(millis_max);
    group::set_exactly(dir, "cpu.cfs_period_us", period_us)?;
    Ok(group::set_exactly(dir, "cpu.cfs_quota_us", quota_us)? * 1_000 / period_us)
}

impl V1Leaf {
    /// Opens what the leaf is watched by. A counter that cannot be opened is evidence that would be missed.
    fn watching(mut made: Made, disks: &[Disk]) -> Result<V1Leaf, Passing> {
        let dirs = &made.dirs;
        let gauge = |controller, file| Gauge::open(dir_of(dirs, controller), file);
        let oom_kills = gauge("memory", "memory.oom_control")?;
        let oom_bell = match dir_of(dirs, "memory").zip(oom_kills.file()) {
            Some((dir, file)) => group::bell(dir, hang_bell(dir, file))?,
            None => None,
        };
        Ok(V1Leaf {
            is_first: made.is_first,
            oom_bell,
            oom_kills,
            memory_peak: gauge("memory", "memory.max_usage_in_bytes")?,
            // With swap at the same bound, that is the one that is met.
            memory_touched: gauge("memory", "memory.memsw.failcnt")?.or_else(|| gauge("memory", "memory.failcnt"))?,
            memory_stat: gauge("memory", "memory.stat")?,
            throttled: gauge("cpu", "cpu.stat")?,
            cpu_user: gauge("cpuacct", "cpuacct.usage_user")?,
            cpu_system: gauge("cpuacct", "cpuacct.usage_sys")?,
            pids_peak: gauge("pids", "pids.peak")?,
            pids_refused: gauge("pids", "pids.events")?,
            dirs: std::mem::take(&mut made.dirs),
            disks: disks.to_vec(),
        })
    }

    /// The groups of the leaf, each once.
    fn groups(&self) -> impl Iterator<Item = &Path> {
        let is_first = |at: usize, dir: &PathBuf| self.dirs.iter().take(at).all(|(_, before)| before != dir);
        let all = self.dirs.iter().enumerate();
        all.filter(move |(at, (_, dir))| is_first(*at, dir)).map(|(_, (_, dir))| dir.as_path())
    }
}

fn dir_of<'a>(dirs: &'a [(&'static str, PathBuf)], controller: &str) -> Option<&'a Path> {
    dirs.iter().find(|(name, _)| *name == controller).map(|(_, dir)| dir.as_path())
}

/// An eventfd that the kernel rings when the group is out of memory (`cgroup-v1/memory.rst`, "OOM Control").
fn hang_bell(dir: &Path, oom_control: &File) -> io::Result<OwnedFd> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    group::write(dir, "cgroup.event_control", &format!("{} {}", bell.as_raw_fd(), oom_control.as_raw_fd()))?;
    Ok(bell)
}

impl Leaf for V1Leaf {
    fn is_first(&self) -> bool {
        self.is_first
    }

    fn birth(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |dir: &Path| Ok(fs::OpenOptions::new().write(true).open(dir.join("tasks"))?.into());
        self.groups().map(open).collect()
    }

    fn is_gone(&self) -> bool {
        self.groups().any(group::is_missing)
    }

    #[cfg(test)]
    fn add(&self, pid: u32, _born: bool) -> io::Result<()> {
        self.groups().try_for_each(|dir| group::write(dir, "cgroup.procs", &pid.to_string()))
    }

    fn pids(&self) -> Vec<u32> {
        self.groups().next().map(group::pids).unwrap_or_default()
    }

    fn memory_bytes(&self) -> Option<u64> {
        group::number(dir_of(&self.dirs, "memory")?, "memory.usage_in_bytes")
    }

    fn unwritten_bytes(&self) -> Option<u64> {
        let [dirty, writeback] = self.memory_stat.all_keyed(["dirty", "writeback"]);
        dirty?.checked_add(writeback?)
    }

    fn oom_kills(&self) -> u64 {
        self.oom_kills.keyed("oom_kill").unwrap_or(0)
    }

    fn oom_bell(&self) -> Option<BorrowedFd<'_>> {
        self.oom_bell.as_ref().map(AsFd::as_fd)
    }

    fn hush(&self) -> bool {
        self.oom_bell.as_ref().is_some_and(|bell| rustix::io::read(bell, &mut [0; 8]).is_ok())
    }

    fn counters(&self) -> Counters {
        let seconds = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64();
        Counters {
            cpu_user_s: self.cpu_user.number().map(seconds),
            cpu_system_s: self.cpu_system.number().map(seconds),
            throttled_s: self.throttled.keyed("throttled_time").map(seconds),
            memory_peak_bytes: self.memory_peak.number(),
            memory_touched: self.memory_touched.number().unwrap_or(0),
            oom_kills: self.oom_kills(),
            pids_peak: self.pids_peak.number(),
            pids_refused: self.pids_refused.keyed("max").unwrap_or(0),
            ..Counters::default()
        }
    }

    fn favour(&self, favour: Favour) {
        if let Some(tenant) = dir_of(&self.dirs, "cpu").and_then(Path::parent) {
            let _told = group::write(tenant, "cpu.shares", favour.shares());
        }
    }

    fn lift(&self) {
        if let Some(blkio) = dir_of(&self.dirs, controller(LimitKind::Writes)) {
            FILES.writes.lift(blkio, &self.disks);
        }
        if let Some(cpu) = dir_of(&self.dirs, "cpu") {
            // A help only: a throttled run dies as well.
            let _lifted = group::write(cpu, "cpu.cfs_quota_us", "-1");
        }
    }

    fn freeze(&self, _frozen: bool) -> bool {
        false
    }

    fn is_frozen(&self) -> bool {
        false
    }

    fn kill(&self) {
        // Where no new process can be made, killing comes to an end.
        let any = self.groups().next();
        if let Some(dir) = dir_of(&self.dirs, "pids").or(any) {
            group::kill(dir);
        }
    }

    fn remove(&mut self, wait: Duration) -> io::Result<()> {
        let until = Instant::now() + wait;
        // Each is tried, whatever becomes of those before it.
        let removed = self.groups().map(|dir| group::remove(dir, until)).fold(Ok(()), io::Result::and);
        if let Some(cpu) = dir_of(&self.dirs, "cpu") {
            group::leave_tenant(cpu);
        }
        // Who has waited for them in vain does not wait again when the leaf is dropped.
        self.dirs.clear();
        removed
    }
}

impl Drop for V1Leaf {
    fn drop(&mut self) {
        if !self.dirs.is_empty() {
            self.kill();
            if let Err(error) = self.remove(group::REMOVE_WAIT) {
                tracing::error!(%error, "a cgroup leaf could not be removed");
            }
        }
    }
}

//! The part of a leaf in v1 hierarchies: a group for each limit whose controller is mounted there.
//!
//! Only in the cpu hierarchy is a leaf nested in a group of its tenant, whose weight is the tenant's CPU boost. Memory
//! and pids have no weights, and another level would cost every run an attempt to remove it. In the blkio hierarchy a
//! leaf has a group only for its write limit: the controller counts next to nothing of buffered writes.

use super::cgroups_rs_controllers::{self, SOCKET_BUFFERS_LIMIT};
use super::group::{self, CounterFile, GroupError, TransientFailure};
use super::hierarchy::Hierarchies;
use super::leaf::{Counters, CpuBoost, Leaf};
use super::leaf_limits::{self, LeafLimits, LeafPart, LimitWriters, MissingLimit, apply_limit};
use super::write_limit::{BlockDevice, WriteThrottle};
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::LimitKind;
use rustix::event::{EventfdFlags, eventfd};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Controllers in whose v1 hierarchy a leaf may have a group.
pub(super) const CONTROLLERS: [&str; 5] = ["memory", "cpu", "pids", "cpuacct", "blkio"];

/// Name of the mechanism in reports.
pub(crate) const V1: &str = "cgroup-v1";

const LIMIT_WRITERS: LimitWriters = LimitWriters { memory: limit_memory, cpu: limit_cpu, writes: WriteThrottle::V1 };

/// The v1 name of the controller that enforces `limit`.
pub(super) fn controller_name(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Writes => "blkio",
        _ => leaf_limits::controller_name(limit),
    }
}

pub(super) struct V1Leaf {
    /// Groups by controller. Controllers that are mounted together share a directory.
    dirs: Vec<(&'static str, PathBuf)>,
    is_tenant_group_new: bool,
    oom_event_fd: Option<OwnedFd>,
    oom_kills: CounterFile,
    memory_peak: CounterFile,
    memory_limit_reached: CounterFile,
    memory_stat: CounterFile,
    throttled: CounterFile,
    cpu_user: CounterFile,
    cpu_system: CounterFile,
    pids_peak: CounterFile,
    pids_refused: CounterFile,
    /// Disks whose write limit is lifted before the run is killed.
    devices: Vec<BlockDevice>,
}

/// Makes a group for each of `kinds` with its limit written and read back, and one that counts processor time if
/// `with_cpu_times`. The leaf is `None` if no group could be made.
pub(super) fn open(
    hierarchies: &Hierarchies,
    owner: &str,
    leaf_limits: LeafLimits<'_>,
    kinds: &[LimitKind],
    with_cpu_times: bool,
) -> LeafPart<V1Leaf> {
    let (tenant, name) = (hierarchies.supervisor.tenant_name(owner), hierarchies.supervisor.leaf_name());
    let mut new_groups = NewGroups::default();
    let mut outcomes = Vec::with_capacity(kinds.len());
    for &limit in kinds {
        let result = new_groups
            .group(hierarchies, controller_name(limit), &tenant, &name)
            .and_then(|dir| apply_limit(&dir, limit, leaf_limits, &LIMIT_WRITERS));
        outcomes.push(match result {
            Ok(max) => Ok(LimitInForce { limit, max, by: V1.to_owned() }),
            Err(GroupError::Denied(reason)) => Err(MissingLimit { limit, reason, remedy: remedy(limit) }),
            Err(GroupError::Transient(failure)) => return Err(failure),
        });
    }
    if with_cpu_times {
        // Best effort: the run's init knows the times of all processes that it has reaped.
        let _times = new_groups.group(hierarchies, "cpuacct", &tenant, &name);
    }
    let leaf =
        (!new_groups.dirs.is_empty()).then(|| V1Leaf::open_counters(new_groups, leaf_limits.devices)).transpose()?;
    Ok((leaf, outcomes))
}

fn remedy(limit: LimitKind) -> String {
    let controller = controller_name(limit);
    format!("run as root, or delegate a writable {controller} group to this user and start proctor in it")
}

/// Groups made for a leaf. Dropping it removes them unless they became a leaf's.
#[derive(Default)]
struct NewGroups {
    /// Groups by controller. Controllers that are mounted together share a directory.
    dirs: Vec<(&'static str, PathBuf)>,
    /// Whether the tenant's group was made with them.
    is_tenant_group_new: bool,
}

impl NewGroups {
    /// Makes the group of one controller below the supervisor's own. An existing group is an error: it is not ours.
    fn group(
        &mut self,
        hierarchies: &Hierarchies,
        controller: &'static str,
        tenant: &str,
        name: &str,
    ) -> Result<PathBuf, GroupError> {
        let own =
            hierarchies.v1.get(controller).ok_or_else(|| format!("the {controller} controller is not mounted"))?;
        let shared =
            self.dirs.iter().find(|(other, _)| hierarchies.v1.get(*other) == Some(own)).map(|(_, dir)| dir.clone());
        let created = match shared {
            Some(dir) => Ok(dir),
            None if hierarchies.v1.get("cpu") == Some(own) => group::create_nested(own, tenant, name).map(|nested| {
                self.is_tenant_group_new |= nested.is_tenant_group_new;
                nested.dir
            }),
            None => match fs::create_dir(own.join(name)) {
                Ok(()) => Ok(own.join(name)),
                Err(error) => Err(GroupError::from_io(own, error)),
            },
        };
        let dir = created.map_err(|error| error.context(&format!("a {controller} group cannot be made")))?;
        self.dirs.push((controller, dir.clone()));
        Ok(dir)
    }
}

impl Drop for NewGroups {
    fn drop(&mut self) {
        for (controller, dir) in self.dirs.drain(..) {
            if let Err(error) = group::try_remove(&dir) {
                tracing::error!(%error, "a cgroup leaf could not be removed");
            }
            if controller == "cpu" {
                group::remove_empty_tenant_group(&dir);
            }
        }
    }
}

/// Limit for the socket buffers of a run in v1, which does not count them as memory, bytes: a quarter of the memory
/// limit, and enough that a connection does not crawl.
fn socket_bytes(memory_bytes_max: u64) -> u64 {
    (memory_bytes_max / 4).max(8 << 20)
}

/// Limits memory, memory plus swap to the same value so that swap is off, and socket buffers.
fn limit_memory(dir: &Path, bytes_max: u64) -> Result<u64, GroupError> {
    let max = cgroups_rs_controllers::set_memory_v1(dir, bytes_max)?;
    match cgroups_rs_controllers::set_memory_and_swap_v1(dir, bytes_max) {
        // Without swap accounting the kernel can at least be told not to swap this group.
        Err(GroupError::Denied(_)) if !dir.join("memory.memsw.limit_in_bytes").exists() => {
            group::set_exactly(dir, "memory.swappiness", 0)?;
        }
        outcome => _ = outcome?,
    }
    match cgroups_rs_controllers::set_socket_buffers_v1(dir, socket_bytes(bytes_max)) {
        // `proctor doctor` reports a host without this file.
        Err(GroupError::Denied(_)) if !dir.join(SOCKET_BUFFERS_LIMIT).exists() => {}
        outcome => _ = outcome?,
    }
    let control = CounterFile::open(Some(dir), "memory.oom_control").map_err(GroupError::Transient)?;
    let waits = || control.value("oom_kill_disable");
    // The group may have inherited that processes wait at the limit for ever instead of being killed.
    if waits() == Some(1) {
        group::set(dir, "memory.oom_control", "0")?;
    }
    match waits() {
        Some(0) => Ok(max),
        None if group::is_removed_or_dying(dir) => Err(GroupError::Transient(TransientFailure::Removed)),
        _ => Err("the group does not kill at its memory limit".to_owned().into()),
    }
}

fn limit_cpu(dir: &Path, millis_max: u64) -> Result<u64, GroupError> {
    let (quota_us, period_us) = leaf_limits::quota_us(millis_max);
    cgroups_rs_controllers::set_cpu_v1(dir, (quota_us, period_us))?;
    Ok(quota_us * 1_000 / period_us)
}

impl V1Leaf {
    /// Opens the counters. A counter that cannot be opened is an error, since it would be missing as evidence.
    fn open_counters(mut new_groups: NewGroups, devices: &[BlockDevice]) -> Result<V1Leaf, TransientFailure> {
        let dirs = &new_groups.dirs;
        let counter = |controller, file| CounterFile::open(dir_of(dirs, controller), file);
        let oom_kills = counter("memory", "memory.oom_control")?;
        let oom_event_fd = match dir_of(dirs, "memory").zip(oom_kills.file()) {
            Some((dir, file)) => group::oom_event_or_none(dir, register_oom_event(dir, file))?,
            None => None,
        };
        Ok(V1Leaf {
            is_tenant_group_new: new_groups.is_tenant_group_new,
            oom_event_fd,
            oom_kills,
            memory_peak: counter("memory", "memory.max_usage_in_bytes")?,
            // With the same limit for memory plus swap, that is the limit that is reached.
            memory_limit_reached: counter("memory", "memory.memsw.failcnt")?
                .or_else(|| counter("memory", "memory.failcnt"))?,
            memory_stat: counter("memory", "memory.stat")?,
            throttled: counter("cpu", "cpu.stat")?,
            cpu_user: counter("cpuacct", "cpuacct.usage_user")?,
            cpu_system: counter("cpuacct", "cpuacct.usage_sys")?,
            pids_peak: counter("pids", "pids.peak")?,
            pids_refused: counter("pids", "pids.events")?,
            dirs: std::mem::take(&mut new_groups.dirs),
            devices: devices.to_vec(),
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

/// Registers an eventfd that the kernel signals when the group is out of memory (`cgroup-v1/memory.rst`, "OOM
/// Control").
fn register_oom_event(dir: &Path, oom_control: &File) -> io::Result<OwnedFd> {
    let oom_event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    group::write(dir, "cgroup.event_control", &format!("{} {}", oom_event.as_raw_fd(), oom_control.as_raw_fd()))?;
    Ok(oom_event)
}

impl Leaf for V1Leaf {
    fn is_tenant_group_new(&self) -> bool {
        self.is_tenant_group_new
    }

    fn clone_target(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn join_files(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |dir: &Path| Ok(fs::OpenOptions::new().write(true).open(dir.join("tasks"))?.into());
        self.groups().map(open).collect()
    }

    fn is_removed(&self) -> bool {
        self.groups().any(group::is_removed_or_dying)
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

    fn dirty_bytes(&self) -> Option<u64> {
        let [dirty, writeback] = self.memory_stat.values(["dirty", "writeback"]);
        dirty?.checked_add(writeback?)
    }

    fn oom_kills(&self) -> u64 {
        self.oom_kills.value("oom_kill").unwrap_or(0)
    }

    fn oom_event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.oom_event_fd.as_ref().map(AsFd::as_fd)
    }

    fn clear_oom_event(&self) -> bool {
        self.oom_event_fd.as_ref().is_some_and(|oom_event| rustix::io::read(oom_event, &mut [0; 8]).is_ok())
    }

    fn counters(&self) -> Counters {
        let seconds = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64();
        Counters {
            cpu_user_s: self.cpu_user.number().map(seconds),
            cpu_system_s: self.cpu_system.number().map(seconds),
            throttled_s: self.throttled.value("throttled_time").map(seconds),
            memory_peak_bytes: self.memory_peak.number(),
            memory_limit_reached: self.memory_limit_reached.number().unwrap_or(0),
            oom_kills: self.oom_kills(),
            pids_peak: self.pids_peak.number(),
            pids_refused: self.pids_refused.value("max").unwrap_or(0),
            ..Counters::default()
        }
    }

    fn set_cpu_boost(&self, boost: CpuBoost) {
        if let Some(tenant) = dir_of(&self.dirs, "cpu").and_then(Path::parent) {
            let _written = group::write(tenant, "cpu.shares", boost.shares());
        }
    }

    fn lift_throttles(&self) {
        if let Some(blkio) = dir_of(&self.dirs, controller_name(LimitKind::Writes)) {
            LIMIT_WRITERS.writes.lift_throttles(blkio, &self.devices);
        }
        if let Some(cpu) = dir_of(&self.dirs, "cpu") {
            // Best effort: a throttled run dies too.
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
        // In the pids group, since killing comes to an end when no new process can be made.
        let any = self.groups().next();
        if let Some(dir) = dir_of(&self.dirs, "pids").or(any) {
            group::kill(dir);
        }
    }

    fn remove(&mut self, wait: Duration) -> io::Result<()> {
        let until = Instant::now() + wait;
        // Every group is tried, even if one before it fails.
        let removed = self.groups().map(|dir| group::remove(dir, until)).fold(Ok(()), io::Result::and);
        if let Some(cpu) = dir_of(&self.dirs, "cpu") {
            group::remove_empty_tenant_group(cpu);
        }
        // Cleared even after a failure, so that the drop of the leaf does not wait again.
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

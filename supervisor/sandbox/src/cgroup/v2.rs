//! The part of a leaf in the v2 hierarchy: on a pure v2 host all of it, on a hybrid host what v1 lacks.
//!
//! A leaf is nested in a group of its tenant, whose weight is the tenant's CPU boost.

use super::cgroups_rs_controllers;
use super::delegation::{self, contains, enable_controller, explain_missing_controller};
use super::group::{self, CounterFile, GroupError, NestedGroup, TransientFailure};
use super::hierarchy::Hierarchies;
use super::leaf::{Counters, CpuBoost, Leaf};
use super::leaf_limits::{self, LeafLimits, LeafPart, LimitWriters, MissingLimit, apply_limit, controller_name};
use super::write_limit::{BlockDevice, WriteThrottle};
use crate::exhausted_resource::exhausted_resource;
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::LimitKind;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) struct V2Leaf {
    /// `None` after its removal.
    dir: Option<PathBuf>,
    is_tenant_group_new: bool,
    clone_target: OwnedFd,
    oom_event_fd: Option<OwnedFd>,
    memory_events: CounterFile,
    memory_peak: CounterFile,
    cpu: CounterFile,
    pids_peak: CounterFile,
    pids_events: CounterFile,
    io: CounterFile,
    cpu_pressure: CounterFile,
    memory_pressure: CounterFile,
    io_pressure: CounterFile,
    /// Disks whose write limit is lifted before the run is killed.
    devices: Vec<BlockDevice>,
}

const LIMIT_WRITERS: LimitWriters = LimitWriters { memory: limit_memory, cpu: limit_cpu, writes: WriteThrottle::V2 };

/// Makes a leaf below `own`, the supervisor's group, with the limits of `kinds` written and read back.
pub(super) fn open(
    hierarchies: &Hierarchies,
    own: &Path,
    owner: &str,
    leaf_limits: LeafLimits<'_>,
    kinds: &[LimitKind],
) -> LeafPart<V2Leaf> {
    let created = match make(hierarchies, own, owner, kinds) {
        Ok(created) => Ok(created),
        Err(GroupError::Transient(failure)) => return Err(failure),
        Err(GroupError::Denied(reason)) => Err(reason),
    };
    let mut outcomes = Vec::with_capacity(kinds.len());
    for &limit in kinds {
        let name = controller_name(limit);
        let result = match &created {
            Ok(NewLeaf { group, enabled, .. }) if contains(enabled, name) => {
                match apply_limit(&group.dir, limit, leaf_limits, &LIMIT_WRITERS) {
                    Ok(max) => Ok(max),
                    Err(GroupError::Transient(failure)) => return Err(failure),
                    Err(GroupError::Denied(reason)) => Err((reason, remedy(limit).to_owned())),
                }
            }
            Ok(_) => Err(explain_missing_controller(own, name)),
            Err(reason) => {
                Err((format!("no {name} group can be made: {reason}"), explain_missing_controller(own, name).1))
            }
        };
        outcomes.push(match result {
            Ok(max) => Ok(LimitInForce { limit, max, by: "cgroup-v2".to_owned() }),
            Err((reason, remedy)) => Err(MissingLimit { limit, reason, remedy }),
        });
    }
    let devices = if kinds.contains(&LimitKind::Writes) { leaf_limits.devices } else { &[] };
    Ok((created.ok().map(|created| V2Leaf::open_counters(created, devices)).transpose()?, outcomes))
}

/// Remedy for a limit that its controller refuses.
fn remedy(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Memory => "use Linux 4.19 or newer, booted without swapaccount=0, or turn swap off",
        LimitKind::Writes => "use a kernel with write throttling (CONFIG_BLK_DEV_THROTTLING)",
        _ => "use a kernel that accepts this limit",
    }
}

/// The group of a new leaf.
struct NewLeaf {
    group: GroupGuard,
    clone_target: OwnedFd,
    /// Controllers of the group.
    enabled: Vec<String>,
}

/// Removes a new group on drop unless it became a leaf's.
struct GroupGuard {
    dir: PathBuf,
    is_tenant_group_new: bool,
    is_owned_by_leaf: bool,
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        if !self.is_owned_by_leaf {
            if let Err(error) = group::try_remove(&self.dir) {
                tracing::error!(%error, "a cgroup leaf could not be removed");
            }
            group::remove_empty_tenant_group(&self.dir);
        }
    }
}

fn make(hierarchies: &Hierarchies, own: &Path, owner: &str, kinds: &[LimitKind]) -> Result<NewLeaf, GroupError> {
    let (tenant, name) = (hierarchies.supervisor.tenant_name(owner), hierarchies.supervisor.leaf_name());
    let NestedGroup { dir, is_tenant_group_new } = group::create_nested(own, &tenant, &name)?;
    let group = GroupGuard { dir, is_tenant_group_new, is_owned_by_leaf: false };
    let controllers = || {
        delegation::try_read_words(&group.dir, "cgroup.controllers")
            .map_err(|error| GroupError::from_io(&group.dir, error))
    };
    let mut enabled = controllers()?;
    let has_file = |kind: &LimitKind| group.dir.join(format!("{}.max", controller_name(*kind))).exists();
    let has_all = kinds.iter().all(|kind| contains(&enabled, controller_name(*kind)) && has_file(kind));
    // Another thread may have made the tenant's group and not have enabled its controllers yet, or be doing so: the kernel
    // lists a controller a moment before it makes its files.
    if is_tenant_group_new || !has_all {
        // After the leaf was made, which keeps other threads from removing its tenant's group. A controller that cannot
        // be enabled shows when its limit is written.
        let tenant_group = own.join(tenant);
        for controller in delegation::try_missing_controllers(&tenant_group)
            .map_err(|error| GroupError::from_io(&tenant_group, error))?
        {
            if let Err(error) = enable_controller(&tenant_group, controller)
                && let Ok(failure) = TransientFailure::from_io(&tenant_group, error)
            {
                return Err(GroupError::Transient(failure));
            }
        }
        enabled = controllers()?;
        // To enable a controller once more changes nothing, and waits for the kernel's lock, under which the files are made.
        if let Some(kind) = kinds.iter().find(|kind| contains(&enabled, controller_name(**kind)) && !has_file(kind)) {
            enable_controller(&tenant_group, controller_name(*kind))
                .map_err(|error| GroupError::from_io(&tenant_group, error))?;
        }
    }
    let clone_target = rustix::fs::open(&group.dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let clone_target = clone_target.map_err(|error| GroupError::from_io(&group.dir, error.into()))?;
    Ok(NewLeaf { group, clone_target, enabled })
}

/// Limits memory with swap off, and makes an OOM kill take the whole leaf: a run that lost a process has no valid
/// result.
fn limit_memory(dir: &Path, bytes_max: u64) -> Result<u64, GroupError> {
    let max = cgroups_rs_controllers::set_memory_v2(dir, bytes_max)?;
    group::set_exactly(dir, "memory.oom.group", 1)?;
    if dir.join("memory.swap.max").exists() {
        cgroups_rs_controllers::disable_swap_v2(dir)?;
    } else if group::is_removed_or_dying(dir) {
        return Err(GroupError::Transient(TransientFailure::Removed));
    } else if has_swap(&swaps()?) {
        return Err("swap is on, and this kernel cannot turn it off for a group".to_owned().into());
    }
    Ok(max)
}

/// Content of `/proc/swaps`; empty on a kernel without swap, which has no such file.
fn swaps() -> Result<String, GroupError> {
    let read = fs::read_to_string("/proc/swaps");
    read.or_else(|error| match exhausted_resource(&error) {
        Some(_) => Err(GroupError::Transient(TransientFailure::Exhausted(error))),
        None => Ok(String::new()),
    })
}

/// Whether `swaps`, in the format of `/proc/swaps`, lists anything below its heading.
fn has_swap(swaps: &str) -> bool {
    swaps.lines().count() > 1
}

fn limit_cpu(dir: &Path, millis_max: u64) -> Result<u64, GroupError> {
    let (quota_us, period_us) = leaf_limits::quota_us(millis_max);
    cgroups_rs_controllers::set_cpu_v2(dir, (quota_us, period_us))?;
    Ok(quota_us * 1_000 / period_us)
}

impl V2Leaf {
    /// Opens the counters of the leaf's controllers. A counter that cannot be opened is an error, since it would be
    /// missing as evidence.
    fn open_counters(
        NewLeaf { mut group, clone_target, enabled }: NewLeaf,
        devices: &[BlockDevice],
    ) -> Result<V2Leaf, TransientFailure> {
        let counter = |file| CounterFile::open(Some(&group.dir), file);
        let counter_of =
            |controller, file| CounterFile::open(contains(&enabled, controller).then_some(&group.dir), file);
        let memory_events = counter_of("memory", "memory.events")?;
        let leaf = V2Leaf {
            is_tenant_group_new: group.is_tenant_group_new,
            clone_target,
            oom_event_fd: group::oom_event_or_none(&group.dir, register_oom_event(&memory_events))?.flatten(),
            memory_events,
            memory_peak: counter_of("memory", "memory.peak")?,
            cpu: counter("cpu.stat")?,
            pids_peak: counter_of("pids", "pids.peak")?,
            pids_events: counter_of("pids", "pids.events")?,
            io: counter_of("io", "io.stat")?,
            cpu_pressure: counter("cpu.pressure")?,
            memory_pressure: counter("memory.pressure")?,
            io_pressure: counter("io.pressure")?,
            dir: Some(group.dir.clone()),
            devices: devices.to_vec(),
        };
        group.is_owned_by_leaf = true;
        Ok(leaf)
    }
}

/// Makes a readable descriptor from `memory.events`: the kernel reports a change as an exceptional condition of the
/// open file until it is read, and an epoll instance turns that into readability.
fn register_oom_event(memory_events: &CounterFile) -> io::Result<Option<OwnedFd>> {
    let Some(events) = memory_events.file() else { return Ok(None) };
    let oom_event = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&oom_event, events, epoll::EventData::new_u64(0), epoll::EventFlags::PRI)?;
    // A file that was never read counts as changed.
    memory_events.value("oom");
    Ok(Some(oom_event))
}

/// Total of `some` in seconds, in the format of the kernel's `accounting/psi.rst`, whose totals are microseconds.
fn pressure_s(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split(' ').find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?).as_secs_f64())
}

/// Sum of `key` over all devices, in lines of `8:0 rbytes=4096 wbytes=0`.
fn sum_over_devices(io: &str, key: &str) -> u64 {
    let words = io.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    words.filter(|(name, _)| *name == key).filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum()
}

impl Leaf for V2Leaf {
    fn is_tenant_group_new(&self) -> bool {
        self.is_tenant_group_new
    }

    fn clone_target(&self) -> Option<BorrowedFd<'_>> {
        Some(self.clone_target.as_fd())
    }

    fn join_files(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    fn is_removed(&self) -> bool {
        self.dir.as_deref().is_some_and(group::is_removed_or_dying)
    }

    #[cfg(test)]
    fn add(&self, pid: u32, born: bool) -> io::Result<()> {
        match &self.dir {
            Some(dir) if !born => group::write(dir, "cgroup.procs", &pid.to_string()),
            _ => Ok(()),
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.dir.as_deref().map(group::pids).unwrap_or_default()
    }

    fn memory_bytes(&self) -> Option<u64> {
        group::number(self.dir.as_deref()?, "memory.current")
    }

    fn dirty_bytes(&self) -> Option<u64> {
        None
    }

    fn oom_kills(&self) -> u64 {
        self.memory_events.value("oom_kill").unwrap_or(0)
    }

    fn oom_event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.oom_event_fd.as_ref().map(AsFd::as_fd)
    }

    fn clear_oom_event(&self) -> bool {
        let Some(oom_event) = &self.oom_event_fd else { return false };
        let mut events = [PollFd::new(oom_event, PollFlags::IN)];
        let has_event = poll(&mut events, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        if has_event {
            self.memory_events.value("oom");
        }
        has_event
    }

    fn counters(&self) -> Counters {
        let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
        // Each file is read once: the end of a run waits for this.
        let [user, system, throttled] = self.cpu.values(["user_usec", "system_usec", "throttled_usec"]);
        let [memory_limit_reached, oom_kills] = self.memory_events.values(["max", "oom_kill"]);
        let devices = |io: &str| Some((sum_over_devices(io, "rbytes"), sum_over_devices(io, "wbytes")));
        let (read_bytes, written_bytes) = self.io.read(devices).unzip();
        Counters {
            cpu_user_s: user.map(seconds),
            cpu_system_s: system.map(seconds),
            throttled_s: throttled.map(seconds),
            memory_peak_bytes: self.memory_peak.number(),
            memory_limit_reached: memory_limit_reached.unwrap_or(0),
            oom_kills: oom_kills.unwrap_or(0),
            pids_peak: self.pids_peak.number(),
            pids_refused: self.pids_events.value("max").unwrap_or(0),
            read_bytes,
            written_bytes,
            cpu_pressure_s: self.cpu_pressure.read(pressure_s),
            memory_pressure_s: self.memory_pressure.read(pressure_s),
            io_pressure_s: self.io_pressure.read(pressure_s),
        }
    }

    fn set_cpu_boost(&self, boost: CpuBoost) {
        if let Some(tenant) = self.dir.as_deref().and_then(Path::parent) {
            // Best effort: on a hybrid host the file does not exist.
            let _written = group::write(tenant, "cpu.weight", boost.weight());
        }
    }

    fn lift_throttles(&self) {
        if let Some(dir) = &self.dir {
            LIMIT_WRITERS.writes.lift_throttles(dir, &self.devices);
            // Best effort: a throttled run dies too, and on a hybrid host the file does not exist.
            let _lifted = group::write(dir, "cpu.max", "max");
        }
    }

    fn freeze(&self, frozen: bool) -> bool {
        let Some(dir) = &self.dir else { return false };
        let result = cgroups_rs_controllers::set_frozen(dir, frozen);
        if let Err(error) = &result {
            tracing::warn!(%error, frozen, "a leaf cannot be frozen or thawed");
        }
        result.is_ok()
    }

    fn is_frozen(&self) -> bool {
        self.dir.as_deref().is_some_and(|dir| group::read_value(dir, "cgroup.events", "frozen") == Some(1))
    }

    fn kill(&self) {
        if let Some(dir) = &self.dir {
            group::kill(dir);
        }
    }

    fn remove(&mut self, wait: Duration) -> io::Result<()> {
        // Taken even if the removal fails, so that the drop of the leaf does not wait again.
        let Some(dir) = self.dir.take() else { return Ok(()) };
        let removed = group::remove(&dir, Instant::now() + wait);
        group::remove_empty_tenant_group(&dir);
        removed
    }
}

impl Drop for V2Leaf {
    fn drop(&mut self) {
        if self.dir.is_some() {
            self.kill();
            if let Err(error) = self.remove(group::REMOVE_WAIT) {
                tracing::error!(%error, "a cgroup leaf could not be removed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_totals_in_the_kernels_formats() {
        let pressure = "some avg10=0.00 avg60=0.12 avg300=0.00 total=1250000\nfull avg10=0.00 avg60=0.00 total=7\n";
        assert_eq!(pressure_s(pressure), Some(1.25));
        assert_eq!(pressure_s("full avg10=0.00 total=7\n"), None);
        let io = "8:0 rbytes=4096 wbytes=1 rios=1 wios=0 dbytes=0 dios=0\n254:16 rbytes=4 wbytes=2\n7:0 \n";
        assert_eq!((sum_over_devices(io, "rbytes"), sum_over_devices(io, "wbytes")), (4_100, 3));
        assert_eq!(sum_over_devices("", "rbytes"), 0);
    }

    #[test]
    fn detects_swap_only_below_the_heading() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert!(!has_swap("") && !has_swap(heading));
        assert!(has_swap(&format!("{heading}/dev/vda2 partition 1048572 0 -2\n")));
    }
}

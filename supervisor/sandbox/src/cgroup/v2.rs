//! The part of a leaf that is in the v2 hierarchy: on a pure v2 host all of it, elsewhere what v1 lacks. Must not know
//! anything of v1.
//!
//! A leaf is nested in a group of its tenant, whose weight is its favour.

use super::favour::Favour;
use super::group::{self, Gauge, Nested, Obstacle, Passing};
use super::settle::{self, enable, is_in, obstacle};
use super::writes::{Disk, Throttle};
use super::{Bounds, Counters, Files, Leaf, MissingLimit, Part, Places, controller};
use crate::lack::lack;
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
    is_first: bool,
    birth: OwnedFd,
    oom_bell: Option<OwnedFd>,
    memory_events: Gauge,
    memory_peak: Gauge,
    cpu: Gauge,
    pids_peak: Gauge,
    pids_events: Gauge,
    io: Gauge,
    cpu_pressure: Gauge,
    memory_pressure: Gauge,
    io_pressure: Gauge,
    /// Whose bound is lifted for the death of the run.
    disks: Vec<Disk>,
}

const FILES: Files = Files { memory: limit_memory, cpu: limit_cpu, writes: Throttle::V2 };

/// A group below `own`, the supervisor's, with the limits of `kinds` written and read back.
pub(super) fn open(places: &Places, own: &Path, owner: &str, bounds: Bounds<'_>, kinds: &[LimitKind]) -> Part<V2Leaf> {
    let made = match make(places, own, owner, kinds) {
        Ok(made) => Ok(made),
        Err(Obstacle::Passing(passing)) => return Err(passing),
        Err(Obstacle::Denied(reason)) => Err(reason),
    };
    let mut told = Vec::with_capacity(kinds.len());
    for &limit in kinds {
        let name = controller(limit);
        let done = match &made {
            Ok(Made { group, enabled, .. }) if is_in(enabled, name) => {
                match super::put_on(&group.dir, limit, bounds, &FILES) {
                    Ok(max) => Ok(max),
                    Err(Obstacle::Passing(passing)) => return Err(passing),
                    Err(Obstacle::Denied(reason)) => Err((reason, remedy(limit).to_owned())),
                }
            }
            Ok(_) => Err(obstacle(own, name)),
            Err(reason) => Err((format!("no {name} group can be made: {reason}"), obstacle(own, name).1)),
        };
        told.push(match done {
            Ok(max) => Ok(LimitInForce { limit, max, by: "cgroup-v2".to_owned() }),
            Err((reason, remedy)) => Err(MissingLimit { limit, reason, remedy }),
        });
    }
    let disks = if kinds.contains(&LimitKind::Writes) { bounds.disks } else { &[] };
    Ok((made.ok().map(|made| V2Leaf::watching(made, disks)).transpose()?, told))
}

/// Against a limit that its controller refuses.
fn remedy(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Memory => "use Linux 4.19 or newer, booted without swapaccount=0, or turn swap off",
        LimitKind::Writes => "use a kernel that holds writes back (CONFIG_BLK_DEV_THROTTLING)",
        _ => "use a kernel that takes this limit",
    }
}

/// The group of a leaf.
struct Made {
    group: Group,
    birth: OwnedFd,
    /// The controllers that it has.
    enabled: Vec<String>,
}

/// A group that was made, until it is a leaf's: removed when it does not come to that.
struct Group {
    dir: PathBuf,
    is_first: bool,
    is_kept: bool,
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_kept {
            if let Err(error) = group::try_remove(&self.dir) {
                tracing::error!(%error, "a cgroup leaf could not be removed");
            }
            group::leave_tenant(&self.dir);
        }
    }
}

fn make(places: &Places, own: &Path, owner: &str, kinds: &[LimitKind]) -> Result<Made, Obstacle> {
    let (tenant, name) = (places.maker.tenant(owner), places.maker.leaf());
    let Nested { dir, is_first } = group::make_nested(own, &tenant, &name)?;
    let group = Group { dir, is_first, is_kept: false };
    let controllers =
        || settle::try_words(&group.dir, "cgroup.controllers").map_err(|error| Obstacle::met(&group.dir, error));
    let mut enabled = controllers()?;
    // Who has made the tenant's group may not have come as far as this.
    if is_first || kinds.iter().any(|kind| !is_in(&enabled, controller(*kind))) {
        // Only now, as a leaf keeps others from removing its tenant's group. A controller that cannot be had is missed when
        // its limit is written.
        let around = own.join(tenant);
        for controller in settle::try_lacking(&around).map_err(|error| Obstacle::met(&around, error))? {
            if let Err(error) = enable(&around, controller)
                && let Ok(passing) = Passing::met(&around, error)
            {
                return Err(Obstacle::Passing(passing));
            }
        }
        enabled = controllers()?;
    }
    let birth = rustix::fs::open(&group.dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let birth = birth.map_err(|error| Obstacle::met(&group.dir, error.into()))?;
    Ok(Made { group, birth, enabled })
}

/// Memory with swap off, and a kill that takes the whole leaf: what a run is after the loss of any process is no result.
fn limit_memory(dir: &Path, bytes_max: u64) -> Result<u64, Obstacle> {
    let max = group::set_pages(dir, "memory.max", bytes_max)?;
    group::set_exactly(dir, "memory.oom.group", 1)?;
    if dir.join("memory.swap.max").exists() {
        group::set_exactly(dir, "memory.swap.max", 0)?;
    } else if group::is_missing(dir) {
        return Err(Obstacle::Passing(Passing::Gone));
    } else if has_swap(&swaps()?) {
        return Err("swap is on, and this kernel cannot turn it off for a group".to_owned().into());
    }
    Ok(max)
}

/// A kernel without swap has no such file.
fn swaps() -> Result<String, Obstacle> {
    let read = fs::read_to_string("/proc/swaps");
    read.or_else(|error| match lack(&error) {
        Some(_) => Err(Obstacle::Passing(Passing::Lacking(error))),
        None => Ok(String::new()),
    })
}

/// Whether `swaps`, in the format of `/proc/swaps`, lists anything below its heading. A kernel without swap has no such
/// file.
fn has_swap(swaps: &str) -> bool {
    swaps.lines().count() > 1
}

fn limit_cpu(dir: &Path, millis_max: u64) -> Result<u64, Obstacle> {
    let (quota_us, period_us) = super::quota_us(millis_max);
    let wanted = format!("{quota_us} {period_us}");
    match group::set(dir, "cpu.max", &wanted)? {
        said if said == wanted => Ok(quota_us * 1_000 / period_us),
        said => Err(format!("cpu.max reads {said} after {wanted} was written").into()),
    }
}

impl V2Leaf {
    /// Opens what the leaf is watched by, which depends on the controllers that it has. A counter that cannot be opened is
    /// evidence that would be missed.
    fn watching(Made { mut group, birth, enabled }: Made, disks: &[Disk]) -> Result<V2Leaf, Passing> {
        let gauge = |file| Gauge::open(Some(&group.dir), file);
        let of = |controller, file| Gauge::open(is_in(&enabled, controller).then_some(&group.dir), file);
        let memory_events = of("memory", "memory.events")?;
        let leaf = V2Leaf {
            is_first: group.is_first,
            birth,
            oom_bell: group::bell(&group.dir, hang_bell(&memory_events))?.flatten(),
            memory_events,
            memory_peak: of("memory", "memory.peak")?,
            cpu: gauge("cpu.stat")?,
            pids_peak: of("pids", "pids.peak")?,
            pids_events: of("pids", "pids.events")?,
            io: of("io", "io.stat")?,
            cpu_pressure: gauge("cpu.pressure")?,
            memory_pressure: gauge("memory.pressure")?,
            io_pressure: gauge("io.pressure")?,
            dir: Some(group.dir.clone()),
            disks: disks.to_vec(),
        };
        group.is_kept = true;
        Ok(leaf)
    }
}

/// The kernel tells of a change in `memory.events` as an exceptional condition of the open file, until that is read. An
/// epoll instance makes it a descriptor that is readable.
fn hang_bell(memory_events: &Gauge) -> io::Result<Option<OwnedFd>> {
    let Some(events) = memory_events.file() else { return Ok(None) };
    let bell = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&bell, events, epoll::EventData::new_u64(0), epoll::EventFlags::PRI)?;
    // A file that was never read counts as changed.
    memory_events.keyed("oom");
    Ok(Some(bell))
}

/// Seconds of `some` in the format of the kernel's `accounting/psi.rst`, whose totals are microseconds.
fn waited_s(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split(' ').find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?).as_secs_f64())
}

/// The sum over all devices of `key`, in lines of `8:0 rbytes=4096 wbytes=0`.
fn of_all_devices(io: &str, key: &str) -> u64 {
    let words = io.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    words.filter(|(name, _)| *name == key).filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum()
}

impl Leaf for V2Leaf {
    fn is_first(&self) -> bool {
        self.is_first
    }

    fn birth(&self) -> Option<BorrowedFd<'_>> {
        Some(self.birth.as_fd())
    }

    fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    fn is_gone(&self) -> bool {
        self.dir.as_deref().is_some_and(group::is_missing)
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

    fn unwritten_bytes(&self) -> Option<u64> {
        None
    }

    fn oom_kills(&self) -> u64 {
        self.memory_events.keyed("oom_kill").unwrap_or(0)
    }

    fn oom_bell(&self) -> Option<BorrowedFd<'_>> {
        self.oom_bell.as_ref().map(AsFd::as_fd)
    }

    fn hush(&self) -> bool {
        let Some(bell) = &self.oom_bell else { return false };
        let mut events = [PollFd::new(bell, PollFlags::IN)];
        let has_rung = poll(&mut events, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        if has_rung {
            self.memory_events.keyed("oom");
        }
        has_rung
    }

    fn counters(&self) -> Counters {
        let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
        // Each file is read once: the end of a run waits for it.
        let [user, system, throttled] = self.cpu.all_keyed(["user_usec", "system_usec", "throttled_usec"]);
        let [memory_touched, oom_kills] = self.memory_events.all_keyed(["max", "oom_kill"]);
        let devices = |io: &str| Some((of_all_devices(io, "rbytes"), of_all_devices(io, "wbytes")));
        let (read_bytes, written_bytes) = self.io.read(devices).unzip();
        Counters {
            cpu_user_s: user.map(seconds),
            cpu_system_s: system.map(seconds),
            throttled_s: throttled.map(seconds),
            memory_peak_bytes: self.memory_peak.number(),
            memory_touched: memory_touched.unwrap_or(0),
            oom_kills: oom_kills.unwrap_or(0),
            pids_peak: self.pids_peak.number(),
            pids_refused: self.pids_events.keyed("max").unwrap_or(0),
            read_bytes,
            written_bytes,
            cpu_pressure_s: self.cpu_pressure.read(waited_s),
            memory_pressure_s: self.memory_pressure.read(waited_s),
            io_pressure_s: self.io_pressure.read(waited_s),
        }
    }

    fn favour(&self, favour: Favour) {
        if let Some(tenant) = self.dir.as_deref().and_then(Path::parent) {
            // On a hybrid host there is no such file.
            let _told = group::write(tenant, "cpu.weight", favour.weight());
        }
    }

    fn lift(&self) {
        if let Some(dir) = &self.dir {
            FILES.writes.lift(dir, &self.disks);
            // A help only: a throttled run dies as well, and on a hybrid host there is no such file.
            let _lifted = group::write(dir, "cpu.max", "max");
        }
    }

    fn freeze(&self, frozen: bool) -> bool {
        let value = if frozen { "1" } else { "0" };
        let told = self.dir.as_deref().map(|dir| group::write(dir, "cgroup.freeze", value));
        match told {
            Some(Err(error)) => {
                tracing::warn!(%error, frozen, "a leaf cannot be frozen or thawed");
                false
            }
            told => told.is_some(),
        }
    }

    fn is_frozen(&self) -> bool {
        self.dir.as_deref().is_some_and(|dir| group::keyed_in(dir, "cgroup.events", "frozen") == Some(1))
    }

    fn kill(&self) {
        if let Some(dir) = &self.dir {
            group::kill(dir);
        }
    }

    fn remove(&mut self, wait: Duration) -> io::Result<()> {
        // Taken whatever becomes of it: who has waited for it in vain does not wait again when the leaf is dropped.
        let Some(dir) = self.dir.take() else { return Ok(()) };
        let removed = group::remove(&dir, Instant::now() + wait);
        group::leave_tenant(&dir);
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
    fn totals_are_read_out_of_the_kernels_formats() {
        let pressure = "some avg10=0.00 avg60=0.12 avg300=0.00 total=1250000\nfull avg10=0.00 avg60=0.00 total=7\n";
        assert_eq!(waited_s(pressure), Some(1.25));
        assert_eq!(waited_s("full avg10=0.00 total=7\n"), None);
        let io = "8:0 rbytes=4096 wbytes=1 rios=1 wios=0 dbytes=0 dios=0\n254:16 rbytes=4 wbytes=2\n7:0 \n";
        assert_eq!((of_all_devices(io, "rbytes"), of_all_devices(io, "wbytes")), (4_100, 3));
        assert_eq!(of_all_devices("", "rbytes"), 0);
    }

    #[test]
    fn a_host_without_swap_has_none_to_limit() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert!(!has_swap("") && !has_swap(heading));
        assert!(has_swap(&format!("{heading}/dev/vda2 partition 1048572 0 -2\n")));
    }
}

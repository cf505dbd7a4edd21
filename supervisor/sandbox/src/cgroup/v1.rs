//! The leaf on v1 and hybrid hosts: v1 groups hold the limits and the counters, a group in the v2 hierarchy the kill.
//!
//! Plain files, because every answer of the kernel counts here: a limit is in force when it reads back, and not when a
//! write was accepted. Must not know anything of v2-only hosts.

use super::{Counters, LEAF_LIMITS, Leaf, MissingLimit, Opened, Places, name};
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::{LimitKind, Limits};
use rustix::event::{EventfdFlags, eventfd};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The cpu controller's period. A quota is a share of it.
const PERIOD_US: u64 = 100_000;

/// The kernel refuses larger numbers of processes.
const PIDS_CEILING: u64 = 4_194_304;

/// The kernel refuses larger quotas; this many thousandths are 100,000 processors.
const CPU_MILLIS_CEILING: u64 = 100_000_000;

/// The kernel clips larger memory limits to its largest page counter.
const MEMORY_BYTES_CEILING: u64 = 0x7FFF_FFFF_FFFF_F000;

/// How long the removal of a leaf may take, all its groups together. The kernel lets go of a group within milliseconds
/// after its last process was reaped.
const REMOVE_WAIT: Duration = Duration::from_secs(5);

/// Pause between two attempts to remove a group.
const REMOVE_PAUSE: Duration = Duration::from_millis(1);

/// Levels of groups below the leaf that are removed with it. A run that owned root could have made them.
pub(super) const NESTING_MAX: u32 = 8;

/// Every controller in whose hierarchy a leaf may have a group.
pub(super) const CONTROLLERS: [&str; 5] = ["memory", "cpu", "cpuacct", "pids", "blkio"];

struct V1Leaf {
    memory: Option<PathBuf>,
    cpu: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
    pids: Option<PathBuf>,
    blkio: Option<PathBuf>,
    /// In the v2 hierarchy of a hybrid host.
    unified: Option<PathBuf>,
    oom_bell: Option<OwnedFd>,
}

pub(super) fn open(places: &Places, limits: &Limits) -> Opened {
    let name = name::of_new_leaf();
    let mut opened = Opened { leaf: None, in_force: Vec::new(), missing: Vec::new() };
    let mut leaf = V1Leaf {
        memory: None,
        cpu: None,
        cpuacct: None,
        pids: None,
        blkio: make(places, "blkio", &name).ok(),
        unified: places.v2.as_ref().and_then(|own| fs::create_dir(own.join(&name)).ok().map(|()| own.join(&name))),
        oom_bell: None,
    };
    for limit in LEAF_LIMITS {
        match leaf.limit(places, &name, limit, limits) {
            Ok(max) => opened.in_force.push(LimitInForce { limit, max, by: "cgroup-v1".to_owned() }),
            Err(reason) => opened.missing.push(MissingLimit { limit, remedy: remedy(places, limit), reason }),
        }
    }
    leaf.cpuacct = leaf.cpu.clone().filter(|dir| dir.join("cpuacct.usage").exists());
    if leaf.cpuacct.is_none() {
        leaf.cpuacct = make(places, "cpuacct", &name).ok();
    }
    leaf.oom_bell = leaf.memory.as_deref().and_then(|dir| hang_bell(dir).ok());
    if leaf.dirs().next().is_some() {
        opened.leaf = Some(Box::new(leaf));
    }
    opened
}

/// Makes the group of one controller below the supervisor's own. It must be new: a group that was there is not ours.
fn make(places: &Places, controller: &str, name: &str) -> Result<PathBuf, String> {
    let own = places.v1.get(controller).ok_or_else(|| format!("the {controller} controller is not mounted"))?;
    let dir = own.join(name);
    fs::create_dir(&dir).map_err(|error| format!("a {controller} group cannot be made: {}", plain(&error)))?;
    Ok(dir)
}

fn remedy(places: &Places, limit: LimitKind) -> String {
    let controller = controller_name(limit);
    if places.v1.contains_key(controller) {
        format!("run as root, or hand a writable {controller} group to this user and start proctor in it")
    } else {
        format!("mount the {controller} controller, or boot the host with it enabled")
    }
}

fn controller_name(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Memory => "memory",
        LimitKind::Cpu => "cpu",
        _ => "pids",
    }
}

impl V1Leaf {
    /// Makes the group of `limit`, writes the limit and returns what reads back. The group is kept even when the limit
    /// failed, so that it is removed with the others.
    fn limit(&mut self, places: &Places, name: &str, limit: LimitKind, limits: &Limits) -> Result<u64, String> {
        let controller = controller_name(limit);
        // Co-mounted controllers (cpu,cpuacct and the like) share one group.
        let own = places.v1.get(controller).map(|own| own.join(name));
        let shared = own.filter(|dir| self.dirs().any(|made| made == dir));
        let dir = shared.map_or_else(|| make(places, controller, name), Ok)?;
        let kept = match limit {
            LimitKind::Memory => &mut self.memory,
            LimitKind::Cpu => &mut self.cpu,
            _ => &mut self.pids,
        };
        let dir = &*kept.insert(dir);
        match limit {
            LimitKind::Memory => limit_memory(dir, limits.memory_bytes_max),
            LimitKind::Cpu => limit_cpu(dir, limits.cpu_millis_max.into()),
            _ => limit_pids(dir, limits.pids_max.into()),
        }
    }

    /// The groups of the leaf, each once.
    fn dirs(&self) -> impl Iterator<Item = &PathBuf> {
        let all = [&self.memory, &self.cpu, &self.cpuacct, &self.pids, &self.blkio, &self.unified];
        let dirs: Vec<&PathBuf> = all.into_iter().flatten().collect();
        let mut seen: Vec<&PathBuf> = Vec::with_capacity(dirs.len());
        for dir in dirs {
            if !seen.contains(&dir) {
                seen.push(dir);
            }
        }
        seen.into_iter()
    }
}

/// Memory, and memory with swap at the same bound, so that swap is off.
fn limit_memory(dir: &Path, bytes_max: u64) -> Result<u64, String> {
    let wanted = bytes_max.min(MEMORY_BYTES_CEILING);
    set(dir, "memory.limit_in_bytes", wanted)?;
    let max = read_back_pages(dir, "memory.limit_in_bytes", wanted)?;
    if dir.join("memory.memsw.limit_in_bytes").exists() {
        set(dir, "memory.memsw.limit_in_bytes", wanted)?;
        read_back_pages(dir, "memory.memsw.limit_in_bytes", wanted)?;
    } else {
        // Without swap accounting the kernel can at least be told not to swap this group.
        set(dir, "memory.swappiness", 0)?;
        read_back(dir, "memory.swappiness", 0)?;
    }
    // A parent may have handed down that its processes wait at the limit for ever instead of being killed.
    if keyed(dir, "memory.oom_control", "oom_kill_disable") == Some(1) {
        set(dir, "memory.oom_control", 0)?;
    }
    match keyed(dir, "memory.oom_control", "oom_kill_disable") {
        Some(0) => Ok(max),
        _ => Err("the group does not kill at its memory limit".to_owned()),
    }
}

fn limit_cpu(dir: &Path, millis_max: u64) -> Result<u64, String> {
    let quota_us = millis_max.min(CPU_MILLIS_CEILING) * PERIOD_US / 1_000;
    set(dir, "cpu.cfs_period_us", PERIOD_US)?;
    set(dir, "cpu.cfs_quota_us", quota_us)?;
    read_back(dir, "cpu.cfs_period_us", PERIOD_US)?;
    Ok(read_back(dir, "cpu.cfs_quota_us", quota_us)? * 1_000 / PERIOD_US)
}

/// The worker and its init count as two of these.
fn limit_pids(dir: &Path, pids_max: u64) -> Result<u64, String> {
    let wanted = pids_max.min(PIDS_CEILING);
    set(dir, "pids.max", wanted)?;
    read_back(dir, "pids.max", wanted)
}

fn set(dir: &Path, file: &str, value: u64) -> Result<(), String> {
    write(dir, file, &value.to_string()).map_err(|error| format!("writing {file}: {}", plain(&error)))
}

fn read_back(dir: &Path, file: &str, wanted: u64) -> Result<u64, String> {
    match number(dir, file) {
        Some(value) if value == wanted => Ok(value),
        Some(value) => Err(format!("{file} reads {value} after {wanted} was written")),
        None => Err(format!("{file} cannot be read back")),
    }
}

/// Like [`read_back`] for a value that the kernel rounds down to whole pages, of at most 64 KiB.
fn read_back_pages(dir: &Path, file: &str, wanted: u64) -> Result<u64, String> {
    match number(dir, file) {
        Some(value) if value <= wanted && wanted - value < 65_536 => Ok(value),
        Some(value) => Err(format!("{file} reads {value} after {wanted} was written")),
        None => Err(format!("{file} cannot be read back")),
    }
}

fn write(dir: &Path, file: &str, value: &str) -> io::Result<()> {
    fs::write(dir.join(file), value)
}

/// The kernel's reason, in words that hold no path.
fn plain(error: &io::Error) -> String {
    error.kind().to_string()
}

fn number(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
}

/// The value of `key` in a file of `key value` lines.
fn keyed(dir: &Path, file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(dir.join(file)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// Bytes of all devices, in lines of `8:0 Read 4096`.
fn device_bytes(dir: &Path, operation: &str) -> Option<u64> {
    let text = fs::read_to_string(dir.join("blkio.throttle.io_service_bytes_recursive")).ok()?;
    let of_operation = text.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        (words.next()? == operation).then(|| words.next()?.parse::<u64>().ok())?
    });
    Some(of_operation.sum())
}

/// An eventfd that the kernel rings when the group is out of memory (`cgroup-v1/memory.rst`, "OOM Control").
fn hang_bell(dir: &Path) -> io::Result<OwnedFd> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let watched = fs::File::open(dir.join("memory.oom_control"))?;
    write(dir, "cgroup.event_control", &format!("{} {}", bell.as_raw_fd(), watched.as_raw_fd()))?;
    Ok(bell)
}

impl Leaf for V1Leaf {
    fn birth(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn add(&self, pid: u32, _born: bool) -> io::Result<()> {
        self.dirs().try_for_each(|dir| write(dir, "cgroup.procs", &pid.to_string()))
    }

    fn memory_bytes(&self) -> Option<u64> {
        number(self.memory.as_deref()?, "memory.usage_in_bytes")
    }

    fn oom_kills(&self) -> u64 {
        self.memory.as_deref().and_then(|dir| keyed(dir, "memory.oom_control", "oom_kill")).unwrap_or(0)
    }

    fn oom_bell(&self) -> Option<BorrowedFd<'_>> {
        self.oom_bell.as_ref().map(AsFd::as_fd)
    }

    fn counters(&self) -> Counters {
        let seconds = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64();
        let cpu = |file| Some(seconds(number(self.cpuacct.as_deref()?, file)?));
        let memory = self.memory.as_deref();
        let pids = self.pids.as_deref();
        Counters {
            cpu_user_s: cpu("cpuacct.usage_user"),
            cpu_system_s: cpu("cpuacct.usage_sys"),
            throttled_s: self.cpu.as_deref().and_then(|dir| keyed(dir, "cpu.stat", "throttled_time")).map(seconds),
            memory_peak_bytes: memory.and_then(|dir| number(dir, "memory.max_usage_in_bytes")),
            memory_touched: memory.and_then(|dir| number(dir, "memory.failcnt")).unwrap_or(0),
            oom_kills: self.oom_kills(),
            pids_peak: pids.and_then(|dir| number(dir, "pids.peak")),
            pids_refused: pids.and_then(|dir| keyed(dir, "pids.events", "max")).unwrap_or(0),
            read_bytes: self.blkio.as_deref().and_then(|dir| device_bytes(dir, "Read")),
            written_bytes: self.blkio.as_deref().and_then(|dir| device_bytes(dir, "Write")),
        }
    }

    fn lift_cpu(&self) {
        if let Some(cpu) = &self.cpu {
            // A help only: a throttled run dies as well.
            let _lifted = write(cpu, "cpu.cfs_quota_us", "-1");
        }
    }

    fn kill(&self) {
        if let Some(unified) = &self.unified {
            // A help only: what kills for certain is the end of the pid namespace's init.
            let _killed = write(unified, "cgroup.kill", "1");
        }
    }

    fn remove(&mut self) -> io::Result<()> {
        let until = Instant::now() + REMOVE_WAIT;
        let dirs: Vec<PathBuf> = self.dirs().cloned().collect();
        for dir in &dirs {
            remove_group(dir, until)?;
        }
        (self.memory, self.cpu, self.cpuacct, self.pids) = (None, None, None, None);
        (self.blkio, self.unified) = (None, None);
        Ok(())
    }
}

impl Drop for V1Leaf {
    fn drop(&mut self) {
        if self.dirs().next().is_some() {
            self.kill();
            if let Err(error) = self.remove() {
                tracing::error!(%error, "a cgroup leaf could not be removed");
            }
        }
    }
}

/// Waits until the kernel lets go of `dir`, at most `until`.
fn remove_group(dir: &Path, until: Instant) -> io::Result<()> {
    loop {
        match try_remove_group(dir, NESTING_MAX) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                std::thread::sleep(REMOVE_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// One attempt to remove `dir`, and before it the groups below it, down to `depth` levels. `ResourceBusy` while anything
/// is in use.
pub(super) fn try_remove_group(dir: &Path, depth: u32) -> io::Result<()> {
    let gone_is_fine = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    match gone_is_fine(fs::remove_dir(dir)) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && depth > 0 => {}
        outcome => return outcome,
    }
    for below in fs::read_dir(dir)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        try_remove_group(&below.path(), depth - 1)?;
    }
    gone_is_fine(fs::remove_dir(dir))
}

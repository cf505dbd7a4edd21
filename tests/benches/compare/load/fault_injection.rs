//! Injects faults into the supervisor under load: kills workers and cgroups of runs, removes empty cgroups, fills the temporary
//! file system, removes the worker binary, exhausts descriptors, removes a tenant, stops the clock. Affects only descendants of
//! that supervisor and its own files.

use super::LoadContext;
use super::tally::FaultEffect;
use crate::seeded_random::SeededRandom;
use crate::soak::{collect_descendants, entries, supervisor_cgroups};
use anyhow::{Context as _, Result};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, Resource, Rlimit, pidfd_open, pidfd_send_signal, prlimit};
use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a resource is missing.
const MISSING: Duration = Duration::from_millis(400);

/// How long the supervisor is stopped, which looks to it like a jump of the clock.
const STOPPED: Duration = Duration::from_secs(1);

/// Interval at which the temporary file system is filled up again.
const REFILL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy)]
enum Fault {
    KillWorker,
    KillCgroup,
    RemoveCgroups,
    ReloadTenant,
    FillTmp,
    RemoveWorkerBinary,
    ExhaustDescriptors,
    StopSupervisor,
}

/// The faults, injected in this order in a cycle.
const SEQUENCE: [Fault; 18] = [
    Fault::KillWorker,
    Fault::KillCgroup,
    Fault::RemoveCgroups,
    Fault::ReloadTenant,
    Fault::KillWorker,
    Fault::FillTmp,
    Fault::KillWorker,
    Fault::RemoveCgroups,
    Fault::RemoveWorkerBinary,
    Fault::KillCgroup,
    Fault::KillWorker,
    Fault::ReloadTenant,
    Fault::StopSupervisor,
    Fault::KillWorker,
    Fault::ExhaustDescriptors,
    Fault::KillCgroup,
    Fault::RemoveCgroups,
    Fault::KillWorker,
];

/// Injects faults until the load is over, with a pause after each. At the end everything removed is restored.
pub(super) fn inject(context: &LoadContext, pause: Duration) -> Result<()> {
    let mut faults = Faults { context, pid: context.supervisor.pid(), random: SeededRandom::new(), has_guest: true };
    for fault in SEQUENCE.into_iter().cycle() {
        if context.is_over() {
            break;
        }
        faults.inject(fault).with_context(|| format!("{fault:?}"))?;
        sleep(pause);
    }
    if !faults.has_guest {
        faults.reload_tenant()?;
    }
    Ok(())
}

struct Faults<'w> {
    context: &'w LoadContext,
    pid: u32,
    random: SeededRandom,
    has_guest: bool,
}

impl Faults<'_> {
    fn inject(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::KillWorker => self.kill_worker(),
            Fault::KillCgroup => self.kill_cgroup(),
            Fault::RemoveCgroups => self.remove_cgroups(),
            Fault::ReloadTenant => self.reload_tenant()?,
            Fault::FillTmp => self.fill_tmp()?,
            Fault::RemoveWorkerBinary => self.remove_worker_binary()?,
            Fault::ExhaustDescriptors => self.exhaust_descriptors()?,
            Fault::StopSupervisor => self.stop_supervisor()?,
        }
        Ok(())
    }

    // Kills a worker among the supervisor's descendants, busy or idle.
    fn kill_worker(&mut self) {
        let mut family = Vec::new();
        collect_descendants(self.pid, &mut family);
        let is_busy = |pid: u32| {
            let mut below = Vec::new();
            collect_descendants(pid, &mut below);
            below.iter().any(|pid| !is_worker(*pid))
        };
        // Most workers are idle, but killing a busy one does more harm.
        let busy_only = self.random.percent(70);
        family.retain(|pid| *pid != self.pid && is_worker(*pid) && (!busy_only || is_busy(*pid)));
        if let Some(victim) = family.get(self.random.below(family.len())) {
            let window = self.context.tally.begin_fault(FaultEffect::ProcessesKilled);
            if kill_descendant(self.pid, *victim) {
                self.context.tally.count_fault("worker killed");
            }
            self.context.tally.end_fault(window);
        }
    }

    // Kills all processes in the cgroup of a run.
    fn kill_cgroup(&mut self) {
        let mut leaves = supervisor_cgroups(self.pid);
        leaves.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("-run-")));
        let Some(leaf) = leaves.get(self.random.below(leaves.len())) else { return };
        let window = self.context.tally.begin_fault(FaultEffect::ProcessesKilled);
        let killed = fs::write(leaf.join("cgroup.kill"), "1").is_ok() || {
            let members = fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default();
            let members = members.split_whitespace().filter_map(|pid| pid.parse().ok());
            members.filter(|pid| kill_descendant(self.pid, *pid)).count() > 0
        };
        if killed {
            self.context.tally.count_fault("leaf killed");
        }
        self.context.tally.end_fault(window);
    }

    // Removes empty cgroups, innermost first: between two runs, and while a run is being set up.
    fn remove_cgroups(&mut self) {
        let window = self.context.tally.begin_fault(FaultEffect::HostLacksResources);
        for group in supervisor_cgroups(self.pid).iter().rev() {
            if self.random.percent(50) && fs::remove_dir(group).is_ok() {
                self.context.tally.count_fault("cgroup vanished");
            }
        }
        self.context.tally.end_fault(window);
    }

    fn reload_tenant(&mut self) -> Result<()> {
        self.has_guest = !self.has_guest;
        self.context.supervisor.rewrite_host_file(self.has_guest)?;
        self.signal(Signal::SIGHUP)?;
        self.context.tally.count_fault(if self.has_guest { "tenant added" } else { "tenant removed" });
        Ok(())
    }

    fn fill_tmp(&mut self) -> Result<()> {
        let window = self.context.tally.begin_fault(FaultEffect::HostLacksResources);
        let (path, until) = (self.context.supervisor.tmp().join("full"), Instant::now() + MISSING);
        let file = File::create(&path)?;
        let mut size = 0;
        while Instant::now() < until {
            let free = statvfs(self.context.supervisor.tmp())?;
            let bytes = i64::try_from(free.blocks_available() * free.fragment_size())?;
            // The supervisor may have taken the space meanwhile, so the allocation may fail.
            if bytes > 0 && fallocate(&file, FallocateFlags::empty(), size, bytes).is_ok() {
                size += bytes;
            }
            sleep(REFILL);
        }
        fs::remove_file(path)?;
        drop(file);
        self.context.tally.end_fault(window);
        self.context.tally.count_fault("temporary files full");
        Ok(())
    }

    fn remove_worker_binary(&mut self) -> Result<()> {
        let window = self.context.tally.begin_fault(FaultEffect::HostLacksResources);
        let (worker, away) =
            (self.context.supervisor.worker(), self.context.supervisor.worker().with_extension("away"));
        fs::rename(&worker, &away)?;
        sleep(MISSING);
        fs::rename(away, worker)?;
        self.context.tally.end_fault(window);
        self.context.tally.count_fault("spawn refused");
        Ok(())
    }

    // Lowers the limit to the number of descriptors now open.
    fn exhaust_descriptors(&mut self) -> Result<()> {
        let window = self.context.tally.begin_fault(FaultEffect::NoDescriptors);
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid)?);
        let open = entries(format!("/proc/{}/fd", self.pid)).count() as u64;
        let before = rustix::process::getrlimit(Resource::Nofile);
        let before = prlimit(pid, Resource::Nofile, Rlimit { current: Some(open), maximum: before.maximum })?;
        sleep(MISSING);
        prlimit(pid, Resource::Nofile, before)?;
        self.context.tally.end_fault(window);
        self.context.tally.count_fault("descriptors used up");
        Ok(())
    }

    fn stop_supervisor(&mut self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        sleep(STOPPED);
        self.signal(Signal::SIGCONT)?;
        self.context.tally.count_fault("stood still");
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.pid)?), signal).context("a signal to the supervisor")
    }
}

fn is_worker(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "worker")
}

/// Kills a process if it descends from `ancestor`. The pidfd ensures that the pid is not reused meanwhile.
fn kill_descendant(ancestor: u32, victim: u32) -> bool {
    let pid = i32::try_from(victim).ok().and_then(rustix::process::Pid::from_raw);
    let Some(pidfd) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else { return false };
    descends(ancestor, victim) && pidfd_send_signal(pidfd, rustix::process::Signal::KILL).is_ok()
}

fn descends(ancestor: u32, pid: u32) -> bool {
    let mut at = pid;
    while at > 1 && at != ancestor {
        at = parent(at).unwrap_or(0);
    }
    at == ancestor && pid != ancestor
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

//! What is taken from the supervisor under load, one thing after the other: workers, leaves, groups, room for temporary files,
//! the worker binary, descriptors, a tenant, time. Touches only what descends from that supervisor or bears its name. Must
//! not know what runs.

use super::World;
use super::tally::Harm;
use crate::seeded_random::Dice;
use crate::soak::{descend, entries, groups_of};
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

/// How long something is gone that comes back.
const GONE: Duration = Duration::from_millis(400);

/// How long the supervisor stands still: to it, the clock jumps.
const STILL: Duration = Duration::from_secs(1);

/// Pause between two looks at a file system that is kept full.
const REFILL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy)]
enum Fault {
    Worker,
    Leaf,
    Groups,
    Reload,
    TmpFull,
    NoWorker,
    NoDescriptors,
    Still,
}

/// In this order, again and again.
const DECK: [Fault; 18] = [
    Fault::Worker,
    Fault::Leaf,
    Fault::Groups,
    Fault::Reload,
    Fault::Worker,
    Fault::TmpFull,
    Fault::Worker,
    Fault::Groups,
    Fault::NoWorker,
    Fault::Leaf,
    Fault::Worker,
    Fault::Reload,
    Fault::Still,
    Fault::Worker,
    Fault::NoDescriptors,
    Fault::Leaf,
    Fault::Groups,
    Fault::Worker,
];

/// Takes things until the world is over, with a pause after each; what has to come back has come back then.
pub(super) fn inject(world: &World, pause: Duration) -> Result<()> {
    let mut faults = Faults { world, pid: world.house.pid(), dice: Dice::new(), has_guest: true };
    for fault in DECK.into_iter().cycle() {
        if world.is_over() {
            break;
        }
        faults.inject(fault).with_context(|| format!("{fault:?}"))?;
        sleep(pause);
    }
    if !faults.has_guest {
        faults.reload()?;
    }
    Ok(())
}

struct Faults<'w> {
    world: &'w World,
    pid: u32,
    dice: Dice,
    has_guest: bool,
}

impl Faults<'_> {
    fn inject(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Worker => self.worker(),
            Fault::Leaf => self.leaf(),
            Fault::Groups => self.groups(),
            Fault::Reload => self.reload()?,
            Fault::TmpFull => self.tmp_full()?,
            Fault::NoWorker => self.no_worker()?,
            Fault::NoDescriptors => self.no_descriptors()?,
            Fault::Still => self.still()?,
        }
        Ok(())
    }

    // One of the supervisor's own kind among all that descends from it: one that runs something, or waits to.
    fn worker(&mut self) {
        let mut family = Vec::new();
        descend(self.pid, &mut family);
        let runs = |pid: u32| {
            let mut below = Vec::new();
            descend(pid, &mut below);
            below.iter().any(|pid| !is_worker(*pid))
        };
        // Most wait for a run; those that have one lose more.
        let busy_alone = self.dice.percent(70);
        family.retain(|pid| *pid != self.pid && is_worker(*pid) && (!busy_alone || runs(*pid)));
        if let Some(victim) = family.get(self.dice.below(family.len())) {
            let window = self.world.ledger.begins(Harm::Kill);
            if kill_below(self.pid, *victim) {
                self.world.ledger.fault("worker killed");
            }
            self.world.ledger.over(window);
        }
    }

    // All that is in a run's leaf.
    fn leaf(&mut self) {
        let mut leaves = groups_of(self.pid);
        leaves.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("-run-")));
        let Some(leaf) = leaves.get(self.dice.below(leaves.len())) else { return };
        let window = self.world.ledger.begins(Harm::Kill);
        let killed = fs::write(leaf.join("cgroup.kill"), "1").is_ok() || {
            let members = fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default();
            let members = members.split_whitespace().filter_map(|pid| pid.parse().ok());
            members.filter(|pid| kill_below(self.pid, *pid)).count() > 0
        };
        if killed {
            self.world.ledger.fault("leaf killed");
        }
        self.world.ledger.over(window);
    }

    // Those in which nobody is, from the innermost on: between two runs, and while a run is being made.
    fn groups(&mut self) {
        let window = self.world.ledger.begins(Harm::Host);
        for group in groups_of(self.pid).iter().rev() {
            if self.dice.percent(50) && fs::remove_dir(group).is_ok() {
                self.world.ledger.fault("cgroup vanished");
            }
        }
        self.world.ledger.over(window);
    }

    fn reload(&mut self) -> Result<()> {
        self.has_guest = !self.has_guest;
        self.world.house.rewrite(self.has_guest)?;
        self.signal(Signal::SIGHUP)?;
        self.world.ledger.fault(if self.has_guest { "tenant added" } else { "tenant removed" });
        Ok(())
    }

    fn tmp_full(&mut self) -> Result<()> {
        let window = self.world.ledger.begins(Harm::Host);
        let (path, until) = (self.world.house.tmp().join("full"), Instant::now() + GONE);
        let file = File::create(&path)?;
        let mut size = 0;
        while Instant::now() < until {
            let free = statvfs(self.world.house.tmp())?;
            let bytes = i64::try_from(free.blocks_available() * free.fragment_size())?;
            // Somebody else may have been faster, and then it is full as well.
            if bytes > 0 && fallocate(&file, FallocateFlags::empty(), size, bytes).is_ok() {
                size += bytes;
            }
            sleep(REFILL);
        }
        fs::remove_file(path)?;
        drop(file);
        self.world.ledger.over(window);
        self.world.ledger.fault("temporary files full");
        Ok(())
    }

    fn no_worker(&mut self) -> Result<()> {
        let window = self.world.ledger.begins(Harm::Host);
        let (worker, away) = (self.world.house.worker(), self.world.house.worker().with_extension("away"));
        fs::rename(&worker, &away)?;
        sleep(GONE);
        fs::rename(away, worker)?;
        self.world.ledger.over(window);
        self.world.ledger.fault("spawn refused");
        Ok(())
    }

    // As many as are open now, and no more.
    fn no_descriptors(&mut self) -> Result<()> {
        let window = self.world.ledger.begins(Harm::Descriptors);
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid)?);
        let open = entries(format!("/proc/{}/fd", self.pid)).count() as u64;
        let before = rustix::process::getrlimit(Resource::Nofile);
        let before = prlimit(pid, Resource::Nofile, Rlimit { current: Some(open), maximum: before.maximum })?;
        sleep(GONE);
        prlimit(pid, Resource::Nofile, before)?;
        self.world.ledger.over(window);
        self.world.ledger.fault("descriptors used up");
        Ok(())
    }

    fn still(&mut self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        sleep(STILL);
        self.signal(Signal::SIGCONT)?;
        self.world.ledger.fault("stood still");
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.pid)?), signal).context("a signal to the supervisor")
    }
}

fn is_worker(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "worker")
}

/// Kills a process if, once nobody else can get its number, it is one that descends from `ancestor`.
fn kill_below(ancestor: u32, victim: u32) -> bool {
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

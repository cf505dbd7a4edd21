//! What every kind of leaf must do, on the cgroups of the host that runs the tests, as root. A hybrid host is taken as one
//! with v1 only, too.

use super::name::Maker;
use super::*;
use proctor_core::limits::Limits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const LIMITS: Limits = Limits { memory_bytes_max: 32 << 20, cpu_millis_max: 500, pids_max: 16, ..Limits::DEFAULT };

/// Of `linux/sched.h`. What libc calls so is cut to 32 bits, which leaves 0.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Some tests move this process, and all look at what is left.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How many limits the v2 hierarchy holds.
fn in_v2(places: &Places) -> usize {
    LEAF_LIMITS.iter().filter(|limit| !places.v1.contains_key(controller(**limit))).count()
}

/// A kind of host on this host, with nothing of this process left when the test is over.
struct Host {
    places: Places,
    _alone: MutexGuard<'static, ()>,
}

fn host(v1_only: bool) -> Host {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut places = Places::find();
    if v1_only && in_v2(&places) == 0 {
        places = Places { mode: Mode::V1, v2: None, ..places };
    }
    settle(&places);
    Host { places, _alone: alone }
}

impl Host {
    fn leaf(&self) -> Box<dyn Leaf> {
        let opened = open(&self.places, "tests", &LIMITS, &[]).unwrap();
        assert_eq!(opened.missing, []);
        opened.leaf.unwrap()
    }

    /// The groups that `maker` has in all hierarchies.
    fn groups_of(&self, maker: Maker) -> Vec<PathBuf> {
        let is_its = |dir: &PathBuf| Maker::of(dir.file_name().unwrap().to_str().unwrap()) == Some(maker);
        let owns = self.places.v1.values().chain(&self.places.v2);
        let tops: Vec<PathBuf> = owns.flat_map(|own| group::groups_in(own)).filter(is_its).collect();
        let nested: Vec<PathBuf> = tops.iter().flat_map(|top| group::groups_in(top)).collect();
        tops.into_iter().chain(nested).collect()
    }

    fn assert_nothing_left(&self) {
        let is_settled = self.places.v2.as_ref().map(|own| own.join(self.places.maker.supervisor()));
        let mut left = self.groups_of(self.places.maker);
        left.retain(|dir| Some(dir) != is_settled.as_ref());
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

/// A shell that begins with `script` as soon as it is told to.
#[expect(clippy::disallowed_methods, reason = "the tests need processes to put into leaves")]
fn shell(script: &str) -> Child {
    let script = format!("read go; {script}");
    Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn go(child: &mut Child) {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
}

/// `script` in `leaf`, to its end.
fn run(leaf: &dyn Leaf, script: &str) -> std::process::ExitStatus {
    let mut child = shell(script);
    leaf.add(child.id(), false).unwrap();
    go(&mut child);
    child.wait().unwrap()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        // The kernel shares out the pressure since the last reading by whole ticks of up to 10 ms: of a group that is read
        // more often it counts next to none.
        std::thread::sleep(Duration::from_millis(40));
    }
}

fn rings(leaf: &dyn Leaf) -> bool {
    let bell = leaf.oom_bell().unwrap();
    poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
}

/// The tests that hold on every kind of host, once on what this one is, once on what it could be taken for.
macro_rules! on_every_kind_of_host {
    ($($name:ident),* $(,)?) => {
        mod as_it_is {
            $(#[test] fn $name() { super::$name(&super::host(false)); })*
        }
        mod with_v1_only_if_there_is_v1 {
            $(#[test] fn $name() { super::$name(&super::host(true)); })*
        }
    };
}

on_every_kind_of_host!(
    limits_read_back,
    limits_at_their_ceilings_read_back,
    the_bound_of_writes_reads_back_until_it_is_lifted,
    a_memory_hog_is_killed_and_counted,
    refused_forks_are_counted,
    a_kill_reaches_every_process_of_a_fork_tree,
    what_is_frozen_stands_still_and_can_be_killed,
    what_the_processors_did_is_counted,
    waiting_for_a_processor_is_counted_where_the_kernel_does,
    removal_takes_groups_below_along,
    removal_kills_what_somebody_else_has_put_there,
    a_dropped_leaf_is_killed_and_removed,
    leaves_of_one_owner_come_and_go_from_many_threads,
    a_dead_supervisors_groups_are_swept_with_what_lives_in_them,
);

fn limits_read_back(host: &Host) {
    let opened = open(&host.places, "tests", &LIMITS, &[]).unwrap();
    let max: Vec<(LimitKind, u64)> = opened.in_force.iter().map(|limit| (limit.limit, limit.max)).collect();
    for expected in [(LimitKind::Memory, 32 << 20), (LimitKind::Cpu, 500), (LimitKind::Pids, 16)] {
        assert!(max.contains(&expected), "{max:?} {:?}", opened.missing);
    }
    let leaf = opened.leaf.unwrap();
    assert_eq!(leaf.counters().oom_kills, 0);
    assert_eq!(leaf.memory_bytes(), Some(0));
    assert!(!rings(&*leaf));
    drop(leaf);
    host.assert_nothing_left();
}

fn limits_at_their_ceilings_read_back(host: &Host) {
    let opened = open(&host.places, "", &Limits::CEILING, &[]).unwrap();
    assert_eq!((opened.in_force.len(), opened.missing), (3, vec![]));
}

fn the_bound_of_writes_reads_back_until_it_is_lifted(host: &Host) {
    let (disks, limits) = (all_disks(), Limits { write_bytes_per_s_max: 8 << 20, ..LIMITS });
    let opened = open(&host.places, "tests", &limits, &disks).unwrap();
    let max = opened.in_force.iter().find(|limit| limit.limit == LimitKind::Writes).map(|limit| limit.max);
    assert_eq!((max, opened.missing), ((!disks.is_empty()).then_some(8 << 20), vec![]));
    let bounded = || -> usize {
        let groups = host.groups_of(host.places.maker).into_iter();
        let said = groups.flat_map(|dir| ["io.max", "blkio.throttle.write_bps_device"].map(|file| dir.join(file)));
        said.filter_map(|file| fs::read_to_string(file).ok()).map(|said| said.matches("8388608").count()).sum()
    };
    assert_eq!(bounded(), disks.len());
    let leaf = opened.leaf.unwrap();
    leaf.lift();
    assert_eq!(bounded(), 0);
    drop(leaf);
    host.assert_nothing_left();
}

fn a_memory_hog_is_killed_and_counted(host: &Host) {
    let opened = open(&host.places, "tests", &LIMITS, &[]).unwrap();
    let by = opened.in_force.iter().find(|limit| limit.limit == LimitKind::Memory).unwrap().by.clone();
    let leaf = opened.leaf.unwrap();
    let mut bystander = shell("sleep 600");
    leaf.add(bystander.id(), false).unwrap();
    go(&mut bystander);
    let died = run(&*leaf, "x=0123456789abcdef; while :; do x=$x$x; done");
    assert!(!died.success());
    eventually("the kill is counted", || leaf.oom_kills() > 0);
    assert!(rings(&*leaf) || by == "cgroup-v2", "reading v2's counter has reset its bell");
    leaf.hush();
    assert!(!leaf.hush() && !rings(&*leaf));
    if by == "cgroup-v2" {
        assert!(!bystander.wait().unwrap().success());
        assert!(leaf.oom_kills() >= 2);
    } else {
        assert_eq!(bystander.try_wait().unwrap(), None);
        leaf.kill();
        bystander.wait().unwrap();
    }
    let counters = leaf.counters();
    // Linux 6.18 does not count in v1 how often memory with swap was at its limit.
    assert!(counters.memory_touched > 0 || by == "cgroup-v1", "{counters:?}");
    if let Some(peak) = counters.memory_peak_bytes {
        assert!(peak > 16 << 20 && peak <= 32 << 20, "{counters:?}");
    }
}

fn refused_forks_are_counted(host: &Host) {
    let mut leaf = host.leaf();
    run(&*leaf, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do sleep 600 & done");
    let counters = leaf.counters();
    assert!(counters.pids_refused > 0, "{counters:?}");
    assert!(counters.pids_peak.is_none_or(|peak| peak == 16), "{counters:?}");
    assert_eq!(leaf.pids().len(), 15);
    leaf.kill();
    leaf.remove(REMOVE_WAIT).unwrap();
    host.assert_nothing_left();
}

fn a_kill_reaches_every_process_of_a_fork_tree(host: &Host) {
    let mut leaf = host.leaf();
    let mut tree =
        shell("trap '' TERM HUP; f() { sleep 600 & while :; do sleep 600; done; }; f & f & (setsid sleep 600 &) ; f");
    leaf.add(tree.id(), false).unwrap();
    go(&mut tree);
    eventually("the tree has grown", || leaf.pids().len() >= 8);
    leaf.kill();
    tree.wait().unwrap();
    eventually("nothing is alive", || leaf.pids().is_empty());
    leaf.remove(REMOVE_WAIT).unwrap();
    host.assert_nothing_left();
}

fn what_is_frozen_stands_still_and_can_be_killed(host: &Host) {
    let (mut leaf, dir) = (host.leaf(), tempfile::tempdir().unwrap());
    // Its end tells that it goes on.
    let mut first = shell(&format!("cd {}; : > begun; while [ ! -e go ]; do :; done", dir.path().display()));
    leaf.add(first.id(), false).unwrap();
    go(&mut first);
    eventually("it has begun", || dir.path().join("begun").exists());
    if leaf.freeze(true) {
        eventually("it stands still", || leaf.is_frozen());
        fs::write(dir.path().join("go"), "").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(first.try_wait().unwrap(), None);
        assert!(leaf.freeze(false));
        assert!(first.wait().unwrap().success());
        let mut second = shell("sleep 600");
        leaf.add(second.id(), false).unwrap();
        assert!(leaf.freeze(true));
        eventually("the next one stands still", || leaf.is_frozen());
        leaf.kill();
        assert!(!second.wait().unwrap().success());
    } else {
        assert!(leaf.birth().is_none(), "only a host without a v2 hierarchy cannot");
        leaf.kill();
        first.wait().unwrap();
    }
    leaf.remove(REMOVE_WAIT).unwrap();
    host.assert_nothing_left();
}

fn what_the_processors_did_is_counted(host: &Host) {
    let leaf = open(&host.places, "tests", &Limits { cpu_millis_max: 50, ..LIMITS }, &[]).unwrap().leaf.unwrap();
    let mut held_back = shell("while :; do :; done");
    leaf.add(held_back.id(), false).unwrap();
    go(&mut held_back);
    eventually("it is held back", || leaf.counters().throttled_s.unwrap() > 0.05);
    // In v1 the times are counted by the tick, and the first share may fall between two.
    let used = |counters: Counters| counters.cpu_user_s.unwrap() + counters.cpu_system_s.unwrap();
    eventually("its time is counted", || used(leaf.counters()) > 0.005);
    let counters = leaf.counters();
    leaf.lift();
    // The period that was on when the limit was lifted is still counted.
    std::thread::sleep(Duration::from_millis(150));
    let before = leaf.counters();
    std::thread::sleep(Duration::from_millis(300));
    let after = leaf.counters();
    assert_eq!(after.throttled_s, before.throttled_s);
    assert!(after.cpu_user_s.unwrap() + after.cpu_system_s.unwrap() > counters.cpu_user_s.unwrap());
    leaf.kill();
    held_back.wait().unwrap();
}

fn waiting_for_a_processor_is_counted_where_the_kernel_does(host: &Host) {
    let leaf = open(&host.places, "tests", &Limits { cpu_millis_max: 100_000, ..LIMITS }, &[]).unwrap().leaf.unwrap();
    let has_psi = host.places.v2.as_ref().is_some_and(|own| own.join("cpu.pressure").exists());
    let before = leaf.counters();
    assert!(
        [before.cpu_pressure_s, before.memory_pressure_s, before.io_pressure_s].iter().all(|p| p.is_some() == has_psi)
    );
    if has_psi {
        let mut many = shell("for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done");
        leaf.add(many.id(), false).unwrap();
        go(&mut many);
        many.wait().unwrap();
        eventually("they wait", || leaf.counters().cpu_pressure_s > Some(0.05));
    }
}

fn removal_takes_groups_below_along(host: &Host) {
    let mut leaf = host.leaf();
    let is_leaf = |dir: &&PathBuf| dir.to_str().unwrap().contains("-run-");
    let groups = host.groups_of(host.places.maker);
    let made = groups.iter().filter(is_leaf).filter(|dir| fs::create_dir_all(dir.join("a/b")).is_ok()).count();
    assert!(made > 0);
    leaf.remove(REMOVE_WAIT).unwrap();
    host.assert_nothing_left();
}

fn removal_kills_what_somebody_else_has_put_there(host: &Host) {
    let mut leaf = host.leaf();
    let mut stranger = shell("sleep 600");
    leaf.add(stranger.id(), false).unwrap();
    go(&mut stranger);
    // Its parent reaps it meanwhile, in case the kernel waits for that.
    let reaped = std::thread::spawn(move || stranger.wait().unwrap());
    leaf.remove(REMOVE_WAIT).unwrap();
    assert!(!reaped.join().unwrap().success());
    host.assert_nothing_left();
}

fn a_dropped_leaf_is_killed_and_removed(host: &Host) {
    let leaf = host.leaf();
    let mut child = shell("sleep 600");
    leaf.add(child.id(), false).unwrap();
    drop(leaf);
    child.wait().unwrap();
    host.assert_nothing_left();
}

fn leaves_of_one_owner_come_and_go_from_many_threads(host: &Host) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    host.leaf().remove(REMOVE_WAIT).unwrap();
                }
            });
        }
    });
    host.assert_nothing_left();
}

fn a_dead_supervisors_groups_are_swept_with_what_lives_in_them(host: &Host) {
    let mut supervisor = shell("exit");
    let maker = Maker::of_process(supervisor.id());
    let its = Places { maker, ..host.places.clone() };
    let leaf = open(&its, "tests", &LIMITS, &[]).unwrap().leaf.unwrap();
    let mut child = shell("sleep 600");
    leaf.add(child.id(), false).unwrap();
    // As if it had been killed, nothing of it is dropped.
    std::mem::forget(leaf);
    let own = host.leaf();
    sweep(&host.places);
    assert!(!host.groups_of(maker).is_empty(), "it lives");
    // Nobody has reaped it when the next one comes.
    supervisor.kill().unwrap();
    eventually("it is dead", || maker.has_ended(host.places.maker));
    eventually("its groups are swept", || {
        sweep(&host.places);
        host.groups_of(maker).is_empty()
    });
    child.wait().unwrap();
    supervisor.wait().unwrap();
    assert!(own.memory_bytes().is_some(), "the living one keeps its leaf");
}

#[test]
fn a_process_is_born_in_the_v2_part_of_a_leaf() {
    let host = host(false);
    let leaf = host.leaf();
    let Some(birth) = leaf.birth() else {
        assert_eq!(host.places.mode, Mode::V1);
        return;
    };
    // SAFETY: all fields are plain numbers, for which 0 is a value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = u64::try_from(libc::SIGCHLD).unwrap();
    args.cgroup = u64::try_from(birth.as_raw_fd()).unwrap();
    // SAFETY: the arguments are whole and their size is told; without a stack the child goes on with a copy of this one.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    if pid == 0 {
        // SAFETY: both calls are safe after a fork of a process with threads.
        unsafe {
            libc::pause();
            libc::_exit(0)
        }
    }
    assert!(pid > 0, "{}", io::Error::last_os_error());
    let born = u32::try_from(pid).unwrap();
    let seen = leaf.pids();
    let added = leaf.add(born, true);
    let groups = fs::read_to_string(format!("/proc/{born}/cgroup")).unwrap();
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    waitpid(Some(pid), WaitOptions::empty()).unwrap();
    added.unwrap();
    assert_eq!(seen, [born]);
    let limited = groups.lines().filter(|line| line.contains("-run-")).count();
    let of_v1: BTreeSet<&PathBuf> =
        ["memory", "cpu", "pids"].iter().filter_map(|name| host.places.v1.get(*name)).collect();
    assert_eq!(limited, 1 + of_v1.len(), "{groups}");
    drop(leaf);
    host.assert_nothing_left();
}

#[test]
fn owners_have_groups_of_their_own_with_equal_shares() {
    let host = host(false);
    let one = [open(&host.places, "../a", &LIMITS, &[]).unwrap(), open(&host.places, "../a", &LIMITS, &[]).unwrap()];
    let other = open(&host.places, "b/../a", &LIMITS, &[]).unwrap();
    let own = host.places.v1.get("cpu").or(host.places.v2.as_ref()).unwrap();
    let is_tenant = |dir: &PathBuf| dir.to_str().unwrap().contains("-tenant-") && dir.parent() == Some(own);
    let tenants: Vec<PathBuf> = host.groups_of(host.places.maker).into_iter().filter(is_tenant).collect();
    let mut leaves: Vec<usize> = tenants.iter().map(|tenant| group::groups_in(tenant).len()).collect();
    leaves.sort_unstable();
    assert_eq!(leaves, [1, 2]);
    let share = |dir: &PathBuf| group::number(dir, "cpu.weight").or_else(|| group::number(dir, "cpu.shares"));
    assert!(tenants.iter().all(|tenant| share(tenant).is_some() && share(tenant) == share(&tenants[0])));
    drop((one, other));
    host.assert_nothing_left();
}

#[test]
fn a_tenant_that_takes_much_is_out_of_favour_in_whatever_group_it_has_then() {
    let host = host(false);
    let own = host.places.v1.get("cpu").or(host.places.v2.as_ref()).unwrap();
    let weight = |owner: &str| {
        let tenant = own.join(host.places.maker.tenant(owner));
        group::number(&tenant, "cpu.weight")
            .or_else(|| group::number(&tenant, "cpu.shares").map(|shares| shares * 100 / 1_024))
    };
    let ledger = Arc::new(Ledger::default());
    let opened = |owner: &str| {
        let leaf = open(&host.places, owner, &LIMITS, &[]).unwrap().leaf.unwrap();
        let tab = Tab::open(&ledger, owner, &*leaf);
        (leaf, tab)
    };
    let (greedy, its_tab) = opened("greedy");
    let (modest, other_tab) = opened("modest");
    assert_eq!((weight("greedy"), weight("modest")), (Some(1_000), Some(1_000)));
    let used = |cpu_user_s| Counters { cpu_user_s: Some(cpu_user_s), ..Counters::default() };
    let charged = Instant::now();
    its_tab.charge(&*greedy, &used(600.0));
    other_tab.charge(&*modest, &used(0.1));
    other_tab.charge(&*modest, &used(0.1));
    other_tab.charge(&*modest, &used(0.1));
    assert_eq!((weight("greedy"), weight("modest")), (Some(100), Some(1_000)), "what was charged is not charged again");
    drop(greedy);
    assert_eq!(weight("greedy"), None);
    let (greedy, its_tab) = opened("greedy");
    // Whoever has stood still for four seconds meanwhile finds it forgiven.
    let is_forgiven = charged.elapsed() >= Duration::from_secs(4);
    assert!(weight("greedy") == Some(100) || is_forgiven, "a new group of the same tenant");
    eventually("it is forgiven", || {
        its_tab.look(&*greedy);
        weight("greedy") == Some(1_000)
    });
    drop((greedy, modest));
    host.assert_nothing_left();
}

#[test]
fn a_hierarchy_that_is_not_mounted_is_told() {
    let nowhere = Places { mode: Mode::None, v1: Default::default(), v2: None, maker: Maker::own() };
    let opened = open(&nowhere, "tests", &LIMITS, &[]).unwrap();
    assert!(opened.leaf.is_none() && opened.in_force.is_empty());
    assert_eq!(opened.missing.len(), 3);
    let host = host(true);
    let mut places = host.places.clone();
    if places.v1.remove("pids").is_some() {
        let opened = open(&places, "tests", &LIMITS, &[]).unwrap();
        let missing = opened.missing.iter().find(|missing| missing.limit == LimitKind::Pids).unwrap();
        assert!(missing.reason.contains("pids"), "{missing:?}");
    }
}

/// A group in which this process is, as one that systemd delegates; all is as before when it is dropped.
struct Delegated {
    before: PathBuf,
    group: PathBuf,
}

impl Delegated {
    fn enter(own: &Path) -> Delegated {
        let group = own.join(format!("delegated-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        group::write(&group, "cgroup.procs", "0").unwrap();
        // Where this process was before, if it had settled there.
        let home = own.join(Maker::own().supervisor());
        Delegated { before: if home.exists() { home } else { own.to_owned() }, group }
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let back = group::write(&self.before, "cgroup.procs", "0").and_then(|()| group::try_remove(&self.group));
        assert!(back.is_ok() || std::thread::panicking(), "{back:?}");
    }
}

#[test]
fn a_delegated_group_is_settled_in_and_left_as_it_was() {
    let host = host(false);
    let Some(own) = host.places.v2.clone() else {
        assert_eq!(host.places.mode, Mode::V1);
        return;
    };
    let delegated = Delegated::enter(&own);
    let places = Places::find();
    assert_eq!(places.v2.as_ref(), Some(&delegated.group));
    let of_v2 = in_v2(&places);
    if of_v2 == 0 {
        // The limits are in v1, so nothing has to be handed down.
        settle(&places);
        assert_eq!(group::groups_in(&delegated.group), Vec::<PathBuf>::new());
        assert_eq!(open(&places, "tests", &LIMITS, &[]).unwrap().missing, []);
        return;
    }
    // Who only looks sees that it would work, and changes nothing.
    assert!(would_hand_down(&places, "memory"));
    assert_eq!(open(&places, "tests", &LIMITS, &[]).unwrap().missing.len(), of_v2);
    assert_eq!(group::groups_in(&delegated.group), Vec::<PathBuf>::new());
    let mut other = shell("sleep 600");
    settle(&places);
    let opened = open(&places, "tests", &LIMITS, &[]).unwrap();
    assert_eq!(opened.missing.len(), of_v2);
    let missing = &opened.missing[0];
    assert!(missing.reason.contains("holds other processes") && missing.remedy.contains("Delegate=yes"), "{missing:?}");
    assert!(!would_hand_down(&places, "memory"));
    drop(opened);
    other.kill().unwrap();
    other.wait().unwrap();
    settle(&places);
    assert_eq!(open(&places, "tests", &LIMITS, &[]).unwrap().missing, []);
    let moved = Places::find();
    assert_eq!(moved, places);
    settle(&moved);
    assert_eq!(open(&moved, "tests", &LIMITS, &[]).unwrap().missing, []);
    leave(&moved).unwrap();
    assert_eq!(group::groups_in(&delegated.group), Vec::<PathBuf>::new());
    assert_eq!(Places::find(), places);
    drop(delegated);
}

#[test]
fn a_dead_supervisors_own_group_is_swept() {
    let host = host(false);
    let Some(own) = host.places.v2.clone() else {
        assert_eq!(host.places.mode, Mode::V1);
        return;
    };
    let mut supervisor = shell("sleep 600");
    let maker = Maker::of_process(supervisor.id());
    let group = own.join(maker.supervisor());
    fs::create_dir(&group).unwrap();
    group::write(&group, "cgroup.procs", &supervisor.id().to_string()).unwrap();
    sweep(&host.places);
    assert!(group.exists());
    supervisor.kill().unwrap();
    eventually("it is dead", || maker.has_ended(host.places.maker));
    eventually("its group is swept", || {
        sweep(&host.places);
        !group.exists()
    });
    supervisor.wait().unwrap();
}

#[test]
fn a_group_that_cannot_be_removed_is_waited_for_once() {
    let host = host(false);
    let own = host.places.v2.clone().or_else(|| host.places.v1.get("cpu").cloned()).unwrap();
    let mut child = shell("exit");
    let dead = Maker::of_process(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let stuck = own.join(dead.leaf());
    // Deeper than a removal goes.
    let nested: Vec<PathBuf> = (0..12).scan(stuck.clone(), |at, _| Some(std::mem::replace(at, at.join("d")))).collect();
    nested.iter().for_each(|dir| fs::create_dir(dir).unwrap());
    sweep::sweep_within(&host.places, Duration::ZERO);
    let given_up = given_up(&host.places);
    // It would not come back.
    sweep::sweep_within(&host.places, Duration::from_secs(100_000));
    let is_there = stuck.exists();
    nested.iter().skip(1).rev().for_each(|dir| fs::remove_dir(dir).unwrap());
    assert_eq!((given_up, is_there), (1, true));
    sweep(&host.places);
    assert!(!stuck.exists(), "it goes as soon as it can");
}

#[test]
fn only_groups_of_ended_makers_of_this_namespace_are_swept() {
    let host = host(false);
    let own = host.places.v2.clone().or_else(|| host.places.v1.get("cpu").cloned()).unwrap();
    let dead = {
        let mut child = shell("exit");
        let maker = Maker::of_process(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        maker
    };
    let init = Maker::of_process(1);
    let foreign = dead.leaf().replacen(&format!("{:08x}", dead.namespace()), "f1234567", 1);
    let stay = [init.leaf(), init.supervisor(), foreign, format!("{}.service", dead.leaf())];
    let gone = [dead.leaf(), dead.tenant("x"), dead.supervisor()];
    for name in stay.iter().chain(&gone) {
        fs::create_dir(own.join(name)).unwrap();
    }
    sweep(&host.places);
    let left: Vec<bool> = stay.iter().chain(&gone).map(|name| own.join(name).exists()).collect();
    stay.iter().for_each(|name| fs::remove_dir(own.join(name)).unwrap());
    assert_eq!(left, [true, true, true, true, false, false, false]);
}

//! What every kind of leaf must do, on the cgroups of the host that runs the tests, as root. A hybrid host is also
//! tested as if it had v1 only.

use super::group_name::SupervisorId;
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

/// From `linux/sched.h`. The constant of the libc crate is cut to 32 bits, which leaves 0.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Some tests move this process, and all check for leftovers.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Number of limits that the v2 hierarchy holds.
fn v2_limit_count(hierarchies: &Hierarchies) -> usize {
    LEAF_LIMITS.iter().filter(|limit| !hierarchies.v1.contains_key(controller_name(**limit))).count()
}

/// A kind of host on this host.
struct TestHost {
    hierarchies: Hierarchies,
    _alone: MutexGuard<'static, ()>,
}

fn host(v1_only: bool) -> TestHost {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut hierarchies = Hierarchies::detect();
    if v1_only && v2_limit_count(&hierarchies) == 0 {
        hierarchies = Hierarchies { mode: HierarchyMode::V1, v2: None, ..hierarchies };
    }
    delegate_controllers(&hierarchies);
    TestHost { hierarchies, _alone: alone }
}

impl TestHost {
    fn leaf(&self) -> Box<dyn Leaf> {
        let opened = open(&self.hierarchies, "tests", &LIMITS, &[]).unwrap();
        assert_eq!(opened.missing, []);
        opened.leaf.unwrap()
    }

    /// The groups of `supervisor` in all hierarchies.
    fn groups_of(&self, supervisor: SupervisorId) -> Vec<PathBuf> {
        let is_its = |dir: &PathBuf| {
            SupervisorId::from_group_name(dir.file_name().unwrap().to_str().unwrap()) == Some(supervisor)
        };
        let owns = self.hierarchies.v1.values().chain(&self.hierarchies.v2);
        let tops: Vec<PathBuf> = owns.flat_map(|own| group::groups_in(own)).filter(is_its).collect();
        let nested: Vec<PathBuf> = tops.iter().flat_map(|top| group::groups_in(top)).collect();
        tops.into_iter().chain(nested).collect()
    }

    fn assert_nothing_left(&self) {
        let is_settled =
            self.hierarchies.v2.as_ref().map(|own| own.join(self.hierarchies.supervisor.supervisor_name()));
        let mut left = self.groups_of(self.hierarchies.supervisor);
        left.retain(|dir| Some(dir) != is_settled.as_ref());
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

/// A shell that starts `script` when [`go`] is called.
#[expect(clippy::disallowed_methods, reason = "the tests need processes to put into leaves")]
fn shell(script: &str) -> Child {
    let script = format!("read go; {script}");
    Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn go(child: &mut Child) {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
}

/// Runs `script` in `leaf` to its end.
fn run(leaf: &dyn Leaf, script: &str) -> std::process::ExitStatus {
    let mut child = shell(script);
    leaf.add(child.id(), false).unwrap();
    go(&mut child);
    child.wait().unwrap()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        // The kernel distributes the pressure since the last reading in whole ticks of up to 10 ms: for a group that is
        // read more often it counts next to none.
        std::thread::sleep(Duration::from_millis(40));
    }
}

fn has_oom_event(leaf: &dyn Leaf) -> bool {
    let oom_event = leaf.oom_event_fd().unwrap();
    poll(&mut [PollFd::new(&oom_event, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
}

/// Tests that hold on every kind of host: once for what this host is, once for what it could be taken for.
macro_rules! on_every_kind_of_host {
    ($($name:ident),* $(,)?) => {
        mod as_it_is {
            $(#[test] fn $name() { super::$name(&super::host(false)); })*
        }
        mod with_v1_only {
            $(#[test] fn $name() { super::$name(&super::host(true)); })*
        }
    };
}

on_every_kind_of_host!(
    limits_read_back,
    limits_at_their_ceilings_read_back,
    the_write_limit_reads_back_until_it_is_lifted,
    a_memory_hog_is_killed_and_counted,
    refused_forks_are_counted,
    a_kill_reaches_every_process_of_a_fork_tree,
    a_frozen_leaf_does_not_run_and_can_be_killed,
    processor_time_and_throttling_are_counted,
    pressure_is_counted_if_the_kernel_supports_it,
    removal_includes_nested_groups,
    removal_kills_processes_put_there_from_outside,
    a_dropped_leaf_is_killed_and_removed,
    many_threads_make_and_remove_leaves_of_one_owner,
    sweeps_groups_of_a_dead_supervisor_with_their_processes,
);

fn limits_read_back(host: &TestHost) {
    let opened = open(&host.hierarchies, "tests", &LIMITS, &[]).unwrap();
    let max: Vec<(LimitKind, u64)> = opened.limits.iter().map(|limit| (limit.limit, limit.max)).collect();
    for expected in [(LimitKind::Memory, 32 << 20), (LimitKind::Cpu, 500), (LimitKind::Pids, 16)] {
        assert!(max.contains(&expected), "{max:?} {:?}", opened.missing);
    }
    let leaf = opened.leaf.unwrap();
    assert_eq!(leaf.counters().oom_kills, 0);
    assert_eq!(leaf.memory_bytes(), Some(0));
    assert!(!has_oom_event(&*leaf));
    drop(leaf);
    host.assert_nothing_left();
}

fn limits_at_their_ceilings_read_back(host: &TestHost) {
    let opened = open(&host.hierarchies, "", &Limits::CEILING, &[]).unwrap();
    assert_eq!((opened.limits.len(), opened.missing), (3, vec![]));
}

fn the_write_limit_reads_back_until_it_is_lifted(host: &TestHost) {
    let (disks, limits) = (all_block_devices(), Limits { write_bytes_per_s_max: 8 << 20, ..LIMITS });
    let opened = open(&host.hierarchies, "tests", &limits, &disks).unwrap();
    let max = opened.limits.iter().find(|limit| limit.limit == LimitKind::Writes).map(|limit| limit.max);
    assert_eq!((max, opened.missing), ((!disks.is_empty()).then_some(8 << 20), vec![]));
    let bounded = || -> usize {
        let groups = host.groups_of(host.hierarchies.supervisor).into_iter();
        let limit_files =
            groups.flat_map(|dir| ["io.max", "blkio.throttle.write_bps_device"].map(|file| dir.join(file)));
        limit_files.filter_map(|file| fs::read_to_string(file).ok()).map(|text| text.matches("8388608").count()).sum()
    };
    assert_eq!(bounded(), disks.len());
    let leaf = opened.leaf.unwrap();
    leaf.lift_throttles();
    assert_eq!(bounded(), 0);
    drop(leaf);
    host.assert_nothing_left();
}

fn a_memory_hog_is_killed_and_counted(host: &TestHost) {
    let opened = open(&host.hierarchies, "tests", &LIMITS, &[]).unwrap();
    let by = opened.limits.iter().find(|limit| limit.limit == LimitKind::Memory).unwrap().by.clone();
    let leaf = opened.leaf.unwrap();
    let mut bystander = shell("sleep 600");
    leaf.add(bystander.id(), false).unwrap();
    go(&mut bystander);
    let died = run(&*leaf, "x=0123456789abcdef; while :; do x=$x$x; done");
    assert!(!died.success());
    wait_until("the kill is counted", || leaf.oom_kills() > 0);
    assert!(has_oom_event(&*leaf) || by == "cgroup-v2", "reading v2's counter has reset the event");
    leaf.clear_oom_event();
    assert!(!leaf.clear_oom_event() && !has_oom_event(&*leaf));
    if by == "cgroup-v2" {
        assert!(!bystander.wait().unwrap().success());
        assert!(leaf.oom_kills() >= 2);
    } else {
        assert_eq!(bystander.try_wait().unwrap(), None);
        leaf.kill();
        bystander.wait().unwrap();
    }
    let counters = leaf.counters();
    // Linux 6.18 does not count in v1 how often the limit of memory with swap was reached.
    assert!(counters.memory_limit_reached > 0 || by == "cgroup-v1", "{counters:?}");
    if let Some(peak) = counters.memory_peak_bytes {
        assert!(peak > 16 << 20 && peak <= 32 << 20, "{counters:?}");
    }
}

fn refused_forks_are_counted(host: &TestHost) {
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

fn a_kill_reaches_every_process_of_a_fork_tree(host: &TestHost) {
    let mut leaf = host.leaf();
    let mut tree =
        shell("trap '' TERM HUP; f() { sleep 600 & while :; do sleep 600; done; }; f & f & (setsid sleep 600 &) ; f");
    leaf.add(tree.id(), false).unwrap();
    go(&mut tree);
    wait_until("the tree has grown", || leaf.pids().len() >= 8);
    leaf.kill();
    tree.wait().unwrap();
    wait_until("nothing is alive", || leaf.pids().is_empty());
    leaf.remove(REMOVE_WAIT).unwrap();
    host.assert_nothing_left();
}

fn a_frozen_leaf_does_not_run_and_can_be_killed(host: &TestHost) {
    let (mut leaf, dir) = (host.leaf(), tempfile::tempdir().unwrap());
    // Its end shows that it is running again.
    let mut first = shell(&format!("cd {}; : > begun; while [ ! -e go ]; do :; done", dir.path().display()));
    leaf.add(first.id(), false).unwrap();
    go(&mut first);
    wait_until("it has begun", || dir.path().join("begun").exists());
    if leaf.freeze(true) {
        wait_until("it is frozen", || leaf.is_frozen());
        fs::write(dir.path().join("go"), "").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(first.try_wait().unwrap(), None);
        assert!(leaf.freeze(false));
        assert!(first.wait().unwrap().success());
        let mut second = shell("sleep 600");
        leaf.add(second.id(), false).unwrap();
        assert!(leaf.freeze(true));
        wait_until("the second process is frozen", || leaf.is_frozen());
        leaf.kill();
        assert!(!second.wait().unwrap().success());
    } else {
        assert!(leaf.clone_target().is_none(), "only a host without a v2 hierarchy cannot freeze");
        leaf.kill();
        first.wait().unwrap();
    }
    leaf.remove(REMOVE_WAIT).unwrap();
    host.assert_nothing_left();
}

fn processor_time_and_throttling_are_counted(host: &TestHost) {
    let leaf = open(&host.hierarchies, "tests", &Limits { cpu_millis_max: 50, ..LIMITS }, &[]).unwrap().leaf.unwrap();
    let mut throttled = shell("while :; do :; done");
    leaf.add(throttled.id(), false).unwrap();
    go(&mut throttled);
    wait_until("it is throttled", || leaf.counters().throttled_s.unwrap() > 0.05);
    // v1 counts the times by ticks, and the first share may fall between two.
    let used = |counters: Counters| counters.cpu_user_s.unwrap() + counters.cpu_system_s.unwrap();
    wait_until("its time is counted", || used(leaf.counters()) > 0.005);
    let counters = leaf.counters();
    leaf.lift_throttles();
    // The period in progress when the limit was lifted is still counted.
    std::thread::sleep(Duration::from_millis(150));
    let before = leaf.counters();
    std::thread::sleep(Duration::from_millis(300));
    let after = leaf.counters();
    assert_eq!(after.throttled_s, before.throttled_s);
    assert!(after.cpu_user_s.unwrap() + after.cpu_system_s.unwrap() > counters.cpu_user_s.unwrap());
    leaf.kill();
    throttled.wait().unwrap();
}

fn pressure_is_counted_if_the_kernel_supports_it(host: &TestHost) {
    let leaf =
        open(&host.hierarchies, "tests", &Limits { cpu_millis_max: 100_000, ..LIMITS }, &[]).unwrap().leaf.unwrap();
    let has_psi = host.hierarchies.v2.as_ref().is_some_and(|own| own.join("cpu.pressure").exists());
    let before = leaf.counters();
    assert!(
        [before.cpu_pressure_s, before.memory_pressure_s, before.io_pressure_s].iter().all(|p| p.is_some() == has_psi)
    );
    if has_psi {
        let mut many = shell("for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done");
        leaf.add(many.id(), false).unwrap();
        go(&mut many);
        many.wait().unwrap();
        wait_until("pressure is counted", || leaf.counters().cpu_pressure_s > Some(0.05));
    }
}

fn removal_includes_nested_groups(host: &TestHost) {
    let mut leaf = host.leaf();
    let is_leaf = |dir: &&PathBuf| dir.to_str().unwrap().contains("-run-");
    let groups = host.groups_of(host.hierarchies.supervisor);
    let made = groups.iter().filter(is_leaf).filter(|dir| fs::create_dir_all(dir.join("a/b")).is_ok()).count();
    assert!(made > 0);
    leaf.remove(REMOVE_WAIT).unwrap();
    host.assert_nothing_left();
}

fn removal_kills_processes_put_there_from_outside(host: &TestHost) {
    let mut leaf = host.leaf();
    let mut stranger = shell("sleep 600");
    leaf.add(stranger.id(), false).unwrap();
    go(&mut stranger);
    // Reaped meanwhile, in case the kernel waits for that.
    let reaped = std::thread::spawn(move || stranger.wait().unwrap());
    leaf.remove(REMOVE_WAIT).unwrap();
    assert!(!reaped.join().unwrap().success());
    host.assert_nothing_left();
}

fn a_dropped_leaf_is_killed_and_removed(host: &TestHost) {
    let leaf = host.leaf();
    let mut child = shell("sleep 600");
    leaf.add(child.id(), false).unwrap();
    drop(leaf);
    child.wait().unwrap();
    host.assert_nothing_left();
}

fn many_threads_make_and_remove_leaves_of_one_owner(host: &TestHost) {
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

fn sweeps_groups_of_a_dead_supervisor_with_their_processes(host: &TestHost) {
    let mut process = shell("exit");
    let supervisor = SupervisorId::of_process(process.id());
    let dead_hierarchies = Hierarchies { supervisor, ..host.hierarchies.clone() };
    let leaf = open(&dead_hierarchies, "tests", &LIMITS, &[]).unwrap().leaf.unwrap();
    let mut child = shell("sleep 600");
    leaf.add(child.id(), false).unwrap();
    // As if it had been killed: nothing of it is dropped.
    std::mem::forget(leaf);
    let own = host.leaf();
    sweep(&host.hierarchies);
    assert!(!host.groups_of(supervisor).is_empty(), "the supervisor is alive");
    // The supervisor is dead and not reaped when the next one sweeps.
    process.kill().unwrap();
    wait_until("it is dead", || supervisor.has_ended(host.hierarchies.supervisor));
    wait_until("its groups are swept", || {
        sweep(&host.hierarchies);
        host.groups_of(supervisor).is_empty()
    });
    child.wait().unwrap();
    process.wait().unwrap();
    assert!(own.memory_bytes().is_some(), "a living supervisor keeps its leaf");
}

#[test]
fn clone_into_cgroup_starts_a_process_in_the_v2_part_of_a_leaf() {
    let host = host(false);
    let leaf = host.leaf();
    let Some(clone_target) = leaf.clone_target() else {
        assert_eq!(host.hierarchies.mode, HierarchyMode::V1);
        return;
    };
    // SAFETY: all fields are plain numbers, for which 0 is a value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = u64::try_from(libc::SIGCHLD).unwrap();
    args.cgroup = u64::try_from(clone_target.as_raw_fd()).unwrap();
    // SAFETY: the arguments are complete and have the given size; without a stack the child continues on a copy of this
    // one.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    if pid == 0 {
        rustix::event::pause();
        // SAFETY: ends the child without running anything that belongs to the parent.
        unsafe { libc::_exit(0) }
    }
    assert!(pid > 0, "{}", std::io::Error::last_os_error());
    let born = u32::try_from(pid).unwrap();
    let pids_seen = leaf.pids();
    let added = leaf.add(born, true);
    let groups = fs::read_to_string(format!("/proc/{born}/cgroup")).unwrap();
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    waitpid(Some(pid), WaitOptions::empty()).unwrap();
    added.unwrap();
    assert_eq!(pids_seen, [born]);
    let limited = groups.lines().filter(|line| line.contains("-run-")).count();
    let of_v1: BTreeSet<&PathBuf> =
        ["memory", "cpu", "pids"].iter().filter_map(|name| host.hierarchies.v1.get(*name)).collect();
    assert_eq!(limited, 1 + of_v1.len(), "{groups}");
    drop(leaf);
    host.assert_nothing_left();
}

#[test]
fn every_owner_has_its_own_group_with_an_equal_weight() {
    let host = host(false);
    let one = [
        open(&host.hierarchies, "../a", &LIMITS, &[]).unwrap(),
        open(&host.hierarchies, "../a", &LIMITS, &[]).unwrap(),
    ];
    let other = open(&host.hierarchies, "b/../a", &LIMITS, &[]).unwrap();
    let own = host.hierarchies.v1.get("cpu").or(host.hierarchies.v2.as_ref()).unwrap();
    let is_tenant = |dir: &PathBuf| dir.to_str().unwrap().contains("-tenant-") && dir.parent() == Some(own);
    let tenants: Vec<PathBuf> = host.groups_of(host.hierarchies.supervisor).into_iter().filter(is_tenant).collect();
    let mut leaves: Vec<usize> = tenants.iter().map(|tenant| group::groups_in(tenant).len()).collect();
    leaves.sort_unstable();
    assert_eq!(leaves, [1, 2]);
    let share = |dir: &PathBuf| group::number(dir, "cpu.weight").or_else(|| group::number(dir, "cpu.shares"));
    assert!(tenants.iter().all(|tenant| share(tenant).is_some() && share(tenant) == share(&tenants[0])));
    drop((one, other));
    host.assert_nothing_left();
}

#[test]
fn a_busy_tenant_loses_its_cpu_boost_also_in_a_new_group() {
    let host = host(false);
    let own = host.hierarchies.v1.get("cpu").or(host.hierarchies.v2.as_ref()).unwrap();
    let weight = |owner: &str| {
        let tenant = own.join(host.hierarchies.supervisor.tenant_name(owner));
        group::number(&tenant, "cpu.weight")
            .or_else(|| group::number(&tenant, "cpu.shares").map(|shares| shares * 100 / 1_024))
    };
    let ledger = Arc::new(CpuLedger::default());
    let opened = |owner: &str| {
        let leaf = open(&host.hierarchies, owner, &LIMITS, &[]).unwrap().leaf.unwrap();
        let meter = CpuMeter::new(&ledger, owner, &*leaf);
        (leaf, meter)
    };
    let (greedy, greedy_meter) = opened("greedy");
    let (modest, modest_meter) = opened("modest");
    assert_eq!((weight("greedy"), weight("modest")), (Some(1_000), Some(1_000)));
    let used = |cpu_user_s| Counters { cpu_user_s: Some(cpu_user_s), ..Counters::default() };
    let charged = Instant::now();
    greedy_meter.charge(&*greedy, &used(600.0));
    modest_meter.charge(&*modest, &used(0.1));
    modest_meter.charge(&*modest, &used(0.1));
    modest_meter.charge(&*modest, &used(0.1));
    assert_eq!((weight("greedy"), weight("modest")), (Some(100), Some(1_000)), "charged time is not charged again");
    drop(greedy);
    assert_eq!(weight("greedy"), None);
    let (greedy, greedy_meter) = opened("greedy");
    // If this thread was not scheduled for four seconds, the debt may be forgiven already.
    let is_forgiven = charged.elapsed() >= Duration::from_secs(4);
    assert!(weight("greedy") == Some(100) || is_forgiven, "a new group of the same tenant");
    wait_until("it is forgiven", || {
        greedy_meter.refresh(&*greedy);
        weight("greedy") == Some(1_000)
    });
    drop((greedy, modest));
    host.assert_nothing_left();
}

#[test]
fn reports_limits_of_hierarchies_that_are_not_mounted() {
    let unmounted = Hierarchies {
        mode: HierarchyMode::None,
        v1: Default::default(),
        v2: None,
        supervisor: SupervisorId::current(),
    };
    let opened = open(&unmounted, "tests", &LIMITS, &[]).unwrap();
    assert!(opened.leaf.is_none() && opened.limits.is_empty());
    assert_eq!(opened.missing.len(), 3);
    let host = host(true);
    let mut hierarchies = host.hierarchies.clone();
    if hierarchies.v1.remove("pids").is_some() {
        let opened = open(&hierarchies, "tests", &LIMITS, &[]).unwrap();
        let missing = opened.missing.iter().find(|missing| missing.limit == LimitKind::Pids).unwrap();
        assert!(missing.reason.contains("pids"), "{missing:?}");
    }
}

/// A group that contains this process, like one that systemd delegates; undone on drop.
struct DelegatedGroup {
    before: PathBuf,
    group: PathBuf,
}

impl DelegatedGroup {
    fn enter(own: &Path) -> DelegatedGroup {
        let group = own.join(format!("delegated-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        group::write(&group, "cgroup.procs", "0").unwrap();
        // The group of this process before, if it had moved itself there.
        let home = own.join(SupervisorId::current().supervisor_name());
        DelegatedGroup { before: if home.exists() { home } else { own.to_owned() }, group }
    }
}

impl Drop for DelegatedGroup {
    fn drop(&mut self) {
        let back = group::write(&self.before, "cgroup.procs", "0").and_then(|()| group::try_remove(&self.group));
        assert!(back.is_ok() || std::thread::panicking(), "{back:?}");
    }
}

#[test]
fn delegates_controllers_in_a_delegated_group_and_undoes_it() {
    let host = host(false);
    let Some(own) = host.hierarchies.v2.clone() else {
        assert_eq!(host.hierarchies.mode, HierarchyMode::V1);
        return;
    };
    let delegated = DelegatedGroup::enter(&own);
    let hierarchies = Hierarchies::detect();
    assert_eq!(hierarchies.v2.as_ref(), Some(&delegated.group));
    let of_v2 = v2_limit_count(&hierarchies);
    if of_v2 == 0 {
        // The limits are in v1, so nothing has to be delegated.
        delegate_controllers(&hierarchies);
        assert_eq!(group::groups_in(&delegated.group), Vec::<PathBuf>::new());
        assert_eq!(open(&hierarchies, "tests", &LIMITS, &[]).unwrap().missing, []);
        return;
    }
    // A probe sees that delegation would work, and changes nothing.
    assert!(can_delegate(&hierarchies, "memory"));
    assert_eq!(open(&hierarchies, "tests", &LIMITS, &[]).unwrap().missing.len(), of_v2);
    assert_eq!(group::groups_in(&delegated.group), Vec::<PathBuf>::new());
    let mut other = shell("sleep 600");
    delegate_controllers(&hierarchies);
    let opened = open(&hierarchies, "tests", &LIMITS, &[]).unwrap();
    assert_eq!(opened.missing.len(), of_v2);
    let missing = &opened.missing[0];
    assert!(missing.reason.contains("holds other processes") && missing.remedy.contains("Delegate=yes"), "{missing:?}");
    assert!(!can_delegate(&hierarchies, "memory"));
    drop(opened);
    other.kill().unwrap();
    other.wait().unwrap();
    delegate_controllers(&hierarchies);
    assert_eq!(open(&hierarchies, "tests", &LIMITS, &[]).unwrap().missing, []);
    let moved = Hierarchies::detect();
    assert_eq!(moved, hierarchies);
    delegate_controllers(&moved);
    assert_eq!(open(&moved, "tests", &LIMITS, &[]).unwrap().missing, []);
    undo_delegation(&moved).unwrap();
    assert_eq!(group::groups_in(&delegated.group), Vec::<PathBuf>::new());
    assert_eq!(Hierarchies::detect(), hierarchies);
    drop(delegated);
}

#[test]
fn sweeps_the_own_group_of_a_dead_supervisor() {
    let host = host(false);
    let Some(own) = host.hierarchies.v2.clone() else {
        assert_eq!(host.hierarchies.mode, HierarchyMode::V1);
        return;
    };
    let mut process = shell("sleep 600");
    let supervisor = SupervisorId::of_process(process.id());
    let group = own.join(supervisor.supervisor_name());
    fs::create_dir(&group).unwrap();
    group::write(&group, "cgroup.procs", &process.id().to_string()).unwrap();
    sweep(&host.hierarchies);
    assert!(group.exists());
    process.kill().unwrap();
    wait_until("it is dead", || supervisor.has_ended(host.hierarchies.supervisor));
    wait_until("its group is swept", || {
        sweep(&host.hierarchies);
        !group.exists()
    });
    process.wait().unwrap();
}

#[test]
fn waits_only_once_for_a_group_that_cannot_be_removed() {
    let host = host(false);
    let own = host.hierarchies.v2.clone().or_else(|| host.hierarchies.v1.get("cpu").cloned()).unwrap();
    let mut child = shell("exit");
    let dead = SupervisorId::of_process(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let stuck = own.join(dead.leaf_name());
    // Nested deeper than a removal goes.
    let nested: Vec<PathBuf> = (0..12).scan(stuck.clone(), |at, _| Some(std::mem::replace(at, at.join("d")))).collect();
    nested.iter().for_each(|dir| fs::create_dir(dir).unwrap());
    sweep::sweep_within(&host.hierarchies, Duration::ZERO);
    let count_abandoned = count_abandoned(&host.hierarchies);
    // Without the mark this call would not return.
    sweep::sweep_within(&host.hierarchies, Duration::from_secs(100_000));
    let is_there = stuck.exists();
    nested.iter().skip(1).rev().for_each(|dir| fs::remove_dir(dir).unwrap());
    assert_eq!((count_abandoned, is_there), (1, true));
    sweep(&host.hierarchies);
    assert!(!stuck.exists(), "it is removed as soon as possible");
}

#[test]
fn sweeps_only_groups_of_dead_supervisors_in_this_pid_namespace() {
    let host = host(false);
    let own = host.hierarchies.v2.clone().or_else(|| host.hierarchies.v1.get("cpu").cloned()).unwrap();
    let dead = {
        let mut child = shell("exit");
        let supervisor = SupervisorId::of_process(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        supervisor
    };
    let init = SupervisorId::of_process(1);
    let foreign = dead.leaf_name().replacen(&format!("{:08x}", dead.namespace()), "f1234567", 1);
    let stay = [init.leaf_name(), init.supervisor_name(), foreign, format!("{}.service", dead.leaf_name())];
    let gone = [dead.leaf_name(), dead.tenant_name("x"), dead.supervisor_name()];
    for name in stay.iter().chain(&gone) {
        fs::create_dir(own.join(name)).unwrap();
    }
    sweep(&host.hierarchies);
    let left: Vec<bool> = stay.iter().chain(&gone).map(|name| own.join(name).exists()).collect();
    stay.iter().for_each(|name| fs::remove_dir(own.join(name)).unwrap());
    assert_eq!(left, [true, true, true, true, false, false, false]);
}

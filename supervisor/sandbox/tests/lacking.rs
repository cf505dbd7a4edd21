//! A host that lacks something for a moment, or kills and removes what is not its own: the host is said to be the cause and
//! nothing else is, a run that has not begun gets another try, and none is started twice.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

#[cfg(test)]
mod support;

use proctor_core::isolation::Layer;
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{
    Ending, Jail, KillSwitch, LinuxSandbox, PoolBounds, RunAs, RunSpec, Sandbox, SandboxError, SandboxEvent,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::own_disk::OwnDisk;
use support::*;

/// A workspace in which each start of a run leaves a line.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        Stage { dir }
    }

    /// A run that requires everything that the host could be short of.
    fn spec(&self) -> RunSpec {
        let workspace = self.dir.path().join("ws");
        let script = format!("echo x >> {}/starts; echo fine", workspace.display());
        let required_layers =
            vec![Layer::Cgroup, Layer::PivotRoot, Layer::NetNamespace, Layer::Seccomp, Layer::Landlock];
        let jail = Jail { session: "one".to_owned(), required_layers, ..Jail::at(&workspace) };
        RunSpec { jail, required_limits: Limits::ENFORCED.to_vec(), ..spec(&script) }
    }

    /// How often a command was started since the last time that somebody asked.
    fn starts(&self) -> usize {
        let path = self.dir.path().join("ws/starts");
        let starts = fs::read_to_string(&path).unwrap_or_default().lines().count();
        _ = fs::remove_file(path);
        starts
    }

    /// A worker that ends without a word as long as `deaths`, a number in a file, is not used up.
    fn mortal(&self, deaths: usize) -> LinuxSandbox {
        let counter = self.dir.path().join("deaths");
        fs::write(&counter, format!("{deaths}\n")).unwrap();
        let counter = counter.display();
        self.worker_after(&format!(
            "read left < {counter}; [ $left = 0 ] || {{ echo $((left - 1)) > {counter}; kill -KILL $$; }}"
        ))
    }

    /// A worker before which something happens on the host.
    fn worker_after(&self, script: &str) -> LinuxSandbox {
        let path = self.dir.path().join("worker");
        fs::write(&path, format!("#!/bin/sh\n{script}\nexec {} \"$@\"\n", worker().display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        LinuxSandbox::new(path, PoolBounds::NONE).unwrap()
    }
}

fn go(sandbox: &LinuxSandbox, spec: &RunSpec) -> Result<Ending, SandboxError> {
    let ending = sandbox.run(spec, &KillSwitch::new().unwrap(), &mut |_| {});
    assert_nothing_is_left();
    ending
}

/// Takes every number that is free below one that is taken; with the highest, which the kernel compares with the limit.
fn plugged() -> (Vec<File>, u64) {
    let mut plugs = Vec::new();
    loop {
        let plug = File::open("/dev/null").unwrap();
        let number = plug.as_raw_fd();
        plugs.push(plug);
        let taken =
            fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| fd.file_name().to_str()?.parse().ok());
        // The look itself takes the next one.
        if taken.filter(|taken| *taken != number + 1).max().is_none_or(|highest: i32| highest <= number) {
            return (plugs, u64::try_from(number).unwrap());
        }
    }
}

fn open_descriptors() -> u64 {
    // One of them is that of the look.
    fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1
}

#[test]
fn without_descriptors_the_host_is_the_cause_wherever_the_last_one_goes() {
    let _alone = one_at_a_time();
    let (stage, sandbox) = (Stage::new(), sandbox());
    let spec = stage.spec();
    let before = getrlimit(Resource::Nofile);
    let open = open_descriptors();
    let (mut refused, mut ended) = (0, 0);
    for spare in 0..80 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(open + spare), ..before }).unwrap();
        let outcome = KillSwitch::new().map(|kill| sandbox.run(&spec, &kill, &mut |_| {}));
        setrlimit(Resource::Nofile, before).unwrap();
        let starts = stage.starts();
        match outcome {
            Err(_) => {}
            Ok(Err(error)) => {
                assert!(error.is_passing() && starts == 0, "{spare} to spare, {starts} starts: {error:?}");
                refused += 1;
            }
            Ok(Ok(ending)) if ending.killed == Some(KillReason::HostFailed) => {
                assert!(!ending.notes.is_empty() && starts <= 1, "{spare} to spare, {starts} starts: {ending:?}");
            }
            Ok(Ok(ending)) => {
                assert!(
                    ending.exits == [Exit::Code(0)] && starts == 1,
                    "{spare} to spare, {starts} starts: {ending:?}"
                );
                ended += 1;
            }
        }
        assert_nothing_is_left();
    }
    assert!(refused > 5 && ended > 5, "{refused} refused, {ended} ended");
}

/// What a run has to take in after its worker was prepared is more than what was needed just before it began.
#[test]
fn a_run_whose_pipes_find_no_descriptor_was_begun_once() {
    let _alone = one_at_a_time();
    let (stage, sandbox) = (Stage::new(), pooled(PoolBounds { workers_max: 2, idle: PATIENCE }));
    let spec = stage.spec();
    let before = getrlimit(Resource::Nofile);
    let (mut unread, mut is_enough) = (0, false);
    for spare in 0..64 {
        sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut |_| {}).unwrap();
        // The keeper has the next worker ready, and has given back the descriptors of the last one.
        sandbox.retire("another");
        eventually("the next worker waits", || waiting_workers().len() == 1);
        stage.starts();
        let kill = KillSwitch::new().unwrap();
        let (plugs, highest) = plugged();
        setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 1 + spare), ..before }).unwrap();
        let outcome = sandbox.run(&spec, &kill, &mut |_| {});
        setrlimit(Resource::Nofile, before).unwrap();
        drop(plugs);
        let starts = stage.starts();
        match outcome {
            Err(error) => assert!(error.is_passing() && starts == 0, "{spare} to spare, {starts} starts: {error:?}"),
            Ok(ending) if ending.killed.is_some() => {
                assert!(!ending.notes.is_empty() && starts <= 1, "{spare} to spare, {starts} starts: {ending:?}");
                unread += 1;
            }
            Ok(ending) => {
                assert_exits(&ending, &[Exit::Code(0)]);
                is_enough = true;
                break;
            }
        }
    }
    assert!(unread > 0 && is_enough, "{unread} unread");
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn a_worker_that_is_killed_before_the_first_command_is_replaced_and_not_for_ever() {
    let _alone = one_at_a_time();
    let stage = Stage::new();
    for deaths in 0..3 {
        let ending = go(&stage.mortal(deaths), &stage.spec()).unwrap();
        assert_exits(&ending, &[Exit::Code(0)]);
        assert_eq!(stage.starts(), 1, "after {deaths} deaths");
    }
    let error = go(&stage.mortal(3), &stage.spec()).unwrap_err();
    assert!(matches!(error, SandboxError::WorkerDied { .. }) && error.is_passing(), "{error:?}");
    assert_eq!(stage.starts(), 0);
    assert!(error.client_text().starts_with("the sandbox worker was killed"), "{error}");
}

#[test]
fn a_workspace_that_is_replaced_while_its_worker_is_made_is_not_the_hosts_doing() {
    let _alone = one_at_a_time();
    for required_layers in [Stage::new().spec().jail.required_layers, Vec::new()] {
        let stage = Stage::new();
        let at = stage.dir.path().display();
        let sandbox = stage.worker_after(&format!("mv {at}/ws {at}/old; mkdir {at}/ws"));
        let mut spec = stage.spec();
        spec.jail.required_layers = required_layers;
        // Of root's own no run goes on without a root of its own.
        spec.jail.run_as = RunAs::User { uid: 4_242, gid: 4_242 };
        let error = go(&sandbox, &spec).unwrap_err();
        assert!(matches!(error, SandboxError::WorkspaceGone { .. }), "{error:?}");
        assert!(stage.dir.path().join("old").is_dir() && stage.starts() == 0);
    }
}

#[test]
fn a_run_that_has_begun_is_not_begun_again() {
    let _alone = one_at_a_time();
    let (stage, sandbox) = (Stage::new(), sandbox());
    let mut spec = stage.spec();
    spec.commands = vec![sh(&format!("echo x >> {}/starts; sleep 600", spec.jail.workspace.display()))];
    let mut killed = false;
    let ending = sandbox
        .run(&spec, &KillSwitch::new().unwrap(), &mut |_| {
            if !killed && let Some((_, init)) = worker_pids() {
                killed = kill_by_pid(init);
            }
        })
        .unwrap();
    assert!(killed && ending.worker_lost, "{ending:?}");
    assert!(stage.starts() <= 1);
    assert_nothing_is_left();
}

/// Runs of which every second one is hunted: its groups are removed as soon as they are seen, or a little later, so that the
/// hunts meet runs at each of their steps.
const RUNS: u32 = 64;

#[test]
fn whoever_removes_a_runs_group_is_the_cause_and_no_limit() {
    let _alone = one_at_a_time();
    let (stage, sandbox) = (Stage::new(), sandbox());
    let spec = stage.spec();
    let prefix = format!("proctor-{}-", std::process::id());
    // Where groups are made, so that the hunter is as quick as a run is begun.
    let mut above = BTreeSet::new();
    let mut look = |_: SandboxEvent<'_>| {
        let groups = groups_below(Path::new("/sys/fs/cgroup"), &prefix, 6);
        above.extend(groups.iter().filter_map(|group| Some(group.parent()?.to_owned())));
    };
    sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut look).unwrap();
    let quickest = (0..5).map(|_| {
        let begun = Instant::now();
        sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut |_| {}).unwrap();
        begun.elapsed()
    });
    // A group is empty in the first part of a run only.
    let step = quickest.min().unwrap() / 128;
    assert_eq!(stage.starts(), 6);
    let hunt = |is_over: &AtomicBool, wait: Duration| {
        let mut is_first = true;
        while !is_over.load(Ordering::Relaxed) {
            for group in above.iter().flat_map(|above| groups_below(above, &prefix, 0)) {
                if std::mem::take(&mut is_first) {
                    std::thread::sleep(wait);
                }
                let leaves = groups_below(&group, &prefix, 0);
                for group in leaves.iter().chain([&group]) {
                    // What is in use cannot be removed.
                    _ = fs::remove_dir(group);
                }
            }
        }
    };
    let (mut ended, mut refused) = (0, 0);
    for number in 0..16 * RUNS {
        // On a host with much to do few hunts come in time.
        if number >= RUNS && refused > 0 {
            break;
        }
        let (is_hunted, is_over) = (number % 2 == 1, AtomicBool::new(number % 2 == 0));
        let is_ready = Barrier::new(2);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                is_ready.wait();
                hunt(&is_over, step * (number % 16));
            });
            is_ready.wait();
            let outcome = sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut |_| {});
            is_over.store(true, Ordering::Relaxed);
            outcome
        });
        match (outcome, stage.starts()) {
            (Ok(ending), 1) if ending.exits == [Exit::Code(0)] => ended += 1,
            (Err(error), 0) if is_hunted && error.is_passing() => refused += 1,
            other => panic!("run {number}: {other:?}"),
        }
    }
    println!("{ended} runs ended, {refused} were refused");
    assert!(refused > 0);
    assert_nothing_is_left();
}

#[test]
fn a_disk_that_cannot_be_looked_at_for_a_moment_is_not_a_full_one() {
    let _alone = one_at_a_time();
    let disk = OwnDisk::of(64 << 20);
    let mut modest = spec("echo ready; sleep 1");
    modest.jail.workspace = disk.workspace();
    modest.commands[0].dir = disk.workspace();
    modest.limits.disk_bytes_max = 1 << 20;
    modest.required_limits = vec![LimitKind::Disk];
    let (sandbox, kill) = (sandbox(), KillSwitch::new().unwrap());
    let before = getrlimit(Resource::Nofile);
    // So much goes missing beside the run that its files have to be looked at.
    let mut neighbour = Some(File::create(disk.path().join("neighbour")).unwrap());
    let ending = std::thread::scope(|scope| {
        let mut hear = |event: SandboxEvent<'_>| {
            if let SandboxEvent::Output { .. } = event
                && let Some(mut neighbour) = neighbour.take()
            {
                neighbour.write_all(&vec![7; 32 << 20]).unwrap();
                let (plugs, highest) = plugged();
                setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 1), ..before }).unwrap();
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(500));
                    setrlimit(Resource::Nofile, before).unwrap();
                    drop((plugs, neighbour));
                });
            }
        };
        sandbox.run(&modest, &kill, &mut hear).unwrap()
    });
    assert!(neighbour.is_none());
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_nothing_is_left();
}

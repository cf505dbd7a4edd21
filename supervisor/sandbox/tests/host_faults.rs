//! Faults of the host: a resource is exhausted for a moment, or another process kills workers and removes groups. The
//! host is reported as the only cause, a run that has not started is tried again, and no run is started twice.

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
struct StartCounter {
    dir: tempfile::TempDir,
}

impl StartCounter {
    fn new() -> StartCounter {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        StartCounter { dir }
    }

    /// A run that requires every layer and limit that an exhausted host could fail to provide.
    fn spec(&self) -> RunSpec {
        let workspace = self.dir.path().join("ws");
        let script = format!("echo x >> {}/starts; echo fine", workspace.display());
        let required_layers =
            vec![Layer::Cgroup, Layer::PivotRoot, Layer::NetNamespace, Layer::Seccomp, Layer::Landlock];
        let jail = Jail { session: "one".to_owned(), required_layers, ..Jail::new(&workspace) };
        RunSpec { jail, required_limits: Limits::ENFORCED.to_vec(), ..spec(&script) }
    }

    /// Number of commands started since the last call.
    fn starts(&self) -> usize {
        let path = self.dir.path().join("ws/starts");
        let starts = fs::read_to_string(&path).unwrap_or_default().lines().count();
        _ = fs::remove_file(path);
        starts
    }

    /// A sandbox whose worker dies at its start as long as `deaths`, a number in a file, is not used up.
    fn dying_worker(&self, deaths: usize) -> LinuxSandbox {
        let counter = self.dir.path().join("deaths");
        fs::write(&counter, format!("{deaths}\n")).unwrap();
        let counter = counter.display();
        self.worker_preceded_by(&format!(
            "read left < {counter}; [ $left = 0 ] || {{ echo $((left - 1)) > {counter}; kill -KILL $$; }}"
        ))
    }

    /// A sandbox whose worker runs `script` before it starts.
    fn worker_preceded_by(&self, script: &str) -> LinuxSandbox {
        let path = self.dir.path().join("worker");
        fs::write(&path, format!("#!/bin/sh\n{script}\nexec {} \"$@\"\n", worker().display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        LinuxSandbox::new(path, PoolBounds::NONE).unwrap()
    }
}

fn run_and_check(sandbox: &LinuxSandbox, spec: &RunSpec) -> Result<Ending, SandboxError> {
    let ending = sandbox.run(spec, &KillSwitch::new().unwrap(), &mut |_| {});
    assert_no_leftovers();
    ending
}

/// Opens files until no descriptor number below the highest one is free; returns them with the highest number, which
/// the kernel compares with the limit.
fn fill_descriptor_gaps() -> (Vec<File>, u64) {
    let mut fillers = Vec::new();
    loop {
        let filler = File::open("/dev/null").unwrap();
        let number = filler.as_raw_fd();
        fillers.push(filler);
        let taken =
            fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| fd.file_name().to_str()?.parse().ok());
        // Reading the directory itself takes the next number.
        if taken.filter(|taken| *taken != number + 1).max().is_none_or(|highest: i32| highest <= number) {
            return (fillers, u64::try_from(number).unwrap());
        }
    }
}

fn open_descriptors() -> u64 {
    // One of them is that of reading the directory.
    fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1
}

#[test]
fn an_exhausted_descriptor_limit_is_reported_at_every_step_of_a_run() {
    let _alone = one_at_a_time();
    let (counter, sandbox) = (StartCounter::new(), sandbox());
    let spec = counter.spec();
    let before = getrlimit(Resource::Nofile);
    let open = open_descriptors();
    let (mut refused, mut completed) = (0, 0);
    for spare in 0..80 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(open + spare), ..before }).unwrap();
        let outcome = KillSwitch::new().map(|kill| sandbox.run(&spec, &kill, &mut |_| {}));
        setrlimit(Resource::Nofile, before).unwrap();
        let starts = counter.starts();
        match outcome {
            Err(_) => {}
            Ok(Err(error)) => {
                assert!(error.is_transient() && starts == 0, "{spare} to spare, {starts} starts: {error:?}");
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
                completed += 1;
            }
        }
        assert_no_leftovers();
    }
    assert!(refused > 5 && completed > 5, "{refused} refused, {completed} ended");
}

/// Receiving a run's pipes after its worker was prepared takes more descriptors than the steps just before its start.
#[test]
fn a_run_whose_pipes_cannot_be_received_is_started_once() {
    let _alone = one_at_a_time();
    let (counter, sandbox) = (StartCounter::new(), pooled(PoolBounds { workers_max: 2, idle: WAIT_MAX }));
    let spec = counter.spec();
    let before = getrlimit(Resource::Nofile);
    let (mut unread, mut is_enough) = (0, false);
    for spare in 0..64 {
        sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut |_| {}).unwrap();
        // Waits until the pool has the next worker ready and has released the descriptors of the last one.
        sandbox.retire("another");
        wait_until("the next worker waits", || prepared_workers().len() == 1);
        counter.starts();
        let kill = KillSwitch::new().unwrap();
        let (fillers, highest) = fill_descriptor_gaps();
        setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 1 + spare), ..before }).unwrap();
        let outcome = sandbox.run(&spec, &kill, &mut |_| {});
        setrlimit(Resource::Nofile, before).unwrap();
        drop(fillers);
        let starts = counter.starts();
        match outcome {
            Err(error) => assert!(error.is_transient() && starts == 0, "{spare} to spare, {starts} starts: {error:?}"),
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
    assert_no_leftovers();
}

#[test]
fn a_worker_killed_before_the_first_command_is_replaced_a_bounded_number_of_times() {
    let _alone = one_at_a_time();
    let counter = StartCounter::new();
    for deaths in 0..3 {
        let ending = run_and_check(&counter.dying_worker(deaths), &counter.spec()).unwrap();
        assert_exits(&ending, &[Exit::Code(0)]);
        assert_eq!(counter.starts(), 1, "after {deaths} deaths");
    }
    let error = run_and_check(&counter.dying_worker(3), &counter.spec()).unwrap_err();
    assert!(matches!(error, SandboxError::WorkerDied { .. }) && error.is_transient(), "{error:?}");
    assert_eq!(counter.starts(), 0);
    assert!(error.client_text().starts_with("the sandbox worker was killed"), "{error}");
}

#[test]
fn a_workspace_replaced_during_setup_is_not_reported_as_a_host_fault() {
    let _alone = one_at_a_time();
    for required_layers in [StartCounter::new().spec().jail.required_layers, Vec::new()] {
        let counter = StartCounter::new();
        let at = counter.dir.path().display();
        let sandbox = counter.worker_preceded_by(&format!("mv {at}/ws {at}/old; mkdir {at}/ws"));
        let mut spec = counter.spec();
        spec.jail.required_layers = required_layers;
        // A run as root requires a private root, so it is refused for another reason.
        spec.jail.run_as = RunAs::User { uid: 4_242, gid: 4_242 };
        let error = run_and_check(&sandbox, &spec).unwrap_err();
        assert!(matches!(error, SandboxError::WorkspaceGone { .. }), "{error:?}");
        assert!(counter.dir.path().join("old").is_dir() && counter.starts() == 0);
    }
}

#[test]
fn a_started_run_is_not_started_again() {
    let _alone = one_at_a_time();
    let (counter, sandbox) = (StartCounter::new(), sandbox());
    let mut spec = counter.spec();
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
    assert!(counter.starts() <= 1);
    assert_no_leftovers();
}

/// Runs of which every second one is disturbed: its groups are removed as soon as they are seen, or a little later, so
/// that the removals meet runs at each of their steps.
const RUNS: u32 = 64;

#[test]
fn a_removed_group_is_reported_as_removed_and_not_as_a_missing_limit() {
    let _alone = one_at_a_time();
    let (counter, sandbox) = (StartCounter::new(), sandbox());
    let spec = counter.spec();
    let prefix = format!("proctor-{}-", std::process::id());
    // Parents of the groups, so that the remover is as quick as the start of a run.
    let mut above = BTreeSet::new();
    let mut collect_parents = |_: SandboxEvent<'_>| {
        let groups = groups_below(Path::new("/sys/fs/cgroup"), &prefix, 6);
        above.extend(groups.iter().filter_map(|group| Some(group.parent()?.to_owned())));
    };
    sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut collect_parents).unwrap();
    let quickest = (0..5).map(|_| {
        let begun = Instant::now();
        sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut |_| {}).unwrap();
        begun.elapsed()
    });
    // A group is empty only in the first part of a run.
    let step = quickest.min().unwrap() / 128;
    assert_eq!(counter.starts(), 6);
    let remove_groups = |is_over: &AtomicBool, wait: Duration| {
        let mut is_first = true;
        while !is_over.load(Ordering::Relaxed) {
            for group in above.iter().flat_map(|above| groups_below(above, &prefix, 0)) {
                if std::mem::take(&mut is_first) {
                    std::thread::sleep(wait);
                }
                let leaves = groups_below(&group, &prefix, 0);
                for group in leaves.iter().chain([&group]) {
                    // A group in use cannot be removed.
                    _ = fs::remove_dir(group);
                }
            }
        }
    };
    let (mut completed, mut refused) = (0, 0);
    for number in 0..16 * RUNS {
        // On a busy host few removals come in time.
        if number >= RUNS && refused > 0 {
            break;
        }
        let (has_remover, is_over) = (number % 2 == 1, AtomicBool::new(number % 2 == 0));
        let is_ready = Barrier::new(2);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                is_ready.wait();
                remove_groups(&is_over, step * (number % 16));
            });
            is_ready.wait();
            let outcome = sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut |_| {});
            is_over.store(true, Ordering::Relaxed);
            outcome
        });
        match (outcome, counter.starts()) {
            (Ok(ending), 1) if ending.exits == [Exit::Code(0)] => completed += 1,
            (Err(error), 0) if has_remover && error.is_transient() => refused += 1,
            other => panic!("run {number}: {other:?}"),
        }
    }
    println!("{completed} runs ended, {refused} were refused");
    assert!(refused > 0);
    assert_no_leftovers();
}

#[test]
fn a_disk_that_cannot_be_walked_for_a_moment_is_not_reported_as_full() {
    let _alone = one_at_a_time();
    let disk = OwnDisk::with_bytes(64 << 20);
    let mut modest = spec("echo ready; sleep 1");
    modest.jail.workspace = disk.workspace();
    modest.commands[0].dir = disk.workspace();
    modest.limits.disk_bytes_max = 1 << 20;
    modest.required_limits = vec![LimitKind::Disk];
    let (sandbox, kill) = (sandbox(), KillSwitch::new().unwrap());
    let before = getrlimit(Resource::Nofile);
    // Takes so much space beside the run that its files have to be walked.
    let mut neighbour = Some(File::create(disk.path().join("neighbour")).unwrap());
    let ending = std::thread::scope(|scope| {
        let mut hear = |event: SandboxEvent<'_>| {
            if let SandboxEvent::Output { .. } = event
                && let Some(mut neighbour) = neighbour.take()
            {
                neighbour.write_all(&vec![7; 32 << 20]).unwrap();
                let (fillers, highest) = fill_descriptor_gaps();
                setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 1), ..before }).unwrap();
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(500));
                    setrlimit(Resource::Nofile, before).unwrap();
                    drop((fillers, neighbour));
                });
            }
        };
        sandbox.run(&modest, &kill, &mut hear).unwrap()
    });
    assert!(neighbour.is_none());
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_no_leftovers();
}

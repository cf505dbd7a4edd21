//! Workers that are prepared ahead: quick, never somebody else's, bounded, and gone without a trace.

#[cfg(test)]
mod support;

use proctor_core::outcome::Exit;
use proctor_sandbox::{Jail, KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox, SandboxEvent};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use support::*;

const BOUNDS: PoolBounds = PoolBounds { workers_max: 2, idle: Duration::from_secs(600) };

fn in_workspace(owner: &str, workspace: &Path, script: &str) -> RunSpec {
    RunSpec {
        jail: Jail { owner: owner.to_owned(), session: format!("{owner}-1"), ..Jail::at(workspace) },
        ..spec(script)
    }
}

/// Waits until the keeper has put back what it had in hand, which can be seen to wait a little earlier, and has taken apart
/// what runs have left.
fn all_is_on_the_shelf(sandbox: &LinuxSandbox) {
    sandbox.retire("another");
}

#[test]
fn runs_of_one_session_share_a_network_and_nothing_that_a_run_could_leave() {
    let _alone = one_at_a_time();
    let workspace = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let script = "for n in net mnt pid ipc cgroup; do readlink /proc/self/ns/$n; done; \
                  ls -A /tmp/proctor /dev/shm; echo x > /tmp/left; echo x > /dev/shm/left; sleep 600 & :";
    let spec = in_workspace("a", workspace.path(), script);
    let mut heard: Vec<Vec<String>> = Vec::new();
    for _ in 0..5 {
        heard.push(said(&sandbox, &spec).lines().map(str::to_owned).collect());
        // A run that comes too early may make a room of its own.
        eventually("the next worker waits", || waiting_workers().len() == 1);
        all_is_on_the_shelf(&sandbox);
    }
    let distinct = |line: usize| heard.iter().map(|lines| lines[line].clone()).collect::<BTreeSet<_>>().len();
    assert_eq!(distinct(0), 1, "one network namespace");
    for lines in &heard {
        assert_eq!(lines[5..], ["/dev/shm:", "", "/tmp/proctor:", "artifacts", "cache", "home", "work"], "{lines:?}");
    }
    assert_eq!(launchers(), 1);
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn a_run_of_no_session_has_nothing_prepared_after_it() {
    let _alone = one_at_a_time();
    let workspace = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let spec = in_workspace("a", workspace.path(), "echo said");
    let alone = RunSpec { jail: Jail { session: String::new(), ..spec.jail.clone() }, ..spec.clone() };
    for _ in 0..2 {
        assert_eq!(said(&sandbox, &alone), "said\n");
        assert_eq!(launchers(), 0, "it went with its run");
    }
    said(&sandbox, &spec);
    eventually("the next worker of a session waits", || waiting_workers().len() == 1);
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn what_is_prepared_for_one_owner_or_workspace_serves_no_other() {
    let _alone = one_at_a_time();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(one.path().join("of"), "one").unwrap();
    fs::write(two.path().join("of"), "two").unwrap();
    let sandbox = pooled(PoolBounds { workers_max: 8, ..BOUNDS });
    let look = |owner: &str, dir: &Path| {
        let script = format!("cat {}/of; readlink /proc/self/ns/net", dir.display());
        said(&sandbox, &in_workspace(owner, dir, &script))
    };
    let mut nets = BTreeSet::new();
    for _ in 0..2 {
        for (owner, dir, of) in [("a", &one, "one"), ("b", &one, "one"), ("a", &two, "two")] {
            let heard = look(owner, dir.path());
            assert!(heard.starts_with(of), "{heard}");
            nets.insert(heard[3..].to_owned());
            eventually("each room has a worker", || waiting_workers().len() == nets.len());
            all_is_on_the_shelf(&sandbox);
        }
    }
    assert_eq!((nets.len(), launchers()), (3, 3));
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn a_directory_that_took_the_place_of_the_workspace_is_another_workspace() {
    let _alone = one_at_a_time();
    let parent = tempfile::tempdir().unwrap();
    let (workspace, old) = (parent.path().join("ws"), parent.path().join("old"));
    let sandbox = pooled(BOUNDS);
    fs::create_dir(&workspace).unwrap();
    let spec = in_workspace("a", &workspace, &format!("ls {}", workspace.display()));
    assert_eq!(said(&sandbox, &spec), "");
    fs::rename(&workspace, &old).unwrap();
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join("new"), "").unwrap();
    assert_eq!(said(&sandbox, &spec), "new\n");
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn rooms_are_bounded_and_the_least_used_one_goes() {
    let _alone = one_at_a_time();
    let dirs: Vec<_> = (0..5).map(|_| tempfile::tempdir().unwrap()).collect();
    let sandbox = pooled(BOUNDS);
    for dir in &dirs {
        said(&sandbox, &in_workspace("a", dir.path(), "true"));
    }
    eventually("two rooms are left", || launchers() == 2);
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn an_idle_room_is_cleared_away_and_the_next_run_makes_another() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(PoolBounds { idle: Duration::from_millis(200), ..BOUNDS });
    let spec = in_workspace("a", dir.path(), "true");
    said(&sandbox, &spec);
    eventually("nothing is left", || launchers() == 0);
    said(&sandbox, &spec);
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn a_run_outlives_its_room() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(PoolBounds { idle: Duration::from_millis(100), ..BOUNDS });
    let spec = in_workspace("a", dir.path(), "sleep 1; echo end");
    assert_eq!(said(&sandbox, &spec), "end\n");
    let kill = KillSwitch::new().unwrap();
    let ending = sandbox
        .run(&spec, &kill, &mut |event| {
            if let SandboxEvent::CommandStarted { .. } = event {
                sandbox.retire("a-1");
                sandbox.close();
            }
        })
        .unwrap();
    assert_exits(&ending, &[Exit::Code(0)]);
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn nothing_of_its_runs_is_left_when_a_session_has_closed() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let spec = in_workspace("a", dir.path(), "true");
    for _ in 0..3 {
        said(&sandbox, &spec);
        sandbox.retire("a-1");
        assert_nothing_is_left();
    }
}

/// Both may listen at the same address.
#[test]
fn two_sessions_in_one_workspace_do_not_meet_in_a_network() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let one = in_workspace("a", dir.path(), "readlink /proc/self/ns/net");
    let two = RunSpec { jail: Jail { session: "a-2".to_owned(), ..one.jail.clone() }, ..one.clone() };
    let (first, other) = (said(&sandbox, &one), said(&sandbox, &two));
    eventually("the next workers wait", || waiting_workers().len() == 2);
    all_is_on_the_shelf(&sandbox);
    assert!(first.starts_with("net:[") && other.starts_with("net:[") && first != other, "{first} {other}");
    assert_eq!(said(&sandbox, &one), first, "a session's own runs share an empty one");
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn a_closed_session_lets_go_of_its_room_and_of_no_other() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let one = in_workspace("a", dir.path(), "true");
    let two = RunSpec { jail: Jail { session: "a-2".to_owned(), ..one.jail.clone() }, ..one.clone() };
    said(&sandbox, &one);
    said(&sandbox, &two);
    sandbox.retire("a-3");
    assert_eq!(launchers(), 2);
    sandbox.retire("a-1");
    eventually("one room is left", || launchers() == 1);
    sandbox.close();
    eventually("no room is left", || launchers() == 0);
    // Closed: a run still works, and keeps nothing.
    said(&sandbox, &two);
    assert_eq!(launchers(), 0);
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn a_prepared_worker_that_died_is_not_given_a_run() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let spec = in_workspace("a", dir.path(), "echo fine");
    said(&sandbox, &spec);
    // Once whatever there is, which is mostly being prepared, and once what waits for its run.
    let waiting = || waiting_workers().first().copied();
    for found in [worker_pids, waiting].repeat(2) {
        let one = || {
            let mut pids = None;
            eventually("there is a worker", || {
                // What dies while it is being prepared takes its room along, and only a run makes another.
                if worker_pids().is_none() {
                    said(&sandbox, &spec);
                }
                pids = found();
                pids.is_some()
            });
            pids.unwrap()
        };
        // On a busy host one that waits may have waited for too long, and be gone.
        while !kill_by_pid(one().1) {}
        assert_eq!(said(&sandbox, &spec), "fine\n");
        let init = loop {
            let (launcher, init) = one();
            if kill_by_pid(launcher) {
                break init;
            }
        };
        eventually("init died with it", || is_dead(init));
        assert_eq!(said(&sandbox, &spec), "fine\n");
    }
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn other_limits_get_another_worker_of_the_same_room() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let mut spec = in_workspace("a", dir.path(), "df -k /tmp | tail -n 1 | tr -s ' ' | cut -d' ' -f2");
    for mib in [16, 16, 32, 16, 32, 32] {
        spec.limits.tmp_bytes_max = mib << 20;
        assert_eq!(said(&sandbox, &spec).trim(), (mib << 10).to_string());
    }
    // A run that has waited in vain for the keeper made a room of its own, which goes with its worker.
    all_is_on_the_shelf(&sandbox);
    assert_eq!(launchers(), 1);
    drop(sandbox);
    assert_nothing_is_left();
}

#[test]
fn many_threads_share_one_pool() {
    let _alone = one_at_a_time();
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let sandbox = pooled(BOUNDS);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (sandbox, dir) = (&sandbox, &dirs[thread % 3]);
            scope.spawn(move || {
                for round in 0..15 {
                    let script = format!("echo {thread} {round}");
                    let heard = said(sandbox, &in_workspace("a", dir.path(), &script));
                    assert_eq!(heard, format!("{thread} {round}\n"));
                }
            });
        }
    });
    drop(sandbox);
    assert_nothing_is_left();
}

/// A supervisor that removes caches leaves the worker that was prepared with them in what it has moved away.
#[test]
fn a_worker_that_was_prepared_with_another_writable_directory_is_passed_over() {
    let _alone = one_at_a_time();
    let (workspace, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache = kept.path().join("cache");
    let sandbox = pooled(BOUNDS);
    let spec = in_workspace("a", workspace.path(), &format!("echo said; echo x > {}/left", cache.display()));
    let run = || {
        fs::create_dir(&cache).unwrap();
        let found = cache.metadata().unwrap();
        let jail = Jail {
            writable: vec![cache.clone()],
            writable_id: Some((found.dev(), found.ino())),
            links: vec![("home/tool/cache".to_owned(), cache.join("made"))],
            ..spec.jail.clone()
        };
        assert_eq!(said(&sandbox, &RunSpec { jail, ..spec.clone() }), "said\n");
        eventually("the next worker waits", || !waiting_workers().is_empty());
        all_is_on_the_shelf(&sandbox);
        assert!(cache.join("left").exists() && cache.join("made").is_dir());
    };
    run();
    fs::rename(&cache, kept.path().join("trash")).unwrap();
    run();
    drop(sandbox);
    assert_nothing_is_left();
}

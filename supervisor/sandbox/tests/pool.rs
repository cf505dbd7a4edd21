//! Workers that are prepared ahead: quick, never shared between owners, bounded, and removed without a trace.

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
        jail: Jail { owner: owner.to_owned(), session: format!("{owner}-1"), ..Jail::new(workspace) },
        ..spec(script)
    }
}

/// Waits until the pool's thread has inserted the prepared worker, which can be seen waiting a little earlier, and has
/// removed what finished runs have left.
fn wait_for_pool(sandbox: &LinuxSandbox) {
    sandbox.retire("another");
}

#[test]
fn runs_of_one_session_share_a_network_namespace_and_no_files() {
    let _alone = one_at_a_time();
    let workspace = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let script = "for n in net mnt pid ipc cgroup; do readlink /proc/self/ns/$n; done; \
                  ls -A /tmp/proctor /dev/shm; echo x > /tmp/left; echo x > /dev/shm/left; sleep 600 & :";
    let spec = in_workspace("a", workspace.path(), script);
    let mut events: Vec<Vec<String>> = Vec::new();
    for _ in 0..5 {
        events.push(stdout_of(&sandbox, &spec).lines().map(str::to_owned).collect());
        // A run that comes too early may start a zygote of its own.
        wait_until("the next worker waits", || prepared_workers().len() == 1);
        wait_for_pool(&sandbox);
    }
    let distinct = |line: usize| events.iter().map(|lines| lines[line].clone()).collect::<BTreeSet<_>>().len();
    assert_eq!(distinct(0), 1, "one network namespace");
    for lines in &events {
        assert_eq!(lines[5..], ["/dev/shm:", "", "/tmp/proctor:", "artifacts", "cache", "home", "work"], "{lines:?}");
    }
    assert_eq!(launcher_count(), 1);
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn a_run_without_a_session_prepares_nothing_for_a_next_one() {
    let _alone = one_at_a_time();
    let workspace = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let spec = in_workspace("a", workspace.path(), "echo said");
    let alone = RunSpec { jail: Jail { session: String::new(), ..spec.jail.clone() }, ..spec.clone() };
    for _ in 0..2 {
        assert_eq!(stdout_of(&sandbox, &alone), "said\n");
        assert_eq!(launcher_count(), 0, "the launcher ended with its run");
    }
    stdout_of(&sandbox, &spec);
    wait_until("the next worker of a session waits", || prepared_workers().len() == 1);
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn a_prepared_worker_serves_only_its_owner_and_workspace() {
    let _alone = one_at_a_time();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(one.path().join("of"), "one").unwrap();
    fs::write(two.path().join("of"), "two").unwrap();
    let sandbox = pooled(PoolBounds { workers_max: 8, ..BOUNDS });
    let inspect = |owner: &str, dir: &Path| {
        let script = format!("cat {}/of; readlink /proc/self/ns/net", dir.display());
        stdout_of(&sandbox, &in_workspace(owner, dir, &script))
    };
    let mut nets = BTreeSet::new();
    for _ in 0..2 {
        for (owner, dir, of) in [("a", &one, "one"), ("b", &one, "one"), ("a", &two, "two")] {
            let events = inspect(owner, dir.path());
            assert!(events.starts_with(of), "{events}");
            nets.insert(events[3..].to_owned());
            wait_until("each zygote has a worker", || prepared_workers().len() == nets.len());
            wait_for_pool(&sandbox);
        }
    }
    assert_eq!((nets.len(), launcher_count()), (3, 3));
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn a_replaced_workspace_directory_is_another_workspace() {
    let _alone = one_at_a_time();
    let parent = tempfile::tempdir().unwrap();
    let (workspace, old) = (parent.path().join("ws"), parent.path().join("old"));
    let sandbox = pooled(BOUNDS);
    fs::create_dir(&workspace).unwrap();
    let spec = in_workspace("a", &workspace, &format!("ls {}", workspace.display()));
    assert_eq!(stdout_of(&sandbox, &spec), "");
    fs::rename(&workspace, &old).unwrap();
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join("new"), "").unwrap();
    assert_eq!(stdout_of(&sandbox, &spec), "new\n");
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn evicts_the_zygote_idle_longest_beyond_the_bound() {
    let _alone = one_at_a_time();
    let dirs: Vec<_> = (0..5).map(|_| tempfile::tempdir().unwrap()).collect();
    let sandbox = pooled(BOUNDS);
    for dir in &dirs {
        stdout_of(&sandbox, &in_workspace("a", dir.path(), "true"));
    }
    wait_until("two zygotes are left", || launcher_count() == 2);
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn evicts_an_idle_zygote_and_the_next_run_starts_another() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(PoolBounds { idle: Duration::from_millis(200), ..BOUNDS });
    let spec = in_workspace("a", dir.path(), "true");
    stdout_of(&sandbox, &spec);
    wait_until("nothing is left", || launcher_count() == 0);
    stdout_of(&sandbox, &spec);
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn a_run_outlives_its_zygotes_pool_entry() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(PoolBounds { idle: Duration::from_millis(100), ..BOUNDS });
    let spec = in_workspace("a", dir.path(), "sleep 1; echo end");
    assert_eq!(stdout_of(&sandbox, &spec), "end\n");
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
    assert_no_leftovers();
}

#[test]
fn retiring_a_session_leaves_nothing_of_its_runs() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let spec = in_workspace("a", dir.path(), "true");
    for _ in 0..3 {
        stdout_of(&sandbox, &spec);
        sandbox.retire("a-1");
        assert_no_leftovers();
    }
}

/// Both may listen at the same address.
#[test]
fn two_sessions_in_one_workspace_have_separate_network_namespaces() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let one = in_workspace("a", dir.path(), "readlink /proc/self/ns/net");
    let two = RunSpec { jail: Jail { session: "a-2".to_owned(), ..one.jail.clone() }, ..one.clone() };
    let (first, other) = (stdout_of(&sandbox, &one), stdout_of(&sandbox, &two));
    wait_until("the next workers wait", || prepared_workers().len() == 2);
    wait_for_pool(&sandbox);
    assert!(first.starts_with("net:[") && other.starts_with("net:[") && first != other, "{first} {other}");
    assert_eq!(stdout_of(&sandbox, &one), first, "the runs of a session share a network namespace");
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn retiring_a_session_ends_only_its_own_zygote() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let one = in_workspace("a", dir.path(), "true");
    let two = RunSpec { jail: Jail { session: "a-2".to_owned(), ..one.jail.clone() }, ..one.clone() };
    stdout_of(&sandbox, &one);
    stdout_of(&sandbox, &two);
    sandbox.retire("a-3");
    assert_eq!(launcher_count(), 2);
    sandbox.retire("a-1");
    wait_until("one zygote is left", || launcher_count() == 1);
    sandbox.close();
    wait_until("no zygote is left", || launcher_count() == 0);
    // A closed pool keeps nothing, and a run still works.
    stdout_of(&sandbox, &two);
    assert_eq!(launcher_count(), 0);
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn a_dead_prepared_worker_gets_no_run() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let spec = in_workspace("a", dir.path(), "echo fine");
    stdout_of(&sandbox, &spec);
    // First any worker, which is mostly being prepared, then one that waits for its run.
    let waiting = || prepared_workers().first().copied();
    for found in [worker_pids, waiting].repeat(2) {
        let one = || {
            let mut pids = None;
            wait_until("there is a worker", || {
                // A worker that dies while it is prepared takes its zygote along, and only a run starts another.
                if worker_pids().is_none() {
                    stdout_of(&sandbox, &spec);
                }
                pids = found();
                pids.is_some()
            });
            pids.unwrap()
        };
        // On a busy host a waiting worker may have been evicted meanwhile.
        while !kill_by_pid(one().1) {}
        assert_eq!(stdout_of(&sandbox, &spec), "fine\n");
        let init = loop {
            let (launcher, init) = one();
            if kill_by_pid(launcher) {
                break init;
            }
        };
        wait_until("init died with it", || is_dead(init));
        assert_eq!(stdout_of(&sandbox, &spec), "fine\n");
    }
    drop(sandbox);
    assert_no_leftovers();
}

#[test]
fn other_limits_get_another_worker_of_the_same_zygote() {
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = pooled(BOUNDS);
    let mut spec = in_workspace("a", dir.path(), "df -k /tmp | tail -n 1 | tr -s ' ' | cut -d' ' -f2");
    for mib in [16, 16, 32, 16, 32, 32] {
        spec.limits.tmp_bytes_max = mib << 20;
        assert_eq!(stdout_of(&sandbox, &spec).trim(), (mib << 10).to_string());
    }
    // A run that has waited in vain for the pool's thread started a zygote of its own, which ends with its worker.
    wait_for_pool(&sandbox);
    assert_eq!(launcher_count(), 1);
    drop(sandbox);
    assert_no_leftovers();
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
                    let events = stdout_of(sandbox, &in_workspace("a", dir.path(), &script));
                    assert_eq!(events, format!("{thread} {round}\n"));
                }
            });
        }
    });
    drop(sandbox);
    assert_no_leftovers();
}

/// A supervisor that removes caches moves them away; a worker prepared with them would write there.
#[test]
fn a_worker_prepared_with_another_writable_directory_is_not_used() {
    let _alone = one_at_a_time();
    let (workspace, cache_parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache = cache_parent.path().join("cache");
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
        assert_eq!(stdout_of(&sandbox, &RunSpec { jail, ..spec.clone() }), "said\n");
        wait_until("the next worker waits", || !prepared_workers().is_empty());
        wait_for_pool(&sandbox);
        assert!(cache.join("left").exists() && cache.join("made").is_dir());
    };
    run();
    fs::rename(&cache, cache_parent.path().join("trash")).unwrap();
    run();
    drop(sandbox);
    assert_no_leftovers();
}

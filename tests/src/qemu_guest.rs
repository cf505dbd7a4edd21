//! A guest: programs of this build as root on a stock Debian kernel with nothing but cgroup v2, in a machine that QEMU
//! emulates. What it needs of this machine's files is copied to its disk, at the same paths. It has no network, and
//! nothing that it does reaches this machine. Must not know what runs in it.
//!
//! `.ci/tools guest` installs the kernel and QEMU. The guest starts from its disk without a boot loader, a first file
//! system or a service manager, which takes seconds although every instruction is emulated.

mod root_disk;

use crate::process::{command, signal, source_root, wait_for_exit};
use nix::sys::signal::Signal;
use root_disk::Disk;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Programs of every Debian that scripts of tests may call; all are there on a machine with the packages that Debian calls
/// essential.
const PROGRAMS: &[&str] = &[
    "awk",
    "basename",
    "bash",
    "cat",
    "chmod",
    "chown",
    "chroot",
    "comm",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "fallocate",
    "false",
    "find",
    "flock",
    "fold",
    "grep",
    "head",
    "hostname",
    "id",
    "install",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "mount",
    "mountpoint",
    "mv",
    "nice",
    "nproc",
    "nsenter",
    "od",
    "perl",
    "printf",
    "prlimit",
    "pwd",
    "readlink",
    "realpath",
    "renice",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "setpriv",
    "setsid",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "stty",
    "sync",
    "tail",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "truncate",
    "umount",
    "uname",
    "uniq",
    "unlink",
    "unshare",
    "wc",
    "whoami",
    "xargs",
    "yes",
];

/// Where they are looked for, and where they are in the guest.
const PATH: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// What programs find each other, users and libraries by. The first four are links where everything is below `/usr`.
const FILES: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/etc/os-release",
];

/// Parts of Python's library that are large and that no test asks for.
const NOT_OF_PYTHON: &[&str] =
    &["site-packages", "dist-packages", "test", "tests", "ensurepip", "idlelib", "lib2to3", "tkinter", "pydoc_data"];

/// How long a guest may live unless told otherwise.
const WALL: Duration = Duration::from_secs(300);

/// Memory of the guest.
const MEMORY: &str = "2048M";

/// Two guests at once would take each other's processors, and tests measure time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A guest before it boots.
pub struct Guest {
    disk: Disk,
    wall: Duration,
}

/// A command that began in a guest.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The command.
    pub line: String,
    /// Its exit status, 128 and more for a signal; `None` when the guest was over before the command was.
    pub status: Option<i32>,
    /// Its stdout and stderr, as they came.
    pub output: String,
    /// How long it took in the guest's own time, if it ended.
    pub took: Option<Duration>,
}

/// What came of a guest.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The commands that began, in order.
    pub commands: Vec<Ended>,
    /// What the kernel said.
    pub console: String,
    /// From its first instruction to the first command, in the guest's own time; `None` when it did not get there.
    pub boot: Option<Duration>,
    /// How long QEMU ran.
    pub took: Duration,
    /// Bytes on its disk when it booted.
    pub disk_bytes: u64,
    /// Whether it had to be killed because its time was over.
    pub late: bool,
}

impl Default for Guest {
    fn default() -> Guest {
        Guest::new()
    }
}

impl Guest {
    /// A guest with the usual programs and Python.
    #[must_use]
    pub fn new() -> Guest {
        let mut disk = Disk::new();
        for name in PROGRAMS {
            disk.file(&on_its_path(name));
        }
        for path in FILES.iter().map(Path::new).filter(|path| path.exists()) {
            disk.file(path);
        }
        disk.write("/etc/hostname", b"guest\n", 0o644);
        disk.write("/etc/hosts", b"127.0.0.1 localhost guest\n::1 localhost\n", 0o644);
        for (name, mode) in [("busybox", 0o755), ("overlay.ko", 0o644)] {
            disk.write(&format!("/guest/{name}"), &fs::read(tool(name)).unwrap(), mode);
        }
        let python = on_its_path("python3");
        disk.tree(&python_library(&python), NOT_OF_PYTHON);
        disk.file(&python);
        Guest { disk, wall: WALL }
    }

    /// With this file, at its path, and the libraries that it needs.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<Path>) -> Guest {
        self.disk.file(path.as_ref());
        self
    }

    /// With this directory and everything below it.
    #[must_use]
    pub fn tree(mut self, dir: impl AsRef<Path>) -> Guest {
        self.disk.tree(dir.as_ref(), &[]);
        self
    }

    /// With this much time for everything, the boot too.
    #[must_use]
    pub fn within(mut self, wall: Duration) -> Guest {
        self.wall = wall;
        self
    }

    /// Boots, runs each command as root, one after the other whatever comes of them, and powers off. A command is a
    /// program, by its path or on PATH, and its arguments.
    #[must_use]
    pub fn run(mut self, commands: &[&[&str]]) -> Outcome {
        let nonce = nonce();
        let lines: String = commands.iter().map(|line| format!("run {}\n", quoted(line))).collect();
        let init =
            format!("{init}nonce={nonce}\n{lines}$b sync\n$b poweroff -f\n", init = include_str!("qemu_guest/init.sh"));
        self.disk.write("/guest/init", init.as_bytes(), 0o700);
        let image = self.disk.image();
        let (console, said) = (self.disk.beside("console"), self.disk.beside("said"));
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let late = self.boot(&image, [&console, &said]);
        let took = begun.elapsed();
        let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let (commands, boot) = read(&text(said), &nonce, commands);
        Outcome { commands, console: text(console), boot, took, disk_bytes: self.disk.bytes(), late }
    }

    /// Whether it had to be killed.
    fn boot(&self, image: &Path, ports: [&Path; 2]) -> bool {
        // A test that is killed takes its guest along.
        let mut qemu = command(&on_its_path("setpriv"));
        qemu.args(["--pdeathsig", "KILL"]).arg(tool("qemu-system-x86_64"));
        qemu.args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-nic",
            "none",
            "-machine",
            "pc",
        ]);
        // Five levels of page tables cost an emulated machine a walk through each.
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max,la57=off", "-smp", "2", "-m", MEMORY]);
        qemu.args(["-device", "nvme,serial=root,drive=root", "-drive"]);
        qemu.arg(format!("if=none,id=root,format=raw,cache=unsafe,file={}", image.display()));
        for port in ports {
            qemu.arg("-serial").arg(format!("file:{}", port.display()));
        }
        qemu.arg("-kernel").arg(tool("kernel")).arg("-append");
        qemu.arg("root=/dev/nvme0n1 rootfstype=ext4 rw init=/guest/init console=ttyS0 quiet panic=-1");
        let mut qemu = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + self.wall;
        let late = loop {
            if qemu.try_wait().unwrap().is_some() {
                break false;
            }
            if Instant::now() > until {
                signal(qemu.id(), Signal::SIGKILL);
                break true;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let said = wait_for_exit(qemu);
        assert!(late || said.status == 0, "QEMU failed: {}", said.stderr);
        late
    }
}

impl Outcome {
    /// Fails unless every command ended with status 0, and tells all that is known.
    pub fn assert_succeeded(&self) {
        let failed = self.commands.iter().filter(|command| command.status != Some(0)).count();
        assert!(!self.late && !self.commands.is_empty() && failed == 0, "{failed} commands failed\n{}", self.all());
    }

    /// Everything in words.
    #[must_use]
    pub fn all(&self) -> String {
        let commands = self.commands.iter().map(|command| {
            let Ended { line, status, output, took } = command;
            format!("$ {line}\n{output}\n[status {status:?}, took {took:?}]\n")
        });
        let commands: String = commands.collect();
        let Outcome { console, boot, took, late, .. } = self;
        format!("{commands}console:\n{console}\n[boot {boot:?}, QEMU {took:?}, killed: {late}]")
    }
}

/// A part of what `.ci/tools guest` installs.
fn tool(name: &str) -> PathBuf {
    let tools = std::env::var_os("PROCTOR_TOOLS").map_or_else(|| source_root().join(".tools"), PathBuf::from);
    let tool = tools.join("guest").join(name);
    assert!(tool.exists(), "{} is missing: `make tools` installs it", tool.display());
    tool
}

fn on_its_path(name: &str) -> PathBuf {
    let found = PATH.iter().map(|dir| Path::new(dir).join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on this machine, so it would be missing in the guest"))
}

fn python_library(python: &Path) -> PathBuf {
    let mut asked = command(python);
    asked.args(["-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]);
    let said = wait_for_exit(asked.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(said.status, 0, "{said:?}");
    PathBuf::from(said.stdout.trim())
}

/// A word that no program in the guest says by chance.
fn nonce() -> String {
    let random = fs::read("/proc/sys/kernel/random/uuid").unwrap();
    String::from_utf8(random).unwrap().trim().to_owned()
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    words.join(" ")
}

/// Reads `NONCE begin UPTIME`, the output, `NONCE end STATUS UPTIME`, over and over.
fn read(said: &str, nonce: &str, commands: &[&[&str]]) -> (Vec<Ended>, Option<Duration>) {
    let seconds = |word: &str| word.parse().ok().map(Duration::from_secs_f64);
    let (mut ended, mut boot, mut begun) = (Vec::new(), None, None);
    for part in said.split(&format!("\n{nonce} ")).skip(1) {
        let (mark, output) = part.split_once('\n').unwrap_or((part, ""));
        match *mark.split(' ').collect::<Vec<_>>() {
            ["begin", uptime] => {
                begun = seconds(uptime);
                boot = boot.or(begun);
                let line = commands[ended.len()].join(" ");
                ended.push(Ended { line, status: None, output: output.to_owned(), took: None });
            }
            ["end", status, uptime] => {
                let last = ended.last_mut().unwrap();
                last.status = status.parse().ok();
                last.took = seconds(uptime).zip(begun).map(|(end, begun)| end.saturating_sub(begun));
            }
            _ => {}
        }
    }
    (ended, boot)
}

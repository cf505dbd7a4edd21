//! A virtual machine (QEMU, emulated) with a stock Debian kernel and cgroup v2 only, in which programs of this build run as
//! root. Files that the guest needs are copied from this host to its disk, at the same paths. The guest has no network and
//! cannot change the host.
//!
//! `.ci/tools guest` installs the kernel and QEMU. The guest boots from its disk without boot loader, initramfs or service
//! manager, which takes seconds although every instruction is emulated.

pub mod machine;
mod root_disk;

use crate::process::{command, wait_for_exit};
use machine::{Disk, Machine, Writes, guest_tool, nonce, parse_output};
use root_disk::RootDisk;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Programs that test scripts in the guest may call. Every Debian host with the essential packages has them.
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

/// Directories in which programs are found on the host, with the same paths in the guest.
const PROGRAM_DIRS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Files for finding programs, users and libraries. The first four are symlinks on hosts with a merged `/usr`.
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

/// Large parts of Python's library that no test needs.
const PYTHON_EXCLUDED: &[&str] =
    &["site-packages", "dist-packages", "test", "tests", "ensurepip", "idlelib", "lib2to3", "tkinter", "pydoc_data"];

/// Default limit on a guest's lifetime.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A guest that has not been booted.
pub struct Guest {
    disk: RootDisk,
    timeout: Duration,
}

/// A command that started in a guest.
#[derive(Debug, Clone)]
pub struct GuestCommand {
    /// Command line.
    pub line: String,
    /// Exit status, 128 plus the signal number after a signal; `None` when the guest ended before the command did.
    pub status: Option<i32>,
    /// Stdout and stderr, interleaved as written.
    pub output: String,
    /// Duration by the guest's clock, if the command ended.
    pub duration: Option<Duration>,
}

/// The result of a guest's run.
#[derive(Debug, Clone)]
pub struct GuestResult {
    /// Commands that started, in order.
    pub commands: Vec<GuestCommand>,
    /// Kernel messages.
    pub console: String,
    /// Time from the first instruction to the first command, by the guest's clock; `None` if no command started.
    pub boot: Option<Duration>,
    /// Time for which QEMU ran.
    pub duration: Duration,
    /// Bytes on the disk at boot.
    pub disk_bytes: u64,
    /// Whether the guest was killed at its timeout.
    pub timed_out: bool,
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
        let mut disk = RootDisk::new();
        for name in PROGRAMS {
            disk.add_file(&find_program(name));
        }
        for path in FILES.iter().map(Path::new).filter(|path| path.exists()) {
            disk.add_file(path);
        }
        disk.write("/etc/hostname", b"guest\n", 0o644);
        disk.write("/etc/hosts", b"127.0.0.1 localhost guest\n::1 localhost\n", 0o644);
        for (name, mode) in [("busybox", 0o755), ("overlay.ko", 0o644)] {
            disk.write(&format!("/guest/{name}"), &fs::read(guest_tool(name)).unwrap(), mode);
        }
        let python = find_program("python3");
        disk.add_tree(&python_library(&python), PYTHON_EXCLUDED);
        disk.add_file(&python);
        Guest { disk, timeout: TIMEOUT }
    }

    /// Adds a file of the host at the same path, and the libraries it needs.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<Path>) -> Guest {
        self.disk.add_file(path.as_ref());
        self
    }

    /// Adds a directory of the host with everything below it.
    #[must_use]
    pub fn tree(mut self, dir: impl AsRef<Path>) -> Guest {
        self.disk.add_tree(dir.as_ref(), &[]);
        self
    }

    /// Sets the time limit for boot and commands together.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Guest {
        self.timeout = timeout;
        self
    }

    /// Boots, runs all commands as root one after the other regardless of their status, and powers off. A command is a
    /// program (a path or a name on PATH) and its arguments.
    #[must_use]
    pub fn run(mut self, commands: &[&[&str]]) -> GuestResult {
        let nonce = nonce();
        let lines: String = commands.iter().map(|line| format!("run {}\n", quoted(line))).collect();
        let init =
            format!("{init}nonce={nonce}\n{lines}$b sync\n$b poweroff -f\n", init = include_str!("qemu_guest/init.sh"));
        self.disk.write("/guest/init", init.as_bytes(), 0o700);
        let image = self.disk.image();
        let (console, output) = (self.disk.sibling("console"), self.disk.sibling("output"));
        let disks = [Disk { name: "root", file: &image, writes: Writes::Kept }];
        let (init, timeout, ports) = ("init=/guest/init", self.timeout, [console.as_path(), output.as_path()]);
        let started = Instant::now();
        let timed_out = Machine { disks: &disks, ports, init, timeout, scratch: image.parent().unwrap() }.run();
        let duration = started.elapsed();
        let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let (mut parsed, boot) = parse_output(&text(output), &nonce);
        for (command, line) in parsed.iter_mut().zip(commands) {
            command.line = line.join(" ");
        }
        GuestResult {
            commands: parsed,
            console: text(console),
            boot,
            duration,
            disk_bytes: self.disk.bytes(),
            timed_out,
        }
    }
}

impl GuestResult {
    /// Fails unless every command ended with status 0, with the output of those that did not.
    pub fn assert_succeeded(&self) {
        let failed: Vec<&GuestCommand> = self.commands.iter().filter(|command| command.status != Some(0)).collect();
        let good = !self.timed_out && !self.commands.is_empty() && failed.is_empty();
        assert!(good, "{} commands failed\n{}", failed.len(), self.describe_with(&failed));
    }

    /// All commands with their output, the times and the console, as text.
    #[must_use]
    pub fn describe(&self) -> String {
        self.describe_with(&self.commands.iter().collect::<Vec<_>>())
    }

    fn describe_with(&self, commands: &[&GuestCommand]) -> String {
        let commands = commands.iter().map(|command| {
            let GuestCommand { line, status, output, duration } = command;
            format!("$ {line}\n{output}\n[status {status:?}, took {duration:?}]\n")
        });
        let commands: String = commands.collect();
        let GuestResult { console, boot, duration, timed_out, .. } = self;
        // The console last: a log that is cut off has the commands' output.
        format!("{commands}[boot {boot:?}, QEMU {duration:?}, timed out: {timed_out}]\nconsole:\n{console}")
    }
}

fn find_program(name: &str) -> PathBuf {
    let found = PROGRAM_DIRS.iter().map(|dir| Path::new(dir).join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on this host, so the guest would lack it"))
}

fn python_library(python: &Path) -> PathBuf {
    let mut query = command(python);
    query.args(["-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]);
    let output =
        wait_for_exit(query.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(output.status, 0, "{output:?}");
    PathBuf::from(output.stdout.trim())
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    words.join(" ")
}

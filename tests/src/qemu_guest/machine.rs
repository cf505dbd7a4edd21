//! The emulated machine of a guest: processor, disks, serial ports and time limit, and the marks in a guest's output. What the
//! disks contain is the caller's.

use super::GuestCommand;
use crate::process::{command, signal, tools, wait_for_exit};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Memory of the guest.
const MEMORY: &str = "2048M";

/// Kernel arguments of every guest. The kernel's check of the timer panics where the emulated machine gets too little of a busy
/// host. Mitigations of processor bugs, which an emulated processor does not have, cost a twentieth of a guest's time.
///
/// QEMU keeps translated code by its virtual address, so that programs at random addresses are translated anew each time they are
/// executed: two hundred times `/bin/true` take 12 s with random addresses and 4 s without. The kernel would also clear each page
/// twice.
const COMMAND_LINE: &str = "root=/dev/nvme0n1 rootfstype=ext4 rw console=ttyS0 quiet panic=-1 no_timer_check mitigations=off \
                            norandmaps init_on_alloc=0";

/// The emulated processor. Five-level page tables would lengthen every page walk, string instructions that the kernel believes to be
/// fast are emulated byte by byte, and a saved state with wide registers is longer.
const PROCESSOR: &str = "max,la57=off,erms=off,fsrm=off,xsave=off";

/// Guests run one at a time, since concurrent ones would compete for the host's processors.
static ONE_GUEST: Mutex<()> = Mutex::new(());

/// What becomes of a guest's writes to a disk.
#[derive(Debug, Clone, Copy)]
pub enum Writes {
    /// They change the file.
    Kept,
    /// They go with the guest.
    Discarded,
    /// The disk is read-only.
    Refused,
}

/// A file that is a disk of the guest.
#[derive(Debug, Clone, Copy)]
pub struct Disk<'a> {
    /// Name of the disk.
    pub name: &'a str,
    /// Image of an ext4 file system, without partitions.
    pub file: &'a Path,
    /// What becomes of writes.
    pub writes: Writes,
}

/// A machine that has not been started.
#[derive(Debug)]
pub struct Machine<'a> {
    /// Disks: the first is the root file system, the following are `/dev/nvme1n1` and so on.
    pub disks: &'a [Disk<'a>],
    /// Files for the output of the serial ports: the kernel's console, and `/dev/ttyS1`.
    pub ports: [&'a Path; 2],
    /// Kernel arguments for the first process.
    pub init: &'a str,
    /// Limit on the guest's lifetime.
    pub timeout: Duration,
    /// Directory for what QEMU writes meanwhile.
    pub scratch: &'a Path,
}

impl Machine<'_> {
    /// Runs the guest until it powers off. Returns whether it was killed at the timeout.
    #[must_use]
    pub fn run(&self) -> bool {
        let _guard = ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner);
        // The guest dies with the test's thread.
        let mut qemu = command(Path::new("/usr/bin/setpriv"));
        qemu.args(["--pdeathsig", "KILL"]).arg(guest_tool("qemu-system-x86_64")).env("TMPDIR", self.scratch);
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none"]);
        qemu.args(["-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-smp", "2", "-m", MEMORY]);
        for Disk { name, file, writes } in self.disks {
            let writes = match writes {
                Writes::Kept => "readonly=off",
                Writes::Discarded => "snapshot=on",
                Writes::Refused => "readonly=on",
            };
            let drive = format!("if=none,id={name},format=raw,cache=unsafe,{writes},file={}", file.display());
            qemu.arg("-drive").arg(drive).arg("-device").arg(format!("nvme,serial={name},drive={name}"));
        }
        for port in self.ports {
            qemu.arg("-serial").arg(format!("file:{}", port.display()));
        }
        qemu.arg("-kernel").arg(guest_tool("kernel")).arg("-append").arg(format!("{COMMAND_LINE} {}", self.init));
        let mut qemu = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + self.timeout;
        let timed_out = loop {
            if qemu.try_wait().unwrap().is_some() {
                break false;
            }
            if Instant::now() > deadline {
                signal(qemu.id(), Signal::SIGKILL);
                break true;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let output = wait_for_exit(qemu);
        assert!(timed_out || output.status == 0, "QEMU failed: {}", output.stderr);
        timed_out
    }
}

/// Path of a file that `.ci/tools guest` installs.
#[must_use]
pub fn guest_tool(name: &str) -> PathBuf {
    let tool = tools().join("guest").join(name);
    assert!(tool.exists(), "{} is missing: `make tools` installs it", tool.display());
    tool
}

/// A random word that marks lines of the guest's init among the output of commands.
#[must_use]
pub fn nonce() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned()
}

/// Parses the serial output: `NONCE begin UPTIME NAME`, a command's output, `NONCE end STATUS UPTIME`, repeated. Returns the
/// commands, each with its name as line, and the time of the first.
#[must_use]
pub fn parse_output(output: &str, nonce: &str) -> (Vec<GuestCommand>, Option<Duration>) {
    let seconds = |word: &str| word.parse().ok().map(Duration::from_secs_f64);
    let (mut commands, mut boot, mut started) = (Vec::<GuestCommand>::new(), None, None);
    for part in output.split(&format!("\n{nonce} ")).skip(1) {
        let (mark, output) = part.split_once('\n').unwrap_or((part, ""));
        match *mark.split(' ').collect::<Vec<_>>() {
            ["begin", uptime, name] => {
                started = seconds(uptime);
                boot = boot.or(started);
                let (line, output) = (name.to_owned(), output.to_owned());
                commands.push(GuestCommand { line, status: None, output, duration: None });
            }
            ["end", status, uptime] => {
                let last = commands.last_mut().unwrap();
                last.status = status.parse().ok();
                last.duration = seconds(uptime).zip(started).map(|(end, start)| end.saturating_sub(start));
            }
            _ => {}
        }
    }
    (commands, boot)
}

//! Bounds on shared kernel resources: while one tenant's run takes as much as it can get, a run of another tenant and root on
//! the host still get their share, and no run gets more than its bound. Needs root and a C compiler. The same rows run in a
//! guest with another kernel and cgroup v2 only.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

use nix::unistd::Uid;
use proctor_core::isolation::Network;
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{
    CommandSpec, Ending, Jail, KillSwitch, LAYERS, LinuxSandbox, PoolBounds, RunAs, RunSpec, Sandbox, SandboxEvent,
};
use proctor_tests::attack_programs;
use proctor_tests::process::{command, program};
use proctor_tests::qemu_guest::Guest;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// User ids of two tenants' runs.
const HOARDER: u32 = 64_001;
const NEIGHBOUR: u32 = 64_002;

/// Time limit of the guest; it needs a tenth.
const GUEST_WAIT: Duration = Duration::from_secs(600);

/// A kind of kernel object that one run hoards.
struct HoardRow {
    /// Kind, as the attack program `hoard` names it.
    kind: &'static str,
    /// Number of objects that it tries to get, above its bound.
    requested: u64,
    /// Most objects that it may get.
    max: fn() -> u64,
}

fn half_of_sysctl(sysctl: &str) -> u64 {
    fs::read_to_string(sysctl).unwrap().trim().parse::<u64>().unwrap().div_ceil(2)
}

/// POSIX message queues have no row: Landlock prevents a run from making any.
const ROWS: &[HoardRow] = &[
    HoardRow { kind: "inotify", requested: 1_024, max: || half_of_sysctl("/proc/sys/user/max_inotify_instances") },
    HoardRow { kind: "timers", requested: 100_000, max: || 16_384 },
    HoardRow { kind: "signals", requested: 100_000, max: || 16_384 },
    HoardRow { kind: "terminals", requested: 4_096, max: || 256 },
    HoardRow {
        kind: "descriptors",
        requested: 70_000,
        max: || (half_of_sysctl("/proc/sys/fs/file-max") / 512).clamp(4_096, 65_536),
    },
];

/// The sandbox with workspaces of two tenants and the attack program. Below `/srv`, since every run has its own `/tmp`.
struct SandboxSetup {
    dir: TempDir,
    sandbox: LinuxSandbox,
}

impl SandboxSetup {
    fn new() -> SandboxSetup {
        assert!(
            Uid::effective().is_root(),
            "runs of tenants have their own user ids, which needs root: sudo make test"
        );
        fs::create_dir_all("/srv").unwrap();
        let dir = tempfile::Builder::new().prefix("proctor-neighbours-").tempdir_in("/srv").unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("tools")).unwrap();
        fs::copy(built_attack(), dir.path().join("tools/attack")).unwrap();
        for user in [HOARDER, NEIGHBOUR] {
            let workspace = dir.path().join(user.to_string());
            fs::create_dir(&workspace).unwrap();
            chown(&workspace, Some(user), Some(user)).unwrap();
        }
        let sandbox = LinuxSandbox::new(program("proctor-worker"), PoolBounds::NONE).unwrap();
        SandboxSetup { dir, sandbox }
    }

    fn attack(&self) -> PathBuf {
        self.dir.path().join("tools/attack")
    }

    /// Runs the attack program as `user` to its end and passes on its output.
    fn run(&self, user: u32, args: &[&str], kill: &KillSwitch, mut on_output: impl FnMut(&str)) -> Ending {
        self.run_program(&self.attack(), user, args, Limits::DEFAULT, kill, &mut |event| {
            if let SandboxEvent::Output { bytes, .. } = event {
                on_output(&String::from_utf8_lossy(bytes));
            }
        })
    }

    fn run_program(
        &self,
        program: &Path,
        user: u32,
        args: &[&str],
        limits: Limits,
        kill: &KillSwitch,
        sink: &mut dyn FnMut(SandboxEvent<'_>),
    ) -> Ending {
        let workspace = self.dir.path().join(user.to_string());
        let spec = RunSpec {
            commands: vec![CommandSpec {
                program: program.to_owned(),
                args: args.iter().map(ToString::to_string).collect(),
                dir: workspace.clone(),
                env: vec![],
            }],
            jail: Jail {
                owner: format!("tenant-{user}"),
                read_only: vec![self.dir.path().join("tools")],
                run_as: RunAs::User { uid: user, gid: user },
                network: Network::None,
                required_layers: LAYERS.to_vec(),
                ..Jail::new(workspace)
            },
            stack_requests: vec![],
            scratch_files: vec![],
            scratch_dirs: vec![],
            artifacts: String::new(),
            report: false,
            alone: false,
            limits,
            required_limits: vec![],
        };
        self.sandbox.run(&spec, kill, sink).unwrap()
    }

    /// Output of the attack program `take`, run as root outside of the sandbox.
    fn take_as_root(&self, kind: &str) -> String {
        let output = command(&self.attack()).args(["take", kind]).current_dir(self.dir.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Lets one run hoard objects of a kind and returns what is wrong; empty when all others got their share.
    fn check_row(&self, row: &HoardRow) -> Vec<String> {
        let (send_output, output) = sync_channel(64);
        let (kill, requested) = (KillSwitch::new().unwrap(), row.requested.to_string());
        std::thread::scope(|scope| {
            let hoarding = scope.spawn(|| {
                // Once the run is killed the receiver is gone, so errors are ignored.
                let send = |text: &str| _ = send_output.send(text.to_owned());
                self.run(HOARDER, &["hoard", row.kind, &requested], &kill, send)
            });
            let hoard = output.recv().unwrap();
            let started = Instant::now();
            let mut taken = String::new();
            self.run(NEIGHBOUR, &["take", row.kind], &KillSwitch::new().unwrap(), |text| taken.push_str(text));
            let took = started.elapsed();
            let by_root = self.take_as_root(row.kind);
            kill.kill(KillReason::Cancelled);
            hoarding.join().unwrap();
            println!(
                "{}: one run has {}; a neighbour {} in {took:?}, root {}",
                row.kind,
                hoard.trim(),
                taken.trim(),
                by_root.trim()
            );
            problems(row, &hoard, &taken, &by_root)
        })
    }
}

fn problems(row: &HoardRow, hoard: &str, by_neighbour: &str, by_root: &str) -> Vec<String> {
    let count = hoard.split([' ', ',']).nth(1).and_then(|count| count.parse::<u64>().ok());
    let max = (row.max)();
    let mut problems = Vec::new();
    if !count.is_some_and(|count| count > 0 && count <= max) {
        problems.push(format!("{}: one run has {hoard:?}, above its bound of {max}", row.kind));
    }
    for (user, taken) in [("a neighbour", by_neighbour), ("root", by_root)] {
        if !taken.starts_with("escaped: one") {
            problems.push(format!("{}: {user} gets {taken:?}", row.kind));
        }
    }
    problems
}

/// Path of the attack program. Without a compiler, as in the guest, it has been copied there.
fn built_attack() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("neighbours-attack");
    if Path::new(attack_programs::COMPILER).exists() {
        attack_programs::compile(&path);
    }
    path
}

#[test]
fn hoarded_kernel_objects_stay_bounded_for_neighbours() {
    let setup = SandboxSetup::new();
    let problems: Vec<String> = ROWS.iter().flat_map(|row| setup.check_row(row)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Kinds for which a run is killed, the number that it requests, and the words in the note. The kernel neither accounts nor
/// bounds them. The bounds are 160,000 file locks, and 32 MiB of netlink answers, some 15,000.
const KILLED_FOR: [(&str, &str, &str); 2] =
    [("locks", "400000", "locks on files"), ("netlink", "200000", "MiB in netlink sockets")];

#[test]
fn run_that_hoards_kernel_memory_is_killed_for_neighbours() {
    let (setup, kill) = (SandboxSetup::new(), || KillSwitch::new().unwrap());
    for (kind, requested, words) in KILLED_FOR {
        let (ending, taken) = std::thread::scope(|scope| {
            let hoarding = scope.spawn(|| setup.run(HOARDER, &["hoard", kind, requested], &kill(), |_| ()));
            let mut taken = String::new();
            setup.run(NEIGHBOUR, &["take", kind], &kill(), |text| taken.push_str(text));
            (hoarding.join().unwrap(), taken)
        });
        println!("{kind}: one run was killed: {:?}; a neighbour {}", ending.notes, taken.trim());
        assert_eq!(ending.killed, Some(KillReason::KernelMemory), "{kind}: {ending:?}");
        assert!(ending.notes.iter().any(|note| note.contains(words)), "{:?}", ending.notes);
        for taken in [taken, setup.take_as_root(kind)] {
            assert!(taken.starts_with("escaped: one"), "{kind}: {taken}");
        }
    }
}

/// Memory limit of a run that hoards socket buffers; number of datagrams or streams of 60,000 bytes that it requests, 120 MB
/// in all; and the most that it may get, on cgroup v1 and v2. On v1 that is a quarter of its memory on top, plus some memory
/// that the kernel grants to every connection; on v2 what fits into its memory, beyond which it is killed.
const SOCKETS_MEMORY: u64 = 64 << 20;
const SOCKETS_REQUESTED: &str = "2000";
const SOCKETS_MAX: [u64; 2] = [400, 1_100];

#[test]
fn socket_buffers_stay_bounded_for_neighbours() {
    let setup = SandboxSetup::new();
    let limits = Limits { memory_bytes_max: SOCKETS_MEMORY, ..Limits::DEFAULT };
    let is_v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    for kind in ["datagrams", "streams"] {
        let (send_output, output) = sync_channel(64);
        let kill = KillSwitch::new().unwrap();
        let (hoard, taken, by_root, ending) = std::thread::scope(|scope| {
            let (setup, kill) = (&setup, &kill);
            let hoarding = scope.spawn(move || {
                setup.run_program(
                    &setup.attack(),
                    HOARDER,
                    &["hoard", kind, SOCKETS_REQUESTED],
                    limits,
                    kill,
                    &mut |event| {
                        if let SandboxEvent::Output { bytes, .. } = event {
                            // Once the run is killed the receiver is gone, so errors are ignored.
                            _ = send_output.send(String::from_utf8_lossy(bytes).into_owned());
                        }
                    },
                )
            });
            // A killed run prints nothing.
            let hoard = output.recv().unwrap_or_default();
            let mut taken = String::new();
            setup.run(NEIGHBOUR, &["take", kind], &KillSwitch::new().unwrap(), |text| taken.push_str(text));
            let by_root = setup.take_as_root(kind);
            kill.kill(KillReason::Cancelled);
            (hoard, taken, by_root, hoarding.join().unwrap())
        });
        println!("{kind}: one run has {}; a neighbour {}, root {}", hoard.trim(), taken.trim(), by_root.trim());
        let count = hoard.split([' ', ',']).nth(1).and_then(|count| count.parse::<u64>().ok());
        match count {
            Some(count) => assert!((1..=SOCKETS_MAX[usize::from(is_v2)]).contains(&count), "{kind}: {hoard}"),
            None => assert_eq!((is_v2, ending.killed), (true, Some(KillReason::OutOfMemory)), "{kind}: {ending:?}"),
        }
        for taken in [taken, by_root] {
            assert!(taken.starts_with("escaped: one"), "{kind}: {taken}");
        }
    }
}

/// Write limit of the run in bytes per second, and the bytes that it writes.
const WRITE_BYTES_PER_S: u64 = 2 << 20;
const WRITTEN_BYTES: u64 = 8 << 20;

/// The speed of the host's disk is unknown, so the test asserts that the kernel has the run's limit, that the run's writes
/// are counted where the limit applies, and that a neighbour's write reaches the disk.
#[test]
fn disk_writes_are_throttled_for_neighbours() {
    let setup = SandboxSetup::new();
    let limits = Limits { write_bytes_per_s_max: WRITE_BYTES_PER_S, ..Limits::DEFAULT };
    let script = format!("echo begun; dd if=/dev/zero of=big bs=64k count={} oflag=direct,dsync", WRITTEN_BYTES >> 16);
    let (send_started, started) = sync_channel(64);
    std::thread::scope(|scope| {
        let setup = &setup;
        let hoarding = scope.spawn(move || {
            let (kill, mut bound) = (KillSwitch::new().unwrap(), None);
            let ending =
                setup.run_program(Path::new("/bin/sh"), HOARDER, &["-c", &script], limits, &kill, &mut |event| {
                    match event {
                        SandboxEvent::Started { isolation } => {
                            let writes = isolation.limits.iter().find(|limit| limit.limit == LimitKind::Writes);
                            bound = writes.map(|limit| limit.max);
                        }
                        // Only the first output is received.
                        SandboxEvent::Output { .. } => _ = send_started.try_send(()),
                        _ => {}
                    }
                });
            (ending, bound)
        });
        started.recv().unwrap();
        let (kill, script) = (KillSwitch::new().unwrap(), "dd if=/dev/zero of=small bs=4k count=1 conv=fsync");
        let sh = Path::new("/bin/sh");
        let neighbour = setup.run_program(sh, NEIGHBOUR, &["-c", script], limits, &kill, &mut |_| ());
        assert_eq!(neighbour.exits, [Exit::Code(0)]);
        let (ending, bound) = hoarding.join().unwrap();
        let took = ending.resources.wall_s;
        println!(
            "one run has written {WRITTEN_BYTES} bytes in {took} s; a neighbour's fsync took {} s",
            neighbour.resources.wall_s
        );
        assert_eq!((ending.exits, bound), (vec![Exit::Code(0)], Some(WRITE_BYTES_PER_S)));
        let counted = ending.resources.written_bytes;
        assert!(
            counted.is_none_or(|bytes| bytes >= WRITTEN_BYTES),
            "written outside of the throttled group: {counted:?}"
        );
    });
}

#[test]
fn all_rows_hold_in_a_guest_with_cgroup_v2() {
    let own = std::env::current_exe().unwrap();
    let result = Guest::new()
        .file(&own)
        .file(built_attack())
        .file(program("proctor-worker"))
        .timeout(GUEST_WAIT)
        .run(&[&[own.to_str().unwrap(), "for_neighbours", "--nocapture", "--test-threads=1"]]);
    println!("{}", result.describe());
    result.assert_succeeded();
}

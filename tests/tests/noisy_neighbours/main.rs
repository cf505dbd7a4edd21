//! Neighbours: one tenant's run takes all that it can get of what all tenants share, and meanwhile another tenant's run and
//! root on the host still get theirs. Bounded: no run takes more than a row says. Needs root and a C compiler; a guest runs
//! the same rows on another kernel and cgroup v2 alone. Must not know what keeps a run to its bound.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

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

/// Users of the host that two tenants' runs are.
const HOARDER: u32 = 64_001;
const NEIGHBOUR: u32 = 64_002;

/// How long the guest may take for all rows; it takes a tenth.
const GUEST_WAIT: Duration = Duration::from_secs(600);

/// What one run hoards.
struct Row {
    /// What, as the attack `hoard` names it.
    kind: &'static str,
    /// How many it asks for: more than it may have.
    asked: u64,
    /// The most that it may get.
    max: fn() -> u64,
}

fn half_of(sysctl: &str) -> u64 {
    fs::read_to_string(sysctl).unwrap().trim().parse::<u64>().unwrap().div_ceil(2)
}

/// POSIX message queues are not among them: Landlock lets a run make none.
const ROWS: &[Row] = &[
    Row { kind: "inotify", asked: 1_024, max: || half_of("/proc/sys/user/max_inotify_instances") },
    Row { kind: "timers", asked: 100_000, max: || 16_384 },
    Row { kind: "signals", asked: 100_000, max: || 16_384 },
    Row { kind: "terminals", asked: 4_096, max: || 256 },
    Row { kind: "descriptors", asked: 70_000, max: || (half_of("/proc/sys/fs/file-max") / 512).clamp(4_096, 65_536) },
];

/// Where the runs find the attacks and their workspaces. Every run has a `/tmp` of its own, so it is not below that.
struct TestWorkspace {
    dir: TempDir,
    sandbox: LinuxSandbox,
}

impl TestWorkspace {
    fn new() -> TestWorkspace {
        assert!(Uid::effective().is_root(), "tenants are users of the host, which takes root: sudo make test");
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
        TestWorkspace { dir, sandbox }
    }

    fn attack(&self) -> PathBuf {
        self.dir.path().join("tools/attack")
    }

    /// Runs an attack as `user` to its end; its output as it comes.
    fn run(&self, user: u32, args: &[&str], kill: &KillSwitch, mut hear: impl FnMut(&str)) -> Ending {
        self.run_program(&self.attack(), user, args, Limits::DEFAULT, kill, &mut |event| {
            if let SandboxEvent::Output { bytes, .. } = event {
                hear(&String::from_utf8_lossy(bytes));
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
            scratch_files: vec![],
            scratch_dirs: vec![],
            artifacts: String::new(),
            report: false,
            limits,
            required_limits: vec![],
        };
        self.sandbox.run(&spec, kill, sink).unwrap()
    }

    /// What an attack of root on the host gets.
    fn taken_by_root(&self, kind: &str) -> String {
        let output = command(&self.attack()).args(["take", kind]).current_dir(self.dir.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What is wrong with `row`; nothing when everybody has what is theirs.
    fn judge(&self, row: &Row) -> Vec<String> {
        let (say, said) = sync_channel(64);
        let (kill, asked) = (KillSwitch::new().unwrap(), row.asked.to_string());
        std::thread::scope(|scope| {
            let hoarding = scope.spawn(|| {
                // Nobody listens any more once it was killed.
                self.run(HOARDER, &["hoard", row.kind, &asked], &kill, |text| _ = say.send(text.to_owned()))
            });
            let hoard = said.recv().unwrap();
            let begun = Instant::now();
            let mut taken = String::new();
            self.run(NEIGHBOUR, &["take", row.kind], &KillSwitch::new().unwrap(), |text| taken.push_str(text));
            let took = begun.elapsed();
            let by_root = self.taken_by_root(row.kind);
            kill.kill(KillReason::Cancelled);
            hoarding.join().unwrap();
            println!(
                "{}: one run has {}; a neighbour {} in {took:?}, root {}",
                row.kind,
                hoard.trim(),
                taken.trim(),
                by_root.trim()
            );
            wrong(row, &hoard, &taken, &by_root)
        })
    }
}

fn wrong(row: &Row, hoard: &str, by_neighbour: &str, by_root: &str) -> Vec<String> {
    let count = hoard.split([' ', ',']).nth(1).and_then(|count| count.parse::<u64>().ok());
    let max = (row.max)();
    let mut wrong = Vec::new();
    if !count.is_some_and(|count| count > 0 && count <= max) {
        wrong.push(format!("{}: one run has {hoard:?}, and {max} is the most", row.kind));
    }
    for (who, taken) in [("a neighbour", by_neighbour), ("root", by_root)] {
        if !taken.starts_with("escaped: one") {
            wrong.push(format!("{}: {who} gets {taken:?}", row.kind));
        }
    }
    wrong
}

/// Where there is no compiler, as in the guest, it was brought along.
fn built_attack() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("neighbours-attack");
    if Path::new(attack_programs::COMPILER).exists() {
        attack_programs::compile(&path);
    }
    path
}

#[test]
fn what_one_run_hoards_leaves_others_theirs() {
    let place = TestWorkspace::new();
    let wrong: Vec<String> = ROWS.iter().flat_map(|row| place.judge(row)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a run is ended for, as the attack `hoard` names it, and how much of it is asked for. The kernel counts and bounds neither:
/// 160,000 locks are the most, or as many answers of netlink as fit into 32 MiB, some 15,000.
const ENDED_FOR: [(&str, &str, &str); 2] =
    [("locks", "400000", "locks on files"), ("netlink", "200000", "MiB in netlink sockets")];

#[test]
fn what_one_run_is_ended_for_leaves_others_theirs() {
    let (place, kill) = (TestWorkspace::new(), || KillSwitch::new().unwrap());
    for (kind, asked, words) in ENDED_FOR {
        let (ending, taken) = std::thread::scope(|scope| {
            let hoarding = scope.spawn(|| place.run(HOARDER, &["hoard", kind, asked], &kill(), |_| ()));
            let mut taken = String::new();
            place.run(NEIGHBOUR, &["take", kind], &kill(), |text| taken.push_str(text));
            (hoarding.join().unwrap(), taken)
        });
        println!("{kind}: one run was ended: {:?}; a neighbour {}", ending.notes, taken.trim());
        assert_eq!(ending.killed, Some(KillReason::KernelMemory), "{kind}: {ending:?}");
        assert!(ending.notes.iter().any(|note| note.contains(words)), "{:?}", ending.notes);
        for taken in [taken, place.taken_by_root(kind)] {
            assert!(taken.starts_with("escaped: one"), "{kind}: {taken}");
        }
    }
}

/// Memory of a run that hoards in the buffers of sockets; how many datagrams or streams of 60,000 bytes it asks for, 120 MB in
/// all; and how many it may have: on v1 a quarter of its memory beside it and some that the kernel grants a connection in any case, on
/// v2 what fits into its memory, beyond which it is killed.
const SOCKETS_MEMORY: u64 = 64 << 20;
const SOCKETS_ASKED: &str = "2000";
const SOCKETS_MAX: [u64; 2] = [400, 1_100];

#[test]
fn what_one_run_keeps_in_sockets_leaves_others_theirs() {
    let place = TestWorkspace::new();
    let limits = Limits { memory_bytes_max: SOCKETS_MEMORY, ..Limits::DEFAULT };
    let is_v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    for kind in ["datagrams", "streams"] {
        let (say, said) = sync_channel(64);
        let kill = KillSwitch::new().unwrap();
        let (hoard, taken, by_root, ending) = std::thread::scope(|scope| {
            let (place, kill) = (&place, &kill);
            let hoarding = scope.spawn(move || {
                place.run_program(
                    &place.attack(),
                    HOARDER,
                    &["hoard", kind, SOCKETS_ASKED],
                    limits,
                    kill,
                    &mut |event| {
                        if let SandboxEvent::Output { bytes, .. } = event {
                            // Nobody listens any more once it was killed.
                            _ = say.send(String::from_utf8_lossy(bytes).into_owned());
                        }
                    },
                )
            });
            // A run that was killed says nothing.
            let hoard = said.recv().unwrap_or_default();
            let mut taken = String::new();
            place.run(NEIGHBOUR, &["take", kind], &KillSwitch::new().unwrap(), |text| taken.push_str(text));
            let by_root = place.taken_by_root(kind);
            kill.kill(KillReason::Cancelled);
            (hoard, taken, by_root, hoarding.join().unwrap())
        });
        println!("{kind}: one run has {}; a neighbour {}, root {}", hoard.trim(), taken.trim(), by_root.trim());
        let had = hoard.split([' ', ',']).nth(1).and_then(|count| count.parse::<u64>().ok());
        match had {
            Some(had) => assert!((1..=SOCKETS_MAX[usize::from(is_v2)]).contains(&had), "{kind}: {hoard}"),
            None => assert_eq!((is_v2, ending.killed), (true, Some(KillReason::OutOfMemory)), "{kind}: {ending:?}"),
        }
        for taken in [taken, by_root] {
            assert!(taken.starts_with("escaped: one"), "{kind}: {taken}");
        }
    }
}

/// Bytes that the hoarder of the disk writes in a second, and all that it writes.
const PACE: u64 = 2 << 20;
const WRITTEN: u64 = 8 << 20;

/// The host's disks are as quick as they are: what is asserted is that the run has its bound, and waits for it, and that a
/// neighbour's write comes to the disk meanwhile.
#[test]
fn what_one_run_writes_leaves_others_the_disk() {
    let place = TestWorkspace::new();
    let limits = Limits { write_bytes_per_s_max: PACE, ..Limits::DEFAULT };
    let script = format!("echo begun; dd if=/dev/zero of=big bs=64k count={} oflag=direct,dsync", WRITTEN >> 16);
    let (say, said) = sync_channel(64);
    std::thread::scope(|scope| {
        let place = &place;
        let hoarding = scope.spawn(move || {
            let (kill, mut bound) = (KillSwitch::new().unwrap(), None);
            let ending =
                place.run_program(Path::new("/bin/sh"), HOARDER, &["-c", &script], limits, &kill, &mut |event| {
                    match event {
                        SandboxEvent::Started { isolation } => {
                            let writes = isolation.limits.iter().find(|limit| limit.limit == LimitKind::Writes);
                            bound = writes.map(|limit| limit.max);
                        }
                        // Nobody listens any more once it has begun.
                        SandboxEvent::Output { .. } => _ = say.try_send(()),
                        _ => {}
                    }
                });
            (ending, bound)
        });
        said.recv().unwrap();
        let (kill, script) = (KillSwitch::new().unwrap(), "dd if=/dev/zero of=small bs=4k count=1 conv=fsync");
        let sh = Path::new("/bin/sh");
        let neighbour = place.run_program(sh, NEIGHBOUR, &["-c", script], limits, &kill, &mut |_| ());
        assert_eq!(neighbour.exits, [Exit::Code(0)]);
        let (ending, bound) = hoarding.join().unwrap();
        let took = ending.resources.wall_s;
        println!(
            "one run has written {WRITTEN} bytes in {took} s; a neighbour's fsync took {} s",
            neighbour.resources.wall_s
        );
        assert_eq!((ending.exits, bound), (vec![Exit::Code(0)], Some(PACE)));
        // Four seconds, and the kernel lets the first slice go at once.
        assert!(took > 2.0, "it was not held back: {took} s");
    });
}

#[test]
fn so_it_does_on_cgroup_v2() {
    let own = std::env::current_exe().unwrap();
    let outcome = Guest::new()
        .file(&own)
        .file(built_attack())
        .file(program("proctor-worker"))
        .within(GUEST_WAIT)
        .run(&[&[own.to_str().unwrap(), "leaves_others", "--nocapture", "--test-threads=1"]]);
    println!("{}", outcome.all());
    outcome.assert_succeeded();
}

//! Neighbours: one tenant's run takes all that it can get of what all tenants share, and meanwhile another tenant's run and
//! root on the host still get theirs. Bounded: no run takes more than a row says. Needs root and a C compiler; a guest runs
//! the same rows on another kernel and cgroup v2 alone. Must not know what keeps a run to its bound.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nix::unistd::Uid;
use proctor_core::isolation::Network;
use proctor_core::limits::Limits;
use proctor_core::outcome::KillReason;
use proctor_sandbox::{
    CommandSpec, Jail, KillSwitch, LAYERS, LinuxSandbox, PoolBounds, RunAs, RunSpec, Sandbox, SandboxEvent,
};
use proctor_tests::attack;
use proctor_tests::guest::Guest;
use proctor_tests::process::{command, program};
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
struct Place {
    dir: TempDir,
    sandbox: LinuxSandbox,
}

impl Place {
    fn new() -> Place {
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
        Place { dir, sandbox }
    }

    fn attack(&self) -> PathBuf {
        self.dir.path().join("tools/attack")
    }

    /// Runs an attack as `user` to its end; its output as it comes.
    fn run(&self, user: u32, args: &[&str], kill: &KillSwitch, mut hear: impl FnMut(&str)) {
        let workspace = self.dir.path().join(user.to_string());
        let spec = RunSpec {
            commands: vec![CommandSpec {
                program: self.attack(),
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
                ..Jail::at(workspace)
            },
            scratch_files: vec![],
            scratch_dirs: vec![],
            artifacts: String::new(),
            report: false,
            limits: Limits::DEFAULT,
            required_limits: vec![],
        };
        let ended = self.sandbox.run(&spec, kill, &mut |event| {
            if let SandboxEvent::Output { bytes, .. } = event {
                hear(&String::from_utf8_lossy(bytes));
            }
        });
        ended.unwrap();
    }

    /// What is wrong with `row`; nothing when everybody has what is theirs.
    fn judge(&self, row: &Row) -> Vec<String> {
        let (say, said) = sync_channel(64);
        let (kill, asked) = (KillSwitch::new().unwrap(), row.asked.to_string());
        std::thread::scope(|scope| {
            let hoarding = scope.spawn(|| {
                // Nobody listens any more once it was killed.
                self.run(HOARDER, &["hoard", row.kind, &asked], &kill, |text| _ = say.send(text.to_owned()));
            });
            let hoard = said.recv().unwrap();
            let begun = Instant::now();
            let mut taken = String::new();
            self.run(NEIGHBOUR, &["take", row.kind], &KillSwitch::new().unwrap(), |text| taken.push_str(text));
            let took = begun.elapsed();
            let by_root =
                command(&self.attack()).args(["take", row.kind]).current_dir(self.dir.path()).output().unwrap();
            kill.kill(KillReason::Cancelled);
            hoarding.join().unwrap();
            let by_root = String::from_utf8_lossy(&by_root.stdout).into_owned();
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
    if Path::new(attack::COMPILER).exists() {
        attack::compile(&path);
    }
    path
}

#[test]
fn what_one_run_hoards_leaves_others_theirs() {
    let place = Place::new();
    let wrong: Vec<String> = ROWS.iter().flat_map(|row| place.judge(row)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn so_it_does_on_cgroup_v2() {
    let own = std::env::current_exe().unwrap();
    let outcome = Guest::new()
        .file(&own)
        .file(built_attack())
        .file(program("proctor-worker"))
        .within(GUEST_WAIT)
        .run(&[&[own.to_str().unwrap(), "what_one_run_hoards_leaves_others_theirs", "--nocapture"]]);
    println!("{}", outcome.all());
    outcome.assert_succeeded();
}

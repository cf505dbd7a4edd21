//! What a run can see and reach, and what it leaves behind.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

#[cfg(test)]
mod support;

use proctor_core::isolation::{Isolation, Layer, Network};
use proctor_core::limits::Limits;
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{Jail, KillSwitch, LAYERS, RunAs, RunSpec, SandboxError};
use std::fs;
use std::os::unix::fs::symlink;
use support::*;

#[test]
fn a_workspace_below_tmp_is_visible_and_writable_and_the_hosts_tmp_is_hidden() {
    let workspace = tempfile::tempdir_in("/tmp").unwrap();
    let secret = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let cache = tempfile::tempdir_in("/tmp").unwrap();
    fs::write(workspace.path().join("input"), "from the host\n").unwrap();
    fs::write(cache.path().join("cached"), "cached\n").unwrap();
    let script = format!(
        "cat input {}/cached; echo from inside > output; test -e {} && echo LEAK; ls -A /tmp | wc -l",
        cache.path().display(),
        secret.path().display()
    );
    let mut inside = spec(&script);
    inside.jail.workspace = workspace.path().to_owned();
    inside.commands[0].dir = workspace.path().to_owned();
    inside.jail.read_only = vec![cache.path().to_owned(), "/tmp/no/such/toolchain".into()];
    let (ending, events) = run(&inside);
    assert_exits(&ending, &[Exit::Code(0)]);
    // The workspace, the cache, and the scratch directory.
    assert_eq!(events.stdout, "from the host\ncached\n3\n");
    assert_eq!(fs::read_to_string(workspace.path().join("output")).unwrap(), "from inside\n");
}

#[test]
fn a_program_below_tmp_can_be_executed() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let program = dir.path().join("bin/runner");
    fs::create_dir(dir.path().join("bin")).unwrap();
    {
        // A process that another test forks meanwhile would hold the copy open for writing: ETXTBSY.
        let _alone = one_at_a_time();
        fs::copy("/bin/true", &program).unwrap();
    }
    let mut there = spec("");
    there.jail.read_only = vec![dir.path().to_owned()];
    there.commands[0] = proctor_sandbox::CommandSpec { program, args: vec![], dir: "/".into(), env: vec![] };
    assert_exits(&run(&there).0, &[Exit::Code(0)]);
}

#[test]
fn files_in_tmp_and_shared_memory_are_gone_with_the_run() {
    let (ending, _) = run(&spec("echo x > /tmp/left-by-proctor-test && echo x > /dev/shm/left-by-proctor-test"));
    assert_exits(&ending, &[Exit::Code(0)]);
    assert!(!fs::exists("/tmp/left-by-proctor-test").unwrap() && !fs::exists("/dev/shm/left-by-proctor-test").unwrap());
}

#[test]
fn a_run_has_only_lo_and_it_is_up() {
    let (_, events) =
        run(&spec("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route | wc -l"));
    assert_eq!(events.stdout, "lo\n0\n");
    // Up: a packet to a closed port is answered with a refusal, not with "unreachable".
    let connect =
        "import socket; s = socket.socket(); print(s.connect_ex(('127.0.0.1', 9)), s.connect_ex(('10.0.0.1', 9)))";
    let (_, events) = run(&spec(&format!("python3 -c \"{connect}\"")));
    assert_eq!(events.stdout, format!("{} {}\n", libc::ECONNREFUSED, libc::ENETUNREACH), "{}", events.stderr);
}

#[test]
fn the_hosts_network_is_available_only_on_request_and_is_reported() {
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    let mut host = spec("readlink /proc/self/ns/net");
    host.jail.network = Network::Host;
    let (_, events) = run(&host);
    assert_eq!(events.stdout.trim(), ours.to_string_lossy());
    let isolation = events.isolation.unwrap();
    assert_eq!(isolation.network, Network::Host);
    assert!(!isolation.layers.contains(&Layer::NetNamespace));
    let (_, events) = run(&spec("readlink /proc/self/ns/net"));
    assert_ne!(events.stdout.trim(), ours.to_string_lossy());
}

#[test]
fn every_namespace_differs_from_the_hosts() {
    let names = ["mnt", "pid", "net", "ipc", "uts"];
    let (_, events) = run(&spec("for n in mnt pid net ipc uts; do readlink /proc/self/ns/$n; done"));
    for (name, inside) in names.iter().zip(events.stdout.lines()) {
        let ours = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert_ne!(inside, ours.to_string_lossy(), "{name}");
    }
    assert_eq!(events.stdout.lines().count(), names.len());
}

#[test]
fn a_run_sees_only_its_own_processes_and_its_own_host_name() {
    let (_, events) = run(&spec("cd /proc; set -- [0-9]*; echo $#; cat /proc/sys/kernel/hostname; echo $$"));
    let lines: Vec<&str> = events.stdout.lines().collect();
    // Init and the shell.
    assert_eq!(lines[0], "2");
    assert_eq!(lines[1], "proctor");
    assert!(lines[2].parse::<u32>().unwrap() < 10);
}

#[test]
fn init_cannot_be_killed_from_inside() {
    let (ending, events) = run(&spec("kill -KILL 1; kill -TERM 1; kill -SEGV 1; sleep 0.05; echo alive"));
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!(events.stdout, "alive\n");
}

#[test]
fn a_run_gains_no_privilege_and_leaves_no_core() {
    // A limit of 1 byte keeps a core dump from a program of the host, and a run cannot change it to 0.
    let core = "grep 'core file' /proc/self/limits | tr -s ' '";
    let (_, events) = run(&spec(&format!("grep NoNewPrivs /proc/self/status; {core}; ulimit -c 0; {core}")));
    let limit = "Max core file size 1 1 bytes \n";
    assert_eq!(events.stdout, format!("NoNewPrivs:\t1\n{limit}{limit}"));
}

#[test]
fn a_run_has_a_share_of_the_kernels_per_user_limits() {
    let counts = ["inotify_instances", "inotify_watches"].map(|count| format!("/proc/sys/user/max_{count}"));
    let inspect = "grep -E 'pending|msgqueue|locked|priority' /proc/self/limits | tr -s ' ' | cut -d' ' -f4";
    let terminals = "grep -o 'devpts.*max=[0-9]*' /proc/self/mounts | grep -o '[0-9]*$'";
    let (_, events) = run(&spec(&format!("cat {}; {inspect}; {terminals}", counts.join(" "))));
    let observed: Vec<u64> = events.stdout.lines().map(|line| line.parse().unwrap()).collect();
    let half = |path: &String| fs::read_to_string(path).unwrap().trim().parse::<u64>().unwrap().div_ceil(2);
    assert_eq!(observed[..2], counts.each_ref().map(half));
    // Locked memory, signals, bytes of message queues; nice and real-time priority; terminals.
    let most = [64 << 20, 16_384, 819_200, 0, 0, 256];
    assert!(
        observed.len() == 8 && observed[2..].iter().zip(most).all(|(observed, most)| *observed <= most),
        "{}",
        events.stdout
    );
}

#[test]
fn mounts_made_inside_do_not_reach_a_host_that_shares_its_mounts() {
    use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let script = format!("mount -t tmpfs inside {0} && touch {0}/x && echo mounted", dir.path().display());
    let mut mounter = spec(&script);
    mounter.jail.workspace = dir.path().to_owned();
    mounter.jail.left_off = vec![Layer::Capabilities, Layer::Landlock, Layer::Seccomp];
    let inside = std::thread::scope(|scope| {
        let supervisor = scope.spawn(|| {
            // A mount namespace of this thread stands for the host, since not every real one shares its mounts.
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
            mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).unwrap();
            mount("host", dir.path(), "tmpfs", MountFlags::empty(), None).unwrap();
            mount_change(dir.path(), MountPropagationFlags::SHARED).unwrap();
            let (_, events) = run(&mounter);
            let observed = fs::read_dir(dir.path()).unwrap().count();
            unmount(dir.path(), UnmountFlags::DETACH).unwrap();
            (events.stdout, observed)
        });
        supervisor.join().unwrap()
    });
    assert_eq!(inside, ("mounted\n".to_owned(), 0));
}

#[test]
fn a_required_user_namespace_is_installed_for_root_too() {
    let mut own = spec("cat /proc/self/uid_map | tr -s ' '; readlink /proc/self/ns/user");
    own.jail.required_layers = vec![Layer::UserNamespace, Layer::NetNamespace, Layer::Cgroup, Layer::CleanEnvironment];
    let (ending, events) = run(&own);
    assert_exits(&ending, &[Exit::Code(0)]);
    let lines: Vec<&str> = events.stdout.lines().collect();
    assert_eq!(lines[0].trim(), "0 0 1");
    assert_ne!(lines[1], fs::read_link("/proc/self/ns/user").unwrap().to_string_lossy());
    assert!(events.isolation.unwrap().layers.contains(&Layer::UserNamespace));
}

#[test]
fn hostile_artefacts_are_ignored_and_regular_ones_survive_a_kill() {
    let mut hostile = spec(
        "cd /tmp/proctor/artifacts; echo honest > good; ln -s /etc/passwd link; ln -s / dir; mkfifo fifo; \
         mount --bind /etc sub; echo ready; sleep 600",
    );
    hostile.scratch_dirs = vec!["artifacts/sub".into()];
    hostile.artifacts = "artifacts".into();
    let kill = KillSwitch::new().unwrap();
    let switch = kill.clone();
    let (ending, _) = try_run(&hostile, &kill, move |events| {
        if events.stdout.contains("ready") {
            switch.kill(KillReason::Cancelled);
        }
    })
    .unwrap();
    let paths: Vec<&str> = ending.artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
    assert_eq!((paths, ending.artifacts_left_out), (vec!["good"], 0));
}

#[test]
fn an_artefact_directory_replaced_by_a_link_returns_nothing() {
    let mut swap = spec("cd /tmp/proctor/work; rm -r out; ln -s /etc out");
    swap.scratch_dirs = vec!["work/out".into()];
    swap.artifacts = "work/out".into();
    assert_eq!(run(&swap).0.artifacts, []);
}

#[test]
fn a_link_in_the_workspace_does_not_affect_the_private_tmp() {
    let workspace = tempfile::tempdir_in("/tmp").unwrap();
    symlink("/etc", workspace.path().join("etc")).unwrap();
    let mut linked = spec("cat etc/hostname > /dev/null; ls -d etc");
    linked.jail.workspace = workspace.path().to_owned();
    linked.commands[0].dir = workspace.path().to_owned();
    assert_eq!(run(&linked).1.stdout, "etc\n");
}

#[test]
fn groups_made_below_a_leaf_are_removed_with_it() {
    // A run as root can do this; the leaf has to be removed all the same.
    let mut maker = spec(&format!("mkdir -p {}/a/b && echo made", Cgroups::current().own_group));
    maker.jail.left_off = vec![
        Layer::UserNamespace,
        Layer::CgroupNamespace,
        Layer::PivotRoot,
        Layer::Capabilities,
        Layer::Landlock,
        Layer::Seccomp,
    ];
    let (ending, events) = run(&maker);
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!(events.stdout, "made\n");
}

#[test]
fn a_run_can_read_and_not_change_its_v2_limits() {
    let script = "cd /sys/fs/cgroup; ls -A | grep -c .; cat memory.max pids.max cpu.max; cat /proc/self/cgroup; ls ..;
        for file in memory.max pids.max cgroup.procs cgroup.kill; do echo 1 > $file; done; mkdir below; echo end";
    let inspect = |left_off: &[Layer]| {
        let mut curious = spec(script);
        curious.limits = Limits { memory_bytes_max: 64 << 20, pids_max: 77, cpu_millis_max: 1_500, ..curious.limits };
        curious.jail.left_off = left_off.to_vec();
        let (ending, events) = run(&curious);
        assert_exits(&ending, &[Exit::Code(0)]);
        events
    };
    // Root of the host owns its leaf: without these layers only the read-only mount prevents changes.
    for left_off in [&[][..], &[Layer::UserNamespace, Layer::Capabilities, Layer::Landlock, Layer::Seccomp]] {
        let events = inspect(left_off);
        let lines: Vec<&str> = events.stdout.lines().collect();
        if Cgroups::current().kill_whole_runs() {
            assert_eq!(lines[1..], ["67108864", "77", "150000 100000", "0::/", "cgroup", "end"], "{events:?}");
            assert_eq!(events.stderr.matches("Read-only file system").count(), 5, "{events:?}");
        } else {
            assert_eq!((lines[0], lines.last()), ("0", Some(&"end")), "{events:?}");
        }
    }
}

#[test]
fn a_tenants_run_has_the_tenants_uid_and_no_capability() {
    use std::os::unix::fs::{MetadataExt, chown};
    let workspace = tempfile::tempdir_in("/tmp").unwrap();
    chown(workspace.path(), Some(200_007), Some(200_008)).unwrap();
    let mut tenant = spec("id -u; id -g; id -G; whoami; grep -h Cap /proc/self/status; echo x > of-the-run; ls -ld .");
    tenant.jail = Jail {
        run_as: RunAs::User { uid: 200_007, gid: 200_008 },
        required_layers: LAYERS.to_vec(),
        ..Jail::new(workspace.path())
    };
    tenant.commands[0].dir = workspace.path().to_owned();
    let (ending, events) = run(&tenant);
    assert_exits(&ending, &[Exit::Code(0)]);
    let lines: Vec<&str> = events.stdout.lines().collect();
    assert_eq!(lines[..4], ["200007", "200008", "200008", "proctor"], "{}", events.stdout);
    assert!(lines[4..9].iter().all(|line| line.ends_with("0000000000000000")), "{}", events.stdout);
    let written = fs::metadata(workspace.path().join("of-the-run")).unwrap();
    assert_eq!((written.uid(), written.gid()), (200_007, 200_008));
}

/// Runs as nobody in a workspace of root below `dir`, and appends to a file of root. Returns the output, the isolation,
/// and the owners of the files afterwards.
fn run_as_nobody(dir: &str, required: &[Layer]) -> Result<(String, Isolation, [u32; 2]), SandboxError> {
    use std::os::unix::fs::MetadataExt;
    let workspace = tempfile::tempdir_in(dir).unwrap();
    fs::write(workspace.path().join("of-root"), "x").unwrap();
    let mut nobody = spec("id -u; echo y >> of-root; echo z > new; stat -c %u of-root new . /usr");
    nobody.jail = Jail {
        run_as: RunAs::Nobody { owner_uid: 0, owner_gid: 0 },
        required_layers: required.to_vec(),
        ..Jail::new(workspace.path())
    };
    nobody.commands[0].dir = workspace.path().to_owned();
    let (ending, events) = try_run(&nobody, &KillSwitch::new().unwrap(), |_| {})?;
    assert_exits(&ending, &[Exit::Code(0)]);
    let owners = ["of-root", "new"].map(|name| fs::metadata(workspace.path().join(name)).unwrap().uid());
    Ok((events.stdout, events.isolation.unwrap(), owners))
}

const AS_NOBODY: &str = "2000000000\n2000000000\n2000000000\n2000000000\n65534\n";

#[test]
fn a_workspace_of_root_is_shown_as_own_to_a_run_as_nobody() {
    // On a disk; another test covers tmpfs.
    let (stdout, _, owners) = run_as_nobody("/var/tmp", &LAYERS).unwrap();
    assert_eq!((stdout.as_str(), owners), (AS_NOBODY, [0, 0]));
}

/// Every way to make a set-id program. A failure of one does not end the script.
const MAKE_SET_ID: &str = r#"
cp /bin/true x; chmod 4755 x; chmod u+s x; chmod g+s x; install -m 4755 /bin/true y; install -m 2755 /bin/true y2
mkdir -m 2755 d; mkdir e; chmod g+s e; cp /bin/true e/x; chmod 6755 e/x
cat > ways.py <<'END'
import ctypes, os, stat
libc, how = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
def nameless():
    made = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o4755)
    libc.linkat(-100, f"/proc/self/fd/{made}".encode(), -100, b"nameless", 0x400)
os.umask(0)
for way in (
    lambda: os.open("opened", os.O_CREAT | os.O_WRONLY, 0o4755),
    lambda: os.open("opened-too", os.O_CREAT | os.O_WRONLY, 0o2755),
    lambda: os.mknod("made", stat.S_IFREG | 0o6755),
    lambda: os.fchmod(os.open("by-descriptor", os.O_CREAT | os.O_WRONLY, 0o755), 0o4755),
    lambda: libc.creat(b"created", 0o4755),
    lambda: libc.syscall(437, -100, b"by-structure", how, 24),
    lambda: libc.syscall(452, -100, b"x", 0o4755, 0),
    nameless,
):
    try: way()
    except OSError: pass
END
python3 ways.py
cp /bin/true plain; chmod 755 plain && install -m 711 /bin/true plain2 && mkdir -m 1777 sticky && echo done
"#;

/// Tries every way in a workspace of `owner`. Returns the files with a set-id bit, as the host sees them, and the modes
/// of ordinary files.
fn set_id_left(run_as: RunAs, owner: u32) -> (Vec<String>, [u32; 3]) {
    use std::os::unix::fs::{PermissionsExt, chown};
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    chown(workspace.path(), Some(owner), Some(owner)).unwrap();
    let mut maker = spec(MAKE_SET_ID);
    maker.jail = Jail { run_as, required_layers: LAYERS.to_vec(), ..Jail::new(workspace.path()) };
    maker.jail.required_layers.retain(|layer| run_as != RunAs::Supervisor || *layer != Layer::TenantUid);
    maker.commands[0].dir = workspace.path().to_owned();
    let (ending, events) = run(&maker);
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!(events.stdout, "done\n", "{}", events.stderr);
    let mode = |path: &std::path::Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    let ordinary = ["plain", "plain2", "sticky"].map(|name| mode(&workspace.path().join(name)));
    let entries = ["", "e"].into_iter().flat_map(|dir| fs::read_dir(workspace.path().join(dir)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| mode(path) & 0o6000 != 0);
    let mut left: Vec<String> =
        paths.map(|path| path.strip_prefix(workspace.path()).unwrap().display().to_string()).collect();
    left.sort_unstable();
    (left, ordinary)
}

#[test]
fn a_run_leaves_no_set_id_program_of_another_user() {
    const ORDINARY: [u32; 3] = [0o755, 0o711, 0o1777];
    let nobody = |owner| RunAs::Nobody { owner_uid: owner, owner_gid: owner };
    for (run_as, owner) in [(nobody(0), 0), (nobody(200_007), 200_007), (RunAs::Supervisor, 0)] {
        assert_eq!(set_id_left(run_as, owner), (vec![], ORDINARY), "{run_as:?}");
    }
    // Repositories shared by a group are directories with the set-group-id bit.
    let (left, ordinary) = set_id_left(RunAs::User { uid: 200_007, gid: 200_007 }, 200_007);
    assert_eq!(ordinary, ORDINARY);
    let expected = ["by-descriptor", "by-structure", "created", "d", "e", "e/x", "made", "nameless", "opened"];
    assert_eq!(left, [&expected[..], &["opened-too", "x", "y", "y2"]].concat());
}

#[test]
fn without_idmapped_mounts_the_run_is_the_owner_and_reports_it() {
    let required = run_as_nobody("/dev/shm", &[Layer::TenantUid]);
    let (stdout, isolation, owners) = run_as_nobody("/dev/shm", &[]).unwrap();
    assert_eq!(owners, [0, 0]);
    if can_idmap_tmpfs() {
        assert_eq!(stdout, AS_NOBODY);
        assert!(required.is_ok() && isolation.layers.contains(&Layer::TenantUid), "{isolation:?}");
        return;
    }
    assert_eq!(stdout, "0\n".repeat(5));
    let missing = isolation.missing.iter().find(|missing| missing.name == Layer::TenantUid.name()).unwrap();
    assert!(missing.reason.contains("no idmapped mount of the workspace"), "{missing:?}");
    assert!(!missing.remedy.is_empty() && !isolation.layers.contains(&Layer::TenantUid), "{isolation:?}");
    assert!(matches!(required, Err(SandboxError::LayerMissing { layer: Layer::TenantUid, .. })));
}

/// Whether the kernel has idmapped mounts of tmpfs: since Linux 6.3.
fn can_idmap_tmpfs() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(3))
}

#[test]
fn a_layer_left_off_is_not_in_force_and_not_reported() {
    let mut bare = spec("test -e /root && echo the host");
    bare.jail.left_off = vec![Layer::PivotRoot, Layer::UserNamespace, Layer::Landlock, Layer::Seccomp];
    let (_, events) = run(&bare);
    assert_eq!(events.stdout, "the host\n");
    let layers = events.isolation.unwrap().layers;
    assert!(bare.jail.left_off.iter().all(|layer| !layers.contains(layer)), "{layers:?}");
}

#[test]
fn refuses_a_link_or_another_directory_in_place_of_the_workspace() {
    use std::os::unix::fs::MetadataExt;
    let parent = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = |name: &str| parent.path().join(name);
    fs::create_dir_all(at("target")).unwrap();
    fs::write(at("target/secret"), "secret").unwrap();
    fs::create_dir(at("ws")).unwrap();
    let metadata = fs::metadata(at("ws")).unwrap();
    let mut swapped = spec("cat secret");
    swapped.jail.workspace = at("ws");
    swapped.jail.workspace_id = Some((metadata.dev(), metadata.ino()));
    swapped.commands[0].dir = at("ws");
    assert_eq!(run(&swapped).0.exits, [Exit::Code(1)]);
    fs::rename(at("ws"), at("old")).unwrap();
    let refused = |spec: &RunSpec| {
        let outcome = try_run(spec, &KillSwitch::new().unwrap(), |_| {});
        matches!(outcome, Err(SandboxError::WorkspaceGone { .. }))
    };
    symlink("target", at("ws")).unwrap();
    assert!(refused(&swapped));
    fs::remove_file(at("ws")).unwrap();
    fs::rename(at("target"), at("ws")).unwrap();
    assert!(refused(&swapped));
    swapped.jail.workspace_id = None;
    assert_eq!(run(&swapped).1.stdout, "secret");
}

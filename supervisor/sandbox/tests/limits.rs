//! Each limit is enforced, and reported with evidence from the kernel's counters.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

#[cfg(test)]
mod support;

use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{Ending, KillSwitch, RunSpec, Sandbox};
use std::time::Duration;
use support::own_disk::OwnDisk;
use support::*;

/// Doubles a variable until something stops it.
const HOG: &str = "x=0123456789abcdef; while :; do x=$x$x; done";

#[test]
fn an_out_of_memory_kill_ends_the_whole_run() {
    // The survivor would keep the run alive: v1 kills only the hog.
    let mut hog = spec(&format!("sleep 600 & ({HOG}); echo the hog is dead; wait"));
    hog.limits.memory_bytes_max = 32 << 20;
    hog.required_limits = vec![LimitKind::Memory];
    let (ending, events) = run(&hog);
    assert_eq!(ending.killed, Some(KillReason::OutOfMemory), "{ending:?}");
    assert!(!ending.worker_lost);
    assert_eq!(events.killing, Some(KillReason::OutOfMemory));
    let hit = hit(&ending, LimitKind::Memory).unwrap();
    assert!(hit.count >= 1 && hit.max == 32 << 20 && hit.peak > 30 << 20 && hit.peak <= 32 << 20, "{hit:?}");
}

#[test]
fn a_command_killed_for_memory_is_out_of_memory_and_never_a_mere_signal() {
    let mut hog = spec(HOG);
    hog.limits.memory_bytes_max = 16 << 20;
    for _ in 0..5 {
        let (ending, _) = run(&hog);
        assert_eq!(ending.killed, Some(KillReason::OutOfMemory), "{ending:?}");
        assert!(hit(&ending, LimitKind::Memory).unwrap().count >= 1);
    }
}

/// Runs a command that loses a child to the memory limit and exits with `status` while the supervisor is blocked in its
/// sink: otherwise it would mostly be killed before it can exit.
fn lose_a_child_during_a_blocked_sink(status: i32) -> (Ending, RunEvents) {
    let workspace = tempfile::tempdir().unwrap();
    let go = workspace.path().join("go");
    let script = format!("echo ready; until [ -e {} ]; do sleep 0.01; done; ({HOG}); exit {status}", go.display());
    let mut survivor = spec(&script);
    survivor.jail.workspace = workspace.path().to_owned();
    survivor.limits.memory_bytes_max = 16 << 20;
    let (ending, events) = try_run(&survivor, &KillSwitch::new().unwrap(), |events| {
        if events.stdout == "ready\n" && !go.exists() {
            std::fs::write(&go, "").unwrap();
            wait_until("the commands are over", are_commands_over);
        }
    })
    .unwrap();
    assert!(go.exists() && hit(&ending, LimitKind::Memory).is_some_and(|hit| hit.count >= 1), "{ending:?}");
    (ending, events)
}

#[test]
fn an_out_of_memory_kill_that_the_last_command_survives_is_evidence_and_no_verdict() {
    let (ending, events) = lose_a_child_during_a_blocked_sink(0);
    if Cgroups::current().kill_whole_runs() {
        // Nothing survives it: init has died too, so it cannot report how the command ended.
        assert_eq!((ending.killed, ending.exits.len()), (Some(KillReason::OutOfMemory), 0), "{ending:?}");
        assert_eq!(events.event_words, ["started", "command 0", "killing"]);
        return assert!(!ending.worker_lost);
    }
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!(events.event_words, ["started", "command 0", "exited 0"]);
}

#[test]
fn a_command_that_loses_a_child_to_the_memory_limit_and_fails_is_out_of_memory() {
    let (ending, events) = lose_a_child_during_a_blocked_sink(3);
    assert_eq!(ending.killed, Some(KillReason::OutOfMemory), "{ending:?}");
    assert_eq!(events.killing, Some(KillReason::OutOfMemory));
    assert!(!ending.worker_lost);
}

#[test]
fn an_exit_status_of_137_alone_is_not_out_of_memory() {
    let (ending, _) = run(&spec("exit 137"));
    assert_exits(&ending, &[Exit::Code(137)]);
    let (ending, _) = run(&spec("kill -KILL $$"));
    assert_exits(&ending, &[Exit::Signal(9)]);
    assert_eq!(ending.limit_hits, []);
}

#[test]
fn a_fork_bomb_is_refused_at_the_pids_limit_and_counted() {
    let mut bomb = spec("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 600 & done; exit 7");
    bomb.limits.pids_max = 8;
    bomb.required_limits = vec![LimitKind::Pids];
    let (ending, events) = run(&bomb);
    assert_eq!(ending.killed, None, "{ending:?} {events:?}");
    let hit = hit(&ending, LimitKind::Pids).unwrap();
    assert!(hit.count >= 1 && hit.max == 8 && hit.peak == 8, "{hit:?}");
}

#[test]
fn an_endless_fork_bomb_ends_with_its_deadline() {
    let mut bomb = spec("exec perl -e '$SIG{TERM} = \"IGNORE\"; fork while 1'");
    bomb.limits = Limits { pids_max: 64, wall_ms_max: 5_000, grace_ms: 200, ..bomb.limits };
    let (ending, _) = run(&bomb);
    assert_eq!(ending.killed, Some(KillReason::Deadline), "{ending:?}");
    assert!(hit(&ending, LimitKind::Pids).unwrap().count >= 1);
}

#[test]
fn a_spinning_run_is_throttled_by_its_cpu_limit() {
    // Spins for some seconds, however much it gets done: a loop of some length would take minutes on a busy host.
    let mut spin = spec("exec perl -e '$end = time + 3; 1 while time < $end'");
    spin.limits.cpu_millis_max = 50;
    spin.required_limits = vec![LimitKind::Cpu];
    let (ending, events) = run(&spin);
    assert_exits(&ending, &[Exit::Code(0)]);
    let used = ending.resources;
    assert!(used.throttled_s.unwrap() > 0.05, "{used:?}");
    let cpu = events.isolation.unwrap().limits.into_iter().find(|limit| limit.limit == LimitKind::Cpu).unwrap();
    assert_eq!((cpu.max, cpu.by.as_str()), (50, Cgroups::current().by));
}

#[test]
fn a_full_tmp_stays_within_its_size_and_is_reported() {
    let mut filler = spec("head -c 100000000 /dev/zero > /tmp/fill; stat -c %s /tmp/fill");
    filler.limits.tmp_bytes_max = 1 << 20;
    let (ending, events) = run(&filler);
    assert_eq!(ending.killed, None);
    let size: u64 = events.stdout.trim().parse().unwrap();
    assert!(size <= 1 << 20, "{size}");
    assert_eq!(hit(&ending, LimitKind::Tmp).unwrap().max, 1 << 20);
}

#[test]
fn inodes_of_tmp_are_bounded_too() {
    let mut filler = spec("cd /tmp; i=0; while true > $i; do i=$((i+1)); done 2>/dev/null; echo $i");
    filler.limits.tmp_bytes_max = 1 << 20;
    let (ending, events) = run(&filler);
    assert_eq!(ending.exits, [Exit::Code(0)], "{events:?}");
    assert!(events.stdout.trim().parse::<u64>().unwrap() < 1_024);
    assert!(hit(&ending, LimitKind::Tmp).is_some());
}

#[test]
fn an_output_flood_is_cut_off_at_its_bound() {
    let mut flood = spec("yes");
    flood.limits.log_bytes_max = 1_000_000;
    let (ending, events) = run(&flood);
    assert_eq!(ending.killed, Some(KillReason::OutputFlood));
    assert_eq!(events.stdout.len(), 1_000_000);
    assert!(ending.resources.output_bytes > 1_000_000);
    assert_eq!(events.event_words, ["started", "command 0", "killing"]);
    assert!(hit(&ending, LimitKind::Log).is_some());
}

#[test]
fn output_of_exactly_the_bound_is_no_flood() {
    let mut edge = spec("head -c 600000 /dev/zero; head -c 400000 /dev/zero >&2");
    edge.limits.log_bytes_max = 1_000_000;
    let (ending, events) = run(&edge);
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!(events.stdout.len() + events.stderr.len(), 1_000_000);
}

#[test]
fn the_output_bound_counts_all_commands_together() {
    let mut two = spec("head -c 600000 /dev/zero");
    two.commands.push(sh("head -c 600000 /dev/zero; sleep 600"));
    two.limits.log_bytes_max = 1_000_000;
    let (ending, _) = run(&two);
    assert_eq!((ending.killed, ending.exits), (Some(KillReason::OutputFlood), vec![Exit::Code(0)]));
}

#[test]
fn limits_at_their_ceilings_are_accepted() {
    let mut most = spec("true");
    most.limits = Limits::CEILING;
    most.required_limits = vec![LimitKind::Memory, LimitKind::Cpu, LimitKind::Pids, LimitKind::Tmp];
    let (ending, _) = try_run(&most, &KillSwitch::new().unwrap(), |_| {}).unwrap();
    assert_exits(&ending, &[Exit::Code(0)]);
}

#[test]
fn too_little_memory_for_the_worker_is_reported_without_a_timeout() {
    let mut tiny = spec("true");
    tiny.limits.memory_bytes_max = 64 << 10;
    let _alone = one_at_a_time();
    let outcome = sandbox().run(&tiny, &KillSwitch::new().unwrap(), &mut |_| {});
    assert_no_leftovers();
    match outcome {
        Ok(ending) => assert_eq!(ending.killed, Some(KillReason::OutOfMemory), "{ending:?}"),
        // Nothing was waited for until a timeout.
        Err(error) => {
            let text = format!("{error:?}");
            assert!(!["timed out", "TimedOut"].iter().any(|vain| text.contains(vain)), "{text}");
        }
    }
}

#[test]
fn socket_buffers_are_limited_with_the_runs_memory() {
    let prelude = "
import socket
keep = []
def held(file):
    queues = [line.split()[4].split(chr(58)) for line in open(file).readlines()[1:]]
    return sum(int(sent, 16) + int(received, 16) for sent, received in queues)";
    let udp = "
for _ in range(40):
    to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    to.bind((\"127.0.0.1\", 0))
    by = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    by.connect(to.getsockname())
    by.setblocking(False)
    keep += [to, by]
    try:
        for _ in range(50): by.send(b\"x\" * 60000)
    except BlockingIOError: pass
print(held(\"/proc/net/udp\"))";
    let tcp = "
listener = socket.socket()
listener.bind((\"127.0.0.1\", 0))
listener.listen(99)
for _ in range(20):
    by = socket.socket()
    by.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    by.connect(listener.getsockname())
    by.setblocking(False)
    keep += [by, listener.accept()[0]]
    try:
        while True: by.send(b\"x\" * 1000000)
    except BlockingIOError: pass
print(held(\"/proc/net/tcp\"))";
    for (what, script) in [("udp", udp), ("tcp", tcp)] {
        let mut greedy = spec(&format!("exec python3 -c '{prelude}{script}'"));
        greedy.limits.memory_bytes_max = 32 << 20;
        let (ending, events) = run(&greedy);
        // v2 counts them as memory, and may kill for it.
        if ending.killed != Some(KillReason::OutOfMemory) {
            let buffered_bytes: u64 =
                events.stdout.trim().parse().unwrap_or_else(|_| panic!("{what}: {ending:?} {events:?}"));
            assert!(buffered_bytes > 1 << 20 && buffered_bytes <= 33 << 20, "{what}: {buffered_bytes} {ending:?}");
        }
    }
}

#[test]
fn kills_a_run_for_kernel_memory_that_no_controller_counts() {
    let locks = "
import fcntl, os, time
keep = []
for name in range(160):
    file = os.open(f\"/tmp/{name}\", os.O_RDWR | os.O_CREAT)
    keep.append(file)
    for at in range(2500, 0, -1): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * at)
time.sleep(600)";
    let netlink = "
import socket, struct, sys, time
keep = []
ask = struct.pack(\"=IHHII\", 32, 18, 1, 1, 0) + struct.pack(\"=BxHiII\", 0, 0, 1, 0, 0)
for _ in range(12):
    end = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    end.bind((0, 0))
    keep.append(end)
    for _ in range(10000): end.send(ask)
held = sum(int(line.split()[4]) for line in open(\"/proc/net/netlink\").readlines()[1:])
if held < 32 << 20: sys.exit(print(held))
time.sleep(600)";
    for (what, script) in [("locks", locks), ("netlink", netlink)] {
        let mut greedy = spec(&format!("exec python3 -c '{script}'"));
        greedy.limits.memory_bytes_max = 128 << 20;
        greedy.jail.network = Network::None;
        let (ending, events) = run(&greedy);
        // Older kernels let no socket hold more than its own bound.
        if what == "netlink"
            && events.stdout.trim().parse::<u64>().is_ok_and(|buffered_bytes| buffered_bytes < 32 << 20)
        {
            continue;
        }
        assert_eq!(ending.killed, Some(KillReason::KernelMemory), "{what}: {ending:?} {events:?}");
        assert!(ending.notes.iter().any(|note| note.contains("locks on files")), "{what}: {:?}", ending.notes);
    }
}

const DISK_MAX: u64 = 16 << 20;

/// A run in the workspace of `disk` that may put [`DISK_MAX`] there.
fn spec_on(disk: &OwnDisk, script: &str) -> RunSpec {
    let mut spec = spec(script);
    spec.jail.workspace = disk.workspace();
    spec.commands[0].dir = disk.workspace();
    spec.limits.disk_bytes_max = DISK_MAX;
    spec.required_limits = vec![LimitKind::Disk];
    spec
}

#[test]
fn a_run_that_exceeds_its_disk_limit_is_killed_and_reported() {
    let rows = [
        ("a large file", "head -c 64M /dev/zero > file; sleep 600"),
        ("many files", "mkdir d; for i in 1 2 3 4 5 6 7 8; do head -c 8M /dev/zero > d/$i; done; sleep 600"),
        (
            "a byte in each block",
            "exec python3 -c '
import os, time
os.posix_fallocate(os.open(\"file\", os.O_RDWR | os.O_CREAT), 0, 64 << 20); time.sleep(600)'",
        ),
        ("a deleted file", "exec 9> file; rm file; head -c 64M /dev/zero >&9; sleep 600"),
        (
            "a deleted file of a background process",
            "(exec 9> file; rm file; head -c 64M /dev/zero >&9; sleep 600) & wait",
        ),
        (
            "a deleted file that is mapped and not open",
            "exec python3 -c '
import ctypes, os, time
c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p; size = ctypes.c_size_t(64 << 20)
f = os.open(\"file\", os.O_RDWR | os.O_CREAT); os.ftruncate(f, 64 << 20)
at = c.mmap(None, size, 3, 1, f, ctypes.c_long(0)); os.unlink(\"file\"); os.close(f)
ctypes.memset(at, 1, size); time.sleep(600)'",
        ),
        ("files with an old modification time", "head -c 64M /dev/zero > file; touch -d 1980-01-01 file; sleep 600"),
        ("in the grace", "trap 'head -c 64M /dev/zero > file; sleep 600' TERM; sleep 600 & wait; wait"),
    ];
    for (what, script) in rows {
        let disk = OwnDisk::with_bytes(256 << 20);
        let mut greedy = spec_on(&disk, script);
        let in_the_grace = what == "in the grace";
        if in_the_grace {
            greedy.limits.wall_ms_max = 6_000;
            greedy.limits.grace_ms = LONG_GRACE_MS;
        }
        let (ending, events) = bounded(|| run(&greedy));
        let why = if in_the_grace { KillReason::Deadline } else { KillReason::DiskFull };
        assert_eq!(ending.killed, Some(why), "{what}: {ending:?} {events:?}");
        assert_eq!(events.killing, Some(why), "{what}");
        let hit = hit(&ending, LimitKind::Disk).unwrap();
        assert!(
            hit.max == DISK_MAX && hit.peak > DISK_MAX && hit.peak <= 65 << 20 && hit.count == 1,
            "{what}: {hit:?}"
        );
        let disk = events.isolation.unwrap().limits.into_iter().find(|limit| limit.limit == LimitKind::Disk).unwrap();
        assert_eq!((disk.max, disk.by.as_str()), (DISK_MAX, "supervisor"));
    }
}

#[test]
fn a_deleted_file_counts_in_a_workspace_of_many_files() {
    let disk = OwnDisk::with_bytes(256 << 20);
    for number in 0..100_000 {
        std::fs::File::create(disk.workspace().join(format!("{number}"))).unwrap();
    }
    let (ending, _) = run(&spec_on(&disk, "exec 9> file; rm file; head -c 200M /dev/zero >&9; sleep 600"));
    assert_eq!(ending.killed, Some(KillReason::DiskFull), "{ending:?}");
    assert!(hit(&ending, LimitKind::Disk).is_some());
}

#[test]
fn fallocate_cannot_take_space_in_one_call() {
    let disk = OwnDisk::with_bytes(256 << 20);
    let (ending, events) = run(&spec_on(&disk, "fallocate -l 64M file; stat -c '%s %b' file; : > other; du -k ."));
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!(events.stdout.lines().collect::<Vec<_>>(), ["0 0", "0\t."], "{events:?}");
    assert!(events.stderr.contains("Operation not supported"), "{events:?}");
    let mut bare = spec_on(&disk, "fallocate -l 64M space; sleep 600");
    bare.jail.left_off = vec![Layer::Seccomp];
    assert_eq!(run(&bare).0.killed, Some(KillReason::DiskFull));
}

#[test]
fn too_many_files_exceed_the_disk_limit() {
    let disk = OwnDisk::with_bytes(256 << 20);
    let flood = "import os, time
os.mkdir(\"d\"); os.chdir(\"d\")
for i in range(150000): os.mknod(str(i))
time.sleep(600)";
    let mut flood = spec_on(&disk, &format!("exec python3 -c '{flood}'"));
    flood.limits.disk_bytes_max = 200 << 20;
    let (ending, _) = run(&flood);
    assert_eq!(ending.killed, Some(KillReason::DiskFull), "{ending:?}");
    assert!(hit(&ending, LimitKind::Disk).is_some());
}

#[test]
fn files_of_others_and_old_files_do_not_count_for_the_run() {
    let disk = OwnDisk::with_bytes(256 << 20);
    std::fs::write(disk.workspace().join("old"), vec![7; 64 << 20]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let neighbour = disk.path().join("neighbour");
    // An old large file is touched, a neighbour fills the disk, and the run's own writes are within its limit.
    let modest = spec_on(&disk, "head -c 8M /dev/zero > new; echo ready; sleep 1");
    let (ending, _) = try_run(&modest, &KillSwitch::new().unwrap(), |events| {
        if events.stdout == "ready\n" && !neighbour.exists() {
            std::fs::write(&neighbour, vec![7; 64 << 20]).unwrap();
        }
    })
    .unwrap();
    assert_exits(&ending, &[Exit::Code(0)]);
    let (ending, _) = run(&spec_on(&disk, "touch old; chmod 600 old; sleep 1"));
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!(hit(&ending, LimitKind::Disk), None);
    // As large as before: no growth.
    let (ending, _) = run(&spec_on(&disk, "rm old; head -c 64M /dev/zero > old; sleep 1"));
    assert_exits(&ending, &[Exit::Code(0)]);
}

#[test]
fn reports_a_full_disk_and_a_full_tmp_for_bytes_and_for_inodes() {
    let disk = OwnDisk::with_bytes(4 << 20);
    let filler = "for i in $(seq 300000); do : > $i; done 2>/dev/null; exit 1";
    let rows = [
        ("head -c 64M /dev/zero > file", LimitKind::Disk),
        ("cd /tmp; head -c 64M /dev/zero > file", LimitKind::Tmp),
        (&format!("cd /tmp; {filler}"), LimitKind::Tmp),
    ];
    for (script, limit) in rows {
        let mut spec = spec_on(&disk, script);
        spec.limits.tmp_bytes_max = 1 << 20;
        let (ending, events) = run(&spec);
        assert!(ending.exits == [Exit::Code(1)] || ending.exits == [Exit::Code(2)], "{script}: {ending:?} {events:?}");
        let hit = hit(&ending, limit).unwrap();
        assert_eq!(hit.count, 1, "{script}: {hit:?}");
    }
}

/// Bytes that a run may write in a second, and bytes of buffered writes if nothing limits them.
const PACE: u64 = 8 << 20;
const BUFFERED: u64 = 512 << 20;

/// v1 does not know whose pages the kernel writes back. Five seconds by the run's own clock are enough for 56 MiB.
#[test]
fn buffered_writes_are_limited_on_v1() {
    let is_v1 = Cgroups::current().by != "cgroup-v2";
    // On v2 the kernel limits them, and a guest has little space.
    let wanted = if is_v1 { BUFFERED } else { PACE };
    let writer = format!(
        "import os, time
file, chunk, written, until = os.open(\"file\", os.O_RDWR | os.O_CREAT), bytes(4 << 20), 0, time.monotonic() + 5
while written < {wanted} and time.monotonic() < until:
    written += os.write(file, chunk)
    time.sleep(0.005)
print(written)"
    );
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut writing = spec(&format!("exec python3 -c '{writer}'"));
    writing.jail.workspace = workspace.path().to_owned();
    writing.commands[0].dir = workspace.path().to_owned();
    writing.limits.write_bytes_per_s_max = PACE;
    let (ending, events) = run(&writing);
    assert_exits(&ending, &[Exit::Code(0)]);
    let written: u64 = events.stdout.trim().parse().unwrap();
    let notes = ending.notes.iter().filter(|note| note.contains("held back") && note.contains("8192 KiB a second"));
    assert_eq!(notes.count(), usize::from(is_v1), "{ending:?}");
    assert!(written < BUFFERED, "{written} {ending:?}");
}

#[test]
fn a_frozen_run_receives_sigterm_at_its_deadline() {
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    // As much as takes minutes at that rate; on v2 the run waits for nothing.
    let mut writing = spec("trap 'echo heard; exit 7' TERM; head -c 64M /dev/zero > file; while :; do sleep 0.1; done");
    writing.jail.workspace = workspace.path().to_owned();
    writing.commands[0].dir = workspace.path().to_owned();
    writing.limits =
        Limits { write_bytes_per_s_max: 100 << 10, wall_ms_max: 2_000, grace_ms: 60_000, ..writing.limits };
    let (ending, events) = run(&writing);
    assert_eq!((ending.killed, events.stdout.as_str()), (Some(KillReason::Deadline), "heard\n"), "{ending:?}");
}

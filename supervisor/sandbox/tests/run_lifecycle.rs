//! Events and ending of ordinary runs.

#[cfg(test)]
mod support;

use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::LimitKind;
use proctor_core::outcome::{Exit, KillReason};
use proctor_core::request::ReplacedFile;
use proctor_sandbox::{Jail, KillSwitch, LAYERS, LinuxSandbox, PoolBounds, RunAs, Sandbox, SandboxError, ScratchFile};
use std::sync::Arc;
use std::time::Duration;
use support::*;

#[test]
fn both_streams_arrive_whole_and_before_the_exit() {
    let (ending, events) = run(&spec("echo out; echo err >&2; exit 3"));
    assert_exits(&ending, &[Exit::Code(3)]);
    assert_eq!((events.stdout.as_str(), events.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(events.event_words, ["started", "command 0", "exited 0"]);
    assert_eq!(ending.resources.output_bytes, 8);
}

#[test]
fn a_report_by_several_writers_arrives_whole_and_before_the_exit() {
    let mut two = spec(
        "echo a > /tmp/proctor/report; (sleep 0.1; echo b > /tmp/proctor/report) & wait; echo c > /tmp/proctor/report",
    );
    two.commands.push(sh("exec 3> /tmp/proctor/report; echo d >&3; head -c 1000000 /dev/zero >&3"));
    two.commands.push(sh("echo e > /tmp/proctor/report; exec sleep 600"));
    two.report = true;
    let kill = KillSwitch::new().unwrap();
    let (ending, events) = try_run(&two, &kill, |events| {
        if events.report.ends_with("e\n") {
            kill.kill(KillReason::Cancelled);
        }
    })
    .unwrap();
    assert_eq!(ending.killed, Some(KillReason::Cancelled));
    assert_eq!(events.report.replace('\0', ""), "a\nb\nc\n<0>d\n<1>e\n");
    assert_eq!(events.report.len(), "a\nb\nc\n<0>d\n<1>e\n".len() + 1_000_000);
    assert_eq!(ending.resources.output_bytes, 1_000_010);
}

#[test]
fn a_late_reader_keeps_the_reports_of_commands_apart() {
    let mut two = spec("echo a > /tmp/proctor/report");
    two.commands.push(sh("echo b > /tmp/proctor/report"));
    // The run can neither replace nor read the FIFO.
    two.commands
        .push(sh("test -p /tmp/proctor/report && ! mv /tmp/proctor/report /tmp/old && ! rm -f /tmp/proctor/report && ! test -r /tmp/proctor/report"));
    two.commands.push(sh("echo c > /tmp/proctor/report"));
    two.report = true;
    let (ending, events) = try_run(&two, &KillSwitch::new().unwrap(), |events| {
        // Meanwhile the first command ends and the second reports everything.
        if events.report == "a\n" {
            std::thread::sleep(Duration::from_millis(300));
        }
    })
    .unwrap();
    assert_exits(&ending, &[Exit::Code(0); 4]);
    assert_eq!(events.report, "a\n<0>b\n<1><2>c\n<3>");
}

#[test]
fn a_flooded_report_is_an_output_flood() {
    let mut flood = spec("cat /dev/zero > /tmp/proctor/report");
    (flood.report, flood.limits.log_bytes_max) = (true, 1 << 20);
    assert_eq!(run(&flood).0.killed, Some(KillReason::OutputFlood));
}

#[test]
fn a_megabyte_on_both_streams_at_once_does_not_stall() {
    let (ending, events) = run(&spec("head -c 1000000 /dev/zero & head -c 1000000 /dev/zero >&2 & wait"));
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!((events.stdout.len(), events.stderr.len()), (1_000_000, 1_000_000));
    assert!(events.chunk_max <= 64 * 1024);
}

/// As on a host with few processors: each of the first reads is followed by a pause that is longer than a dead
/// command's streams may stay open.
#[test]
fn a_delayed_supervisor_reads_the_rest_of_the_pipes() {
    // Four reads' worth at once, and no more: with a pipe of the usual size the command would wait for the reader.
    let script = "python3 -c 'import fcntl, os; fcntl.fcntl(1, 1031, 1 << 18); os.write(1, b\"x\" * (1 << 18))'";
    let (mut pauses_left, mut read) = (3, 0);
    let (ending, events) = try_run(&spec(script), &KillSwitch::new().unwrap(), |events| {
        if events.stdout.len() > read && pauses_left > 0 {
            (pauses_left, read) = (pauses_left - 1, events.stdout.len());
            std::thread::sleep(Duration::from_millis(2_100));
        }
    })
    .unwrap();
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!((events.stdout.len(), pauses_left), (1 << 18, 0));
}

#[test]
fn a_supervisor_delayed_beyond_the_deadline_handles_the_exit_first() {
    let mut quick = spec("echo x");
    quick.limits.wall_ms_max = 1_000;
    let mut pauses_left = 1;
    let (ending, events) = try_run(&quick, &KillSwitch::new().unwrap(), |events| {
        if !events.stdout.is_empty() && pauses_left > 0 {
            pauses_left -= 1;
            std::thread::sleep(Duration::from_millis(1_500));
        }
    })
    .unwrap();
    assert_exits(&ending, &[Exit::Code(0)]);
    assert!(ending.killed.is_none() && events.killing.is_none() && pauses_left == 0, "{ending:?}");
}

#[test]
fn distinguishes_exit_codes_from_signals() {
    for (script, exit) in [
        ("exit 0", Exit::Code(0)),
        ("exit 137", Exit::Code(137)),
        ("kill -SEGV $$", Exit::Signal(11)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill -s 40 $$", Exit::Signal(40)),
    ] {
        let (ending, _) = run(&spec(script));
        assert_exits(&ending, &[exit]);
    }
}

#[test]
fn a_command_that_cannot_be_started_adds_a_note_with_the_reason() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let workspace = tempfile::tempdir_in("/tmp").unwrap();
    let put = |name: &str, text: &[u8], mode: u32| {
        let path = workspace.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    };
    put("plain", b"echo x\n", 0o755);
    put("broken", b"\x7fELFjunk", 0o755);
    put("orphan", b"#!/nowhere/sh\n", 0o755);
    put("closed", b"#!/bin/sh\n", 0o644);
    let of_user = |uid: u32, program: &str, dir: &str| {
        let mut spec = spec("");
        spec.jail = Jail { run_as: RunAs::User { uid, gid: uid }, ..Jail::new(workspace.path()) };
        spec.commands[0].program = workspace.path().join(program);
        spec.commands[0].dir = workspace.path().join(dir);
        // The second command has the same note, which is added once.
        spec.commands.push(spec.commands[0].clone());
        run(&spec).0
    };
    chown(workspace.path(), Some(200_007), Some(200_007)).unwrap();
    std::fs::set_permissions(workspace.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let rows = [
        (200_007, "plain", "", libc::ENOEXEC, "`plain` was not started: it has no `#!` line"),
        (200_007, "broken", "", libc::ENOEXEC, "is no program of this machine"),
        (200_007, "orphan", "", libc::ENOENT, "its interpreter is missing"),
        (200_007, "nowhere", "", libc::ENOENT, "`nowhere` was not started: no such file"),
        (200_007, "closed", "", libc::EACCES, "may not be executed by the run's user 200007"),
        (200_007, "/bin/sh", "nowhere", libc::ENOENT, "could not enter `nowhere`"),
        // The directory is closed to other users.
        (200_008, "/bin/sh", "", libc::EACCES, "the run's user 200008 may not enter the workspace: chown or chmod it"),
    ];
    for (uid, program, dir, errno, words) in rows {
        let ending = of_user(uid, program, dir);
        assert_exits(&ending, &[Exit::NotStarted(errno); 2]);
        let [note] = ending.notes.as_slice() else { panic!("{ending:?}") };
        assert!(note.contains(words), "{note}");
        assert!(!note.contains("/tmp"), "no path of the host: {note}");
    }
    assert_eq!(of_user(200_007, "/bin/true", "").notes, [""; 0]);
}

#[test]
fn commands_run_one_after_the_other_although_one_fails() {
    let mut three = spec("echo one; exit 1");
    three.commands.push(sh("echo two"));
    three.commands.push(sh("echo three; exit 3"));
    let (ending, events) = run(&three);
    assert_exits(&ending, &[Exit::Code(1), Exit::Code(0), Exit::Code(3)]);
    assert_eq!(events.stdout, "one\ntwo\nthree\n");
    let order = ["started", "command 0", "exited 0", "command 1", "exited 1", "command 2", "exited 2"];
    assert_eq!(events.event_words, order);
}

#[test]
fn a_command_gets_only_its_environment_its_directory_and_default_signals() {
    let mut bare = spec("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort; pwd; ls /proc/self/fd | wc -l");
    bare.commands[0].dir = "/usr/bin".into();
    bare.commands[0].env.push(("A".into(), "b c".into()));
    let (_, events) = run(&bare);
    // Four: the three streams, and the directory that `ls` reads.
    assert_eq!(events.stdout, "A=b c\nPATH=/usr/local/bin:/usr/bin:/bin\n/usr/bin\n4\n");
    // Signals 32 and 33 belong to the C library, which does not reset them.
    let (_, events) = run(&spec(
        "grep -E '^Sig(Blk|Ign)' /proc/self/status | sed s/0000000180000000/0000000000000000/; cat; echo eof",
    ));
    assert_eq!(events.stdout, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\neof\n");
}

#[test]
fn passes_scratch_files_in_and_returns_artefacts() {
    let mut helped = spec("/tmp/proctor/bin/hello > /tmp/proctor/work/deep/a; cat /tmp/proctor/data; ls /tmp/proctor");
    helped.scratch_files = vec![
        ScratchFile { path: "bin/hello".into(), bytes: b"#!/bin/sh\necho hello\n".to_vec(), executable: true },
        ScratchFile { path: "data".into(), bytes: vec![b'x'; 300_000], executable: false },
    ];
    helped.scratch_dirs = vec!["work/deep".into()];
    helped.artifacts = "work".into();
    let (ending, events) = run(&helped);
    assert_exits(&ending, &[Exit::Code(0)]);
    assert_eq!(events.stdout.len(), 300_000 + "artifacts\nbin\ncache\ndata\nhome\nwork\n".len());
    assert_eq!(ending.artifacts.len(), 1);
    assert_eq!((ending.artifacts[0].path.as_str(), ending.artifacts[0].bytes.as_slice()), ("deep/a", &b"hello\n"[..]));
    assert!(!std::path::Path::new("/tmp/proctor").exists());
}

/// A test that rewrote a helper would decide what the next command of its run reports. Neither the name nor the mount
/// can be changed.
#[test]
fn a_helper_is_the_same_for_every_command_of_a_run() {
    let attempts = [
        "echo forged > /tmp/proctor/bin/helper",
        "chmod u+w /tmp/proctor/bin",
        "rm -f /tmp/proctor/bin/helper",
        "mv /tmp/proctor/bin /tmp/proctor/work/bin",
        "touch /tmp/proctor/new",
        "mv /tmp/proctor /tmp/other",
        "rmdir /tmp/proctor/home",
        "ln /tmp/proctor/bin/helper /tmp/proctor/work/helper",
    ];
    let refused: String =
        attempts.iter().map(|attempt| format!("if {attempt}; then echo '{attempt}'; fi 2> /dev/null; ")).collect();
    let mut helped =
        spec(&format!("{refused} echo mine > /tmp/proctor/home/mine && echo mine > /tmp/proctor/work/mine"));
    helped.commands.push(sh("/tmp/proctor/bin/helper; cat /tmp/proctor/home/mine /tmp/proctor/home/settings"));
    let file = |path: &str, text: &[u8]| ScratchFile { path: path.into(), bytes: text.into(), executable: true };
    helped.scratch_files = vec![file("bin/helper", b"#!/bin/sh\necho ours\n"), file("home/settings", b"set\n")];
    let (ending, events) = run(&helped);
    assert_exits(&ending, &[Exit::Code(0); 2]);
    assert_eq!(events.stdout, "ours\nmine\nset\n");
}

/// Code compiled from a helper of the last run is valid in the next run, and never for another helper.
#[test]
fn the_modification_time_of_a_scratch_file_depends_on_its_content() {
    let times_of = |content: &str| {
        let mut helped = spec("stat -c %Y /tmp/proctor/a /tmp/proctor/b");
        let file = |path: &str, content: &str| ScratchFile {
            path: path.into(),
            bytes: content.as_bytes().to_vec(),
            executable: false,
        };
        helped.scratch_files = vec![file("a", content), file("b", "another")];
        let (_, events) = run(&helped);
        events.stdout.lines().map(|line| line.parse().unwrap()).collect::<Vec<i64>>()
    };
    let first = times_of("print(1)");
    assert_eq!(first.len(), 2);
    assert_eq!(times_of("print(1)"), first);
    let then = times_of("print(2)");
    assert!(then[0] != first[0] && then[1] == first[1], "{first:?} {then:?}");
}

/// The workspace is below `/tmp`, which the run has its own of, and elsewhere.
#[test]
fn a_replaced_file_has_its_other_content_only_inside() {
    for parent in [std::env::temp_dir(), std::env::current_dir().unwrap()] {
        let workspace = tempfile::tempdir_in(parent).unwrap();
        let root = workspace.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("src")).unwrap();
        std::fs::write(root.join("src/a.sh"), "echo original\n").unwrap();
        let path = root.join("src/a.sh").display().to_string();
        let mut replaced = spec(&format!(
            "cat {path}; stat -c %Y {path}; for change in 'echo x > {path}' 'rm -f {path}' 'umount {path}'; do \
             sh -c \"$change\" 2> /dev/null && echo \"$change\"; done; true"
        ));
        replaced.jail = Jail::new(&root);
        replaced.jail.replaced_file =
            Some(Arc::new(ReplacedFile { path: "src/a.sh".into(), text: "echo mutant\n".into() }));
        let (ending, events) = run(&replaced);
        assert_exits(&ending, &[Exit::Code(0)]);
        let lines: Vec<&str> = events.stdout.lines().collect();
        assert_eq!((lines[0], lines.len()), ("echo mutant", 2), "{}", events.stdout);
        let time = std::fs::metadata(root.join("src/a.sh")).unwrap().modified().unwrap();
        let time = time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert_ne!(
            lines[1].parse::<u64>().unwrap(),
            time,
            "a cache of compiled code must not take it for the original"
        );
        assert_eq!(std::fs::read_to_string(root.join("src/a.sh")).unwrap(), "echo original\n");
    }
}

#[test]
fn no_file_behind_a_link_or_outside_the_workspace_is_replaced() {
    let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = workspace.path().canonicalize().unwrap();
    std::fs::write(outside.path().join("a"), "original").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.join("dir")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("a"), root.join("link")).unwrap();
    for path in ["dir/a", "link", "missing", "."] {
        let mut replaced = spec("true");
        replaced.jail = Jail::new(&root);
        replaced.jail.replaced_file = Some(Arc::new(ReplacedFile { path: path.into(), text: "mutant".into() }));
        let refused = try_run(&replaced, &KillSwitch::new().unwrap(), |_| {}).unwrap_err();
        assert!(format!("{refused:?}").contains("replaced "), "{path}: {refused:?}");
    }
}

#[test]
fn reports_everything_in_force_before_the_first_command() {
    let (_, events) = run(&spec("true"));
    let isolation = events.isolation.unwrap();
    // The workspace belongs to the supervisor's user, who is also the run's.
    let layers: Vec<Layer> = LAYERS.into_iter().filter(|layer| *layer != Layer::TenantUid).collect();
    assert_eq!(isolation.layers, layers, "{:?}", isolation.missing);
    let missing: Vec<&str> = isolation.missing.iter().map(|missing| missing.name.as_str()).collect();
    assert_eq!(missing, ["tenant_uid"]);
    assert_eq!(isolation.network, Network::None);
    let max = |kind| isolation.limits.iter().find(|limit| limit.limit == kind).map(|limit| limit.max);
    assert_eq!(max(LimitKind::Memory), Some(2048 << 20));
    assert_eq!(max(LimitKind::Cpu), Some(2_000));
    assert_eq!(max(LimitKind::Pids), Some(512));
    assert_eq!(max(LimitKind::Wall), Some(600_000));
    assert_eq!(max(LimitKind::Log), Some(256 << 20));
    assert_eq!(max(LimitKind::Tmp), Some(1024 << 20));
}

#[test]
fn reports_the_resources_of_the_run() {
    // Some 0.3 s of processor time, on any processor.
    let busy =
        "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 50000000 /dev/zero | tail -c 50000000 | wc -c";
    let (ending, _) = run(&spec(busy));
    let used = ending.resources;
    assert!(used.cpu_user_s > 0.05 && used.cpu_user_s < 60.0, "{used:?}");
    assert!(used.cpu_system_s > 0.0 && used.wall_s > 0.0 && used.setup_s > 0.0, "{used:?}");
    assert!(used.memory_peak_bytes.unwrap() > 50_000_000, "{used:?}");
    assert!(used.pids_peak.unwrap() >= 5, "{used:?}");
    assert!(used.throttled_s.is_some(), "{used:?}");
    assert_eq!(ending.limit_hits, []);
}

#[test]
fn refuses_an_invalid_specification_and_a_missing_workspace() {
    let mut relative = spec("true");
    relative.commands[0].program = "sh".into();
    let kill = KillSwitch::new().unwrap();
    assert!(matches!(try_run(&relative, &kill, |_| {}), Err(SandboxError::InvalidSpec { .. })));
    let mut gone = spec("true");
    gone.jail.workspace = "/nowhere/at/all".into();
    assert!(matches!(try_run(&gone, &kill, |_| {}), Err(SandboxError::WorkspaceGone { .. })));
    let mut own = spec("true");
    own.jail.required_layers = vec![Layer::TenantUid];
    assert!(matches!(try_run(&own, &kill, |_| {}), Err(SandboxError::LayerMissing { layer: Layer::TenantUid, .. })));
    assert!(matches!(
        LinuxSandbox::new("/nowhere/worker".into(), PoolBounds::NONE),
        Err(SandboxError::WorkerMissing { .. })
    ));
}

#[test]
fn another_program_as_the_worker_is_an_error_and_leaves_nothing() {
    let _alone = one_at_a_time();
    let wrong = LinuxSandbox::new("/bin/true".into(), PoolBounds::NONE).unwrap();
    let outcome = wrong.run(&spec("true"), &KillSwitch::new().unwrap(), &mut |_| {});
    assert!(matches!(outcome, Err(SandboxError::WorkerFailed { .. } | SandboxError::Kernel { .. })), "{outcome:?}");
    assert_no_leftovers();
}

#[test]
fn a_kill_switch_pressed_before_the_run_starts_no_command() {
    let kill = KillSwitch::new().unwrap();
    kill.kill(KillReason::Closed);
    let (ending, events) = try_run(&spec("echo no"), &kill, |_| {}).unwrap();
    assert_eq!((ending.killed, ending.exits.len(), events.stdout.as_str()), (Some(KillReason::Closed), 0, ""));
    assert!(!ending.worker_lost);
}

#[test]
fn reports_usage_during_a_run() {
    let kill = KillSwitch::new().unwrap();
    let switch = kill.clone();
    let (ending, events) = try_run(&spec("sleep 60"), &kill, move |events| {
        if events.usages.len() == 2 {
            switch.kill(KillReason::Cancelled);
        }
    })
    .unwrap();
    assert!(events.usages.iter().all(|usage| usage.is_some_and(|bytes| bytes > 0)));
    assert_eq!(ending.killed, Some(KillReason::Cancelled));
}

#[test]
fn a_worker_started_by_hand_prints_what_it_is() {
    #[expect(clippy::disallowed_methods, reason = "the test is the person")]
    let output = std::process::Command::new(worker()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("proctor run"));
}

#[test]
fn the_probe_finds_this_host_usable() {
    let _alone = one_at_a_time();
    let report = sandbox().probe();
    for name in ["memory", "cpu", "pids", "pid_namespace", "mount_namespace", "net_namespace", "user_namespace"] {
        let row = report.rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row.status, proctor_sandbox::Status::Usable, "{row:?}");
        assert_eq!(row.remedy, "");
    }
    for layer in LAYERS {
        let row = report.rows.iter().find(|row| row.name == layer.name()).unwrap();
        assert!(row.needed && row.status == proctor_sandbox::Status::Usable, "{row:?}");
    }
    assert!(report.privileged && report.cpus >= 1 && report.memory_bytes > 1 << 30 && !report.kernel.is_empty());
    assert_no_leftovers();
}

//! How runs are ended from outside: deadlines, kill switches, lost workers, a dead supervisor.

#[cfg(test)]
mod support;

use proctor_core::bounds::STACK_DUMP_BYTES_MAX;
use proctor_core::hung_test::StackSignal;
use proctor_core::isolation::Layer;
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{CommandSpec, KillSwitch, RunSpec, Sandbox, StackRequest};
use std::sync::mpsc::sync_channel;
use support::*;

#[test]
fn at_the_deadline_a_run_gets_sigterm_and_a_grace_period() {
    let mut polite = spec("trap 'echo cleaning up; exit 9' TERM; echo begun; while :; do sleep 0.02; done");
    polite.limits.wall_ms_max = 5_000;
    polite.limits.grace_ms = LONG_GRACE_MS;
    let (ending, events) = bounded(|| run(&polite));
    assert_eq!((ending.killed, ending.exits.as_slice()), (Some(KillReason::Deadline), &[Exit::Code(9)][..]));
    assert_eq!(events.stdout, "begun\ncleaning up\n");
    assert_eq!(events.event_words, ["started", "command 0", "killing", "exited 0"]);
    assert!(!ending.worker_lost);
}

/// A command whose processes are asked for their stacks on SIGQUIT after half a second.
fn asked_for_stacks(script: &str, grace_ms: u64) -> RunSpec {
    let mut asked = spec(script);
    asked.stack_requests = vec![Some(StackRequest::Signal(StackSignal::Quit))];
    asked.limits.wall_ms_max = 500;
    asked.limits.grace_ms = grace_ms;
    asked
}

#[test]
fn at_the_deadline_processes_that_handle_the_signal_print_their_stacks_before_sigterm() {
    // The shell has to wait for its children by `wait`, which a trap interrupts.
    let asked = asked_for_stacks(
        "trap 'echo stacks' QUIT; trap 'echo end; exit 9' TERM; sleep 600 & other=$!; while :; do wait $other; kill -0 $other || exit 8; done",
        LONG_GRACE_MS,
    );
    let (ending, events) = bounded(|| run(&asked));
    assert_eq!((ending.killed, ending.exits.as_slice()), (Some(KillReason::Deadline), &[Exit::Code(9)][..]));
    assert_eq!(events.stdout, "stacks\nend\n", "the child without a handler goes on");
    assert_eq!(events.event_words, ["started", "command 0", "killing", "stacks", "exited 0"]);
}

#[test]
fn a_command_that_ends_after_printing_its_stacks_ends_the_run() {
    let mut asked = asked_for_stacks("trap 'echo stacks; exit 2' QUIT; while :; do sleep 0.02; done", LONG_GRACE_MS);
    asked.commands.push(sh("echo second"));
    let (ending, events) = bounded(|| run(&asked));
    assert_eq!((ending.exits.as_slice(), events.stdout.as_str()), (&[Exit::Code(2)][..], "stacks\n"));
}

#[test]
fn a_run_without_grace_is_not_asked_for_stacks() {
    let (ending, events) = run(&asked_for_stacks("trap 'echo stacks' QUIT; while :; do sleep 0.02; done", 0));
    assert_eq!((ending.killed, events.stdout.as_str()), (Some(KillReason::Deadline), ""));
    assert_eq!(events.event_words, ["started", "command 0", "killing"]);
}

#[test]
fn only_busy_processes_are_interrupted() {
    // Joined by a pipe: a shell's background processes ignore SIGINT.
    let idle = "sh -c \"trap 'echo idle >&2' INT; while :; do read line < /tmp/nothing; done\"";
    let busy = "sh -c \"trap 'echo busy >&2' INT; while :; do :; done\"";
    let mut asked = asked_for_stacks(&format!("mkfifo /tmp/nothing; {idle} | {busy}"), 2_000);
    asked.stack_requests = vec![Some(StackRequest::Signal(StackSignal::InterruptBusy))];
    assert_eq!(run(&asked).1.stderr, "busy\n");
}

/// A command beside which a program is started at the deadline.
fn asked_by_program(script: &str, program: &str, grace_ms: u64) -> RunSpec {
    let mut asked = asked_for_stacks(script, grace_ms);
    asked.stack_requests = vec![Some(StackRequest::Program(sh(program)))];
    asked
}

#[test]
fn a_program_beside_the_run_prints_stacks_before_sigterm() {
    let asked = asked_by_program(
        "trap 'echo end; ls /tmp/printed; exit 9' TERM; echo $$ > /tmp/pid; while :; do sleep 0.02; done",
        "cat /proc/$(cat /tmp/pid)/comm; [ \"$(cat /proc/self/cgroup)\" = \"$(cat /proc/1/cgroup)\" ] && echo same; echo hidden >&2; sleep 0.3; : > /tmp/printed",
        LONG_GRACE_MS,
    );
    let (ending, events) = bounded(|| run(&asked));
    assert_eq!(events.stacks, "sh\nsame\n");
    assert_eq!(events.stdout, "end\n/tmp/printed\n", "SIGTERM waits for the program's end");
    assert!(!events.stderr.contains("hidden"), "{}", events.stderr);
    assert_eq!((ending.killed, ending.exits.as_slice()), (Some(KillReason::Deadline), &[Exit::Code(9)][..]));
    assert_eq!(events.event_words, ["started", "command 0", "killing", "stacks", "exited 0"]);
}

#[test]
fn sigterm_comes_although_a_program_prints_without_end_or_nothing() {
    for program in ["while :; do echo stack; done", "while :; do sleep 1; done", "exit 3", "exec /nothing"] {
        let script = "trap 'echo end; exit 9' TERM; while :; do sleep 0.02; done";
        let (ending, events) = bounded(|| run(&asked_by_program(script, program, LONG_GRACE_MS)));
        assert_eq!(
            (ending.killed, ending.exits.as_slice()),
            (Some(KillReason::Deadline), &[Exit::Code(9)][..]),
            "{program}"
        );
        assert_eq!(events.stdout, "end\n", "{program}");
        assert!(events.stacks.len() <= STACK_DUMP_BYTES_MAX, "{program}: {}", events.stacks.len());
        assert_eq!(events.stacks.is_empty(), !program.contains("echo"), "{program}");
    }
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_at_the_end_of_the_grace_period() {
    let script = "exec sleep 600";
    let (ending, _) = bounded(|| run(&asked_by_program(script, "trap '' TERM; while :; do sleep 1; done", 2_000)));
    assert_eq!((ending.killed, ending.exits.len()), (Some(KillReason::Deadline), 0));
}

#[test]
fn a_program_that_cannot_be_started_changes_nothing() {
    let mut asked = asked_by_program("exec sleep 600", "", LONG_GRACE_MS);
    let missing = CommandSpec { program: "/nothing".into(), ..sh("") };
    asked.stack_requests = vec![Some(StackRequest::Program(missing))];
    let (ending, events) = bounded(|| run(&asked));
    assert_eq!((ending.exits.as_slice(), events.stacks.as_str()), (&[Exit::Signal(15)][..], ""));
    assert!(!ending.worker_lost);
}

#[test]
fn a_child_may_use_the_grace_period_although_its_parent_is_dead() {
    let child = "trap 'sleep 0.2; echo flushed; exit' TERM; while :; do sleep 0.02; done";
    let mut family = spec(&format!("sh -c \"{child}\" & exec sleep 600"));
    family.limits.wall_ms_max = 5_000;
    family.limits.grace_ms = LONG_GRACE_MS;
    let (ending, events) = bounded(|| run(&family));
    assert_eq!((ending.exits.as_slice(), events.stdout.as_str()), (&[Exit::Signal(15)][..], "flushed\n"));
}

#[test]
fn a_run_that_ignores_sigterm_is_killed_at_the_end_of_the_grace_period() {
    let mut stubborn =
        spec("trap '' TERM; (setsid sh -c \"trap '' TERM; while :; do :; done\" &); while :; do :; done");
    stubborn.limits.wall_ms_max = 5_000;
    stubborn.limits.grace_ms = 500;
    let (ending, events) = run(&stubborn);
    assert_eq!((events.killing, ending.killed), (Some(KillReason::Deadline), Some(KillReason::Deadline)));
    assert_eq!(events.event_words, ["started", "command 0", "killing"]);
    assert_eq!(ending.exits, []);
}

#[test]
fn after_the_deadline_no_further_command_starts() {
    let mut two = spec("sleep 600");
    two.commands.push(sh("echo second"));
    two.limits.wall_ms_max = 200;
    // Not waited for in full: the run ends as soon as the command is dead.
    two.limits.grace_ms = LONG_GRACE_MS;
    let (ending, events) = bounded(|| run(&two));
    assert_eq!((ending.exits.as_slice(), events.stdout.as_str()), (&[Exit::Signal(15)][..], ""));
}

#[test]
fn an_orphan_in_a_session_of_its_own_dies_with_its_command() {
    let mut orphan = spec("setsid sleep 600 & echo $!; exit 0");
    orphan.commands.push(sh("cd /proc; set -- [0-9]*; echo $#"));
    let (ending, events) = run(&orphan);
    assert_exits(&ending, &[Exit::Code(0), Exit::Code(0)]);
    // Init and the shell: no sleep.
    assert_eq!(events.stdout.lines().nth(1), Some("2"));
}

#[test]
fn a_double_forked_daemon_that_closed_its_streams_dies_too() {
    let (ending, _) = run(&spec("(setsid sh -c 'sleep 600' </dev/null >/dev/null 2>&1 &) ; exit 0"));
    assert_exits(&ending, &[Exit::Code(0)]);
}

#[test]
fn another_thread_ends_a_run_without_grace_and_the_reason_is_kept() {
    for reason in [KillReason::Cancelled, KillReason::Abandoned, KillReason::Closed] {
        let kill = KillSwitch::new().unwrap();
        let (ready, heard_ready) = sync_channel(1);
        let switch = kill.clone();
        let killer = std::thread::spawn(move || {
            heard_ready.recv_timeout(WAIT_MAX).unwrap();
            switch.kill(reason);
        });
        // A run with a grace would get SIGTERM first.
        let stubborn = spec("trap 'echo SIGTERM' TERM; echo ready; while :; do :; done");
        let (ending, events) = try_run(&stubborn, &kill, |events| {
            if events.stdout == "ready\n" {
                let _first = ready.try_send(());
            }
        })
        .unwrap();
        killer.join().unwrap();
        assert_eq!(events.stdout, "ready\n");
        assert_eq!((ending.killed, events.killing, ending.exits.len()), (Some(reason), Some(reason), 0));
        assert!(!ending.worker_lost);
    }
}

#[test]
fn a_second_kill_during_the_grace_ends_the_run_and_the_first_reason_stays() {
    let mut stubborn = spec("trap '' TERM; while :; do sleep 1; done");
    stubborn.limits.wall_ms_max = 200;
    stubborn.limits.grace_ms = LONG_GRACE_MS;
    let kill = KillSwitch::new().unwrap();
    let switch = kill.clone();
    let observe = move |events: &RunEvents| {
        if events.killing.is_some() {
            switch.kill(KillReason::Cancelled);
        }
    };
    let (ending, events) = bounded(|| try_run(&stubborn, &kill, observe)).unwrap();
    assert_eq!(ending.killed, Some(KillReason::Deadline));
    assert_eq!(events.event_words.iter().filter(|word| *word == "killing").count(), 1);
}

#[test]
fn a_worker_killed_from_outside_is_lost_and_its_run_dies() {
    for victim in ["launcher", "init"] {
        let mut killed = false;
        let (ending, _) = try_run(&spec("echo ready; sleep 600"), &KillSwitch::new().unwrap(), |events| {
            if events.stdout == "ready\n" && !killed {
                killed = true;
                let (launcher, init) = worker_pids().unwrap();
                assert!(kill_by_pid(if victim == "launcher" { launcher } else { init }));
            }
        })
        .unwrap();
        assert!(killed && ending.worker_lost, "{victim}: {ending:?}");
        let [note] = ending.notes.as_slice() else { panic!("{victim}: {ending:?}") };
        assert!(note.contains("was killed") && note.contains("asked for again"), "{note}");
        assert_eq!((ending.killed, ending.exits.len()), (None, 0), "{victim}");
    }
}

#[test]
fn a_panic_in_the_sink_ends_the_run() {
    let _alone = one_at_a_time();
    let outcome = std::panic::catch_unwind(|| {
        let kill = KillSwitch::new().unwrap();
        sandbox().run(&spec("echo ready; sleep 600"), &kill, &mut |event| {
            assert!(!matches!(event, proctor_sandbox::SandboxEvent::Output { .. }), "on purpose");
        })
    });
    assert!(outcome.is_err());
    assert_no_leftovers();
}

#[test]
fn runs_side_by_side_do_not_mix() {
    let _alone = one_at_a_time();
    let sandbox = sandbox();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                for round in 0..3 {
                    let text = format!("{thread}-{round}");
                    let mut output = Vec::new();
                    let one = spec(&format!("echo {text} > /tmp/mine; cat /tmp/mine; exit {round}"));
                    let ending = sandbox
                        .run(&one, &KillSwitch::new().unwrap(), &mut |event| {
                            if let proctor_sandbox::SandboxEvent::Output { bytes, .. } = event {
                                output.extend_from_slice(bytes);
                            }
                        })
                        .unwrap();
                    assert_exits(&ending, &[Exit::Code(round)]);
                    assert_eq!(String::from_utf8(output).unwrap(), format!("{text}\n"));
                }
            });
        }
    });
    assert_no_leftovers();
}

#[test]
fn a_command_stopped_for_a_tracer_has_not_exited() {
    let script =
        "import ctypes, os, signal; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP)";
    // An ignored SIGTERM stays ignored: only the kill ends the process, however long it takes to stop.
    let mut stopped = spec(&format!("trap '' TERM; exec python3 -c '{script}'"));
    stopped.limits.wall_ms_max = 5_000;
    stopped.limits.grace_ms = 100;
    let (ending, _) = run(&stopped);
    assert_eq!((ending.killed, ending.exits.as_slice()), (Some(KillReason::Deadline), &[][..]));
}

/// Children in states that are hard to leave, and how a shell recognises that they are there. The last two need a run
/// with the layers left off that forbid them.
const LEFT_BEHIND: [(&str, &str, &str); 8] = [
    ("stopped", "sleep 600 & kill -STOP $!", "State:.T"),
    ("stopped in a session of its own", "(setsid sh -c 'trap \"\" TERM HUP; kill -STOP $$' &)", "State:.T"),
    ("dead and not reaped", "sh -c 'sh -c \"exit 3\" & exec sleep 600' &", "State:.Z"),
    (
        "waiting for its vfork",
        "python3 -c 'import ctypes; c = ctypes.CDLL(None); c.vfork() or c.pause()' &",
        "State:.D",
    ),
    (
        "stopped by its tracer",
        "python3 -c 'import ctypes, os, time
if os.fork() == 0: ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), 19)
time.sleep(600)' &",
        "State:.t",
    ),
    ("opening a pipe", "mkfifo /tmp/pipe; cat /tmp/pipe & (setsid cat /tmp/pipe &)", "Name:.cat"),
    (
        "in a mount of its own",
        "mkdir /tmp/m; unshare -m sh -c 'mount -t tmpfs m /tmp/m; cd /tmp/m; exec 9> file; exec tail -f /tmp/m/file' &",
        "Name:.tail",
    ),
    (
        "frozen",
        "g=/sys/fs/cgroup; [ -e $g/unified ] && g=$g/unified; g=$g$(sed -n s/^0:://p /proc/self/cgroup)/cold; mkdir $g
sleep 600 & echo $! > $g/cgroup.procs; echo 1 > $g/cgroup.freeze
until grep -q 'frozen 1' $g/cgroup.events; do sleep 0.01; done",
        "Name:.sh",
    ),
];

#[test]
fn processes_in_any_state_die_with_their_run() {
    for (what, script, sign) in LEFT_BEHIND {
        for last in ["exit 0", "sleep 600"] {
            let is_there = format!("until grep -qs '^{sign}' /proc/[0-9]*/status; do sleep 0.01; done");
            let mut leaving = spec(&format!("{script}\n{is_there}; echo ready; {last}"));
            if ["in a mount of its own", "frozen"].contains(&what) {
                leaving.jail.left_off = vec![
                    Layer::UserNamespace,
                    Layer::CgroupNamespace,
                    Layer::PivotRoot,
                    Layer::Capabilities,
                    Layer::Landlock,
                    Layer::Seccomp,
                ];
            }
            let kill = KillSwitch::new().unwrap();
            let (ending, events) = try_run(&leaving, &kill, |events| {
                if events.stdout == "ready\n" && last != "exit 0" {
                    kill.kill(KillReason::Cancelled);
                }
            })
            .unwrap();
            assert_eq!(events.stdout, "ready\n", "{what}, {last}: {events:?}");
            let (exits, killed) = match last {
                "exit 0" => (&[Exit::Code(0)][..], None),
                _ => (&[][..], Some(KillReason::Cancelled)),
            };
            assert_eq!((ending.exits.as_slice(), ending.killed), (exits, killed), "{what}, {last}: {events:?}");
        }
    }
}

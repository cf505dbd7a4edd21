//! Asks the processes of a run for their stacks: finds, in the run's own `/proc`, those that handle the signal, and sends it.

use nix::unistd::Pid;
use proctor_core::hung_test::StackSignal;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// How often the state of a process is read, and the pause between two reads, to tell a busy process from one that is awake
/// for a moment.
const SAMPLES: usize = 3;
const SAMPLE_PAUSE: Duration = Duration::from_millis(20);

/// Sends `signal` to every process of this pid namespace that handles it, other than this one. Valid only in init.
///
/// The signal goes to a busy thread of the process if there is one: Go's runtime prints the stack of no other running
/// thread.
pub(super) fn request_stacks(signal: StackSignal) {
    if !sees_only_its_run() {
        return;
    }
    let handling: Vec<i32> = numbers("/proc").filter(|pid| *pid > 1 && handles(*pid, signal)).collect();
    let busy = busy_threads(&handling);
    for pid in handling {
        let thread = busy.iter().find(|(owner, _)| *owner == pid).map(|(_, thread)| *thread);
        if thread.is_none() && signal == StackSignal::InterruptBusy {
            continue;
        }
        send(Pid::from_raw(pid), thread, signal);
    }
}

/// Whether the `/proc` that this process sees is that of its own pid namespace. Another would give the numbers of other
/// processes.
pub(super) fn sees_only_its_run() -> bool {
    fs::read_link("/proc/self").is_ok_and(|own| own.as_os_str() == "1")
}

fn send(pid: Pid, thread: Option<i32>, signal: StackSignal) {
    // A process that has ended meanwhile needs no signal. `nix` knows no real-time signals.
    match thread {
        // SAFETY: sends a signal; no memory is involved.
        Some(thread) => _ = unsafe { libc::syscall(libc::SYS_tgkill, pid.as_raw(), thread, signal.number()) },
        // SAFETY: as above.
        None => _ = unsafe { libc::kill(pid.as_raw(), signal.number()) },
    }
}

/// Whether the process has a handler for the signal. One without would die of it.
fn handles(pid: i32, signal: StackSignal) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    catches(&status, signal.number())
}

/// Whether the mask of handled signals in a `/proc/PID/status` has the signal `number`.
fn catches(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (number - 1) & 1 == 1
}

/// A thread of each process that is busy: in all samples some thread of it runs, or waits for a processor. It need not be
/// the same, as Go's scheduler moves its work between threads.
fn busy_threads(pids: &[i32]) -> Vec<(i32, i32)> {
    let mut busy: Vec<(i32, i32)> = pids.iter().map(|pid| (*pid, 0)).collect();
    for sample in 0..SAMPLES {
        if sample > 0 {
            sleep(SAMPLE_PAUSE);
        }
        busy.retain_mut(|(pid, thread)| match runnable_thread(*pid) {
            Some(found) => {
                *thread = found;
                true
            }
            None => false,
        });
    }
    busy
}

fn runnable_thread(pid: i32) -> Option<i32> {
    let stat = |thread: &i32| fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat"));
    numbers(&format!("/proc/{pid}/task")).find(|thread| stat(thread).is_ok_and(|stat| is_runnable(&stat)))
}

/// Whether a `/proc/PID/stat` shows a thread that runs or waits for a processor. The name before the state may hold `)`.
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
}

/// The entries of a directory that are numbers.
fn numbers(dir: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_handled_signals_of_a_process() {
        let status = "Name:\tpython3\nSigIgn:\t0000000001001000\nSigCgt:\t2000000000000004\n";
        let caught: Vec<i32> = (1..=64).filter(|number| catches(status, *number)).collect();
        assert_eq!(caught, [3, 62]);
        assert!(!catches("Name:\tx\n", 3));
    }

    #[test]
    fn reads_the_state_behind_a_name_with_parentheses() {
        assert!(is_runnable("7 (a) S) R 1 7 7"));
        assert!(!is_runnable("7 (R) S 1 7 7"));
    }
}

//! Waits for the first message of a worker, which normally takes milliseconds. A slow worker is logged, and one that
//! the kernel holds is given up.

use crate::control_socket::{Channel, wait_readable};
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a worker may take to answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetupTimeouts {
    /// Time after which a slow worker is logged.
    slow_after: Duration,
    /// Interval between two samples of a slow worker. A worker that did not move in the kernel between two samples is
    /// stuck.
    check_interval: Duration,
    /// Time after which a worker is given up even if it makes progress, on a busy host.
    give_up_after: Duration,
}

/// Gives up after five seconds on a stuck worker and after thirty on a slow one.
pub(crate) const SETUP_TIMEOUTS: SetupTimeouts = SetupTimeouts {
    slow_after: Duration::from_secs(1),
    check_interval: Duration::from_secs(4),
    give_up_after: Duration::from_secs(30),
};

/// What a process is doing, according to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessActivity {
    /// State letter of `proc_pid_stat(5)`.
    state: char,
    /// Kernel function that it sleeps in; empty if it does not sleep or this user may not read it.
    kernel_function: String,
    /// Context switches so far.
    switches: u64,
}

impl ProcessActivity {
    /// Reads the activity of the process `pid`; `None` if it is gone.
    fn sample(pid: u32) -> Option<ProcessActivity> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let status = read("status")?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        Some(ProcessActivity {
            state: field("State:")?.chars().next()?,
            kernel_function: read("wchan").filter(|kernel_function| kernel_function != "0").unwrap_or_default(),
            switches: number("voluntary_ctxt_switches:") + number("nonvoluntary_ctxt_switches:"),
        })
    }

    /// Whether it has not moved since `earlier`, in a state that only the kernel or an operator can end.
    fn is_stuck_since(&self, earlier: &ProcessActivity) -> bool {
        matches!(self.state, 'D' | 'T' | 't') && self == earlier
    }
}

impl fmt::Display for ProcessActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProcessActivity { state, kernel_function, .. } = self;
        write!(f, "it is in state {state}")?;
        if kernel_function.is_empty() { Ok(()) } else { write!(f, " in the kernel function {kernel_function}") }
    }
}

/// Returns the first message of the process `pid`; `None` if it is gone.
///
/// # Errors
/// `TimedOut`, with the activity of the process, if it is stuck or too slow; else the error of the socket.
pub(crate) fn receive_first_message<M: DeserializeOwned>(
    channel: &Channel,
    pid: u32,
    waits: SetupTimeouts,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let begun = Instant::now();
    let mut wait = waits.slow_after;
    let mut previous = None;
    loop {
        match wait_readable(channel.as_fd(), wait) {
            Ok(()) => return channel.receive(),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error),
        }
        let (current, waited) = (ProcessActivity::sample(pid), begun.elapsed());
        let activity = current.as_ref().map_or_else(|| "it is gone".to_owned(), ProcessActivity::to_string);
        let is_stuck =
            current.as_ref().zip(previous.as_ref()).is_some_and(|(sample, previous)| sample.is_stuck_since(previous));
        if is_stuck || waited >= waits.give_up_after {
            let text = format!("no message from process {pid} for {:.1} s: {activity}", waited.as_secs_f64());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        if previous.is_none() {
            tracing::warn!(pid, current = %activity, "the setup of a run takes over {} ms", waits.slow_after.as_millis());
        }
        previous = current;
        wait = waits.check_interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::{Child, Command};

    const QUICK_TIMEOUTS: SetupTimeouts = SetupTimeouts {
        slow_after: Duration::from_millis(20),
        check_interval: Duration::from_millis(20),
        give_up_after: Duration::from_secs(100_000),
    };

    /// A process that sends nothing and is asleep.
    #[expect(clippy::disallowed_methods, reason = "the tests need a process that sends nothing")]
    fn spawn_sleep() -> (Child, Pid) {
        let child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        while ProcessActivity::sample(child.id()).is_none_or(|activity| activity.state != 'S') {
            assert!(Instant::now() < until, "it does not fall asleep");
            std::thread::sleep(Duration::from_millis(2));
        }
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        (child, pid)
    }

    #[test]
    fn gives_up_on_a_stopped_process_and_names_its_state() {
        let (ours, _theirs) = Channel::pair().unwrap();
        let (mut child, pid) = spawn_sleep();
        kill_process(pid, Signal::STOP).unwrap();
        // Without a timeout by activity this call would not return.
        let error = receive_first_message::<String>(&ours, child.id(), QUICK_TIMEOUTS).unwrap_err();
        child.kill().unwrap();
        child.wait().unwrap();
        let text = error.to_string();
        assert!(error.kind() == io::ErrorKind::TimedOut && text.contains("it is in state T"), "{text}");
    }

    #[test]
    fn waits_for_a_running_process_up_to_the_maximum_and_accepts_a_late_message() {
        let (ours, theirs) = Channel::pair().unwrap();
        let (mut child, _) = spawn_sleep();
        let short_timeouts = SetupTimeouts { give_up_after: Duration::from_millis(100), ..QUICK_TIMEOUTS };
        let error = receive_first_message::<String>(&ours, child.id(), short_timeouts).unwrap_err().to_string();
        assert!(error.contains("it is in state S"), "{error}");
        let late_sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            Channel::from_fd(theirs).send(&"here", &[]).unwrap();
        });
        let (message, _) = receive_first_message::<String>(&ours, child.id(), QUICK_TIMEOUTS).unwrap().unwrap();
        late_sender.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(message, "here");
    }
}

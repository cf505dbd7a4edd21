//! The wait for a worker's first word, which takes milliseconds: a slow one is logged, and one that the kernel holds is not
//! waited for. Must not know what is set up.

use crate::channel::{Channel, wait_readable};
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a worker may take, by what it does meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetUpWaits {
    /// Until it is said that it takes long.
    slow: Duration,
    /// Between two looks at a slow one. What stood still in the kernel from one to the next is stuck.
    look: Duration,
    /// Until one that makes progress, on a host with much to do, is given up.
    most: Duration,
}

/// Five seconds for a worker that is stuck, thirty for one that goes on.
pub(crate) const SET_UP_WAITS: SetUpWaits =
    SetUpWaits { slow: Duration::from_secs(1), look: Duration::from_secs(4), most: Duration::from_secs(30) };

/// What a process does, as the kernel tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Doing {
    /// The letter of `proc_pid_stat(5)`.
    state: char,
    /// The kernel's function that it sleeps in; empty when it does not, or when that is not for this user to know.
    place: String,
    /// How often it has given up its processor.
    switches: u64,
}

impl Doing {
    /// Of the process `pid`; `None` when it is gone.
    fn now(pid: u32) -> Option<Doing> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let status = read("status")?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        Some(Doing {
            state: field("State:")?.chars().next()?,
            place: read("wchan").filter(|place| place != "0").unwrap_or_default(),
            switches: number("voluntary_ctxt_switches:") + number("nonvoluntary_ctxt_switches:"),
        })
    }

    /// Whether it has stood still where nothing but the kernel or an operator can move it.
    fn is_stuck_since(&self, earlier: &Doing) -> bool {
        matches!(self.state, 'D' | 'T' | 't') && self == earlier
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Doing { state, place, .. } = self;
        write!(f, "it is in state {state}")?;
        if place.is_empty() { Ok(()) } else { write!(f, " in the kernel's {place}") }
    }
}

/// The first word of the process `pid`; `None` when it is gone.
///
/// # Errors
/// `TimedOut`, with what the process does, when it is stuck or takes too long; otherwise what the kernel says of the channel.
pub(crate) fn first_word<M: DeserializeOwned>(
    channel: &Channel,
    pid: u32,
    waits: SetUpWaits,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let begun = Instant::now();
    let mut wait = waits.slow;
    let mut before = None;
    loop {
        match wait_readable(channel.as_fd(), wait) {
            Ok(()) => return channel.receive(),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error),
        }
        let (doing, waited) = (Doing::now(pid), begun.elapsed());
        let told = doing.as_ref().map_or_else(|| "it is gone".to_owned(), Doing::to_string);
        let is_stuck = doing.as_ref().zip(before.as_ref()).is_some_and(|(now, before)| now.is_stuck_since(before));
        if is_stuck || waited >= waits.most {
            let text = format!("no word from process {pid} for {:.1} s: {told}", waited.as_secs_f64());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        if before.is_none() {
            tracing::warn!(pid, doing = %told, "the set-up of a run takes over {} ms", waits.slow.as_millis());
        }
        before = doing;
        wait = waits.look;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::{Child, Command};

    const QUICK: SetUpWaits = SetUpWaits {
        slow: Duration::from_millis(20),
        look: Duration::from_millis(20),
        most: Duration::from_secs(100_000),
    };

    #[expect(clippy::disallowed_methods, reason = "the tests need a process that says nothing")]
    fn silent() -> (Child, Pid) {
        let child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        (child, pid)
    }

    #[test]
    fn gives_up_a_process_that_stands_still_and_names_its_state() {
        let (ours, _theirs) = Channel::pair().unwrap();
        let (mut child, pid) = silent();
        kill_process(pid, Signal::STOP).unwrap();
        // It would not come back.
        let error = first_word::<String>(&ours, child.id(), QUICK).unwrap_err();
        child.kill().unwrap();
        child.wait().unwrap();
        let text = error.to_string();
        assert!(error.kind() == io::ErrorKind::TimedOut && text.contains("it is in state T"), "{text}");
    }

    #[test]
    fn waits_for_a_process_that_can_go_on_until_the_most_and_hears_one_that_is_late() {
        let (ours, theirs) = Channel::pair().unwrap();
        let (mut child, _) = silent();
        let brief = SetUpWaits { most: Duration::from_millis(100), ..QUICK };
        let error = first_word::<String>(&ours, child.id(), brief).unwrap_err().to_string();
        assert!(error.contains("it is in state S"), "{error}");
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            Channel::from_fd(theirs).send(&"here", &[]).unwrap();
        });
        let (word, _) = first_word::<String>(&ours, child.id(), QUICK).unwrap().unwrap();
        late.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(word, "here");
    }
}

//! What a service manager is told: that the daemon is ready, that it ends, and that it does not hang (systemd's protocol,
//! sd_notify(3): lines of text in a datagram to the socket that NOTIFY_SOCKET names). Must not know what the daemon does.

use crate::ops::drain::Drain;
use proctor_sandbox::DEATH_WAIT;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tokio::time::sleep;

/// How often a manager hears of an end that takes its time, and how long it shall wait for the next word.
const WORD: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);

/// How long after the deadline of a drain the manager is asked for more time. A run that is killed then may be waited for
/// twice, and the launcher it came from once more; what takes longer hangs, as a thread does that looks at a network file
/// system which does not answer. It would hang for ever: the manager kills it, and the next start clears away what it left.
const OVERTIME: Duration = Duration::from_secs(4 * DEATH_WAIT.as_secs());

/// A service manager that wants to be told.
#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// How long it waits for a sign of life before it kills the daemon, if it does.
    watchdog: Option<Duration>,
}

impl Manager {
    /// The manager that started this process with these variables; `None` when there is none.
    pub fn from_env(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> io::Result<Option<Manager>> {
        let Some(address) = variable("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else { return Ok(None) };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold up the daemon.
        socket.set_nonblocking(true)?;
        let text = |name| variable(name).and_then(|value| value.into_string().ok());
        let for_us = text("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let watchdog = text("WATCHDOG_USEC").filter(|_| for_us).and_then(|usec| usec.parse().ok());
        Ok(Some(Manager {
            socket,
            address: address_of(&address)?,
            watchdog: watchdog.filter(|usec| *usec > 0).map(Duration::from_micros),
        }))
    }

    /// False when the manager was not told, as when it has more to read than fits before it.
    fn say(&self, lines: &str) -> bool {
        let said = self.socket.send_to_addr(lines.as_bytes(), &self.address);
        if let Err(error) = &said {
            tracing::debug!(%error, lines, "the service manager could not be told");
        }
        said.is_ok()
    }

    /// Tells that the daemon is ready, then that it lives, and at last that it ends, until the daemon has ended.
    ///
    /// It lives for as long as `answers` does: a daemon whose heart does not answer serves nobody, however well its other
    /// tasks do.
    pub async fn keep_told<F>(self, drain: Drain, answers: impl Fn() -> F)
    where
        F: Future<Output = bool>,
    {
        // Three signs of life in the time after which none would be too few.
        let pause = self.watchdog.map_or(WORD, |watchdog| watchdog / 3).min(WORD);
        let (mut ready, mut stopping, mut ending) = (false, false, false);
        loop {
            // What changes its state is said again until it is heard.
            ready = ready || self.say("READY=1\nSTATUS=serving");
            if drain.has_begun() {
                ending = true;
                let news = if stopping { "" } else { "STOPPING=1\n" };
                stopping |= self.say(&format!("{news}{}", stage(&drain)));
            }
            if self.watchdog.is_some() && answers().await {
                self.say("WATCHDOG=1");
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = drain.begun(), if !ending => {}
            }
        }
    }
}

// How far an end has come, and as long as it may still come to one, that it needs more time.
fn stage(drain: &Drain) -> String {
    if drain.is_overdue(OVERTIME) {
        return "STATUS=draining: what is left hangs".to_owned();
    }
    let (more, left) = (PATIENCE.as_micros(), drain.left().as_secs());
    format!("EXTEND_TIMEOUT_USEC={more}\nSTATUS=draining: runs have {left} s left")
}

// A name that begins with an at sign is not of the file system (unix(7), "abstract").
fn address_of(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use tokio::time::Instant;

    /// The manager's end: everything that it was told until now.
    struct Ear(UnixDatagram);

    impl Ear {
        fn heard(&self) -> Vec<String> {
            let mut heard = Vec::new();
            let mut bytes = [0; 512];
            while let Ok(len) = self.0.recv(&mut bytes) {
                heard.extend(String::from_utf8_lossy(&bytes[..len]).lines().map(str::to_owned));
            }
            heard
        }
    }

    fn at(address: &SocketAddr, name: impl Into<OsString>, watchdog: &str) -> (Manager, Ear) {
        let ear = UnixDatagram::bind_addr(address).unwrap();
        ear.set_nonblocking(true).unwrap();
        let (name, watchdog) = (name.into(), OsString::from(watchdog));
        let variable = |asked: &str| match asked {
            "NOTIFY_SOCKET" => Some(name.clone()),
            "WATCHDOG_USEC" => Some(watchdog.clone()),
            "WATCHDOG_PID" => Some(std::process::id().to_string().into()),
            _ => None,
        };
        (Manager::from_env(variable).unwrap().unwrap(), Ear(ear))
    }

    fn abstract_ones(watchdog: &str) -> (Manager, Ear) {
        let name = format!("proctor-test-{}-{watchdog}", std::process::id());
        at(&SocketAddr::from_abstract_name(&name).unwrap(), format!("@{name}"), watchdog)
    }

    #[tokio::test(start_paused = true)]
    async fn a_manager_hears_of_the_start_of_life_and_of_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let (manager, ear) = at(&SocketAddr::from_pathname(&path).unwrap(), &path, "3000000");
        let drain = Drain::new(Duration::from_secs(60));
        let told = tokio::spawn(manager.keep_told(drain.clone(), || std::future::ready(true)));
        sleep(Duration::from_millis(2_500)).await;
        assert_eq!(ear.heard(), ["READY=1", "STATUS=serving", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]);
        drain.begin(None);
        sleep(Duration::from_millis(1)).await;
        let status = "STATUS=draining: runs have 60 s left";
        assert_eq!(ear.heard(), ["STOPPING=1", "EXTEND_TIMEOUT_USEC=30000000", status, "WATCHDOG=1"]);
        sleep(Duration::from_millis(1_000)).await;
        let status = "STATUS=draining: runs have 59 s left";
        assert_eq!(ear.heard(), ["EXTEND_TIMEOUT_USEC=30000000", status, "WATCHDOG=1"]);
        told.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_hangs_asks_for_no_more_time() {
        let (manager, ear) = abstract_ones("90000000");
        let deadline = Duration::from_secs(60);
        let drain = Drain::new(deadline);
        let told = tokio::spawn(manager.keep_told(drain.clone(), || std::future::ready(true)));
        drain.begin(None);
        let (begin, mut asked_at) = (Instant::now(), Vec::new());
        while begin.elapsed() < 2 * (deadline + OVERTIME) {
            sleep(WORD).await;
            let heard = ear.heard();
            assert!(heard.iter().any(|line| line == "WATCHDOG=1"), "it lives: {heard:?}");
            if heard.iter().any(|line| line.starts_with("EXTEND_TIMEOUT_USEC=")) {
                asked_at.push(begin.elapsed());
            }
        }
        let last = *asked_at.last().unwrap();
        assert!((deadline + OVERTIME - WORD..=deadline + OVERTIME).contains(&last), "{last:?}");
        assert!(asked_at.array_windows().all(|[one, next]| *next - *one == WORD), "{asked_at:?}");
        told.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_whose_heart_does_not_answer_gives_no_sign_of_life() {
        let (manager, ear) = abstract_ones("1000000");
        let drain = Drain::new(Duration::ZERO);
        let told = tokio::spawn(manager.keep_told(drain, std::future::pending));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(ear.heard(), ["READY=1", "STATUS=serving"]);
        told.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_busy_manager_does_not_hear_it_hears_later() {
        let (manager, ear) = abstract_ones("2000000");
        let drain = Drain::new(Duration::from_secs(10));
        let full = UnixDatagram::unbound().unwrap();
        full.set_nonblocking(true).unwrap();
        while full.send_to_addr(b"STATUS=of another", &manager.address).is_ok() {}
        let told = tokio::spawn(manager.keep_told(drain.clone(), || std::future::ready(true)));
        drain.begin(None);
        sleep(Duration::from_secs(1)).await;
        assert!(ear.heard().iter().all(|line| line == "STATUS=of another"));
        sleep(Duration::from_secs(1)).await;
        let heard = ear.heard();
        assert!(
            ["READY=1", "STOPPING=1", "WATCHDOG=1"].iter().all(|line| heard.iter().any(|said| said == line)),
            "{heard:?}"
        );
        told.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_wants_no_signs_of_life_gets_none() {
        let (manager, ear) = abstract_ones("0");
        let told = tokio::spawn(manager.keep_told(Drain::new(Duration::ZERO), || std::future::ready(true)));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(ear.heard(), ["READY=1", "STATUS=serving"]);
        told.abort();
        assert!(Manager::from_env(|_| None).unwrap().is_none());
    }
}

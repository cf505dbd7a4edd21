//! Reports readiness, stopping and liveness of the daemon to a service manager (systemd's sd_notify(3): lines of text
//! in a datagram to the socket named by NOTIFY_SOCKET). The crate `sd-notify` (0.5) takes an abstract socket's name for a
//! path and blocks on a manager that does not read, so the datagram is sent here.

use crate::ops::drain::Drain;
use proctor_sandbox::DEATH_WAIT;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tokio::time::sleep;

/// Longest interval between notifications, and the extension that each requests during a drain.
const NOTIFY_INTERVAL: Duration = Duration::from_secs(5);
const EXTENSION: Duration = Duration::from_secs(30);

/// How long after a drain's deadline the manager is still asked for more time. A killed run may be waited for twice,
/// and its launcher once more. Anything slower hangs for ever, such as a thread that reads an unresponsive network file
/// system: then the manager kills the daemon, and the next start cleans up.
const OVERTIME_MAX: Duration = Duration::from_secs(4 * DEATH_WAIT.as_secs());

/// A service manager that expects notifications.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// Longest silence before the manager kills the daemon, if it has a watchdog.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The manager that started this process, from its environment; `None` if there is none.
    pub fn from_env(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> io::Result<Option<ServiceManager>> {
        let Some(address) = variable("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else { return Ok(None) };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not block the daemon.
        socket.set_nonblocking(true)?;
        let text = |name| variable(name).and_then(|value| value.into_string().ok());
        let is_for_this_process = text("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let watchdog = text("WATCHDOG_USEC").filter(|_| is_for_this_process).and_then(|usec| usec.parse().ok());
        Ok(Some(ServiceManager {
            socket,
            address: address_of(&address)?,
            watchdog: watchdog.filter(|usec| *usec > 0).map(Duration::from_micros),
        }))
    }

    /// Returns `false` if the message was not delivered, for example because the manager's queue is full.
    fn send(&self, lines: &str) -> bool {
        let sent = self.socket.send_to_addr(lines.as_bytes(), &self.address);
        if let Err(error) = &sent {
            tracing::debug!(%error, lines, "the service manager could not be notified");
        }
        sent.is_ok()
    }

    /// Notifies the manager that the daemon is ready, alive and finally stopping. Runs until the daemon has ended.
    ///
    /// The daemon counts as alive while `answers` does: it is of no use if its central task hangs, whatever its other
    /// tasks do.
    pub async fn run_notifications<F>(self, drain: Drain, answers: impl Fn() -> F)
    where
        F: Future<Output = bool>,
    {
        // Three signs of life per watchdog period.
        let pause = self.watchdog.map_or(NOTIFY_INTERVAL, |watchdog| watchdog / 3).min(NOTIFY_INTERVAL);
        let (mut ready, mut stopping, mut ending) = (false, false, false);
        loop {
            // State changes are repeated until they are delivered.
            ready = ready || self.send("READY=1\nSTATUS=serving");
            if drain.has_begun() {
                ending = true;
                let state = if stopping { "" } else { "STOPPING=1\n" };
                stopping |= self.send(&format!("{state}{}", drain_status(&drain)));
            }
            if self.watchdog.is_some() && answers().await {
                self.send("WATCHDOG=1");
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = drain.begun(), if !ending => {}
            }
        }
    }
}

// The progress of a drain, and a request for more time as long as it may still end.
fn drain_status(drain: &Drain) -> String {
    if drain.is_overdue(OVERTIME_MAX) {
        return "STATUS=draining: what is left hangs".to_owned();
    }
    let (extension, remaining) = (EXTENSION.as_micros(), drain.remaining().as_secs());
    format!("EXTEND_TIMEOUT_USEC={extension}\nSTATUS=draining: runs have {remaining} s left")
}

// A name that begins with `@` is in the abstract namespace (unix(7)).
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

    /// The manager's socket.
    struct Socket(UnixDatagram);

    impl Socket {
        fn received(&self) -> Vec<String> {
            let mut received = Vec::new();
            let mut bytes = [0; 512];
            while let Ok(len) = self.0.recv(&mut bytes) {
                received.extend(String::from_utf8_lossy(&bytes[..len]).lines().map(str::to_owned));
            }
            received
        }
    }

    fn open_at(address: &SocketAddr, name: impl Into<OsString>, watchdog: &str) -> (ServiceManager, Socket) {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (name, watchdog) = (name.into(), OsString::from(watchdog));
        let variable = |requested: &str| match requested {
            "NOTIFY_SOCKET" => Some(name.clone()),
            "WATCHDOG_USEC" => Some(watchdog.clone()),
            "WATCHDOG_PID" => Some(std::process::id().to_string().into()),
            _ => None,
        };
        (ServiceManager::from_env(variable).unwrap().unwrap(), Socket(socket))
    }

    fn open_abstract(watchdog: &str) -> (ServiceManager, Socket) {
        let name = format!("proctor-test-{}-{watchdog}", std::process::id());
        open_at(&SocketAddr::from_abstract_name(&name).unwrap(), format!("@{name}"), watchdog)
    }

    #[tokio::test(start_paused = true)]
    async fn notifies_of_start_liveness_and_stop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let (manager, socket) = open_at(&SocketAddr::from_pathname(&path).unwrap(), &path, "3000000");
        let drain = Drain::new(Duration::from_secs(60));
        let task = tokio::spawn(manager.run_notifications(drain.clone(), || std::future::ready(true)));
        sleep(Duration::from_millis(2_500)).await;
        assert_eq!(socket.received(), ["READY=1", "STATUS=serving", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]);
        drain.begin(None);
        sleep(Duration::from_millis(1)).await;
        let status = "STATUS=draining: runs have 60 s left";
        assert_eq!(socket.received(), ["STOPPING=1", "EXTEND_TIMEOUT_USEC=30000000", status, "WATCHDOG=1"]);
        sleep(Duration::from_millis(1_000)).await;
        let status = "STATUS=draining: runs have 59 s left";
        assert_eq!(socket.received(), ["EXTEND_TIMEOUT_USEC=30000000", status, "WATCHDOG=1"]);
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_drain_requests_no_more_time() {
        let (manager, socket) = open_abstract("90000000");
        let deadline = Duration::from_secs(60);
        let drain = Drain::new(deadline);
        let task = tokio::spawn(manager.run_notifications(drain.clone(), || std::future::ready(true)));
        drain.begin(None);
        let (begin, mut asked_at) = (Instant::now(), Vec::new());
        while begin.elapsed() < 2 * (deadline + OVERTIME_MAX) {
            sleep(NOTIFY_INTERVAL).await;
            let received = socket.received();
            assert!(received.iter().any(|line| line == "WATCHDOG=1"), "still alive: {received:?}");
            if received.iter().any(|line| line.starts_with("EXTEND_TIMEOUT_USEC=")) {
                asked_at.push(begin.elapsed());
            }
        }
        let last = *asked_at.last().unwrap();
        assert!((deadline + OVERTIME_MAX - NOTIFY_INTERVAL..=deadline + OVERTIME_MAX).contains(&last), "{last:?}");
        assert!(asked_at.array_windows().all(|[one, next]| *next - *one == NOTIFY_INTERVAL), "{asked_at:?}");
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_does_not_answer_sends_no_watchdog_message() {
        let (manager, socket) = open_abstract("1000000");
        let drain = Drain::new(Duration::ZERO);
        let task = tokio::spawn(manager.run_notifications(drain, std::future::pending));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(socket.received(), ["READY=1", "STATUS=serving"]);
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn undelivered_notifications_are_repeated() {
        let (manager, socket) = open_abstract("2000000");
        let drain = Drain::new(Duration::from_secs(10));
        let full = UnixDatagram::unbound().unwrap();
        full.set_nonblocking(true).unwrap();
        while full.send_to_addr(b"STATUS=of another", &manager.address).is_ok() {}
        let task = tokio::spawn(manager.run_notifications(drain.clone(), || std::future::ready(true)));
        drain.begin(None);
        sleep(Duration::from_secs(1)).await;
        assert!(socket.received().iter().all(|line| line == "STATUS=of another"));
        sleep(Duration::from_secs(1)).await;
        let received = socket.received();
        assert!(
            ["READY=1", "STOPPING=1", "WATCHDOG=1"].iter().all(|line| received.iter().any(|sent| sent == line)),
            "{received:?}"
        );
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn sends_no_watchdog_messages_unless_requested() {
        let (manager, socket) = open_abstract("0");
        let task = tokio::spawn(manager.run_notifications(Drain::new(Duration::ZERO), || std::future::ready(true)));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(socket.received(), ["READY=1", "STATUS=serving"]);
        task.abort();
        assert!(ServiceManager::from_env(|_| None).unwrap().is_none());
    }
}

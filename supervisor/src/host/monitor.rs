//! Watches whether this host can run anything: hears what became of every run's worker, tries one of its own when in doubt, and
//! says so to whoever is about to run something, to health and to `doctor`. What it makes of that is decided in
//! [`proctor_core::host_health`].

use crate::clock::Clock;
use crate::ops::drain::Drain;
use proctor_core::host_health::{HostFault, HostHealth};
use proctor_sandbox::{Sandbox, SandboxError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;

/// Pause between two counts of workers that do not die. One is known a minute after its kill.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// The one monitor of a supervisor. Clones are the same one.
#[derive(Debug, Clone)]
pub struct HostMonitor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    health: watch::Sender<HostHealth>,
    /// Rung when a trial may be due sooner than was known.
    doubt: Notify,
    serves: watch::Sender<bool>,
}

impl HostMonitor {
    /// One that has no doubts yet.
    #[must_use]
    pub fn new(clock: Clock) -> HostMonitor {
        let (health, doubt, serves) = (watch::Sender::default(), Notify::new(), watch::Sender::new(true));
        HostMonitor(Arc::new(Shared { clock, health, doubt, serves }))
    }

    /// Why nothing is run at the moment, in words that hold no path.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let health = self.0.health.borrow();
        let HostFault { problem: what, .. } = health.fault()?;
        Some(format!("this host runs nothing until a worker comes up on it: {what}"))
    }

    /// What is wrong, for how many milliseconds, and how many workers do not die.
    #[must_use]
    pub fn trouble(&self) -> (Option<(String, u64)>, u64) {
        let health = self.0.health.borrow();
        let trouble = health
            .fault()
            .map(|HostFault { problem: what, since }| (what.clone(), self.0.clock.now().ms_since(*since)));
        (trouble, health.undead())
    }

    /// Whether runs are taken on, as it changes.
    #[must_use]
    pub fn serves(&self) -> watch::Receiver<bool> {
        self.0.serves.subscribe()
    }

    /// Records what became of a run's worker.
    pub fn ran<T>(&self, outcome: &Result<T, SandboxError>) {
        match outcome {
            Ok(_) => self.0.health.send_modify(HostHealth::record_worker_started),
            Err(error) if error.is_hosts() => {
                let now = self.0.clock.now();
                self.0.health.send_modify(|health| health.record_worker_failed(now));
                self.0.doubt.notify_one();
            }
            Err(_) => {}
        }
    }

    /// Tries workers of `sandbox` whenever that is due, until `drain` begins.
    pub async fn keep(self, sandbox: Arc<dyn Sandbox>, drain: Drain) {
        loop {
            let due = self.0.health.borrow().trial_at();
            let pause = due.map_or(COUNT_EVERY, |due| Duration::from_millis(due.ms_since(self.0.clock.now())));
            tokio::select! {
                () = drain.begun() => return,
                () = self.0.doubt.notified() => continue,
                () = tokio::time::sleep(pause.min(COUNT_EVERY)) => {}
            }
            let is_due = self.0.health.borrow().trial_at().is_some_and(|due| due <= self.0.clock.now());
            let found = spawn_blocking({
                let sandbox = Arc::clone(&sandbox);
                move || (sandbox.undead(), is_due.then(|| sandbox.try_worker()))
            });
            match found.await {
                Ok((undead, tried)) => self.found(undead, tried),
                Err(error) => tracing::error!(%error, "a trial of this host failed"),
            }
        }
    }

    fn found(&self, undead: u64, tried: Option<Result<(), SandboxError>>) {
        let now = self.0.clock.now();
        if let Some(Err(error)) = &tried {
            tracing::error!(%error, source = ?std::error::Error::source(error), "a worker of no run did not come up");
        }
        self.0.health.send_modify(|health| {
            health.record_undead(undead, now);
            if let Some(outcome) = tried {
                health.record_trial(outcome.map_err(|error| error.client_text()), now);
            }
        });
        let serves = self.0.health.borrow().fault().is_none();
        let has_changed = self.0.serves.send_if_modified(|told| std::mem::replace(told, serves) != serves);
        match (has_changed, serves) {
            (true, true) => tracing::info!("workers come up again: runs are taken on"),
            (true, false) => tracing::error!(why = ?self.refusal(), "this host is in trouble: runs are refused"),
            (false, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::drain::DRAIN;
    use proctor_sandbox::{Ending, KillSwitch, RunSpec, SandboxEvent};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use tokio::time::timeout;

    /// A host whose workers come up or not, and die or not.
    #[derive(Default)]
    struct Host {
        is_broken: AtomicBool,
        undead: AtomicU64,
        trials: AtomicU64,
    }

    impl Sandbox for Host {
        fn run(
            &self,
            _: &RunSpec,
            _: &KillSwitch,
            _: &mut dyn FnMut(SandboxEvent<'_>),
        ) -> Result<Ending, SandboxError> {
            Ok(Ending::default())
        }

        fn try_worker(&self) -> Result<(), SandboxError> {
            self.trials.fetch_add(1, Ordering::SeqCst);
            if self.is_broken.load(Ordering::SeqCst) { Err(broken()) } else { Ok(()) }
        }

        fn undead(&self) -> u64 {
            self.undead.load(Ordering::SeqCst)
        }
    }

    fn broken() -> SandboxError {
        SandboxError::WorkerStuck { step: "set-up".to_owned(), state: "it is in state D".to_owned() }
    }

    async fn until(serves: &mut watch::Receiver<bool>, wanted: bool) {
        timeout(Duration::from_secs(3_600), serves.wait_for(|serves| *serves == wanted)).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_runs_once_a_trial_has_failed_and_takes_them_on_again_after_a_good_one() {
        let (host, drain) = (Arc::new(Host::default()), Drain::new(DRAIN));
        let monitor = HostMonitor::new(Clock::new());
        let mut serves = monitor.serves();
        let keeping = tokio::spawn(monitor.clone().keep(host.clone(), drain.clone()));
        host.is_broken.store(true, Ordering::SeqCst);
        (0..3).for_each(|_| monitor.ran::<()>(&Err(broken())));
        assert_eq!(monitor.refusal(), None, "the runs may be the cause themselves");
        until(&mut serves, false).await;
        let refusal = monitor.refusal().unwrap();
        assert!(refusal.ends_with("the sandbox worker does not go on at set-up: it is in state D"), "{refusal}");
        host.is_broken.store(false, Ordering::SeqCst);
        until(&mut serves, true).await;
        assert_eq!((monitor.refusal(), monitor.trouble()), (None, (None, 0)));
        drain.begin(None);
        keeping.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_fail_by_themselves_take_nothing_from_others() {
        let (host, drain) = (Arc::new(Host::default()), Drain::new(DRAIN));
        let monitor = HostMonitor::new(Clock::new());
        let keeping = tokio::spawn(monitor.clone().keep(host.clone(), drain.clone()));
        for _ in 0..100 {
            monitor.ran::<()>(&Err(broken()));
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(monitor.refusal(), None);
        }
        let trials = host.trials.load(Ordering::SeqCst);
        assert!((1..=11).contains(&trials), "{trials}");
        drain.begin(None);
        keeping.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn workers_that_do_not_die_are_counted_and_too_many_are_trouble() {
        let (host, drain) = (Arc::new(Host::default()), Drain::new(DRAIN));
        let monitor = HostMonitor::new(Clock::new());
        let mut serves = monitor.serves();
        let keeping = tokio::spawn(monitor.clone().keep(host.clone(), drain.clone()));
        host.undead.store(17, Ordering::SeqCst);
        until(&mut serves, false).await;
        assert_eq!(monitor.trouble().1, 17);
        host.undead.store(0, Ordering::SeqCst);
        until(&mut serves, true).await;
        drain.begin(None);
        keeping.await.unwrap();
    }
}

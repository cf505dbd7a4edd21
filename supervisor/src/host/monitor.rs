//! Monitors whether this host can run anything. Records the fate of every run's worker, starts a trial worker when in
//! doubt, and reports the result to runs, to the health service and to `doctor`. [`proctor_core::host_health`] makes
//! the decisions.

use crate::clock::Clock;
use crate::ops::drain::Drain;
use proctor_core::host_health::{HostFault, HostHealth};
use proctor_sandbox::{Sandbox, SandboxError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;

/// Interval between counts of workers that do not die. Such a worker counts a minute after its kill.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// The monitor of a supervisor. Clones share it.
#[derive(Debug, Clone)]
pub struct HostMonitor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    health: watch::Sender<HostHealth>,
    /// Notified when a trial may be due sooner.
    recheck: Notify,
    accepts_runs: watch::Sender<bool>,
}

impl HostMonitor {
    /// A monitor of a host that is presumed healthy.
    #[must_use]
    pub fn new(clock: Clock) -> HostMonitor {
        let (health, recheck, accepts_runs) = (watch::Sender::default(), Notify::new(), watch::Sender::new(true));
        HostMonitor(Arc::new(Shared { clock, health, recheck, accepts_runs }))
    }

    /// Why the host runs nothing at present, in words without a host path; `None` if it is healthy.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let health = self.0.health.borrow();
        let HostFault { problem, .. } = health.fault()?;
        Some(format!("this host runs nothing until a worker starts on it: {problem}"))
    }

    /// The host's trouble and its age in milliseconds, and the number of killed workers that are still alive.
    #[must_use]
    pub fn trouble(&self) -> (Option<(String, u64)>, u64) {
        let health = self.0.health.borrow();
        let trouble = health
            .fault()
            .map(|HostFault { problem: what, since }| (what.clone(), self.0.clock.now().ms_since(*since)));
        (trouble, health.undead())
    }

    /// Whether runs are accepted, and every change of that.
    #[must_use]
    pub fn accepts_runs(&self) -> watch::Receiver<bool> {
        self.0.accepts_runs.subscribe()
    }

    /// Records the fate of a run's worker.
    pub fn record_run<T>(&self, outcome: &Result<T, SandboxError>) {
        match outcome {
            Ok(_) => self.0.health.send_modify(HostHealth::record_worker_started),
            Err(error) if error.is_hosts() => {
                let now = self.0.clock.now();
                self.0.health.send_modify(|health| health.record_worker_failed(now));
                self.0.recheck.notify_one();
            }
            Err(_) => {}
        }
    }

    /// Starts trial workers in `sandbox` when they are due, until `drain` begins.
    pub async fn run(self, sandbox: Arc<dyn Sandbox>, drain: Drain) {
        loop {
            let due = self.0.health.borrow().trial_at();
            let pause = due.map_or(COUNT_INTERVAL, |due| Duration::from_millis(due.ms_since(self.0.clock.now())));
            tokio::select! {
                () = drain.begun() => return,
                () = self.0.recheck.notified() => continue,
                () = tokio::time::sleep(pause.min(COUNT_INTERVAL)) => {}
            }
            let is_due = self.0.health.borrow().trial_at().is_some_and(|due| due <= self.0.clock.now());
            let found = spawn_blocking({
                let sandbox = Arc::clone(&sandbox);
                move || (sandbox.undead(), is_due.then(|| sandbox.try_worker()))
            });
            match found.await {
                Ok((undead, tried)) => self.record_trial(undead, tried),
                Err(error) => tracing::error!(%error, "a trial of this host panicked"),
            }
        }
    }

    fn record_trial(&self, undead: u64, tried: Option<Result<(), SandboxError>>) {
        let now = self.0.clock.now();
        if let Some(Err(error)) = &tried {
            tracing::error!(%error, source = ?std::error::Error::source(error), "a trial worker did not start");
        }
        self.0.health.send_modify(|health| {
            health.record_undead(undead, now);
            if let Some(outcome) = tried {
                health.record_trial(outcome.map_err(|error| error.client_text()), now);
            }
        });
        let accepts_runs = self.0.health.borrow().fault().is_none();
        let has_changed =
            self.0.accepts_runs.send_if_modified(|current| std::mem::replace(current, accepts_runs) != accepts_runs);
        match (has_changed, accepts_runs) {
            (true, true) => tracing::info!("workers start again: runs are accepted"),
            (true, false) => tracing::error!(why = ?self.refusal(), "this host is in trouble: runs are refused"),
            (false, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::bounds::DRAIN_GRACE;
    use proctor_sandbox::{Ending, KillSwitch, RunSpec, SandboxEvent};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use tokio::time::timeout;

    /// A host whose workers start or fail, and die or survive, as a test demands.
    #[derive(Default)]
    struct TestHost {
        is_broken: AtomicBool,
        undead: AtomicU64,
        trials: AtomicU64,
    }

    impl Sandbox for TestHost {
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

    async fn wait_until(accepts_runs: &mut watch::Receiver<bool>, expected: bool) {
        timeout(Duration::from_secs(3_600), accepts_runs.wait_for(|accepts_runs| *accepts_runs == expected))
            .await
            .unwrap()
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_runs_after_a_failed_trial_and_accepts_them_after_a_good_one() {
        let (host, drain) = (Arc::new(TestHost::default()), Drain::new(DRAIN_GRACE));
        let monitor = HostMonitor::new(Clock::new());
        let mut accepts_runs = monitor.accepts_runs();
        let task = tokio::spawn(monitor.clone().run(host.clone(), drain.clone()));
        host.is_broken.store(true, Ordering::SeqCst);
        (0..3).for_each(|_| monitor.record_run::<()>(&Err(broken())));
        assert_eq!(monitor.refusal(), None, "the runs themselves may be the cause");
        wait_until(&mut accepts_runs, false).await;
        let refusal = monitor.refusal().unwrap();
        assert!(refusal.ends_with("the sandbox worker does not go on at set-up: it is in state D"), "{refusal}");
        host.is_broken.store(false, Ordering::SeqCst);
        wait_until(&mut accepts_runs, true).await;
        assert_eq!((monitor.refusal(), monitor.trouble()), (None, (None, 0)));
        drain.begin(None);
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn failing_runs_do_not_affect_other_runs() {
        let (host, drain) = (Arc::new(TestHost::default()), Drain::new(DRAIN_GRACE));
        let monitor = HostMonitor::new(Clock::new());
        let task = tokio::spawn(monitor.clone().run(host.clone(), drain.clone()));
        for _ in 0..100 {
            monitor.record_run::<()>(&Err(broken()));
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(monitor.refusal(), None);
        }
        let trials = host.trials.load(Ordering::SeqCst);
        assert!((1..=11).contains(&trials), "{trials}");
        drain.begin(None);
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_workers_that_do_not_die_are_trouble() {
        let (host, drain) = (Arc::new(TestHost::default()), Drain::new(DRAIN_GRACE));
        let monitor = HostMonitor::new(Clock::new());
        let mut accepts_runs = monitor.accepts_runs();
        let task = tokio::spawn(monitor.clone().run(host.clone(), drain.clone()));
        host.undead.store(17, Ordering::SeqCst);
        wait_until(&mut accepts_runs, false).await;
        assert_eq!(monitor.trouble().1, 17);
        host.undead.store(0, Ordering::SeqCst);
        wait_until(&mut accepts_runs, true).await;
        drain.begin(None);
        task.await.unwrap();
    }
}

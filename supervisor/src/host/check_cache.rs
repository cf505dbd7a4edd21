//! Runs the host checks at most once at a time and caches their result for a few seconds. Callers that arrive during a
//! check share its result. The checks start every toolchain, so frequent calls of operators would otherwise take the host
//! from its tenants.

use crate::host::checks::Check;
use crate::ops::drain::Drain;
use proctor_core::outcome::KillReason;
use proctor_sandbox::KillSwitch;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How long a result is reused. Installed software changes more rarely, and a person who installs something checks
/// again later.
const RESULT_MAX_AGE: Duration = Duration::from_secs(10);

/// Callers that may wait at the same time: the streams of one connection.
const CALLERS_MAX: usize = 1_024;

type CheckResult = Arc<Vec<Check>>;

/// Handle of the task that runs the checks. Clones share it.
#[derive(Debug, Clone)]
pub struct HostCheckCache(mpsc::Sender<oneshot::Sender<CheckResult>>);

impl HostCheckCache {
    /// Starts a cache whose results come from `run_checks`, which blocks. Its kill switch is triggered when `drain`
    /// begins; the switch is `None` if the host has no descriptor for one.
    pub fn start<L>(drain: Drain, run_checks: L) -> HostCheckCache
    where
        L: Fn(Option<&KillSwitch>) -> Vec<Check> + Send + Sync + 'static,
    {
        let (requests, inbox) = mpsc::channel(CALLERS_MAX);
        tokio::spawn(serve(inbox, drain, Arc::new(run_checks)));
        HostCheckCache(requests)
    }

    /// The latest result. `None` if the checks failed, or if none ran before the drain.
    pub async fn checks(&self) -> Option<CheckResult> {
        let (reply, result) = oneshot::channel();
        self.0.send(reply).await.ok()?;
        result.await.ok()
    }
}

async fn serve<L>(mut inbox: mpsc::Receiver<oneshot::Sender<CheckResult>>, drain: Drain, run_checks: Arc<L>)
where
    L: Fn(Option<&KillSwitch>) -> Vec<Check> + Send + Sync + 'static,
{
    let mut last: Option<(Instant, CheckResult)> = None;
    while let Some(caller) = inbox.recv().await {
        // Skip callers that have given up: a crowd whose deadlines have passed costs no further check.
        if caller.is_closed() {
            continue;
        }
        let is_fresh = last.as_ref().is_some_and(|(at, _)| at.elapsed() < RESULT_MAX_AGE);
        if !is_fresh && !drain.has_begun() {
            let result = run_once(&drain, Arc::clone(&run_checks)).await;
            last = result.map(|result| (Instant::now(), result)).or(last);
        }
        if let Some((_, result)) = &last {
            _ = caller.send(Arc::clone(result));
        }
    }
}

async fn run_once<L>(drain: &Drain, run_checks: Arc<L>) -> Option<CheckResult>
where
    L: Fn(Option<&KillSwitch>) -> Vec<Check> + Send + Sync + 'static,
{
    let kill = KillSwitch::new().ok();
    let checks = drain.side_tasks().spawn_blocking({
        let kill = kill.clone();
        move || run_checks(kill.as_ref())
    });
    tokio::select! {
        result = checks => result.inspect_err(|error| tracing::error!(%error, "the host checks failed")).ok().map(Arc::new),
        () = drain.begun() => {
            // A partial result is discarded. The drain waits for the checks to end, together with their processes.
            if let Some(kill) = kill {
                kill.kill(KillReason::Closed);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use proctor_core::bounds::DRAIN_GRACE;
    use proctor_sandbox::Status;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::timeout;

    const PATIENCE: Duration = Duration::from_secs(120);

    // The name of the check is the number of the run that produced it.
    fn result_of_run(number: usize) -> Vec<Check> {
        let (name, detail, remedy) = (number.to_string(), String::new(), String::new());
        vec![Check { group: "toolchain", name, status: Status::Usable, detail, needed: false, remedy }]
    }

    fn counting_cache() -> (HostCheckCache, Drain, Arc<AtomicUsize>) {
        let (drain, runs) = (Drain::new(DRAIN_GRACE), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&runs);
        let run_checks = move |_: Option<&KillSwitch>| result_of_run(counter.fetch_add(1, Ordering::SeqCst) + 1);
        (HostCheckCache::start(drain.clone(), run_checks), drain, runs)
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_result_which_is_reused_for_a_while() {
        let (cache, drain, runs) = counting_cache();
        let answers = join_all((0..60).map(|_| cache.checks())).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap()[0].name == "1"));
        tokio::time::advance(RESULT_MAX_AGE - Duration::from_secs(1)).await;
        assert_eq!(cache.checks().await.unwrap()[0].name, "1");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.checks().await.unwrap()[0].name, "2");
        tokio::time::advance(RESULT_MAX_AGE).await;
        drain.begin(None);
        assert_eq!(cache.checks().await.unwrap()[0].name, "2", "the result of the last run");
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn callers_that_gave_up_cost_no_check() {
        let (cache, _drain, runs) = counting_cache();
        let mut left = Vec::new();
        for _ in 0..60 {
            let (reply, result) = oneshot::channel();
            cache.0.send(reply).await.unwrap();
            left.push(result);
        }
        drop(left);
        assert_eq!(cache.checks().await.unwrap()[0].name, "1");
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_drain_ends_running_checks_and_starts_none() {
        let drain = Drain::new(DRAIN_GRACE);
        let (runs, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
        let (counter, begins) = (Arc::clone(&runs), Arc::clone(&begun));
        // Runs until its kill switch is triggered.
        let cache = HostCheckCache::start(drain.clone(), move |kill: Option<&KillSwitch>| {
            begins.notify_one();
            assert_eq!(kill.unwrap().wait(PATIENCE), Some(KillReason::Closed));
            result_of_run(counter.fetch_add(1, Ordering::SeqCst) + 1)
        });
        let request = tokio::spawn({
            let cache = cache.clone();
            async move { cache.checks().await }
        });
        timeout(PATIENCE, begun.notified()).await.unwrap();
        drain.begin(None);
        assert_eq!(timeout(PATIENCE, request).await.unwrap().unwrap(), None);
        timeout(PATIENCE, drain.side_tasks_ended()).await.unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1, "the drain waited for the checks");
        assert_eq!(cache.checks().await, None);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

//! One look at the host at a time: who asks while it goes on waits for the same answer, and who asks soon after gets it too.
//! A look starts every toolchain, so operators who ask often would otherwise take the host from its tenants. Must not know
//! how one looks.

use crate::host::checks::Check;
use crate::ops::drain::Drain;
use proctor_core::outcome::KillReason;
use proctor_sandbox::KillSwitch;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How long an answer is kept: what is installed on a host changes more rarely, and a person who installs something looks
/// again after that.
const KEPT: Duration = Duration::from_secs(10);

/// Callers who may wait without being in the way of each other: the streams of one connection.
const ASKERS: usize = 1_024;

type Found = Arc<Vec<Check>>;

/// Where to ask. Clones ask the same one.
#[derive(Debug, Clone)]
pub struct HostCheckCache(mpsc::Sender<oneshot::Sender<Found>>);

impl HostCheckCache {
    /// One that looks by `look`, which blocks, and which ends early when its switch is pressed: that is, when `drain` begins.
    /// It goes on without a switch where the host has no descriptor for one.
    pub fn start<L>(drain: Drain, look: L) -> HostCheckCache
    where
        L: Fn(Option<&KillSwitch>) -> Vec<Check> + Send + Sync + 'static,
    {
        let (ask, inbox) = mpsc::channel(ASKERS);
        tokio::spawn(answer(inbox, drain, Arc::new(look)));
        HostCheckCache(ask)
    }

    /// What was found. `None` when the look failed, or when none was made before the drain.
    pub async fn checks(&self) -> Option<Found> {
        let (tell, told) = oneshot::channel();
        self.0.send(tell).await.ok()?;
        told.await.ok()
    }
}

async fn answer<L>(mut inbox: mpsc::Receiver<oneshot::Sender<Found>>, drain: Drain, look: Arc<L>)
where
    L: Fn(Option<&KillSwitch>) -> Vec<Check> + Send + Sync + 'static,
{
    let mut last: Option<(Instant, Found)> = None;
    while let Some(asker) = inbox.recv().await {
        // Who has left wants nothing: a crowd whose deadlines have passed costs no further look.
        if asker.is_closed() {
            continue;
        }
        let is_fresh = last.as_ref().is_some_and(|(at, _)| at.elapsed() < KEPT);
        if !is_fresh && !drain.has_begun() {
            let found = look_once(&drain, Arc::clone(&look)).await;
            last = found.map(|found| (Instant::now(), found)).or(last);
        }
        if let Some((_, found)) = &last {
            _ = asker.send(Arc::clone(found));
        }
    }
}

async fn look_once<L>(drain: &Drain, look: Arc<L>) -> Option<Found>
where
    L: Fn(Option<&KillSwitch>) -> Vec<Check> + Send + Sync + 'static,
{
    let kill = KillSwitch::new().ok();
    let looking = drain.beside().spawn_blocking({
        let kill = kill.clone();
        move || look(kill.as_ref())
    });
    tokio::select! {
        found = looking => found.inspect_err(|error| tracing::error!(%error, "a look at the host failed")).ok().map(Arc::new),
        () = drain.begun() => {
            // Half a look is no answer. The end waits for the rest of it, which is to take its processes along.
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
    use crate::ops::drain::DRAIN;
    use futures_util::future::join_all;
    use proctor_sandbox::Status;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::timeout;

    const PATIENCE: Duration = Duration::from_secs(120);

    // The name says which look it was.
    fn found(number: usize) -> Vec<Check> {
        let (name, detail, remedy) = (number.to_string(), String::new(), String::new());
        vec![Check { group: "toolchain", name, status: Status::Usable, detail, needed: false, remedy }]
    }

    fn counting() -> (HostCheckCache, Drain, Arc<AtomicUsize>) {
        let (drain, looks) = (Drain::new(DRAIN), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&looks);
        let look = move |_: Option<&KillSwitch>| found(counted.fetch_add(1, Ordering::SeqCst) + 1);
        (HostCheckCache::start(drain.clone(), look), drain, looks)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_shares_one_look_which_is_kept_for_a_while() {
        let (lookout, drain, looks) = counting();
        let answers = join_all((0..60).map(|_| lookout.checks())).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap()[0].name == "1"));
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        assert_eq!(lookout.checks().await.unwrap()[0].name, "1");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lookout.checks().await.unwrap()[0].name, "2");
        tokio::time::advance(KEPT).await;
        drain.begin(None);
        assert_eq!(lookout.checks().await.unwrap()[0].name, "2", "the last look's");
        assert_eq!(looks.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn who_has_left_costs_no_look() {
        let (lookout, _drain, looks) = counting();
        let mut left = Vec::new();
        for _ in 0..60 {
            let (tell, told) = oneshot::channel();
            lookout.0.send(tell).await.unwrap();
            left.push(told);
        }
        drop(left);
        assert_eq!(lookout.checks().await.unwrap()[0].name, "1");
        assert_eq!(looks.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_drain_ends_the_look_that_goes_on_and_lets_none_begin() {
        let drain = Drain::new(DRAIN);
        let (looks, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
        let (counted, begins) = (Arc::clone(&looks), Arc::clone(&begun));
        // Lasts until it is asked to end.
        let lookout = HostCheckCache::start(drain.clone(), move |kill: Option<&KillSwitch>| {
            begins.notify_one();
            assert_eq!(kill.unwrap().wait(PATIENCE), Some(KillReason::Closed));
            found(counted.fetch_add(1, Ordering::SeqCst) + 1)
        });
        let asked = tokio::spawn({
            let lookout = lookout.clone();
            async move { lookout.checks().await }
        });
        timeout(PATIENCE, begun.notified()).await.unwrap();
        drain.begin(None);
        assert_eq!(timeout(PATIENCE, asked).await.unwrap().unwrap(), None);
        timeout(PATIENCE, drain.beside_ended()).await.unwrap();
        assert_eq!(looks.load(Ordering::SeqCst), 1, "the end has waited for it");
        assert_eq!(lookout.checks().await, None);
        assert_eq!(looks.load(Ordering::SeqCst), 1);
    }
}

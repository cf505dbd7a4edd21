//! Looks at a workspace for requests that find their session busy: whether they could be carried out, and whether they are
//! the run that goes on. One look at a time, for all who asked before it began. Must not know what becomes of them.

use super::{About, Asked, SessionError, Started};
use crate::runs::context::ScanPermit;
use crate::runs::prepare::{PrepareError, prepare};
use proctor_core::request::{Fingerprint, RunKind, RunRequest, Selection};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, spawn, spawn_blocking};

/// Requests that may wait for a look: as many as may wait for a run.
const WAITING_MAX: usize = 1_024;

/// What tells the caller of a start what became of it.
pub(super) type Reply = oneshot::Sender<Result<Started, SessionError>>;

/// A request whose look was taken: what was seen, or why it cannot be carried out.
pub(super) type Seen = (Asked, Result<Option<Fingerprint>, SessionError>);

/// The look that is on, and who waits for the next.
#[derive(Default)]
pub(super) struct Looking {
    on: Option<JoinHandle<Result<Vec<Seen>, JoinError>>>,
    /// Who waits for the one that is on, in the order of what it will have seen.
    served: Vec<Reply>,
    next: Vec<(Asked, Reply)>,
}

impl Looking {
    /// Has a request wait for the next look.
    pub(super) fn wait(&mut self, about: &Arc<About>, asked: Box<Asked>, reply: Reply) {
        // Who gave up has closed its end; its place is free.
        self.next.retain(|(_, reply)| !reply.is_closed());
        if self.next.len() >= WAITING_MAX {
            _ = reply.send(Err(SessionError::TooMany { max: WAITING_MAX }));
            return;
        }
        self.next.push((*asked, reply));
        self.begin(about);
    }

    /// Whether anybody waits for a look.
    pub(super) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    // Begins a look for all who wait, unless one is on. What was written to the workspace before a request was sent is seen by
    // a look that began after it came; so nobody is served by one that was on already.
    fn begin(&mut self, about: &Arc<About>) {
        if self.on.is_some() {
            return;
        }
        self.next.retain(|(_, reply)| !reply.is_closed());
        if self.next.is_empty() {
            return;
        }
        let (asked, replies): (Vec<_>, Vec<_>) = self.next.drain(..).unzip();
        self.served = replies;
        let about = Arc::clone(about);
        self.on = Some(spawn(looked(about, asked)));
    }

    /// Waits for the look that is on; for ever when there is none. What it saw goes with who asked, and the next begins.
    pub(super) async fn seen(&mut self, about: &Arc<About>) -> Vec<(Seen, Reply)> {
        let seen = match &mut self.on {
            Some(on) => on.await,
            None => std::future::pending().await,
        };
        self.on = None;
        let served = std::mem::take(&mut self.served);
        self.begin(about);
        match seen.flatten() {
            Ok(seen) => seen.into_iter().zip(served).collect(),
            Err(error) => {
                tracing::error!(%error, "the look at a workspace broke");
                served.into_iter().for_each(|reply| _ = reply.send(Err(SessionError::Host)));
                Vec::new()
            }
        }
    }
}

/// Looks, once there is room for it, for all who asked.
async fn looked(about: Arc<About>, mut asked: Vec<Asked>) -> Result<Vec<Seen>, JoinError> {
    let mut room = ScanPermit::acquire(&about.policy.now().scan_permits, &about.context.scan_permits).await;
    loop {
        let of_thread = Arc::clone(&about);
        let seen = spawn_blocking(move || {
            let seen = look(&of_thread, asked, &mut room);
            (seen, room)
        });
        match seen.await? {
            (Ok(seen), _) => return Ok(seen),
            (Err(back), small) => (asked, room) = (back, small.enlarge().await),
        }
    }
}

/// What was seen, or who asked where there is no room for the look now.
fn look(about: &About, asked: Vec<Asked>, room: &mut ScanPermit) -> Result<Vec<Seen>, Vec<Asked>> {
    #[cfg(test)]
    about.looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let look = match about.workspace.scan_within(&mut || room.try_enlarge()).map_err(PrepareError::from) {
        Ok(Some(look)) => look,
        Ok(None) => return Err(asked),
        Err(why) => return Ok(asked.into_iter().map(|asked| (asked, Err(why.clone().into()))).collect()),
    };
    let policy = about.policy.now();
    let prepared = |asked: &Asked| match &asked.request.selection {
        // What a rerun selects is known when it begins.
        Selection::LastFailed { .. } => Ok(()),
        _ => {
            prepare(&about.context, &policy, &about.id, &about.workspace, &look, &asked.request, asked.kind).map(|_| ())
        }
    };
    // An agent that asks again asks the same, and many who ask at once ask the same.
    let mut known: Vec<(RunRequest, RunKind, Result<(), PrepareError>)> = Vec::new();
    let mut seen = Vec::with_capacity(asked.len());
    for asked in asked {
        let before = known.iter().find(|(request, kind, _)| *kind == asked.kind && *request == asked.request);
        let came = match before {
            Some((_, _, came)) => came.clone(),
            None => {
                let came = prepared(&asked);
                known.push((asked.request.clone(), asked.kind, came.clone()));
                came
            }
        };
        seen.push((asked, came.map(|()| look.fingerprint).map_err(SessionError::from)));
    }
    Ok(seen)
}

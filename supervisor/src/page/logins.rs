//! Logins of browsers: a task that keeps which random cookie stands for which credential, and how many places each caller
//! has among the viewers. Nothing of it is on disk, so a restart ends every login.

use proctor_core::bounds::{LOGINS_MAX, LOGINS_PER_CALLER_MAX, VIEWERS_PER_CALLER_MAX};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

/// Messages that may wait: each is answered without waiting, and the listener has no more connections.
const MAILBOX: usize = 256;

/// How long a login lasts: a working day. A JSON web token that expires earlier ends it earlier.
const LOGIN_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The value of a login's cookie: 256 random bits in hex.
pub(super) type Cookie = String;

/// A handle to the task. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Logins(mpsc::Sender<LoginMessage>);

enum LoginMessage {
    Add { caller: String, token: Arc<str>, reply: oneshot::Sender<Option<Cookie>> },
    Find { cookie: Cookie, reply: oneshot::Sender<Option<Arc<str>>> },
    Remove { cookie: Cookie, reply: oneshot::Sender<()> },
    TakePlace { caller: String, reply: oneshot::Sender<Option<OwnedSemaphorePermit>> },
}

struct Login {
    /// As places are counted: a token of another text is no other caller.
    caller: String,
    token: Arc<str>,
    at: Instant,
}

impl Logins {
    pub(super) fn start() -> Logins {
        let (requests, inbox) = mpsc::channel(MAILBOX);
        tokio::spawn(serve(inbox));
        Logins(requests)
    }

    /// A new login of `caller` with its credential, which has been checked. `None` if the kernel gives no random bytes.
    pub(super) async fn add(&self, caller: String, token: Arc<str>) -> Option<Cookie> {
        self.request(|reply| LoginMessage::Add { caller, token, reply }).await.flatten()
    }

    /// The credential behind a cookie. The caller checks it again: it may have been revoked since.
    pub(super) async fn find(&self, cookie: Cookie) -> Option<Arc<str>> {
        self.request(|reply| LoginMessage::Find { cookie, reply }).await.flatten()
    }

    /// Ends a login.
    pub(super) async fn remove(&self, cookie: Cookie) {
        _ = self.request(|reply| LoginMessage::Remove { cookie, reply }).await;
    }

    /// A place of this caller among the viewers; `None` if it has all of its own.
    pub(super) async fn take_place(&self, caller: String) -> Option<OwnedSemaphorePermit> {
        self.request(|reply| LoginMessage::TakePlace { caller, reply }).await.flatten()
    }

    async fn request<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> LoginMessage) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.0.send(message(reply)).await.ok()?;
        answer.await.ok()
    }
}

#[derive(Default)]
struct LoginTask {
    /// Logins by the hash of their cookie: the time of a look-up tells nothing about a cookie.
    logins: HashMap<blake3::Hash, Login>,
    /// Places of callers that have any in use.
    places: HashMap<String, Arc<Semaphore>>,
}

async fn serve(mut inbox: mpsc::Receiver<LoginMessage>) {
    let mut task = LoginTask::default();
    while let Some(message) = inbox.recv().await {
        match message {
            LoginMessage::Add { caller, token, reply } => _ = reply.send(task.add(caller, token)),
            LoginMessage::Find { cookie, reply } => _ = reply.send(task.find(&cookie)),
            LoginMessage::Remove { cookie, reply } => {
                task.logins.remove(&blake3::hash(cookie.as_bytes()));
                _ = reply.send(());
            }
            LoginMessage::TakePlace { caller, reply } => _ = reply.send(task.take_place(caller)),
        }
    }
}

impl LoginTask {
    fn add(&mut self, caller: String, token: Arc<str>) -> Option<Cookie> {
        self.logins.retain(|_, login| login.at.elapsed() < LOGIN_LIFETIME);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        self.logins.values().for_each(|login| *counts.entry(&login.caller).or_default() += 1);
        // The caller with the most logins has one less, so that none ends those of others with few.
        let ends = match counts.get(caller.as_str()) {
            Some(own) if *own >= LOGINS_PER_CALLER_MAX => Some(caller.clone()),
            _ if self.logins.len() >= LOGINS_MAX => {
                counts.into_iter().max_by_key(|(_, count)| *count).map(|(caller, _)| caller.to_owned())
            }
            _ => None,
        };
        if let Some(caller) = ends {
            self.remove_oldest(&caller);
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).ok()?;
        let cookie = blake3::Hash::from_bytes(bytes).to_hex().to_string();
        self.logins.insert(blake3::hash(cookie.as_bytes()), Login { caller, token, at: Instant::now() });
        Some(cookie)
    }

    fn remove_oldest(&mut self, caller: &str) {
        let own = self.logins.iter().filter(|(_, login)| login.caller == caller);
        let oldest = own.min_by_key(|(_, login)| login.at);
        if let Some(oldest) = oldest.map(|(hash, _)| *hash) {
            self.logins.remove(&oldest);
        }
    }

    fn find(&self, cookie: &str) -> Option<Arc<str>> {
        let login = self.logins.get(&blake3::hash(cookie.as_bytes()))?;
        (login.at.elapsed() < LOGIN_LIFETIME).then(|| Arc::clone(&login.token))
    }

    fn take_place(&mut self, caller: String) -> Option<OwnedSemaphorePermit> {
        self.places.retain(|_, places| places.available_permits() < VIEWERS_PER_CALLER_MAX);
        let places = self.places.entry(caller).or_insert_with(|| Arc::new(Semaphore::new(VIEWERS_PER_CALLER_MAX)));
        Arc::clone(places).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_login_ends_with_its_time_and_when_its_browser_leaves() {
        let logins = Logins::start();
        let cookie = logins.add("a".to_owned(), "a".into()).await.unwrap();
        let other = logins.add("a".to_owned(), "a".into()).await.unwrap();
        assert!(cookie.len() == 64 && cookie != other);
        assert_eq!(logins.find(cookie.clone()).await.as_deref(), Some("a"));
        assert_eq!(logins.find("0".repeat(64)).await, None);
        logins.remove(cookie.clone()).await;
        assert_eq!(logins.find(cookie).await, None);
        tokio::time::advance(LOGIN_LIFETIME - Duration::from_secs(1)).await;
        assert!(logins.find(other.clone()).await.is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(logins.find(other).await, None);
    }

    async fn add_many(logins: &Logins, caller: &str, count: usize) -> Vec<Cookie> {
        let mut cookies = Vec::new();
        for number in 0..count {
            tokio::time::advance(Duration::from_millis(1)).await;
            // Each renewal of a JSON web token is another text.
            cookies.push(logins.add(caller.to_owned(), format!("token {number}").into()).await.unwrap());
        }
        cookies
    }

    #[tokio::test(start_paused = true)]
    async fn many_logins_of_one_caller_end_its_oldest_and_no_others() {
        let logins = Logins::start();
        let other = add_many(&logins, "other", 1).await.remove(0);
        let cookies = add_many(&logins, "a", LOGINS_PER_CALLER_MAX + 1).await;
        assert_eq!(logins.find(cookies[0].clone()).await, None);
        assert!(logins.find(cookies[1].clone()).await.is_some() && logins.find(other).await.is_some());
    }

    #[test]
    fn many_callers_end_logins_of_those_with_the_most() {
        let mut task = LoginTask::default();
        let other = task.add("other".to_owned(), "t".into()).unwrap();
        for number in 1..LOGINS_MAX {
            let caller = (number / LOGINS_PER_CALLER_MAX).to_string();
            let login = Login { caller, token: "t".into(), at: Instant::now() };
            task.logins.insert(blake3::hash(&number.to_le_bytes()), login);
        }
        let new = task.add("new".to_owned(), "t".into()).unwrap();
        assert!(task.find(&other).is_some() && task.find(&new).is_some());
        assert_eq!(task.logins.len(), LOGINS_MAX);
    }

    #[tokio::test]
    async fn a_caller_has_some_places_and_takes_none_of_others() {
        let logins = Logins::start();
        let mut places = Vec::new();
        for _ in 0..VIEWERS_PER_CALLER_MAX {
            places.push(logins.take_place("a".to_owned()).await.unwrap());
        }
        assert!(logins.take_place("a".to_owned()).await.is_none());
        let other = logins.take_place("b".to_owned()).await;
        assert!(other.is_some());
        places.pop();
        assert!(logins.take_place("a".to_owned()).await.is_some());
    }
}

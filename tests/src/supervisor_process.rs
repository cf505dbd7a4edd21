//! A real `proctor serve` process with two tenants and an operator, on a unix socket and on TCP. Must not know what its
//! clients ask.

use crate::grpc_client::Client;
use crate::paused_test::PausedTest;
use crate::process::{
    ProcessOutput, WAIT_MAX, command, maven_opts, program, rustup_home, search_path, signal, wait_until,
};
use crate::test_workspace::{StateDir, cache_home, copy_fixture, give, go_modules};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// The tenants of every supervisor here. The first one is also known by our user id on the unix socket.
pub const TENANTS: [&str; 2] = ["alpha", "beta"];

/// How many users of this host each tenant has.
pub const UIDS: u32 = 1_000;

/// The first of the users of this host who are `tenant`: its runs are that user's, and its workspaces belong to it.
#[must_use]
pub fn first_uid(tenant: &str) -> u32 {
    let place = TENANTS.iter().position(|name| *name == tenant).unwrap();
    400_000 + UIDS * u32::try_from(place).unwrap()
}

/// Lines of stderr that may wait to be read: all that a supervisor says in a test.
const LINES: usize = 10_000;

/// A supervisor that runs, and the directories of its tenants. It is killed when it is dropped.
pub struct SupervisorProcess {
    child: Option<Child>,
    dir: TempDir,
    // Given back after the child has ended.
    state: StateDir,
    /// Where it listens on TCP.
    pub address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
    ear: Arc<StderrReader>,
}

/// Who reads its stderr.
#[derive(Default)]
struct StderrReader {
    is_deaf: AtomicBool,
    /// The pipe, once nobody reads it any more.
    unread: Mutex<Option<BufReader<ChildStderr>>>,
}

/// What a supervisor is told beyond the usual.
#[derive(Debug, Clone, Default)]
pub struct SupervisorSettings {
    /// More keys for `[host]`.
    pub host: String,
    /// More keys for each `[[tenant]]`.
    pub tenant: String,
    /// PATH; empty for ours.
    pub path: String,
    /// A further root of each tenant; empty for none.
    pub root: String,
    /// More keys for `[listen]`, and whole tables.
    pub listen: String,
    /// More variables of its environment.
    pub env: Vec<(String, OsString)>,
}

/// The bearer token of a tenant, or of the operator.
#[must_use]
pub fn token(name: &str) -> String {
    format!("token-of-{name}")
}

fn hash(name: &str) -> String {
    blake3::hash(token(name).as_bytes()).to_string()
}

/// The host file of a supervisor that keeps its own in `state` and whose tenants' roots are below `dir`.
#[must_use]
pub fn host_file(dir: &Path, state: &Path, settings: &SupervisorSettings) -> String {
    let uid = nix::unistd::getuid();
    let mut text = format!(
        "state_dir = {state:?}\n\
         [listen]\nunix = {socket:?}\ntcp = \"127.0.0.1:0\"\n{listen}\n\
         [host]\n{host}\n\
         [audit]\npath = {audit:?}\n\
         [operators]\ntoken_hashes = [{operator:?}]\n",
        socket = dir.join("proctor.sock"),
        audit = dir.join("audit.jsonl"),
        host = settings.host,
        listen = settings.listen,
        operator = hash("operator"),
    );
    for tenant in TENANTS {
        // Only root can run tests as another user.
        let range = format!("uid_range = {{ first = {}, count = {UIDS} }}\n", first_uid(tenant));
        let range = if uid.is_root() { range } else { String::new() };
        let uids = if tenant == TENANTS[0] { format!("[{uid}]") } else { "[]".to_owned() };
        text += &format!(
            "[[tenant]]\nid = {tenant:?}\nuids = {uids}\ntoken_hashes = [{hash:?}]\nroots = [{root:?}{also}]\n{range}{more}\n",
            hash = hash(tenant),
            root = dir.join(tenant),
            also = if settings.root.is_empty() { String::new() } else { format!(", {:?}", settings.root) },
            more = settings.tenant,
        );
    }
    text
}

impl SupervisorProcess {
    /// Starts one that is told nothing special.
    #[must_use]
    pub fn start() -> SupervisorProcess {
        SupervisorProcess::with(&SupervisorSettings::default())
    }

    /// Starts one.
    #[must_use]
    pub fn with(settings: &SupervisorSettings) -> SupervisorProcess {
        let state = StateDir::acquire();
        let dir = tempfile::Builder::new().prefix("proctor-test-").tempdir().unwrap();
        for name in TENANTS.into_iter().chain(["tmp", "home"]) {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("proctor.toml"), host_file(dir.path(), state.dir(), settings)).unwrap();
        let path = Some(OsString::from(&settings.path)).filter(|path| !path.is_empty());
        let mut child = command(&program("proctor"))
            .args(["serve", "--config"])
            .arg(dir.path().join("proctor.toml"))
            .env("PATH", path.unwrap_or_else(search_path))
            .env("HOME", dir.path().join("home"))
            .env("TMPDIR", dir.path().join("tmp"))
            .env("XDG_CACHE_HOME", cache_home())
            .env("GOMODCACHE", go_modules())
            .env("RUSTUP_HOME", rustup_home())
            .env("MAVEN_OPTS", maven_opts())
            .env("NO_COLOR", "1")
            .envs(settings.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let ear = Arc::<StderrReader>::default();
        let listening = Arc::clone(&ear);
        let said = Arc::new(Mutex::new(Vec::new()));
        let (found, address) = mpsc::sync_channel(LINES);
        let log = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in stderr.by_ref().lines().map_while(Result::ok) {
                let address = line.split("address=").nth(1).and_then(|rest| rest.trim().parse::<SocketAddr>().ok());
                log.lock().unwrap().push(line);
                if let Some(address) = address {
                    _ = found.send(address);
                }
                if listening.is_deaf.load(Ordering::Relaxed) {
                    *listening.unread.lock().unwrap() = Some(stderr);
                    return;
                }
            }
        });
        let address = address.recv_timeout(WAIT_MAX).unwrap_or_else(|_| panic!("no address in {:?}", said.lock()));
        SupervisorProcess { child: Some(child), dir, state, address, said, ear }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Its unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("proctor.sock")
    }

    /// Its audit log.
    #[must_use]
    pub fn audit(&self) -> PathBuf {
        self.dir.path().join("audit.jsonl")
    }

    /// The directory that holds everything it was given.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its state directory.
    #[must_use]
    pub fn state(&self) -> &Path {
        self.state.dir()
    }

    /// Directory for its temporary files.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// The directory below which the workspaces of `tenant` are.
    #[must_use]
    pub fn root(&self, tenant: &str) -> PathBuf {
        self.dir.path().join(tenant).canonicalize().unwrap()
    }

    /// A copy of `fixture` as workspace `name` of `tenant`.
    #[must_use]
    pub fn workspace(&self, tenant: &str, name: &str, fixture: &str) -> PathBuf {
        let workspace = self.root(tenant).join(name);
        copy_fixture(fixture, &workspace);
        give(&workspace, first_uid(tenant));
        workspace
    }

    /// Workspace `name` of `tenant`, with nothing in it.
    #[must_use]
    pub fn empty_workspace(&self, tenant: &str, name: &str) -> PathBuf {
        let workspace = self.root(tenant).join(name);
        fs::create_dir(&workspace).unwrap();
        give(&workspace, first_uid(tenant));
        workspace
    }

    /// Workspace `name` of `tenant`, whose test waits.
    #[must_use]
    pub fn paused_test(&self, tenant: &str, name: &str) -> PausedTest {
        let waiting = PausedTest::at(&self.root(tenant).join(name));
        give(&waiting.workspace, first_uid(tenant));
        waiting
    }

    /// A client over TCP with the token of `name`: a tenant or `operator`.
    pub async fn client(&self, name: &str) -> Client {
        Client::tcp(self.address, Some(&token(name))).await
    }

    /// A client over the unix socket, who is the first tenant by user id.
    pub async fn local_client(&self) -> Client {
        Client::unix(self.socket()).await
    }

    /// What it has said on stderr until now.
    #[must_use]
    pub fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// Reads its stderr no longer than to the next line.
    pub fn stop_reading(&self) {
        self.ear.is_deaf.store(true, Ordering::Relaxed);
    }

    /// Its stderr, which nobody reads any more and which holds what was said since. When it is dropped, stderr is closed.
    #[must_use]
    pub fn unread(&self) -> BufReader<ChildStderr> {
        let mut unread = None;
        wait_until("nobody reads its stderr", || {
            unread = self.ear.unread.lock().unwrap().take();
            unread.is_some()
        });
        unread.unwrap()
    }

    /// Changes its host file.
    pub fn rewrite(&self, change: impl FnOnce(String) -> String) {
        let path = self.dir.path().join("proctor.toml");
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// Changes its host file, has it read anew, and waits until it has been: what was said of it.
    #[must_use]
    pub fn reload(&self, change: impl FnOnce(String) -> String) -> String {
        self.rewrite(change);
        let before = self.said().len();
        signal(self.pid(), Signal::SIGHUP);
        let since = || self.said()[before..].to_owned();
        wait_until("the host file is read anew", || {
            ["was reloaded", "stays in force"].iter().any(|end| since().contains(end))
        });
        since()
    }

    /// Waits for the end that somebody has asked for.
    #[must_use]
    pub fn wait_for_exit(&mut self) -> ProcessOutput {
        crate::process::wait_for_exit(self.child.take().unwrap())
    }

    /// Sends a signal and waits for the end.
    #[must_use]
    pub fn end(&mut self, with: Signal) -> ProcessOutput {
        let child = self.child.take().unwrap();
        signal(child.id(), with);
        crate::process::wait_for_exit(child)
    }
}

impl Drop for SupervisorProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
            if std::thread::panicking() {
                eprintln!("the supervisor said:\n{}", self.said());
            }
        }
    }
}

//! A real `proctor serve` process with two tenants and an operator, listening on a unix socket and on TCP.

use crate::grpc_client::Client;
use crate::paused_test::PausedTest;
use crate::process::{
    ProcessOutput, WAIT_MAX, command, maven_opts, program, rustup_home, search_path, signal, wait_until,
};
use crate::test_workspace::{StateDir, cache_home, chown_tree, copy_fixture, go_modules};
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

/// Tenants of every supervisor in these suites. The first one also owns the test's own user id on the unix socket.
pub const TENANTS: [&str; 2] = ["alpha", "beta"];

/// Number of user ids in each tenant's `uid_range`.
pub const UIDS: u32 = 1_000;

/// First user id of `tenant`: its runs have this uid, and its workspaces belong to it.
#[must_use]
pub fn first_uid(tenant: &str) -> u32 {
    let index = TENANTS.iter().position(|name| *name == tenant).unwrap();
    400_000 + UIDS * u32::try_from(index).unwrap()
}

/// Capacity of the channel for found addresses: more lines than a supervisor writes in a test.
const ADDRESSES_MAX: usize = 10_000;

/// A running supervisor and the directories of its tenants. Dropping it kills the process.
pub struct SupervisorProcess {
    child: Option<Child>,
    dir: TempDir,
    // Declared after `child`: the directory is released only once the child has ended.
    state: StateDir,
    /// TCP address.
    pub address: SocketAddr,
    log_lines: Arc<Mutex<Vec<String>>>,
    stderr_reader: Arc<StderrReader>,
}

/// State of the thread that reads the supervisor's stderr.
#[derive(Default)]
struct StderrReader {
    should_stop: AtomicBool,
    /// The pipe, once the thread has stopped reading it.
    pipe: Mutex<Option<BufReader<ChildStderr>>>,
}

/// Settings beyond the defaults of these suites.
#[derive(Debug, Clone, Default)]
pub struct SupervisorSettings {
    /// More keys of `[host]`.
    pub host: String,
    /// More keys of each `[[tenant]]`.
    pub tenant: String,
    /// PATH; empty for the suites' own.
    pub path: String,
    /// A further root of each tenant; empty for none.
    pub root: String,
    /// More keys of `[listen]`, and whole tables.
    pub listen: String,
    /// More environment variables.
    pub env: Vec<(String, OsString)>,
}

/// The bearer token of a tenant or of `operator`.
#[must_use]
pub fn token(name: &str) -> String {
    format!("token-of-{name}")
}

fn hash(name: &str) -> String {
    blake3::hash(token(name).as_bytes()).to_string()
}

/// A host file with its state directory at `state` and the tenants' roots below `dir`.
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
    /// Starts a supervisor with default settings.
    #[must_use]
    pub fn start() -> SupervisorProcess {
        SupervisorProcess::with_settings(&SupervisorSettings::default())
    }

    /// Starts a supervisor and waits until it listens on TCP.
    #[must_use]
    pub fn with_settings(settings: &SupervisorSettings) -> SupervisorProcess {
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
        let stderr_reader = Arc::<StderrReader>::default();
        let reader = Arc::clone(&stderr_reader);
        let log_lines = Arc::new(Mutex::new(Vec::new()));
        let (found, address) = mpsc::sync_channel(ADDRESSES_MAX);
        let log = Arc::clone(&log_lines);
        std::thread::spawn(move || {
            for line in stderr.by_ref().lines().map_while(Result::ok) {
                let address = line.split("address=").nth(1).and_then(|rest| rest.trim().parse::<SocketAddr>().ok());
                log.lock().unwrap().push(line);
                if let Some(address) = address {
                    _ = found.send(address);
                }
                if reader.should_stop.load(Ordering::Relaxed) {
                    *reader.pipe.lock().unwrap() = Some(stderr);
                    return;
                }
            }
        });
        let address = address.recv_timeout(WAIT_MAX).unwrap_or_else(|_| panic!("no address in {:?}", log_lines.lock()));
        SupervisorProcess { child: Some(child), dir, state, address, log_lines, stderr_reader }
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Path of the unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("proctor.sock")
    }

    /// Path of the audit log.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.dir.path().join("audit.jsonl")
    }

    /// Directory with the host file, the socket, the logs and the tenants' roots.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// State directory.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        self.state.dir()
    }

    /// TMPDIR of the supervisor.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// Root directory of `tenant`'s workspaces.
    #[must_use]
    pub fn root(&self, tenant: &str) -> PathBuf {
        self.dir.path().join(tenant).canonicalize().unwrap()
    }

    /// Copies `fixture` to workspace `name` of `tenant`.
    #[must_use]
    pub fn workspace(&self, tenant: &str, name: &str, fixture: &str) -> PathBuf {
        let workspace = self.root(tenant).join(name);
        copy_fixture(fixture, &workspace);
        chown_tree(&workspace, first_uid(tenant));
        workspace
    }

    /// Makes the empty workspace `name` of `tenant`.
    #[must_use]
    pub fn empty_workspace(&self, tenant: &str, name: &str) -> PathBuf {
        let workspace = self.root(tenant).join(name);
        fs::create_dir(&workspace).unwrap();
        chown_tree(&workspace, first_uid(tenant));
        workspace
    }

    /// Makes workspace `name` of `tenant` with a pausing test.
    #[must_use]
    pub fn paused_test(&self, tenant: &str, name: &str) -> PausedTest {
        let paused = PausedTest::at(&self.root(tenant).join(name));
        chown_tree(&paused.workspace, first_uid(tenant));
        paused
    }

    /// A client over TCP with the token of `name`, a tenant or `operator`.
    pub async fn client(&self, name: &str) -> Client {
        Client::tcp(self.address, Some(&token(name))).await
    }

    /// A client over the unix socket, which the supervisor takes for the first tenant by user id.
    pub async fn local_client(&self) -> Client {
        Client::unix(self.socket()).await
    }

    /// Everything written to stderr so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.log_lines.lock().unwrap().join("\n")
    }

    /// Stops reading the supervisor's stderr after its next line.
    pub fn stop_reading_stderr(&self) {
        self.stderr_reader.should_stop.store(true, Ordering::Relaxed);
    }

    /// Takes the unread stderr pipe, with what was written since reading stopped. Dropping it closes the pipe.
    #[must_use]
    pub fn take_stderr(&self) -> BufReader<ChildStderr> {
        let mut pipe = None;
        wait_until("the thread stops reading stderr", || {
            pipe = self.stderr_reader.pipe.lock().unwrap().take();
            pipe.is_some()
        });
        pipe.unwrap()
    }

    /// Changes the host file without a reload.
    pub fn rewrite_host_file(&self, change: impl FnOnce(String) -> String) {
        let path = self.dir.path().join("proctor.toml");
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// Changes the host file, sends SIGHUP, waits for the reload and returns the log lines about it.
    #[must_use]
    pub fn reload_host_file(&self, change: impl FnOnce(String) -> String) -> String {
        self.rewrite_host_file(change);
        let before = self.log().len();
        signal(self.pid(), Signal::SIGHUP);
        let since = || self.log()[before..].to_owned();
        wait_until("the host file is reloaded", || {
            ["was reloaded", "stays in force"].iter().any(|end| since().contains(end))
        });
        since()
    }

    /// Waits for an exit that was requested by other means.
    #[must_use]
    pub fn wait_for_exit(&mut self) -> ProcessOutput {
        crate::process::wait_for_exit(self.child.take().unwrap())
    }

    /// Sends a signal and waits for the exit.
    #[must_use]
    pub fn stop(&mut self, with: Signal) -> ProcessOutput {
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
                eprintln!("log of the supervisor:\n{}", self.log());
            }
        }
    }
}

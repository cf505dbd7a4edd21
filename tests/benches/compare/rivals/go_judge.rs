//! go-judge, the sandbox server of online judges: containers that are made in advance and used again by later runs, asked
//! over HTTP.

use super::unpacked_path;
use crate::bench_setup::{BenchSetup, TRUE, command};
use crate::soak::entries;
use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proctor_core::limits::Limits;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the server's start, and for its end.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Longest answer that is read: that to [`TRUE`] has some 200 bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A go-judge server. Ended on drop.
pub(crate) struct GoJudge {
    child: Child,
    address: SocketAddr,
    /// Without it every user of this host could run programs and read files as the server's user.
    token: String,
}

impl GoJudge {
    /// Starts a server with this number of containers, all made in advance.
    pub(crate) fn start(setup: &BenchSetup, containers: usize) -> Result<GoJudge> {
        let dir = setup.path().join("go-judge");
        let readable = dir.join("readable");
        std::fs::create_dir_all(&readable)?;
        // It takes no port of the kernel's choice.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = File::create(dir.join("log"))?;
        let token = random_token()?;
        // The server dies with this program.
        let mut server = command("setpriv");
        server.args(["--pdeathsig", "KILL"]).arg(unpacked_path("go-judge")?);
        // Its arguments are visible to all users, its environment is not.
        server.env("ES_AUTH_TOKEN", &token).arg("-src-prefix").arg(&readable);
        server.current_dir(&dir).args(["-silent", "-no-fallback", "-enable-cpu-rate"]);
        server.args(["-http-addr", &address.to_string(), "-pre-fork", &containers.to_string()]);
        server.args(["-parallelism", &containers.to_string()]);
        server.args(["-cgroup-prefix", &group_name()]);
        server.arg("-dir").arg(&dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut judge = GoJudge { child: server.spawn().context("starting go-judge")?, address, token };
        let until = Instant::now() + WAIT_MAX;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = judge.child.try_wait()? {
                bail!("go-judge ended with {status}: {}", std::fs::read_to_string(dir.join("log"))?);
            }
            ensure!(Instant::now() < until, "go-judge does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(judge)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn client(&self) -> Result<GoJudgeClient> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let body = request().to_string();
        let request = format!(
            "POST /run HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        Ok(GoJudgeClient { stream: BufReader::new(stream), request })
    }
}

impl Drop for GoJudge {
    fn drop(&mut self) {
        // With SIGTERM it removes its containers.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let until = Instant::now() + WAIT_MAX;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        _ = self.child.kill();
        _ = self.child.wait();
        // It leaves its own group in each hierarchy.
        let root = PathBuf::from("/sys/fs/cgroup");
        for hierarchy in entries(&root).chain([root.clone()]) {
            remove_group(&hierarchy.join(group_name()));
        }
    }
}

fn group_name() -> String {
    format!("proctor-bench-{}-go-judge", std::process::id())
}

fn remove_group(group: &Path) {
    entries(group).filter(|entry| entry.is_dir()).for_each(|below| remove_group(&below));
    _ = std::fs::remove_dir(group);
}

fn random_token() -> Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// [`TRUE`] with proctor's default limits.
fn request() -> Value {
    let limits = Limits::DEFAULT;
    let output = |name| json!({ "name": name, "max": limits.log_bytes_max });
    json!({ "cmd": [{
        "args": [TRUE],
        "env": ["PATH=/usr/bin:/bin"],
        "files": [{ "content": "" }, output("stdout"), output("stderr")],
        "cpuLimit": limits.wall_ms_max * 1_000_000,
        "clockLimit": limits.wall_ms_max * 1_000_000,
        "cpuRateLimit": limits.cpu_millis_max,
        "memoryLimit": limits.memory_bytes_max,
        "procLimit": limits.pids_max,
    }] })
}

/// A connection to go-judge.
pub(crate) struct GoJudgeClient {
    stream: BufReader<TcpStream>,
    request: String,
}

impl GoJudgeClient {
    /// Runs [`TRUE`] and reads its result.
    pub(crate) fn run(&mut self) -> Result<()> {
        self.stream.get_mut().write_all(self.request.as_bytes())?;
        let mut length = None;
        loop {
            let mut line = String::new();
            ensure!(self.stream.read_line(&mut line)? > 0, "go-judge has closed the connection");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = Some(value.trim().parse::<usize>()?);
            }
            if line.is_empty() {
                break;
            }
        }
        let length = length.filter(|length| *length <= ANSWER_BYTES_MAX).context("an answer of unknown length")?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let results: Value = serde_json::from_slice(&body)?;
        ensure!(results[0]["status"] == "Accepted", "go-judge's run ended as {results}");
        Ok(())
    }
}

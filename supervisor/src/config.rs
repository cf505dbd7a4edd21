//! The host file, `proctor.toml`: what it says, and everything that is wrong with it. Must not know how any of it is
//! carried out.

use crate::units::{Bytes, Cpus, Duration};
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::{LimitRequest, Limits};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The whole file. `deploy/proctor.toml` documents every key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    pub listen: Listen,
    /// Build caches live here, by tenant.
    pub state_dir: PathBuf,
    /// What the host gives to runs.
    #[serde(default)]
    pub host: Host,
    /// Limits of runs that ask for nothing.
    #[serde(default)]
    pub defaults: LimitsTable,
    /// The most that any run gets.
    #[serde(default)]
    pub max: LimitsTable,
    /// What a run must have.
    #[serde(default)]
    pub sandbox: SandboxTable,
    /// Who may ask about the host.
    #[serde(default)]
    pub operators: Identities,
    /// Who may run tests.
    #[serde(default)]
    pub tenant: Vec<TenantTable>,
}

/// Addresses.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Path of a unix socket; callers are known by their uid.
    pub unix: Option<PathBuf>,
    /// Permission bits of the socket, in octal: `"0660"`.
    pub unix_mode: Option<String>,
    /// Address for TCP; callers are known by bearer tokens.
    pub tcp: Option<SocketAddr>,
    /// Allows TCP beyond loopback although it is not encrypted, for hosts behind a TLS proxy.
    #[serde(default)]
    pub tcp_plaintext: bool,
}

/// What the host gives.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Runs at the same time; default: one per processor.
    pub runs_max: Option<u32>,
}

/// Limits by name; what is absent keeps its built-in value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    timeout: Option<Duration>,
    kill_grace: Option<Duration>,
    memory: Option<Bytes>,
    cpus: Option<Cpus>,
    pids: Option<u32>,
    log: Option<Bytes>,
    tmp: Option<Bytes>,
    disk: Option<Bytes>,
}

impl LimitsTable {
    /// `base` with what the table names.
    #[must_use]
    pub fn over(&self, base: Limits) -> Limits {
        Limits {
            memory_bytes_max: self.memory.map_or(base.memory_bytes_max, |size| size.bytes),
            cpu_millis_max: self.cpus.map_or(base.cpu_millis_max, |cpus| cpus.millis),
            pids_max: self.pids.unwrap_or(base.pids_max),
            wall_ms_max: self.timeout.map_or(base.wall_ms_max, |timeout| timeout.ms),
            grace_ms: self.kill_grace.map_or(base.grace_ms, |grace| grace.ms),
            log_bytes_max: self.log.map_or(base.log_bytes_max, |size| size.bytes),
            tmp_bytes_max: self.tmp.map_or(base.tmp_bytes_max, |size| size.bytes),
            disk_bytes_max: self.disk.map_or(base.disk_bytes_max, |size| size.bytes),
        }
    }
}

impl LimitsTable {
    // What no run could start with is no limit but a mistake.
    fn problems(&self) -> Vec<String> {
        let asked = LimitRequest {
            memory_bytes: self.memory.map(|size| size.bytes),
            cpu_millis: self.cpus.map(|cpus| cpus.millis),
            pids: self.pids,
            wall_ms: self.timeout.map(|timeout| timeout.ms),
            disk_bytes: self.disk.map(|size| size.bytes),
        };
        let too_small = asked.check().err().map(|error| error.to_string());
        let too_long = asked.wall_ms.is_some_and(|ms| ms > Limits::WALL_MS_CEILING);
        let too_long = too_long.then(|| format!("timeout must be at most {}s", Limits::WALL_MS_CEILING / 1_000));
        too_small.into_iter().chain(too_long).collect()
    }
}

/// What a run must have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxTable {
    /// Layers without which no run starts; absent means all that this version puts on, [`proctor_sandbox::LAYERS`].
    pub required_layers: Option<Vec<Layer>>,
}

/// Ways to be known.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identities {
    /// User ids of peers on the unix socket.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// BLAKE3 hashes of bearer tokens, 64 hexadecimal digits each.
    #[serde(default)]
    pub token_hashes: Vec<String>,
}

/// One tenant.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantTable {
    /// Its name: letters, digits, `-` and `_`, at most 64.
    pub id: String,
    /// User ids of its peers on the unix socket.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// BLAKE3 hashes of its bearer tokens.
    #[serde(default)]
    pub token_hashes: Vec<String>,
    /// Directories below which its workspaces are.
    pub roots: Vec<PathBuf>,
    /// `none`, or `host` when its runs may have the host's network.
    #[serde(default)]
    pub network: Network,
    /// Sessions at the same time; default 1,000.
    pub sessions_max: Option<u32>,
    /// Its build caches between two runs, all together; default 20 GiB.
    pub cache: Option<Bytes>,
    /// Its share of the host's maxima.
    #[serde(default)]
    pub max: LimitsTable,
}

impl Config {
    /// Reads a file's text. The error names the line and the key.
    pub fn parse(text: &str) -> Result<Config, toml::de::Error> {
        toml::from_str(text)
    }

    /// Everything that is wrong and that the syntax does not show, one sentence each.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut wrong = |condition: bool, problem: String| {
            if condition {
                problems.push(problem);
            }
        };
        wrong(self.listen.unix.is_none() && self.listen.tcp.is_none(), "listen: neither unix nor tcp is set".into());
        wrong(self.listen.mode().is_err(), "listen.unix_mode: expected octal digits like \"0660\"".into());
        if let Some(tcp) = self.listen.tcp {
            let exposed = !tcp.ip().is_loopback() && !self.listen.tcp_plaintext;
            wrong(
                exposed,
                format!(
                    "listen.tcp: {tcp} is not loopback and not encrypted; put a TLS proxy in front and set tcp_plaintext = true"
                ),
            );
        }
        wrong(!self.state_dir.is_absolute(), "state_dir: must be an absolute path".into());
        wrong(self.host.runs_max == Some(0), "host.runs_max: must be at least 1".into());
        for (name, table) in self.tables() {
            for problem in table.problems() {
                wrong(true, format!("{name}: {problem}"));
            }
        }
        wrong(self.tenant.is_empty(), "tenant: at least one [[tenant]] is needed".into());
        let mut identities: Vec<(String, &[u32], &[String])> =
            vec![("operators".into(), &self.operators.uids, &self.operators.token_hashes)];
        for (index, tenant) in self.tenant.iter().enumerate() {
            let name = format!("tenant {:?}", tenant.id);
            let well_named = (1..=64).contains(&tenant.id.len())
                && tenant.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            wrong(!well_named, format!("{name}: id must be 1 to 64 letters, digits, '-' or '_'"));
            wrong(self.tenant[..index].iter().any(|other| other.id == tenant.id), format!("{name}: defined twice"));
            wrong(tenant.roots.is_empty(), format!("{name}: roots is empty"));
            for root in &tenant.roots {
                wrong(!root.is_absolute(), format!("{name}: root {} is not absolute", root.display()));
                wrong(
                    root.is_absolute() && !root.is_dir(),
                    format!("{name}: root {} is not a directory", root.display()),
                );
            }
            let nobody = tenant.uids.is_empty() && tenant.token_hashes.is_empty();
            wrong(nobody, format!("{name}: neither uids nor token_hashes, so nobody can be it"));
            wrong(tenant.sessions_max == Some(0), format!("{name}: sessions_max must be at least 1"));
            for (other, uids, hashes) in &identities[1..] {
                let shared = tenant.uids.iter().any(|uid| uids.contains(uid))
                    || tenant.token_hashes.iter().any(|hash| hashes.contains(hash));
                wrong(shared, format!("{name}: shares a uid or token with {other}"));
            }
            identities.push((name, &tenant.uids, &tenant.token_hashes));
        }
        for (name, _, hashes) in &identities {
            for hash in *hashes {
                let parsed = blake3::Hash::from_hex(hash).ok();
                wrong(parsed.is_none(), format!("{name}: {hash:?} is not 64 hexadecimal digits"));
                wrong(
                    parsed.is_some_and(|hash| hash == blake3::hash(b"")),
                    format!("{name}: {hash:?} is the hash of an empty token"),
                );
            }
        }
        problems
    }
}

impl Config {
    fn tables(&self) -> impl Iterator<Item = (String, &LimitsTable)> {
        let host = [("defaults".to_owned(), &self.defaults), ("max".to_owned(), &self.max)];
        let tenants = self.tenant.iter().map(|tenant| (format!("tenant {:?}: max", tenant.id), &tenant.max));
        host.into_iter().chain(tenants)
    }
}

impl Listen {
    /// The permission bits of the socket; without any, only its owner may connect.
    pub fn mode(&self) -> Result<u32, std::num::ParseIntError> {
        self.unix_mode.as_deref().map_or(Ok(0o600), |octal| u32::from_str_radix(octal, 8))
    }
}

/// Reads and checks the file at `path`: the config, or everything that is wrong with it.
pub fn load(path: &Path) -> Result<Config, Vec<String>> {
    let text = std::fs::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let config = Config::parse(&text).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let problems = config.problems();
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(problems.into_iter().map(|problem| format!("{}: {problem}", path.display())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_file_is_valid_but_for_its_directories() {
        let example = include_str!("../../deploy/proctor.toml");
        let config = Config::parse(example).unwrap();
        let problems: Vec<_> =
            config.problems().into_iter().filter(|problem| !problem.contains("is not a directory")).collect();
        assert_eq!(problems, [""; 0]);
        assert_eq!(config.defaults.over(Limits::DEFAULT), Limits::DEFAULT, "the example shows the built-in defaults");
        assert_eq!(config.sandbox.required_layers.unwrap(), proctor_sandbox::LAYERS);
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let text = r#"
            state_dir = "relative"
            [listen]
            tcp = "0.0.0.0:7878"
            [[tenant]]
            id = "a b"
            roots = []
            [[tenant]]
            id = "ok"
            uids = [1]
            roots = ["/"]
            [[tenant]]
            id = "ok"
            uids = [1]
            roots = ["/"]
            token_hashes = ["beef", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"]
            max = { pids = 1, timeout = "10h" }
            [max]
            disk = "4KiB"
        "#;
        let problems = Config::parse(text).unwrap().problems().join("\n");
        for expected in [
            "not loopback",
            "state_dir",
            "id must be",
            "roots is empty",
            "nobody can be it",
            "defined twice",
            "shares a uid",
            "64 hexadecimal",
            "empty token",
            "pids must be at least",
            "disk must be at least",
            "timeout must be at most",
        ] {
            assert!(problems.contains(expected), "{expected} in:\n{problems}");
        }
    }

    #[test]
    fn an_unknown_key_names_its_line() {
        let error = Config::parse("state_dir = \"/x\"\nstate_dri = 1\n[listen]\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("state_dri"), "{error}");
    }
}

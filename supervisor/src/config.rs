//! The host file, `proctor.toml`: what it says, and everything that is wrong with it. Must not know how any of it is
//! carried out.

mod lines;
mod who;

use crate::audit;
use crate::quotas::{Machine, QuotaTable};
use crate::registry::Bounds;
use crate::serve::{DRAIN, DRAIN_MAX};
use crate::units::{Bytes, Cpus, Duration};
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::quota::Amount;
use proctor_frameworks::{FRAMEWORKS, custom};
use proctor_sandbox::{LAYERS, PoolBounds};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

pub use lines::{Problem, Reading};
pub use who::canonical_name;

/// User ids that are nobody's in particular: the overflow ids of kernels and file systems, and -1 in 16 and 32 bits.
const NOBODYS: [u32; 3] = [65_534, 65_535, u32::MAX];

/// The lowest user id that a tenant may have. Below are the system's.
const UID_MIN: u32 = 1_000;

/// How far the clocks of whoever draws tokens may be from ours, in milliseconds.
const LEEWAY_MS_MAX: u64 = 5 * 60 * 1_000;

/// The whole file. `deploy/proctor.toml` documents every key.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    #[serde(default)]
    pub listen: Listen,
    /// Build caches live here, by tenant. It has to be there.
    #[serde(default)]
    pub state_dir: PathBuf,
    /// What the host gives to runs.
    #[serde(default)]
    pub host: Host,
    /// Limits of runs that ask for nothing.
    #[serde(default)]
    pub defaults: LimitsTable,
    /// Wall time of runs that ask for none, by framework; the others have that of [`Config::defaults`].
    #[serde(default)]
    pub timeouts: BTreeMap<String, Duration>,
    /// The most that any run gets.
    #[serde(default)]
    pub max: LimitsTable,
    /// What a run must have.
    #[serde(default)]
    pub sandbox: SandboxTable,
    /// Whose JSON web tokens count.
    pub jwt: Option<JwtTable>,
    /// Where it is written who did what.
    #[serde(default)]
    pub audit: AuditTable,
    /// Who may ask about the host.
    #[serde(default)]
    pub operators: Identities,
    /// Who may run tests.
    #[serde(default)]
    pub tenant: Vec<TenantTable>,
}

/// Addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Path of a unix socket; callers are known by their uid.
    pub unix: Option<PathBuf>,
    /// Permission bits of the socket, in octal: `"0660"`.
    pub unix_mode: Option<String>,
    /// Address for TCP; callers are known by bearer tokens, and with TLS by certificates too.
    pub tcp: Option<SocketAddr>,
    /// TLS on TCP.
    pub tls: Option<TlsTable>,
    /// Allows TCP beyond loopback although it is not encrypted, for hosts behind a TLS proxy.
    #[serde(default)]
    pub tcp_plaintext: bool,
}

/// TLS on TCP. All files are PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTable {
    /// The supervisor's certificate, and those between it and its authority's.
    #[serde(default)]
    pub cert: PathBuf,
    /// Its private key.
    #[serde(default)]
    pub key: PathBuf,
    /// The authorities whose certificates callers may have; without it nobody is known by a certificate.
    pub client_ca: Option<PathBuf>,
    /// Certificates that these authorities have revoked.
    pub client_crl: Option<PathBuf>,
}

/// JSON web tokens. Algorithms are EdDSA (Ed25519), ES256 and RS256, each with keys of its own kind alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtTable {
    /// Files with public keys: PEM with one key each, or JSON with a key set.
    #[serde(default)]
    pub keys: Vec<PathBuf>,
    /// Claim `iss` of every token.
    #[serde(default)]
    pub issuer: String,
    /// One of the words of claim `aud` of every token.
    #[serde(default)]
    pub audience: String,
    /// The claim that says who calls; default `sub`.
    pub claim: Option<String>,
    /// How far clocks may be apart; default 30 s.
    pub leeway: Option<Duration>,
}

/// What the host gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Memory that runs may use together; default: seven eighths of the host's.
    memory: Option<Bytes>,
    /// Processors that runs may use together; default: for each processor as much as a run gets that asks for nothing.
    cpus: Option<Cpus>,
    /// Sessions at the same time, of all tenants together; default [`crate::registry::SESSIONS_MAX`].
    pub sessions_max: Option<u32>,
    /// How long a session lives that nobody uses; default [`crate::session::IDLE_MAX`].
    pub session_idle: Option<Duration>,
    /// How long runs may go on when the supervisor ends; default [`DRAIN`].
    pub drain: Option<Duration>,
    /// Directories that runs can read, beside the toolchains that the supervisor's own PATH leads to.
    #[serde(default)]
    pub toolchains: Vec<PathBuf>,
    /// Workers that are prepared before there is a run.
    #[serde(default)]
    pub pool: PoolTable,
}

impl Host {
    /// What there is for runs on this machine.
    #[must_use]
    pub fn budget(&self, machine: Machine) -> Amount {
        let default = machine.budget();
        Amount {
            memory_bytes: self.memory.map_or(default.memory_bytes, |size| size.bytes),
            cpu_millis: self.cpus.map_or(default.cpu_millis, |cpus| cpus.millis.into()),
        }
    }
    /// What holds for all sessions.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let built_in = Bounds::default();
        Bounds {
            sessions_max: self
                .sessions_max
                .map_or(built_in.sessions_max, |max| usize::try_from(max).unwrap_or(usize::MAX)),
            idle_max: self.session_idle.map_or(built_in.idle_max, |idle| std::time::Duration::from_millis(idle.ms)),
        }
    }

    /// How long runs may go on when the supervisor ends.
    #[must_use]
    pub fn drain(&self) -> std::time::Duration {
        self.drain.map_or(DRAIN, |drain| std::time::Duration::from_millis(drain.ms))
    }
}

/// Bounds of prepared workers; what is absent keeps its built-in value, [`PoolBounds::DEFAULT`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolTable {
    workers_max: Option<u16>,
    idle: Option<Duration>,
}

impl PoolTable {
    /// The bounds that it names.
    #[must_use]
    pub fn pool(&self) -> PoolBounds {
        PoolBounds {
            workers_max: self.workers_max.map_or(PoolBounds::DEFAULT.workers_max, usize::from),
            idle: self.idle.map_or(PoolBounds::DEFAULT.idle, |idle| std::time::Duration::from_millis(idle.ms)),
        }
    }
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
    // What no run could start with is no limit but a mistake. Each with its key.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let none = LimitRequest::default();
        let asked = [
            ("memory", LimitRequest { memory_bytes: self.memory.map(|size| size.bytes), ..none }),
            ("cpus", LimitRequest { cpu_millis: self.cpus.map(|cpus| cpus.millis), ..none }),
            ("pids", LimitRequest { pids: self.pids, ..none }),
            ("disk", LimitRequest { disk_bytes: self.disk.map(|size| size.bytes), ..none }),
        ];
        let too_small = asked.into_iter().filter_map(|(key, one)| Some((key, one.check().err()?.to_string())));
        let too_long = self.timeout.is_some_and(|timeout| timeout.ms > Limits::WALL_MS_CEILING);
        let too_long = too_long.then(|| format!("timeout must be at most {}s", Limits::WALL_MS_CEILING / 1_000));
        too_small.chain(too_long.map(|text| ("timeout", text))).collect()
    }
}

/// What a run must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxTable {
    /// Layers without which no run starts; absent means all that this version puts on, [`LAYERS`], but those left off.
    pub required_layers: Option<Vec<Layer>>,
    /// Layers that no run shall have.
    #[serde(default)]
    pub left_off: Vec<Layer>,
}

impl SandboxTable {
    /// Layers without which no run starts.
    #[must_use]
    pub fn required(&self) -> Vec<Layer> {
        let all = || LAYERS.into_iter().filter(|layer| !self.left_off.contains(layer)).collect();
        self.required_layers.clone().unwrap_or_else(all)
    }
}

/// The audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditTable {
    /// Its file; default: `audit.jsonl` in the state directory.
    pub path: Option<PathBuf>,
    max_bytes: Option<Bytes>,
    keep: Option<u32>,
}

impl AuditTable {
    /// The smallest file that is worth its name: some hundred lines.
    const BYTES_MIN: u64 = 64 * 1024;

    /// Most earlier files: each is renamed when another one is begun.
    const KEEP_MAX: u32 = 1_000;

    /// Where it is and how much of it is kept.
    #[must_use]
    pub fn place(&self, state_dir: &Path) -> audit::Place {
        audit::Place {
            path: self.path.clone().unwrap_or_else(|| state_dir.join("audit.jsonl")),
            bytes_max: self.max_bytes.map_or(audit::Place::BYTES_MAX, |size| size.bytes),
            keep: self.keep.unwrap_or(audit::Place::KEEP),
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let relative = self.path.as_ref().is_some_and(|path| !path.is_absolute());
        let small = self.max_bytes.is_some_and(|size| size.bytes < AuditTable::BYTES_MIN);
        let many = self.keep.is_some_and(|keep| keep > AuditTable::KEEP_MAX);
        [
            relative.then(|| Problem::new("audit.path", "audit.path: must be an absolute path")),
            small.then(|| Problem::new("audit.max_bytes", "audit.max_bytes: must be at least 64KiB")),
            many.then(|| Problem::new("audit.keep", format!("audit.keep: must be at most {}", AuditTable::KEEP_MAX))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
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
    /// What JSON web tokens call it.
    #[serde(default)]
    pub jwt_subjects: Vec<String>,
    /// Names in client certificates, of subjectAltName: URIs, or DNS names.
    #[serde(default)]
    pub cert_names: Vec<String>,
}

/// One tenant.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantTable {
    /// Its name: letters, digits, `-` and `_`, at most 64. It has to be there.
    #[serde(default)]
    pub id: String,
    /// User ids of its peers on the unix socket.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// BLAKE3 hashes of its bearer tokens.
    #[serde(default)]
    pub token_hashes: Vec<String>,
    /// What JSON web tokens call it.
    #[serde(default)]
    pub jwt_subjects: Vec<String>,
    /// Names in client certificates, of subjectAltName: URIs, or DNS names.
    #[serde(default)]
    pub cert_names: Vec<String>,
    /// User ids of the host that are its own: to them belong its workspaces, its processes and its build cache.
    pub uid_range: Option<UidRange>,
    /// Directories below which its workspaces are. There has to be one.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// `none`, or `host` when its runs may have the host's network.
    #[serde(default)]
    pub network: Network,
    /// Sessions at the same time; default 1,000.
    pub sessions_max: Option<u32>,
    /// Its build caches between two runs, all together; default 20 GiB.
    pub cache: Option<Bytes>,
    /// The most that any of its runs gets.
    #[serde(default)]
    pub max: LimitsTable,
    /// What it may have of the host at once.
    #[serde(default)]
    pub quota: QuotaTable,
}

/// User ids of one tenant, and group ids of the same numbers. Its runs are the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UidRange {
    /// The lowest.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl UidRange {
    /// The ids themselves. One that would be beyond the highest is the highest.
    #[must_use]
    pub fn uids(self) -> RangeInclusive<u32> {
        self.first..=self.first.saturating_add(self.count.saturating_sub(1))
    }

    /// Whether an id is in both.
    #[must_use]
    pub fn overlaps(self, other: UidRange) -> bool {
        self.uids().start() <= other.uids().end() && other.uids().start() <= self.uids().end()
    }

    fn problem(self) -> Option<String> {
        let UidRange { first, count } = self;
        if count == 0 {
            return Some("count must be at least 1".to_owned());
        }
        if first < UID_MIN {
            return Some(format!("begins at {first}, and user ids below {UID_MIN} are the system's"));
        }
        if first.checked_add(count - 1).is_none() {
            return Some(format!("ends beyond the highest user id, {}", u32::MAX));
        }
        let nobodys = NOBODYS.into_iter().find(|uid| self.uids().contains(uid))?;
        Some(format!("holds {nobodys}, which stands for nobody"))
    }
}

impl Config {
    /// Everything that is wrong and that neither syntax nor kinds of values show.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |condition: bool, at: &str, text: &str| {
            if condition {
                problems.push(Problem::new(at, text));
            }
        };
        let nowhere = self.state_dir.as_os_str().is_empty();
        wrong(nowhere, "state_dir", "state_dir: is missing; name a directory of the supervisor's own");
        wrong(!nowhere && !self.state_dir.is_absolute(), "state_dir", "state_dir: must be an absolute path");
        wrong(self.host.sessions_max == Some(0), "host.sessions_max", "host.sessions_max: must be at least 1");
        let too_long = format!("host.drain: must be at most {}s", DRAIN_MAX.as_secs());
        wrong(self.host.drain() > DRAIN_MAX, "host.drain", &too_long);
        for (place, dir) in self.host.toolchains.iter().enumerate() {
            let at = format!("host.toolchains.{place}");
            wrong(!dir.is_absolute(), &at, &format!("host.toolchains: {} is not absolute", dir.display()));
            let shown = self.private_places().find(|place| place.starts_with(dir));
            if let Some(place) = shown.filter(|_| dir.is_absolute()) {
                let (dir, place) = (dir.display(), place.display());
                wrong(true, &at, &format!("host.toolchains: {dir} would show {place} to all"));
            }
        }
        let required = self.sandbox.required();
        for (place, layer) in self.sandbox.left_off.iter().enumerate().filter(|(_, layer)| required.contains(layer)) {
            let text = format!("sandbox: layer {} is required and left off at once", layer.name());
            wrong(true, &format!("sandbox.left_off.{place}"), &text);
        }
        for (at, name, table) in self.tables() {
            for (key, problem) in table.problems() {
                wrong(true, &format!("{at}.{key}"), &format!("{name}: {problem}"));
            }
        }
        let known = || FRAMEWORKS.iter().map(|framework| framework.name()).chain([custom::NAME]);
        for (name, timeout) in &self.timeouts {
            let at = format!("timeouts.{name}");
            let unknown = !known().any(|framework| framework == name);
            let names = || known().collect::<Vec<_>>().join(", ");
            wrong(unknown, &at, &format!("{at}: no such framework; known are {}", names()));
            let too_long = timeout.ms > Limits::WALL_MS_CEILING;
            wrong(too_long, &at, &format!("{at}: must be at most {}s", Limits::WALL_MS_CEILING / 1_000));
        }
        wrong(self.tenant.is_empty(), "tenant", "tenant: at least one [[tenant]] is needed");
        problems.extend(self.listen.problems());
        problems.extend(self.audit.problems());
        problems.extend(self.jwt.iter().flat_map(JwtTable::problems));
        for index in 0..self.tenant.len() {
            problems.extend(self.tenant_problems(index));
        }
        problems.extend(who::problems(self));
        problems
    }

    fn tenant_problems(&self, index: usize) -> Vec<Problem> {
        let tenant = &self.tenant[index];
        let (mut problems, name) = (Vec::new(), tenant.called());
        let mut wrong = |condition: bool, key: &str, text: &str| {
            if condition {
                let at = format!("tenant.{index}{}{key}", if key.is_empty() { "" } else { "." });
                problems.push(Problem::new(at, format!("{name}: {text}")));
            }
        };
        let well_named = (1..=64).contains(&tenant.id.len())
            && tenant.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        wrong(!well_named, "id", "id must be 1 to 64 letters, digits, '-' or '_'");
        wrong(self.tenant[..index].iter().any(|other| other.id == tenant.id), "id", "defined twice");
        wrong(tenant.roots.is_empty(), "roots", "roots is empty; name a directory below which its workspaces are");
        for (place, root) in tenant.roots.iter().enumerate() {
            let (at, shown) = (format!("roots.{place}"), root.display());
            wrong(!root.is_absolute(), &at, &format!("root {shown} is not absolute"));
            wrong(root.is_absolute() && !root.is_dir(), &at, &format!("root {shown} is not a directory"));
        }
        wrong(tenant.sessions_max == Some(0), "sessions_max", "sessions_max must be at least 1");
        for problem in tenant.quota.problems() {
            // A sentence of its own begins with its key.
            let key = problem.split_whitespace().next().unwrap_or("quota");
            wrong(true, key, &problem);
        }
        for problem in self.uid_problems(index, self.sandbox.required().contains(&Layer::TenantUid)) {
            wrong(true, "uid_range", &problem);
        }
        problems
    }
}

impl Config {
    /// Places that are the supervisor's or one tenant's: nothing that all runs see may hold one.
    pub fn private_places(&self) -> impl Iterator<Item = &Path> {
        let own = [Some(&self.state_dir), self.listen.unix.as_ref(), self.audit.path.as_ref()].into_iter().flatten();
        own.chain(self.tenant.iter().flat_map(|tenant| &tenant.roots)).map(PathBuf::as_path)
    }

    // A run that is somebody else's user is that somebody: to files, to signals, to whoever asks the unix socket.
    fn uid_problems(&self, index: usize, required: bool) -> Vec<String> {
        let tenant = &self.tenant[index];
        let Some(range) = tenant.uid_range else {
            let missing = "uid_range is missing: layer tenant_uid is required, and takes user ids of the tenant's own";
            return required.then(|| missing.to_owned()).into_iter().collect();
        };
        let holds = |uids: &[u32]| uids.iter().find(|uid| range.uids().contains(uid)).copied();
        let mut problems: Vec<String> = range.problem().into_iter().collect();
        problems.extend(holds(&self.operators.uids).map(|uid| format!("holds {uid}, which is an operator's")));
        for (at, other) in self.tenant.iter().enumerate().filter(|(at, _)| *at != index) {
            let overlaps = at < index && other.uid_range.is_some_and(|theirs| theirs.overlaps(range));
            problems.extend(overlaps.then(|| format!("overlaps that of tenant {:?}", other.id)));
            problems.extend(holds(&other.uids).map(|uid| format!("holds {uid}, which is tenant {:?}'s", other.id)));
        }
        problems.into_iter().map(|problem| format!("uid_range {problem}")).collect()
    }

    // Every table of limits: where it is, and what its keys are called.
    fn tables(&self) -> impl Iterator<Item = (String, String, &LimitsTable)> {
        let host = [("defaults", &self.defaults), ("max", &self.max)];
        let host = host.map(|(name, table)| (name.to_owned(), name.to_owned(), table));
        let tenants = self.tenant.iter().enumerate();
        let tenants = tenants
            .map(|(index, tenant)| (format!("tenant.{index}.max"), format!("{}: max", tenant.called()), &tenant.max));
        host.into_iter().chain(tenants)
    }
}

impl TenantTable {
    fn called(&self) -> String {
        format!("tenant {:?}", self.id)
    }
}

impl JwtTable {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |condition: bool, key: &str, text: &str| {
            if condition {
                problems.push(Problem::new(format!("jwt.{key}"), format!("jwt.{key}: {text}")));
            }
        };
        wrong(self.keys.is_empty(), "keys", "is missing; name a file with a public key of the issuer's");
        wrong(self.issuer.is_empty(), "issuer", "is missing; it is claim `iss` of the tokens that count");
        wrong(
            self.audience.is_empty(),
            "audience",
            "is missing; tokens that are for somebody else must not count here",
        );
        wrong(self.claim.as_deref() == Some(""), "claim", "is empty; leave it out for `sub`");
        let too_long = self.leeway.is_some_and(|leeway| leeway.ms > LEEWAY_MS_MAX);
        wrong(too_long, "leeway", "must be at most 5m; set the clocks instead");
        problems
    }
}

impl Listen {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |condition: bool, at: &str, text: &str| {
            if condition {
                problems.push(Problem::new(at, format!("{at}: {text}")));
            }
        };
        let nowhere = self.unix.is_none() && self.tcp.is_none();
        wrong(nowhere, "listen", "neither unix nor tcp is set; name a socket or an address");
        wrong(self.mode().is_err(), "listen.unix_mode", "expected octal digits like \"0660\"");
        if let Some(tcp) = self.tcp {
            let exposed = !tcp.ip().is_loopback() && !self.tcp_plaintext && self.tls.is_none();
            let text = format!(
                "{tcp} is not loopback and not encrypted; add [listen.tls], or put a TLS proxy in front and set \
                 tcp_plaintext = true"
            );
            wrong(exposed, "listen.tcp", &text);
        }
        if let Some(tls) = &self.tls {
            wrong(self.tcp.is_none(), "listen.tls", "is of no use without listen.tcp");
            wrong(
                self.tcp_plaintext,
                "listen.tcp_plaintext",
                "says that TCP is not encrypted, and [listen.tls] that it is",
            );
            wrong(tls.cert.as_os_str().is_empty(), "listen.tls.cert", "is missing; name a file with a certificate");
            wrong(
                tls.key.as_os_str().is_empty(),
                "listen.tls.key",
                "is missing; name a file with the certificate's key",
            );
            let useless = tls.client_crl.is_some() && tls.client_ca.is_none();
            wrong(useless, "listen.tls.client_crl", "is of no use without client_ca");
        }
        problems
    }

    /// The permission bits of the socket; without any, only its owner may connect.
    pub fn mode(&self) -> Result<u32, std::num::ParseIntError> {
        self.unix_mode.as_deref().map_or(Ok(0o600), |octal| u32::from_str_radix(octal, 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Reading::of(text).finish(Path::new("host")).unwrap()
    }

    fn problems(text: &str) -> String {
        let problems = parse(text).problems();
        problems.into_iter().map(|problem| problem.text).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_example_file_is_valid_but_for_its_directories() {
        let example = include_str!("../../deploy/proctor.toml");
        let config = parse(example);
        let problems: Vec<_> =
            config.problems().into_iter().filter(|problem| !problem.text.contains("is not a directory")).collect();
        assert_eq!(problems, []);
        assert_eq!(config.defaults.over(Limits::DEFAULT), Limits::DEFAULT, "the example shows the built-in defaults");
        assert_eq!(config.sandbox.required_layers.unwrap(), LAYERS);
        assert_eq!((config.host.bounds(), config.host.drain()), (Bounds::default(), DRAIN));
        let of = |name: &str| config.timeouts.get(name).map(|timeout| timeout.ms);
        assert!(FRAMEWORKS.iter().all(|framework| of(framework.name()) == framework.wall_ms()));
    }

    #[test]
    fn an_audit_log_has_a_place_and_bounds() {
        let of = |text: &str| toml::from_str::<AuditTable>(text).unwrap();
        let state = Path::new("/state");
        let unsaid = audit::Place { path: "/state/audit.jsonl".into(), bytes_max: 64 * 1024 * 1024, keep: 8 };
        assert_eq!(of("").place(state), unsaid);
        let said = of("path = \"/log/a\"\nmax_bytes = \"64KiB\"\nkeep = 0");
        assert_eq!(said.place(state), audit::Place { path: "/log/a".into(), bytes_max: 64 * 1024, keep: 0 });
        assert_eq!(said.problems(), []);
        let wrong = of("path = \"log\"\nmax_bytes = \"63KiB\"\nkeep = 1001").problems();
        let expected = [
            "audit.path: must be an absolute path",
            "audit.max_bytes: must be at least 64KiB",
            "audit.keep: must be at most 1000",
        ];
        assert_eq!(wrong.iter().map(|problem| problem.text.as_str()).collect::<Vec<_>>(), expected);
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
            [timeouts]
            cargo = "2h"
            gotest = "1m"
        "#;
        let problems = problems(text);
        for expected in [
            "not loopback",
            "state_dir",
            "id must be",
            "roots is empty",
            "nobody can be it",
            "defined twice",
            "1 of uids is also that of tenant \"ok\"",
            "64 hexadecimal",
            "empty token",
            "pids must be at least",
            "disk must be at least",
            "timeout must be at most",
            "timeouts.cargo: must be at most 1800s",
            "timeouts.gotest: no such framework; known are go, ",
        ] {
            assert!(problems.contains(expected), "{expected} in:\n{problems}");
        }
    }

    fn problems_of(ranges: [&str; 2], more: &str) -> String {
        let text = format!(
            "state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[operators]\nuids = [7000]\n{more}\n\
             [[tenant]]\nid = \"a\"\nuids = [1001]\nroots = [\"/\"]\n{}\n\
             [[tenant]]\nid = \"b\"\nuids = [1002]\nroots = [\"/\"]\n{}\n",
            ranges[0], ranges[1]
        );
        problems(&text)
    }

    #[test]
    fn user_ids_of_a_tenant_are_nobody_elses() {
        let apart = ["uid_range = { first = 200000, count = 65536 }", "uid_range = { first = 265536, count = 1 }"];
        let required = "[sandbox]\nrequired_layers = [\"tenant_uid\"]";
        assert_eq!(problems_of(apart, required), "");
        for (range, problem) in [
            ("{ first = 200000, count = 65537 }", "tenant \"b\": uid_range overlaps that of tenant \"a\""),
            ("{ first = 999, count = 1 }", "uid_range begins at 999"),
            ("{ first = 0, count = 10 }", "uid_range begins at 0"),
            ("{ first = 300000, count = 0 }", "uid_range count must be at least 1"),
            ("{ first = 4294967290, count = 7 }", "uid_range ends beyond"),
            ("{ first = 4294967290, count = 6 }", "uid_range holds 4294967295, which stands for nobody"),
            ("{ first = 65000, count = 535 }", "uid_range holds 65534, which stands for nobody"),
            ("{ first = 65535, count = 1 }", "uid_range holds 65535, which stands for nobody"),
            ("{ first = 1002, count = 1 }", "uid_range holds 1002, which is tenant \"b\"'s"),
            ("{ first = 6999, count = 2 }", "uid_range holds 7000, which is an operator's"),
        ] {
            let problems = problems_of([&format!("uid_range = {range}"), apart[1]], required);
            assert!(problems.contains(problem), "{range}: {problem} in:\n{problems}");
        }
        // A tenant's own people may be in its range.
        assert_eq!(problems_of(["uid_range = { first = 1001, count = 1 }", apart[1]], required), "");
    }

    #[test]
    fn a_tenant_without_user_ids_is_refused_where_they_are_required() {
        let problems = problems_of(["", ""], "[sandbox]\nrequired_layers = [\"tenant_uid\"]");
        let missing = "uid_range is missing: layer tenant_uid is required, and takes user ids of the tenant's own";
        assert_eq!(problems, format!("tenant \"a\": {missing}\ntenant \"b\": {missing}"));
        assert_eq!(problems_of(["", ""], "[sandbox]\nleft_off = [\"tenant_uid\"]"), "");
    }

    #[test]
    fn a_layer_is_required_or_left_off() {
        let ranges = ["uid_range = { first = 2000, count = 1 }", "uid_range = { first = 3000, count = 1 }"];
        let both = "[sandbox]\nrequired_layers = [\"rlimits\"]\nleft_off = [\"rlimits\"]";
        assert_eq!(problems_of(ranges, both), "sandbox: layer rlimits is required and left off at once");
        let table = SandboxTable { left_off: vec![Layer::Rlimits], required_layers: None };
        assert_eq!(table.required().len(), LAYERS.len() - 1);
    }

    #[test]
    fn what_all_runs_see_holds_nothing_private() {
        let ranges = ["uid_range = { first = 2000, count = 1 }", "uid_range = { first = 3000, count = 1 }"];
        assert_eq!(problems_of(ranges, "[host]\ntoolchains = [\"/opt/jdk\"]"), "");
        let problems = problems_of(ranges, "[host]\ntoolchains = [\"opt\", \"/\"]");
        assert_eq!(problems, "host.toolchains: opt is not absolute\nhost.toolchains: / would show /x to all");
    }

    #[test]
    fn prepared_workers_have_bounds() {
        let pool = |text: &str| parse(&format!("state_dir = \"/x\"\n[listen]\n{text}")).host.pool.pool();
        assert_eq!(pool(""), PoolBounds::DEFAULT);
        let some = pool("[host.pool]\nworkers_max = 0\nidle = \"5s\"");
        assert_eq!((some.workers_max, some.idle.as_secs()), (0, 5));
    }

    #[test]
    fn sessions_and_the_end_have_bounds() {
        let host = |text: &str| toml::from_str::<Host>(text).unwrap();
        let some = host("sessions_max = 7\nsession_idle = \"2m\"\ndrain = \"250ms\"");
        let bounds = Bounds { sessions_max: 7, idle_max: std::time::Duration::from_secs(120) };
        assert_eq!((some.bounds(), some.drain().as_millis()), (bounds, 250));
        let problems =
            problems("state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[host]\nsessions_max = 0\ndrain = \"25h\"");
        assert!(problems.contains("host.sessions_max: must be at least 1"), "{problems}");
        assert!(problems.contains("host.drain: must be at most 86400s"), "{problems}");
    }
}

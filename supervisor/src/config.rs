//! The host file, `proctor.toml`: what it says, and everything that is wrong with it. Must not know how any of it is
//! carried out.

use crate::registry::Bounds;
use crate::serve::{DRAIN, DRAIN_MAX};
use crate::units::{Bytes, Cpus, Duration};
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::{LimitRequest, Limits};
use proctor_frameworks::{FRAMEWORKS, custom};
use proctor_sandbox::{LAYERS, PoolBounds};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// User ids that are nobody's in particular: the overflow ids of kernels and file systems, and -1 in 16 and 32 bits.
const NOBODYS: [u32; 3] = [65_534, 65_535, u32::MAX];

/// The lowest user id that a tenant may have. Below are the system's.
const UID_MIN: u32 = 1_000;

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
    /// Wall time of runs that ask for none, by framework; the others have that of [`Config::defaults`].
    #[serde(default)]
    pub timeouts: BTreeMap<String, Duration>,
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
#[derive(Debug, Clone, Default, Deserialize)]
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
    /// User ids of the host that are its own: to them belong its workspaces, its processes and its build cache.
    pub uid_range: Option<UidRange>,
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

    fn overlaps(self, other: UidRange) -> bool {
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
        wrong(self.host.sessions_max == Some(0), "host.sessions_max: must be at least 1".into());
        wrong(self.host.drain() > DRAIN_MAX, format!("host.drain: must be at most {}s", DRAIN_MAX.as_secs()));
        for dir in &self.host.toolchains {
            wrong(!dir.is_absolute(), format!("host.toolchains: {} is not absolute", dir.display()));
            let shown = self.private_places().find(|place| place.starts_with(dir));
            if let Some(place) = shown.filter(|_| dir.is_absolute()) {
                wrong(true, format!("host.toolchains: {} would show {} to all", dir.display(), place.display()));
            }
        }
        let required = self.sandbox.required();
        for layer in self.sandbox.left_off.iter().filter(|layer| required.contains(layer)) {
            wrong(true, format!("sandbox: layer {} is required and left off at once", layer.name()));
        }
        for (name, table) in self.tables() {
            for problem in table.problems() {
                wrong(true, format!("{name}: {problem}"));
            }
        }
        let known = || FRAMEWORKS.iter().map(|framework| framework.name()).chain([custom::NAME]);
        for (name, timeout) in &self.timeouts {
            let unknown = !known().any(|framework| framework == name);
            let names = || known().collect::<Vec<_>>().join(", ");
            wrong(unknown, format!("timeouts.{name}: no such framework; known are {}", names()));
            let too_long = timeout.ms > Limits::WALL_MS_CEILING;
            wrong(too_long, format!("timeouts.{name}: must be at most {}s", Limits::WALL_MS_CEILING / 1_000));
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
            for problem in self.uid_problems(index, required.contains(&Layer::TenantUid)) {
                wrong(true, format!("{name}: {problem}"));
            }
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
    /// Places that are the supervisor's or one tenant's: nothing that all runs see may hold one.
    pub fn private_places(&self) -> impl Iterator<Item = &Path> {
        let own = [Some(&self.state_dir), self.listen.unix.as_ref()].into_iter().flatten();
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
        assert_eq!(config.sandbox.required_layers.unwrap(), LAYERS);
        assert_eq!((config.host.bounds(), config.host.drain()), (Bounds::default(), DRAIN));
        let of = |name: &str| config.timeouts.get(name).map(|timeout| timeout.ms);
        assert!(FRAMEWORKS.iter().all(|framework| of(framework.name()) == framework.wall_ms()));
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
        Config::parse(&text).unwrap().problems().join("\n")
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
        let pool =
            |text: &str| Config::parse(&format!("state_dir = \"/x\"\n[listen]\n{text}")).unwrap().host.pool.pool();
        assert_eq!(pool(""), PoolBounds::DEFAULT);
        let some = pool("[host.pool]\nworkers_max = 0\nidle = \"5s\"");
        assert_eq!((some.workers_max, some.idle.as_secs()), (0, 5));
    }

    #[test]
    fn sessions_and_the_end_have_bounds() {
        let host = |text: &str| Config::parse(&format!("state_dir = \"/x\"\n[listen]\n[host]\n{text}")).unwrap();
        let some = host("sessions_max = 7\nsession_idle = \"2m\"\ndrain = \"250ms\"").host;
        let bounds = Bounds { sessions_max: 7, idle_max: std::time::Duration::from_secs(120) };
        assert_eq!((some.bounds(), some.drain().as_millis()), (bounds, 250));
        let problems = host("sessions_max = 0\ndrain = \"25h\"").problems().join("\n");
        assert!(problems.contains("host.sessions_max: must be at least 1"), "{problems}");
        assert!(problems.contains("host.drain: must be at most 86400s"), "{problems}");
    }

    #[test]
    fn an_unknown_key_names_its_line() {
        let error = Config::parse("state_dir = \"/x\"\nstate_dri = 1\n[listen]\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("state_dri"), "{error}");
    }
}

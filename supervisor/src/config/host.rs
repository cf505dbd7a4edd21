//! The `[host]` table: resources for runs and sessions, prepared workers, and directories that all runs can read.

use super::limits::too_small;
use super::{Problem, changed_keys};
use crate::config::units::{Bytes, Cpus, Duration};
use crate::host::resolved_path::ResolvedPath;
use crate::sessions::limits::SessionLimits;
use proctor_core::bounds::{DRAIN_GRACE, DRAIN_GRACE_MAX, SESSION_IDLE_MIN};
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::quota::Amount;
use proctor_sandbox::PoolBounds;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Resources of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTable {
    /// Memory for all runs together; default: seven eighths of the host's.
    memory: Option<Bytes>,
    /// Processors for all runs together; default: per processor the default limit of a run.
    cpus: Option<Cpus>,
    /// Most concurrent sessions of all tenants; default [`SESSIONS_MAX`](proctor_core::bounds::SESSIONS_MAX).
    pub sessions_max: Option<u32>,
    /// Time after which an idle session is closed; default [`SESSION_IDLE_MAX`](proctor_core::bounds::SESSION_IDLE_MAX).
    pub session_idle: Option<Duration>,
    /// Grace period for runs when the supervisor ends; default [`DRAIN_GRACE`].
    pub drain: Option<Duration>,
    /// Directories that all runs can read, besides the toolchains on the supervisor's PATH.
    #[serde(default)]
    pub toolchains: Vec<PathBuf>,
    /// Workers that are prepared in advance.
    #[serde(default)]
    pub pool: PoolTable,
}

impl HostTable {
    /// The budget for runs on this machine.
    #[must_use]
    pub fn budget(&self, machine: Machine) -> Amount {
        let default = machine.budget();
        Amount {
            memory_bytes: self.memory.map_or(default.memory_bytes, |size| size.bytes),
            cpu_millis: self.cpus.map_or(default.cpu_millis, |cpus| cpus.millis.into()),
        }
    }

    /// Limits of sessions.
    #[must_use]
    pub fn session_limits(&self) -> SessionLimits {
        let built_in = SessionLimits::default();
        SessionLimits {
            sessions_max: self
                .sessions_max
                .map_or(built_in.sessions_max, |max| usize::try_from(max).unwrap_or(usize::MAX)),
            idle_max: self.session_idle.map_or(built_in.idle_max, |idle| std::time::Duration::from_millis(idle.ms)),
        }
    }

    /// The grace period for runs when the supervisor ends.
    #[must_use]
    pub fn drain(&self) -> std::time::Duration {
        self.drain.map_or(DRAIN_GRACE, |drain| std::time::Duration::from_millis(drain.ms))
    }

    /// The keys that differ in `new`.
    #[must_use]
    pub fn changed_keys(&self, new: &HostTable) -> Vec<&'static str> {
        // The pattern lists every field, so that a new one cannot be forgotten here.
        let HostTable { memory, cpus, sessions_max, session_idle, drain, toolchains, pool } = self;
        let PoolTable { workers_max, idle } = pool;
        changed_keys([
            ("host.memory", *memory != new.memory),
            ("host.cpus", *cpus != new.cpus),
            ("host.sessions_max", *sessions_max != new.sessions_max),
            ("host.session_idle", *session_idle != new.session_idle),
            ("host.drain", *drain != new.drain),
            ("host.toolchains", *toolchains != new.toolchains),
            ("host.pool.workers_max", *workers_max != new.pool.workers_max),
            ("host.pool.idle", *idle != new.pool.idle),
        ])
    }

    /// Checks the table; `private` are paths that runs in general must not see.
    pub(super) fn problems(&self, private: &[ResolvedPath]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |condition: bool, at: &str, text: &str| {
            if condition {
                problems.push(Problem::new(format!("host.{at}"), format!("host.{text}")));
            }
        };
        wrong(self.sessions_max == Some(0), "sessions_max", "sessions_max: must be at least 1");
        let one_run = LimitRequest {
            memory_bytes: self.memory.map(|size| size.bytes),
            cpu_millis: self.cpus.map(|cpus| cpus.millis),
            ..LimitRequest::default()
        };
        too_small(&one_run).for_each(|(key, text)| wrong(true, key, &text));
        let too_short = format!("session_idle: must be at least {}s", SESSION_IDLE_MIN.as_secs());
        wrong(self.session_limits().idle_max < SESSION_IDLE_MIN, "session_idle", &too_short);
        let too_long = format!("drain: must be at most {}s", DRAIN_GRACE_MAX.as_secs());
        wrong(self.drain() > DRAIN_GRACE_MAX, "drain", &too_long);
        for (index, dir) in self.toolchains.iter().enumerate() {
            let at = format!("toolchains.{index}");
            wrong(!dir.is_absolute(), &at, &format!("toolchains: {} is not absolute", dir.display()));
            let problem = exposure(dir, private).filter(|_| dir.is_absolute());
            problem.into_iter().for_each(|problem| wrong(true, &at, &format!("toolchains: {problem}")));
        }
        // Only a note: a toolchain that an update has moved must not keep an operator from revoking a credential.
        let gone = self.toolchains.iter().enumerate().filter(|(_, dir)| dir.is_absolute() && !dir.exists());
        let note = |dir: &Path| format!("host.toolchains: {} does not exist, so no run sees it", dir.display());
        problems.extend(gone.map(|(index, dir)| Problem::note(format!("host.toolchains.{index}"), note(dir))));
        problems
    }
}

// Describes the private path that this directory would expose to all runs. A part of a tenant's root is as private as
// the whole.
fn exposure(dir: &Path, private: &[ResolvedPath]) -> Option<String> {
    let (exposed, dir) = (ResolvedPath::new(dir), dir.display());
    if let Some(exposed_path) = private.iter().find(|path| path.is_in(&exposed)) {
        return Some(format!("{dir} would expose {} to all runs", exposed_path.named().display()));
    }
    let enclosing = private.iter().find(|path| exposed.is_in(path))?;
    Some(format!("{dir} is in {}, which is private", enclosing.named().display()))
}

/// Bounds of prepared workers; absent keys keep their built-in value, [`PoolBounds::DEFAULT`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolTable {
    workers_max: Option<u16>,
    idle: Option<Duration>,
}

impl PoolTable {
    /// The bounds, with defaults filled in.
    #[must_use]
    pub fn bounds(&self) -> PoolBounds {
        PoolBounds {
            workers_max: self.workers_max.map_or(PoolBounds::DEFAULT.workers_max, usize::from),
            idle: self.idle.map_or(PoolBounds::DEFAULT.idle, |idle| std::time::Duration::from_millis(idle.ms)),
        }
    }
}

/// The hardware of a host.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Processors that this process may use.
    pub processors: usize,
    /// Physical memory, in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn current() -> Machine {
        let info = rustix::system::sysinfo();
        Machine {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: info.totalram.saturating_mul(info.mem_unit.into()),
        }
    }

    /// The default budget: seven eighths of the memory, since exhausted memory kills, and per processor the default
    /// limit of a run, since a shortage of processors only slows runs down.
    #[must_use]
    pub fn budget(self) -> Amount {
        let processors = u64::try_from(self.processors).unwrap_or(u64::MAX);
        Amount {
            memory_bytes: self.memory_bytes - self.memory_bytes / 8,
            cpu_millis: processors.saturating_mul(Limits::DEFAULT.cpu_millis_max.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{parse, problems, problems_of};

    #[test]
    fn toolchains_must_not_contain_private_paths() {
        let ranges = ["uid_range = { first = 2000, count = 1 }", "uid_range = { first = 3000, count = 1 }"];
        assert_eq!(problems_of(ranges, "[host]\ntoolchains = [\"/usr\"]"), "");
        let problems = problems_of(ranges, "[host]\ntoolchains = [\"opt\", \"/\"]");
        assert_eq!(problems, "host.toolchains: opt is not absolute\nhost.toolchains: / would expose /x to all runs");
    }

    /// Checks containment in both directions: a reload must refuse what a start refuses.
    #[test]
    fn toolchains_must_not_be_inside_private_paths() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(at("root/jdk")).unwrap();
        std::os::unix::fs::symlink(at("root/jdk"), at("link")).unwrap();
        std::fs::create_dir_all(at("state/jdk")).unwrap();
        for (toolchain, private) in [("root/jdk", "root"), ("link", "root"), ("state/jdk", "state")] {
            let problems = problems(&format!(
                "state_dir = {state:?}\n[listen]\nunix = \"/s\"\n[host]\ntoolchains = [{toolchain:?}]\n\
                 [sandbox]\nleft_off = [\"tenant_uid\"]\n[[tenant]]\nid = \"a\"\nuids = [1]\nroots = [{root:?}]\n",
                state = at("state"),
                toolchain = at(toolchain),
                root = at("root"),
            ));
            let (toolchain, private) = (at(toolchain), at(private));
            let message = format!("{} is in {}, which is private", toolchain.display(), private.display());
            assert_eq!(problems, format!("host.toolchains: {message}"));
        }
    }

    #[test]
    fn a_missing_toolchain_is_only_a_note() {
        let host: HostTable = toml::from_str("toolchains = [\"/usr\", \"/no/such\"]").unwrap();
        let note = "host.toolchains: /no/such does not exist, so no run sees it";
        assert_eq!(host.problems(&[]), [Problem::note("host.toolchains.1", note)]);
    }

    #[test]
    fn prepared_workers_have_bounds() {
        let pool = |text: &str| parse(&format!("state_dir = \"/x\"\n[listen]\n{text}")).host.pool.bounds();
        assert_eq!(pool(""), PoolBounds::DEFAULT);
        let some = pool("[host.pool]\nworkers_max = 0\nidle = \"5s\"");
        assert_eq!((some.workers_max, some.idle.as_secs()), (0, 5));
    }

    #[test]
    fn sessions_and_drain_have_bounds() {
        let host = |text: &str| toml::from_str::<HostTable>(text).unwrap();
        let some = host("sessions_max = 7\nsession_idle = \"2m\"\ndrain = \"250ms\"");
        let bounds = SessionLimits { sessions_max: 7, idle_max: std::time::Duration::from_secs(120) };
        assert_eq!((some.session_limits(), some.drain().as_millis()), (bounds, 250));
        let problems = problems(
            "state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[host]\nmemory = 1\ncpus = 0.001\nsessions_max = 0\ndrain = \"25h\"\n\
                 session_idle = \"999ms\"",
        );
        assert!(problems.contains("host.memory must be at least 4 MiB, got 1 B"), "{problems}");
        assert!(problems.contains("host.cpus must be at least 0.01 processors"), "{problems}");
        assert!(problems.contains("host.sessions_max: must be at least 1"), "{problems}");
        assert!(problems.contains("host.drain: must be at most 86400s"), "{problems}");
        assert!(problems.contains("host.session_idle: must be at least 1s"), "{problems}");
    }
}

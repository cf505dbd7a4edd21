//! What a host gives to runs and sessions: its budget, bounds, prepared workers, and what all runs can read. Must not know
//! what a tenant may have of it.

use super::limits::too_small;
use super::{Problem, changed};
use crate::config::units::{Bytes, Cpus, Duration};
use crate::host::resolved_path::ResolvedPath;
use crate::ops::drain::{DEFAULT_GRACE, GRACE_MAX};
use crate::sessions::limits::{IDLE_MIN, SessionLimits};
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::quota::Amount;
use proctor_sandbox::PoolBounds;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What the host gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Memory that runs may use together; default: seven eighths of the host's.
    memory: Option<Bytes>,
    /// Processors that runs may use together; default: for each processor as much as a run gets that asks for nothing.
    cpus: Option<Cpus>,
    /// Sessions at the same time, of all tenants together; default [`crate::sessions::limits::SESSIONS_MAX`].
    pub sessions_max: Option<u32>,
    /// How long a session lives that nobody uses; default [`crate::sessions::limits::IDLE_MAX`].
    pub session_idle: Option<Duration>,
    /// How long runs may go on when the supervisor ends; default [`DEFAULT_GRACE`].
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
    pub fn bounds(&self) -> SessionLimits {
        let built_in = SessionLimits::default();
        SessionLimits {
            sessions_max: self
                .sessions_max
                .map_or(built_in.sessions_max, |max| usize::try_from(max).unwrap_or(usize::MAX)),
            idle_max: self.session_idle.map_or(built_in.idle_max, |idle| std::time::Duration::from_millis(idle.ms)),
        }
    }

    /// How long runs may go on when the supervisor ends.
    #[must_use]
    pub fn drain(&self) -> std::time::Duration {
        self.drain.map_or(DEFAULT_GRACE, |drain| std::time::Duration::from_millis(drain.ms))
    }

    /// The keys of which `now` says something else.
    #[must_use]
    pub fn changed(&self, now: &Host) -> Vec<&'static str> {
        // All of them: one that is added has to be here too.
        let Host { memory, cpus, sessions_max, session_idle, drain, toolchains, pool } = self;
        let PoolTable { workers_max, idle } = pool;
        changed([
            ("host.memory", *memory != now.memory),
            ("host.cpus", *cpus != now.cpus),
            ("host.sessions_max", *sessions_max != now.sessions_max),
            ("host.session_idle", *session_idle != now.session_idle),
            ("host.drain", *drain != now.drain),
            ("host.toolchains", *toolchains != now.toolchains),
            ("host.pool.workers_max", *workers_max != now.pool.workers_max),
            ("host.pool.idle", *idle != now.pool.idle),
        ])
    }

    /// What is wrong with it on a host that has these places which not all runs may see.
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
        let too_short = format!("session_idle: must be at least {}s", IDLE_MIN.as_secs());
        wrong(self.bounds().idle_max < IDLE_MIN, "session_idle", &too_short);
        let too_long = format!("drain: must be at most {}s", GRACE_MAX.as_secs());
        wrong(self.drain() > GRACE_MAX, "drain", &too_long);
        for (place, dir) in self.toolchains.iter().enumerate() {
            let at = format!("toolchains.{place}");
            wrong(!dir.is_absolute(), &at, &format!("toolchains: {} is not absolute", dir.display()));
            let problem = shown(dir, private).filter(|_| dir.is_absolute());
            problem.into_iter().for_each(|problem| wrong(true, &at, &format!("toolchains: {problem}")));
        }
        // One that an update has moved must not keep an operator from revoking a credential.
        let gone = self.toolchains.iter().enumerate().filter(|(_, dir)| dir.is_absolute() && !dir.exists());
        let note = |dir: &Path| format!("host.toolchains: {} is not there, so no run sees it", dir.display());
        problems.extend(gone.map(|(place, dir)| Problem::note(format!("host.toolchains.{place}"), note(dir))));
        problems
    }
}

// What all runs would see of somebody's own, if this directory were shown to them. A part of a tenant's root is as much its
// own as the whole.
fn shown(dir: &Path, private: &[ResolvedPath]) -> Option<String> {
    let (shown, dir) = (ResolvedPath::new(dir), dir.display());
    if let Some(held) = private.iter().find(|place| place.is_in(&shown)) {
        return Some(format!("{dir} would show {} to all", held.named().display()));
    }
    let around = private.iter().find(|place| shown.is_in(place))?;
    Some(format!("{dir} is in {}, which is not for all to see", around.named().display()))
}

/// SessionLimits of prepared workers; what is absent keeps its built-in value, [`PoolBounds::DEFAULT`].
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

/// What a host is made of.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Processors that this process may use.
    pub processors: usize,
    /// Physical memory, in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Machine {
        let info = rustix::system::sysinfo();
        Machine {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: info.totalram.saturating_mul(info.mem_unit.into()),
        }
    }

    /// What it has for runs unless its operator says otherwise: seven eighths of its memory, since memory that is not there
    /// kills; and for each processor as much as one run gets, since processors that are not there only make runs slower.
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
    fn what_all_runs_see_holds_nothing_private() {
        let ranges = ["uid_range = { first = 2000, count = 1 }", "uid_range = { first = 3000, count = 1 }"];
        assert_eq!(problems_of(ranges, "[host]\ntoolchains = [\"/usr\"]"), "");
        let problems = problems_of(ranges, "[host]\ntoolchains = [\"opt\", \"/\"]");
        assert_eq!(problems, "host.toolchains: opt is not absolute\nhost.toolchains: / would show /x to all");
    }

    /// Each SIGHUP looks in both directions, and refuses what the start would have let through.
    #[test]
    fn what_is_somebodys_own_is_not_for_all_in_part_either() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(at("root/jdk")).unwrap();
        std::os::unix::fs::symlink(at("root/jdk"), at("link")).unwrap();
        std::fs::create_dir_all(at("state/jdk")).unwrap();
        for (shown, place) in [("root/jdk", "root"), ("link", "root"), ("state/jdk", "state")] {
            let problems = problems(&format!(
                "state_dir = {state:?}\n[listen]\nunix = \"/s\"\n[host]\ntoolchains = [{shown:?}]\n\
                 [sandbox]\nleft_off = [\"tenant_uid\"]\n[[tenant]]\nid = \"a\"\nuids = [1]\nroots = [{root:?}]\n",
                state = at("state"),
                shown = at(shown),
                root = at("root"),
            ));
            let (shown, place) = (at(shown), at(place));
            let told = format!("{} is in {}, which is not for all to see", shown.display(), place.display());
            assert_eq!(problems, format!("host.toolchains: {told}"));
        }
    }

    #[test]
    fn a_toolchain_that_is_not_there_is_told_and_keeps_nobody_from_anything() {
        let host: Host = toml::from_str("toolchains = [\"/usr\", \"/no/such\"]").unwrap();
        let note = "host.toolchains: /no/such is not there, so no run sees it";
        assert_eq!(host.problems(&[]), [Problem::note("host.toolchains.1", note)]);
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
        let bounds = SessionLimits { sessions_max: 7, idle_max: std::time::Duration::from_secs(120) };
        assert_eq!((some.bounds(), some.drain().as_millis()), (bounds, 250));
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

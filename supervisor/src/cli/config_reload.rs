//! SIGHUP: the host file is read anew and takes the place of the one before as a whole, or not at all. Sessions of tenants
//! that stay live on; what is in use already does not change under it. Must not know how calls are answered.

use crate::config::{Config, Diagnostic, Problem, UidRange};
use crate::host::state_dir::own_dir;
use crate::host::toolchain::Toolchain;
use crate::ops::audit::{AuditEvent, AuditRecord};
use crate::runs::context::Context;
use crate::sessions::registry::{Registry, close_all};
use crate::tenants::Tenant;
use crate::tenants::access::{self, Access, LoadedConfig};
use futures_util::FutureExt;
use proctor_core::bounds::TENANTS_MAX;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// A supervisor's host file, and what changes when it does.
pub(super) struct Reloading {
    /// The file.
    pub(super) path: PathBuf,
    /// What is in force of it.
    pub(super) config: Config,
    /// Whose users of this host there have been since the start.
    pub(super) users: Users,
    /// Whether this process can be other users.
    pub(super) may_switch: bool,
    /// Who may call.
    pub(super) access: watch::Sender<Arc<Access>>,
    /// What runs must not see.
    pub(super) private: watch::Sender<Vec<PathBuf>>,
    /// Whose toolchains runs see.
    pub(super) context: Arc<Context>,
    /// The sessions.
    pub(super) registry: Registry,
}

impl Reloading {
    /// Reads the file anew. A file that is wrong changes nothing.
    pub(super) async fn reload(&mut self) {
        // The next SIGHUP may revoke a credential, whatever has become of this one.
        let taken_over = AssertUnwindSafe(self.take_over()).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(
                "the host file was not taken over, or not all of it: what reads it broke; SIGHUP tries again"
            );
            false
        });
        let outcome = if taken_over { "ok" } else { "error" };
        self.context
            .audit
            .record(AuditRecord { outcome: Some(outcome.to_owned()), ..AuditRecord::new(AuditEvent::Reloaded) });
    }

    // Whether what the file says is in force.
    async fn take_over(&mut self) -> bool {
        let reader = self.reader();
        let before = Arc::clone(&reader.before);
        // Files and directories block.
        let read = tokio::task::spawn_blocking(move || reader.read()).await;
        let loaded = read.unwrap_or_else(|error| Err(vec![Diagnostic::Problem(error.to_string())]));
        let LoadedConfig { config, access, private, notes } = match loaded {
            Ok(read) => read,
            Err(all) => {
                for told in all {
                    match told {
                        Diagnostic::Problem(text) => tracing::error!("{text}"),
                        Diagnostic::Note(text) => tracing::warn!("{text}"),
                    }
                }
                tracing::error!("the host file was not taken over: what it said before stays in force");
                return false;
            }
        };
        notes.iter().for_each(|note| tracing::warn!("{note}"));
        // Before anything else, so that nothing of a tenant that is gone begins any more; new ones cannot call yet.
        self.context.scheduler.admit_only(access.tenants.all().iter().map(|tenant| tenant.id.clone()).collect()).await;
        self.private.send_replace(private);
        let access = Arc::new(access);
        self.access.send_replace(Arc::clone(&access));
        access.tenants.publish_policies();
        self.users.add(&config);
        self.config = config;
        // From here on nobody makes a session that is not admitted: whoever was about to looks once more.
        let mut leaving = Vec::new();
        for tenant in before.tenants.all() {
            let sessions = self.registry.list(tenant.id.clone(), String::new(), usize::MAX).await;
            leaving.extend(sessions.into_iter().filter(|session| !access.admits(&tenant.id, session.workspace())));
        }
        let (tenants, sessions_closed) = (access.tenants.all().len(), leaving.len());
        // The next SIGHUP may revoke a credential, and waits for no run's end.
        tokio::spawn(close_all(leaving));
        tracing::info!(tenants, sessions_closed, "the host file was read anew");
        true
    }

    fn reader(&self) -> Reader {
        Reader {
            path: self.path.clone(),
            config: self.config.clone(),
            users: self.users.clone(),
            may_switch: self.may_switch,
            before: Arc::clone(&self.access.borrow()),
            context: Arc::clone(&self.context),
        }
    }
}

/// What it takes to read a host file anew beside everything else that goes on.
struct Reader {
    path: PathBuf,
    /// What is in force of it.
    config: Config,
    users: Users,
    may_switch: bool,
    /// Who may call until then.
    before: Arc<Access>,
    context: Arc<Context>,
}

impl Reader {
    // What the file says, with the build caches of those who are new in it.
    fn read(&self) -> Result<LoadedConfig, Vec<Diagnostic>> {
        let loaded = self.load()?;
        let new = loaded.access.tenants.all().iter().filter(|tenant| self.before.tenants.get(&tenant.id).is_none());
        for tenant in new {
            own_cache(&loaded.config, tenant).map_err(|error| vec![Diagnostic::Problem(error)])?;
        }
        Ok(loaded)
    }

    fn load(&self) -> Result<LoadedConfig, Vec<Diagnostic>> {
        let mut kept = Vec::new();
        let mut loaded = access::load(&self.path, self.may_switch, &self.before.tenants, |config| {
            kept = keep(&self.config, config);
            let mut problems = self.users.moved(config);
            problems.extend(shown_roots(&self.context.toolchain, config));
            problems
        })?;
        // A file that is refused changes nothing after a restart either, and one that cannot be read says nothing of any key.
        let note = |key| format!("{key} changes with a restart only; until then it stays as it was");
        loaded.notes.extend(kept.into_iter().map(note));
        Ok(loaded)
    }
}

/// Roots that all runs would read, or that hold what they read: runs see the toolchains of the start, so no tenant can come
/// into one of them.
pub(super) fn shown_roots(toolchain: &Toolchain, config: &Config) -> Vec<Problem> {
    let (mut problems, roots) = (Vec::new(), config.roots());
    for (index, tenant) in config.tenant.iter().enumerate() {
        for (place, root) in tenant.roots.iter().enumerate() {
            let Some(shown) = toolchain.exposing_dir(&roots.resolve(root)) else { continue };
            let (root, shown) = (root.display(), shown.display());
            let text = format!(
                "tenant {:?}: root {root} and {shown}, which all runs read, hold one another: name another root, or start \
                 the supervisor with another PATH",
                tenant.id
            );
            problems.push(Problem::new(format!("tenant.{index}.roots.{place}"), text));
        }
    }
    problems
}

/// The cache directory of a tenant. It is the supervisor's own, and each directory in it the user's of the tenant's runs; one that
/// belongs to somebody else, as in earlier versions, is begun anew.
pub(super) fn own_cache(config: &Config, tenant: &Tenant) -> Result<(), String> {
    let made = own_dir(&config.state_dir, &["tenants", tenant.id.as_str(), "cache"], None);
    made.map(drop).map_err(|error| format!("the build cache of tenant {:?}: {error}", tenant.id.as_str()))
}

/// Puts back what is in use since the start: the keys that a file has changed in vain.
fn keep(before: &Config, now: &mut Config) -> Vec<&'static str> {
    let mut kept = Vec::new();
    let tls = (before.listen.tls.is_some(), now.listen.tls.is_some());
    let mut listen = before.listen.clone();
    if tls.0 == tls.1 {
        // Which certificates there are can change, and whether there is TLS at all cannot.
        listen.tls = now.listen.tls.take();
        now.listen.tls.clone_from(&listen.tls);
    }
    for (key, changed) in [
        ("listen.unix", listen.unix != now.listen.unix),
        ("listen.unix_mode", listen.unix_mode != now.listen.unix_mode),
        ("listen.tcp", listen.tcp != now.listen.tcp),
        ("listen.tcp_plaintext", listen.tcp_plaintext != now.listen.tcp_plaintext),
        ("listen.tls", tls.0 != tls.1),
        ("state_dir", before.state_dir != now.state_dir),
    ] {
        kept.extend(changed.then_some(key));
    }
    kept.extend(before.host.changed_keys(&now.host));
    kept.extend(before.sandbox.changed_keys(&now.sandbox));
    kept.extend(before.audit.changed_keys(&now.audit));
    now.listen = listen;
    now.state_dir.clone_from(&before.state_dir);
    now.host = before.host.clone();
    now.sandbox = before.sandbox.clone();
    now.audit = before.audit.clone();
    kept
}

/// Most tenants whose users are known, of all that have been there since the start: each is compared with each.
const KNOWN_MAX: usize = 2 * TENANTS_MAX;

/// Whose each user of the host has been since the start, by tenant. What ran and lies there as one must not become another's,
/// also when that one is gone from the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Users(BTreeMap<String, Option<UidRange>>);

impl Users {
    /// Those of a supervisor that starts with this file.
    pub(super) fn of(config: &Config) -> Users {
        let mut users = Users::default();
        users.add(config);
        users
    }

    // What a file has added that is in force now.
    fn add(&mut self, config: &Config) {
        for tenant in &config.tenant {
            self.0.entry(tenant.id.clone()).or_insert(tenant.uid_range);
        }
    }

    // Users that would change hands.
    fn moved(&self, now: &Config) -> Vec<Problem> {
        let (mut problems, mut known) = (Vec::new(), self.0.len());
        for (index, tenant) in now.tenant.iter().enumerate() {
            let mut told = |text: String| {
                let text = format!("tenant {:?}: uid_range {text}", tenant.id);
                problems.push(Problem::new(format!("tenant.{index}.uid_range"), text));
            };
            match self.0.get(&tenant.id) {
                Some(range) if *range != tenant.uid_range => told("changes with a restart only".to_owned()),
                None if known == KNOWN_MAX => {
                    told(format!("can be a new tenant's after a restart only: there have been {KNOWN_MAX} tenants"));
                }
                None => known += 1,
                Some(_) => {}
            }
            let Some(range) = tenant.uid_range else { continue };
            let others = self.0.iter().filter(|(id, _)| **id != tenant.id);
            for (other, _) in others.filter(|(_, theirs)| theirs.is_some_and(|theirs| theirs.overlaps(range))) {
                told(format!("overlaps that of tenant {other:?}, whose it is until a restart"));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigReader;
    use crate::host::toolchain::ToolchainConfig;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Each key that is marked so, by its name, and each is found.
    #[test]
    fn what_changes_with_a_restart_only_is_named() {
        let config = |text: &str| ConfigReader::new(text).config().clone();
        for (text, keys) in [
            ("state_dir = \"/y\"", &["state_dir"][..]),
            ("[host]\nmemory = 1\ncpus = 1", &["host.memory", "host.cpus"]),
            ("[host]\nsessions_max = 1\nsession_idle = 1", &["host.sessions_max", "host.session_idle"]),
            ("[host]\ndrain = 1\ntoolchains = [\"/t\"]", &["host.drain", "host.toolchains"]),
            ("[host.pool]\nworkers_max = 1\nidle = 1", &["host.pool.workers_max", "host.pool.idle"]),
            (
                "[sandbox]\nrequired_layers = []\nleft_off = [\"rlimits\"]",
                &["sandbox.required_layers", "sandbox.left_off"],
            ),
            ("[audit]\npath = \"/a\"\nmax_bytes = 1\nkeep = 1", &["audit.path", "audit.max_bytes", "audit.keep"]),
            ("[listen]\nunix = \"/u\"\nunix_mode = \"0\"", &["listen.unix", "listen.unix_mode"]),
            ("[max]\nmemory = 1\n[defaults]\nmemory = 1", &[]),
        ] {
            let (before, mut now) = (config(""), config(text));
            assert_eq!(keep(&before, &mut now), keys);
            assert_eq!((now.host, now.sandbox, now.audit), (before.host, before.sandbox, before.audit));
        }
    }

    #[test]
    fn users_of_the_host_change_hands_with_a_restart_only() {
        let config = |tenants: &[(&str, u32)]| {
            let table =
                |(id, first)| format!("[[tenant]]\nid = {id:?}\nuid_range = {{ first = {first}, count = 10 }}\n");
            ConfigReader::new(&tenants.iter().copied().map(table).collect::<String>()).config().clone()
        };
        let mut users = Users::of(&config(&[("a", 2_000), ("b", 3_000)]));
        // Each file but the last of a row is in force, one after the other.
        for (files, wrong) in [
            (&[&[("a", 2_000), ("c", 4_000)][..]][..], None),
            (&[&[("a", 3_000)]], Some("tenant \"a\": uid_range changes with a restart only")),
            (
                &[&[("a", 2_000)], &[("a", 2_000), ("x", 3_005)]],
                Some("tenant \"x\": uid_range overlaps that of tenant \"b\", whose"),
            ),
            (&[&[("d", 5_000)], &[("e", 5_000)]], Some("tenant \"e\": uid_range overlaps that of tenant \"d\", whose")),
            (&[&[("a", 2_000)], &[("b", 6_000)]], Some("tenant \"b\": uid_range changes with a restart only")),
            (&[&[("a", 2_000)], &[("b", 3_000)]], None),
        ] {
            let (last, before) = files.split_last().unwrap();
            before.iter().for_each(|file| users.add(&config(file)));
            let told: Vec<String> = users.moved(&config(last)).into_iter().map(|problem| problem.text).collect();
            let as_wanted = match wrong {
                Some(text) => told.first().is_some_and(|told| told.starts_with(text)),
                None => told.is_empty(),
            };
            assert!(as_wanted, "{files:?}: {told:?}");
        }
        let many: Vec<String> = (0..=KNOWN_MAX).map(|number| number.to_string()).collect();
        let text: String = many.iter().map(|id| format!("[[tenant]]\nid = {id:?}\n")).collect();
        let told = Users::default().moved(ConfigReader::new(&text).config());
        assert!(told.len() == 1 && told[0].text.contains("after a restart only"), "{} of them", told.len());
    }

    #[test]
    fn no_root_holds_what_path_leads_to_or_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(at("tools/jdk/bin")).unwrap();
        std::fs::create_dir_all(at("tools/jdk/ws")).unwrap();
        std::fs::create_dir(at("elsewhere")).unwrap();
        std::fs::write(at("tools/jdk/bin/java"), "").unwrap();
        std::fs::set_permissions(at("tools/jdk/bin/java"), PermissionsExt::from_mode(0o755)).unwrap();
        symlink(at("tools/jdk/ws"), at("link")).unwrap();
        let var = |name: &str| (name == "PATH").then(|| at("tools/jdk/bin").into());
        let toolchain = Toolchain::from_env(var, ToolchainConfig::empty());
        for (root, shown) in [("elsewhere", false), ("tools", true), ("tools/jdk/ws", true), ("link", true)] {
            let text = format!("[[tenant]]\nid = \"a\"\nroots = [{:?}]\n", at(root));
            let problems = shown_roots(&toolchain, ConfigReader::new(&text).config());
            let told = format!("root {} and {}, which", at(root).display(), at("tools/jdk").display());
            assert_eq!(problems.len(), usize::from(shown), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.text.contains(&told)), "{problems:?}");
        }
    }
}

//! SIGHUP: reloads the host file and replaces the previous one as a whole, or not at all. Sessions of remaining tenants
//! continue, and settings in use since the start do not change.

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

/// Reloads the host file of a supervisor and applies it.
pub(super) struct ConfigReloader {
    /// Path of the host file.
    pub(super) path: PathBuf,
    /// The configuration in force.
    pub(super) config: Config,
    /// UID ranges of all tenants since the start.
    pub(super) uid_history: UidHistory,
    /// Whether this process can run tests as other users.
    pub(super) may_switch: bool,
    /// Publishes the identities of callers.
    pub(super) access: watch::Sender<Arc<Access>>,
    /// Publishes the paths that runs must not see.
    pub(super) private: watch::Sender<Vec<PathBuf>>,
    /// Has the toolchains that runs see, the scheduler and the audit log.
    pub(super) context: Arc<Context>,
    /// Has the sessions.
    pub(super) registry: Registry,
}

impl ConfigReloader {
    /// Reloads the file. A file with errors changes nothing.
    pub(super) async fn reload(&mut self) {
        // A panic must not keep the next SIGHUP from revoking a credential.
        let applied = AssertUnwindSafe(self.apply()).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!("reloading the host file panicked, so it may be partly in force; send SIGHUP to try again");
            false
        });
        let outcome = if applied { "ok" } else { "error" };
        self.context
            .audit
            .record(AuditRecord { outcome: Some(outcome.to_owned()), ..AuditRecord::new(AuditEvent::Reloaded) });
    }

    // Returns whether the file's contents are in force.
    async fn apply(&mut self) -> bool {
        let snapshot = self.snapshot();
        let before = Arc::clone(&snapshot.before);
        // Reading files and directories blocks.
        let read = tokio::task::spawn_blocking(move || snapshot.read()).await;
        let loaded = read.unwrap_or_else(|error| Err(vec![Diagnostic::Problem(error.to_string())]));
        let LoadedConfig { config, access, private, notes } = match loaded {
            Ok(read) => read,
            Err(all) => {
                for diagnostic in all {
                    match diagnostic {
                        Diagnostic::Problem(text) => tracing::error!("{text}"),
                        Diagnostic::Note(text) => tracing::warn!("{text}"),
                    }
                }
                tracing::error!("the host file was not applied: the previous one stays in force");
                return false;
            }
        };
        notes.iter().for_each(|note| tracing::warn!("{note}"));
        // First of all, so that no run of a removed tenant starts any more; new tenants cannot call yet.
        self.context.scheduler.admit_only(access.tenants.all().iter().map(|tenant| tenant.id.clone()).collect()).await;
        self.private.send_replace(private);
        let access = Arc::new(access);
        self.access.send_replace(Arc::clone(&access));
        access.tenants.publish_policies();
        self.uid_history.add(&config);
        self.config = config;
        // From here on no session is created that is not admitted: creation checks admission once more.
        let mut sessions_to_close = Vec::new();
        for tenant in before.tenants.all() {
            let sessions = self.registry.list(tenant.id.clone(), String::new(), usize::MAX).await;
            sessions_to_close
                .extend(sessions.into_iter().filter(|session| !access.admits(&tenant.id, session.workspace())));
        }
        let (tenants, sessions_closed) = (access.tenants.all().len(), sessions_to_close.len());
        // Closing must not delay the next SIGHUP, which may revoke a credential.
        tokio::spawn(close_all(sessions_to_close));
        tracing::info!(tenants, sessions_closed, "the host file was reloaded");
        true
    }

    fn snapshot(&self) -> ConfigSnapshot {
        ConfigSnapshot {
            path: self.path.clone(),
            config: self.config.clone(),
            uid_history: self.uid_history.clone(),
            may_switch: self.may_switch,
            before: Arc::clone(&self.access.borrow()),
            context: Arc::clone(&self.context),
        }
    }
}

/// A snapshot of what reading the host file needs, for a blocking thread.
struct ConfigSnapshot {
    path: PathBuf,
    /// The configuration in force.
    config: Config,
    uid_history: UidHistory,
    may_switch: bool,
    /// The identities in force.
    before: Arc<Access>,
    context: Arc<Context>,
}

impl ConfigSnapshot {
    // Reads the file and creates the cache directories of new tenants.
    fn read(&self) -> Result<LoadedConfig, Vec<Diagnostic>> {
        let loaded = self.load()?;
        let new = loaded.access.tenants.all().iter().filter(|tenant| self.before.tenants.get(&tenant.id).is_none());
        for tenant in new {
            create_cache_dir(&loaded.config, tenant).map_err(|error| vec![Diagnostic::Problem(error)])?;
        }
        Ok(loaded)
    }

    fn load(&self) -> Result<LoadedConfig, Vec<Diagnostic>> {
        let mut unchanged_keys = Vec::new();
        let mut loaded = access::load(&self.path, self.may_switch, &self.before.tenants, |config| {
            unchanged_keys = restore_fixed_settings(&self.config, config);
            let mut problems = self.uid_history.changed_owners(config);
            problems.extend(exposed_roots(&self.context.toolchain, config));
            problems
        })?;
        // Only for a valid file: a rejected file changes nothing after a restart either.
        let note = |key| format!("{key} takes effect only after a restart");
        loaded.notes.extend(unchanged_keys.into_iter().map(note));
        Ok(loaded)
    }
}

/// A problem for each tenant's root that overlaps a directory that all runs read: the tenant could change what other
/// tenants' runs execute. `toolchain` is the one found at the start, which runs keep until a restart.
pub(super) fn exposed_roots(toolchain: &Toolchain, config: &Config) -> Vec<Problem> {
    let (mut problems, roots) = (Vec::new(), config.roots());
    for (index, tenant) in config.tenant.iter().enumerate() {
        for (position, root) in tenant.roots.iter().enumerate() {
            let Some(toolchain_dir) = toolchain.exposing_dir(&roots.resolve(root)) else { continue };
            let (root, toolchain) = (root.display(), toolchain_dir.display());
            let text = format!(
                "tenant {:?}: root {root} and {toolchain}, which all runs read, overlap: name another root, or start \
                 the supervisor with another PATH",
                tenant.id
            );
            problems.push(Problem::new(format!("tenant.{index}.roots.{position}"), text));
        }
    }
    problems
}

/// Creates the cache directory of a tenant. It belongs to the supervisor, and the directories in it to the user of the
/// tenant's runs. One owned by another user, as made by earlier versions, is replaced.
pub(super) fn create_cache_dir(config: &Config, tenant: &Tenant) -> Result<(), String> {
    let created = own_dir(&config.state_dir, &["tenants", tenant.id.as_str(), "cache"], None);
    created.map(drop).map_err(|error| format!("the build cache of tenant {:?}: {error}", tenant.id.as_str()))
}

/// Restores the settings that are fixed since the start. Returns the changed keys that have no effect.
fn restore_fixed_settings(before: &Config, now: &mut Config) -> Vec<&'static str> {
    let mut unchanged_keys = Vec::new();
    let tls = (before.listen.tls.is_some(), now.listen.tls.is_some());
    let mut listen = before.listen.clone();
    if tls.0 == tls.1 {
        // Certificates can change, but TLS cannot be switched on or off.
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
        unchanged_keys.extend(changed.then_some(key));
    }
    unchanged_keys.extend(before.host.changed_keys(&now.host));
    unchanged_keys.extend(before.sandbox.changed_keys(&now.sandbox));
    unchanged_keys.extend(before.audit.changed_keys(&now.audit));
    unchanged_keys.extend(before.telemetry.changed_keys(&now.telemetry));
    now.listen = listen;
    now.state_dir.clone_from(&before.state_dir);
    now.host = before.host.clone();
    now.sandbox = before.sandbox.clone();
    now.audit = before.audit.clone();
    now.telemetry = before.telemetry.clone();
    unchanged_keys
}

/// Most tenants tracked since the start: each is compared with each.
const TENANTS_TRACKED_MAX: usize = 2 * TENANTS_MAX;

/// UID ranges of all tenants since the start. Processes and files of one tenant's UIDs must not pass to another tenant,
/// even after the first was removed from the file.
#[derive(Debug, Clone, Default)]
pub(super) struct UidHistory(BTreeMap<String, Option<UidRange>>);

impl UidHistory {
    /// The ranges of a supervisor that starts with this file.
    pub(super) fn from_config(config: &Config) -> UidHistory {
        let mut uid_history = UidHistory::default();
        uid_history.add(config);
        uid_history
    }

    // Adds the ranges of a file that is now in force.
    fn add(&mut self, config: &Config) {
        for tenant in &config.tenant {
            self.0.entry(tenant.id.clone()).or_insert(tenant.uid_range);
        }
    }

    // Problems with UIDs that would change owner.
    fn changed_owners(&self, now: &Config) -> Vec<Problem> {
        let (mut problems, mut tracked) = (Vec::new(), self.0.len());
        for (index, tenant) in now.tenant.iter().enumerate() {
            let mut report = |text: String| {
                let text = format!("tenant {:?}: uid_range {text}", tenant.id);
                problems.push(Problem::new(format!("tenant.{index}.uid_range"), text));
            };
            match self.0.get(&tenant.id) {
                Some(range) if *range != tenant.uid_range => report("cannot change without a restart".to_owned()),
                None if tracked == TENANTS_TRACKED_MAX => {
                    report(format!(
                        "of a new tenant needs a restart: there have been {TENANTS_TRACKED_MAX} tenants since the start"
                    ));
                }
                None => tracked += 1,
                Some(_) => {}
            }
            let Some(range) = tenant.uid_range else { continue };
            let others = self.0.iter().filter(|(id, _)| **id != tenant.id);
            for (other, _) in
                others.filter(|(_, other_range)| other_range.is_some_and(|other_range| other_range.overlaps(range)))
            {
                report(format!("overlaps that of tenant {other:?}, which keeps it until a restart"));
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

    /// Every key that is marked so is found by its name.
    #[test]
    fn names_every_key_that_needs_a_restart() {
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
            (
                "[telemetry]\nlisten = \"127.0.0.1:1\"\nrequire_token = true\nplaintext = true\npage = true\n\
                 page_hosts = [\"a\"]",
                &[
                    "telemetry.listen",
                    "telemetry.require_token",
                    "telemetry.plaintext",
                    "telemetry.page",
                    "telemetry.page_hosts",
                ],
            ),
            (
                "[telemetry.traces]\nendpoint = \"http://[::1]:1\"\nprotocol = \"grpc\"\nsample_ratio = 1\n\
                 timeout = 1\nqueue_spans = 1\nca = \"/a\"",
                &[
                    "telemetry.traces.endpoint",
                    "telemetry.traces.protocol",
                    "telemetry.traces.sample_ratio",
                    "telemetry.traces.timeout",
                    "telemetry.traces.queue_spans",
                    "telemetry.traces.ca",
                ],
            ),
            (
                "[telemetry.metrics]\nendpoint = \"http://[::1]:1\"\nprotocol = \"grpc\"\ninterval = 1\ntimeout = 1\n\
                 ca = \"/a\"",
                &[
                    "telemetry.metrics.endpoint",
                    "telemetry.metrics.protocol",
                    "telemetry.metrics.interval",
                    "telemetry.metrics.timeout",
                    "telemetry.metrics.ca",
                ],
            ),
            ("[listen]\nunix = \"/u\"\nunix_mode = \"0\"", &["listen.unix", "listen.unix_mode"]),
            ("[max]\nmemory = 1\n[defaults]\nmemory = 1", &[]),
        ] {
            let (before, mut now) = (config(""), config(text));
            assert_eq!(restore_fixed_settings(&before, &mut now), keys);
            assert_eq!((now.host, now.sandbox, now.audit), (before.host, before.sandbox, before.audit));
        }
    }

    #[test]
    fn uid_ranges_change_owner_only_with_a_restart() {
        let config = |tenants: &[(&str, u32)]| {
            let table =
                |(id, first)| format!("[[tenant]]\nid = {id:?}\nuid_range = {{ first = {first}, count = 10 }}\n");
            ConfigReader::new(&tenants.iter().copied().map(table).collect::<String>()).config().clone()
        };
        let mut uid_history = UidHistory::from_config(&config(&[("a", 2_000), ("b", 3_000)]));
        // All files of a row but the last come into force, one after the other.
        for (files, expected) in [
            (&[&[("a", 2_000), ("c", 4_000)][..]][..], None),
            (&[&[("a", 3_000)]], Some("tenant \"a\": uid_range cannot change without a restart")),
            (
                &[&[("a", 2_000)], &[("a", 2_000), ("x", 3_005)]],
                Some("tenant \"x\": uid_range overlaps that of tenant \"b\", which"),
            ),
            (&[&[("d", 5_000)], &[("e", 5_000)]], Some("tenant \"e\": uid_range overlaps that of tenant \"d\", which")),
            (&[&[("a", 2_000)], &[("b", 6_000)]], Some("tenant \"b\": uid_range cannot change without a restart")),
            (&[&[("a", 2_000)], &[("b", 3_000)]], None),
        ] {
            let (last, before) = files.split_last().unwrap();
            before.iter().for_each(|file| uid_history.add(&config(file)));
            let messages: Vec<String> =
                uid_history.changed_owners(&config(last)).into_iter().map(|problem| problem.text).collect();
            let as_expected = match expected {
                Some(text) => messages.first().is_some_and(|message| message.starts_with(text)),
                None => messages.is_empty(),
            };
            assert!(as_expected, "{files:?}: {messages:?}");
        }
        let many: Vec<String> = (0..=TENANTS_TRACKED_MAX).map(|number| number.to_string()).collect();
        let text: String = many.iter().map(|id| format!("[[tenant]]\nid = {id:?}\n")).collect();
        let messages = UidHistory::default().changed_owners(ConfigReader::new(&text).config());
        assert!(
            messages.len() == 1 && messages[0].text.contains("of a new tenant needs a restart"),
            "{} of them",
            messages.len()
        );
    }

    #[test]
    fn rejects_a_root_that_overlaps_a_toolchain() {
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
        for (root, is_exposed) in [("elsewhere", false), ("tools", true), ("tools/jdk/ws", true), ("link", true)] {
            let text = format!("[[tenant]]\nid = \"a\"\nroots = [{:?}]\n", at(root));
            let problems = exposed_roots(&toolchain, ConfigReader::new(&text).config());
            let message = format!("root {} and {}, which", at(root).display(), at("tools/jdk").display());
            assert_eq!(problems.len(), usize::from(is_exposed), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.text.contains(&message)), "{problems:?}");
        }
    }
}

//! SIGHUP: the host file is read anew and takes the place of the one before as a whole, or not at all. Sessions of tenants
//! that stay live on; what is in use already does not change under it. Must not know how calls are answered.

use crate::access::{self, Access};
use crate::audit::{Event, Line};
use crate::config::{Config, Problem};
use crate::context::Context;
use crate::owned::own_dir;
use crate::registry::Registry;
use crate::tenant::Tenant;
use proctor_sandbox::RunAs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// A supervisor's host file, and what changes when it does.
pub(super) struct Reloading {
    /// The file.
    pub(super) path: PathBuf,
    /// What is in force of it.
    pub(super) config: Config,
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
        let outcome = if self.take_over().await { "ok" } else { "error" };
        self.context.audit.tell(Line { outcome: Some(outcome.to_owned()), ..Line::of(Event::Reloaded) });
    }

    // Whether what the file says is in force.
    async fn take_over(&mut self) -> bool {
        let (config, access) = match self.read() {
            Ok(read) => read,
            Err(problems) => {
                for problem in problems {
                    tracing::error!("{problem}");
                }
                tracing::error!("the host file is wrong: what it said before stays in force");
                return false;
            }
        };
        let before = Arc::clone(&self.access.borrow());
        let new = access.tenants.all().iter().filter(|tenant| before.tenants.get(&tenant.id).is_none());
        for tenant in new {
            if let Err(error) = own_cache(&config, tenant) {
                tracing::error!("{error}: what the host file said before stays in force");
                return false;
            }
        }
        self.private.send_replace(config.private_places().map(Path::to_owned).collect());
        let access = Arc::new(access);
        self.access.send_replace(Arc::clone(&access));
        access.tenants.take_over();
        self.config = config;
        // From here on nobody makes a session that is not admitted: whoever was about to looks once more.
        let mut closed = 0;
        for tenant in before.tenants.all() {
            for session in self.registry.list(tenant.id.clone(), String::new(), usize::MAX).await {
                if !access.admits(&tenant.id, session.workspace()) {
                    session.close().await;
                    closed += 1;
                }
            }
        }
        tracing::info!(tenants = access.tenants.all().len(), sessions_closed = closed, "the host file was read anew");
        true
    }

    fn read(&self) -> Result<(Config, Access), Vec<String>> {
        let before = Arc::clone(&self.access.borrow());
        access::load(&self.path, self.may_switch, &before.tenants, |config| {
            for key in keep(&self.config, config) {
                tracing::warn!("{key} changes with a restart only; until then it stays as it was");
            }
            let mut problems = moved_users(&self.config, config);
            problems.extend(self.shown_roots(config));
            problems
        })
    }

    // Runs see the toolchains of the start, so no tenant can come into one of them.
    fn shown_roots(&self, config: &Config) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, tenant) in config.tenant.iter().enumerate() {
            for (place, root) in tenant.roots.iter().enumerate() {
                let Some(shown) = self.context.toolchain.shows(root) else { continue };
                let (root, shown) = (root.display(), shown.display());
                let text =
                    format!("tenant {:?}: root {root} and {shown}, which all runs read, hold one another", tenant.id);
                problems.push(Problem::new(format!("tenant.{index}.roots.{place}"), text));
            }
        }
        problems
    }
}

/// The build cache of a tenant, which belongs to the user of its runs.
pub(super) fn own_cache(config: &Config, tenant: &Tenant) -> Result<(), String> {
    let owner = match tenant.policy.run_as {
        RunAs::User { uid, gid } => Some((uid, gid)),
        RunAs::Supervisor | RunAs::Nobody { .. } => None,
    };
    let made = own_dir(&config.state_dir, &["tenants", tenant.id.as_str(), "cache"], owner);
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
        ("host", before.host != now.host),
        ("sandbox", before.sandbox != now.sandbox),
        ("audit", before.audit != now.audit),
    ] {
        kept.extend(changed.then_some(key));
    }
    now.listen = listen;
    now.state_dir.clone_from(&before.state_dir);
    now.host = before.host.clone();
    now.sandbox = before.sandbox.clone();
    now.audit = before.audit.clone();
    kept
}

/// Users of the host that would change hands: what runs and lies there as one tenant must not become another's.
fn moved_users(before: &Config, now: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, tenant) in now.tenant.iter().enumerate() {
        let at = format!("tenant.{index}.uid_range");
        let known = before.tenant.iter().find(|known| known.id == tenant.id);
        if known.is_some_and(|known| known.uid_range != tenant.uid_range) {
            let text = format!("tenant {:?}: uid_range changes with a restart only", tenant.id);
            problems.push(Problem::new(at.clone(), text));
        }
        let Some(range) = tenant.uid_range else { continue };
        for other in before.tenant.iter().filter(|other| other.id != tenant.id) {
            if other.uid_range.is_some_and(|theirs| theirs.overlaps(range)) {
                let text = format!(
                    "tenant {:?}: uid_range overlaps that of tenant {:?}, whose it is until a restart",
                    tenant.id, other.id
                );
                problems.push(Problem::new(at.clone(), text));
            }
        }
    }
    problems
}

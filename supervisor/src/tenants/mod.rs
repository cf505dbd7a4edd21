//! Tenants: the identity of a caller, derived from its transport, and what a tenant may use.

pub mod access;
pub mod allowance;
pub mod policy;

use crate::config::{Config, QuotaTable, canonical_name};
use crate::host::resolved_path::real;
use crate::ops::audit::AuthMethod;
use crate::tenants::allowance::Allowance;
use crate::tenants::policy::{CurrentPolicy, Policy, TenantUsage};
use crate::workspace::Root;
use proctor_core::bounds::TENANT_SESSIONS_MAX;
use proctor_core::id::TenantId;
use proctor_core::isolation::Layer;
use std::path::PathBuf;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

/// One tenant.
#[derive(Debug)]
pub struct Tenant {
    /// Name of the tenant.
    pub id: TenantId,
    /// Directories below which its workspaces are.
    pub roots: Vec<Root>,
    /// The supervisor's own paths, without symlinks: no workspace contains one or is inside one.
    pub reserved: Vec<PathBuf>,
    /// Limits and settings of its runs.
    pub policy: Arc<Policy>,
    /// Sends the current policy to the tenant's sessions while it is configured; [`Tenants::publish_policies`] sends a new
    /// one.
    pub policies: Arc<watch::Sender<Arc<Policy>>>,
    /// What its runs use now. A reload keeps it.
    pub usage: Arc<TenantUsage>,
    /// Most sessions at a time.
    pub sessions_max: usize,
    /// Its bounds on requests to the supervisor.
    pub allowance: Allowance,
}

impl Tenant {
    /// A tenant with the built-in bounds that has no sessions yet.
    #[must_use]
    pub fn new(id: TenantId, roots: Vec<Root>, policy: Policy) -> Tenant {
        let policy = Arc::new(policy);
        Tenant {
            id,
            roots,
            reserved: Vec::new(),
            policies: Arc::new(watch::Sender::new(Arc::clone(&policy))),
            policy,
            usage: Arc::default(),
            sessions_max: TENANT_SESSIONS_MAX,
            allowance: QuotaTable::default().allowance(),
        }
    }

    /// The policy of a session of this tenant, which follows reloads.
    #[must_use]
    pub fn current_policy(&self) -> CurrentPolicy {
        CurrentPolicy::new(&self.policies, &self.usage)
    }
}

/// An authenticated caller.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The tenant, if the caller is one.
    pub tenant: Option<Arc<Tenant>>,
    /// Whether the caller may use the Host service.
    pub operator: bool,
    /// The authentication method and credential, for the audit log.
    pub auth: AuthMethod,
}

/// A verified credential of a peer.
#[derive(Debug, Clone, Copy)]
pub enum Credential<'a> {
    /// The user id at the other end of a unix socket.
    Uid(u32),
    /// A bearer token.
    Token(&'a str),
    /// The subject of a valid JSON web token.
    Subject(&'a str),
    /// The names in a valid client certificate.
    Names(&'a [String]),
}

/// All tenants and operators of a host, with their credentials.
#[derive(Debug, Default)]
pub struct Tenants {
    tenants: Vec<Arc<Tenant>>,
    uids: Vec<(u32, Role)>,
    tokens: Vec<(blake3::Hash, Role)>,
    subjects: Vec<(String, Role)>,
    names: Vec<(String, Role)>,
}

#[derive(Debug, Clone)]
enum Role {
    Operator,
    Tenant(Arc<Tenant>),
}

impl Tenants {
    /// The tenants of a host file without [`Config::problems`], for a supervisor that `may_switch` users or not.
    /// Tenants that exist in `before` keep their sessions and their usage.
    #[must_use]
    pub fn from_config(config: &Config, may_switch: bool, before: &Tenants) -> Tenants {
        let mut tenants = Tenants::default();
        let operators = &config.operators;
        tenants.add_credentials(&operators.uids, &operators.token_hashes, &Role::Operator);
        tenants.add_names(&operators.jwt_subjects, &operators.cert_names, &Role::Operator);
        let switches = may_switch && !config.sandbox.left_off.contains(&Layer::TenantUid);
        let own =
            [Some(&config.state_dir), config.listen.unix.as_ref(), config.audit.path.as_ref()].into_iter().flatten();
        let reserved: Vec<PathBuf> = own.map(|path| real(path)).collect();
        let roots = config.roots();
        for table in &config.tenant {
            let range = table.uid_range.filter(|_| switches);
            let id = TenantId::new(table.id.clone());
            let roots = table.roots.iter().map(|root| Root::from_resolved(&roots.resolve(root))).collect();
            let mut tenant = Tenant {
                reserved: reserved.clone(),
                sessions_max: table
                    .sessions_max
                    .map_or(TENANT_SESSIONS_MAX, |max| usize::try_from(max).unwrap_or(usize::MAX)),
                allowance: table.quota.allowance(),
                ..Tenant::new(id, roots, Policy::from_config(config, table, range))
            };
            if let Some(previous) = before.get(&tenant.id) {
                tenant.policies = Arc::clone(&previous.policies);
                tenant.usage = Arc::clone(&previous.usage);
                tenant.allowance = tenant.allowance.with_usage_of(&previous.allowance);
            }
            let tenant = Arc::new(tenant);
            let role = Role::Tenant(Arc::clone(&tenant));
            tenants.tenants.push(tenant);
            tenants.add_credentials(&table.uids, &table.token_hashes, &role);
            tenants.add_names(&table.jwt_subjects, &table.cert_names, &role);
        }
        tenants
    }

    /// The single tenant of a private supervisor, which is also its operator.
    #[must_use]
    pub fn private(uid: u32, root: PathBuf, policy: Policy) -> Tenants {
        let tenant = Arc::new(Tenant::new(TenantId::new("private"), vec![Root::new(&root)], policy));
        let uids = vec![(uid, Role::Operator), (uid, Role::Tenant(Arc::clone(&tenant)))];
        Tenants { tenants: vec![tenant], uids, ..Tenants::default() }
    }

    fn add_credentials(&mut self, uids: &[u32], hashes: &[String], role: &Role) {
        self.uids.extend(uids.iter().map(|uid| (*uid, role.clone())));
        let hashes = hashes.iter().filter_map(|hash| blake3::Hash::from_hex(hash).ok());
        self.tokens.extend(hashes.map(|hash| (hash, role.clone())));
    }

    fn add_names(&mut self, subjects: &[String], names: &[String], role: &Role) {
        self.subjects.extend(subjects.iter().map(|subject| (subject.clone(), role.clone())));
        self.names.extend(names.iter().map(|name| (canonical_name(name), role.clone())));
    }

    /// Sends each tenant's policy to its sessions: runs that start from now on are under it.
    pub fn publish_policies(&self) {
        for tenant in &self.tenants {
            tenant.policies.send_replace(Arc::clone(&tenant.policy));
        }
    }

    /// All tenants.
    #[must_use]
    pub fn all(&self) -> &[Arc<Tenant>] {
        &self.tenants
    }

    /// The tenant of this name.
    #[must_use]
    pub fn get(&self, id: &TenantId) -> Option<&Arc<Tenant>> {
        self.tenants.iter().find(|tenant| tenant.id == *id)
    }

    /// The caller with this credential; `None` for an unknown credential.
    #[must_use]
    pub fn identify(&self, credential: Credential<'_>) -> Option<Caller> {
        let roles: Vec<&Role> = match credential {
            Credential::Uid(uid) => {
                self.uids.iter().filter(|(candidate, _)| *candidate == uid).map(|(_, role)| role).collect()
            }
            Credential::Token(token) => {
                // Compares all hashes, each in constant time, so that the time reveals nothing about any of them.
                let hash = blake3::hash(token.as_bytes());
                let equal = |candidate: &blake3::Hash| bool::from(candidate.as_bytes().ct_eq(hash.as_bytes()));
                self.tokens.iter().filter(|(candidate, _)| equal(candidate)).map(|(_, role)| role).collect()
            }
            // Subjects and names are no secrets: the token or certificate has been verified.
            Credential::Subject(subject) => {
                self.subjects.iter().filter(|(candidate, _)| candidate == subject).map(|(_, role)| role).collect()
            }
            Credential::Names(names) => {
                self.names.iter().filter(|(candidate, _)| names.contains(candidate)).map(|(_, role)| role).collect()
            }
        };
        let mut tenants = roles.iter().filter_map(|role| match role {
            Role::Tenant(tenant) => Some(tenant),
            Role::Operator => None,
        });
        let tenant = tenants.next();
        // A certificate with the names of two tenants is rejected.
        if roles.is_empty() || tenants.any(|other| tenant.is_some_and(|tenant| tenant.id != other.id)) {
            return None;
        }
        Some(Caller {
            auth: auth_method(credential),
            operator: roles.iter().any(|role| matches!(role, Role::Operator)),
            tenant: tenant.map(Arc::clone),
        })
    }
}

// The credential in the audit log, without its secret part.
fn auth_method(credential: Credential<'_>) -> AuthMethod {
    let (method, fingerprint) = match credential {
        Credential::Uid(uid) => ("unix", uid.to_string()),
        Credential::Token(token) => ("token", blake3::hash(token.as_bytes()).to_hex()[..16].to_owned()),
        Credential::Subject(subject) => ("jwt", subject.to_owned()),
        Credential::Names(names) => ("certificate", names.join(" ")),
    };
    AuthMethod { method: method.to_owned(), fingerprint: fingerprint.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigReader;
    use proctor_core::limits::{LimitRequest, Limits};
    use proctor_core::quota::Amount;
    use proctor_sandbox::RunAs;

    fn tenants() -> Tenants {
        let text = format!(
            "state_dir = \"/x\"\n[listen]\n[operators]\nuids = [7]\n[max]\nmemory = \"1GiB\"\n\
             [[tenant]]\nid = \"a\"\nuids = [1]\nroots = [\"/\"]\ntoken_hashes = [\"{}\"]\n\
             [[tenant]]\nid = \"b\"\nuids = [2]\nuid_range = {{ first = 2000, count = 10 }}\nroots = [\"/\"]\nmax = {{ memory = \"8GiB\" }}\n",
            blake3::hash(b"secret")
        );
        Tenants::from_config(ConfigReader::new(&text).config(), true, &Tenants::default())
    }

    fn name(caller: Option<Caller>) -> Option<String> {
        caller?.tenant.map(|tenant| tenant.id.to_string())
    }

    /// Invariant 1: identity comes from the transport.
    #[test]
    fn identifies_a_caller_by_its_credential() {
        let tenants = tenants();
        assert_eq!(name(tenants.identify(Credential::Uid(1))).as_deref(), Some("a"));
        assert_eq!(name(tenants.identify(Credential::Uid(2))).as_deref(), Some("b"));
        assert_eq!(name(tenants.identify(Credential::Token("secret"))).as_deref(), Some("a"));
        assert!(tenants.identify(Credential::Token("Secret")).is_none());
        assert!(tenants.identify(Credential::Uid(3)).is_none());
        let operator = tenants.identify(Credential::Uid(7)).unwrap();
        assert!(operator.operator && operator.tenant.is_none());
        assert!(!tenants.identify(Credential::Uid(1)).unwrap().operator);
    }

    /// As the example host file documents.
    #[test]
    fn a_uid_listed_as_both_is_operator_and_tenant() {
        let text =
            "state_dir = \"/x\"\n[operators]\nuids = [1]\n[[tenant]]\nid = \"a\"\nuids = [1]\nroots = [\"/srv\"]\n";
        let tenants = Tenants::from_config(ConfigReader::new(text).config(), true, &Tenants::default());
        let both = tenants.identify(Credential::Uid(1)).unwrap();
        assert!(both.operator && name(Some(both)).as_deref() == Some("a"));
    }

    #[test]
    fn runs_use_the_first_uid_of_their_tenants_range() {
        let policy = |uid| tenants().identify(Credential::Uid(uid)).unwrap().tenant.unwrap().policy.clone();
        assert_eq!(policy(2).run_as, RunAs::User { uid: 2_000, gid: 2_000 });
        assert_eq!(policy(2).owner_uids, Some(2_000..=2_009));
        assert_eq!((policy(1).run_as, policy(1).owner_uids.clone()), (RunAs::Supervisor, None));
    }

    #[test]
    fn a_tenant_keeps_its_sessions_and_its_usage_across_a_reload() {
        let text = |more: &str| {
            let tenant = "[[tenant]]\nid = \"a\"\nuids = [1]\nroots = [\"/\"]\n";
            format!("state_dir = \"/x\"\n{tenant}{more}\n")
        };
        let read =
            |more: &str, before: &Tenants| Tenants::from_config(ConfigReader::new(&text(more)).config(), true, before);
        let first =
            read("max = { memory = \"2GiB\" }\nquota = { subscribers = 1, kept = \"1GiB\" }", &Tenants::default());
        let stream = first.all()[0].allowance.subscribe().unwrap();
        let queued_run = first.all()[0].usage.queued.reserve_queued_run(1).unwrap();
        let retained = first.all()[0].usage.retained.bytes.add(7);
        let sessions = first.all()[0].policies.subscribe();
        let second = read("max = { memory = \"1GiB\" }", &first);
        assert_eq!(
            sessions.borrow().ceiling.memory_bytes_max,
            2 << 30,
            "nothing changes before the new policies are published"
        );
        second.publish_policies();
        assert_eq!(sessions.borrow().ceiling.memory_bytes_max, 1 << 30);
        let third = read("max = { memory = \"3GiB\" }\nquota = { subscribers = 2 }", &second);
        third.publish_policies();
        assert_eq!(
            sessions.borrow().ceiling.memory_bytes_max,
            3 << 30,
            "also in a session from before the second reload"
        );
        let Tenant { allowance, usage, .. } = &*third.all()[0];
        assert_eq!((usage.queued.now(), usage.retained.bytes.now()), (1, 7));
        let second_stream = allowance.subscribe().unwrap();
        assert!(allowance.subscribe().is_none(), "one of two was open before");
        drop((stream, second_stream, queued_run, retained));
        assert_eq!((usage.queued.now(), usage.retained.bytes.now()), (0, 0));
        assert!(allowance.subscribe().is_some());
    }

    /// Otherwise every such run would be refused, although the file is reported as valid.
    #[test]
    fn a_run_with_default_limits_fits_into_its_tenants_quota() {
        let text = "state_dir = \"/x\"\n[max]\nmemory = \"1GiB\"\n[[tenant]]\nid = \"a\"\nuids = [1]\nroots = [\"/\"]\n\
                    max = { cpus = 1 }\nquota = { memory = \"512MiB\", cpus = 1.5 }\n";
        let tenants = Tenants::from_config(ConfigReader::new(text).config(), true, &Tenants::default());
        let policy = &tenants.all()[0].policy;
        assert_eq!((policy.ceiling.memory_bytes_max, policy.ceiling.cpu_millis_max), (512 << 20, 1_000));
        let (limits, _) = Limits::resolve(&LimitRequest::default(), policy.defaults, policy.ceiling);
        assert_eq!(policy.quota.check(Amount::from_limits(&limits)), Ok(()));
    }

    #[test]
    fn a_tenants_ceiling_is_bounded_by_the_hosts() {
        let b = tenants().identify(Credential::Uid(2)).unwrap().tenant.unwrap();
        assert_eq!(b.policy.ceiling.memory_bytes_max, 1 << 30);
    }
}

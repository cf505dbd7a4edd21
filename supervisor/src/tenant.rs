//! Tenants: who a caller is, by what the transport says, and what it may have. Must not know any request.

use crate::allowance::Allowance;
use crate::audit::Auth;
use crate::caches;
use crate::config::{Config, UidRange};
use crate::context::Policy;
use crate::quotas::QuotaTable;
use crate::workspace::Root;
use proctor_core::id::TenantId;
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use proctor_sandbox::RunAs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Sessions of a tenant whose table says nothing.
const SESSIONS_MAX: usize = 1_000;

/// One tenant.
#[derive(Debug)]
pub struct Tenant {
    /// Its name.
    pub id: TenantId,
    /// Directories below which its workspaces are.
    pub roots: Vec<Root>,
    /// Places of the supervisor's own, without symlinks: no workspace holds one or is in one.
    pub reserved: Vec<PathBuf>,
    /// What its runs may have.
    pub policy: Arc<Policy>,
    /// Sessions at the same time.
    pub sessions_max: usize,
    /// What it may ask of the supervisor.
    pub allowance: Allowance,
}

/// Who is calling.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The tenant, if it is one.
    pub tenant: Option<Arc<Tenant>>,
    /// Whether it may ask about the host.
    pub operator: bool,
    /// How it is known.
    pub auth: Auth,
}

/// What a transport knows of a peer.
#[derive(Debug, Clone, Copy)]
pub enum Credential<'a> {
    /// The user id at the other end of a unix socket.
    Uid(u32),
    /// A bearer token.
    Token(&'a str),
}

/// Everybody who may call.
#[derive(Debug, Default)]
pub struct Tenants {
    uids: Vec<(u32, Who)>,
    tokens: Vec<(blake3::Hash, Who)>,
}

#[derive(Debug, Clone)]
enum Who {
    Operator,
    Tenant(Arc<Tenant>),
}

impl Tenants {
    /// The tenants of a host file that has no [`Config::problems`], for a supervisor that `may_switch` users or not.
    #[must_use]
    pub fn from_config(config: &Config, may_switch: bool) -> Tenants {
        let mut tenants = Tenants::default();
        tenants.admit(&config.operators.uids, &config.operators.token_hashes, &Who::Operator);
        let host_max = config.max.over(Limits::CEILING);
        let switches = may_switch && !config.sandbox.left_off.contains(&Layer::TenantUid);
        let own =
            [Some(&config.state_dir), config.listen.unix.as_ref(), config.audit.path.as_ref()].into_iter().flatten();
        let reserved: Vec<PathBuf> = own.map(real).collect();
        for table in &config.tenant {
            let range = table.uid_range.filter(|_| switches);
            let policy = Policy {
                owner: table.id.clone(),
                quota: table.quota.quota(),
                run_as: range.map_or(RunAs::Supervisor, |range| RunAs::User { uid: range.first, gid: range.first }),
                owners: range.map(UidRange::uids),
                defaults: config.defaults.over(Limits::DEFAULT),
                timeouts: config.timeouts.iter().map(|(name, timeout)| (name.clone(), timeout.ms)).collect(),
                ceiling: table.max.over(host_max).min(host_max),
                required_layers: config.sandbox.required(),
                left_off: config.sandbox.left_off.clone(),
                require_limits: true,
                may_use_network: table.network == Network::Host,
                network: Network::None,
                cache: config.state_dir.join("tenants").join(&table.id).join("cache"),
                cache_bytes_max: table.cache.map_or(caches::BYTES_MAX, |size| size.bytes),
            };
            let tenant = Tenant {
                id: TenantId::new(table.id.clone()),
                roots: table.roots.iter().map(|root| Root::of(root)).collect(),
                reserved: reserved.clone(),
                policy: Arc::new(policy),
                sessions_max: table.sessions_max.map_or(SESSIONS_MAX, |max| usize::try_from(max).unwrap_or(usize::MAX)),
                allowance: table.quota.allowance(),
            };
            tenants.admit(&table.uids, &table.token_hashes, &Who::Tenant(Arc::new(tenant)));
        }
        tenants
    }

    /// The one tenant of a private supervisor, who is its operator too.
    #[must_use]
    pub fn private(uid: u32, root: PathBuf, policy: Policy) -> Tenants {
        let tenant = Tenant {
            id: TenantId::new("private"),
            roots: vec![Root::of(&root)],
            reserved: Vec::new(),
            policy: Arc::new(policy),
            sessions_max: SESSIONS_MAX,
            allowance: QuotaTable::default().allowance(),
        };
        Tenants { uids: vec![(uid, Who::Operator), (uid, Who::Tenant(Arc::new(tenant)))], tokens: Vec::new() }
    }

    fn admit(&mut self, uids: &[u32], hashes: &[String], who: &Who) {
        self.uids.extend(uids.iter().map(|uid| (*uid, who.clone())));
        let hashes = hashes.iter().filter_map(|hash| blake3::Hash::from_hex(hash).ok());
        self.tokens.extend(hashes.map(|hash| (hash, who.clone())));
    }

    /// Every tenant, once for each of its credentials.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        let whos = self.uids.iter().map(|(_, who)| who).chain(self.tokens.iter().map(|(_, who)| who));
        whos.filter_map(|who| match who {
            Who::Tenant(tenant) => Some(tenant),
            Who::Operator => None,
        })
    }

    /// Who has this credential; `None` for nobody.
    #[must_use]
    pub fn identify(&self, credential: Credential<'_>) -> Option<Caller> {
        let known: Vec<&Who> = match credential {
            Credential::Uid(uid) => self.uids.iter().filter(|(known, _)| *known == uid).map(|(_, who)| who).collect(),
            Credential::Token(token) => {
                // All hashes are compared, each in constant time, so that time says nothing about any of them.
                let hash = blake3::hash(token.as_bytes());
                let equal = |known: &blake3::Hash| bool::from(known.as_bytes().ct_eq(hash.as_bytes()));
                self.tokens.iter().filter(|(known, _)| equal(known)).map(|(_, who)| who).collect()
            }
        };
        if known.is_empty() {
            return None;
        }
        Some(Caller {
            auth: auth_of(credential),
            operator: known.iter().any(|who| matches!(who, Who::Operator)),
            tenant: known.into_iter().find_map(|who| match who {
                Who::Tenant(tenant) => Some(Arc::clone(tenant)),
                Who::Operator => None,
            }),
        })
    }
}

// What tells callers apart in the audit log, without what makes them who they are.
fn auth_of(credential: Credential<'_>) -> Auth {
    let (method, fingerprint) = match credential {
        Credential::Uid(uid) => ("unix", uid.to_string()),
        Credential::Token(token) => ("token", blake3::hash(token.as_bytes()).to_hex()[..16].to_owned()),
    };
    Auth { method: method.to_owned(), fingerprint }
}

// Without symlinks, as far as it is there.
fn real(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    let in_its_parent = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(in_its_parent).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants() -> Tenants {
        let text = format!(
            "state_dir = \"/x\"\n[listen]\n[operators]\nuids = [7]\n[max]\nmemory = \"1GiB\"\n\
             [[tenant]]\nid = \"a\"\nuids = [1]\nroots = [\"/\"]\ntoken_hashes = [\"{}\"]\n\
             [[tenant]]\nid = \"b\"\nuids = [2]\nuid_range = {{ first = 2000, count = 10 }}\nroots = [\"/\"]\nmax = {{ memory = \"8GiB\" }}\n",
            blake3::hash(b"secret")
        );
        Tenants::from_config(&Config::parse(&text).unwrap(), true)
    }

    fn name(caller: Option<Caller>) -> Option<String> {
        caller?.tenant.map(|tenant| tenant.id.to_string())
    }

    /// Invariant 1: identity comes from the transport.
    #[test]
    fn a_caller_is_who_its_credential_says() {
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

    #[test]
    fn runs_are_the_first_of_their_tenants_own_users() {
        let policy = |uid| tenants().identify(Credential::Uid(uid)).unwrap().tenant.unwrap().policy.clone();
        assert_eq!(policy(2).run_as, RunAs::User { uid: 2_000, gid: 2_000 });
        assert_eq!(policy(2).owners, Some(2_000..=2_009));
        assert_eq!((policy(1).run_as, policy(1).owners.clone()), (RunAs::Supervisor, None));
    }

    #[test]
    fn a_tenant_gets_no_more_than_the_host() {
        let b = tenants().identify(Credential::Uid(2)).unwrap().tenant.unwrap();
        assert_eq!(b.policy.ceiling.memory_bytes_max, 1 << 30);
    }
}

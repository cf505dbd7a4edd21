//! Tenants: who a caller is, by what the transport says, and what it may have. Must not know any request.

pub mod access;
pub mod allowance;

use crate::caches;
use crate::config::{Config, QuotaTable, UidRange, canonical_name};
use crate::host::resolved_path::real;
use crate::ops::audit::AuthMethod;
use crate::runs::context::{Policy, ScanPermits};
use crate::tenants::allowance::Allowance;
use crate::workspace::Root;
use proctor_core::id::TenantId;
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use proctor_sandbox::RunAs;
use std::path::PathBuf;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

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
    /// The same, to its sessions, for as long as it is there. [`Tenants::take_over`] sends what is new.
    pub policies: Arc<watch::Sender<Arc<Policy>>>,
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
    pub auth: AuthMethod,
}

/// What a transport knows of a peer.
#[derive(Debug, Clone, Copy)]
pub enum Credential<'a> {
    /// The user id at the other end of a unix socket.
    Uid(u32),
    /// A bearer token.
    Token(&'a str),
    /// The subject of a JSON web token that counts.
    Subject(&'a str),
    /// The names in a client certificate that counts.
    Names(&'a [String]),
}

/// Everybody who may call.
#[derive(Debug, Default)]
pub struct Tenants {
    tenants: Vec<Arc<Tenant>>,
    uids: Vec<(u32, Who)>,
    tokens: Vec<(blake3::Hash, Who)>,
    subjects: Vec<(String, Who)>,
    names: Vec<(String, Who)>,
}

#[derive(Debug, Clone)]
enum Who {
    Operator,
    Tenant(Arc<Tenant>),
}

impl Tenants {
    /// The tenants of a host file that has no [`Config::problems`], for a supervisor that `may_switch` users or not. Those
    /// that were there `before` go on with the sessions that they have and with what they have used up.
    #[must_use]
    pub fn from_config(config: &Config, may_switch: bool, before: &Tenants) -> Tenants {
        let mut tenants = Tenants::default();
        let operators = &config.operators;
        tenants.admit(&operators.uids, &operators.token_hashes, &Who::Operator);
        tenants.admit_names(&operators.jwt_subjects, &operators.cert_names, &Who::Operator);
        let switches = may_switch && !config.sandbox.left_off.contains(&Layer::TenantUid);
        let own =
            [Some(&config.state_dir), config.listen.unix.as_ref(), config.audit.path.as_ref()].into_iter().flatten();
        let reserved: Vec<PathBuf> = own.map(|own| real(own)).collect();
        let roots = config.roots();
        for table in &config.tenant {
            let range = table.uid_range.filter(|_| switches);
            let id = TenantId::new(table.id.clone());
            let known = before.get(&id);
            let policy = Policy {
                owner: table.id.clone(),
                quota: table.quota.quota(),
                queued: known.map_or_else(Arc::default, |known| Arc::clone(&known.policy.queued)),
                retained: table.quota.retained(known.map(|known| &known.policy.retained)),
                scan_permits: known.map_or_else(ScanPermits::for_tenant, |known| known.policy.scan_permits.clone()),
                run_as: range.map_or(RunAs::Supervisor, |range| RunAs::User { uid: range.first, gid: range.first }),
                owner_uids: range.map(UidRange::uids),
                defaults: config.defaults.apply_to(Limits::DEFAULT),
                timeouts: config.timeouts.iter().map(|(name, timeout)| (name.clone(), timeout.ms)).collect(),
                ceiling: config.ceiling(table),
                required_layers: config.sandbox.required(),
                left_off: config.sandbox.left_off.clone(),
                require_limits: true,
                may_use_network: table.network == Network::Host,
                network: Network::None,
                cache: Some(config.state_dir.join("tenants").join(&table.id).join("cache")),
                cache_bytes_max: table.cache.map_or(caches::BYTES_MAX, |size| size.bytes),
            };
            let policy = Arc::new(policy);
            let policies = known
                .map_or_else(|| Arc::new(watch::Sender::new(Arc::clone(&policy))), |known| Arc::clone(&known.policies));
            let allowance = table.quota.allowance();
            let tenant = Tenant {
                id,
                roots: table.roots.iter().map(|root| Root::from_resolved(&roots.resolve(root))).collect(),
                reserved: reserved.clone(),
                policy,
                policies,
                sessions_max: table.sessions_max.map_or(SESSIONS_MAX, |max| usize::try_from(max).unwrap_or(usize::MAX)),
                allowance: match known {
                    Some(known) => allowance.in_place_of(&known.allowance),
                    None => allowance,
                },
            };
            let tenant = Arc::new(tenant);
            let who = Who::Tenant(Arc::clone(&tenant));
            tenants.tenants.push(tenant);
            tenants.admit(&table.uids, &table.token_hashes, &who);
            tenants.admit_names(&table.jwt_subjects, &table.cert_names, &who);
        }
        tenants
    }

    /// The one tenant of a private supervisor, who is its operator too.
    #[must_use]
    pub fn private(uid: u32, root: PathBuf, policy: Policy) -> Tenants {
        let policy = Arc::new(policy);
        let tenant = Tenant {
            id: TenantId::new("private"),
            roots: vec![Root::new(&root)],
            reserved: Vec::new(),
            policies: Arc::new(watch::Sender::new(Arc::clone(&policy))),
            policy,
            sessions_max: SESSIONS_MAX,
            allowance: QuotaTable::default().allowance(),
        };
        let tenant = Arc::new(tenant);
        let uids = vec![(uid, Who::Operator), (uid, Who::Tenant(Arc::clone(&tenant)))];
        Tenants { tenants: vec![tenant], uids, ..Tenants::default() }
    }

    fn admit(&mut self, uids: &[u32], hashes: &[String], who: &Who) {
        self.uids.extend(uids.iter().map(|uid| (*uid, who.clone())));
        let hashes = hashes.iter().filter_map(|hash| blake3::Hash::from_hex(hash).ok());
        self.tokens.extend(hashes.map(|hash| (hash, who.clone())));
    }

    fn admit_names(&mut self, subjects: &[String], names: &[String], who: &Who) {
        self.subjects.extend(subjects.iter().map(|subject| (subject.clone(), who.clone())));
        self.names.extend(names.iter().map(|name| (canonical_name(name), who.clone())));
    }

    /// Sends each tenant's policy to the sessions that it has: runs that begin from now on are under it.
    pub fn take_over(&self) {
        for tenant in &self.tenants {
            tenant.policies.send_replace(Arc::clone(&tenant.policy));
        }
    }

    /// Every tenant.
    #[must_use]
    pub fn all(&self) -> &[Arc<Tenant>] {
        &self.tenants
    }

    /// The tenant of this name.
    #[must_use]
    pub fn get(&self, id: &TenantId) -> Option<&Arc<Tenant>> {
        self.tenants.iter().find(|tenant| tenant.id == *id)
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
            // Neither is a secret: whoever shows one has proved that it is theirs.
            Credential::Subject(subject) => {
                self.subjects.iter().filter(|(known, _)| known == subject).map(|(_, who)| who).collect()
            }
            Credential::Names(names) => {
                self.names.iter().filter(|(known, _)| names.contains(known)).map(|(_, who)| who).collect()
            }
        };
        let mut tenants = known.iter().filter_map(|who| match who {
            Who::Tenant(tenant) => Some(tenant),
            Who::Operator => None,
        });
        let tenant = tenants.next();
        // A certificate with the names of two tenants is neither's.
        if known.is_empty() || tenants.any(|other| tenant.is_some_and(|tenant| tenant.id != other.id)) {
            return None;
        }
        Some(Caller {
            auth: auth_of(credential),
            operator: known.iter().any(|who| matches!(who, Who::Operator)),
            tenant: tenant.map(Arc::clone),
        })
    }
}

// What tells callers apart in the audit log, without what makes them who they are.
fn auth_of(credential: Credential<'_>) -> AuthMethod {
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
    use proctor_core::limits::LimitRequest;
    use proctor_core::quota::Amount;

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

    /// As the example of a host file says.
    #[test]
    fn whoever_is_listed_as_both_is_operator_and_tenant() {
        let text =
            "state_dir = \"/x\"\n[operators]\nuids = [1]\n[[tenant]]\nid = \"a\"\nuids = [1]\nroots = [\"/srv\"]\n";
        let tenants = Tenants::from_config(ConfigReader::new(text).config(), true, &Tenants::default());
        let both = tenants.identify(Credential::Uid(1)).unwrap();
        assert!(both.operator && name(Some(both)).as_deref() == Some("a"));
    }

    #[test]
    fn runs_are_the_first_of_their_tenants_own_users() {
        let policy = |uid| tenants().identify(Credential::Uid(uid)).unwrap().tenant.unwrap().policy.clone();
        assert_eq!(policy(2).run_as, RunAs::User { uid: 2_000, gid: 2_000 });
        assert_eq!(policy(2).owner_uids, Some(2_000..=2_009));
        assert_eq!((policy(1).run_as, policy(1).owner_uids.clone()), (RunAs::Supervisor, None));
    }

    #[test]
    fn a_tenant_that_stays_goes_on_with_its_sessions_and_with_what_it_has_used_up() {
        let text = |more: &str| {
            let tenant = "[[tenant]]\nid = \"a\"\nuids = [1]\nroots = [\"/\"]\n";
            format!("state_dir = \"/x\"\n{tenant}{more}\n")
        };
        let read =
            |more: &str, before: &Tenants| Tenants::from_config(ConfigReader::new(&text(more)).config(), true, before);
        let first =
            read("max = { memory = \"2GiB\" }\nquota = { subscribers = 1, kept = \"1GiB\" }", &Tenants::default());
        let stream = first.all()[0].allowance.subscribe().unwrap();
        let waits = first.all()[0].policy.queued.one_more_run(1).unwrap();
        let kept = first.all()[0].policy.retained.bytes.add(7);
        let sessions = first.all()[0].policies.subscribe();
        let second = read("max = { memory = \"1GiB\" }", &first);
        assert_eq!(sessions.borrow().ceiling.memory_bytes_max, 2 << 30, "nothing changes before it takes over");
        second.take_over();
        assert_eq!(sessions.borrow().ceiling.memory_bytes_max, 1 << 30);
        let third = read("max = { memory = \"3GiB\" }\nquota = { subscribers = 2 }", &second);
        third.take_over();
        assert_eq!(sessions.borrow().ceiling.memory_bytes_max, 3 << 30, "of a session from before the second too");
        let Tenant { allowance, policy, .. } = &*third.all()[0];
        assert_eq!((policy.queued.now(), policy.retained.bytes.now()), (1, 7));
        let second_stream = allowance.subscribe().unwrap();
        assert!(allowance.subscribe().is_none(), "one of two was open before");
        drop((stream, second_stream, waits, kept));
        assert_eq!((policy.queued.now(), policy.retained.bytes.now()), (0, 0));
        assert!(allowance.subscribe().is_some());
    }

    /// Else it would be refused for ever, and the file would be called good.
    #[test]
    fn a_run_that_asks_for_nothing_fits_into_its_tenants_quota() {
        let text = "state_dir = \"/x\"\n[max]\nmemory = \"1GiB\"\n[[tenant]]\nid = \"a\"\nuids = [1]\nroots = [\"/\"]\n\
                    max = { cpus = 1 }\nquota = { memory = \"512MiB\", cpus = 1.5 }\n";
        let tenants = Tenants::from_config(ConfigReader::new(text).config(), true, &Tenants::default());
        let policy = &tenants.all()[0].policy;
        assert_eq!((policy.ceiling.memory_bytes_max, policy.ceiling.cpu_millis_max), (512 << 20, 1_000));
        let (limits, _) = Limits::resolve(&LimitRequest::default(), policy.defaults, policy.ceiling);
        assert_eq!(policy.quota.check(Amount::of(&limits)), Ok(()));
    }

    #[test]
    fn a_tenant_gets_no_more_than_the_host() {
        let b = tenants().identify(Credential::Uid(2)).unwrap().tenant.unwrap();
        assert_eq!(b.policy.ceiling.memory_bytes_max, 1 << 30);
    }
}

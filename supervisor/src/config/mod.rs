//! The host file `proctor.toml`: its tables and the checks of their values.
//!
//! Each table has a file of its own with its checks; [`diagnostics`] maps problems to lines.

mod audit;
mod diagnostics;
mod host;
mod identities;
mod jwt;
mod limits;
mod listen;
mod metrics;
mod otlp;
mod path_ownership;
mod quota;
mod sandbox;
mod telemetry;
mod tenants;
#[cfg(test)]
mod tests;
mod traces;
pub mod units;

use crate::config::units::Duration;
use crate::host::resolved_path::ResolvedPath;
use proctor_core::limits::Limits;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use audit::AuditTable;
pub use diagnostics::{ConfigReader, Diagnostic, Problem};
pub use host::{HostTable, Machine, PoolTable};
pub use identities::{Identities, TOKEN_PREFIX, canonical_name};
pub use jwt::JwtTable;
pub use limits::LimitsTable;
pub use listen::{Listen, TlsTable};
pub use metrics::MetricsTable;
pub use otlp::{OtlpProtocol, check_endpoint};
pub use quota::QuotaTable;
pub use sandbox::SandboxTable;
pub use telemetry::TelemetryTable;
pub use tenants::{TenantRoots, TenantTable, UidRange};
pub use traces::TracesTable;

/// The whole file. `deploy/proctor.toml` documents every key.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses to listen on.
    #[serde(default)]
    pub listen: Listen,
    /// Directory of build caches, by tenant. Required.
    #[serde(default)]
    pub state_dir: PathBuf,
    /// Resources for runs.
    #[serde(default)]
    pub host: HostTable,
    /// Limits of runs that ask for none.
    #[serde(default)]
    pub defaults: LimitsTable,
    /// Default wall time by framework; other frameworks use [`Config::defaults`].
    #[serde(default)]
    pub timeouts: BTreeMap<String, Duration>,
    /// The most that any run gets.
    #[serde(default)]
    pub max: LimitsTable,
    /// Isolation layers that a run must have.
    #[serde(default)]
    pub sandbox: SandboxTable,
    /// Accepted JSON web tokens.
    pub jwt: Option<JwtTable>,
    /// The audit log.
    #[serde(default)]
    pub audit: AuditTable,
    /// What the supervisor reports about itself.
    #[serde(default)]
    pub telemetry: TelemetryTable,
    /// Identities of operators, which may query and drain the host.
    #[serde(default)]
    pub operators: Identities,
    /// Tenants, which may run tests.
    #[serde(default)]
    pub tenant: Vec<TenantTable>,
}

impl Config {
    /// All problems beyond syntax and types.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.state_dir_problems();
        problems.extend(path_ownership::problems(self));
        problems.extend(self.host.problems(&self.private_paths()));
        problems.extend(self.sandbox.problems());
        for (at, name, table) in self.tables() {
            let errors = table.problems();
            let is_wrong = |key: &str| errors.iter().any(|(other, _)| *other == key);
            let excess = table.excess_over(self.host_ceiling()).filter(|(key, _)| !is_wrong(key));
            let note = |(key, text)| Problem::note(format!("{at}.{key}"), format!("{name}: {text}"));
            problems.extend(excess.map(note));
            let to_problem = |(key, problem)| Problem::new(format!("{at}.{key}"), format!("{name}: {problem}"));
            problems.extend(errors.into_iter().map(to_problem));
        }
        problems.extend(limits::timeout_problems(&self.timeouts, self.host_ceiling()));
        if self.tenant.is_empty() {
            problems.push(Problem::new("tenant", "tenant: at least one [[tenant]] is needed"));
        }
        problems.extend(self.listen.problems());
        problems.extend(self.audit.problems());
        let operators = &self.operators;
        let has_token = !operators.token_hashes.is_empty() || !operators.jwt_subjects.is_empty();
        let has_tenant_token =
            self.tenant.iter().any(|tenant| !tenant.token_hashes.is_empty() || !tenant.jwt_subjects.is_empty());
        problems.extend(self.telemetry.problems(has_token || has_tenant_token, has_token));
        problems.extend(self.jwt.iter().flat_map(JwtTable::problems));
        let roots = self.roots();
        for index in 0..self.tenant.len() {
            problems.extend(self.tenant_problems(index, &roots));
        }
        problems.extend(identities::problems(self));
        problems
    }

    fn state_dir_problems(&self) -> Vec<Problem> {
        let text = match &self.state_dir {
            nowhere if nowhere.as_os_str().is_empty() => "is missing; name a directory of the supervisor's own",
            relative if !relative.is_absolute() => "must be an absolute path",
            file if file.exists() && !file.is_dir() => "is not a directory",
            _ => return Vec::new(),
        };
        vec![Problem::new("state_dir", format!("state_dir: {text}"))]
    }

    /// The most that any run of any tenant gets: `[max]`, or else the host's budget.
    #[must_use]
    pub fn host_ceiling(&self) -> Limits {
        self.max.apply_to(limits::built_in_max(self.host.budget(Machine::current())))
    }

    /// The most that a run of this tenant gets.
    #[must_use]
    pub fn ceiling(&self, tenant: &TenantTable) -> Limits {
        let host = self.host_ceiling();
        tenant.quota.clamp(tenant.max.apply_to(host).min(host))
    }

    /// Paths of the supervisor or of one tenant. No path that all runs see may contain one or be in one.
    #[must_use]
    pub fn private_paths(&self) -> Vec<ResolvedPath> {
        let own = [Some(&self.state_dir), self.listen.unix.as_ref(), self.audit.path.as_ref()].into_iter().flatten();
        let own = own.filter(|path| path.is_absolute()).map(|path| ResolvedPath::new(path));
        own.chain(self.roots().resolved()).collect()
    }

    // Every table of limits with its key path and its label.
    fn tables(&self) -> impl Iterator<Item = (String, String, &LimitsTable)> {
        let host = [("defaults", &self.defaults), ("max", &self.max)];
        let host = host.map(|(name, table)| (name.to_owned(), name.to_owned(), table));
        let tenants = self.tenant.iter().enumerate();
        let tenants = tenants
            .map(|(index, tenant)| (format!("tenant.{index}.max"), format!("{}: max", tenant.label()), &tenant.max));
        host.into_iter().chain(tenants)
    }
}

// The keys whose flag is set.
fn changed_keys<const N: usize>(keys: [(&'static str, bool); N]) -> Vec<&'static str> {
    keys.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
}

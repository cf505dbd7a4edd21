//! The host file, `proctor.toml`: what it says, and everything that is wrong with it. Must not know how any of it is
//! carried out.
//!
//! Each table has a file of its own, with what is wrong with it; `lines` finds the lines that problems are told on.

mod audit;
mod diagnostics;
mod host;
mod identities;
mod jwt;
mod limits;
mod listen;
mod path_ownership;
mod quota;
mod sandbox;
mod tenants;
#[cfg(test)]
mod tests;
pub mod units;

use crate::config::units::Duration;
use crate::host::resolved_path::ResolvedPath;
use proctor_core::limits::Limits;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use audit::AuditTable;
pub use diagnostics::{ConfigReader, Diagnostic, Problem};
pub use host::{Host, Machine, PoolTable};
pub use identities::{Identities, TOKEN_PREFIX, canonical_name};
pub use jwt::JwtTable;
pub use limits::LimitsTable;
pub use listen::{Listen, TlsTable};
pub use quota::QuotaTable;
pub use sandbox::SandboxTable;
pub use tenants::{Roots, TenantTable, UidRange};

/// The whole file. `deploy/proctor.toml` documents every key.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    #[serde(default)]
    pub listen: Listen,
    /// Build caches live here, by tenant. It has to be there.
    #[serde(default)]
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
    /// Whose JSON web tokens count.
    pub jwt: Option<JwtTable>,
    /// Where it is written who did what.
    #[serde(default)]
    pub audit: AuditTable,
    /// Who may ask about the host.
    #[serde(default)]
    pub operators: Identities,
    /// Who may run tests.
    #[serde(default)]
    pub tenant: Vec<TenantTable>,
}

impl Config {
    /// Everything that is wrong and that neither syntax nor kinds of values show.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.state_dir_problems();
        problems.extend(path_ownership::problems(self));
        problems.extend(self.host.problems(&self.private_places()));
        problems.extend(self.sandbox.problems());
        for (at, name, table) in self.tables() {
            let wrong = table.problems();
            let is_wrong = |key: &str| wrong.iter().any(|(other, _)| *other == key);
            let beyond = table.beyond(self.host_ceiling()).filter(|(key, _)| !is_wrong(key));
            let note = |(key, text)| Problem::note(format!("{at}.{key}"), format!("{name}: {text}"));
            problems.extend(beyond.map(note));
            let told = |(key, problem)| Problem::new(format!("{at}.{key}"), format!("{name}: {problem}"));
            problems.extend(wrong.into_iter().map(told));
        }
        problems.extend(limits::timeout_problems(&self.timeouts, self.host_ceiling()));
        if self.tenant.is_empty() {
            problems.push(Problem::new("tenant", "tenant: at least one [[tenant]] is needed"));
        }
        problems.extend(self.listen.problems());
        problems.extend(self.audit.problems());
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

    /// The most that any run gets, whoever's it is: what `[max]` says, and where it says nothing what the host has.
    #[must_use]
    pub fn host_ceiling(&self) -> Limits {
        self.max.over(limits::built_in_max(self.host.budget(Machine::here())))
    }

    /// The most that a run of this tenant gets.
    #[must_use]
    pub fn ceiling(&self, tenant: &TenantTable) -> Limits {
        let host = self.host_ceiling();
        tenant.quota.within(tenant.max.over(host).min(host))
    }

    /// Places that are the supervisor's or one tenant's: nothing that all runs see may hold one or be in one.
    #[must_use]
    pub fn private_places(&self) -> Vec<ResolvedPath> {
        let own = [Some(&self.state_dir), self.listen.unix.as_ref(), self.audit.path.as_ref()].into_iter().flatten();
        let own = own.filter(|place| place.is_absolute()).map(|place| ResolvedPath::new(place));
        own.chain(self.roots().places()).collect()
    }

    // Every table of limits: where it is, and what its keys are called.
    fn tables(&self) -> impl Iterator<Item = (String, String, &LimitsTable)> {
        let host = [("defaults", &self.defaults), ("max", &self.max)];
        let host = host.map(|(name, table)| (name.to_owned(), name.to_owned(), table));
        let tenants = self.tenant.iter().enumerate();
        let tenants = tenants
            .map(|(index, tenant)| (format!("tenant.{index}.max"), format!("{}: max", tenant.called()), &tenant.max));
        host.into_iter().chain(tenants)
    }
}

// The keys that have changed.
fn changed<const N: usize>(keys: [(&'static str, bool); N]) -> Vec<&'static str> {
    keys.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
}

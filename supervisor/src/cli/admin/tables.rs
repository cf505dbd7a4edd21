//! The lists of `proctor admin`, as a table for a person or as one JSON document.

use proctor_core::human_units::format_bytes;
use proctor_proto::printable::line;
use proctor_proto::text::{full_name, outcome_name};
use proctor_proto::v1::{HostRun, HostSession, Outcome, RunState, TenantStatus, TenantUsage};
use serde_json::{Value, json};

/// A list of things that a supervisor has.
pub(super) trait Table {
    /// The header of the table.
    fn header() -> String;
    /// One line of the table.
    fn row(&self) -> String;
    /// One object of the document.
    fn json(&self) -> Value;
}

impl Table for TenantStatus {
    fn header() -> String {
        format!("{:>9}{:>9}{:>9}  tenant", "sessions", "running", "queued")
    }

    fn row(&self) -> String {
        let TenantStatus { sessions, runs_running, runs_queued, .. } = self;
        format!("{sessions:>9}{runs_running:>9}{runs_queued:>9}  {}", line(&self.tenant_id))
    }

    fn json(&self) -> Value {
        json!({
            "tenant": self.tenant_id,
            "sessions": self.sessions,
            "running": self.runs_running,
            "queued": self.runs_queued,
        })
    }
}

/// A tenant's use of its quota.
pub(super) struct UsageRow(pub(super) TenantStatus);

impl UsageRow {
    fn usage(&self) -> TenantUsage {
        self.0.usage.unwrap_or_default()
    }
}

impl Table for UsageRow {
    fn header() -> String {
        let [sessions, running, queued] = ["sessions", "running", "queued"];
        format!("{sessions:>14}{running:>12}{queued:>12}{:>22}{:>22}{:>12}  tenant", "memory", "retained", "streams")
    }

    fn row(&self) -> String {
        let (tenant, usage) = (&self.0, self.usage());
        let count = |used: u64, max: Option<u64>| used_of(used, max, |count| count.to_string());
        let bytes = |used: u64, max: Option<u64>| used_of(used, max, format_bytes);
        format!(
            "{:>14}{:>12}{:>12}{:>22}{:>22}{:>12}  {}",
            count(tenant.sessions, Some(usage.sessions_max)),
            count(tenant.runs_running, usage.runs_running_max),
            count(tenant.runs_queued, usage.runs_queued_max),
            bytes(usage.memory_bytes, usage.memory_bytes_max),
            bytes(usage.retained_bytes, usage.retained_bytes_max),
            count(usage.streams, Some(usage.streams_max)),
            line(&tenant.tenant_id)
        )
    }

    fn json(&self) -> Value {
        let (tenant, usage) = (&self.0, self.usage());
        json!({
            "tenant": tenant.tenant_id,
            "sessions": {"used": tenant.sessions, "max": usage.sessions_max},
            "running": {"used": tenant.runs_running, "max": usage.runs_running_max},
            "queued": {"used": tenant.runs_queued, "max": usage.runs_queued_max},
            "memory_bytes": {"used": usage.memory_bytes, "max": usage.memory_bytes_max},
            "cpu_millis": {"max": usage.cpu_millis_max},
            "retained_bytes": {"used": usage.retained_bytes, "max": usage.retained_bytes_max},
            "streams": {"used": usage.streams, "max": usage.streams_max},
        })
    }
}

impl Table for HostSession {
    fn header() -> String {
        format!("{:>9}{:>9}{:>9}{:>9}  {:<34}tenant", "age", "idle", "running", "queued", "session")
    }

    fn row(&self) -> String {
        let session = self.session.clone().unwrap_or_default();
        let [age, idle] = [session.age_ms, session.idle_ms].map(|ms| format!("{}s", ms / 1_000));
        let (running, queued) = (u32::from(!session.running_run_id.is_empty()), session.queued_runs);
        let (id, tenant) = (line(&session.session_id), line(&self.tenant_id));
        format!("{age:>9}{idle:>9}{running:>9}{queued:>9}  {id:<34}{tenant}")
    }

    fn json(&self) -> Value {
        let session = self.session.clone().unwrap_or_default();
        let name = |id: String| Some(id).filter(|id| !id.is_empty());
        let outcome = Some(session.last_outcome()).filter(|outcome| *outcome != Outcome::Unspecified);
        json!({
            "session": session.session_id,
            "tenant": self.tenant_id,
            "age_ms": session.age_ms,
            "idle_ms": session.idle_ms,
            "idle_ms_max": session.idle_ms_max,
            "running_run": name(session.running_run_id),
            "queued": session.queued_runs,
            "last_run": name(session.last_run_id),
            "last_outcome": outcome.map(outcome_name),
        })
    }
}

/// An amount in use, with its bound if it has one: `3/64`.
pub(in crate::cli) fn used_of(used: u64, max: Option<u64>, text: impl Fn(u64) -> String) -> String {
    max.map_or_else(|| text(used), |max| format!("{}/{}", text(used), text(max)))
}

/// `running` or `queued`.
pub(in crate::cli) fn state(run: &HostRun) -> &'static str {
    if run.state() == RunState::Running { "running" } else { "queued" }
}

impl Table for HostRun {
    fn header() -> String {
        format!("{:>9}  {:<8}{:<36}tenant", "age", "state", "run")
    }

    fn row(&self) -> String {
        let age = format!("{}s", self.age_ms / 1_000);
        format!("{age:>9}  {:<8}{:<36}{}", state(self), line(&self.run_id), line(&self.tenant_id))
    }

    fn json(&self) -> Value {
        let progress = self.progress.clone().unwrap_or_default();
        json!({
            "run": self.run_id,
            "tenant": self.tenant_id,
            "session": self.session_id,
            "state": state(self),
            "age_ms": self.age_ms,
            "tests_finished": progress.tests_finished,
            "tests_failed": progress.tests_failed,
            "tests_total": progress.tests_total,
            "memory_bytes": progress.memory_bytes,
            "test": progress.running.as_ref().map(full_name),
        })
    }
}

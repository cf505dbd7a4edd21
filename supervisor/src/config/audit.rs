//! Where the audit log is, and how much of it is kept. Must not know what is written there.

use super::{Problem, changed};
use crate::config::units::Bytes;
use crate::ops::audit;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditTable {
    /// Its file; default: `audit.jsonl` in the state directory.
    pub path: Option<PathBuf>,
    max_bytes: Option<Bytes>,
    keep: Option<u32>,
}

impl AuditTable {
    /// The smallest file that is worth its name: some hundred lines.
    const BYTES_MIN: u64 = 64 * 1024;

    /// Most earlier files: each is renamed when another one is begun.
    const KEEP_MAX: u32 = 1_000;

    /// Where it is and how much of it is kept.
    #[must_use]
    pub fn place(&self, state_dir: &Path) -> audit::AuditLogConfig {
        audit::AuditLogConfig {
            path: self.path.clone().unwrap_or_else(|| state_dir.join("audit.jsonl")),
            bytes_max: self.max_bytes.map_or(audit::AuditLogConfig::BYTES_MAX, |size| size.bytes),
            keep: self.keep.unwrap_or(audit::AuditLogConfig::KEEP),
        }
    }

    /// The keys of which `now` says something else.
    #[must_use]
    pub fn changed(&self, now: &AuditTable) -> Vec<&'static str> {
        // All of them: one that is added has to be here too.
        let AuditTable { path, max_bytes, keep } = self;
        changed([
            ("audit.path", *path != now.path),
            ("audit.max_bytes", *max_bytes != now.max_bytes),
            ("audit.keep", *keep != now.keep),
        ])
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let relative = self.path.as_ref().is_some_and(|path| !path.is_absolute());
        let small = self.max_bytes.is_some_and(|size| size.bytes < AuditTable::BYTES_MIN);
        let many = self.keep.is_some_and(|keep| keep > AuditTable::KEEP_MAX);
        [
            relative.then(|| Problem::new("audit.path", "audit.path: must be an absolute path")),
            small.then(|| Problem::new("audit.max_bytes", "audit.max_bytes: must be at least 64KiB")),
            many.then(|| Problem::new("audit.keep", format!("audit.keep: must be at most {}", AuditTable::KEEP_MAX))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_log_has_a_place_and_bounds() {
        let of = |text: &str| toml::from_str::<AuditTable>(text).unwrap();
        let state = Path::new("/state");
        let unsaid = audit::AuditLogConfig { path: "/state/audit.jsonl".into(), bytes_max: 64 * 1024 * 1024, keep: 8 };
        assert_eq!(of("").place(state), unsaid);
        let said = of("path = \"/log/a\"\nmax_bytes = \"64KiB\"\nkeep = 0");
        assert_eq!(said.place(state), audit::AuditLogConfig { path: "/log/a".into(), bytes_max: 64 * 1024, keep: 0 });
        assert_eq!(said.problems(), []);
        let wrong = of("path = \"log\"\nmax_bytes = \"63KiB\"\nkeep = 1001").problems();
        let expected = [
            "audit.path: must be an absolute path",
            "audit.max_bytes: must be at least 64KiB",
            "audit.keep: must be at most 1000",
        ];
        assert_eq!(wrong.iter().map(|problem| problem.text.as_str()).collect::<Vec<_>>(), expected);
    }
}

//! The `[audit]` table: path of the audit log and how much of it is kept.

use super::{Problem, changed_keys};
use crate::config::units::Bytes;
use crate::ops::audit;
use proctor_core::bounds::{AUDIT_FILE_BYTES, AUDIT_FILE_BYTES_MIN, AUDIT_FILES_KEPT, AUDIT_FILES_KEPT_MAX};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditTable {
    /// Path of the log file; default: `audit.jsonl` in the state directory.
    pub path: Option<PathBuf>,
    max_bytes: Option<Bytes>,
    keep: Option<u32>,
}

impl AuditTable {
    /// The settings of the log, with defaults filled in.
    #[must_use]
    pub fn log_config(&self, state_dir: &Path) -> audit::AuditLogConfig {
        audit::AuditLogConfig {
            path: self.path.clone().unwrap_or_else(|| state_dir.join("audit.jsonl")),
            bytes_max: self.max_bytes.map_or(AUDIT_FILE_BYTES, |size| size.bytes),
            keep: self.keep.unwrap_or(AUDIT_FILES_KEPT),
        }
    }

    /// The keys that differ in `new`.
    #[must_use]
    pub fn changed_keys(&self, new: &AuditTable) -> Vec<&'static str> {
        // The pattern lists every field, so that a new one cannot be forgotten here.
        let AuditTable { path, max_bytes, keep } = self;
        changed_keys([
            ("audit.path", *path != new.path),
            ("audit.max_bytes", *max_bytes != new.max_bytes),
            ("audit.keep", *keep != new.keep),
        ])
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let relative = self.path.as_ref().is_some_and(|path| !path.is_absolute());
        let small = self.max_bytes.is_some_and(|size| size.bytes < AUDIT_FILE_BYTES_MIN);
        let many = self.keep.is_some_and(|keep| keep > AUDIT_FILES_KEPT_MAX);
        [
            relative.then(|| Problem::new("audit.path", "audit.path: must be an absolute path")),
            small.then(|| Problem::new("audit.max_bytes", "audit.max_bytes: must be at least 64KiB")),
            many.then(|| Problem::new("audit.keep", format!("audit.keep: must be at most {}", AUDIT_FILES_KEPT_MAX))),
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
    fn audit_settings_have_defaults_and_bounds() {
        let parse = |text: &str| toml::from_str::<AuditTable>(text).unwrap();
        let state = Path::new("/state");
        let defaults =
            audit::AuditLogConfig { path: "/state/audit.jsonl".into(), bytes_max: 64 * 1024 * 1024, keep: 8 };
        assert_eq!(parse("").log_config(state), defaults);
        let explicit = parse("path = \"/log/a\"\nmax_bytes = \"64KiB\"\nkeep = 0");
        assert_eq!(
            explicit.log_config(state),
            audit::AuditLogConfig { path: "/log/a".into(), bytes_max: 64 * 1024, keep: 0 }
        );
        assert_eq!(explicit.problems(), []);
        let wrong = parse("path = \"log\"\nmax_bytes = \"63KiB\"\nkeep = 1001").problems();
        let expected = [
            "audit.path: must be an absolute path",
            "audit.max_bytes: must be at least 64KiB",
            "audit.keep: must be at most 1000",
        ];
        assert_eq!(wrong.iter().map(|problem| problem.text.as_str()).collect::<Vec<_>>(), expected);
    }
}

//! What a host can enforce, row by row: the result of a probe, for `proctor doctor` and `GetHost`.

use serde::Serialize;

/// Group of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowGroup {
    /// A controller, or a feature of the cgroup core.
    Cgroup,
    /// A kind of namespace.
    Namespace,
    /// A filter on what processes may do.
    Filter,
}

/// Whether runs on this host can use a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Tried, and it works for this user.
    Usable,
    /// The kernel has the feature, but runs cannot use it as this host is set up, as this user, or with this version of
    /// proctor; see [`HostRow::detail`].
    Present,
    /// The kernel does not have the feature.
    Missing,
}

/// One feature that a host can or cannot enforce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostRow {
    /// Name of the feature, as in reports and the host file.
    pub name: String,
    /// Group of the row.
    pub group: RowGroup,
    /// Whether runs can use the feature.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// Whether this version needs the feature on this host to enforce all of its layers and limits. A row that is not
    /// needed is information only.
    pub needed: bool,
    /// What a person can do about it; empty if the feature is usable or not needed.
    pub remedy: String,
}

/// Result of probing a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HostReport {
    /// Release of the kernel: `6.1.0-18-amd64`.
    pub kernel: String,
    /// `v2`, `hybrid`, `v1` or `none`.
    pub cgroup_mode: String,
    /// Whether this process can make namespaces without a user namespace.
    pub privileged: bool,
    /// Processors that this process may use.
    pub cpus: u32,
    /// Memory of the host, bytes; 0 if unknown.
    pub memory_bytes: u64,
    /// One row for each feature.
    pub rows: Vec<HostRow>,
}

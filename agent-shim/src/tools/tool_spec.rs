//! What the tools have in common: the form of their descriptions, bounds and units. Must not import a tool.

use rmcp::model::JsonObject;
use std::sync::Arc;

/// Longest run that may be asked for, in seconds.
pub(super) const TIMEOUT_S_MAX: u32 = 1_800;

/// What an agent reads about a tool.
pub(super) struct ToolSpec {
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) input: Arc<JsonObject>,
    pub(super) output: Arc<JsonObject>,
    pub(super) reads_only: bool,
}

/// Milliseconds as seconds; no run is long enough for the conversion to lose one.
pub(super) fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

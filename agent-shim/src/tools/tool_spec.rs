//! Shared by all tools: the type of their descriptions, bounds and units.

use rmcp::model::JsonObject;
use std::sync::Arc;

/// Longest timeout that may be requested, in seconds.
pub(super) const TIMEOUT_S_MAX: u32 = 1_800;

/// The description of a tool for the agent.
pub(super) struct ToolSpec {
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) input: Arc<JsonObject>,
    pub(super) output: Arc<JsonObject>,
    pub(super) read_only: bool,
}

/// Milliseconds as seconds; exact for the duration of any run.
pub(super) fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

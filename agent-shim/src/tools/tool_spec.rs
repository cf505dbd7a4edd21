//! How a tool describes itself to an agent.

use serde_json::Value;

/// Largest timeout, in seconds.
pub(crate) const TIMEOUT_S_MAX: u32 = 1_800;

/// Properties of a JSON Schema, in the order in which a reader meets them.
pub(super) type Properties = Vec<(&'static str, Value)>;

/// The description of a tool for the agent.
pub(super) struct ToolSpec {
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// The arguments, without `max_tokens`, which every tool takes.
    pub(super) input: Properties,
    pub(super) required: &'static [&'static str],
    /// Members of the structured content beside `headline`, `next` and `notes`, which every answer may have. `None` for a
    /// tool that may answer without structured content.
    pub(super) output: Option<Properties>,
    pub(super) read_only: bool,
}

/// Milliseconds as seconds; exact for the duration of any run.
pub(super) fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

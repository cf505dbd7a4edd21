//! Which layers of isolation a run must have, and which it shall not. Must not know how one is put on.

use super::{Problem, changed};
use proctor_core::isolation::Layer;
use proctor_sandbox::LAYERS;
use serde::Deserialize;

/// What a run must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxTable {
    /// Layers without which no run starts; absent means all that this version puts on, [`LAYERS`], but those left off.
    pub required_layers: Option<Vec<Layer>>,
    /// Layers that no run shall have.
    #[serde(default)]
    pub left_off: Vec<Layer>,
}

impl SandboxTable {
    /// Layers without which no run starts.
    #[must_use]
    pub fn required(&self) -> Vec<Layer> {
        let all = || LAYERS.into_iter().filter(|layer| !self.left_off.contains(layer)).collect();
        self.required_layers.clone().unwrap_or_else(all)
    }

    /// The keys of which `now` says something else.
    #[must_use]
    pub fn changed(&self, now: &SandboxTable) -> Vec<&'static str> {
        // All of them: one that is added has to be here too.
        let SandboxTable { required_layers, left_off } = self;
        changed([
            ("sandbox.required_layers", *required_layers != now.required_layers),
            ("sandbox.left_off", *left_off != now.left_off),
        ])
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let required = self.required();
        let both = self.left_off.iter().enumerate().filter(|(_, layer)| required.contains(layer));
        let text = |layer: &Layer| format!("sandbox: layer {} is required and left off at once", layer.name());
        both.map(|(place, layer)| Problem::new(format!("sandbox.left_off.{place}"), text(layer))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::problems_of;

    #[test]
    fn a_layer_is_required_or_left_off() {
        let ranges = ["uid_range = { first = 2000, count = 1 }", "uid_range = { first = 3000, count = 1 }"];
        let both = "[sandbox]\nrequired_layers = [\"rlimits\"]\nleft_off = [\"rlimits\"]";
        assert_eq!(problems_of(ranges, both), "sandbox: layer rlimits is required and left off at once");
        let table = SandboxTable { left_off: vec![Layer::Rlimits], required_layers: None };
        assert_eq!(table.required().len(), LAYERS.len() - 1);
    }
}

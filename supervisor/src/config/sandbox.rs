//! The `[sandbox]` table: isolation layers that runs must have or must not have.

use super::{Problem, changed_keys};
use proctor_core::isolation::Layer;
use proctor_sandbox::LAYERS;
use serde::Deserialize;

/// Isolation layers of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxTable {
    /// Layers without which no run starts; absent means all of [`LAYERS`] except those left off.
    pub required_layers: Option<Vec<Layer>>,
    /// Layers that are switched off.
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

    /// The keys that differ in `new`.
    #[must_use]
    pub fn changed_keys(&self, new: &SandboxTable) -> Vec<&'static str> {
        // The pattern lists every field, so that a new one cannot be forgotten here.
        let SandboxTable { required_layers, left_off } = self;
        changed_keys([
            ("sandbox.required_layers", *required_layers != new.required_layers),
            ("sandbox.left_off", *left_off != new.left_off),
        ])
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let required = self.required();
        let both = self.left_off.iter().enumerate().filter(|(_, layer)| required.contains(layer));
        let text = |layer: &Layer| format!("sandbox: layer {} is both required and left off", layer.name());
        both.map(|(index, layer)| Problem::new(format!("sandbox.left_off.{index}"), text(layer))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::problems_of;

    #[test]
    fn rejects_a_layer_that_is_required_and_left_off() {
        let ranges = ["uid_range = { first = 2000, count = 1 }", "uid_range = { first = 3000, count = 1 }"];
        let both = "[sandbox]\nrequired_layers = [\"rlimits\"]\nleft_off = [\"rlimits\"]";
        assert_eq!(problems_of(ranges, both), "sandbox: layer rlimits is both required and left off");
        let table = SandboxTable { left_off: vec![Layer::Rlimits], required_layers: None };
        assert_eq!(table.required().len(), LAYERS.len() - 1);
    }
}

//! The order in which a run executes its tests: the project's own, or one that shows whether the order matters.

use serde::{Deserialize, Serialize};

/// The order in which a run executes its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOrder {
    /// That of the project's own settings.
    #[default]
    Project,
    /// The reverse of the order in which the runner finds the tests.
    Reversed,
    /// A random order, from this seed, or from one that the runner picks.
    Shuffled {
        /// The seed. Every runner takes 31 bits.
        seed: Option<u32>,
    },
    /// The order in which an exact selection names the tests.
    Selected,
}

impl TestOrder {
    /// Whether it is the project's own order.
    #[must_use]
    pub fn is_own(&self) -> bool {
        *self == TestOrder::Project
    }
}

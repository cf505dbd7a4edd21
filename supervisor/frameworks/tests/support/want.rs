//! What the adapters are asked for, where a test does not say otherwise. Must not know any framework.

use proctor_core::isolation::Network;
use proctor_core::request::{CoverageMode, Selection};
use proctor_frameworks::PlanRequest;

/// A run of `selection`, as plain as can be.
pub(crate) fn want(selection: &Selection) -> PlanRequest<'_> {
    PlanRequest {
        selection,
        coverage: CoverageMode::Off,
        parallel: None,
        network: Network::None,
        workspace: "/workspace",
        scratch: "/scratch",
        cache: "/cache",
        nonce: "n",
    }
}

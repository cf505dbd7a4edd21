//! A default request for the adapters.

use proctor_core::isolation::Network;
use proctor_core::request::Selection;
use proctor_frameworks::PlanRequest;

/// The plainest run of `selection`.
pub(crate) fn want(selection: &Selection) -> PlanRequest<'_> {
    PlanRequest {
        selection,
        scope: &proctor_frameworks::EVERYTHING,
        is_measured: false,
        may_trace: false,
        parallel: None,
        order: proctor_core::test_order::TestOrder::Project,
        stop_at_first_failure: false,
        network: Network::None,
        workspace: "/workspace",
        scratch: "/scratch",
        cache: "/cache",
        nonce: "n",
        toolchain_sources: None,
    }
}

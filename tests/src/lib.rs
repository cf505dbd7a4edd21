//! Support library of the end-to-end suites: the table of expected outcomes, isolated test workspaces, the programs under
//! test as processes, and clients for their public interfaces. Nothing here reaches into proctor's internals.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "support of tests: what cannot be set up fails the test that needs it"
)]

use std::pin::Pin;

pub mod attack_programs;
pub mod call_counter;
pub mod expectation;
pub mod expected;
pub mod grpc_client;
pub mod http_shim;
pub mod mcp_client;
pub mod metrics_scrape;
pub mod paused_test;
pub mod process;
pub mod pseudo_terminal;
pub mod qemu_guest;
pub mod run_result;
pub mod rust_sources;
pub mod supervisor_process;
pub mod test_workspace;

/// What the clients' functions return. rustc compiles the body of an `async fn` in each crate that awaits it, which took seconds for
/// each suite; that of a boxed future is compiled here.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

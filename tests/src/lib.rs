//! What the end-to-end suites share: the one table of expected outcomes, a place of its own for every test, the programs
//! under test as processes, and what can be seen of them from outside. Must not know anything that only the insides of
//! proctor know: everything goes through an entrance that users have.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "support of tests: what cannot be set up fails the test that needs it"
)]

pub mod attack_programs;
pub mod expectation;
pub mod expected;
pub mod grpc_client;
pub mod paused_test;
pub mod process;
pub mod qemu_guest;
pub mod run_result;
pub mod supervisor_process;
pub mod test_workspace;

//! What the end-to-end suites share: the one table of expected outcomes, a place of its own for every test, the programs
//! under test as processes, and what can be seen of them from outside. Must not know anything that only the insides of
//! proctor know: everything goes through an entrance that users have.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "support of tests: what cannot be set up fails the test that needs it"
)]

pub mod attack;
pub mod expected;
pub mod guest;
pub mod observed;
pub mod place;
pub mod process;
pub mod row;
pub mod supervisor;
pub mod waiting;
pub mod wire;

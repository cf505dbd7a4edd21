//! The pure domain of proctor: what a run asks for, what came of it, and what a session remembers.
//!
//! Nothing here waits, reads a clock, touches a file or knows a runtime; time and facts come in as arguments and
//! decisions go out as values. `step` in [`session`] is the whole behaviour of a session actor, and every other
//! module is a noun it uses. The crate imports nothing of ours.

pub mod artifact;
pub mod bound;
pub mod coverage;
pub mod event;
pub mod failure;
pub mod filter;
pub mod host_health;
pub mod id;
pub mod isolation;
pub mod limits;
pub mod outcome;
pub mod proof;
pub mod quantity;
pub mod queue;
pub mod quota;
pub mod rate;
pub mod redact;
pub mod report;
pub mod request;
pub mod session;
pub mod test_case;
pub mod timestamp;
pub mod verdict;

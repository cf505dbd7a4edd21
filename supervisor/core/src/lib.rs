//! The pure domain of proctor: run requests, run results, and the state of a session.
//!
//! Nothing here waits, reads a clock, opens a file or uses a runtime: time and facts are arguments, decisions are
//! return values. `step` in [`session`] is the whole behaviour of a session actor; the other modules are the types that
//! it uses. The crate depends on no other crate of the workspace.

pub mod analysis;
pub mod artifact;
pub mod bounds;
pub mod check;
pub mod coverage;
pub mod event;
pub mod failed_parents;
pub mod failure;
pub mod filter;
pub mod histogram;
pub mod history;
pub mod host_health;
pub mod human_units;
pub mod hung_test;
pub mod id;
pub mod isolation;
pub mod limits;
pub mod mutation;
pub mod outcome;
pub mod proof;
pub mod queue;
pub mod quota;
pub mod rate_limit;
pub mod redact;
pub mod repetition;
pub mod report;
pub mod request;
mod script_text;
pub mod selection;
pub mod session;
pub mod shell_word;
pub mod test_case;
pub mod test_name;
pub mod test_order;
pub mod timestamp;
pub mod untested;
pub mod usage_samples;
pub mod verdict;

//! One run: which frameworks it uses, their commands and results as one, and what its report says beside the tests.

pub mod detection;
pub(crate) mod expected_tests;
pub(crate) mod multi;
mod remedies;
mod unscanned_tests;

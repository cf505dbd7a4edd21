//! One run: which frameworks it uses, their commands and results combined, and what its report says besides the tests.

pub mod detection;
pub(crate) mod expected_tests;
pub(crate) mod framework_choice;
mod remedy_parser;
mod unscanned_tests;

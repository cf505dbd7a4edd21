//! One run: which frameworks it uses, their commands and results as one, and what its report says beside the tests.

pub mod detection;
pub(crate) mod expected_tests;
pub(crate) mod framework_choice;
mod remedy_parser;
mod unscanned_tests;

//! The adapters, one module per test runner, and the fallback for a command of the user's own.

pub mod ctest;
pub mod custom;
pub mod cypress;
pub mod go;
pub mod gradle;
pub mod jest;
pub mod maestro;
pub mod maven;
pub mod mocha;
pub mod node_test;
pub mod phpunit;
pub mod playwright;
pub mod pytest;
pub mod rspec;
pub mod rust;
pub mod script;
pub mod unittest;
pub mod vitest;

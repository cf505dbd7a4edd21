//! What the fuzz targets share: an input as a run of a runner, that run read, and what holds for every one. Must not know
//! the fuzzer.

pub mod input;
pub mod properties;
pub mod reading;
pub mod subject;

//! Shared code of the fuzz targets: decoding inputs as runs, replaying them, and checking their properties.

pub mod input;
pub mod properties;
pub mod replay;
pub mod subject;

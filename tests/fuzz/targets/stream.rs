//! Output streams of the framework that an environment variable names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proctor_fuzz::{properties, subject};
use std::sync::LazyLock;

static NAME: LazyLock<String> = LazyLock::new(|| {
    let name = std::env::var(subject::FRAMEWORK_VARIABLE).unwrap_or_default();
    let names: Vec<&str> = subject::names().collect();
    assert!(names.contains(&name.as_str()), "{} must be one of {names:?}", subject::FRAMEWORK_VARIABLE);
    name
});

fuzz_target!(|bytes: &[u8]| properties::check(&NAME, bytes));

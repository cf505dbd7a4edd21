//! Runs of the framework that the environment names. Must not know what holds for them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proctor_fuzz::{properties, subject};
use std::sync::LazyLock;

static NAME: LazyLock<String> = LazyLock::new(|| {
    let name = std::env::var(subject::VARIABLE).unwrap_or_default();
    let known: Vec<&str> = subject::names().collect();
    assert!(known.contains(&name.as_str()), "{} names none of {known:?}", subject::VARIABLE);
    name
});

fuzz_target!(|bytes: &[u8]| properties::hold(&NAME, bytes));

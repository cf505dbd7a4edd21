//! Checks rules of the architecture against the sources: dependencies between crates, no locks around state that an actor
//! owns, and a doc comment at the start of every file. Runs nothing but cargo.

use proctor_tests::process::source_root;
use proctor_tests::rust_sources::rust_sources;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Which of our crates each crate may depend on, outside of tests.
#[test]
fn crates_depend_only_on_allowed_crates() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::from([
        ("proctor-proto", BTreeSet::new()),
        ("proctor-core", BTreeSet::new()),
        ("proctor-frameworks", BTreeSet::from(["proctor-core"])),
        ("proctor-sandbox", BTreeSet::from(["proctor-core"])),
        ("proctor", BTreeSet::from(["proctor-core", "proctor-frameworks", "proctor-proto", "proctor-sandbox"])),
        ("proctor-mcp", BTreeSet::from(["proctor-proto"])),
    ]);
    #[expect(clippy::disallowed_methods, reason = "`cargo metadata` needs no sandbox")]
    let answer = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(source_root())
        .output()
        .expect("cargo answers");
    let metadata: serde_json::Value = serde_json::from_slice(&answer.stdout).expect("cargo answers in JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    for (name, allowed) in &allowed {
        let package = packages.iter().find(|package| package["name"] == *name);
        let Some(package) = package else { panic!("{name} is not in the workspace") };
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let ours: BTreeSet<&str> = dependencies
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["name"].as_str())
            .filter(|dependency| dependency.starts_with("proctor"))
            .collect();
        assert_eq!(&ours, allowed, "{name}");
    }
}

/// Invariant 3: only a session's actor touches its slot and index; no state is shared behind a lock.
#[test]
fn supervisor_and_core_use_no_locks() {
    for (path, text) in rust_sources("supervisor/src").into_iter().chain(rust_sources("supervisor/core/src")) {
        if path.ends_with("sessions/tests/harness.rs") {
            continue; // threads call the fake sandbox
        }
        for lock in ["Mutex", "RwLock", "DashMap", "OnceLock", "static mut", "thread_local!"] {
            assert!(!text.contains(lock), "{path} has {lock}");
        }
    }
}

/// Invariant 5: every queue has a bound.
#[test]
fn every_queue_is_bounded() {
    // Clippy bans the functions themselves, however they are imported.
    let clippy = fs::read_to_string(source_root().join("clippy.toml")).unwrap();
    for unbounded in ["tokio::sync::mpsc::unbounded_channel", "std::sync::mpsc::channel"] {
        assert!(clippy.contains(&format!("path = \"{unbounded}\"")), "clippy.toml allows {unbounded}");
    }
    for below in ["supervisor", "agent-shim/src", "proto/src"] {
        for (path, text) in rust_sources(below) {
            for unbounded in ["unbounded_channel", "mpsc::channel()", "UnboundedSender"] {
                assert!(!text.contains(unbounded), "{path} has {unbounded}");
            }
        }
    }
}

/// Bounds that more than one file relies on are in the one table, each with the reason for its number.
#[test]
fn shared_bounds_are_in_the_one_table() {
    for (path, text) in rust_sources("supervisor/src").into_iter().chain(rust_sources("supervisor/core/src")) {
        if path.ends_with("core/src/bounds.rs") {
            continue;
        }
        let shared = text.lines().map(str::trim_start).filter_map(|line| line.strip_prefix("pub"));
        let names = shared.filter_map(|line| line.split_once("const ")?.1.split_once(':')).map(|(name, _)| name);
        let bounds: Vec<&str> = names.filter(|name| name.ends_with("_MAX") || name.ends_with("_MIN")).collect();
        assert!(bounds.is_empty(), "{path}: {bounds:?} belong into supervisor/core/src/bounds.rs");
    }
}

#[test]
fn no_test_is_ignored() {
    for below in ["proto/src", "supervisor", "agent-shim", "tests"] {
        for (path, text) in rust_sources(below) {
            let is_ignored = text.lines().any(|line| line.trim_start().starts_with("#[ignore"));
            assert!(!is_ignored, "{path} has an ignored test");
        }
    }
}

#[test]
fn every_source_file_starts_with_a_doc_comment() {
    for below in ["proto/src", "supervisor", "agent-shim", "tests"] {
        for (path, text) in rust_sources(below) {
            assert!(text.starts_with("//!"), "{path} has no doc comment at its start");
        }
    }
}

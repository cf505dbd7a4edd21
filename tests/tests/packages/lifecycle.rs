//! The life of the package below a real systemd: installed, started, used, upgraded with a run in flight, removed, purged.

use crate::deb::Deb;
use crate::guest::{Report, boot};
use proctor_tests::process::source_root;
use serde_json::Value;
use std::fs;

/// The upgrade's version.
const NEXT: &str = "9.0.0-1";

#[test]
fn the_deb_is_installed_used_upgraded_and_removed_without_residue() {
    let deb = Deb::build();
    // Not compressed: the emulated processor would take half a minute to unpack them.
    let first = deb.repacked("first", &deb.field("Version"));
    let report = boot(&[("old.deb", &first), ("new.deb", &deb.repacked("next", NEXT))]);
    let all = report.text();
    report.output("install");
    assert_eq!((report.output("active"), report.output("enabled")), ("active", "enabled"));
    // Not an older one in /usr/local/bin, where systemd looks first.
    assert!(report.output("program").contains("path=/usr/bin/proctor "), "{all}");
    assert_eq!(report.output("socket"), "root proctor 660");
    exposure_is_as_written(report.output("exposure"));
    report.output("admit");
    // Every layer is in force: none was left off, so a run without one would have been refused.
    let passed = answer(&report, "run");
    assert_eq!(passed["structuredContent"]["outcome"], "passed", "{all}");
    // The upgrade waits for the run in flight, which the old supervisor ends, and the new one serves the same tenants.
    let upgrade = report.output("upgrade");
    assert!(!upgrade.contains("still the old one"), "{all}");
    assert!(report.output("log").contains("drained finished=1 cancelled=0"), "{all}");
    let finished = |outcome: &str| {
        let lines = report.output("audit").lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == "run_finished" && line["outcome"] == outcome).count()
    };
    assert_eq!((finished("passed"), finished("failed")), (2, 1), "{all}");
    assert_eq!(report.output("upgraded"), format!("installed {NEXT}"));
    let failed = answer(&report, "run-again");
    assert_eq!(failed["structuredContent"]["outcome"], "failed", "{all}");
    // A removal keeps settings and state, a purge nothing.
    report.output("remove");
    assert_eq!(report.output("removed"), "config-files");
    let kept: Vec<&str> = report.output("kept").lines().collect();
    for path in ["/etc/proctor/proctor.toml", "/var/lib/proctor/audit.jsonl", "/var/lib/proctor/tenants"] {
        assert!(kept.contains(&path), "{path}: {all}");
    }
    assert_ne!(report.step("gone").0, 0, "{all}");
    report.output("purge");
    assert_eq!(report.output("remains"), "", "{all}");
}

/// The result of the tool call in a step's output.
fn answer(report: &Report, step: &str) -> Value {
    let line = report.output(step).lines().find(|line| line.starts_with("{\"jsonrpc\"")).unwrap();
    let answer: Value = serde_json::from_str(line).unwrap();
    answer["result"].clone()
}

/// The guide has the figure that systemd computes.
fn exposure_is_as_written(output: &str) {
    let figure = output.split_whitespace().find(|word| word.parse::<f32>().is_ok()).unwrap();
    let guide = fs::read_to_string(source_root().join("deploy/README.md")).unwrap();
    assert!(guide.contains(&format!("`systemd-analyze security` rates it {figure}")), "{output}");
}

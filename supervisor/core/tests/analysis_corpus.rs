//! The analysis of recorded reports of broken projects in eight languages. `corpus/projects/` has the projects with what the analysis
//! must find, `corpus/reports/` what proctor reported about them, `corpus/record.py` made the latter from the former.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use proctor_core::analysis::{Analysis, WorkspaceFacts, analyze};
use proctor_core::failed_parents::FailedParents;
use proctor_core::report::Report;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const REPORTS: [&str; 9] = [
    include_str!("corpus/reports/cpp.jsonl"),
    include_str!("corpus/reports/fixtures.jsonl"),
    include_str!("corpus/reports/go.jsonl"),
    include_str!("corpus/reports/java.jsonl"),
    include_str!("corpus/reports/javascript.jsonl"),
    include_str!("corpus/reports/php.jsonl"),
    include_str!("corpus/reports/python.jsonl"),
    include_str!("corpus/reports/ruby.jsonl"),
    include_str!("corpus/reports/rust.jsonl"),
];

/// A recorded report, and what the analysis must find.
#[derive(Deserialize)]
struct Case {
    name: String,
    /// Name of the kind of the first pattern; `-` if any is right.
    kind: String,
    /// The file of the root cause; `-` if the report has none.
    root: String,
    report: Value,
}

impl Case {
    fn analysis(&self) -> Analysis {
        let mut report = json!({
            "exit_code": 1, "raw_exit_code": 1, "duration_s": 1.0, "started_at": 0, "ended_at": 0, "structured": true,
            "resources": serde_json::to_value(proctor_core::report::Resources::default()).unwrap(),
            "coverage": serde_json::to_value(proctor_core::report::CoverageSummary::default()).unwrap(),
            "truncated": serde_json::to_value(proctor_core::report::Truncated::default()).unwrap(),
        });
        report.as_object_mut().unwrap().extend(self.report.as_object().unwrap().clone());
        let mut report: Report = serde_json::from_value(report).unwrap();
        // The recorder leaves it out.
        let mut parents = FailedParents::default();
        report.tests.iter_mut().for_each(|test| parents.mark(test));
        report.failed_parents = report.tests.iter().filter(|test| test.failed_by_subtest).count() as u64;
        let facts = WorkspaceFacts { root: "/workspace".to_owned(), ..WorkspaceFacts::default() };
        analyze(&report, &facts, 500)
    }
}

fn cases() -> Vec<Case> {
    let lines = REPORTS.iter().flat_map(|reports| reports.lines());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn root_file(analysis: &Analysis) -> &str {
    let evidence = analysis.root_cause.as_ref().and_then(|cause| cause.evidence.as_ref());
    evidence.and_then(|place| place.file.as_deref()).unwrap_or("-")
}

fn kind(analysis: &Analysis) -> &str {
    let of_cause = analysis.root_cause.as_ref().and_then(|cause| cause.kind);
    of_cause.or_else(|| analysis.error_patterns.first().map(|pattern| pattern.kind)).map_or("-", |kind| kind.name())
}

#[test]
fn nine_of_ten_root_files_and_kinds_are_right() {
    let cases = cases();
    assert!(cases.len() >= 120, "{} cases", cases.len());
    let (mut wrong_roots, mut wrong_kinds) = (Vec::new(), Vec::new());
    for case in &cases {
        let analysis = case.analysis();
        let statement = analysis.root_cause.as_ref().map_or("none", |cause| cause.statement.as_str());
        if root_file(&analysis) != case.root {
            wrong_roots.push(format!("{}: {} instead of {}: {statement}", case.name, root_file(&analysis), case.root));
        }
        if case.kind != "-" && kind(&analysis) != case.kind {
            wrong_kinds.push(format!("{}: {} instead of {}: {statement}", case.name, kind(&analysis), case.kind));
        }
    }
    let most = cases.len() / 10;
    // Where the report has no root, nothing is the easy answer.
    let rooted = |text: &&String| !text.contains(" instead of -:");
    let with_root = cases.iter().filter(|case| case.root != "-").count();
    assert!(
        with_root >= 120 && wrong_roots.iter().filter(rooted).count() <= with_root / 10,
        "of {with_root}: {wrong_roots:?}"
    );
    let all = format!("roots:\n{}\nkinds:\n{}", wrong_roots.join("\n"), wrong_kinds.join("\n"));
    assert!(wrong_roots.len() <= most && wrong_kinds.len() <= most, "of {} cases {all}", cases.len());
    println!("{} cases, {with_root} with a root file; {all}", cases.len());
}

/// Every file that an analysis names stands in its report, as a place or in a stack or output.
#[test]
fn names_no_file_that_the_report_does_not_name() {
    for case in cases() {
        let report = case.report.to_string();
        let analysis = case.analysis();
        let affected = analysis.affected_files.iter().map(|file| file.path.as_str());
        let named: BTreeSet<&str> = affected.chain([root_file(&analysis)]).filter(|file| *file != "-").collect();
        for file in named {
            let escaped = json!(file).to_string();
            assert!(report.contains(escaped.trim_matches('"')), "{}: {file}", case.name);
        }
    }
}

/// What falls because of one import, fixture, hook, class or build has one root, also across files.
#[test]
fn a_cascade_has_one_root() {
    const CASCADES: [(&str, &[&str]); 8] = [
        ("go", &["go-build-cascade", "go-import-cascade", "go-setup-cascade", "go-migration-cascade"]),
        (
            "python",
            &["py-dependency-cascade", "py-syntax", "py-fixture-cascade", "py-setup-class", "py-migration-cascade"],
        ),
        (
            "javascript",
            &[
                "js-missing-package-cascade",
                "ts-missing-package",
                "js-build-cascade",
                "js-before-all",
                "ts-before-all",
                "js-migration-cascade",
            ],
        ),
        ("rust", &["rs-build-cascade", "rs-import-cascade", "rs-setup-cascade", "rs-migration-cascade", "rs-poisoned"]),
        (
            "java",
            &["java-import-cascade", "java-build-cascade", "java-setup-cascade", "java-before-all", "java-initializer"],
        ),
        ("ruby", &["rb-require", "rb-build-cascade", "rb-setup-cascade", "rb-before-all", "rb-migration-cascade"]),
        ("php", &["php-import-cascade", "php-setup", "php-migration-cascade"]),
        ("cpp", &["cpp-header-cascade", "cpp-build-cascade", "cpp-fixture-cascade"]),
    ];
    const FIXTURES: [&str; 2] = ["fixture-go-builderror", "fixture-go-panic"];
    assert!(CASCADES.iter().all(|(_, names)| names.len() >= 3), "three kinds in each language");
    let names: Vec<&str> = CASCADES.iter().flat_map(|(_, names)| names.iter()).chain(&FIXTURES).copied().collect();
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|case| names.contains(&case.name.as_str())) {
        let analysis = case.analysis();
        let not_built = case.report["evidence"]["not_built"].as_array().map_or(0, Vec::len) as u64;
        let behind = analysis.root_cause.as_ref().map_or(0, |cause| cause.failures);
        // Where a build stops at its first error, what did not run because of it has no record of its own.
        let has_unreached = case.report["evidence"]["unreached"] == true && case.report["outcome"] == "build_failed";
        if behind != analysis.total + not_built || (behind < 2 && !has_unreached) {
            wrong.push(format!("{}: {behind} of {}: {:?}", case.name, analysis.total + not_built, analysis.root_cause));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let recorded: BTreeSet<String> = cases().into_iter().map(|case| case.name).collect();
    let missing: Vec<&&str> = names.iter().filter(|name| !recorded.contains(**name)).collect();
    assert!(missing.is_empty(), "no report of {missing:?}");
}

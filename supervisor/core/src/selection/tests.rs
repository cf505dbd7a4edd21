//! A table of changes with the tests that they select, and what holds for every change.

use super::*;
use crate::coverage::{Attribution, Calibration, CoverageIndex, CoverageMeasurement, LineSpan};
use crate::failure::{FailureSlot, RerunPlan};
use crate::id::RunId;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::report::tests::report;
use crate::request::{EarlierState, RunRequest, Selection};
use crate::test_case::{TestCase, TestOutcome};
use crate::timestamp::Timestamp;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Files = BTreeMap<String, String>;

pub(super) fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn text_of(path: &str, text: &str) -> FileText {
    let mut content = [0_u8; 16];
    for (at, byte) in text.bytes().enumerate() {
        content[at % 16] = content[at % 16].wrapping_mul(31).wrapping_add(byte);
    }
    if Ecosystem::of_source(path).is_some() {
        FileText::of_source(path, text.as_bytes(), ContentHash(content))
    } else {
        FileText::whole(ContentHash(content))
    }
}

pub(super) fn seen(files: &Files) -> SeenFiles {
    let mut snapshot = Snapshot::default();
    for (path, text) in files {
        snapshot.add(path, SnapshotFile { metadata: 0, text: text_of(path, text), is_settled: true });
    }
    SeenFiles { snapshot: Arc::new(snapshot), tools: BTreeMap::new() }
}

fn case(name: &str, outcome: TestOutcome) -> TestCase {
    let (package, test) = name.rsplit_once('.').unwrap();
    TestCase::new(TestId { package: package.into(), name: test.into() }, name.to_owned(), outcome)
}

pub(super) fn report_of(framework: &str, tests: &[(&str, TestOutcome)]) -> Report {
    let failed = tests.iter().any(|(_, outcome)| outcome.is_failure());
    let outcome = if failed { Outcome::Failed } else { Outcome::Passed };
    let tests = tests.iter().map(|(name, outcome)| case(name, *outcome)).collect();
    Report { framework: framework.into(), ..report(outcome, tests) }
}

/// A session after its runs.
pub(super) struct Project {
    pub(super) baseline: Baseline,
    pub(super) index: CoverageIndex,
    slot: FailureSlot,
}

impl Project {
    pub(super) fn new(
        framework: &str,
        files: &Files,
        tests: &[(&str, TestOutcome)],
        measured: Vec<CoverageMeasurement>,
    ) -> Project {
        let report = report_of(framework, tests);
        let (mut index, mut slot) = (CoverageIndex::default(), FailureSlot::default());
        let request = RunRequest::default();
        let has_measured = !measured.is_empty();
        index.ingest(measured, true, Timestamp(1));
        slot.fill(RunId::new("r1"), &report, crate::failure::DeferredFailures::default());
        let ended = EndedRun {
            run: &RunId::new("r1"),
            request: &request,
            report: &report,
            has_measured,
            replaces_coverage: has_measured,
        };
        Project { baseline: Baseline::after(None, &ended, Some(seen(files))).unwrap(), index, slot }
    }

    pub(super) fn select(&self, now: &Files) -> AffectedTests {
        self.select_with(now, &RunRequest::default())
    }

    /// The tests that changes since another state affect.
    pub(super) fn select_since(&self, before: &Files, now: &Files) -> AffectedTests {
        self.select_changes(&seen(before).snapshot, now, &RunRequest::default())
    }

    fn select_with(&self, now: &Files, settings: &RunRequest) -> AffectedTests {
        self.select_changes(&self.baseline.files_at(&EarlierState::LastRun).unwrap(), now, settings)
    }

    fn select_changes(&self, before: &Snapshot, now: &Files, settings: &RunRequest) -> AffectedTests {
        let snapshot = seen(now).snapshot;
        let ecosystem = Ecosystem::of_framework(&self.baseline.framework).unwrap_or(Ecosystem::Go);
        let sources = now.iter().filter(|(path, _)| ecosystem.is_read(path));
        select(SelectionInput {
            since: "the last run".into(),
            changes: before.changes(&snapshot),
            baseline: &self.baseline,
            index: &self.index,
            failures: self.slot.rerun(None),
            settings,
            now: &snapshot,
            sources: &sources.map(|(path, text)| (path.clone(), text.clone())).collect(),
        })
    }
}

/// The selected tests without their common prefix, `full: …` or `nothing`.
pub(super) fn shown(affected: &AffectedTests) -> String {
    if let Some(reason) = &affected.full_reason {
        return format!("full: {reason}");
    }
    if affected.is_nothing() {
        return "nothing".to_owned();
    }
    let mut names: Vec<String> = affected
        .selected
        .iter()
        .map(|selected| format!("{}.{}", selected.test.package.replace("example.com/m/", ""), selected.test.name))
        .collect();
    let known: Vec<&str> = affected.selected.iter().map(|selected| selected.test.package.as_str()).collect();
    let new = affected.targets.iter().filter_map(|target| target.package()).filter(|unit| !known.contains(unit));
    names.extend(new.map(|unit| format!("{}.*", unit.replace("example.com/m/", ""))));
    names.sort();
    names.dedup();
    names.join(" ")
}

const A_GO: &str = "package a\n\nconst N = 1\n\ntype T struct{ X int }\n\nfunc F() int {\n\treturn N\n}\n\nfunc Unused() int {\n\treturn 2\n}\n";
const B_GO: &str = "package b\n\nimport \"example.com/m/a\"\n\nfunc G() int {\n\treturn a.F()\n}\n";
const C_GO: &str = "package c\n\nfunc H() int {\n\treturn 3\n}\n";

fn go_files() -> Files {
    files(&[
        ("go.mod", "module example.com/m\n"),
        ("go.sum", ""),
        ("README.md", "text"),
        ("a/a.go", A_GO),
        ("a/a_test.go", "package a\n\nfunc TestF(t *testing.T) {\n\tF()\n}\n"),
        ("a/testdata/in.txt", "1"),
        ("b/b.go", B_GO),
        ("b/b_test.go", "package b\n\nfunc TestG(t *testing.T) {\n\tG()\n}\n"),
        ("c/c.go", C_GO),
        ("c/c_test.go", "package c\n\nfunc TestH(t *testing.T) {\n\tH()\n}\n"),
        ("d/d.go", "package d\n\nimport _ \"example.com/m/a\"\n\nfunc D() int {\n\treturn 4\n}\n"),
        ("d/d_test.go", "package d\n\nfunc TestD(t *testing.T) {\n\tD()\n}\n"),
    ])
}

fn measured(package: &str, test: &str, files: &[(&str, u32, u32)]) -> CoverageMeasurement {
    CoverageMeasurement {
        package: format!("example.com/m/{package}"),
        tests: vec![test.into()],
        complete: true,
        attribution: Attribution::Package,
        started_processes: false,
        kept: Vec::new(),
        calibration: Calibration::None,
        files: files
            .iter()
            .map(|(file, first, last)| ((*file).to_owned(), vec![LineSpan { first: *first, last: *last }]))
            .collect(),
    }
}

/// A run whose measurements are added to those before it.
fn partly_measured<'a>(run: &'a RunId, request: &'a RunRequest, report: &'a Report) -> EndedRun<'a> {
    EndedRun { run, request, report, has_measured: true, replaces_coverage: false }
}

fn go_coverage() -> Vec<CoverageMeasurement> {
    vec![
        measured("a", "TestF", &[("a/a.go", 7, 9)]),
        measured("b", "TestG", &[("a/a.go", 7, 9), ("b/b.go", 5, 7)]),
        measured("c", "TestH", &[("c/c.go", 3, 5)]),
        measured("d", "TestD", &[("d/d.go", 5, 7)]),
    ]
}

#[test]
fn tests_of_go_that_ran_since_without_being_measured_run_with_any_change() {
    let mut project = go_project();
    let mut now = go_files();
    now.insert("c/c.go".into(), C_GO.replace("return 3", "return 4"));
    assert_eq!(shown(&project.select(&now)), "c.TestH");
    project.index.record_unmeasured(&[("example.com/m/b", "TestG")].into());
    assert_eq!(shown(&project.select(&now)), "b.TestG c.TestH");
    project.index.ingest(vec![measured("b", "TestG", &[("b/b.go", 5, 7)])], false, Timestamp(2));
    assert_eq!(shown(&project.select(&now)), "c.TestH");
}

const GO_TESTS: [&str; 4] =
    ["example.com/m/a.TestF", "example.com/m/b.TestG", "example.com/m/c.TestH", "example.com/m/d.TestD"];

pub(super) fn passed<const N: usize>(names: [&'static str; N]) -> [(&'static str, TestOutcome); N] {
    names.map(|name| (name, TestOutcome::Passed))
}

fn go_project() -> Project {
    Project::new("go", &go_files(), &passed(GO_TESTS), go_coverage())
}

/// One row: what becomes of a file (`None` removes it), and what that selects.
pub(super) type Row<'a> = (&'a str, Option<&'a str>, &'a str);

pub(super) fn check(project: &Project, before: &Files, rows: &[Row<'_>]) {
    for (path, text, expected) in rows {
        let mut now = before.clone();
        match text {
            Some(text) => _ = now.insert((*path).to_owned(), (*text).to_owned()),
            None => assert!(now.remove(*path).is_some(), "{path}"),
        }
        assert_eq!(shown(&project.select(&now)), *expected, "{path}: {text:?}");
    }
}

const ALL_BUT_C: &str = "a.TestF b.TestG d.TestD";

#[test]
fn a_table_of_changes_to_a_go_workspace() {
    let changed = |from: &str, to: &str| A_GO.replace(from, to);
    let [body, constant, kind, signature, unexecuted, method, comment, binary, endings] = [
        changed("return N", "return N + 1"),
        changed("N = 1", "N = 2"),
        changed("X int", "X int64"),
        changed("F() int {", "F() int64 {"),
        changed("return 2", "return 5"),
        format!("{A_GO}\nfunc (t T) String() string {{\n\treturn \"\"\n}}\n"),
        changed("const N", "// N is a number.\nconst N"),
        "package a\0".to_owned(),
        A_GO.replace('\n', "\r\n"),
    ];
    let data = |file: &str, how: &str| format!("full: {file} was {how}, and any test may read it");
    let settings = |file: &str, what: &str, how: &str| format!("full: {file}, {what}, was {how}");
    check(
        &go_project(),
        &go_files(),
        &[
            ("a/a.go", Some(&body), "a.TestF b.TestG"),
            ("a/a.go", Some(&constant), ALL_BUT_C),
            ("a/a.go", Some(&kind), ALL_BUT_C),
            ("a/a.go", Some(&signature), ALL_BUT_C),
            ("a/a.go", Some(&unexecuted), ALL_BUT_C),
            ("a/a.go", Some(&method), ALL_BUT_C),
            ("a/a.go", Some(&comment), ALL_BUT_C),
            ("a/a.go", Some(&binary), ALL_BUT_C),
            ("a/a.go", Some(&endings), ALL_BUT_C),
            ("a/a.go", None, ALL_BUT_C),
            ("a/a_test.go", Some("package a\n"), "a.TestF"),
            ("a/a_test.go", None, "nothing"),
            ("b/b.go", None, "b.TestG"),
            ("a/more.go", Some("package a\n\nfunc init() {}\n"), ALL_BUT_C),
            ("a/more_test.go", Some("package a\n"), "a.TestF"),
            ("e/e_test.go", Some("package e\n"), "e.*"),
            ("e/e.go", Some("package e\n"), "nothing"),
            ("a/fast.s", Some("TEXT"), ALL_BUT_C),
            ("b/b.go", Some(&B_GO.replace("a.F()", "a.F() + 1")), "b.TestG"),
            ("c/c.go", None, "c.TestH"),
            ("go.mod", Some("module example.com/m\n\ngo 1.25\n"), &settings("go.mod", "a build file", "changed")),
            ("go.sum", Some("x"), &settings("go.sum", "a lock file", "changed")),
            ("go.work", Some("go 1.25\n"), &settings("go.work", "a build file", "added")),
            ("vendor/x/x.go", Some("package x"), &settings("vendor/x/x.go", "vendored code", "added")),
            (".proctor.yaml", Some("framework: go"), &settings(".proctor.yaml", "a test runner's settings", "added")),
            (".env", Some("A=1"), &settings(".env", "environment variables", "added")),
            (".tool-versions", Some("go 1.25"), &settings(".tool-versions", "the choice of a toolchain", "added")),
            ("package-lock.json", Some("{}"), &settings("package-lock.json", "a lock file", "added")),
            ("a/testdata/in.txt", Some("2"), &data("a/testdata/in.txt", "changed")),
            ("a/testdata/in.txt", None, &data("a/testdata/in.txt", "removed")),
            ("a/testdata/x.go", Some("package x"), &data("a/testdata/x.go", "added")),
            ("schema.sql", Some("create"), &data("schema.sql", "added")),
            ("script.py", Some("print()"), &data("script.py", "added")),
            ("README.md", Some("other"), "nothing"),
            (".github/workflows/ci.yml", Some("on: push"), "nothing"),
            ("README.md", None, "nothing"),
        ],
    );
}

#[test]
fn tests_whose_files_are_gone_are_not_left_out() {
    let mut now = go_files();
    now.remove("a/a_test.go");
    let affected = go_project().select(&now);
    assert_eq!((shown(&affected).as_str(), affected.known, affected.left_out()), ("nothing", 3, 3));
    for package in ["b", "c", "d"] {
        now.remove(&format!("{package}/{package}_test.go"));
    }
    assert_eq!(shown(&go_project().select(&now)), "full: the files of all known tests are gone");
}

#[test]
fn packages_of_other_modules_and_those_that_are_vetted_run_with_what_they_import() {
    let mut before = go_files();
    before.insert("sub/go.mod".into(), "module example.com/m/sub\n".into());
    before.insert("sub/s_test.go".into(), "package s\n\nimport _ \"example.com/m/a\"\n".into());
    before.remove("a/a_test.go");
    let tests = ["example.com/m/b.TestG", "example.com/m/c.TestH", "example.com/m/d.TestD", "example.com/m/sub.TestS"];
    let mut measured_tests = go_coverage();
    measured_tests[0] = measured("sub", "TestS", &[("sub/s.go", 3, 5)]);
    let project = Project::new("go", &before, &passed(tests), measured_tests);
    let a = A_GO.replace("return N", "return N + 1");
    check(&project, &before, &[("a/a.go", Some(&a), "a.* b.TestG sub.TestS")]);
}

#[test]
fn an_edit_that_moves_lines_selects_by_imports_if_a_source_knows_numbers_of_lines() {
    let mut before = go_files();
    before.insert("c/c_test.go".into(), "package c\n\nvar _, _, _, _ = runtime.Caller(0)\n".into());
    let project = Project::new("go", &before, &passed(GO_TESTS), go_coverage());
    let [moved, same] = ["\tprintln()\n\treturn N", "\treturn N + 1"].map(|text| A_GO.replace("\treturn N", text));
    check(&project, &before, &[("a/a.go", Some(&moved), ALL_BUT_C), ("a/a.go", Some(&same), "a.TestF b.TestG")]);
}

#[test]
fn documentation_that_a_source_names_or_embeds_is_data() {
    for source in ["package a // README.md", "package a // *.md", "package a\n\n//go:embed docs\nvar x string\n"] {
        let mut before = go_files();
        before.insert("x.go".into(), source.into());
        let project = Project::new("go", &before, &passed(GO_TESTS), go_coverage());
        check(
            &project,
            &before,
            &[("README.md", Some("new"), "full: README.md was changed, and any test may read it")],
        );
    }
}

#[test]
fn tests_that_may_start_a_process_follow_every_change_of_the_product() {
    let mut before = go_files();
    before
        .insert("c/run_test.go".into(), "package c\n\nimport \"os/exec\"\n\nfunc TestH() { exec.Command(a) }\n".into());
    let project = Project::new("go", &before, &passed(GO_TESTS), go_coverage());
    let b = B_GO.replace("a.F()", "a.F() + 1");
    check(
        &project,
        &before,
        &[("b/b.go", Some(&b), "b.TestG c.TestH"), ("b/b_test.go", Some("package b\n"), "b.TestG")],
    );
}

#[test]
fn what_failed_was_flaky_skipped_or_unmapped_always_runs_again() {
    let [a, b, c, d] = GO_TESTS;
    let results =
        [(a, TestOutcome::Passed), (b, TestOutcome::Failed), (c, TestOutcome::Passed), (d, TestOutcome::Skipped)];
    let project = Project::new("go", &go_files(), &results, go_coverage());
    let affected = project.select(&go_files());
    assert_eq!(shown(&affected), "b.TestG d.TestD", "although nothing changed");
    let reasons: Vec<&str> = affected.selected.iter().map(|selected| selected.reason.kind()).collect();
    assert_eq!(reasons, ["failed last time", "skipped last time"], "in the order of likelihood");
    let only_skipped = [(a, TestOutcome::Passed), (d, TestOutcome::Skipped)];
    let project = Project::new("go", &go_files(), &only_skipped, go_coverage());
    assert_eq!(shown(&project.select(&go_files())), "nothing", "a run without an executed test is no pass");
    // Of package c, nothing was measured.
    let project = Project::new("go", &go_files(), &passed(GO_TESTS), go_coverage().drain(..2).collect());
    assert_eq!(shown(&project.select(&go_files())), "c.TestH d.TestD");
}

#[test]
fn the_most_likely_failures_come_first() {
    let [a, b, c, d] = GO_TESTS;
    let results =
        [(a, TestOutcome::Passed), (b, TestOutcome::Passed), (c, TestOutcome::Failed), (d, TestOutcome::Passed)];
    let mut now = go_files();
    now.insert("a/a.go".into(), A_GO.replace("return N", "return N + 1"));
    now.insert("d/d_test.go".into(), "package d\n".into());
    let affected = Project::new("go", &go_files(), &results, go_coverage()).select(&now);
    let order: Vec<String> =
        affected.selected.iter().map(|selected| format!("{} {}", selected.test.name, selected.reason)).collect();
    assert_eq!(
        order,
        [
            "TestH failed last time",
            "TestF executed a changed line: a/a.go",
            "TestG executed a changed line: a/a.go",
            "TestD own file or package changed: d/d_test.go"
        ]
    );
    let summary = affected.summary();
    assert_eq!((summary.selected, summary.left_out), (4, 0));
    assert_eq!(summary.reasons.iter().map(|count| count.tests).collect::<Vec<_>>(), [1, 2, 1]);
}

#[test]
fn other_settings_or_too_little_knowledge_run_everything() {
    let project = go_project();
    let env = RunRequest { env: [("A".to_owned(), "1".to_owned())].into(), ..RunRequest::default() };
    assert!(
        shown(&project.select_with(&go_files(), &env)).starts_with("full: the environment variables of the last run")
    );
    let unmeasured = Project::new("go", &go_files(), &passed(GO_TESTS), Vec::new());
    assert_eq!(shown(&unmeasured.select(&go_files())), "full: no coverage has been measured here");
    let gradle = Project::new("gradle", &go_files(), &passed(GO_TESTS), Vec::new());
    assert!(shown(&gradle.select(&go_files())).starts_with("full: tests of gradle are not selected by changes"));
    let mut cut = report_of("go", &passed(GO_TESTS));
    cut.partial = true;
    let ended = EndedRun {
        run: &RunId::new("r"),
        request: &RunRequest::default(),
        report: &cut,
        has_measured: false,
        replaces_coverage: false,
    };
    assert!(Baseline::after(None, &ended, Some(seen(&go_files()))).is_none(), "a run that was cut off");
}

#[test]
fn a_run_of_affected_tests_moves_the_baseline_and_keeps_what_was_measured() {
    let mut project = go_project();
    let mut edited = go_files();
    // A function is inserted above F, and a body changed.
    let second = A_GO.replace("const N = 1\n", "const N = 1\n\nfunc New() int {\n\treturn 1\n}\n");
    edited.insert("a/a.go".into(), second.clone());
    let affected = project.select(&edited);
    assert_eq!(shown(&affected), ALL_BUT_C);
    let report = Report {
        affected: Some(affected.summary()),
        ..report_of("go", &passed(["example.com/m/a.TestF", "example.com/m/b.TestG", "example.com/m/d.TestD"]))
    };
    let request =
        RunRequest { selection: Selection::Affected { since: EarlierState::LastRun }, ..RunRequest::default() };
    // Only b measured anew.
    project.index.ingest(vec![measured("b", "TestG", &[("a/a.go", 11, 13), ("b/b.go", 5, 7)])], false, Timestamp(2));
    let run = RunId::new("r2");
    let ended = partly_measured(&run, &request, &report);
    project.baseline = Baseline::after(Some(project.baseline), &ended, Some(seen(&edited))).unwrap();
    assert_eq!(shown(&project.select(&edited)), "nothing", "each test has a result for these files");
    // Lines of a were measured at the first text, those of b at the second.
    edited.insert("a/a.go".into(), second.replace("return N", "return N + 2"));
    assert_eq!(shown(&project.select(&edited)), "a.TestF b.TestG");
    let texts = project.baseline.measured_texts("a/a.go").unwrap();
    assert_eq!(texts.len(), 2);
    let now = text_of("a/a.go", &edited["a/a.go"]);
    let found = covering_now(
        Some(&project.baseline),
        &project.index,
        "a/a.go",
        Some(LineSpan { first: 12, last: 12 }),
        Some(&now),
    );
    assert_eq!((found.is_edited, found.is_moved), (Some(true), true));
    assert_eq!(found.covering.tests.iter().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["TestF", "TestG"]);
    assert!(project.baseline.memory_bytes() > 1_000);
    let json = serde_json::to_string(&project.baseline).unwrap();
    assert_eq!(serde_json::from_str::<Baseline>(&json).unwrap(), project.baseline);
}

#[test]
fn a_filtered_run_does_not_move_the_baseline() {
    let mut project = go_project();
    let mut edited = go_files();
    edited.insert("a/a.go".into(), A_GO.replace("return N", "return N + 1"));
    let request = RunRequest { selection: Selection::Exactly(Vec::new()), ..RunRequest::default() };
    let report = report_of("go", &[("example.com/m/a.TestF", TestOutcome::Failed)]);
    let run = RunId::new("r2");
    let ended = partly_measured(&run, &request, &report);
    project.baseline = Baseline::after(Some(project.baseline), &ended, Some(seen(&edited))).unwrap();
    assert_eq!(project.baseline.run, RunId::new("r1"));
    assert_eq!(shown(&project.select(&edited)), "a.TestF b.TestG", "b has not run since the edit");
    assert_eq!(shown(&project.select(&go_files())), "a.TestF", "it failed");
    assert!(project.baseline.files_at(&EarlierState::LastGreen).is_some());
}

#[test]
fn the_last_green_state_survives_a_failed_run() {
    let project = go_project();
    let failed = report_of("go", &[(GO_TESTS[0], TestOutcome::Failed)]);
    let mut edited = go_files();
    edited.insert("c/c.go".into(), C_GO.replace('3', "4"));
    let (run, request) = (RunId::new("r2"), RunRequest::default());
    let ended = partly_measured(&run, &request, &failed);
    let after = Baseline::after(Some(project.baseline), &ended, Some(seen(&edited))).unwrap();
    let green = after.files_at(&EarlierState::LastGreen).unwrap();
    assert_eq!(green.changes(&seen(&edited).snapshot).len(), 1);
    assert_eq!(after.files_at(&EarlierState::LastRun).unwrap(), seen(&edited).snapshot);
}

#[test]
fn a_failed_run_whose_failures_have_no_names_is_run_whole() {
    let mut project = go_project();
    let crashed = Report { partial: true, ..report(Outcome::Crashed, Vec::new()) };
    project.slot.fill(RunId::new("r2"), &crashed, crate::failure::DeferredFailures::default());
    assert_eq!(project.slot.rerun(None), RerunPlan::Everything);
    assert!(shown(&project.select(&go_files())).starts_with("full: the last run did not pass"));
}

/// The lines of the function that `TestF` and `TestG` execute, to the first `}`; empty without its first line.
fn function_f(lines: &[String]) -> Vec<&String> {
    let from_start = lines.iter().skip_while(|line| *line != "func F() int {");
    from_start.take_while(|line| *line != "}").collect()
}

proptest! {
    // Whatever is edited: no test is both selected and left out, and a test whose package's own lines changed is selected.
    #[test]
    fn no_edit_leaves_out_a_test_that_executed_a_changed_line(
        edits in prop::collection::vec((0_usize..13, 0_u8..3), 1..6),
    ) {
        let project = go_project();
        let mut lines: Vec<String> = A_GO.lines().map(str::to_owned).collect();
        for (at, how) in edits {
            let at = at.min(lines.len().saturating_sub(1));
            match how {
                0 => lines.insert(at, "\tprintln()".to_owned()),
                1 if !lines.is_empty() => _ = lines.remove(at),
                _ => if let Some(line) = lines.get_mut(at) { line.push_str(" // x") },
            }
        }
        let mut now = go_files();
        now.insert("a/a.go".into(), lines.join("\n") + "\n");
        let affected = project.select(&now);
        prop_assert!(affected.full_reason.is_none());
        prop_assert_eq!(affected.selected.len() as u64 + affected.left_out(), affected.known);
        // An edit may undo another one.
        let before: Vec<String> = A_GO.lines().map(str::to_owned).collect();
        if function_f(&lines) != function_f(&before) {
            let names: Vec<&str> = affected.selected.iter().map(|selected| selected.test.name.as_str()).collect();
            prop_assert!(names.contains(&"TestF") && names.contains(&"TestG"), "{:?}", names);
        }
        prop_assert!(!affected.selected.iter().any(|selected| selected.test.name == "TestH"));
    }
}

//! Exact command lines for every kind of selection.

use super::*;
use proctor_core::filter::Filter;
use proctor_core::test_case::TestId;

fn request(selection: &Selection) -> PlanRequest<'_> {
    PlanRequest { workspace: "/ws", scratch: "/scratch", cache: "/cache", ..PlanRequest::plain(selection) }
}

fn projects() -> [Project; 2] {
    ["a", "b/c"].map(|dir| Project { dir: dir.to_owned(), name: "x".to_owned() })
}

fn test_of(package: &str, name: &str) -> RerunTarget {
    RerunTarget::Test(TestId { package: package.to_owned(), name: name.to_owned() })
}

fn line(step: &Step) -> String {
    format!("{}: {} {}", step.dir, step.programs.join("|"), step.args.join(" "))
}

fn configured(selection: &Selection) -> Vec<String> {
    plan(&projects(), &request(selection)).unwrap().steps.iter().map(|step| step.dir.clone()).collect()
}

/// Arguments that select tests in the directory `a`.
fn selected(selection: &Selection) -> Vec<String> {
    let expression = |step: &Step| step.args.get(3..).unwrap_or_default().join(" ");
    test("a", &request(selection)).iter().map(expression).collect()
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let files = files.iter().map(|file| (*file).to_owned()).collect();
    Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
}

#[test]
fn configures_builds_and_tests_in_the_cache() {
    let request = request(&Selection::All);
    assert_eq!(
        line(&plan(&projects()[..1], &request).unwrap().steps[0]),
        "a: cmake -S . -B /cache/cmake/34a9c9d855a4ae4c"
    );
    assert_eq!(line(&build("a", &request)), "a: cmake --build /cache/cmake/34a9c9d855a4ae4c --parallel 2");
    assert_eq!(line(&test("a", &request)[0]), "a: ctest --test-dir /cache/cmake/34a9c9d855a4ae4c -V");
    assert_eq!(line(&list("a", &request)[0]), "a: ctest --test-dir /cache/cmake/34a9c9d855a4ae4c --show-only=json-v1");
    assert!(line(&properties("a", &request)).ends_with(" sh /cache/cmake/34a9c9d855a4ae4c /scratch/report"));
    let many = PlanRequest { parallel: Some(4), ..request.clone() };
    assert!(line(&test("a", &many)[0]).ends_with(" -V --parallel 4"));
    assert!(line(&build("a", &many)).ends_with(" --parallel 4"));
    assert_ne!(directory("a", &request), directory("b/c", &request));
    assert_ne!(directory("a", &request), directory("a", &PlanRequest { workspace: "/other", ..request.clone() }));
}

#[test]
fn passes_a_filter_as_a_ctest_expression() {
    assert_eq!(selected(&Selection::All), [""]);
    assert_eq!(selected(&matching("Calc|x y", &[])), ["-R Calc|x y"]);
    assert_eq!(selected(&matching("", &[])), [""]);
}

#[test]
fn selects_the_project_of_a_file() {
    assert_eq!(configured(&Selection::All), ["a", "b/c"]);
    assert_eq!(configured(&matching("", &["b/c/x.cpp"])), ["b/c"]);
    for outside in ["x.cpp", "/etc/passwd", "a/../../x"] {
        let error = plan(&projects(), &request(&matching("", &[outside]))).unwrap_err();
        assert_eq!(error, PlanError::FileOutsideProject { file: outside.to_owned(), framework: "ctest" });
    }
}

#[test]
fn reruns_exactly_the_failed_tests() {
    let again = |targets: &[RerunTarget]| Selection::Exactly(targets.to_vec());
    let both = again(&[test_of("a", "x.y (z)"), test_of("a", "All/P.Even/1"), test_of("b/c", "t")]);
    assert_eq!(selected(&both), [r"-R ^All/P\.Even/1$|^x\.y \(z\)$"]);
    assert_eq!(configured(&both), ["a", "b/c"]);
    assert_eq!(configured(&again(&[test_of("a", "t")])), ["a"]);
    assert_eq!(selected(&again(&[test_of("a", "t#12"), test_of("a", "u#x")])), ["-R ^t$|^t#12$|^u#x$"]);
    assert_eq!(selected(&again(&[test_of("a", "t"), RerunTarget::Package("a/src/x.cpp".to_owned())])), [""]);
    assert_eq!(configured(&again(&[RerunTarget::Package("gone/x.cpp".to_owned())])), ["a", "b/c"]);
    assert!(configured(&again(&[])).is_empty());
}

#[test]
fn splits_a_long_list_and_runs_everything_for_a_very_long_one() {
    let names =
        |count: usize| Selection::Exactly((0..count).map(|n| test_of("a", &format!("Suite.case_{n}"))).collect());
    let some = selected(&names(5_000));
    assert!(some.len() > 1 && some.iter().all(|expression| expression.len() <= EXPRESSION_BYTES_MAX + 3));
    assert_eq!(some.iter().map(|expression| expression.matches('|').count() + 1).sum::<usize>(), 5_000);
    assert_eq!(selected(&names(90_000)), [""]);
}

#[test]
fn names_the_workspace_root_with_a_dot() {
    let root = [Project { dir: String::new(), name: "x".to_owned() }];
    let again = Selection::Exactly(vec![test_of(".", "t")]);
    let request = request(&again);
    assert_eq!(plan(&root, &request).unwrap().steps.len(), 1);
    assert_eq!(test("", &request)[0].args[3..], ["-R", "^t$"]);
}

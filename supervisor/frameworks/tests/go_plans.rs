//! Command lines of the Go adapter for every kind of selection.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod want;
}

use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use proctor_frameworks::runners::go::Go;
use proctor_frameworks::{FileTree, Framework, Plan, PlanError, PlanRequest};
use support::want::want;

fn tree() -> FileTree {
    let mut tree = FileTree::default();
    tree.add_with_content("go.mod", "module m\n");
    tree.add_with_content("go.work", "go 1.21\nuse .\nuse ./used\n");
    tree.add_with_content("used/go.mod", "module example.com/used\n");
    tree.add_with_content("other/go.mod", "module example.com/other\n");
    for file in [
        "main.go",
        "a/a.go",
        "a/testdata/golden.json",
        "b/c/c.go",
        "b/c/c_test.go",
        "used/u.go",
        "other/o.go",
        "docs/x.md",
        "used/internal/notes.md",
    ] {
        tree.add(file);
    }
    tree
}

fn try_plan(selection: &Selection) -> Result<Plan, PlanError> {
    Go.plan(&Go.detect(&tree()), &tree(), &want(selection))
}

/// Each step as `dir: arguments`, without the arguments that all steps have.
fn steps(selection: &Selection) -> Vec<String> {
    let plan = try_plan(selection).unwrap();
    let common = "test -json -count=1 -fullpath -timeout=0 ";
    plan.steps
        .iter()
        .map(|step| {
            let args = step.args.join(" ");
            format!("{}: {}", step.dir, args.strip_prefix(common).unwrap())
        })
        .collect()
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let files = files.iter().map(|file| (*file).to_owned()).collect();
    Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
}

fn test(package: &str, name: &str) -> RerunTarget {
    RerunTarget::Test(TestId { package: package.to_owned(), name: name.to_owned() })
}

#[test]
fn each_module_gets_one_command() {
    assert_eq!(steps(&Selection::All), [": ./...", "other: ./...", "used: ./..."]);
    assert_eq!(
        steps(&matching("TestA|TestB/x y", &[])),
        [": -run=TestA|TestB/x y ./...", "other: -run=TestA|TestB/x y ./...", "used: -run=TestA|TestB/x y ./..."]
    );
}

#[test]
fn notes_what_coverage_does_not_reach() {
    let notes = |files: &[&str], is_measured| {
        let selection = matching("", files);
        let want = PlanRequest { is_measured, ..want(&selection) };
        Go.plan(&Go.detect(&tree()), &tree(), &want).unwrap().notes
    };
    let borders = notes(&[], true);
    let by_package = "coverage is known by package, not by test: the sources of the Go toolchain are not known";
    assert_eq!(borders[0], by_package);
    assert!(borders.len() == 2 && borders[1].starts_with("coverage is measured within each Go module"), "{borders:?}");
    assert_eq!(notes(&["b/c/c.go", "a/a.go"], true), [by_package], "one module");
    assert_eq!(notes(&[], false), [""; 0]);
}

#[test]
fn closes_the_environment_off() {
    let plan = try_plan(&Selection::All).unwrap();
    let env = |dir: &str, key: &str| {
        let step = plan.steps.iter().find(|step| step.dir == dir).unwrap();
        step.env.get(key).cloned()
    };
    for (key, value) in [("GOFLAGS", "-modcacherw"), ("GOENV", "off"), ("GOTOOLCHAIN", "local")] {
        assert_eq!(env("", key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(env("", "GOCACHE").as_deref(), Some("/cache/go-build"));
    assert_eq!((env("other", "GOWORK").as_deref(), env("used", "GOWORK")), (Some("off"), None));
    assert_eq!(env("", "GOPROXY"), None, "where modules come from is the edge's to say");
}

#[test]
fn a_file_selects_its_package() {
    assert_eq!(
        steps(&matching("", &["b/c/c_test.go", "./b/c/c.go", "used/u.go", "main.go"])),
        [": . ./b/c", "used: ."]
    );
    assert_eq!(steps(&matching("TestX", &["a/testdata/golden.json"])), [": -run=TestX ./a"]);
    assert_eq!(steps(&matching("", &["go.mod"])), [": ./..."]);
    assert_eq!(steps(&matching("", &["b"])), [": ./b/..."]);
    assert_eq!(steps(&matching("", &["used/"])), ["used: ."]);
    for outside in ["/etc/passwd", "../x.go", "a/../../x.go"] {
        let error = try_plan(&matching("", &[outside])).unwrap_err();
        assert_eq!(error, PlanError::FileOutsideProject { file: outside.to_owned(), framework: "go" });
    }
}

#[test]
fn a_go_file_never_selects_a_package_above_it() {
    // The scan skips caches; files in there are in no tree.
    for file in ["internal/target/x.go", "a/target/a_test.go", "used/internal/gone_test.go", "docs/x.go"] {
        let error = try_plan(&matching("", &["main.go", file])).unwrap_err();
        assert_eq!(error, PlanError::FileOutsideProject { file: file.to_owned(), framework: "go" });
    }
    assert_eq!(steps(&matching("", &["a/gone_test.go"])), [": ./a"], "its package is still there");
    assert_eq!(
        steps(&matching("", &["docs/x.md", "used/internal/notes.md", "a/target/x.json"])),
        [": . ./a", "used: ."]
    );
    let mut part = tree();
    part.set_truncated();
    let plan = Go.plan(&Go.detect(&part), &part, &want(&matching("", &["deep/x.go"]))).unwrap();
    assert_eq!(plan.steps[0].args.last().unwrap(), "./deep");
}

#[test]
fn reruns_exactly_the_failed_tests() {
    let targets = vec![
        test("m/a", "TestTable"),
        test("m/a", "TestTable/x"),
        test("m/a", "TestB/y"),
        test("m/b/c", "TestOne"),
        test("example.com/used", "TestOne"),
        RerunTarget::Package("m".to_owned()),
        test("m", "TestWithin"),
    ];
    assert_eq!(
        steps(&Selection::Exactly(targets)),
        [": .", ": -run=^TestB$/^y$|^TestTable$/^x$ ./a", ": -run=^TestOne$ ./b/c", "used: -run=^TestOne$ ."]
    );
    assert!(steps(&Selection::Exactly(Vec::new())).is_empty());
}

#[test]
fn a_target_outside_all_modules_runs_everything() {
    let targets = vec![RerunTarget::Package("example.net/dependency".to_owned())];
    assert_eq!(steps(&Selection::Exactly(targets)).len(), 3);
}

#[test]
fn refuses_more_commands_than_a_run_may_have() {
    let targets = (0..300).map(|number| test(&format!("m/p{number}"), &format!("Test{number}"))).collect();
    assert_eq!(try_plan(&Selection::Exactly(targets)), Err(PlanError::TooManySteps { steps: 300, max: 256 }));
    let mut modules = FileTree::default();
    (0..600).for_each(|number| modules.add_with_content(format!("m{number}/go.mod"), format!("module m{number}")));
    let error = Go.plan(&Go.detect(&modules), &modules, &want(&Selection::All)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "600 commands are needed (one per module or package), at most 256 in one run: run fewer at a time, by file or \
         directory"
    );
    let same = (0..300).map(|number| test(&format!("m/p{number}"), "TestSame")).collect();
    assert_eq!(try_plan(&Selection::Exactly(same)).unwrap().steps.len(), 1);
}

#[test]
fn coverage_injects_its_wrapper() {
    let want = PlanRequest { is_measured: true, parallel: Some(3), ..want(&Selection::All) };
    let plan = Go.plan(&Go.detect(&tree()), &tree(), &want).unwrap();
    let args = plan.steps[0].args.join(" ");
    assert_eq!(
        args,
        "test -json -count=1 -fullpath -timeout=0 -covermode=atomic -coverprofile=/scratch/work/go-merged-profile \
         -coverpkg=./... -exec='/scratch/go-test-exec' -parallel=3 ./..."
    );
    assert_eq!((plan.artifacts, plan.dirs), (true, vec!["artifacts/go".to_owned()]));
    let wrapper = plan.files.iter().find(|file| file.executable).unwrap();
    assert_eq!(wrapper.path, "go-test-exec");
    insta::assert_snapshot!("go-test-exec", String::from_utf8_lossy(&wrapper.bytes));
}

#[test]
fn a_listing_uses_the_top_level_of_a_filter() {
    let list = |selection: &Selection| {
        let plan = Go.plan_listing(&Go.detect(&tree()), &tree(), &want(selection)).unwrap();
        plan.steps[0].args.join(" ")
    };
    assert_eq!(list(&Selection::All), "test -json -count=1 -timeout=0 -list=. ./...");
    assert_eq!(list(&matching("TestA/x", &["a/a.go"])), "test -json -count=1 -timeout=0 -list=TestA ./a");
    assert_eq!(list(&matching("TestA/x|TestB", &[])), "test -json -count=1 -timeout=0 -list=. ./...");
}

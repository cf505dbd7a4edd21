//! Command lines of the two Python adapters for every kind of selection.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod want;
}

use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use proctor_frameworks::detection::choose;
use proctor_frameworks::runners::pytest::Pytest;
use proctor_frameworks::runners::unittest::Unittest;
use proctor_frameworks::{FileTree, Framework, Plan, PlanRequest, Step};

/// A project that contains another one; `settings` decides for which runner.
fn tree(settings: &str) -> FileTree {
    let mut tree = FileTree::default();
    for file in ["pyproject.toml", "sub/pyproject.toml"] {
        tree.add_with_content(file, settings);
    }
    for file in ["src/calc.py", "tests/__init__.py", "tests/test_calc.py", "tests/test_x.py", "slow/test_y.py"] {
        tree.add(file);
    }
    tree.add("sub/test_z.py");
    tree
}

fn want(selection: &Selection) -> PlanRequest<'_> {
    PlanRequest { is_measured: true, ..support::want::want(selection) }
}

fn tree_of(framework: &dyn Framework) -> FileTree {
    tree(if framework.name() == "pytest" { "[tool.pytest.ini_options]" } else { "[project]" })
}

fn plan(framework: &dyn Framework, selection: &Selection) -> Plan {
    let tree = tree_of(framework);
    framework.plan(&framework.detect(&tree), &tree, &want(selection)).unwrap()
}

#[test]
fn pytest_runs_a_project_without_its_settings_when_requested() {
    let name = |tree: &FileTree, asked| choose(tree, asked, &Selection::All).map(|chosen| chosen.name());
    assert_eq!(name(&tree("[project]"), None).unwrap(), "unittest");
    assert_eq!(name(&tree("[project]"), Some("pytest")).unwrap(), "pytest");
    assert_eq!(name(&tree("[tool.pytest]"), Some("all")).unwrap(), "pytest");
    let mut mixed = tree("[project]");
    mixed.add("sub/pytest.ini");
    assert_eq!(Pytest.detect_explicit(&mixed).iter().map(|project| project.dir.as_str()).collect::<Vec<_>>(), ["sub"]);
    let mut odd = FileTree::default();
    odd.add("a_test.py");
    assert_eq!(name(&odd, Some("pytest")).unwrap(), "pytest");
    assert!(name(&odd, None).is_err());
    let nowhere = name(&FileTree::default(), Some("pytest")).unwrap_err().to_string();
    let wanted = "no pytest project detected in the workspace: one is recognised by pytest.ini, .pytest.ini, pytest.toml, \
                  .pytest.toml, conftest.py, pytest's settings in pyproject.toml, tox.ini, setup.cfg, or files named test*.py \
                  or *_test.py";
    assert_eq!(nowhere, wanted);
    let for_pytest = name(&tree("[tool.pytest]"), Some("unittest")).unwrap_err().to_string();
    assert!(for_pytest.contains("recognised by files named test*.py, without pytest.ini, "), "{for_pytest}");
}

/// Each step as `dir: arguments`, without the arguments that all steps have.
fn steps(framework: &dyn Framework, selection: &Selection) -> Vec<String> {
    let line = |step: &Step| {
        let line = format!("{}: {}", step.dir, step.args.join(" "));
        let cache = format!("-o cache_dir=/cache/pytest/workspace/{}", step.dir);
        line.replace("-m proctor_start pytest -p proctor_pytest ", "")
            .replace(&cache, "")
            .replace("-m proctor_start proctor_unittest ", "")
    };
    plan(framework, selection).steps.iter().map(|step| line(step).replace(":  ", ": ").trim_end().to_owned()).collect()
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let files = files.iter().map(|file| (*file).to_owned()).collect();
    Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
}

fn exactly(targets: &[(&str, &str)]) -> Selection {
    let target = |(package, name): &(&str, &str)| match *name {
        "" => RerunTarget::Package((*package).to_owned()),
        name => RerunTarget::Test(TestId { package: (*package).to_owned(), name: name.to_owned() }),
    };
    Selection::Exactly(targets.iter().map(target).collect())
}

/// The selection files of the steps, as JSON.
fn selected(plan: &Plan) -> Vec<String> {
    let files = plan.files.iter().filter(|file| file.path.ends_with(".json"));
    files.map(|file| format!("{} {}", file.path, String::from_utf8_lossy(&file.bytes))).collect()
}

#[test]
fn selects_everything() {
    assert_eq!(steps(&Pytest, &Selection::All), [": --ignore=./sub", "sub:"]);
    assert_eq!(steps(&Unittest, &Selection::All), [": ./", ": ./slow", "sub: ./"]);
    let plan = plan(&Pytest, &Selection::All);
    let files: Vec<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["pytest/proctor.zip", "pytest/proctor_lines.so"]);
    assert!(plan.dirs.contains(&"artifacts/pytest-lines".to_owned()), "{:?}", plan.dirs);
    let programs =
        [".venv/bin/python", "venv/bin/python", "../.venv/bin/python", "../venv/bin/python", "python3", "python"];
    assert_eq!(plan.steps[1].programs, programs);
    let env: Vec<String> = plan.steps[0].env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let wanted = [
        "HYPOTHESIS_STORAGE_DIRECTORY=/cache/hypothesis/workspace",
        "PROCTOR_COVERAGE=/scratch/artifacts/pytest-lines",
        "PROCTOR_OUTPUT=/scratch/artifacts/kept/pytest-0",
        "PROCTOR_REPORT=/scratch/report",
        "PROCTOR_WORKSPACE=/workspace",
        "PYTHONPATH=/scratch/pytest/proctor.zip",
        "PYTHONPYCACHEPREFIX=/cache/pycache",
    ];
    assert_eq!(env, wanted);
    let tree = tree_of(&Pytest);
    let without = PlanRequest { is_measured: false, ..want(&Selection::All) };
    let plan = Pytest.plan(&Pytest.detect(&tree), &tree, &without).unwrap();
    assert_eq!((plan.files.len(), plan.steps[0].env.contains_key("PROCTOR_COVERAGE")), (1, false));
    let listing = Pytest.plan_listing(&Pytest.detect(&tree), &tree, &want(&Selection::All)).unwrap();
    assert!(!listing.steps[0].env.contains_key("PROCTOR_COVERAGE"));
}

#[test]
fn unittest_starts_above_a_package_with_load_tests() {
    let mut tree = tree("[project]");
    tree.add("lib/pkg/__init__.py");
    tree.add_with_content("lib/pkg/tests/__init__.py", "def load_tests(loader, tests, pattern): ...");
    tree.add("lib/pkg/tests/check_a.py");
    let starts = |selection: &Selection| -> Vec<String> {
        let plan = Unittest.plan(&Unittest.detect(&tree), &tree, &want(selection)).unwrap();
        plan.steps.iter().map(|step| step.args[3].clone()).collect()
    };
    assert_eq!(starts(&Selection::All), ["./", "./lib", "./slow", "./"]);
    assert_eq!(starts(&matching("", &["lib/pkg/tests/check_a.py"])), ["./lib"]);
    assert!(Unittest.is_marker_path("lib/pkg/tests/__init__.py") && !Unittest.is_marker_path("lib/pkg/__init__.py"));
}

#[test]
fn unittest_does_not_start_in_environments_and_build_output() {
    let mut tree = tree("[project]");
    for file in ["env/pyvenv.cfg", "env/lib/x/test_a.py", "venv/x/test_a.py", "build/lib/test_a.py", ".tox/test_a.py"] {
        tree.add(file);
    }
    let plan = Unittest.plan(&Unittest.detect(&tree), &tree, &want(&Selection::All)).unwrap();
    let starts: Vec<&str> = plan.steps.iter().map(|step| step.args[3].as_str()).collect();
    assert_eq!(starts, ["./", "./slow", "./"]);
}

#[test]
fn a_filter_is_one_argument_and_files_cannot_be_options() {
    let filter = matching("a and not @b", &[]);
    assert_eq!(steps(&Pytest, &filter), [": -k=a and not @b --ignore=./sub", "sub: -k=a and not @b"]);
    assert_eq!(steps(&Unittest, &filter)[2], "sub: ./ -k=a and not @b");
    let files = matching("x", &["tests/test_x.py", "sub/test_z.py"]);
    assert_eq!(steps(&Pytest, &files), [": -k=x ./tests/test_x.py", "sub: -k=x ./test_z.py"]);
    assert_eq!(steps(&Unittest, &files), [": ./ -k=x", "sub: ./ -k=x"]);
    assert_eq!(selected(&plan(&Unittest, &files))[0], r#"unittest/0.json {"tests/test_x.py":[""]}"#);
    let odd = matching("", &["@x_test.py", "-x_test.py"]);
    assert_eq!(steps(&Pytest, &odd), [": ./-x_test.py ./@x_test.py"]);
}

#[test]
fn selects_exactly_the_failed_tests() {
    let failed = exactly(&[
        ("tests/test_x.py", "test_a[x y]"),
        ("tests/test_x.py", "test_b/(i=1)"),
        ("slow/test_y.py", ""),
        ("sub/test_z.py", "T::test_c"),
    ]);
    assert_eq!(steps(&Pytest, &failed), [": ./slow/test_y.py ./tests/test_x.py", "sub: ./test_z.py"]);
    let exact = plan(&Pytest, &failed);
    let tests = r#"{"slow/test_y.py":[""],"tests/test_x.py":["test_a[x y]","test_b/(i=1)"]}"#;
    let wanted = [format!("pytest/0.json {tests}"), r#"pytest/1.json {"test_z.py":["T::test_c"]}"#.to_owned()];
    assert_eq!(selected(&exact), wanted);
    assert_eq!(exact.steps[1].env["PROCTOR_SELECTION"], "/scratch/pytest/1.json");
    assert_eq!(steps(&Unittest, &failed), [": ./", ": ./slow", "sub: ./"]);
    assert_eq!(selected(&plan(&Unittest, &failed))[0], format!("unittest/0.json {tests}"));
    assert_eq!(
        steps(&Pytest, &exactly(&[(".", "")])),
        [":"],
        "settings that were not understood: the whole of it, as at first"
    );
}

#[test]
fn searches_all_test_files_for_a_failure_outside_of_test_files() {
    let brought = exactly(&[("src/calc.py", "calc.add")]);
    assert_eq!(steps(&Unittest, &brought), [": ./", ": ./slow"], "a doctest that a `load_tests` brought along");
    assert_eq!(selected(&plan(&Unittest, &brought))[0], r#"unittest/0.json {"src/calc.py":["calc.add"]}"#);
    for framework in [&Pytest as &dyn Framework, &Unittest] {
        let gone = exactly(&[("tests/test_x.py", "test_a"), ("usr/lib/python3/doctest.py", "lib.add")]);
        assert_eq!(steps(framework, &gone), steps(framework, &Selection::All));
        assert!(selected(&plan(framework, &gone)).is_empty());
    }
}

#[test]
fn plans_listings_and_parallel_tests() {
    for (framework, wanted) in
        [(&Pytest as &dyn Framework, ["--collect-only", "-q"].as_slice()), (&Unittest, ["--list"].as_slice())]
    {
        let tree = tree_of(framework);
        let listing = framework.plan_listing(&framework.detect(&tree), &tree, &want(&Selection::All)).unwrap();
        assert!(wanted.iter().all(|word| listing.steps[0].args.iter().any(|argument| argument == word)));
        let parallel = PlanRequest { parallel: Some(3), ..want(&Selection::All) };
        let plan = framework.plan(&framework.detect(&tree), &tree, &parallel).unwrap();
        let parallel = plan.steps[0].env.get("PROCTOR_PARALLEL").map(String::as_str);
        assert_eq!(parallel, (framework.name() == "pytest").then_some("3"));
    }
}

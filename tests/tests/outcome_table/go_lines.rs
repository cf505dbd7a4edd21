//! The lines that each test of Go executes, compared with a process for each test.

use proctor_core::coverage::{Attribution, CoverageIndex};
use proctor_tests::process::{ProcessOutput, command, search_path, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, copy_go_library, find_on_path, go_build_cache, write_before_run};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Tests by package; the two of `TOGETHER` wait for each other.
const TESTS: &[(&str, &[&str])] = &[
    ("price", &["TestTax", "TestRounded", "TestSkipped"]),
    ("store", &["TestLeft", "TestRight", "TestName", "TestNothing", "ExampleName", "FuzzSize"]),
];
const TOGETHER: [&str; 2] = ["TestLeft", "TestRight"];

/// File and line.
type Place = (String, u32);

/// Lines that `TestMain` of `store` executes behind all tests, when the toolchain's own profile is written already.
const BEHIND_TESTS: std::ops::RangeInclusive<u32> = 15..=17;

fn run(workspace: &TestWorkspace) -> Value {
    let mut proctor = workspace.command("proctor");
    proctor.args(["run", "--parallel", "2", "--output", "json"]);
    let output = wait_for_exit(proctor.spawn().unwrap());
    let report = output.json();
    assert_eq!((output.status, &report["outcome"]), (0, &json!("passed")), "{output:?}");
    report
}

fn index(workspace: &TestWorkspace) -> CoverageIndex {
    let entries = std::fs::read_dir(workspace.root().join("state/proctor")).unwrap();
    let mut stored = entries.map(|entry| entry.unwrap().path().join("memory.json"));
    let memory = std::fs::read(stored.find(|file| file.exists()).unwrap()).unwrap();
    let memory: Value = serde_json::from_slice(&memory).unwrap();
    serde_json::from_value(memory["coverage"].clone()).unwrap()
}

fn go(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    let mut go = command(&find_on_path("go"));
    go.args(arguments).current_dir(&workspace.path).env("PATH", std::env::var_os("PATH").unwrap());
    go.env("GOCACHE", go_build_cache()).env("GOPROXY", "off").env("GOTOOLCHAIN", "local").env("GOFLAGS", "-modcacherw");
    go.env("HOME", workspace.root()).env("ALONE", "1");
    go.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wait_for_exit(go.spawn().unwrap())
}

/// The lines with a count in the profile of a process that runs only this test.
fn executed_alone(workspace: &TestWorkspace, package: &str, test: &str) -> BTreeSet<Place> {
    let profile = workspace.root().join("profile");
    let [run, file] = [format!("-run=^{test}$"), format!("-coverprofile={}", profile.display())];
    let package = format!("./{package}");
    let output = go(workspace, &["test", "-count=1", "-covermode=atomic", "-coverpkg=./...", &run, &file, &package]);
    assert_eq!(output.status, 0, "{output:?}");
    let mut places = BTreeSet::new();
    for block in std::fs::read_to_string(profile).unwrap().lines().skip(1).filter(|block| !block.ends_with(" 0")) {
        // `example.com/lines/store/store.go:8.13,10.2 1 1`
        let (file, range) = block.split_once(':').unwrap();
        let file = file.strip_prefix("example.com/lines/").unwrap();
        let mut ends = range.split([',', ' ']).map(|end| end.split('.').next().unwrap().parse::<u32>().unwrap());
        let (first, last) = (ends.next().unwrap(), ends.next().unwrap());
        places.extend((first..=last).map(|line| (file.to_owned(), line)));
    }
    places
}

/// The lines of each test in the index, by package and name.
fn measured(index: &CoverageIndex) -> BTreeMap<(String, String), BTreeSet<Place>> {
    let mut measured: BTreeMap<(String, String), BTreeSet<Place>> = BTreeMap::new();
    for file in index.file_names() {
        for line in 1..200 {
            for test in index.covering(file, Some(line)).tests {
                let package = test.package.strip_prefix("example.com/lines/").unwrap().to_owned();
                measured.entry((package, test.name)).or_default().insert((file.to_owned(), line));
            }
        }
    }
    measured
}

#[test]
fn each_test_has_the_lines_of_a_process_of_its_own() {
    let workspace = TestWorkspace::with_fixture("go/lines");
    let report = run(&workspace);
    let note =
        "2 test(s) ran at the same time as others of their package (t.Parallel): each has the lines that ran meanwhile";
    assert_eq!(report["coverage"]["notes"], json!([note]), "{report}");
    let index = index(&workspace);
    let measured = measured(&index);
    let behind_tests = |package: &str| -> BTreeSet<Place> {
        BEHIND_TESTS.filter(|_| package == "store").map(|line| ("store/store.go".to_owned(), line)).collect()
    };
    let alone: BTreeMap<(&str, &str), BTreeSet<Place>> = TESTS
        .iter()
        .flat_map(|(package, tests)| tests.iter().map(move |test| (*package, *test)))
        .map(|(package, test)| ((package, test), &executed_alone(&workspace, package, test) | &behind_tests(package)))
        .collect();
    let together: BTreeSet<Place> = TOGETHER.iter().flat_map(|test| alone[&("store", *test)].iter().cloned()).collect();
    assert_eq!(measured.len(), alone.len(), "{:?}", measured.keys());
    for ((package, test), alone) in &alone {
        let found = &measured[&((*package).to_owned(), (*test).to_owned())];
        assert!(found.len() > 3, "{test}: {found:?}");
        if TOGETHER.contains(test) {
            assert!(found.is_superset(alone) && found.is_subset(&together), "{test}: {found:?} and not {alone:?}");
        } else {
            assert_eq!(found, alone, "{test}");
        }
    }
}

#[test]
fn says_for_which_tests_a_line_is_not_known_alone() {
    let workspace = TestWorkspace::with_fixture("go/lines");
    run(&workspace);
    let covering = |place: &str| {
        let mut proctor = workspace.command("proctor");
        wait_for_exit(proctor.args(["covering", place]).spawn().unwrap()).stdout
    };
    let alone = covering("store/store.go:29");
    assert!(alone.contains("TestName") && !alone.contains("TestLeft") && !alone.contains("Example"), "{alone}");
    let index = index(&workspace);
    let attribution = |file: &str, line| {
        let covering = index.covering(file, Some(line));
        let names: Vec<String> = covering.tests.into_iter().map(|test| test.name).collect();
        (covering.attribution.unwrap(), names.join(" "))
    };
    assert_eq!(attribution("price/price.go", 21), (Attribution::Test, "TestRounded".to_owned()));
    assert_eq!(attribution("store/store.go", 20).1, "TestLeft TestRight");
    assert_eq!(attribution("store/store.go", 20).0, Attribution::Package, "while two tests ran");
    let all_of_store = "ExampleName FuzzSize TestLeft TestName TestNothing TestRight";
    assert_eq!(attribution("store/store.go", 12), (Attribution::Package, all_of_store.to_owned()), "TestMain");
    assert_eq!(index.covering("price/price.go", Some(7)).tests.len(), 9, "while the package was loaded");
}

/// A program that starts the toolchain from elsewhere: its sources are not beside it. As another toolchain it would compile
/// Go's library for itself, which takes a minute; it refuses that, and has what is compiled already.
#[test]
fn a_toolchain_whose_sources_are_not_found_is_measured_by_package() {
    let workspace = TestWorkspace::with_fixture("go/lines");
    let bin = workspace.root().join("tools/bin");
    std::fs::create_dir_all(&bin).unwrap();
    let (go, cache) = (find_on_path("go").canonicalize().unwrap(), workspace.path.join(".go-build"));
    copy_go_library(&cache);
    let script = format!(
        "#!/bin/sh\ncase \"$PWD\" in */library) exit 1;; esac\nGOCACHE='{}' exec '{}' \"$@\"\n",
        cache.display(),
        go.display()
    );
    std::fs::write(bin.join("go"), script).unwrap();
    std::fs::set_permissions(bin.join("go"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = search_path();
    let dirs = [bin].into_iter().chain(std::env::split_paths(&path));
    let mut proctor = workspace.command("proctor");
    proctor.args(["run", "--parallel", "2", "--output", "json"]).env("PATH", std::env::join_paths(dirs).unwrap());
    let report = wait_for_exit(proctor.spawn().unwrap()).json();
    assert_eq!(report["outcome"], "passed", "{report}");
    let notes = report["evidence"]["notes"].as_array().unwrap();
    let note = "coverage is known by package, not by test: the toolchain's VERSION cannot be read";
    assert!(notes.contains(&json!(note)), "{notes:?}");
    let covering = index(&workspace).covering("store/store.go", Some(29));
    assert_eq!((covering.attribution, covering.tests.len()), (Some(Attribution::Package), 6));
}

/// Edits a file, and returns the tests that this affects, as `package Test`.
fn affected_by(workspace: &TestWorkspace, file: &str, old: &str, new: &str) -> Vec<String> {
    let path = workspace.path.join(file);
    let before = std::fs::read_to_string(&path).unwrap();
    assert_eq!(before.matches(old).count(), 1, "{old}");
    write_before_run(&workspace.path, file, &before.replace(old, new));
    let mut proctor = workspace.command("proctor");
    let answer = wait_for_exit(proctor.args(["affected", "--output", "json"]).spawn().unwrap()).json();
    write_before_run(&workspace.path, file, &before);
    let tests = answer["tests"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let text = |value: &Value| value.as_str().unwrap().replace("example.com/sample/", "");
    let mut names: Vec<String> =
        tests.iter().map(|test| format!("{} {}", text(&test["package"]), text(&test["name"]))).collect();
    names.sort();
    names
}

#[test]
fn an_edit_selects_the_tests_that_executed_the_function_or_needed_it_behind_a_cache() {
    let workspace = TestWorkspace::with_fixture("go/sample");
    std::fs::remove_dir_all(workspace.path.join("log")).unwrap();
    let report = run(&workspace);
    // What runs alone is in no report.
    assert_eq!(report["tests"].as_array().unwrap().len(), 9, "{report}");
    // On a busy host, some have no time; those of each run of the same files are kept.
    for _ in 0..20 {
        if index(&workspace).calibrated().1.len() == 6 {
            break;
        }
        run(&workspace);
    }
    let total = ["shop TestTotal", "shop TestTotal/10", "shop TestTotal/20", "shop TestTotal/30"];
    let all = [&["shop TestDouble", "shop TestFirst", "shop TestSecond", "shop TestThird"], &total[..]].concat();
    for (file, old, new, expected) in [
        ("shop/shop.go", "return 2 * amount", "return amount * 2", vec!["shop TestDouble"]),
        ("shop/shop.go", "return sum", "return sum + 0", total.to_vec()),
        ("shop/shop.go", "return sum", "sum += 0\n\treturn sum", total.to_vec()),
        // Executed by one test, and by each of the others that needs it when it runs alone.
        ("shop/shop.go", "return \"started\"", "return \"started\" + \"\"", vec!["shop TestFirst", "shop TestSecond"]),
        ("shop/shop.go", "\"b\": 20", "\"b\": 30", vec!["shop TestFirst", "shop TestThird"]),
        ("shop/shop.go", "once sync.Once", "once, other sync.Once", all),
        // `go test` vets only packages that it tests.
        ("price/price.go", "return amount / 10\n", "return amount / 11\n", [&["price TestRound"], &total[..]].concat()),
        ("price/price.go", "return amount / 10 * 10", "return amount", vec!["price TestRound"]),
    ] {
        assert_eq!(affected_by(&workspace, file, old, new), expected, "{new}");
    }
    // Tests that ran without others since are known, too, and subtests that are new run with their test.
    let tests = workspace.path.join("shop/shop.go");
    let text = std::fs::read_to_string(&tests).unwrap();
    write_before_run(&workspace.path, "shop/shop.go", &text.replace("return sum", "return sum + 1"));
    let mut proctor = workspace.command("proctor");
    proctor.args(["run", "--affected", "--output", "json"]);
    let report = wait_for_exit(proctor.spawn().unwrap()).json();
    assert_eq!((&report["outcome"], &report["affected"]["selected"]), (&json!("failed"), &json!(4)), "{report}");
    let why = report["affected"]["safe_because"].as_str().unwrap();
    assert!(why.contains("test(s) also ran alone"), "{why}");
    let mut now = affected_by(&workspace, "shop/shop.go", "return 2 * amount", "return amount * 2");
    now.retain(|test| !total.contains(&test.as_str()));
    assert_eq!(now, ["shop TestDouble"], "beside those that failed");
}

#[test]
fn no_test_runs_alone_if_one_wrote_in_the_workspace() {
    let workspace = TestWorkspace::with_fixture("go/sample");
    run(&workspace);
    let file = workspace.path.join("log/log.txt");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\n");
    // From here on the tests leave the file as it is.
    let log = std::fs::read_to_string(workspace.path.join("log/log.go")).unwrap();
    write_before_run(&workspace.path, "log/log.go", &log.replace("O_APPEND", "O_TRUNC"));
    run(&workspace);
    run(&workspace);
    let all = ["log TestAdd", "log TestIs"];
    assert_eq!(affected_by(&workspace, "log/log.go", "return one == other", "return other == one"), all);
    // Of none it is known what it needs of the others of its package.
    let affected = affected_by(&workspace, "shop/shop.go", "return 2 * amount", "return amount * 2");
    assert!(affected.len() == 8 && affected.iter().all(|test| test.starts_with("shop ")), "{affected:?}");
}

//! Go modules, run with `go test -json`. `.ci/tools gomodules` downloads the modules of `tests/gomodules.txt`.

use crate::project::{Breakage, Kind, Project, Runner, assert_kinds, check};
use crate::project_copy::ProjectCopy;
use crate::test_results::{SourceLocation, TestResults};
use proctor_tests::process::{ensure_installed, source_root};
use proctor_tests::test_workspace::{find_on_path, go_build_cache, go_modules};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

static PFLAG: Project = Project {
    name: "github.com/spf13/pflag@v1.0.10",
    tests_min: 150,
    runner: &Go,
    breakages: [
        Breakage::new(Kind::Value, "int.go", "strconv.Itoa(int(*i))", "strconv.Itoa(int(*i) + 1)"),
        Breakage::new(Kind::BuildError, "int.go", "strconv.Itoa(int(*i))", "strconv.Itoa(*i)"),
    ],
};

static GO_CMP: Project = Project {
    name: "github.com/google/go-cmp@v0.7.0",
    tests_min: 600,
    runner: &Go,
    breakages: [
        Breakage::new(
            Kind::OffByOne,
            "cmp/report_compare.go",
            "const numContextRecords = 2",
            "const numContextRecords = 1",
        ),
        Breakage::new(Kind::Throws, "cmp/internal/value/sort.go", "return !x.Bool() && y.Bool()", "panic(\"seeded\")"),
    ],
};

static MUX: Project = Project {
    name: "github.com/gorilla/mux@v1.8.1",
    tests_min: 300,
    runner: &Go,
    breakages: [
        Breakage::new(Kind::Branch, "route.go", "if len(schemes) > 0 {", "if len(schemes) > 9 {"),
        Breakage::new(Kind::BuildError, "route.go", "return matchInArray(m, r.Method)", "return matchInArray(m, r)"),
    ],
};

struct Go;

impl Runner for Go {
    fn source(&self, project: &str) -> PathBuf {
        ensure_installed("gomodules");
        go_modules().join(project)
    }

    fn run_directly(&self, copy: &ProjectCopy) -> TestResults {
        let env = [
            ("PATH", std::env::var_os("PATH").unwrap()),
            ("GOCACHE", go_build_cache().into()),
            ("GOMODCACHE", go_modules().into()),
            ("GOPROXY", "off".into()),
            ("GOTOOLCHAIN", "local".into()),
        ];
        let output = copy.run_program(&find_on_path("go"), &["test", "-json", "-count=1", "-fullpath", "./..."], &env);
        let mut results = TestResults::default();
        let mut unfinished = BTreeSet::new();
        let mut printed: BTreeMap<String, String> = BTreeMap::new();
        for line in output.stdout.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| event[name].as_str().unwrap_or_default();
            let test = format!("{}/{}", field("Package"), field("Test"));
            if matches!(field("Action"), "pass" | "fail" | "skip") {
                unfinished.remove(&test);
            }
            match (field("Action"), event["Test"].is_string()) {
                ("run", true) => _ = unfinished.insert(test),
                ("output", true) => printed.entry(test).or_default().push_str(field("Output")),
                ("pass", true) => results.add(&test, "passed"),
                ("fail", true) => results.add(&test, "failed"),
                ("skip", true) => results.add(&test, "skipped"),
                ("build-output", _) => results.build_errors.extend(location_in(copy, field("Output"))),
                _ => {}
            }
        }
        // A panic cuts off all tests that have started.
        unfinished.iter().for_each(|test| results.add(test, "error"));
        let failed: Vec<String> = results.failures.keys().cloned().collect();
        for (test, locations) in &mut results.failures {
            let printed = |test: &str| printed.get(test).map_or("", String::as_str);
            *locations = error_locations(copy, printed(test));
            let is_inner = |other: &String| other.strip_prefix(test).is_some_and(|rest| rest.starts_with('/'));
            if !failed.iter().any(is_inner) {
                // Go ends a subtest before its panic is printed, in the name of the parent.
                let outer = std::iter::successors(Some(test.as_str()), |test| Some(test.rsplit_once('/')?.0));
                locations.extend(outer.map(printed).find_map(|printed| panic_location(copy, printed)));
            }
        }
        results
    }

    fn key(&self, test: &Value) -> String {
        format!("{}/{}", test["package"].as_str().unwrap(), test["name"].as_str().unwrap())
    }

    fn reruns_with(&self, nodeid: &str, failed: &BTreeSet<&str>) -> bool {
        // Go cannot leave out a test whose name is a prefix of a failed one's.
        failed.iter().any(|failed| failed.strip_prefix(nodeid).is_some_and(|rest| rest.starts_with('/')))
    }
}

/// Locations in `    /ws/x_test.go:12: text`, which Go prints for errors and logs alike.
fn error_locations(copy: &ProjectCopy, printed: &str) -> BTreeSet<SourceLocation> {
    printed.lines().filter_map(|line| location_in(copy, line.strip_prefix("    ")?.trim_start())).collect()
}

/// Location of the innermost frame in the module, `\t/ws/x.go:12 +0x1d`, after the message of a panic.
fn panic_location(copy: &ProjectCopy, printed: &str) -> Option<SourceLocation> {
    let trace = printed[printed.find("panic: ")?..].lines();
    trace.filter_map(|line| line.strip_prefix('\t')).find_map(|frame| location_in(copy, frame))
}

/// Location at the start of a text, `/ws/x.go:12`, as in compiler messages.
fn location_in(copy: &ProjectCopy, text: &str) -> Option<SourceLocation> {
    let (file, rest) = text.split_once(".go:")?;
    copy.location(&format!("{file}.go"), rest.split(|char: char| !char.is_ascii_digit()).next()?)
}

#[test]
fn pflag() {
    check(&PFLAG);
}

#[test]
fn go_cmp() {
    check(&GO_CMP);
}

#[test]
fn mux() {
    check(&MUX);
}

#[test]
fn every_listed_module_has_a_test() {
    let list = std::fs::read_to_string(source_root().join("tests/gomodules.txt")).unwrap();
    let driven: BTreeSet<&str> = [&PFLAG, &GO_CMP, &MUX].map(|project| project.name).into();
    assert_eq!(list.lines().collect::<BTreeSet<_>>(), driven);
}

#[test]
fn bugs_of_each_kind_are_seeded() {
    assert_kinds(&[&[&PFLAG, &GO_CMP, &MUX]]);
}

//! Go modules, and what `go test -json` says of them. `.ci/tools gomodules` downloads the modules of `tests/gomodules.txt`.

use crate::project::{Breakage, Kind, Project, Runner, check};
use crate::project_copy::Scene;
use crate::test_results::{Account, TestWorkspace};
use proctor_tests::process::{ensure_installed, source_root};
use proctor_tests::test_workspace::{go_build_cache, go_modules, on_path};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

static PFLAG: Project = Project {
    name: "github.com/spf13/pflag@v1.0.10",
    tests_min: 150,
    runner: &Go,
    breakages: [
        Breakage::new(Kind::Value, "int.go", "strconv.Itoa(int(*i))", "strconv.Itoa(int(*i) + 1)"),
        Breakage::new(Kind::OffByOne, "flag.go", "name := s[2:]", "name := s[1:]"),
        Breakage::new(Kind::Branch, "bool_slice.go", "if !s.changed {", "if false {"),
        Breakage::new(
            Kind::Throws,
            "string_slice.go",
            "\tstr, _ := writeAsCSV(",
            "\tpanic(\"seeded\"); str, _ := writeAsCSV(",
        ),
        Breakage::new(Kind::Unbuilt, "int.go", "strconv.Itoa(int(*i))", "strconv.Itoa(*i)"),
    ],
};

static GO_CMP: Project = Project {
    name: "github.com/google/go-cmp@v0.7.0",
    tests_min: 600,
    runner: &Go,
    breakages: [
        Breakage::new(Kind::Value, "cmp/cmpopts/equate.go", "return !x.Add(a.margin)", "return x.Add(a.margin)"),
        Breakage::new(
            Kind::OffByOne,
            "cmp/report_compare.go",
            "const numContextRecords = 2",
            "const numContextRecords = 1",
        ),
        Breakage::new(Kind::Branch, "cmp/cmpopts/sort.go", "return !ok1 || !ok2", "return !ok1 && !ok2"),
        Breakage::new(Kind::Throws, "cmp/internal/value/sort.go", "return !x.Bool() && y.Bool()", "panic(\"seeded\")"),
        Breakage::new(Kind::Unbuilt, "cmp/cmpopts/equate.go", "return !x.Add(a.margin)", "return !x.Added(a.margin)"),
    ],
};

static MUX: Project = Project {
    name: "github.com/gorilla/mux@v1.8.1",
    tests_min: 300,
    runner: &Go,
    breakages: [
        Breakage::new(Kind::Value, "route.go", "return matchInArray(m, r.M", "return !matchInArray(m, r.M"),
        Breakage::new(Kind::OffByOne, "mux.go", "m[pairs[i]] = pairs[i+1]", "m[pairs[i]] = pairs[i]"),
        Breakage::new(Kind::Branch, "route.go", "if len(schemes) > 0 {", "if len(schemes) > 9 {"),
        Breakage::new(Kind::Throws, "regexp.go", "urlValues := make(", "panic(\"seeded\"); urlValues := make("),
        Breakage::new(Kind::Unbuilt, "route.go", "return matchInArray(m, r.Method)", "return matchInArray(m, r)"),
    ],
};

struct Go;

impl Runner for Go {
    fn source(&self, project: &str) -> PathBuf {
        ensure_installed("gomodules");
        go_modules().join(project)
    }

    fn plainly(&self, scene: &Scene) -> Account {
        let env = [
            ("PATH", std::env::var_os("PATH").unwrap()),
            ("GOCACHE", go_build_cache().into()),
            ("GOMODCACHE", go_modules().into()),
            ("GOPROXY", "off".into()),
            ("GOTOOLCHAIN", "local".into()),
        ];
        let said = scene.alone(&on_path("go"), &["test", "-json", "-count=1", "-fullpath", "./..."], &env);
        let mut account = Account::default();
        let mut unended = BTreeSet::new();
        let mut printed: BTreeMap<String, String> = BTreeMap::new();
        for line in said.stdout.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| event[name].as_str().unwrap_or_default();
            let test = format!("{}/{}", field("Package"), field("Test"));
            if matches!(field("Action"), "pass" | "fail" | "skip") {
                unended.remove(&test);
            }
            match (field("Action"), event["Test"].is_string()) {
                ("run", true) => _ = unended.insert(test),
                ("output", true) => printed.entry(test).or_default().push_str(field("Output")),
                ("pass", true) => account.add(&test, "passed"),
                ("fail", true) => account.add(&test, "failed"),
                ("skip", true) => account.add(&test, "skipped"),
                ("build-output", _) => account.unbuilt.extend(place_in(scene, field("Output"))),
                _ => {}
            }
        }
        // A test that panics takes those with it that have begun.
        unended.iter().for_each(|test| account.add(test, "error"));
        let failed: Vec<String> = account.failures.keys().cloned().collect();
        for (test, places) in &mut account.failures {
            let printed = |test: &str| printed.get(test).map_or("", String::as_str);
            *places = errors_in(scene, printed(test));
            let is_inner = |other: &String| other.strip_prefix(test).is_some_and(|rest| rest.starts_with('/'));
            if !failed.iter().any(is_inner) {
                // Go ends an inner test before its panic is printed, in the name of the outer one.
                let outer = std::iter::successors(Some(test.as_str()), |test| Some(test.rsplit_once('/')?.0));
                places.extend(outer.map(printed).find_map(|printed| panic_in(scene, printed)));
            }
        }
        account
    }

    fn key(&self, test: &Value) -> String {
        format!("{}/{}", test["package"].as_str().unwrap(), test["name"].as_str().unwrap())
    }

    fn runs_with(&self, nodeid: &str, failed: &BTreeSet<&str>) -> bool {
        // Go cannot leave out a test whose name begins that of a failed one.
        failed.iter().any(|failed| failed.strip_prefix(nodeid).is_some_and(|rest| rest.starts_with('/')))
    }
}

/// `    /ws/x_test.go:12: text`, of an error or of a log: Go does not tell them apart.
fn errors_in(scene: &Scene, printed: &str) -> BTreeSet<TestWorkspace> {
    printed.lines().filter_map(|line| place_in(scene, line.strip_prefix("    ")?.trim_start())).collect()
}

/// The innermost frame in the module, `\t/ws/x.go:12 +0x1d`, behind the words of a panic.
fn panic_in(scene: &Scene, printed: &str) -> Option<TestWorkspace> {
    let trace = printed[printed.find("panic: ")?..].lines();
    trace.filter_map(|line| line.strip_prefix('\t')).find_map(|frame| place_in(scene, frame))
}

/// What begins with `/ws/x.go:12`, as what the compiler says does.
fn place_in(scene: &Scene, text: &str) -> Option<TestWorkspace> {
    let (file, rest) = text.split_once(".go:")?;
    scene.spot(&format!("{file}.go"), rest.split(|char: char| !char.is_ascii_digit()).next()?)
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
fn every_module_of_the_list_is_driven() {
    let list = std::fs::read_to_string(source_root().join("tests/gomodules.txt")).unwrap();
    let driven: BTreeSet<&str> = [&PFLAG, &GO_CMP, &MUX].map(|project| project.name).into();
    assert_eq!(list.lines().collect::<BTreeSet<_>>(), driven);
}

//! Modules that nobody here wrote, with more than a thousand tests: what `proctor run` reports is what `go test -json` says,
//! test by test, as they are and with a bug put in; and `--failed` runs again what failed and nothing else.
//!
//! `.ci/tools gomodules` downloads the modules of `tests/gomodules.txt`. Their copies have fixed places below the build
//! directory, so that what was compiled once stays compiled.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

use proctor_tests::place::{Place, cache_home, copy, go_modules, on_path, own_cache};
use proctor_tests::process::{Said, command, end_of, installed, sources};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A module, and how to break it.
struct Module {
    /// As in `tests/gomodules.txt`.
    name: &'static str,
    /// Tests that it has at least.
    tests_min: usize,
    /// A file, a text that occurs once in it, and what takes its place.
    bug: (&'static str, &'static str, &'static str),
}

const PFLAG: Module = Module {
    name: "github.com/spf13/pflag@v1.0.10",
    tests_min: 150,
    bug: ("int.go", "strconv.Itoa(int(*i))", "strconv.Itoa(int(*i) + 1)"),
};

const GO_CMP: Module = Module {
    name: "github.com/google/go-cmp@v0.7.0",
    tests_min: 600,
    bug: ("cmp/cmpopts/equate.go", "return !x.Add(a.margin).Before(y)", "return x.Add(a.margin).Before(y)"),
};

const MUX: Module = Module {
    name: "github.com/gorilla/mux@v1.8.1",
    tests_min: 300,
    bug: ("route.go", "return matchInArray(m, r.Method)", "return !matchInArray(m, r.Method)"),
};

/// How often a test came to what; a name can come several times.
type Outcomes = BTreeMap<(String, String, String), usize>;

struct Scene {
    module: &'static Module,
    workspace: PathBuf,
    place: Place,
}

impl Scene {
    fn of(module: &'static Module) -> Scene {
        installed("gomodules");
        let place = Place::empty();
        let short = module.name.rsplit('/').next().unwrap();
        let workspace = cache_home().parent().unwrap().join("modules").join(short);
        _ = fs::remove_dir_all(&workspace);
        copy(&go_modules().join(module.name), &workspace);
        Scene { module, workspace, place }
    }

    /// What the go tool itself says, with the same caches and as little of our environment.
    fn plainly(&self) -> Outcomes {
        let mut go = command(&on_path("go"));
        let dir = |name: &str| self.place.root().join(name);
        go.args(["test", "-json", "-count=1", "./..."])
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", dir("home"))
            .env("TMPDIR", dir("home"))
            .env("GOCACHE", own_cache().join("go-build"))
            .env("GOMODCACHE", go_modules())
            .env("GOPROXY", "off")
            .env("GOTOOLCHAIN", "local")
            .current_dir(&self.workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let said = end_of(go.spawn().unwrap());
        let mut outcomes = Outcomes::new();
        for line in said.stdout.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let outcome = match event["Action"].as_str() {
                Some("pass") => "passed",
                Some("fail") => "failed",
                Some("skip") => "skipped",
                _ => continue,
            };
            if let Some(test) = event["Test"].as_str() {
                *outcomes.entry(key(event["Package"].as_str().unwrap(), test, outcome)).or_default() += 1;
            }
        }
        assert!(outcomes.values().sum::<usize>() >= self.module.tests_min, "{said:?}");
        outcomes
    }

    fn proctor(&self, more: &[&str]) -> (Said, Value) {
        let mut arguments = vec!["run", self.workspace.to_str().unwrap(), "--output", "json"];
        arguments.extend(more);
        let said = self.place.proctor(&arguments);
        assert!(!said.stdout.is_empty(), "{said:?}");
        let report = said.json();
        (said, report)
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.workspace.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {file}");
        fs::write(path, text.replace(from, to)).unwrap();
    }
}

fn key(package: &str, test: &str, outcome: &str) -> (String, String, String) {
    (package.to_owned(), test.to_owned(), outcome.to_owned())
}

fn outcomes(report: &Value) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for test in report["tests"].as_array().unwrap() {
        let field = |name: &str| test[name].as_str().unwrap();
        *outcomes.entry(key(field("package"), field("name"), field("outcome"))).or_default() += 1;
    }
    outcomes
}

fn assert_same(plain: &Outcomes, report: &Value) {
    let ours = outcomes(report);
    let only = |a: &Outcomes, b: &Outcomes| -> Vec<String> {
        a.iter().filter(|(test, times)| b.get(test) != Some(times)).map(|entry| format!("{entry:?}")).collect()
    };
    let (theirs, ours_alone) = (only(plain, &ours), only(&ours, plain));
    assert!(theirs.is_empty() && ours_alone.is_empty(), "go test alone: {theirs:#?}\nproctor alone: {ours_alone:#?}");
    let failed = plain.iter().filter(|(test, _)| test.2 == "failed").map(|(_, times)| times).sum::<usize>();
    assert_eq!(report["summary"]["failed"].as_u64().unwrap(), failed as u64);
    assert_eq!(report["outcome"], if failed == 0 { "passed" } else { "failed" });
    assert_eq!(report["collectors"].as_array().unwrap().len(), 0, "{}", report["collectors"]);
}

// Every place that is named is one.
fn assert_places(report: &Value, workspace: &Path) {
    for test in report["tests"].as_array().unwrap() {
        if let Some(file) = test["file"].as_str() {
            let text = fs::read_to_string(workspace.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let line = usize::try_from(test["line"].as_u64().unwrap()).unwrap();
            assert!((1..=text.lines().count()).contains(&line), "{file}:{line}");
        }
    }
}

fn failed(report: &Value) -> BTreeSet<&str> {
    let tests = report["tests"].as_array().unwrap().iter();
    tests.filter(|test| test["outcome"] == "failed").map(|test| test["nodeid"].as_str().unwrap()).collect()
}

fn check(module: &'static Module) {
    let scene = Scene::of(module);
    let plain = scene.plainly();
    let (said, report) = scene.proctor(&[]);
    assert_same(&plain, &report);
    assert_places(&report, &scene.workspace);
    let (file, from, to) = module.bug;
    assert_eq!(said.status, 0, "{said:?}");

    scene.edit(file, from, to);
    let (said, broken) = scene.proctor(&[]);
    assert_eq!(said.status, 1);
    assert_same(&scene.plainly(), &broken);
    assert_places(&broken, &scene.workspace);
    assert!(!failed(&broken).is_empty());

    let (said, again) = scene.proctor(&["--failed"]);
    assert_eq!(said.status, 1);
    assert_eq!(failed(&again), failed(&broken));
    for test in again["tests"].as_array().unwrap() {
        let nodeid = test["nodeid"].as_str().unwrap();
        let needed = failed(&broken).iter().any(|failed| {
            // Go cannot leave out a test whose name begins that of a failed one.
            failed.strip_prefix(nodeid).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        assert!(needed, "{nodeid} ran again although it had not failed");
    }

    scene.edit(file, to, from);
    let (said, mended) = scene.proctor(&["--failed"]);
    assert_eq!((said.status, mended["outcome"].as_str()), (0, Some("passed")));
    assert_eq!(mended["tests"].as_array().unwrap().len(), again["tests"].as_array().unwrap().len());
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
    let list = fs::read_to_string(sources().join("tests/gomodules.txt")).unwrap();
    let driven: BTreeSet<&str> = [PFLAG, GO_CMP, MUX].iter().map(|module| module.name).collect();
    assert_eq!(list.lines().collect::<BTreeSet<_>>(), driven);
}

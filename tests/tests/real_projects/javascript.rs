//! JavaScript and TypeScript projects, run with Jest, Mocha, Vitest and Node's own test runner.
//! `.ci/tools jsprojects` installs the projects of `tests/node/projects` and the runners that they are written for.

use crate::project::{Breakage, Kind, Project, Runner, assert_kinds, check};
use crate::project_copy::ProjectCopy;
use crate::test_results::{SourceLocation, TestResults};
use proctor_tests::process::{ProcessOutput, ensure_installed, search_path, source_root, tools};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

static CSS_TO_REACT_NATIVE: Project = Project {
    name: "css-to-react-native@3.2.0",
    tests_min: 250,
    runner: &JEST,
    breakages: [
        Breakage::new(
            Kind::Value,
            "src/index.js",
            "if (numberMatch !== null) return Number(numberMatch[1])",
            "if (numberMatch !== null) return numberMatch[1]",
        ),
        Breakage::new(
            Kind::BuildError,
            "src/TokenStream.js",
            "const node = this.nodes[this.index]\n\n",
            "const node = = 1\n\n",
        ),
    ],
};

static CSS_WHAT: Project = Project {
    name: "css-what@8.0.0",
    tests_min: 900,
    runner: &VITEST,
    breakages: [
        Breakage::new(
            Kind::OffByOne,
            "src/parse.ts",
            "selector.slice(start, selectorIndex++),",
            "selector.slice(start + 1, selectorIndex++),",
        ),
        Breakage::new(Kind::BuildError, "src/parse.ts", "let tokens: Selector[] = [];", "let tokens: Selector[] = ;"),
    ],
};

static MERGE_JSON_SCHEMAS: Project = Project {
    name: "@fastify/merge-json-schemas@0.2.2",
    tests_min: 130,
    runner: &NODE,
    breakages: [
        Breakage::new(
            Kind::Throws,
            "lib/resolvers.js",
            "  mergedSchema[keyword] = Math.min(...values)",
            "  throw new RangeError('seeded')",
        ),
        Breakage::new(Kind::BuildError, "lib/resolvers.js", "const gcd = (a, b) =>", "const gcd = (a, b) = >"),
    ],
};

static OBJECT_PATH: Project = Project {
    name: "object-path@0.11.8",
    tests_min: 90,
    runner: &MOCHA,
    breakages: [
        Breakage::new(
            Kind::Branch,
            "index.js",
            "function set (obj, path, value, doNotReplace) {\n      if (typeof path === 'number') {",
            "function set (obj, path, value, doNotReplace) {\n      if (false) {",
        ),
        Breakage::new(Kind::BuildError, "index.js", "  function getKey (key) {", "  function getKey (key {"),
    ],
};

/// A JavaScript test runner.
struct JavaScript {
    /// Runs the project's tests without proctor.
    run: fn(&ProjectCopy) -> TestResults,
    /// Configuration files that the published project lacks.
    missing_files: &'static [(&'static str, &'static str)],
}

/// The project of Jest is published without the Babel configuration that converts its ES modules.
static JEST: JavaScript = JavaScript {
    run: jest,
    missing_files: &[("babel.config.json", r#"{"plugins": ["@babel/plugin-transform-modules-commonjs"]}"#)],
};
static MOCHA: JavaScript = JavaScript { run: mocha, missing_files: &[] };
static NODE: JavaScript = JavaScript { run: node, missing_files: &[] };
static VITEST: JavaScript = JavaScript { run: vitest, missing_files: &[] };

impl Runner for JavaScript {
    fn source(&self, project: &str) -> PathBuf {
        ensure_installed("jsprojects");
        packages().join(project.rsplit_once('@').unwrap().0)
    }

    fn prepare(&self, workspace: &Path) {
        symlink(packages(), workspace.join("node_modules")).unwrap();
        for (file, content) in self.missing_files {
            fs::write(workspace.join(file), content).unwrap();
        }
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let path = search_path();
        let path = std::env::split_paths(&path).chain([tools().join("jsprojects/bin")]);
        vec![("PATH", std::env::join_paths(path).unwrap())]
    }

    fn run_directly(&self, copy: &ProjectCopy) -> TestResults {
        (self.run)(copy)
    }

    fn key(&self, test: &Value) -> String {
        key(test["package"].as_str().unwrap(), test["name"].as_str().unwrap())
    }
}

/// Joins titles with blanks as Mocha does, and collapses white space, which XML attributes do not preserve. proctor shows
/// control characters by their pictures.
fn key(file: &str, name: &str) -> String {
    let name = name.replace(" > ", " ").replace(['␉', '␊', '␋', '␌', '␍'], " ");
    format!("{file}: {}", name.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn packages() -> PathBuf {
    tools().join("jsprojects/lib/node_modules")
}

/// Runs a program from the project's packages.
fn run_package(copy: &ProjectCopy, program: &str, arguments: &[&str]) -> ProcessOutput {
    let env = [("PATH", std::env::var_os("PATH").unwrap()), ("NO_COLOR", "1".into())];
    copy.run_program(&copy.workspace.join("node_modules/.bin").join(program), arguments, &env)
}

fn jest(copy: &ProjectCopy) -> TestResults {
    let output = run_package(copy, "jest", &["--json"]);
    let mut results = TestResults::default();
    for file in output.json()["testResults"].as_array().unwrap() {
        let name = copy.relative_path(file["name"].as_str().unwrap()).unwrap();
        let tests = file["assertionResults"].as_array().unwrap();
        if tests.is_empty() {
            results.build_errors.extend(babel_error_location(copy, file["message"].as_str().unwrap()));
        }
        for test in tests {
            let key = key(&name, test["fullName"].as_str().unwrap());
            let thrown = test["failureMessages"][0].as_str().unwrap_or_default();
            add(&mut results, &key, test["status"].as_str().unwrap(), locations_in(copy, thrown).first());
        }
    }
    results
}

/// Location in `SyntaxError: /ws/src/index.js: Unexpected token (12:3)`.
fn babel_error_location(copy: &ProjectCopy, message: &str) -> Option<SourceLocation> {
    let line = message.lines().find(|line| line.contains("SyntaxError: "))?;
    let (file, rest) = line.split_once("SyntaxError: ")?.1.split_once(": ")?;
    copy.location(file, rest.rsplit_once('(')?.1.split(':').next()?)
}

fn mocha(copy: &ProjectCopy) -> TestResults {
    let output = run_package(copy, "mocha", &["--reporter=json", "test.js"]);
    let mut results = TestResults::default();
    if output.stdout.is_empty() {
        results.build_errors.extend(locations_in(copy, &output.stderr).first().cloned());
        return results;
    }
    let report = output.json();
    for (list, outcome) in [("passes", "passed"), ("failures", "failed"), ("pending", "skipped")] {
        for test in report[list].as_array().unwrap() {
            let field = |name: &str| test[name].as_str().unwrap();
            let key = key(&copy.relative_path(field("file")).unwrap(), field("fullTitle"));
            add(
                &mut results,
                &key,
                outcome,
                locations_in(copy, test["err"]["stack"].as_str().unwrap_or_default()).first(),
            );
        }
    }
    results
}

fn node(copy: &ProjectCopy) -> TestResults {
    let (junit, spec) = (copy.home().join("junit.xml"), copy.home().join("spec.txt"));
    let destination = |path: &Path| format!("--test-reporter-destination={}", path.display());
    let arguments =
        ["--test", "--test-reporter=junit", &destination(&junit), "--test-reporter=spec", &destination(&spec)];
    run_package(copy, "node", &arguments);
    let mut results = TestResults::default();
    for case in read_junit(copy, &junit) {
        let file = copy.relative_path(&case.file).unwrap();
        if case.outcome == "failed" && case.name == file {
            // A file that could not be loaded is reported as a test.
            let words = fs::read_to_string(&spec).unwrap();
            results.build_errors.extend(locations_in(copy, &words).first().cloned());
            continue;
        }
        let name = if case.name == file { file.rsplit('/').next().unwrap() } else { case.name.as_str() };
        // Node escapes quotes twice.
        add(
            &mut results,
            &key(&file, &name.replace("&quot;", "\"")),
            &case.outcome,
            locations_in(copy, &case.text).first(),
        );
    }
    results
}

fn vitest(copy: &ProjectCopy) -> TestResults {
    let junit = copy.home().join("junit.xml");
    run_package(copy, "vitest", &["run", "--reporter=junit", &format!("--outputFile={}", junit.display())]);
    let mut results = TestResults::default();
    for case in read_junit(copy, &junit) {
        let location = locations_in(copy, &case.text).into_iter().next();
        if case.name == case.class {
            results.build_errors.extend(location);
        } else {
            add(&mut results, &key(&case.class, &case.name), &case.outcome, location.as_ref());
        }
    }
    results
}

fn add(results: &mut TestResults, test: &str, outcome: &str, location: Option<&SourceLocation>) {
    results.add(test, if outcome == "pending" { "skipped" } else { outcome });
    if let Some(locations) = results.failures.get_mut(test) {
        locations.extend(location.cloned());
    }
}

/// A `testcase` element of a JUnit file.
struct JunitCase {
    class: String,
    file: String,
    name: String,
    outcome: String,
    text: String,
}

/// Python program that prints the test cases of a JUnit file as JSON lines.
const READ_JUNIT: &str = "import json, sys, xml.etree.ElementTree as t
for case in t.parse(sys.argv[1]).iter('testcase'):
    found = [child for child in case if child.tag in ('failure', 'error', 'skipped')]
    outcome = {'failure': 'failed', 'error': 'failed', 'skipped': 'skipped'}[found[0].tag] if found else 'passed'
    text = ''.join(child.text or '' for child in found)
    print(json.dumps([case.get('classname'), case.get('file', ''), case.get('name'), outcome, text]))";

fn read_junit(copy: &ProjectCopy, junit: &Path) -> Vec<JunitCase> {
    let python = tools().join("pytest/bin/python");
    let read = copy.run_program(&python, &["-c", READ_JUNIT, junit.to_str().unwrap()], &[]);
    assert_eq!(read.status, 0, "{read:?}");
    let case = |line: &str| {
        let [class, file, name, outcome, text]: [String; 5] = serde_json::from_str(line).unwrap();
        JunitCase { class, file, name, outcome, text }
    };
    read.stdout.lines().map(case).collect()
}

/// Locations in the project that a stack or a compiler message names, in order: `(/ws/index.js:12:3)`,
/// `❯ src/parse.ts:12:3`, `/ws/index.js:12`.
fn locations_in(copy: &ProjectCopy, text: &str) -> Vec<SourceLocation> {
    let words = text.split(|char: char| char.is_whitespace() || "()".contains(char));
    let location = |word: &str| {
        let (at, ending) = [".js:", ".ts:"].iter().find_map(|ending| Some((word.find(ending)?, ending)))?;
        let digits = word[at + ending.len()..].split(|char: char| !char.is_ascii_digit()).next()?;
        copy.location(&word[..at + ending.len() - 1], digits)
    };
    words.filter_map(location).collect()
}

#[test]
fn css_to_react_native() {
    check(&CSS_TO_REACT_NATIVE);
}

#[test]
fn css_what() {
    check(&CSS_WHAT);
}

#[test]
fn merge_json_schemas() {
    check(&MERGE_JSON_SCHEMAS);
}

#[test]
fn object_path() {
    check(&OBJECT_PATH);
}

#[test]
fn every_listed_package_has_a_test() {
    let list = fs::read_to_string(source_root().join("tests/node/projects/package.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let named = |(name, version): (&String, &Value)| format!("{name}@{}", version.as_str().unwrap());
    let list: BTreeSet<String> = list["dependencies"].as_object().unwrap().iter().map(named).collect();
    let driven = [&CSS_TO_REACT_NATIVE, &CSS_WHAT, &MERGE_JSON_SCHEMAS, &OBJECT_PATH];
    assert_eq!(list, driven.map(|project| project.name.to_owned()).into());
}

#[test]
fn bugs_of_each_kind_are_seeded() {
    assert_kinds(&[&[&CSS_TO_REACT_NATIVE], &[&CSS_WHAT], &[&MERGE_JSON_SCHEMAS], &[&OBJECT_PATH]]);
}

//! JavaScript and TypeScript projects, and what Jest, Mocha, Vitest and Node's own test runner say of them.
//! `.ci/tools jsprojects` installs the projects of `tests/node/projects` and the runners that they are written for.

use crate::project::{Breakage, Kind, Project, Runner, check};
use crate::project_copy::Scene;
use crate::test_results::{Account, TestWorkspace};
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
            Kind::OffByOne,
            "src/transforms/util.js",
            "while (values.length < 4 &&",
            "while (values.length < 3 &&",
        ),
        Breakage::new(Kind::Branch, "src/index.js", "if (nullMatch !== null)", "if (false)"),
        Breakage::new(
            Kind::Throws,
            "src/index.js",
            "  if (isCustomProp) {",
            "  if (isCustomProp) { throw new Error('seeded')",
        ),
        Breakage::new(
            Kind::Unbuilt,
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
        Breakage::new(Kind::Value, "src/parse.ts", "        return unescapeCSS(name);", "        return name;"),
        Breakage::new(
            Kind::OffByOne,
            "src/parse.ts",
            "selector.slice(start, selectorIndex++),",
            "selector.slice(start + 1, selectorIndex++),",
        ),
        Breakage::new(Kind::Branch, "src/parse.ts", "if (endIndex < selector.length) {", "if (endIndex < 0) {"),
        Breakage::new(
            Kind::Throws,
            "src/parse.ts",
            "                addTraversal(SelectorType.Adjacent);",
            "                throw new RangeError('seeded');",
        ),
        Breakage::new(Kind::Unbuilt, "src/parse.ts", "let tokens: Selector[] = [];", "let tokens: Selector[] = ;"),
    ],
};

static MERGE_JSON_SCHEMAS: Project = Project {
    name: "@fastify/merge-json-schemas@0.2.2",
    tests_min: 130,
    runner: &NODE,
    breakages: [
        Breakage::new(
            Kind::Value,
            "lib/resolvers.js",
            "mergedSchema[keyword] = multiple / scale",
            "mergedSchema[keyword] = multiple",
        ),
        Breakage::new(
            Kind::OffByOne,
            "lib/resolvers.js",
            "  for (let i = 1; i < arrays.length; i++) {",
            "  for (let i = 2; i < arrays.length; i++) {",
        ),
        Breakage::new(Kind::Branch, "lib/resolvers.js", "if (!union.includes(value)) {", "if (true) {"),
        Breakage::new(
            Kind::Throws,
            "lib/resolvers.js",
            "  mergedSchema[keyword] = Math.min(...values)",
            "  throw new RangeError('seeded')",
        ),
        Breakage::new(Kind::Unbuilt, "lib/resolvers.js", "const gcd = (a, b) =>", "const gcd = (a, b) = >"),
    ],
};

static OBJECT_PATH: Project = Project {
    name: "object-path@0.11.8",
    tests_min: 90,
    runner: &MOCHA,
    breakages: [
        Breakage::new(Kind::Value, "index.js", "      return intKey\n", "      return key\n"),
        Breakage::new(
            Kind::OffByOne,
            "index.js",
            "      var currentPath = path[0]\n      var currentValue = getShallowPropertySafely(obj, currentPath)\n      if (path.length === 1) {\n        if (currentValue === void 0",
            "      var currentPath = path[0]\n      var currentValue = getShallowPropertySafely(obj, currentPath)\n      if (path.length === 2) {\n        if (currentValue === void 0",
        ),
        Breakage::new(
            Kind::Branch,
            "index.js",
            "function set (obj, path, value, doNotReplace) {\n      if (typeof path === 'number') {",
            "function set (obj, path, value, doNotReplace) {\n      if (false) {",
        ),
        Breakage::new(
            Kind::Throws,
            "index.js",
            "    var intKey = parseInt(key)\n",
            "    throw new RangeError('seeded'); var intKey\n",
        ),
        Breakage::new(Kind::Unbuilt, "index.js", "  function getKey (key) {", "  function getKey (key {"),
    ],
};

/// A runner of JavaScript tests.
struct JavaScript {
    /// What it says of its own.
    ask: fn(&Scene) -> Account,
    /// Files that the published projects lack, which have no settings of tools.
    lacking: &'static [(&'static str, &'static str)],
}

/// Its project is published without what tells Babel that its modules are no modules of Node's.
static JEST: JavaScript = JavaScript {
    ask: jest,
    lacking: &[("babel.config.json", r#"{"plugins": ["@babel/plugin-transform-modules-commonjs"]}"#)],
};
static MOCHA: JavaScript = JavaScript { ask: mocha, lacking: &[] };
static NODE: JavaScript = JavaScript { ask: node, lacking: &[] };
static VITEST: JavaScript = JavaScript { ask: vitest, lacking: &[] };

impl Runner for JavaScript {
    fn source(&self, project: &str) -> PathBuf {
        ensure_installed("jsprojects");
        packages().join(project.rsplit_once('@').unwrap().0)
    }

    fn prepare(&self, workspace: &Path) {
        symlink(packages(), workspace.join("node_modules")).unwrap();
        for (file, content) in self.lacking {
            fs::write(workspace.join(file), content).unwrap();
        }
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let path = search_path();
        let path = std::env::split_paths(&path).chain([tools().join("jsprojects/bin")]);
        vec![("PATH", std::env::join_paths(path).unwrap())]
    }

    fn plainly(&self, scene: &Scene) -> Account {
        (self.ask)(scene)
    }

    fn key(&self, test: &Value) -> String {
        key(test["package"].as_str().unwrap(), test["name"].as_str().unwrap())
    }
}

/// Titles have blanks between them, as Mocha joins them, and one for all white space, of which attributes of XML keep little.
fn key(file: &str, name: &str) -> String {
    let name = name.replace(" > ", " ");
    format!("{file}: {}", name.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn packages() -> PathBuf {
    tools().join("jsprojects/lib/node_modules")
}

/// Runs a program of the project's packages.
fn run(scene: &Scene, program: &str, arguments: &[&str]) -> ProcessOutput {
    let env = [("PATH", std::env::var_os("PATH").unwrap()), ("NO_COLOR", "1".into())];
    scene.alone(&scene.workspace.join("node_modules/.bin").join(program), arguments, &env)
}

fn jest(scene: &Scene) -> Account {
    let said = run(scene, "jest", &["--json"]);
    let mut account = Account::default();
    for file in said.json()["testResults"].as_array().unwrap() {
        let name = scene.own(file["name"].as_str().unwrap()).unwrap();
        let tests = file["assertionResults"].as_array().unwrap();
        if tests.is_empty() {
            account.unbuilt.extend(blamed_by_babel(scene, file["message"].as_str().unwrap()));
        }
        for test in tests {
            let key = key(&name, test["fullName"].as_str().unwrap());
            let thrown = test["failureMessages"][0].as_str().unwrap_or_default();
            add(&mut account, &key, test["status"].as_str().unwrap(), places_in(scene, thrown).first());
        }
    }
    account
}

/// `SyntaxError: /ws/src/index.js: Unexpected token (12:3)`.
fn blamed_by_babel(scene: &Scene, message: &str) -> Option<TestWorkspace> {
    let line = message.lines().find(|line| line.contains("SyntaxError: "))?;
    let (file, rest) = line.split_once("SyntaxError: ")?.1.split_once(": ")?;
    scene.spot(file, rest.rsplit_once('(')?.1.split(':').next()?)
}

fn mocha(scene: &Scene) -> Account {
    let said = run(scene, "mocha", &["--reporter=json", "test.js"]);
    let mut account = Account::default();
    if said.stdout.is_empty() {
        account.unbuilt.extend(places_in(scene, &said.stderr).first().cloned());
        return account;
    }
    let report = said.json();
    for (list, outcome) in [("passes", "passed"), ("failures", "failed"), ("pending", "skipped")] {
        for test in report[list].as_array().unwrap() {
            let field = |name: &str| test[name].as_str().unwrap();
            let key = key(&scene.own(field("file")).unwrap(), field("fullTitle"));
            add(
                &mut account,
                &key,
                outcome,
                places_in(scene, test["err"]["stack"].as_str().unwrap_or_default()).first(),
            );
        }
    }
    account
}

fn node(scene: &Scene) -> Account {
    let (junit, spec) = (scene.home().join("junit.xml"), scene.home().join("spec.txt"));
    let to = |path: &Path| format!("--test-reporter-destination={}", path.display());
    let arguments = ["--test", "--test-reporter=junit", &to(&junit), "--test-reporter=spec", &to(&spec)];
    run(scene, "node", &arguments);
    let mut account = Account::default();
    for case in cases(scene, &junit) {
        let file = scene.own(&case.file).unwrap();
        if case.outcome == "failed" && case.name == file {
            // A file that has no tests because it could not be loaded.
            let words = fs::read_to_string(&spec).unwrap();
            account.unbuilt.extend(places_in(scene, &words).first().cloned());
            continue;
        }
        let name = if case.name == file { file.rsplit('/').next().unwrap() } else { case.name.as_str() };
        // Node escapes quotes twice.
        add(
            &mut account,
            &key(&file, &name.replace("&quot;", "\"")),
            &case.outcome,
            places_in(scene, &case.text).first(),
        );
    }
    account
}

fn vitest(scene: &Scene) -> Account {
    let junit = scene.home().join("junit.xml");
    run(scene, "vitest", &["run", "--reporter=junit", &format!("--outputFile={}", junit.display())]);
    let mut account = Account::default();
    for case in cases(scene, &junit) {
        let place = places_in(scene, &case.text).into_iter().next();
        if case.name == case.class {
            account.unbuilt.extend(place);
        } else {
            add(&mut account, &key(&case.class, &case.name), &case.outcome, place.as_ref());
        }
    }
    account
}

fn add(account: &mut Account, test: &str, outcome: &str, place: Option<&TestWorkspace>) {
    account.add(test, if outcome == "pending" { "skipped" } else { outcome });
    if let Some(places) = account.failures.get_mut(test) {
        places.extend(place.cloned());
    }
}

/// One test of a JUnit file.
struct Case {
    class: String,
    file: String,
    name: String,
    outcome: String,
    text: String,
}

/// A program of Python's standard library reads the file.
const READ: &str = "import json, sys, xml.etree.ElementTree as t
for case in t.parse(sys.argv[1]).iter('testcase'):
    found = [child for child in case if child.tag in ('failure', 'error', 'skipped')]
    outcome = {'failure': 'failed', 'error': 'failed', 'skipped': 'skipped'}[found[0].tag] if found else 'passed'
    text = ''.join(child.text or '' for child in found)
    print(json.dumps([case.get('classname'), case.get('file', ''), case.get('name'), outcome, text]))";

fn cases(scene: &Scene, junit: &Path) -> Vec<Case> {
    let python = tools().join("pytest/bin/python");
    let read = scene.alone(&python, &["-c", READ, junit.to_str().unwrap()], &[]);
    assert_eq!(read.status, 0, "{read:?}");
    let case = |line: &str| {
        let [class, file, name, outcome, text]: [String; 5] = serde_json::from_str(line).unwrap();
        Case { class, file, name, outcome, text }
    };
    read.stdout.lines().map(case).collect()
}

/// The places of the project that a stack or a compiler's message names, in its order: `(/ws/index.js:12:3)`,
/// `❯ src/parse.ts:12:3`, `/ws/index.js:12`.
fn places_in(scene: &Scene, text: &str) -> Vec<TestWorkspace> {
    let words = text.split(|char: char| char.is_whitespace() || "()".contains(char));
    let place = |word: &str| {
        let (at, ending) = [".js:", ".ts:"].iter().find_map(|ending| Some((word.find(ending)?, ending)))?;
        let digits = word[at + ending.len()..].split(|char: char| !char.is_ascii_digit()).next()?;
        scene.spot(&word[..at + ending.len() - 1], digits)
    };
    words.filter_map(place).collect()
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
fn every_package_of_the_list_is_driven() {
    let list = fs::read_to_string(source_root().join("tests/node/projects/package.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let named = |(name, version): (&String, &Value)| format!("{name}@{}", version.as_str().unwrap());
    let list: BTreeSet<String> = list["dependencies"].as_object().unwrap().iter().map(named).collect();
    let driven = [&CSS_TO_REACT_NATIVE, &CSS_WHAT, &MERGE_JSON_SCHEMAS, &OBJECT_PATH];
    assert_eq!(list, driven.map(|project| project.name.to_owned()).into());
}

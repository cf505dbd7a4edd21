//! Python projects, run with pytest. `.ci/tools pyprojects` downloads the projects of `tests/pytest/projects.txt`.

use crate::project::{Breakage, Kind, Project, Runner, assert_kinds, check};
use crate::project_copy::ProjectCopy;
use crate::test_results::TestResults;
use proctor_tests::process::{ensure_installed, source_root, tools};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

static BOLTONS: Project = Project {
    name: "boltons==26.2.0",
    tests_min: 490,
    runner: &Pytest,
    breakages: [
        Breakage::new(Kind::Value, "boltons/mathutils.py", "return min(max(x, lower), upper)", "return max(x, lower)"),
        Breakage::new(Kind::BuildError, "boltons/mathutils.py", "def clamp(x,", "def clamp(x,,"),
    ],
};

static SIX: Project = Project {
    name: "six==1.17.0",
    tests_min: 190,
    runner: &Pytest,
    breakages: [
        Breakage::new(
            Kind::OffByOne,
            "six.py",
            "byte2int = operator.itemgetter(0)",
            "byte2int = operator.itemgetter(1)",
        ),
        Breakage::new(
            Kind::Throws,
            "six.py",
            "            for slots_var in slots:",
            "            raise RuntimeError('seeded')\n            for slots_var in slots:",
        ),
    ],
};

static TOOLZ: Project = Project {
    name: "toolz==1.2.0",
    tests_min: 190,
    runner: &Pytest,
    breakages: [
        Breakage::new(Kind::Branch, "toolz/itertoolz.py", "    if pad is no_pad:", "    if False:"),
        Breakage::new(Kind::BuildError, "toolz/itertoolz.py", "rest = partial(drop, 1)", "rest = partial(dropped, 1)"),
    ],
};

/// Python program that prints the test cases of a JUnit file as JSON lines. A collection error is a case without class.
const READ_JUNIT: &str = "import json, sys, xml.etree.ElementTree as t
for case in t.parse(sys.argv[1]).iter('testcase'):
    found = [child for child in case if child.tag in ('failure', 'error', 'skipped')]
    kinds = [child.get('type') for child in found if child.tag == 'skipped']
    outcome = 'xfailed' if kinds == ['pytest.xfail'] else ([child.tag for child in found] + ['passed'])[0]
    print(json.dumps([case.get('classname'), case.get('name'), outcome, ''.join(child.text or '' for child in found)]))";

struct Pytest;

impl Runner for Pytest {
    fn source(&self, project: &str) -> PathBuf {
        ensure_installed("pyprojects");
        tools().join("pyprojects").join(project.replace("==", "-"))
    }

    /// Removes the tests of boltons that depend on timing: on a busy machine one of two runs fails.
    fn prepare(&self, workspace: &Path) {
        _ = std::fs::remove_file(workspace.join("tests/test_socketutils.py"));
    }

    fn run_directly(&self, copy: &ProjectCopy) -> TestResults {
        let python = |arguments: &[&str]| {
            let env = [("PYTHONDONTWRITEBYTECODE", "1".into()), ("PATH", "/usr/bin:/bin".into())];
            copy.run_program(&tools().join("pytest/bin/python"), arguments, &env)
        };
        let xml = copy.home().join("junit.xml");
        let xml = xml.to_str().unwrap();
        let run = python(&["-m", "pytest", "-q", "-p", "no:cacheprovider", &format!("--junitxml={xml}")]);
        let read = python(&["-c", READ_JUNIT, xml]);
        assert_eq!(read.status, 0, "{run:?} {read:?}");
        let mut results = TestResults::default();
        for line in read.stdout.lines() {
            let [class, name, outcome, text]: [String; 4] = serde_json::from_str(line).unwrap();
            let location = last_location(copy, &text);
            if class.is_empty() {
                results.build_errors.extend(location);
                continue;
            }
            let test = format!("{class}.{name}");
            results.add(&test, &outcome.replace("failure", "failed"));
            if let Some(known) = results.failures.get_mut(&test) {
                known.extend(location);
            }
        }
        results
    }

    /// The name in a JUnit file: module and classes before the test's name.
    fn key(&self, test: &Value) -> String {
        let field = |name: &str| test[name].as_str().unwrap();
        let module = field("package").trim_end_matches(".py").replace('/', ".");
        // Only the part before the parameters contains class names.
        let (name, parameters) = field("name").split_at(field("name").find('[').unwrap_or(field("name").len()));
        format!("{module}.{}{parameters}", name.replace("::", "."))
    }
}

/// Last location of a traceback in the project: `six.py:12: TypeError`, or for a module that does not compile
/// `E     File "/ws/six.py", line 12`.
fn last_location(copy: &ProjectCopy, text: &str) -> Option<(String, u64)> {
    text.lines().rev().find_map(|line| {
        if let Some((file, rest)) = line.split_once("File \"").and_then(|(_, rest)| rest.split_once("\", line ")) {
            return copy.location(file, rest.split(|char: char| !char.is_ascii_digit()).next()?);
        }
        let mut parts = line.splitn(3, ':');
        copy.location(parts.next()?, parts.next()?)
    })
}

#[test]
fn boltons() {
    check(&BOLTONS);
}

#[test]
fn six() {
    check(&SIX);
}

#[test]
fn toolz() {
    check(&TOOLZ);
}

#[test]
fn every_listed_project_has_a_test() {
    let list = std::fs::read_to_string(source_root().join("tests/pytest/projects.txt")).unwrap();
    let driven: BTreeSet<&str> = [&BOLTONS, &SIX, &TOOLZ].map(|project| project.name).into();
    assert_eq!(list.lines().map(|line| line.split(' ').next().unwrap()).collect::<BTreeSet<_>>(), driven);
}

#[test]
fn bugs_of_each_kind_are_seeded() {
    assert_kinds(&[&[&BOLTONS, &SIX, &TOOLZ]]);
}

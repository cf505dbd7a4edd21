//! Python projects, and what pytest says of them. `.ci/tools pyprojects` downloads the projects of
//! `tests/pytest/projects.txt`.

use crate::project::{Breakage, Kind, Project, Runner, check};
use crate::project_copy::Scene;
use crate::test_results::Account;
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
        Breakage::new(
            Kind::OffByOne,
            "boltons/iterutils.py",
            "chunk_iter = chunked_iter(src, size, **kw)\n",
            "chunk_iter = chunked_iter(src, size + 1, **kw)\n",
        ),
        Breakage::new(Kind::Branch, "boltons/strutils.py", "        if end == len_text:", "        if False:"),
        Breakage::new(
            Kind::Throws,
            "boltons/mathutils.py",
            "return min(max(x, lower), upper)",
            "raise RuntimeError('seeded')",
        ),
        Breakage::new(Kind::Unbuilt, "boltons/mathutils.py", "def clamp(x,", "def clamp(x,,"),
    ],
};

static SIX: Project = Project {
    name: "six==1.17.0",
    tests_min: 190,
    runner: &Pytest,
    breakages: [
        Breakage::new(Kind::Value, "six.py", "slots = orig_vars.get('__slots__')", "slots = None"),
        Breakage::new(
            Kind::OffByOne,
            "six.py",
            "byte2int = operator.itemgetter(0)",
            "byte2int = operator.itemgetter(1)",
        ),
        Breakage::new(Kind::Branch, "six.py", "            if isinstance(slots, str):", "            if False:"),
        Breakage::new(
            Kind::Throws,
            "six.py",
            "            for slots_var in slots:",
            "            raise RuntimeError('seeded')\n            for slots_var in slots:",
        ),
        Breakage::new(Kind::Unbuilt, "six.py", "def ensure_text(s, encoding=", "def ensure_text(s encoding="),
    ],
};

static TOOLZ: Project = Project {
    name: "toolz==1.2.0",
    tests_min: 190,
    runner: &Pytest,
    breakages: [
        Breakage::new(Kind::Value, "toolz/itertoolz.py", "return tail(1, seq)[0]", "return tail(1, seq)"),
        Breakage::new(
            Kind::OffByOne,
            "toolz/itertoolz.py",
            "return next(itertools.islice(seq, n, None))",
            "return next(itertools.islice(seq, n + 1, None))",
        ),
        Breakage::new(Kind::Branch, "toolz/itertoolz.py", "    if pad is no_pad:", "    if False:"),
        Breakage::new(
            Kind::Throws,
            "toolz/itertoolz.py",
            "    if prev[-1] is no_pad:",
            "    raise RuntimeError('seeded')\n    if prev[-1] is no_pad:",
        ),
        Breakage::new(Kind::Unbuilt, "toolz/itertoolz.py", "rest = partial(drop, 1)", "rest = partial(dropped, 1)"),
    ],
};

/// What a JUnit file says, as JSON: a program of the standard library reads it. A collection error is a test without a
/// class there.
const READ: &str = "import json, sys, xml.etree.ElementTree as t
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

    /// Without the tests of boltons that race with the clock: on a busy machine one of two runs fails.
    fn prepare(&self, workspace: &Path) {
        _ = std::fs::remove_file(workspace.join("tests/test_socketutils.py"));
    }

    fn plainly(&self, scene: &Scene) -> Account {
        let python = |arguments: &[&str]| {
            let env = [("PYTHONDONTWRITEBYTECODE", "1".into()), ("PATH", "/usr/bin:/bin".into())];
            scene.alone(&tools().join("pytest/bin/python"), arguments, &env)
        };
        let xml = scene.home().join("junit.xml");
        let xml = xml.to_str().unwrap();
        let ran = python(&["-m", "pytest", "-q", "-p", "no:cacheprovider", &format!("--junitxml={xml}")]);
        let read = python(&["-c", READ, xml]);
        assert_eq!(read.status, 0, "{ran:?} {read:?}");
        let mut account = Account::default();
        for line in read.stdout.lines() {
            let [class, name, outcome, text]: [String; 4] = serde_json::from_str(line).unwrap();
            let places = places_in(scene, &text);
            if class.is_empty() {
                account.unbuilt.extend(places);
                continue;
            }
            let test = format!("{class}.{name}");
            account.add(&test, &outcome.replace("failure", "failed"));
            if let Some(known) = account.failures.get_mut(&test) {
                known.extend(places);
            }
        }
        account
    }

    /// The form of a JUnit file: the module and its classes in front of the name.
    fn key(&self, test: &Value) -> String {
        let field = |name: &str| test[name].as_str().unwrap();
        let module = field("package").trim_end_matches(".py").replace('/', ".");
        // Only what is in front of the parameters is classes.
        let (name, parameters) = field("name").split_at(field("name").find('[').unwrap_or(field("name").len()));
        format!("{module}.{}{parameters}", name.replace("::", "."))
    }
}

/// The last place of a traceback that is in the project: `six.py:12: TypeError`, or what a module that does not compile is
/// told with, `E     File "/ws/six.py", line 12`.
fn places_in(scene: &Scene, text: &str) -> Option<(String, u64)> {
    text.lines().rev().find_map(|line| {
        if let Some((file, rest)) = line.split_once("File \"").and_then(|(_, rest)| rest.split_once("\", line ")) {
            return scene.spot(file, rest.split(|char: char| !char.is_ascii_digit()).next()?);
        }
        let mut parts = line.splitn(3, ':');
        scene.spot(parts.next()?, parts.next()?)
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
fn every_project_of_the_list_is_driven() {
    let list = std::fs::read_to_string(source_root().join("tests/pytest/projects.txt")).unwrap();
    let driven: BTreeSet<&str> = [&BOLTONS, &SIX, &TOOLZ].map(|project| project.name).into();
    assert_eq!(list.lines().map(|line| line.split(' ').next().unwrap()).collect::<BTreeSet<_>>(), driven);
}

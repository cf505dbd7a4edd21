//! Python projects that nobody here wrote: what `proctor run` reports is what pytest's own JUnit file says, test by test, as
//! they are and with a bug put in; and `--failed` runs again what failed and nothing else.
//!
//! `.ci/tools pyprojects` downloads the projects of `tests/pytest/projects.txt`.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use proctor_tests::place::{Place, copy};
use proctor_tests::process::{Said, command, end_of, installed, sources, tools};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;

/// A project, and how to break it.
struct Project {
    /// As in `tests/pytest/projects.txt`.
    name: &'static str,
    /// Tests that it has at least.
    tests_min: usize,
    /// A file, a text that occurs once in it, and what takes its place.
    bug: (&'static str, &'static str, &'static str),
}

const BOLTONS: Project = Project {
    name: "boltons==26.2.0",
    tests_min: 500,
    bug: ("boltons/mathutils.py", "return min(max(x, lower), upper)", "return max(x, lower)"),
};

const SIX: Project = Project {
    name: "six==1.17.0",
    tests_min: 190,
    bug: ("six.py", "slots = orig_vars.get('__slots__')", "slots = None"),
};

const TOOLZ: Project = Project {
    name: "toolz==1.2.0",
    tests_min: 190,
    bug: (
        "toolz/itertoolz.py",
        "return next(itertools.islice(seq, n, None))",
        "return next(itertools.islice(seq, n + 1, None))",
    ),
};

/// How often a test, by the end of its file's path and its name, came to what.
type Outcomes = BTreeMap<(String, String), usize>;

/// What pytest says of its own: a program of the standard library reads its file.
const READ: &str = "import json, sys, xml.etree.ElementTree as t
for case in t.parse(sys.argv[1]).iter('testcase'):
    words = [child.tag for child in case if child.tag in ('failure', 'error', 'skipped')]
    kind = [child.get('type') for child in case if child.tag == 'skipped']
    print(json.dumps([case.get('classname'), case.get('name'), 'xfailed' if kind == ['pytest.xfail'] else (words + ['passed'])[0]]))";

struct Scene {
    project: &'static Project,
    place: Place,
}

impl Scene {
    fn of(project: &'static Project) -> Scene {
        installed("pyprojects");
        let place = Place::empty();
        copy(&tools().join("pyprojects").join(project.name.replace("==", "-")), &place.workspace);
        Scene { project, place }
    }

    fn python(&self, arguments: &[&str]) -> Said {
        let mut python = command(&tools().join("pytest/bin/python"));
        let home = self.place.root().join("home");
        python.args(arguments).env("HOME", &home).env("TMPDIR", &home).env("PYTHONDONTWRITEBYTECODE", "1");
        python.env("LANG", "C.UTF-8").env("PATH", "/usr/bin:/bin").current_dir(&self.place.workspace);
        python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        end_of(python.spawn().unwrap())
    }

    /// What pytest itself says.
    fn plainly(&self) -> Outcomes {
        let xml = self.place.root().join("home/junit.xml");
        let xml = xml.to_str().unwrap();
        let ran = self.python(&["-m", "pytest", "-q", "-p", "no:cacheprovider", &format!("--junitxml={xml}")]);
        let read = self.python(&["-c", READ, xml]);
        assert_eq!(read.status, 0, "{ran:?} {read:?}");
        let mut outcomes = Outcomes::new();
        for line in read.stdout.lines() {
            let [class, name, outcome]: [String; 3] = serde_json::from_str(line).unwrap();
            *outcomes.entry((format!("{class}.{name}"), outcome.replace("failure", "failed"))).or_default() += 1;
        }
        assert!(outcomes.values().sum::<usize>() >= self.project.tests_min, "{ran:?}");
        outcomes
    }

    fn proctor(&self, more: &[&str]) -> (i32, Value) {
        let said = self.place.proctor(&[&["run", "--output", "json"], more].concat());
        assert!(!said.stdout.is_empty(), "{said:?}");
        (said.status, said.json())
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.place.workspace.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {file}");
        fs::write(path, text.replace(from, to)).unwrap();
    }
}

/// The same in the form of a JUnit file: the module and its classes in front of the name.
fn outcomes(report: &Value) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for test in report["tests"].as_array().unwrap() {
        let field = |name: &str| test[name].as_str().unwrap();
        let module = field("package").trim_end_matches(".py").replace('/', ".");
        // Only what is in front of the parameters is classes.
        let (name, parameters) = field("name").split_at(field("name").find('[').unwrap_or(field("name").len()));
        let outcome = field("outcome").replace("xpassed", "passed");
        *outcomes.entry((format!("{module}.{}{parameters}", name.replace("::", ".")), outcome)).or_default() += 1;
    }
    outcomes
}

fn assert_same(plain: &Outcomes, report: &Value) {
    let ours = outcomes(report);
    let only = |a: &Outcomes, b: &Outcomes| -> Vec<String> {
        a.iter().filter(|(test, times)| b.get(test) != Some(times)).map(|entry| format!("{entry:?}")).collect()
    };
    let (theirs, ours_alone) = (only(plain, &ours), only(&ours, plain));
    assert!(theirs.is_empty() && ours_alone.is_empty(), "pytest alone: {theirs:#?}\nproctor alone: {ours_alone:#?}");
    assert_eq!(report["collectors"].as_array().unwrap().len(), 0, "{}", report["collectors"]);
}

fn failed(report: &Value) -> BTreeSet<&str> {
    let tests = report["tests"].as_array().unwrap().iter();
    tests.filter(|test| test["outcome"] == "failed").map(|test| test["nodeid"].as_str().unwrap()).collect()
}

fn check(project: &'static Project) {
    let scene = Scene::of(project);
    let (status, report) = scene.proctor(&[]);
    assert_same(&scene.plainly(), &report);
    assert_eq!((status, report["outcome"].as_str()), (0, Some("passed")));
    let (file, from, to) = project.bug;
    scene.edit(file, from, to);
    let (status, broken) = scene.proctor(&[]);
    assert_eq!(status, 1);
    assert_same(&scene.plainly(), &broken);
    assert!(!failed(&broken).is_empty());
    for test in broken["tests"].as_array().unwrap().iter().filter(|test| test["outcome"] == "failed") {
        let (file, line) = (test["file"].as_str().unwrap(), test["line"].as_u64().unwrap());
        let text = fs::read_to_string(scene.place.workspace.join(file)).unwrap();
        assert!(line >= 1 && line <= text.lines().count() as u64, "{file}:{line}");
    }
    let (_, again) = scene.proctor(&["--failed"]);
    assert_eq!((failed(&again), again["tests"].as_array().unwrap().len()), (failed(&broken), failed(&broken).len()));
    scene.edit(file, to, from);
    assert_eq!(scene.proctor(&["--failed"]).0, 0);
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
    let list = fs::read_to_string(sources().join("tests/pytest/projects.txt")).unwrap();
    let driven: BTreeSet<&str> = [BOLTONS, SIX, TOOLZ].iter().map(|project| project.name).collect();
    assert_eq!(list.lines().filter_map(|line| line.split(' ').next()).collect::<BTreeSet<_>>(), driven);
}

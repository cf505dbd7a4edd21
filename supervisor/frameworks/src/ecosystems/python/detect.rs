//! Finds Python projects and the runner of each: pytest where anything shows that it is used, else unittest.

use super::pytest_config::{OWN_FILES, SHARED_FILES, has_table, is_of_another_tool, test_paths};
use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::{is_within, join};
use std::collections::{BTreeMap, BTreeSet};

/// The runner of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PythonRunner {
    Pytest,
    Unittest,
}

/// A directory's fixtures and hooks, which only pytest reads.
const CONFTEST: &str = "conftest.py";

/// What a project for pytest is recognised by.
pub(crate) fn describe_pytest_markers() -> String {
    format!(
        "{}, pytest's settings in {}, or files named test*.py or *_test.py",
        pytest_file_names(),
        shared_file_names()
    )
}

/// What a project for unittest is recognised by.
pub(crate) fn describe_unittest_markers() -> String {
    let (own, tables) = (pytest_file_names(), shared_file_names());
    format!(
        "files named test*.py, without {own}, pytest's settings in {tables}, or its name among what the project needs"
    )
}

fn pytest_file_names() -> String {
    format!("{}, {CONFTEST}", OWN_FILES.join(", "))
}

fn shared_file_names() -> String {
    SHARED_FILES.map(|(file, _)| file).join(", ")
}

/// Files that make a directory a project, also within another project, as pytest's settings files do.
const PROJECT_FILES: [&str; 2] = ["pyproject.toml", "setup.py"];

/// Files whose content shows whether a project uses pytest: settings and requirements.
pub(crate) const MARKERS: &[&str] = &[
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "noxfile.py",
    "Pipfile",
    "environment.yml",
    "requirements.txt",
    "requirements-dev.txt",
    "requirements_dev.txt",
    "requirements-test.txt",
    "requirements_test.txt",
    "requirements-tests.txt",
    "dev-requirements.txt",
    "test-requirements.txt",
    "dev.txt",
    "test.txt",
    "tests.txt",
];

/// Markers that may be in any directory and do not make it a project.
const UNANCHORED_MARKERS: [&str; 4] = ["environment.yml", "dev.txt", "test.txt", "tests.txt"];

/// Root files of projects in other languages, where a stray `test_x.py` is no project.
const OTHER_LANGUAGE_ROOTS: [&str; 9] = [
    "go.mod",
    "go.work",
    "package.json",
    "Cargo.toml",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "Gemfile",
];

/// Directories that pytest skips by default, besides hidden ones and environments.
const SKIPPED_NAMES: [&str; 6] = ["build", "dist", "node_modules", "site-packages", "venv", "__pycache__"];

/// Directories whose projects are samples for the tests of another project.
const SAMPLE_DIRS: [&str; 5] = ["tests", "test", "testing", "testdata", "fixtures"];

/// The management script of a Django project.
pub(crate) const MANAGE_FILE: &str = "manage.py";

/// What that script contains in every version of Django.
const DJANGO_SETTINGS: &str = "DJANGO_SETTINGS_MODULE";

/// Whether the content of this file decides if it is a Django project.
pub(crate) fn is_manage_file(file: &str) -> bool {
    split(file).1 == MANAGE_FILE
}

/// Whether a directory has a Django project, whose tests need its settings and its databases.
pub(crate) fn is_django(tree: &FileTree, dir: &str) -> bool {
    tree.content(&join(dir, MANAGE_FILE)).is_some_and(|content| content.contains(DJANGO_SETTINGS))
}

/// Directories without tests: those of [`SKIPPED_NAMES`], hidden ones, and virtual environments.
struct SkippedDirs<'a>(BTreeSet<&'a str>);

impl<'a> SkippedDirs<'a> {
    fn from_tree(tree: &'a FileTree) -> SkippedDirs<'a> {
        SkippedDirs(tree.files().filter_map(|file| file.strip_suffix("/pyvenv.cfg")).collect())
    }

    fn contains(&self, dir: &str) -> bool {
        let is_name =
            |part: &str| part.starts_with('.') || SKIPPED_NAMES.contains(&part) || part.ends_with(".egg-info");
        dir.split('/').any(is_name) || self.0.iter().any(|environment| is_within(dir, environment))
    }
}

/// The files that unittest may load tests from, wherever it starts.
pub(crate) fn unittest_files(tree: &FileTree) -> impl Iterator<Item = &str> {
    let skipped = SkippedDirs::from_tree(tree);
    tree.files().filter(move |file| is_unittest_file(tree, file) && !skipped.contains(split(file).0))
}

/// Whether a file matches unittest's own pattern, or is a package that defines `load_tests`.
fn is_unittest_file(tree: &FileTree, file: &str) -> bool {
    let name = split(file).1;
    let is_named = name.starts_with("test") && name.ends_with(".py");
    is_named
        || (may_define_load_tests(file) && tree.content(file).is_some_and(|content| content.contains("load_tests")))
}

/// Whether a file may define `load_tests`: any package may, and the few test packages are read.
pub(crate) fn may_define_load_tests(file: &str) -> bool {
    let (dir, name) = split(file);
    name == "__init__.py" && dir.split('/').any(|part| part.starts_with("test"))
}

/// The projects for one of the runners, sorted by directory.
pub(crate) fn projects(tree: &FileTree, runner: PythonRunner) -> Vec<Project> {
    let layout = PythonLayout::from_tree(tree);
    let found = layout.owned.iter().filter(|(dir, files)| layout.runner(dir, files) == Some(runner));
    found.map(|(dir, _)| Project { dir: (*dir).to_owned(), name: name(dir) }).collect()
}

/// The projects that pytest runs when requested by name: its own, or without any of these all with test files, since some projects
/// have tests for pytest and nothing that shows it.
pub(crate) fn projects_for_pytest(tree: &FileTree) -> Vec<Project> {
    let found = projects(tree, PythonRunner::Pytest);
    if !found.is_empty() {
        return found;
    }
    let owned = PythonLayout::from_tree(tree).owned;
    let with_tests = owned.into_iter().filter(|(_, files)| files.iter().any(|file| is_test_file(split(file).1)));
    with_tests.map(|(dir, _)| Project { dir: dir.to_owned(), name: name(dir) }).collect()
}

fn name(dir: &str) -> String {
    dir.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("python").to_owned()
}

/// Whether one of the runners treats a file of this name as tests.
pub(crate) fn is_test_file(name: &str) -> bool {
    name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test"))
}

/// The Python files of a workspace by project.
struct PythonLayout<'a> {
    tree: &'a FileTree,
    /// Test files and pytest's files, by the directory of their project.
    owned: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> PythonLayout<'a> {
    fn from_tree(tree: &'a FileTree) -> PythonLayout<'a> {
        let skipped = SkippedDirs::from_tree(tree);
        let files: Vec<&str> =
            tree.files().filter(|file| !skipped.contains(split(file).0) && !is_of_another_tool(tree, file)).collect();
        let places: Vec<(&str, &str)> = files.iter().map(|file| split(file)).collect();
        let with = |names: &[&str]| -> BTreeSet<&str> {
            places.iter().filter(|(_, name)| names.contains(name)).map(|(dir, _)| *dir).collect()
        };
        let own: BTreeSet<&str> = with(&PROJECT_FILES).union(&with(&OWN_FILES)).copied().collect();
        let conftests = with(&[CONFTEST]);
        let any: BTreeSet<&str> = places
            .iter()
            .filter(|(_, name)| MARKERS.contains(name) && !UNANCHORED_MARKERS.contains(name))
            .map(|(dir, _)| *dir)
            .chain(own.iter().copied())
            .collect();
        let own: Vec<&str> = own.into_iter().filter(|dir| !is_sample(dir, &any)).collect();
        let is_foreign = OTHER_LANGUAGE_ROOTS.iter().any(|name| tree.contains(name));
        let owner = |dir: &str| -> Option<&'a str> {
            let above = |dirs: &BTreeSet<&'a str>| {
                dirs.iter().copied().filter(|of| is_within(dir, of)).min_by_key(|of| of.len())
            };
            let innermost = own.iter().copied().filter(|of| is_within(dir, of)).max_by_key(|of| of.len());
            innermost.or_else(|| above(&any)).or_else(|| above(&conftests)).or_else(|| (!is_foreign).then_some(""))
        };
        let mut owned: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for file in files {
            let (dir, name) = split(file);
            let counts = is_test_file(name) || is_pytest_file(name) || is_unittest_file(tree, file);
            if let Some(of) = Some(dir).filter(|_| counts).and_then(owner) {
                owned.entry(of).or_default().push(file);
            }
        }
        for (name, table) in SHARED_FILES {
            for (dir, _) in tree.directories_with(name).filter(|(_, content)| has_table(content, table)) {
                if let Some(of) = Some(dir).filter(|dir| !skipped.contains(dir)).and_then(owner) {
                    owned.entry(of).or_default();
                }
            }
        }
        PythonLayout { tree, owned }.with_django()
    }

    /// Makes the directory of a `manage.py` a project of its own, unless pytest runs it. Of nested ones, the outermost counts.
    fn with_django(mut self) -> PythonLayout<'a> {
        let manages = self.tree.files().filter(|file| is_manage_file(file)).map(|file| split(file).0);
        let mut dirs: Vec<&str> = manages.filter(|dir| is_django(self.tree, dir)).collect();
        dirs.sort_unstable_by_key(|dir| dir.len());
        for dir in dirs {
            let is_around = |of: &&&str| **of != dir && is_within(dir, of);
            let around = self.owned.keys().filter(is_around).max_by_key(|of| of.len()).copied();
            let is_unittest_file = |of: &&str| self.runner(of, &self.owned[*of]) == Some(PythonRunner::Unittest);
            let Some(around) = around.filter(|of| is_unittest_file(of) && !is_django(self.tree, of)) else { continue };
            let files = self.owned.get_mut(around).map(std::mem::take).unwrap_or_default();
            let (own, others): (Vec<&str>, Vec<&str>) = files.into_iter().partition(|file| is_within(file, dir));
            self.owned.insert(around, others);
            if !own.is_empty() {
                self.owned.entry(dir).or_default().extend(own);
            }
        }
        self
    }

    /// The runner of a project; `None` if it has no tests.
    fn runner(&self, dir: &str, files: &[&str]) -> Option<PythonRunner> {
        let names = || files.iter().map(|file| split(file).1);
        let is_set_up = names().any(is_pytest_file) || self.has_table(dir);
        let has_tests = names().any(is_test_file);
        if is_set_up || (has_tests && requires_package(self.tree, dir, "pytest")) {
            return Some(PythonRunner::Pytest);
        }
        files.iter().any(|file| is_unittest_file(self.tree, file)).then_some(PythonRunner::Unittest)
    }

    fn has_table(&self, dir: &str) -> bool {
        SHARED_FILES.iter().any(|(name, table)| {
            self.tree.directories_with(name).any(|(of, content)| of == dir && has_table(content, table))
        })
    }
}

/// Directories with requirement lists of the project around them.
const REQUIREMENT_LIST_DIRS: [&str; 4] = ["requirements", "tests", "test", "testing"];

/// Whether the project in `dir`, or one around it, lists `package` among its requirements. Requirement lists may have a directory
/// of their own or be beside the tests.
pub(crate) fn requires_package(tree: &FileTree, dir: &str, package: &str) -> bool {
    MARKERS.iter().any(|name| {
        tree.directories_with(name).any(|(of, content)| {
            let (parent, last) = of.rsplit_once('/').unwrap_or(("", of));
            let is_list = name.ends_with(".txt") && REQUIREMENT_LIST_DIRS.contains(&last);
            is_within(dir, if is_list { parent } else { of }) && content.contains(package)
        })
    })
}

/// Whether a directory with a project file is a sample for the tests of a project around it.
fn is_sample(dir: &str, projects: &BTreeSet<&str>) -> bool {
    projects.iter().filter(|around| **around != dir && is_within(dir, around)).any(|around| {
        let within = dir[around.len()..].trim_start_matches('/');
        within.split('/').any(|part| SAMPLE_DIRS.contains(&part))
    })
}

/// Whether only pytest uses files of this name.
fn is_pytest_file(name: &str) -> bool {
    name == CONFTEST || OWN_FILES.contains(&name)
}

/// Whether the content of this file decides if it is pytest's or another tool's of the same name.
pub(crate) fn is_ambiguous_config(file: &str) -> bool {
    let name = split(file).1;
    name.ends_with(".toml") && OWN_FILES.contains(&name)
}

/// Whether pytest, started in `outer` without paths, collects the tests of the project `inner` below it as its own.
pub(crate) fn pytest_collects(tree: &FileTree, outer: &Project, inner: &Project) -> bool {
    // Of a pattern, the part before the first wildcard counts.
    let literal =
        |path: &str| path.split('/').take_while(|part| !part.contains(['*', '?', '['])).collect::<Vec<_>>().join("/");
    let mut paths =
        test_paths(tree, &outer.dir).iter().map(|path| join(&outer.dir, &literal(path))).collect::<Vec<_>>();
    if paths.is_empty() {
        paths.push(outer.dir.clone());
    }
    paths.iter().any(|path| is_within(&inner.dir, path) || is_within(path, &inner.dir))
}

fn split(file: &str) -> (&str, &str) {
    file.rsplit_once('/').unwrap_or(("", file))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories of the projects for pytest and for unittest, of a tree of `path` or `path=content`.
    fn found(files: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut tree = FileTree::default();
        for file in files {
            match file.split_once('=') {
                Some((path, content)) => tree.add_with_content(path, content),
                None => tree.add(*file),
            }
        }
        let dirs = |runner| projects(&tree, runner).into_iter().map(|project| project.dir).collect();
        (dirs(PythonRunner::Pytest), dirs(PythonRunner::Unittest))
    }

    fn pytest(dirs: &[&str]) -> (Vec<String>, Vec<String>) {
        (dirs.iter().map(|dir| (*dir).to_owned()).collect(), Vec::new())
    }

    fn unittest(dirs: &[&str]) -> (Vec<String>, Vec<String>) {
        (Vec::new(), dirs.iter().map(|dir| (*dir).to_owned()).collect())
    }

    #[test]
    fn pytest_has_projects_that_show_its_use() {
        for sign in [
            "pytest.ini",
            "tests/conftest.py",
            "pyproject.toml=[tool.pytest.ini_options]",
            "tox.ini=[pytest]",
            "setup.cfg=[tool:pytest]",
            "requirements-dev.txt=pytest>=7",
            "requirements/test.txt=pytest-cov",
            "tests/requirements.txt=pretend\npytest>=6.2",
            "setup.py=tests_require=['pytest']",
        ] {
            assert_eq!(found(&[sign, "setup.py", "tests/test_a.py"]), pytest(&[""]), "{sign}");
        }
        assert_eq!(found(&["pytest.ini"]), pytest(&[""]), "settings without tests");
        assert_eq!(found(&["pyproject.toml=dev = ['pytest']", "src/a.py"]), (vec![], vec![]), "no tests");
    }

    #[test]
    fn unittest_has_the_remaining_projects() {
        assert_eq!(found(&["setup.py=", "tests/test_a.py"]), unittest(&[""]));
        assert_eq!(found(&["test_a.py"]), unittest(&[""]));
        assert_eq!(found(&["a_test.py"]), (vec![], vec![]), "not the pattern of unittest");
        assert_eq!(
            found(&["setup.py=", "a/tests/__init__.py=def load_tests(loader, tests, pattern):"]),
            unittest(&[""])
        );
        assert_eq!(found(&["setup.py=", "a/tests/__init__.py=", "a/__init__.py=load_tests"]), (vec![], vec![]));
        assert_eq!(found(&["package.json", "scripts/test_x.py"]), (vec![], vec![]), "a stray script");
        assert_eq!(found(&["package.json", "py/requirements.txt=", "py/t/test_x.py"]), unittest(&["py"]));
        assert_eq!(found(&["lib/python3/site-packages/x/test_a.py", ".tox/test_a.py", "src/a.py"]), (vec![], vec![]));
        assert_eq!(found(&["env/pyvenv.cfg", "env/x/test_a.py"]), (vec![], vec![]));
    }

    #[test]
    fn a_django_project_is_the_directory_of_its_manage_py() {
        let manage = "backend/manage.py=os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'site.settings')";
        let files = ["pyproject.toml=django", manage, "backend/shop/tests.py", "tests/test_a.py"];
        assert_eq!(found(&files), unittest(&["", "backend"]));
        assert_eq!(found(&files[..3]), unittest(&["backend"]));
        assert_eq!(
            found(&["pyproject.toml=pytest-django", manage, "backend/shop/tests.py", "test_a.py"]),
            pytest(&[""])
        );
        assert_eq!(found(&["backend/manage.py=print()", "backend/shop/tests.py"]), unittest(&[""]));
    }

    #[test]
    fn a_file_belongs_to_its_own_project_or_the_outermost() {
        let files = ["pyproject.toml=pytest", "test_a.py", "sub/requirements.txt=", "sub/test_b.py"];
        assert_eq!(found(&files), pytest(&[""]));
        let files = ["pyproject.toml=pytest", "a/pyproject.toml=", "a/test_b.py", "b/setup.py=", "b/conftest.py"];
        assert_eq!(found(&files), pytest(&["a", "b"]));
        let files = ["a/setup.py=", "a/test_b.py", "b/pytest.ini", "b/test_b.py"];
        assert_eq!(found(&files), (vec!["b".to_owned()], vec!["a".to_owned()]));
        let files = ["setup.py=pytest", "tests/test_a.py", "tests/samples/setup.py=", "tests/samples/test_b.py"];
        assert_eq!(found(&files), pytest(&[""]));
    }
}

//! Finds Python projects and says which of the two runners each is for: pytest where anything shows that it is used, else
//! unittest. Must not know how tests are run.

use super::pytest_config::{OWN_FILES, SHARED_FILES, has_table, is_of_another_tool, test_paths};
use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::{is_within, join};
use std::collections::{BTreeMap, BTreeSet};

/// Which runner a project is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PythonRunner {
    Pytest,
    Unittest,
}

/// The file of a directory's fixtures and hooks, which only pytest reads.
const CONFTEST: &str = "conftest.py";

/// What a project for pytest is recognised by.
pub(crate) fn describe_pytest_markers() -> String {
    format!("{}, pytest's settings in {}, or files named test*.py or *_test.py", files_of_pytest(), files_with_tables())
}

/// What a project for unittest is recognised by.
pub(crate) fn describe_unittest_markers() -> String {
    let (own, tables) = (files_of_pytest(), files_with_tables());
    format!(
        "files named test*.py, without {own}, pytest's settings in {tables}, or its name among what the project needs"
    )
}

fn files_of_pytest() -> String {
    format!("{}, {CONFTEST}", OWN_FILES.join(", "))
}

fn files_with_tables() -> String {
    SHARED_FILES.map(|(file, _)| file).join(", ")
}

/// Files that make a directory a project of its own, also within another one, as those of pytest do.
const OF_ITS_OWN: [&str; 2] = ["pyproject.toml", "setup.py"];

/// Files whose content says whether a project uses pytest: its settings, and what it needs.
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

/// Of these, the ones that may lie in any directory and say nothing about it.
const SAY_NOTHING: [&str; 4] = ["environment.yml", "dev.txt", "test.txt", "tests.txt"];

/// Root files of projects in other languages, whose stray scripts called `test_x.py` are no project.
const OF_OTHERS: [&str; 9] = [
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

/// Directories that pytest does not look into by default, beside hidden ones and environments.
const PASSED_OVER: [&str; 6] = ["build", "dist", "node_modules", "site-packages", "venv", "__pycache__"];

/// Directories whose projects are what the tests of another one are about.
const OF_SAMPLES: [&str; 5] = ["tests", "test", "testing", "testdata", "fixtures"];

/// The file by which a Django project is run.
pub(crate) const MANAGE_FILE: &str = "manage.py";

/// What it says, in every version of Django.
const OF_DJANGO: &str = "DJANGO_SETTINGS_MODULE";

/// Whether the content of a file says if it is a Django project's.
pub(crate) fn is_manage_file(file: &str) -> bool {
    split(file).1 == MANAGE_FILE
}

/// Whether a directory has a Django project, whose tests need its settings and its databases.
pub(crate) fn is_django(tree: &FileTree, dir: &str) -> bool {
    tree.content(&join(dir, MANAGE_FILE)).is_some_and(|content| content.contains(OF_DJANGO))
}

/// Directories of which no tests are taken: those of [`PASSED_OVER`], hidden ones, and environments.
struct SkippedDirs<'a>(BTreeSet<&'a str>);

impl<'a> SkippedDirs<'a> {
    fn from_tree(tree: &'a FileTree) -> SkippedDirs<'a> {
        SkippedDirs(tree.files().filter_map(|file| file.strip_suffix("/pyvenv.cfg")).collect())
    }

    fn has(&self, dir: &str) -> bool {
        let is_name = |part: &str| part.starts_with('.') || PASSED_OVER.contains(&part) || part.ends_with(".egg-info");
        dir.split('/').any(is_name) || self.0.iter().any(|environment| is_within(dir, environment))
    }
}

/// The files that unittest loads for their tests, wherever it starts.
pub(crate) fn unittest_files(tree: &FileTree) -> impl Iterator<Item = &str> {
    let passed_over = SkippedDirs::from_tree(tree);
    tree.files().filter(move |file| is_of_unittest(tree, file) && !passed_over.has(split(file).0))
}

/// Whether a file goes by unittest's own pattern, or is a package that says itself which tests it has.
fn is_of_unittest(tree: &FileTree, file: &str) -> bool {
    let name = split(file).1;
    let is_named = name.starts_with("test") && name.ends_with(".py");
    is_named
        || (may_define_load_tests(file) && tree.content(file).is_some_and(|content| content.contains("load_tests")))
}

/// Whether the content of a file says if it is such a package: any may be, and those of tests are few enough to be read.
pub(crate) fn may_define_load_tests(file: &str) -> bool {
    let (dir, name) = split(file);
    name == "__init__.py" && dir.split('/').any(|part| part.starts_with("test"))
}

/// The projects for one of the runners, sorted by directory.
pub(crate) fn projects(tree: &FileTree, runner: PythonRunner) -> Vec<Project> {
    let look = PythonLayout::from_tree(tree);
    let found = look.owned.iter().filter(|(dir, files)| look.runner(dir, files) == Some(runner));
    found.map(|(dir, _)| Project { dir: (*dir).to_owned(), name: name(dir) }).collect()
}

/// The projects that pytest may be asked to run: those for it, or where there is none all with tests, since some have tests for
/// pytest and no sign of it.
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

/// Whether one of the runners takes a file of this name for tests.
pub(crate) fn is_test_file(name: &str) -> bool {
    name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test"))
}

/// The Python of a workspace: whose each file is.
struct PythonLayout<'a> {
    tree: &'a FileTree,
    /// Test files, and files of pytest, by the directory of the project that has them.
    owned: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> PythonLayout<'a> {
    fn from_tree(tree: &'a FileTree) -> PythonLayout<'a> {
        let passed_over = SkippedDirs::from_tree(tree);
        let files: Vec<&str> =
            tree.files().filter(|file| !passed_over.has(split(file).0) && !is_of_another_tool(tree, file)).collect();
        let places: Vec<(&str, &str)> = files.iter().map(|file| split(file)).collect();
        let with = |names: &[&str]| -> BTreeSet<&str> {
            places.iter().filter(|(_, name)| names.contains(name)).map(|(dir, _)| *dir).collect()
        };
        let own: BTreeSet<&str> = with(&OF_ITS_OWN).union(&with(&OWN_FILES)).copied().collect();
        let conftests = with(&[CONFTEST]);
        let any: BTreeSet<&str> = places
            .iter()
            .filter(|(_, name)| MARKERS.contains(name) && !SAY_NOTHING.contains(name))
            .map(|(dir, _)| *dir)
            .chain(own.iter().copied())
            .collect();
        let own: Vec<&str> = own.into_iter().filter(|dir| !is_sample(dir, &any)).collect();
        let is_foreign = OF_OTHERS.iter().any(|name| tree.contains(name));
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
            let counts = is_test_file(name) || is_of_pytest(name) || is_of_unittest(tree, file);
            if let Some(of) = Some(dir).filter(|_| counts).and_then(owner) {
                owned.entry(of).or_default().push(file);
            }
        }
        for (name, table) in SHARED_FILES {
            for (dir, _) in tree.directories_with(name).filter(|(_, content)| has_table(content, table)) {
                if let Some(of) = Some(dir).filter(|dir| !passed_over.has(dir)).and_then(owner) {
                    owned.entry(of).or_default();
                }
            }
        }
        PythonLayout { tree, owned }.with_django()
    }

    /// Gives what is below a `manage.py` to a project of its own, unless pytest runs it. The outermost one has it.
    fn with_django(mut self) -> PythonLayout<'a> {
        let manages = self.tree.files().filter(|file| is_manage_file(file)).map(|file| split(file).0);
        let mut dirs: Vec<&str> = manages.filter(|dir| is_django(self.tree, dir)).collect();
        dirs.sort_unstable_by_key(|dir| dir.len());
        for dir in dirs {
            let is_around = |of: &&&str| **of != dir && is_within(dir, of);
            let around = self.owned.keys().filter(is_around).max_by_key(|of| of.len()).copied();
            let is_of_unittest = |of: &&str| self.runner(of, &self.owned[*of]) == Some(PythonRunner::Unittest);
            let Some(around) = around.filter(|of| is_of_unittest(of) && !is_django(self.tree, of)) else { continue };
            let files = self.owned.get_mut(around).map(std::mem::take).unwrap_or_default();
            let (own, others): (Vec<&str>, Vec<&str>) = files.into_iter().partition(|file| is_within(file, dir));
            self.owned.insert(around, others);
            if !own.is_empty() {
                self.owned.entry(dir).or_default().extend(own);
            }
        }
        self
    }

    /// The runner of a project, if it has tests at all.
    fn runner(&self, dir: &str, files: &[&str]) -> Option<PythonRunner> {
        let names = || files.iter().map(|file| split(file).1);
        let is_set_up = names().any(is_of_pytest) || self.has_table(dir);
        let has_tests = names().any(is_test_file);
        if is_set_up || (has_tests && requires_package(self.tree, dir, "pytest")) {
            return Some(PythonRunner::Pytest);
        }
        files.iter().any(|file| is_of_unittest(self.tree, file)).then_some(PythonRunner::Unittest)
    }

    fn has_table(&self, dir: &str) -> bool {
        SHARED_FILES.iter().any(|(name, table)| {
            self.tree.directories_with(name).any(|(of, content)| of == dir && has_table(content, table))
        })
    }
}

/// Directories with lists of what the project around them needs.
const OF_LISTS: [&str; 4] = ["requirements", "tests", "test", "testing"];

/// Whether what the project in `dir` or one around it needs names `package`. Lists of requirements have a directory of their
/// own at times, or lie beside the tests.
pub(crate) fn requires_package(tree: &FileTree, dir: &str, package: &str) -> bool {
    MARKERS.iter().any(|name| {
        tree.directories_with(name).any(|(of, content)| {
            let (parent, last) = of.rsplit_once('/').unwrap_or(("", of));
            let is_list = name.ends_with(".txt") && OF_LISTS.contains(&last);
            is_within(dir, if is_list { parent } else { of }) && content.contains(package)
        })
    })
}

/// Whether a directory with a project file is a sample for the tests of a project around it.
fn is_sample(dir: &str, projects: &BTreeSet<&str>) -> bool {
    projects.iter().filter(|around| **around != dir && is_within(dir, around)).any(|around| {
        let within = dir[around.len()..].trim_start_matches('/');
        within.split('/').any(|part| OF_SAMPLES.contains(&part))
    })
}

/// Whether a file of this name is pytest's alone.
fn is_of_pytest(name: &str) -> bool {
    name == CONFTEST || OWN_FILES.contains(&name)
}

/// Whether the content of a file with a name of pytest's says if it is pytest's.
pub(crate) fn is_ambiguous_config(file: &str) -> bool {
    let name = split(file).1;
    name.ends_with(".toml") && OWN_FILES.contains(&name)
}

/// Whether pytest, started in `outer` without any path, collects the tests of the project `inner` below it as its own.
pub(crate) fn pytest_collects(tree: &FileTree, outer: &Project, inner: &Project) -> bool {
    // A pattern is as good as what stands before it.
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
    fn pytest_is_where_anything_shows_it() {
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
    fn unittest_is_what_is_left() {
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
    fn a_django_project_is_where_its_manage_py_is() {
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
    fn the_outermost_project_has_what_has_no_project_of_its_own() {
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

//! Which Python files of a workspace may import which, read as text: too many are found rather than too few. A line with the word
//! `import` names every module whose name is a word of it, up to the closing bracket; elsewhere a dotted name does, or the beginning of a
//! text for a module outside of packages.

use super::file_kind::{directory, file_name};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Words of a file that may import or run any other: dynamic imports, processes, plugins, and installed programs that
/// `pytest-console-scripts` calls in the test's process.
const RUNS_ANY: [&str; 30] = [
    "importlib",
    "__import__",
    "import_module",
    "pkgutil",
    "runpy",
    "exec",
    "eval",
    "subprocess",
    "popen",
    "Popen",
    "system",
    "spawn",
    "multiprocessing",
    "pexpect",
    "pytester",
    "testdir",
    "pytest_plugins",
    "entry_points",
    "pkg_resources",
    "script_runner",
    "load_tests",
    "loadTestsFromName",
    "loadTestsFromNames",
    "DocTestSuite",
    "importlib_metadata",
    "stevedore",
    "locate",
    "resolve_name",
    "dictConfig",
    "fileConfig",
];

/// Words of a file that may read any other: listings of directories, and copies of them.
const LISTS_FILES: [&str; 8] = ["listdir", "scandir", "iterdir", "glob", "rglob", "walk", "copytree", "get_data"];

/// Words of a file that may read any other source as text.
const READS_SOURCES: [&str; 4] = ["getsourcefile", "getfile", "linecache", "tokenize"];

/// What a file has that reads the text of a module by the module's own name for it, or knows the numbers of lines.
const READS_LINES: [&str; 3] = [".__file__", "lineno", "findlinestarts"];

/// What a source has where functions may run without being measured: as copies (but for those that `exec` runs), or called by a tracer.
const RUNS_UNSEEN: [&str; 10] = [
    "FunctionType(",
    "__code__ =",
    "numba",
    "cloudpickle",
    "types.coroutine",
    "import dill",
    "settrace",
    "setprofile",
    "sys.monitoring",
    "addaudithook",
];

/// Words of a file that may read the text of any source through the module that it belongs to.
const READS_MODULES: [&str; 3] = ["getsource", "getsourcelines", "findsource"];

/// Words of settings and sources that load modules by a convention which no import shows.
const BY_CONVENTION: [&str; 4] = ["DJANGO_SETTINGS_MODULE", "INSTALLED_APPS", "autodiscover_tasks", "pytest11"];

/// The Python files of a workspace and their possible imports.
#[derive(Debug, Default)]
pub(super) struct PythonModules {
    /// By file: the files that may import it.
    importers: BTreeMap<String, BTreeSet<String>>,
    running_any: BTreeSet<String>,
    listing: BTreeSet<String>,
    reading_any: BTreeSet<String>,
    reading_modules: BTreeSet<String>,
    runs_unseen: bool,
    convention: Option<&'static str>,
    paths: BTreeSet<String>,
}

/// What one file says.
struct Words<'a> {
    /// Words of its import lines.
    imported: HashSet<&'a str>,
    /// Words with which its texts in quotes begin.
    quoted: HashSet<&'a str>,
    text: &'a str,
}

impl PythonModules {
    /// The modules of these sources, and who may import each of them and of `removed`, files that are gone.
    pub(super) fn new<'a>(sources: &BTreeMap<String, String>, removed: impl Iterator<Item = &'a str>) -> PythonModules {
        let python: BTreeMap<&str, Words<'_>> = sources
            .iter()
            .filter(|(path, _)| path.ends_with(".py"))
            .map(|(path, text)| {
                (path.as_str(), Words { imported: imported_words(text), quoted: quoted_words(text), text })
            })
            .collect();
        // So that not every pair of files is compared.
        let by_word = files_by_word(&python, |words| &words.imported);
        let by_quoted = files_by_word(&python, |words| &words.quoted);
        let mut found = PythonModules::default();
        let gone: Vec<&str> = removed.filter(|path| path.ends_with(".py")).collect();
        for path in python.keys().copied().chain(gone) {
            let Some(name) = module_name(path) else { continue };
            let mut importers: BTreeSet<String> = BTreeSet::new();
            importers.extend(by_word.get(name).into_iter().flatten().map(|path| (*path).to_owned()));
            if !python.contains_key(package_around(path).as_str()) {
                importers.extend(by_quoted.get(name).into_iter().flatten().map(|path| (*path).to_owned()));
            }
            let parent = file_name(directory(path));
            if !parent.is_empty() && name != parent {
                let dotted = format!("{parent}.{name}");
                let naming = python.iter().filter(|(_, words)| words.text.contains(&dotted));
                importers.extend(naming.map(|(path, _)| (*path).to_owned()));
            }
            importers.remove(path);
            found.importers.insert(path.to_owned(), importers);
        }
        for (path, words) in &python {
            let has = |wanted: &[&str]| words_of(words.text).any(|word| wanted.contains(&word));
            for (wanted, files) in [
                (&RUNS_ANY[..], &mut found.running_any),
                (&LISTS_FILES, &mut found.listing),
                (&READS_SOURCES, &mut found.reading_any),
                (&READS_MODULES, &mut found.reading_modules),
            ] {
                if has(wanted) {
                    files.insert((*path).to_owned());
                }
            }
        }
        for (path, words) in &python {
            if READS_LINES.iter().any(|part| words.text.contains(part)) {
                found.reading_any.insert((*path).to_owned());
            }
            found.runs_unseen |= RUNS_UNSEEN.iter().any(|part| words.text.contains(part));
        }
        found.reading_any.extend(found.listing.iter().cloned());
        found.convention = BY_CONVENTION.into_iter().find(|word| sources.values().any(|text| text.contains(word)));
        found.paths = python.keys().map(|path| (*path).to_owned()).collect();
        found
    }

    /// A word that shows that modules are loaded by a convention which no import shows.
    pub(super) fn convention(&self) -> Option<&'static str> {
        self.convention
    }

    /// The files that may import the file at `path`, directly or through others, itself included. A `conftest.py` among
    /// them stands for every file in its directory and below.
    pub(super) fn dependents(&self, path: &str) -> BTreeSet<String> {
        self.dependents_of([path.to_owned()])
    }

    /// The files that may import, run or read any file of the workspace, and those that import them.
    pub(super) fn reaching_all(&self) -> BTreeSet<String> {
        self.dependents_of(self.running_any.union(&self.reading_any).cloned())
    }

    /// The files that may read any file of a directory.
    pub(super) fn listing(&self) -> impl Iterator<Item = &String> {
        self.listing.iter()
    }

    /// Whether functions may run without being measured.
    pub(super) fn runs_unseen(&self) -> bool {
        self.runs_unseen
    }

    /// The files that may read the text of a source, and those that import them. Of the files that read any other only those `of_tests`
    /// count.
    pub(super) fn reading_sources(&self, of_tests: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let reading = self.reading_any.iter().filter(|file| of_tests(file));
        self.dependents_of(reading.chain(&self.reading_modules).cloned())
    }

    /// The same for several files.
    pub(super) fn dependents_of(&self, from: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut pending: Vec<String> = from.into_iter().collect();
        while let Some(path) = pending.pop() {
            if !found.insert(path.clone()) {
                continue;
            }
            pending.extend(self.importers.get(&path).into_iter().flatten().cloned());
            if file_name(&path) == "conftest.py" {
                pending.extend(self.below(directory(&path)).map(str::to_owned));
            }
            // A package is imported before any of its modules.
            if file_name(&path) == "__init__.py" {
                let below: Vec<&str> = self.below(directory(&path)).collect();
                pending.extend(below.iter().map(|module| (*module).to_owned()));
            }
        }
        found
    }

    /// The Python files in a directory and below.
    pub(super) fn below<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = &'a str> {
        let is_below =
            move |path: &&String| dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
        self.paths.iter().filter(is_below).map(String::as_str)
    }
}

/// The `__init__.py` of the package that a module is in, if it is in one.
pub(super) fn package_around(path: &str) -> String {
    let of_module = if file_name(path) == "__init__.py" { directory(path) } else { path };
    match directory(of_module) {
        "" => "__init__.py".to_owned(),
        dir => format!("{dir}/__init__.py"),
    }
}

/// The name by which imports know a file: that of a package for its `__init__.py`.
pub(super) fn module_name(path: &str) -> Option<&str> {
    let name = match file_name(path).strip_suffix(".py")? {
        "__init__" | "__main__" => file_name(directory(path)),
        name => name,
    };
    (!name.is_empty()).then_some(name)
}

/// The files by each of some words of theirs.
fn files_by_word<'a>(
    files: &BTreeMap<&'a str, Words<'a>>,
    words_of: impl for<'w> Fn(&'w Words<'a>) -> &'w HashSet<&'a str>,
) -> HashMap<&'a str, Vec<&'a str>> {
    let mut found: HashMap<&str, Vec<&str>> = HashMap::new();
    for (path, words) in files {
        words_of(words).iter().for_each(|word| found.entry(word).or_default().push(path));
    }
    found
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

// The words of all lines with an import, and of the lines that continue them.
fn imported_words(text: &str) -> HashSet<&str> {
    let mut found = HashSet::new();
    let (mut is_open, mut is_continued) = (false, false);
    for line in text.lines() {
        let is_import = words_of(line).any(|word| matches!(word, "import" | "from" | "importorskip"));
        if !is_import && !is_open && !is_continued {
            continue;
        }
        found.extend(words_of(line));
        // A bracket in a comment closes nothing.
        let code = line.split('#').next().unwrap_or_default();
        is_open = (is_open || is_import && code.contains('(')) && !code.contains(')');
        is_continued = line.trim_end().ends_with('\\');
    }
    found
}

// The words behind a quotation mark, to the next one or a dot.
fn quoted_words(text: &str) -> HashSet<&str> {
    let behind = text.match_indices(['"', '\'']).map(|(at, mark)| &text[at + mark.len()..]);
    let words = behind.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        (end > 0 && rest[end..].starts_with(['"', '\'', '.'])).then_some(&rest[..end])
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> PythonModules {
        let sources = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        PythonModules::new(&sources, ["shop/old.py"].into_iter())
    }

    fn dependents(files: &[(&str, &str)], path: &str) -> Vec<String> {
        modules(files).dependents(path).into_iter().filter(|found| found != path).collect()
    }

    #[test]
    fn finds_who_may_import_a_file() {
        for (text, is_importer) in [
            ("import shop.price", true),
            ("from shop import price", true),
            ("from shop import (\n    cart,\n    price,\n)\n", true),
            ("from shop import cart, \\\n    price\n", true),
            ("from shop import (  # some (old)\n    cart,  # of (a)\n    # (b)\n    price,\n)\n", true),
            ("from shop import (cart)  # (\nprice\n", false),
            ("try: import shop.price\nexcept ImportError: pass", true),
            ("def test():\n    from shop.price import total\n", true),
            ("PLUGINS = ['shop.price']", true),
            ("from .price import total", true),
            ("import prices", false),
            ("price = 3", false),
            ("", false),
        ] {
            let files = [("shop/__init__.py", ""), ("shop/price.py", ""), ("tests/test_a.py", text)];
            let expected: Vec<&str> = if is_importer { vec!["tests/test_a.py"] } else { vec![] };
            assert_eq!(dependents(&files, "shop/price.py"), expected, "{text}");
        }
        assert_eq!(dependents(&[("a.py", "from shop import old")], "shop/old.py"), ["a.py"], "a removed file");
        // Texts may name modules outside of packages.
        for (text, in_package, outside) in [
            ("price = pytest.importorskip('price')", true, true),
            ("pytest.importorskip(\n    \"price\",\n)", true, true),
            ("mock.patch('price.RATE', 3)", false, true),
            ("load(\"price\")", false, true),
            ("'the price'", false, false),
            ("'price of it'", false, false),
            ("price.RATE", false, false),
        ] {
            let found = |files: &[(&str, &str)], path: &str| dependents(files, path) == ["test_a.py"];
            assert_eq!(found(&[("price.py", ""), ("test_a.py", text)], "price.py"), outside, "{text}");
            let files = [("shop/__init__.py", ""), ("shop/price.py", ""), ("test_a.py", text)];
            assert_eq!(found(&files, "shop/price.py"), in_package, "{text}");
        }
    }

    #[test]
    fn follows_imports_through_other_modules_and_conftest() {
        let files = [
            ("shop/__init__.py", "from .cart import Cart"),
            ("shop/cart.py", "from . import price"),
            ("shop/price.py", ""),
            ("tests/unit/conftest.py", "import shop"),
            ("tests/unit/test_a.py", ""),
            ("tests/other/test_b.py", ""),
        ];
        assert_eq!(
            dependents(&files, "shop/price.py"),
            ["shop/__init__.py", "shop/cart.py", "tests/unit/conftest.py", "tests/unit/test_a.py"]
        );
        // Any module of a package needs its `__init__.py`.
        let files = [("shop/__init__.py", ""), ("shop/price.py", ""), ("test_c.py", "import price as p")];
        assert_eq!(dependents(&files, "shop/__init__.py"), ["shop/price.py", "test_c.py"]);
    }

    #[test]
    fn knows_the_files_that_may_reach_any_other() {
        let files = [
            ("helpers.py", "import subprocess"),
            ("test_a.py", "import helpers"),
            ("test_b.py", "import json"),
            ("test_c.py", "for path in here.glob('*.json'): pass"),
            ("test_d.py", "def test_help(script_runner): script_runner.run('shop')"),
        ];
        assert_eq!(
            modules(&files).reaching_all().into_iter().collect::<Vec<_>>(),
            ["helpers.py", "test_a.py", "test_c.py", "test_d.py"]
        );
        assert_eq!(modules(&files).convention(), None);
        assert_eq!(modules(&[("settings.py", "INSTALLED_APPS = ['shop']")]).convention(), Some("INSTALLED_APPS"));
    }
}

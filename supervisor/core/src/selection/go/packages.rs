//! Which packages of a Go workspace import which, read as text: a quoted path that begins with a module's path counts as an import
//! wherever it stands.

use super::super::file_kind::{directory, file_name};
use super::reaching_tests::{ReachingTests, reaching_tests};
use std::collections::{BTreeMap, BTreeSet};

/// Imports of a package whose tests may run or read any other source: as a process, a plugin, or text.
pub(super) const REACHES_ALL: [&str; 9] = [
    "os/exec",
    "net/http/cgi",
    "plugin",
    "go/parser",
    "go/build",
    "golang.org/x/tools/go/packages",
    "golang.org/x/tools/go/analysis/analysistest",
    "github.com/rogpeppe/go-internal/testscript",
    "github.com/rogpeppe/go-internal/gotooltest",
];

/// What a source has whose tests may start a process without these imports, or depend on how any other source is compiled.
pub(super) const REACHES_ALL_WORDS: [&str; 4] = ["StartProcess(", "ForkExec(", "AllocsPerRun", "ReadMemStats"];

/// What a test file has whose tests may read any file that they find.
pub(super) const FINDS_FILES: [&str; 9] =
    ["ReadDir", "Readdir", "Walk(", "WalkDir", "DirFS", "CopyFS", "OpenRoot", "Glob", "http.Dir("];

/// What a source has that may read a file which it names.
const READS_FILES: [&str; 2] = ["ReadFile(", "os.Open"];

/// What a source has that knows the number of a line.
const KNOWS_LINES: [&str; 17] = [
    "Caller(",
    "runtime.Caller",
    "Callers(",
    "CallersFrames(",
    "FuncForPC(",
    "runtime.Stack(",
    "\"runtime/debug\"",
    ".Source()",
    "runtime/pprof",
    "Lshortfile",
    "Llongfile",
    "AddSource",
    "AddCaller",
    "ReportCaller",
    // Libraries that do.
    "github.com/pkg/errors",
    "github.com/cockroachdb/errors",
    "go.uber.org/zap",
];

/// The packages of a workspace.
#[derive(Debug, Default)]
pub(super) struct GoPackages {
    /// Module paths by directory.
    modules: BTreeMap<String, String>,
    /// Other paths by which sources import a module of the workspace, with its directory: a `replace` gives it one.
    replaced: BTreeMap<String, String>,
    packages: BTreeMap<String, Package>,
    /// Whether a source knows numbers of lines.
    pub(super) knows_lines: bool,
}

#[derive(Debug, Default)]
struct Package {
    /// The directory of its module.
    module: String,
    /// Imported packages of the workspace.
    imports: BTreeSet<String>,
    /// Those that its test files import.
    test_imports: BTreeSet<String>,
    reaches_all: bool,
    /// Of its own tests.
    reaching_tests: ReachingTests,
    has_tests: bool,
}

impl GoPackages {
    /// The packages of these files, by their paths; `go.mod` files name the modules.
    pub(super) fn new(sources: &BTreeMap<String, String>) -> GoPackages {
        let modules = sources.iter().filter(|(path, _)| file_name(path) == "go.mod");
        let modules = modules.filter_map(|(path, text)| Some((directory(path).to_owned(), module_path(text)?)));
        let mut found = GoPackages { modules: modules.collect(), ..GoPackages::default() };
        let settings = sources.iter().filter(|(path, _)| matches!(file_name(path), "go.mod" | "go.work"));
        let replaced = settings.flat_map(|(path, text)| replaced_modules(directory(path), text));
        found.replaced = replaced.filter(|(_, dir)| found.modules.contains_key(dir)).collect();
        let mut test_files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (path, text) in sources.iter().filter(|(path, _)| path.ends_with(".go")) {
            let Some((name, module)) = found.package_and_module(path) else { continue };
            let (module, imports) = (module.to_owned(), found.imports(text));
            let embeds_sources = embeds_sources(directory(path), text, sources);
            found.knows_lines |= KNOWS_LINES.iter().any(|word| text.contains(word));
            let package = found.packages.entry(name.clone()).or_default();
            package.module = module;
            if path.ends_with("_test.go") {
                package.test_imports.extend(imports);
                package.has_tests = true;
                if embeds_sources {
                    package.reaching_tests = ReachingTests::All;
                }
                test_files.entry(name).or_default().push(text);
            } else {
                let has_word = REACHES_ALL_WORDS.iter().any(|word| text.contains(word));
                let names_sources = READS_FILES.iter().any(|word| text.contains(word))
                    && quoted(text).any(|piece| piece.ends_with(".go"));
                package.imports.extend(imports);
                package.reaches_all |=
                    embeds_sources || has_word || names_sources || quoted(text).any(|path| REACHES_ALL.contains(&path));
            }
        }
        for (name, files) in test_files {
            let package = found.packages.get_mut(&name).filter(|package| package.reaching_tests != ReachingTests::All);
            if let Some(package) = package {
                package.reaching_tests = reaching_tests(files.into_iter());
            }
        }
        found
    }

    /// The import path of the package that the file at `path` belongs to.
    pub(super) fn package_of(&self, path: &str) -> Option<String> {
        self.package_and_module(path).map(|(package, _)| package)
    }

    /// The same, and the directory of its module.
    fn package_and_module(&self, path: &str) -> Option<(String, &str)> {
        let dir = directory(path);
        let (root, module) = self
            .modules
            .iter()
            .filter(|(root, _)| root.is_empty() || dir == *root || dir.starts_with(&format!("{root}/")))
            .max_by_key(|(root, _)| root.len())?;
        let below = dir.strip_prefix(root.as_str()).unwrap_or(dir).trim_start_matches('/');
        Some((if below.is_empty() { module.clone() } else { format!("{module}/{below}") }, root))
    }

    /// Whether two packages are of different modules.
    pub(super) fn are_of_two_modules(&self, one: &str, other: &str) -> bool {
        let module = |package: &str| self.packages.get(package).map(|package| package.module.as_str());
        module(one) != module(other)
    }

    /// Whether the package has files.
    pub(super) fn has(&self, package: &str) -> bool {
        self.packages.contains_key(package)
    }

    /// Whether the package has test files.
    pub(super) fn has_tests(&self, package: &str) -> bool {
        self.packages.get(package).is_some_and(|package| package.has_tests)
    }

    /// The packages whose tests link `package`, itself included.
    pub(super) fn dependents(&self, package: &str) -> BTreeSet<String> {
        let mut linked: BTreeSet<&str> = [package].into();
        // Until no package is added that imports one of them.
        loop {
            let imports_one = |of: &Package| of.imports.iter().any(|name| linked.contains(name.as_str()));
            let more: Vec<&str> = self
                .packages
                .iter()
                .filter(|(name, of)| !linked.contains(name.as_str()) && imports_one(of))
                .map(|(name, _)| name.as_str())
                .collect();
            if more.is_empty() {
                break;
            }
            linked.extend(more);
        }
        let by_tests =
            self.packages.iter().filter(|(_, of)| of.test_imports.iter().any(|name| linked.contains(name.as_str())));
        let by_tests: Vec<&str> = by_tests.map(|(name, _)| name.as_str()).collect();
        linked.into_iter().chain(by_tests).map(str::to_owned).collect()
    }

    /// The tests, by package, that may run or read any source of the workspace.
    pub(super) fn reaching_all(&self) -> BTreeMap<String, ReachingTests> {
        let reaching = self.packages.iter().filter(|(_, package)| package.reaches_all);
        let whole: BTreeSet<String> = reaching.flat_map(|(name, _)| self.dependents(name)).collect();
        let none = ReachingTests::default();
        let some = self.packages.iter().map(|(name, package)| (name, &package.reaching_tests));
        let some = some.filter(|(name, tests)| **tests != none && !whole.contains(*name));
        let some = some.map(|(name, tests)| (name.clone(), tests.clone())).collect::<Vec<_>>();
        whole.iter().map(|name| (name.clone(), ReachingTests::All)).chain(some).collect()
    }

    fn imports(&self, text: &str) -> BTreeSet<String> {
        let replaced = self.replaced.iter().filter_map(|(path, dir)| Some((path, self.modules.get(dir)?)));
        let paths: Vec<(&str, &str)> = self
            .modules
            .values()
            .map(|module| (module, module))
            .chain(replaced)
            .map(|(path, module)| (path.as_str(), module.as_str()))
            .collect();
        let of_module = |path: &str| {
            let below = |(module, name): &(&str, &str)| {
                let rest = path.strip_prefix(module)?;
                (rest.is_empty() || rest.starts_with('/')).then(|| format!("{name}{rest}"))
            };
            paths.iter().filter_map(below).collect::<Vec<_>>()
        };
        quoted(text).flat_map(of_module).collect()
    }
}

/// The paths that a `go.mod` or `go.work` in this directory replaces by directories of the workspace, with these.
fn replaced_modules(dir: &str, text: &str) -> Vec<(String, String)> {
    let replaced = |line: &str| {
        let line = line.split("//").next()?.trim();
        let (path, target) = line.strip_prefix("replace ").unwrap_or(line).split_once("=>")?;
        let path = path.split_whitespace().next()?.trim_matches(['"', '`']);
        let target = target.trim().trim_matches(['"', '`']);
        let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
        if !target.starts_with('.') {
            return None;
        }
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => _ = parts.pop()?,
                part => parts.push(part),
            }
        }
        Some((path.to_owned(), parts.join("/")))
    };
    text.lines().filter_map(replaced).collect()
}

/// Whether a source in this directory embeds others: by name, by a pattern that may fit, or in a directory.
fn embeds_sources(dir: &str, text: &str, sources: &BTreeMap<String, String>) -> bool {
    let is_below = |pattern: &str| {
        let start = if dir.is_empty() { format!("{pattern}/") } else { format!("{dir}/{pattern}/") };
        sources.range(start.clone()..).next().is_some_and(|(path, _)| path.starts_with(&start))
    };
    let patterns =
        text.lines().filter_map(|line| line.trim().strip_prefix("//go:embed ")).flat_map(str::split_whitespace);
    patterns.map(|pattern| pattern.trim_matches(['"', '`'])).any(|pattern| {
        let pattern = pattern.strip_prefix("all:").unwrap_or(pattern).trim_end_matches('/');
        // What follows the last asterisk, as in `*.txt`, ends the names that fit.
        let may_fit = |end: &str| ".go".ends_with(end) || end.ends_with(".go") || end.contains('/');
        pattern.rsplit_once('*').is_some_and(|(_, end)| may_fit(end))
            || pattern.contains(['?', '[', '\\'])
            || pattern.ends_with(".go")
            || pattern == "."
            || is_below(pattern)
    })
}

fn module_path(go_mod: &str) -> Option<String> {
    let path = go_mod.lines().find_map(|line| line.trim().strip_prefix("module "))?;
    let path = path.split("//").next()?.trim().trim_matches(['"', '`']);
    (!path.is_empty()).then(|| path.to_owned())
}

// What stands between two quotes of a line. A quote within a string begins another piece, so that none is overlooked.
pub(super) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split(['"', '`'])).filter(|piece| !piece.is_empty() && !piece.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages() -> GoPackages {
        let sources = [
            ("go.mod", "module example.com/m // a comment\n\ngo 1.21\n"),
            ("a/a.go", "package a\n"),
            ("b/b.go", "package b\n\nimport \"example.com/m/a\"\n"),
            ("c/c_test.go", "package c_test\n\nimport (\n\t_ `example.com/m/b`\n)\n"),
            ("d/d.go", "package d\n\nimport x \"os/exec\"\n"),
            ("e/e.go", "package e\n\nimport \"example.com/m/d\"\n"),
            ("f/f_test.go", "package f\n\nimport \"example.com/m/c\"\n"),
            ("sub/go.mod", "module \"example.com/sub\"\n"),
            ("sub/s.go", "package s\n\nimport \"example.com/m/a\"\n"),
        ];
        GoPackages::new(&sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into())
    }

    #[test]
    fn dependents_import_a_package_themselves_or_through_others() {
        let packages = packages();
        let names = |package: &str| packages.dependents(package).into_iter().collect::<Vec<_>>();
        let [a, b, c] = ["a", "b", "c"].map(|name| format!("example.com/m/{name}"));
        assert_eq!(names(&a), [a.clone(), b.clone(), c.clone(), "example.com/sub".to_owned()]);
        assert_eq!(names(&b), [b, c.clone()]);
        // Nobody links the tests of another package.
        assert_eq!(names(&c), [c, "example.com/m/f".to_owned()]);
        assert_eq!(packages.package_of("sub/s.go").as_deref(), Some("example.com/sub"));
        assert_eq!(packages.package_of("x.go").as_deref(), Some("example.com/m"));
        assert!(packages.has("example.com/m/a") && !packages.has("example.com/m/gone"));
        assert!(packages.are_of_two_modules("example.com/m/a", "example.com/sub"));
        assert!(!packages.are_of_two_modules("example.com/m/a", "example.com/m/b"));
    }

    #[test]
    fn knows_the_packages_that_may_start_a_process_or_read_sources() {
        let found: Vec<String> = packages().reaching_all().into_keys().collect();
        assert_eq!(found, ["example.com/m/d", "example.com/m/e"]);
        for (test, reaches) in [
            ("func TestA() { os.ReadFile(\"a.go\") }", true),
            ("func TestA() { os.ReadFile(\"a.txt\") }", false),
            ("//go:embed a.go", true),
            ("//go:embed b.txt all:*", true),
            ("//go:embed `sub`", true),
            ("//go:embed other *.txt", false),
            ("//go:embed *.g?", true),
            ("//go:embed a.[g]o", true),
            ("//go:embed \"a\\x2ego\"", true),
            ("//go:embed *go", true),
            ("//go:embed */*.txt", false),
            ("import \"net/http/cgi\"\nfunc TestA() { cgi.Serve(a) }", true),
            ("import . \"os\"\nfunc TestA() { StartProcess(a) }", true),
            ("func TestA() { file.ReadDir(-1) }", true),
            ("func TestA() { os.OpenRoot(a) }", true),
        ] {
            let sources = [("go.mod", "module m\n"), ("a_test.go", test), ("sub/s.go", "package s")];
            let packages = GoPackages::new(&sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
            assert_eq!(!packages.reaching_all().is_empty(), reaches, "{test}");
        }
    }

    #[test]
    fn a_module_may_be_imported_by_another_path_that_is_replaced() {
        let app = "module m\n\nreplace (\n\tother.org/orig v1.2.3 => ../fork // a comment\n\tother.org/far => /elsewhere\n)\n";
        let sources = [
            ("app/go.mod", app),
            ("app/a.go", "package app\n\nimport \"other.org/orig/v\"\n"),
            ("fork/go.mod", "module example.com/fork\n"),
            ("fork/v/v.go", "package v\n"),
            ("go.work", "replace third.org/x => ./fork\n"),
            ("use/go.mod", "module use\n"),
            ("use/u_test.go", "package use\n\nimport _ \"third.org/x/v\"\n"),
        ];
        let packages = GoPackages::new(&sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let dependents: Vec<String> = packages.dependents("example.com/fork/v").into_iter().collect();
        assert_eq!(dependents, ["example.com/fork/v", "m", "use"]);
    }
}

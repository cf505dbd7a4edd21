//! Which packages of a Go workspace import which, read as text: a quoted path that begins with a module's path counts as an import
//! wherever it stands.

use super::file_kind::{directory, file_name};
use std::collections::{BTreeMap, BTreeSet};

/// Imports of a package whose tests may run or read any other source: as a process, a plugin, or text.
const REACHES_ALL: [&str; 8] = [
    "os/exec",
    "plugin",
    "go/parser",
    "go/build",
    "golang.org/x/tools/go/packages",
    "golang.org/x/tools/go/analysis/analysistest",
    "github.com/rogpeppe/go-internal/testscript",
    "github.com/rogpeppe/go-internal/gotooltest",
];

/// What a source has whose tests may start a process without these imports, or depend on how any other source is compiled.
const REACHES_ALL_WORDS: [&str; 5] =
    ["os.StartProcess", "syscall.ForkExec", "syscall.StartProcess", "AllocsPerRun", "ReadMemStats"];

/// What a test file has whose tests may read any file that they find.
const FINDS_FILES: [&str; 7] =
    ["os.ReadDir(", "ioutil.ReadDir(", ".Readdir", ".Walk(", ".WalkDir(", "os.DirFS(", "Glob("];

/// What a source has that knows the number of a line.
const KNOWS_LINES: [&str; 11] = [
    ".Caller(",
    ".Callers(",
    ".FuncForPC(",
    "runtime.Stack(",
    "debug.Stack(",
    "debug.PrintStack(",
    "Lshortfile",
    "Llongfile",
    "AddSource",
    "AddCaller",
    "ReportCaller",
];

/// The packages of a workspace.
#[derive(Debug, Default)]
pub(super) struct GoPackages {
    /// Module paths by directory.
    modules: BTreeMap<String, String>,
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
    test_reaches_all: bool,
    has_tests: bool,
}

impl GoPackages {
    /// The packages of these files, by their paths; `go.mod` files name the modules.
    pub(super) fn new(sources: &BTreeMap<String, String>) -> GoPackages {
        let modules = sources.iter().filter(|(path, _)| file_name(path) == "go.mod");
        let modules = modules.filter_map(|(path, text)| Some((directory(path).to_owned(), module_path(text)?)));
        let mut found = GoPackages { modules: modules.collect(), ..GoPackages::default() };
        for (path, text) in sources.iter().filter(|(path, _)| path.ends_with(".go")) {
            let Some((name, module)) = found.package_and_module(path) else { continue };
            let (module, imports) = (module.to_owned(), found.imports(text));
            let has_word = REACHES_ALL_WORDS.iter().any(|word| text.contains(word));
            let reaches_all = has_word
                || quoted(text).any(|path| REACHES_ALL.contains(&path))
                || embeds_sources(directory(path), text, sources);
            found.knows_lines |= KNOWS_LINES.iter().any(|word| text.contains(word));
            let package = found.packages.entry(name).or_default();
            package.module = module;
            if path.ends_with("_test.go") {
                package.test_imports.extend(imports);
                // A test that names Go sources or finds files may read them as text.
                let reads = FINDS_FILES.iter().any(|word| text.contains(word));
                package.test_reaches_all |= reaches_all || reads || quoted(text).any(|piece| piece.ends_with(".go"));
                package.has_tests = true;
            } else {
                package.imports.extend(imports);
                package.reaches_all |= reaches_all;
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

    /// The packages whose tests may run or read any source of the workspace.
    pub(super) fn reaching_all(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (name, package) in &self.packages {
            if package.reaches_all {
                found.extend(self.dependents(name));
            }
            if package.test_reaches_all {
                found.insert(name.clone());
            }
        }
        found
    }

    fn imports(&self, text: &str) -> BTreeSet<String> {
        let of_module = |path: &&str| {
            let is_in =
                |module: &str| path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            self.modules.values().any(|module| is_in(module))
        };
        quoted(text).filter(of_module).map(str::to_owned).collect()
    }
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
        pattern.ends_with(".go") || pattern.ends_with('*') || pattern == "." || is_below(pattern)
    })
}

fn module_path(go_mod: &str) -> Option<String> {
    let path = go_mod.lines().find_map(|line| line.trim().strip_prefix("module "))?;
    let path = path.split("//").next()?.trim().trim_matches(['"', '`']);
    (!path.is_empty()).then(|| path.to_owned())
}

// What stands between two quotes of a line. A quote within a string begins another piece, so that none is overlooked.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
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
        let found: Vec<String> = packages().reaching_all().into_iter().collect();
        assert_eq!(found, ["example.com/m/d", "example.com/m/e"]);
        for (test, reaches) in [
            ("os.ReadFile(\"a.go\")", true),
            ("filepath.Glob(`*.go`)", true),
            ("os.StartProcess(os.Args[0], nil, nil)", true),
            ("testing.AllocsPerRun(1, f)", true),
            ("os.ReadDir(\".\")", true),
            ("os.ReadFile(\"a.txt\")", false),
            ("//go:embed a.go", true),
            ("//go:embed b.txt all:*", true),
            ("//go:embed `sub`", true),
            ("//go:embed other *.txt", false),
        ] {
            let sources = [("go.mod", "module m\n"), ("a_test.go", test), ("sub/s.go", "package s")];
            let packages = GoPackages::new(&sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
            assert_eq!(!packages.reaching_all().is_empty(), reaches, "{test}");
        }
    }
}

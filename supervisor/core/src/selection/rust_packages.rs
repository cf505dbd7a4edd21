//! Which packages of a Cargo workspace depend on which, by the names in their manifests, and what cannot be told from that.

use super::file_kind::{directory, file_name};
use crate::bounds::MANIFEST_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// What a source has whose tests may read any other source or data.
const READS_FILES: [&str; 22] = [
    "CARGO_MANIFEST_DIR",
    "read_dir",
    "walkdir",
    "WalkDir",
    "WalkBuilder",
    "ignore::Walk",
    "globwalk",
    "glob(",
    "glob!(",
    "glob::",
    "jwalk",
    "include_dir",
    "RustEmbed",
    "datatest",
    "test_each_file",
    "ui_test",
    "compiletest",
    "trybuild",
    "automod",
    "}.rs\"",
    "\".rs\"",
    "\"rs\"",
];

/// What a source has whose tests may run other programs or load libraries.
const RUNS_PROGRAMS: [&str; 8] =
    ["Command::new", "process::Command", "cargo_bin", "escargot", "duct::", "libloading", "dlopen", "fork()"];

/// What a source has that knows the number of a line.
const KNOWS_LINES: [&str; 6] = ["line!()", "Location::", "location()", "set_hook", "Backtrace", "backtrace"];

/// What takes a file into a source.
const INCLUDES: [&str; 5] = ["#[path", "include!(", "include_str!(", "include_bytes!(", "include_dir!("];

/// Most bytes of what is included that are searched.
const INCLUDED_BYTES_MAX: usize = 400;

/// Tables of a manifest that name packages which a package or its tests are built with; the last two, its build script.
const DEPENDENCIES: [&str; 5] =
    ["dependencies", "dev-dependencies", "dev_dependencies", "build-dependencies", "build_dependencies"];

/// Directories of a package in which Cargo finds targets by itself, and how their tests' names begin.
const TARGETS: [(&str, &str); 4] =
    [("tests", ""), ("examples", "example/"), ("benches", "bench/"), ("src/bin", "bin/")];

/// The packages of a workspace.
#[derive(Debug, Default)]
pub(super) struct RustPackages {
    /// By directory.
    packages: BTreeMap<String, Package>,
    /// Names of the packages that are built with one of this name.
    users: BTreeMap<String, BTreeSet<String>>,
    /// Names of the packages whose code the compiler executes, or that are loaded as shared libraries.
    at_build: BTreeSet<String>,
    problem: Option<Problem>,
    knows_lines: bool,
}

/// Why it cannot be told what a source is built into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    /// This takes sources from elsewhere.
    Convention(&'static str),
    /// A run of some packages builds something else than a run of all.
    Build(&'static str),
}

#[derive(Debug, Default)]
struct Package {
    name: String,
    dependencies: BTreeSet<String>,
    build_dependencies: BTreeSet<String>,
    /// Whether it is a procedural macro or a shared library.
    is_apart: bool,
    /// Whether its manifest names the paths of its targets, or turns off that Cargo finds them.
    names_targets: bool,
    /// Whether its build script has modules, which may be the library's too.
    builds_with_modules: bool,
    has_program: bool,
    runs_programs: bool,
    /// Files of targets that are modules of other targets, by their names without ending.
    modules: BTreeSet<String>,
    /// Its tests that may run or read any source.
    reaching_all: BTreeSet<Tests>,
}

/// The tests that a source of a package may be in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tests {
    /// Those of one target, by the name of its package or file in results.
    Unit(String),
    /// Those of the package with this name, and of all that are built with it.
    Package(String),
}

impl RustPackages {
    /// The packages of these files, by their paths.
    pub(super) fn new(sources: &BTreeMap<String, String>) -> RustPackages {
        let mut found = RustPackages::default();
        found.read_manifests(sources);
        found.connect();
        found.read_sources(sources);
        let runs_others = found
            .packages
            .values()
            .filter(|package| package.runs_programs)
            .any(|package| found.packages.values().any(|other| other.has_program && other.name != package.name));
        if runs_others {
            found.problem.get_or_insert(Problem::Build("a package may run the program of another one"));
        }
        found
    }

    fn read_manifests(&mut self, sources: &BTreeMap<String, String>) {
        for (path, text) in sources.iter().filter(|(path, _)| file_name(path) == "Cargo.toml") {
            let manifest = Some(text).filter(|text| text.len() <= MANIFEST_BYTES_MAX);
            let Some(manifest) = manifest.and_then(|text| text.parse::<Table>().ok()) else {
                self.problem = Some(Problem::Convention("a `Cargo.toml` that cannot be read"));
                continue;
            };
            self.problem = self.problem.or_else(|| problem(&manifest));
            if let Some(package) = package(&manifest) {
                self.packages.insert(directory(path).to_owned(), package);
            }
        }
    }

    /// Finds who is built with whom. Other packages than the workspace's do not count.
    fn connect(&mut self) {
        let names: BTreeSet<String> = self.packages.values().map(|package| package.name.clone()).collect();
        let mut open: Vec<String> = Vec::new();
        for package in self.packages.values_mut() {
            package.dependencies.retain(|name| names.contains(name));
            package.build_dependencies.retain(|name| names.contains(name));
            for used in package.dependencies.iter().chain(&package.build_dependencies) {
                self.users.entry(used.clone()).or_default().insert(package.name.clone());
            }
            open.extend(package.build_dependencies.iter().cloned());
            open.extend(package.is_apart.then(|| package.name.clone()));
        }
        let used: BTreeMap<&str, &BTreeSet<String>> =
            self.packages.values().map(|package| (package.name.as_str(), &package.dependencies)).collect();
        while let Some(name) = open.pop() {
            if self.at_build.insert(name.clone()) {
                open.extend(used.get(name.as_str()).into_iter().copied().flatten().cloned());
            }
        }
    }

    fn read_sources(&mut self, sources: &BTreeMap<String, String>) {
        let texts = || sources.iter().filter(|(path, _)| path.ends_with(".rs"));
        let stems: BTreeSet<&str> = texts().filter_map(|(path, _)| file_name(path).strip_suffix(".rs")).collect();
        for (path, text) in texts() {
            if includes_from_outside(text) {
                self.problem.get_or_insert(Problem::Convention("`#[path]` or `include!` of another directory"));
            }
            self.knows_lines |= KNOWS_LINES.iter().any(|word| text.contains(word));
            let Some(dir) = self.directory_of(path) else { continue };
            let Some(package) = self.packages.get_mut(&dir) else { continue };
            let within = path.strip_prefix(&dir).unwrap_or(path).trim_start_matches('/');
            package.has_program |= within == "src/main.rs" || within.starts_with("src/bin/");
            if within == "build.rs" {
                package.builds_with_modules = text.contains("mod ") || text.contains("include!(");
            } else {
                package.modules.extend(modules(text).filter(|name| stems.contains(name)).map(str::to_owned));
            }
        }
        for (path, text) in texts() {
            let runs_programs = RUNS_PROGRAMS.iter().any(|word| text.contains(word));
            if (runs_programs || READS_FILES.iter().any(|word| text.contains(word)))
                && let Some(tests) = self.tests_of(path)
                && let Some(package) = self.directory_of(path).and_then(|dir| self.packages.get_mut(&dir))
            {
                package.reaching_all.insert(tests);
                package.runs_programs |= runs_programs;
            }
        }
    }

    /// Why nothing can be told of any source.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.problem
    }

    /// Whether a source may know the numbers of its or others' lines.
    pub(super) fn knows_lines(&self) -> bool {
        self.knows_lines
    }

    /// The directory of the package that a file belongs to.
    fn directory_of(&self, path: &str) -> Option<String> {
        let mut dir = directory(path);
        loop {
            if self.packages.contains_key(dir) {
                return Some(dir.to_owned());
            }
            if dir.is_empty() {
                return None;
            }
            dir = directory(dir);
        }
    }

    /// The package that a file belongs to, and the file's path in it.
    fn package_of<'f>(&self, path: &'f str) -> Option<(&Package, &'f str)> {
        let dir = self.directory_of(path)?;
        Some((self.packages.get(&dir)?, path.strip_prefix(&dir)?.trim_start_matches('/')))
    }

    /// The tests that the source at `path` may be in.
    pub(super) fn tests_of(&self, path: &str) -> Option<Tests> {
        let (package, within) = self.package_of(path)?;
        let name = &package.name;
        let target = TARGETS.iter().find_map(|(targets, prefix)| {
            let stem = within.strip_prefix(targets)?.strip_prefix('/')?.strip_suffix(".rs")?;
            // A file in a directory below may be a module of several targets.
            let is_alone = !stem.contains('/') && !package.modules.contains(stem) && !package.names_targets;
            is_alone.then(|| Tests::Unit(format!("{name}::{prefix}{stem}")))
        });
        Some(target.unwrap_or_else(|| Tests::Package(name.clone())))
    }

    /// Whether Cargo may take a file at `path` for a target of its own.
    pub(super) fn may_be_target(&self, path: &str) -> bool {
        let is_below = |within: &str, dir: &str| within.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
        self.package_of(path).is_some_and(|(_, within)| {
            ["src/lib.rs", "src/main.rs"].contains(&within) || TARGETS.iter().any(|(dir, _)| is_below(within, dir))
        })
    }

    /// Whether code of the file at `path` may be executed where nothing is measured: by the compiler or in a shared library.
    pub(super) fn is_executed_elsewhere(&self, path: &str) -> bool {
        self.package_of(path)
            .is_none_or(|(package, _)| package.builds_with_modules || self.at_build.contains(&package.name))
    }

    /// Names of the packages or targets with these tests: for a package, its own name, as its library has it, and all of it in
    /// `known`.
    pub(super) fn units<'u>(&self, tests: &[&Tests], known: impl Iterator<Item = &'u String>) -> BTreeSet<String> {
        let mut units: BTreeSet<String> = BTreeSet::new();
        let mut open: Vec<&str> = Vec::new();
        for tests in tests {
            match tests {
                Tests::Unit(name) => _ = units.insert(name.clone()),
                Tests::Package(name) => open.push(name),
            }
        }
        let mut packages: BTreeSet<&str> = open.iter().copied().collect();
        while let Some(used) = open.pop() {
            let users = self.users.get(used).into_iter().flatten().map(String::as_str);
            open.extend(users.filter(|user| packages.insert(user)));
        }
        units.extend(known.filter(|unit| packages.contains(package_of_unit(unit))).cloned());
        units.extend(packages.into_iter().map(str::to_owned));
        units
    }

    /// Whether a unit is of the package that the source at `path` belongs to.
    pub(super) fn is_of_package(&self, unit: &str, path: &str) -> bool {
        self.package_of(path).is_some_and(|(package, _)| package_of_unit(unit) == package.name)
    }

    /// The tests that may run or read any source of the workspace.
    pub(super) fn reaching_all(&self) -> Vec<&Tests> {
        self.packages.values().flat_map(|package| &package.reaching_all).collect()
    }
}

/// The package of a unit. The unit of a package's library has the package's name.
pub(super) fn package_of_unit(unit: &str) -> &str {
    unit.split_once("::").map_or(unit, |(package, _)| package)
}

/// Whether a source takes in what directories contain, or files by names that it builds.
pub(super) fn lists_files(text: &str, name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let names_ending = |ending: &str| {
        [format!(".{ending}\""), format!("\"{ending}\""), format!("\\.{ending}")].iter().any(|part| text.contains(part))
    };
    READS_FILES.iter().filter(|word| !word.contains("rs\"")).any(|word| text.contains(word))
        || ending.is_some_and(names_ending)
}

/// A package, if the manifest is of one.
fn package(manifest: &Table) -> Option<Package> {
    let settings = manifest.get("package").or_else(|| manifest.get("project"))?;
    let name = settings.get("name")?.as_str()?.to_owned();
    let lib = manifest.get("lib");
    let lib_setting = |names: [&str; 2]| lib.and_then(|lib| names.into_iter().find_map(|name| lib.get(name)));
    let kinds = lib_setting(["crate-type", "crate_type"]).and_then(Value::as_array);
    let is_shared = |kind: &Value| matches!(kind.as_str(), Some("proc-macro" | "dylib" | "cdylib"));
    let is_apart = lib_setting(["proc-macro", "proc_macro"]).and_then(Value::as_bool) == Some(true)
        || kinds.is_some_and(|kinds| kinds.iter().any(is_shared));
    let is_found = ["autobins", "autotests", "autoexamples", "autobenches", "autolib"]
        .iter()
        .all(|key| settings.get(*key).is_none());
    let names_targets = !is_found || target_paths(manifest).next().is_some();
    let has_program = manifest.get("bin").is_some();
    let mut found = Package { name, is_apart, names_targets, has_program, ..Package::default() };
    for (key, name, settings) in dependencies(manifest) {
        // A package may have another name here.
        let name = settings.get("package").and_then(Value::as_str).unwrap_or(name).to_owned();
        if key.starts_with("build") {
            found.build_dependencies.insert(name);
        } else {
            found.dependencies.insert(name);
        }
    }
    Some(found)
}

/// The dependencies of a manifest: the table that names each, its name there, and its settings.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&'static str, &str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    tables.flat_map(|table| {
        DEPENDENCIES.into_iter().flat_map(|key| {
            let named = table.get(key).and_then(Value::as_table).into_iter().flatten();
            named.map(move |(name, settings)| (key, name.as_str(), settings))
        })
    })
}

/// Paths of the targets that a manifest names.
fn target_paths(manifest: &Table) -> impl Iterator<Item = &str> {
    let targets = ["bin", "test", "example", "bench"].iter().filter_map(|key| manifest.get(*key)?.as_array());
    let targets = targets.flatten().chain(manifest.get("lib"));
    targets.filter_map(|target| target.get("path")).filter_map(Value::as_str)
}

/// What in a manifest hides what is built of which sources.
fn problem(manifest: &Table) -> Option<Problem> {
    let is_outside = |path: &str| path.contains("..") || path.starts_with('/');
    if target_paths(manifest).any(is_outside) {
        return Some(Problem::Convention("a target's `path` that leads out of its package"));
    }
    let build = manifest.get("package").and_then(|package| package.get("build")).and_then(Value::as_str);
    if build.is_some_and(|build| build != "build.rs") {
        return Some(Problem::Convention("a build script of another name"));
    }
    if ["patch", "replace"].iter().any(|key| manifest.get(*key).is_some()) {
        return Some(Problem::Convention("`[patch]` or `[replace]`"));
    }
    let shared =
        manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")).and_then(Value::as_table);
    let local = |settings: &&Value| settings.get("path").is_some();
    if shared.is_some_and(|table| table.values().filter(local).any(|settings| settings.get("package").is_some())) {
        return Some(Problem::Convention("another name for a package of the workspace"));
    }
    // In a run of all packages they are one set for all.
    let has_features = |settings: &Value| {
        ["features", "default-features", "default_features"].iter().any(|key| settings.get(*key).is_some())
    };
    let mut of_workspace = dependencies(manifest)
        .map(|(_, _, settings)| settings)
        .filter(|settings| local(settings) || settings.get("workspace").is_some());
    let is_chosen =
        of_workspace.any(has_features) || shared.is_some_and(|table| table.values().filter(local).any(has_features));
    is_chosen.then_some(Problem::Build("a package chooses the features of another one"))
}

/// Whether a text takes a source from outside of its directory.
fn includes_from_outside(text: &str) -> bool {
    let included = INCLUDES.iter().flat_map(|word| text.match_indices(word)).map(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default().as_bytes();
        String::from_utf8_lossy(&rest[..rest.len().min(INCLUDED_BYTES_MAX)]).into_owned()
    });
    included
        .filter_map(|included| Some(included.split_once(".rs\"")?.0.to_owned()))
        .any(|path| path.contains("..") || path.contains("CARGO_"))
}

/// Names of the modules that a text declares.
fn modules(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_inclusive("mod ").skip(1);
    words.filter_map(|rest| rest.trim_start().split(|end: char| !end.is_alphanumeric() && end != '_').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (&str, &str) = ("a/Cargo.toml", "[package]\nname = 'a'\n");

    fn packages(more: &[(&str, &str)]) -> RustPackages {
        let sources = [
            ("Cargo.toml", "[workspace]\nmembers = ['*']\n"),
            A,
            ("b/Cargo.toml", "[package]\nname = 'b'\n[dependencies]\na.path = '../a'\n"),
            (
                "c/Cargo.toml",
                "[project]\nname = 'c'\n[target.'cfg(unix)'.dev_dependencies]\nx = { package = 'b', path = '../b' }\n",
            ),
            (
                "d/Cargo.toml",
                "[package]\nname = 'd'\n[lib]\nproc-macro = true\n[dependencies]\nutil.workspace = true\n",
            ),
            ("util/Cargo.toml", "[package]\nname = 'util'\n"),
            ("gen/Cargo.toml", "[package]\nname = 'gen'\n"),
            ("e/Cargo.toml", "[package]\nname = 'e'\n[build-dependencies]\ngen = { path = '../gen' }\n"),
        ];
        let sources = sources.iter().chain(more).map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        RustPackages::new(&sources.collect())
    }

    fn units(packages: &RustPackages, path: &str) -> String {
        let known = ["a", "a::bin/x", "a::it", "a::doc/lib", "b", "b::it", "c::it", "d", "e", "gen", "util"];
        let known = known.map(str::to_owned);
        let found = packages.units(&[&packages.tests_of(path).unwrap()], known.iter());
        found.into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_source_is_in_the_tests_of_its_package_and_of_those_built_with_it() {
        let packages = packages(&[]);
        // The library of c has no known test: it may have one now.
        assert_eq!(units(&packages, "a/src/x/y.rs"), "a a::bin/x a::doc/lib a::it b b::it c c::it");
        assert_eq!(units(&packages, "b/src/lib.rs"), "b b::it c c::it");
        assert_eq!(units(&packages, "util/src/lib.rs"), "d util");
        assert_eq!(units(&packages, "gen/src/lib.rs"), "e gen");
        assert_eq!(packages.tests_of("x/src/lib.rs"), None);
    }

    #[test]
    fn a_source_of_a_target_is_in_its_tests_alone() {
        let packages = packages(&[]);
        assert_eq!(units(&packages, "a/tests/it.rs"), "a::it");
        assert_eq!(units(&packages, "a/tests/new.rs"), "a::new");
        assert_eq!(units(&packages, "a/src/bin/x.rs"), "a::bin/x");
        assert_eq!(units(&packages, "c/tests/common/mod.rs"), "c c::it");
        for (path, expected) in [
            ("a/tests/new.rs", true),
            ("a/tests/new/main.rs", true),
            ("a/src/bin/x.rs", true),
            ("a/src/main.rs", true),
            ("a/src/x.rs", false),
            ("x/src/main.rs", false),
        ] {
            assert_eq!(packages.may_be_target(path), expected, "{path}");
        }
    }

    #[test]
    fn a_target_that_is_a_module_of_others_or_has_another_name_is_in_more_tests() {
        let named = "[package]\nname = 'b'\n[[test]]\nname = 'it'\npath = 'tests/y.rs'\n";
        let found = packages(&[("c/tests/it.rs", "mod x;\n"), ("c/tests/x.rs", ""), ("b/Cargo.toml", named)]);
        assert_eq!(units(&found, "c/tests/x.rs"), "c c::it");
        assert_eq!(units(&found, "b/tests/y.rs"), "b b::it c c::it");
        let not_found = packages(&[("b/Cargo.toml", "[package]\nname = 'b'\nautobins = false\n")]);
        assert_eq!(units(&not_found, "b/src/bin/x.rs"), "b b::it c c::it");
    }

    #[test]
    fn knows_what_may_be_executed_where_nothing_is_measured() {
        let found = packages(&[]);
        let is_elsewhere =
            ["a", "b", "d", "e", "gen", "util"].map(|name| found.is_executed_elsewhere(&format!("{name}/src/lib.rs")));
        assert_eq!(is_elsewhere, [false, false, true, false, true, true]);
        let with_modules = packages(&[("a/build.rs", "#[path = \"src/x.rs\"]\nmod x;\n")]);
        assert!(with_modules.is_executed_elsewhere("a/src/x.rs") && !with_modules.is_executed_elsewhere("b/src/x.rs"));
        for kind in ["proc-macro", "dylib", "cdylib"] {
            let manifest = format!("[package]\nname = 'b'\n[lib]\ncrate-type = ['rlib', '{kind}']\n");
            assert!(packages(&[("b/Cargo.toml", &manifest)]).is_executed_elsewhere("b/src/lib.rs"), "{kind}");
        }
    }

    #[test]
    fn knows_the_tests_that_may_run_or_read_any_source() {
        let found = packages(&[
            ("b/src/lib.rs", "fn f() { Command::new(\"x\"); }"),
            ("a/tests/it.rs", "let dir = env!(\"CARGO_MANIFEST_DIR\");"),
            ("e/tests/it.rs", "let path = format!(\"../../fixtures/{name}.rs\");"),
        ]);
        let [a, e] = ["a::it", "e::it"].map(|name| Tests::Unit(name.to_owned()));
        assert_eq!(found.reaching_all(), [&a, &Tests::Package("b".to_owned()), &e]);
    }

    #[test]
    fn names_what_hides_what_is_built_of_which_sources() {
        let with = |path: &str, text: &str| packages(&[(path, text)]).problem();
        let known = "#[path = \"x.rs\"]\nmod y;\ninclude!(concat!(env!(\"OUT_DIR\"), \"/x.rs\"));\n";
        assert_eq!(with("a/src/lib.rs", known), None);
        let elsewhere = Some(Problem::Convention("`#[path]` or `include!` of another directory"));
        assert_eq!(with("a/src/lib.rs", "#[path = \"../../x.rs\"]\n"), elsewhere);
        assert_eq!(with("a/src/lib.rs", "include_str!(\"../../x.rs\");\n"), elsewhere);
        for (text, expected) in [
            ("[lib]\npath = '../a/src/lib.rs'", "a target's `path` that leads out of its package"),
            ("[patch.crates-io]\na.path = 'a'", "`[patch]` or `[replace]`"),
            (
                "[workspace.dependencies]\nz = { package = 'a', path = 'a' }",
                "another name for a package of the workspace",
            ),
            ("[", "a `Cargo.toml` that cannot be read"),
        ] {
            assert_eq!(with("f/Cargo.toml", text), Some(Problem::Convention(expected)), "{text}");
        }
        assert_eq!(with("f/Cargo.toml", "[workspace.dependencies]\nz = { package = 'rand', version = '1' }"), None);
        let features = Some(Problem::Build("a package chooses the features of another one"));
        for text in ["a = { path = '../a', features = ['x'] }", "a = { workspace = true, default-features = false }"] {
            assert_eq!(
                with("f/Cargo.toml", &format!("[package]\nname = 'f'\n[dependencies]\n{text}")),
                features,
                "{text}"
            );
        }
        let programs = [("a/src/main.rs", "fn main() {}"), ("b/tests/it.rs", "Command::new(program)")];
        assert_eq!(packages(&programs).problem(), Some(Problem::Build("a package may run the program of another one")));
        assert_eq!(packages(&[programs[0], ("a/tests/it.rs", "Command::new(program)")]).problem(), None);
    }
}

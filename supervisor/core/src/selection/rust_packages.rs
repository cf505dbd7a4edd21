//! Which packages of a Cargo workspace depend on which, by the names in their manifests, and what cannot be told from that.

use super::file_kind::{directory, file_name};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// What a source has that may run or read any other source: as a process, a library, or text.
const REACHES_ALL: [&str; 13] = [
    "Command::new",
    "process::Command",
    "CARGO_MANIFEST_DIR",
    "CARGO_BIN_EXE",
    "cargo_bin",
    "trybuild",
    "read_dir",
    "walkdir",
    "glob(",
    "glob::",
    "libloading",
    "dlopen",
    "fork()",
];

/// What a source has that knows the number of a line.
const KNOWS_LINES: [&str; 6] = ["line!()", "Location::", "location()", "set_hook", "Backtrace", "backtrace"];

/// What takes a file into a source.
const INCLUDES: [&str; 5] = ["#[path", "include!(", "include_str!(", "include_bytes!(", "include_dir!("];

/// Most bytes of what is included that are searched.
const INCLUDED_BYTES_MAX: usize = 400;

/// Tables of a manifest that name other packages.
const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Directories of a package in which Cargo finds targets by itself, and how their tests' names begin.
const TARGETS: [(&str, &str); 4] =
    [("tests", ""), ("examples", "example/"), ("benches", "bench/"), ("src/bin", "bin/")];

/// The packages of a workspace.
#[derive(Debug, Default)]
pub(super) struct RustPackages {
    /// By directory.
    packages: BTreeMap<String, Package>,
    /// A word of a source or a manifest that takes a source from elsewhere.
    convention: Option<&'static str>,
    knows_lines: bool,
}

#[derive(Debug, Default)]
struct Package {
    name: String,
    /// Names of packages that it or its tests are built with.
    dependencies: BTreeSet<String>,
    /// Names of packages that its build script is built with.
    build_dependencies: BTreeSet<String>,
    is_proc_macro: bool,
    /// Whether its manifest says where its targets are, or its build script has modules.
    names_paths: bool,
    builds_with_modules: bool,
    /// Names of the modules of its targets below [`TARGETS`].
    modules: BTreeSet<String>,
    /// The tests that may run or read any source.
    reaching_all: BTreeSet<Tests>,
}

/// The tests that a source of a package may be in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tests {
    /// Those of one target, as their units are named.
    Unit(String),
    /// Those of all targets but the library of the package with this name.
    OfTargets(String),
    /// Those of the package in this directory, and of all that depend on it.
    Package(String),
}

impl RustPackages {
    /// The packages of these files, by their paths.
    pub(super) fn new(sources: &BTreeMap<String, String>) -> RustPackages {
        let manifests = sources.iter().filter(|(path, _)| file_name(path) == "Cargo.toml");
        let manifests: BTreeMap<&str, Table> =
            manifests.filter_map(|(path, text)| Some((directory(path), text.parse().ok()?))).collect();
        let packages = manifests.iter().filter_map(|(dir, manifest)| Some(((*dir).to_owned(), package(manifest)?)));
        let mut found = RustPackages { packages: packages.collect(), ..RustPackages::default() };
        if manifests.values().any(takes_from_outside) {
            found.convention = Some("a `path` that leads out of its package");
        }
        let texts = || sources.iter().filter(|(path, _)| path.ends_with(".rs"));
        for (path, text) in texts() {
            if includes_from_outside(text) {
                found.convention = Some("`#[path]` or `include!` of another directory");
            }
            found.knows_lines |= KNOWS_LINES.iter().any(|word| text.contains(word));
            let Some(dir) = found.directory_of(path) else { continue };
            let Some(package) = found.packages.get_mut(&dir) else { continue };
            if path.strip_prefix(&dir).is_some_and(|within| within.trim_start_matches('/') == "build.rs") {
                package.builds_with_modules = text.contains("mod ") || text.contains("include!(");
            } else {
                package.modules.extend(modules(text).map(str::to_owned));
            }
        }
        for (path, text) in texts() {
            if REACHES_ALL.iter().any(|word| text.contains(word))
                && let Some(tests) = found.tests_of(path)
                && let Some(package) = found.directory_of(path).and_then(|dir| found.packages.get_mut(&dir))
            {
                package.reaching_all.insert(tests);
            }
        }
        found
    }

    /// What takes sources from elsewhere, in words.
    pub(super) fn convention(&self) -> Option<&'static str> {
        self.convention
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

    /// The tests that the source at `path` may be in.
    pub(super) fn tests_of(&self, path: &str) -> Option<Tests> {
        let dir = self.directory_of(path)?;
        let package = self.packages.get(&dir)?;
        let name = &package.name;
        let within = path.strip_prefix(&dir)?.trim_start_matches('/');
        let in_target = TARGETS.iter().find_map(|(targets, prefix)| {
            let rest = within.strip_prefix(targets)?.strip_prefix('/')?;
            let stem = rest.strip_suffix(".rs")?;
            // A directory is a target if it has a `main.rs`, or modules of several, and a file may be a module too.
            let is_module = stem.contains('/') || package.modules.contains(stem);
            Some(if is_module {
                Tests::OfTargets(name.clone())
            } else {
                Tests::Unit(format!("{name}::{prefix}{stem}"))
            })
        });
        Some(in_target.filter(|_| !package.names_paths).unwrap_or(Tests::Package(dir)))
    }

    /// All tests that the source at `path` may be in, whichever target it is of.
    pub(super) fn package_of(&self, path: &str) -> Option<Tests> {
        self.directory_of(path).map(Tests::Package)
    }

    /// Whether a unit is of the package that the source at `path` belongs to.
    pub(super) fn is_of_package(&self, unit: &str, path: &str) -> bool {
        let package = self.directory_of(path).and_then(|dir| self.packages.get(&dir));
        package.is_some_and(|package| package_of_unit(unit) == package.name)
    }

    /// Whether Cargo may take the file at `path` for a target of its own.
    pub(super) fn may_be_target(&self, path: &str) -> bool {
        let within =
            self.directory_of(path).and_then(|dir| path.strip_prefix(&dir).map(|rest| rest.trim_start_matches('/')));
        within.is_none_or(|within| {
            ["src/lib.rs", "src/main.rs"].contains(&within)
                || TARGETS.iter().any(|(dir, _)| within.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/')))
        })
    }

    /// Whether the compiler itself may execute code of the package with the file at `path`, as a procedural macro or in a build script.
    pub(super) fn runs_at_build(&self, path: &str) -> bool {
        let Some(own) = self.directory_of(path).and_then(|dir| self.packages.get(&dir)) else { return true };
        let dependents = self.dependents_by_name(&own.name);
        own.builds_with_modules
            || self.packages.values().any(|package| {
                package.is_proc_macro && dependents.contains(package.name.as_str())
                    || package.build_dependencies.iter().any(|name| dependents.contains(name.as_str()))
            })
    }

    /// Which of the `units` have these tests.
    pub(super) fn units<'u>(&self, tests: &Tests, units: impl Iterator<Item = &'u String>) -> Vec<&'u String> {
        match tests {
            Tests::Unit(name) => units.filter(|unit| *unit == name).collect(),
            Tests::OfTargets(name) => {
                units.filter(|unit| unit.strip_prefix(name).is_some_and(|rest| rest.starts_with("::"))).collect()
            }
            Tests::Package(dir) => {
                let name = self.packages.get(dir).map_or("", |package| &package.name);
                let dependents = self.dependents_by_name(name);
                units.filter(|unit| dependents.contains(package_of_unit(unit))).collect()
            }
        }
    }

    /// The tests that may run or read any source of the workspace.
    pub(super) fn reaching_all(&self) -> impl Iterator<Item = &Tests> {
        self.packages.values().flat_map(|package| &package.reaching_all)
    }

    /// The packages that are built with the one of this name, also through others, itself included.
    fn dependents_by_name<'p>(&'p self, name: &'p str) -> BTreeSet<&'p str> {
        let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in self.packages.values() {
            for used in package.dependencies.iter().chain(&package.build_dependencies) {
                users.entry(used).or_default().push(&package.name);
            }
        }
        let (mut found, mut open) = (BTreeSet::from([name]), vec![name]);
        while let Some(used) = open.pop() {
            let more = users.get(used).into_iter().flatten().filter(|user| found.insert(user));
            open.extend(more);
        }
        found
    }
}

fn package_of_unit(unit: &str) -> &str {
    unit.split_once("::").map_or(unit, |(package, _)| package)
}

/// A package, if the manifest is of one.
fn package(manifest: &Table) -> Option<Package> {
    let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
    let is_proc_macro = manifest.get("lib").is_some_and(|lib| {
        ["proc-macro", "proc_macro"].iter().any(|key| lib.get(key).and_then(Value::as_bool) == Some(true))
    });
    let names_paths = target_paths(manifest).next().is_some();
    let mut found = Package { name, is_proc_macro, names_paths, ..Package::default() };
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    for table in tables {
        for key in DEPENDENCIES {
            for (name, settings) in table.get(key).and_then(Value::as_table).into_iter().flatten() {
                // A package may have another name here, and the workspace may say which.
                let renamed = settings.get("package").and_then(Value::as_str).unwrap_or(name).to_owned();
                let is_build = key == "build-dependencies";
                let names = if is_build { &mut found.build_dependencies } else { &mut found.dependencies };
                names.insert(renamed);
            }
        }
    }
    Some(found)
}

/// Paths of the targets that a manifest names.
fn target_paths(manifest: &Table) -> impl Iterator<Item = &str> {
    let targets = ["bin", "test", "example", "bench"].iter().filter_map(|key| manifest.get(*key)?.as_array());
    let targets = targets.flatten().chain(manifest.get("lib"));
    let build = manifest.get("package").and_then(|package| package.get("build")).filter(|build| build.is_str());
    targets.filter_map(|target| target.get("path")).chain(build).filter_map(Value::as_str)
}

/// Whether a target's source is not in the package's own directory, or a dependency has another name for the whole workspace.
fn takes_from_outside(manifest: &Table) -> bool {
    let is_build_script =
        |path: &str| manifest.get("package").and_then(|package| package.get("build")?.as_str()) == Some(path);
    let is_outside =
        |path: &str| path.contains("..") || path.starts_with('/') || is_build_script(path) && path != "build.rs";
    let renamed =
        manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")).and_then(Value::as_table);
    target_paths(manifest).any(is_outside)
        || renamed.is_some_and(|table| table.values().any(|settings| settings.get("package").is_some()))
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

    fn packages(more: &[(&str, &str)]) -> RustPackages {
        let sources = [
            ("Cargo.toml", "[workspace]\nmembers = ['*']\n"),
            ("a/Cargo.toml", "[package]\nname = 'a'\n"),
            ("b/Cargo.toml", "[package]\nname = 'b'\n[dependencies]\na.path = '../a'\n"),
            (
                "c/Cargo.toml",
                "[package]\nname = 'c'\n[target.'cfg(unix)'.dev-dependencies]\nx = { package = 'b', path = '../b' }\n",
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

    fn packages_with_script(script: &str) -> RustPackages {
        packages(&[("a/build.rs", script)])
    }

    fn units(packages: &RustPackages, path: &str) -> Vec<String> {
        let names = ["a", "a::bin/x", "a::it", "a::doc/lib", "b", "b::it", "c::it", "d", "e", "gen", "util"];
        let names = names.map(str::to_owned);
        let found = packages.units(&packages.tests_of(path).unwrap(), names.iter());
        found.into_iter().cloned().collect()
    }

    #[test]
    fn a_source_is_in_the_tests_of_its_package_and_of_those_built_with_it() {
        let packages = packages(&[]);
        assert_eq!(units(&packages, "a/src/x/y.rs"), ["a", "a::bin/x", "a::it", "a::doc/lib", "b", "b::it", "c::it"]);
        assert_eq!(units(&packages, "b/src/lib.rs"), ["b", "b::it", "c::it"]);
        assert_eq!(units(&packages, "util/src/lib.rs"), ["d", "util"]);
        assert_eq!(units(&packages, "gen/src/lib.rs"), ["e", "gen"]);
        assert_eq!(packages.tests_of("x/src/lib.rs"), None);
    }

    #[test]
    fn a_source_of_a_target_is_in_its_tests_alone() {
        let packages = packages(&[]);
        assert_eq!(units(&packages, "a/tests/it.rs"), ["a::it"]);
        assert_eq!(units(&packages, "a/src/bin/x.rs"), ["a::bin/x"]);
        assert_eq!(units(&packages, "a/tests/common/mod.rs"), ["a::bin/x", "a::it", "a::doc/lib"]);
        for (path, expected) in [
            ("a/tests/new.rs", true),
            ("a/tests/new/main.rs", true),
            ("a/src/bin/x.rs", true),
            ("a/src/main.rs", true),
            ("x/src/x.rs", true),
            ("a/src/x.rs", false),
        ] {
            assert_eq!(packages.may_be_target(path), expected, "{path}");
        }
    }

    #[test]
    fn a_target_that_is_a_module_of_others_or_has_another_name_is_in_more_tests() {
        let more = [
            ("a/tests/it.rs", "mod x;\n"),
            ("b/Cargo.toml", "[package]\nname = 'b'\n[[test]]\nname = 'it'\npath = 'tests/y.rs'\n"),
        ];
        let packages = packages(&more);
        assert_eq!(units(&packages, "a/tests/x.rs"), ["a::bin/x", "a::it", "a::doc/lib"]);
        assert_eq!(units(&packages, "b/tests/y.rs"), ["b", "b::it", "c::it"]);
    }

    #[test]
    fn knows_what_the_compiler_may_execute() {
        let packages = packages(&[]);
        let found =
            ["a", "b", "d", "e", "gen", "util"].map(|name| packages.runs_at_build(&format!("{name}/src/lib.rs")));
        assert_eq!(found, [false, false, true, false, true, true]);
        let with_modules = packages_with_script("#[path = \"src/x.rs\"]\nmod x;\n");
        assert!(with_modules.runs_at_build("a/src/x.rs") && !with_modules.runs_at_build("b/src/x.rs"));
    }

    #[test]
    fn knows_the_tests_that_may_run_or_read_any_source() {
        let packages = packages(&[
            ("b/src/lib.rs", "fn f() { Command::new(\"x\"); }"),
            ("a/tests/it.rs", "let dir = env!(\"CARGO_MANIFEST_DIR\");"),
        ]);
        let found: Vec<&Tests> = packages.reaching_all().collect();
        assert_eq!(found, [&Tests::Unit("a::it".to_owned()), &Tests::Package("b".to_owned())]);
    }

    #[test]
    fn names_what_takes_sources_from_elsewhere() {
        let is_known = |path: &str, text: &str| packages(&[(path, text)]).convention().is_none();
        assert!(is_known(
            "a/src/lib.rs",
            "#[path = \"x.rs\"]\nmod y;\ninclude!(concat!(env!(\"OUT_DIR\"), \"/x.rs\"));\n"
        ));
        assert!(!is_known("a/src/lib.rs", "#[path = \"../../x.rs\"]\n"));
        assert!(!is_known("a/src/lib.rs", "include_str!(\"../../x.rs\");\n"));
        assert!(!is_known("f/Cargo.toml", "[package]\nname = 'f'\n[lib]\npath = '../a/src/lib.rs'\n"));
        assert!(!is_known("f/Cargo.toml", "[workspace.dependencies]\nz = { package = 'a', path = 'a' }\n"));
    }
}

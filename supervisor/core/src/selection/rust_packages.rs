//! Which packages of a Cargo workspace depend on which, by the names in their manifests, and what cannot be told from that.

use super::FullReason;
use super::file_kind::{directory, file_name};
use super::rust_manifest::{RustManifest, why_unknown};
use super::rust_text::{includes_from_outside, knows_lines, modules, reads_files, runs_programs};
use crate::bounds::MANIFEST_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use toml::Table;

/// Most programs whose names are searched in the sources that run programs. With more, one of them may be any.
const PROGRAMS_MAX: usize = 50;

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
    /// Why all tests have to run after a change of any source.
    why_unknown: Option<FullReason>,
    knows_lines: bool,
}

#[derive(Debug, Default)]
struct Package {
    manifest: RustManifest,
    /// Whether its build script has modules, which may be the library's too.
    builds_with_modules: bool,
    /// Names of its programs, if it has one: also its own.
    programs: BTreeSet<String>,
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
        if found.why_unknown.is_none() {
            found.why_unknown = found.runs_others(sources);
        }
        found
    }

    fn read_manifests(&mut self, sources: &BTreeMap<String, String>) {
        for (path, text) in sources.iter().filter(|(path, _)| file_name(path) == "Cargo.toml") {
            let manifest = Some(text).filter(|text| text.len() <= MANIFEST_BYTES_MAX);
            let Some(manifest) = manifest.and_then(|text| text.parse::<Table>().ok()) else {
                self.why_unknown = Some(FullReason::Convention { word: "a `Cargo.toml` that cannot be read" });
                continue;
            };
            self.why_unknown = self.why_unknown.take().or_else(|| why_unknown(&manifest));
            if let Some(manifest) = RustManifest::of(&manifest) {
                let package = Package { manifest, ..Package::default() };
                self.packages.insert(directory(path).to_owned(), package);
            }
        }
    }

    /// Finds who is built with whom. Other packages than the workspace's do not count.
    fn connect(&mut self) {
        let names: BTreeSet<String> = self.packages.values().map(|package| package.manifest.name.clone()).collect();
        let mut open: Vec<String> = Vec::new();
        for Package { manifest, programs, .. } in self.packages.values_mut() {
            manifest.dependencies.retain(|name| names.contains(name));
            manifest.build_dependencies.retain(|name| names.contains(name));
            for used in manifest.dependencies.iter().chain(&manifest.build_dependencies) {
                self.users.entry(used.clone()).or_default().insert(manifest.name.clone());
            }
            open.extend(manifest.build_dependencies.iter().cloned());
            open.extend(manifest.is_apart.then(|| manifest.name.clone()));
            programs.append(&mut manifest.programs);
        }
        let manifests = self.packages.values().map(|package| &package.manifest);
        let used: BTreeMap<&str, &BTreeSet<String>> =
            manifests.map(|manifest| (manifest.name.as_str(), &manifest.dependencies)).collect();
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
                self.why_unknown
                    .get_or_insert(FullReason::Convention { word: "`#[path]` or `include!` of another directory" });
            }
            self.knows_lines |= knows_lines(text);
            let Some(dir) = self.directory_of(path) else { continue };
            let Some(package) = self.packages.get_mut(&dir) else { continue };
            let within = path.strip_prefix(&dir).unwrap_or(path).trim_start_matches('/');
            if within == "src/main.rs" {
                package.programs.insert(package.manifest.name.clone());
            } else if let Some(program) = within.strip_prefix("src/bin/") {
                let name = program.split(['/', '.']).next().unwrap_or_default();
                package.programs.insert(name.to_owned());
            }
            if within == "build.rs" {
                package.builds_with_modules = text.contains("mod ") || text.contains("include!(");
            } else {
                package.modules.extend(modules(text).filter(|name| stems.contains(name)).map(str::to_owned));
            }
        }
        for (path, _) in texts().filter(|(_, text)| runs_programs(text) || reads_files(text)) {
            if let Some(tests) = self.tests_of(path)
                && let Some(package) = self.directory_of(path).and_then(|dir| self.packages.get_mut(&dir))
            {
                package.reaching_all.insert(tests);
            }
        }
    }

    /// Whether a package may run the program of another one, which a run of some packages does not build.
    fn runs_others(&self, sources: &BTreeMap<String, String>) -> Option<FullReason> {
        let programs: Vec<(&str, &str)> = self
            .packages
            .values()
            .flat_map(|package| package.programs.iter().map(|name| (package.manifest.name.as_str(), name.as_str())))
            .take(PROGRAMS_MAX + 1)
            .collect();
        let runs_one = |(path, text): (&String, &String)| {
            let own = self.package_of(path).map(|(package, _)| package.manifest.name.as_str());
            let mut others = programs.iter().filter(|(package, _)| Some(*package) != own);
            runs_programs(text) && (programs.len() > PROGRAMS_MAX || others.any(|(_, name)| text.contains(name)))
        };
        let mut texts = sources.iter().filter(|(path, _)| path.ends_with(".rs"));
        texts.any(runs_one).then_some(FullReason::OtherBuild { why: "a package may run the program of another one" })
    }

    /// Why all tests have to run after a change of any source.
    pub(super) fn why_unknown(&self) -> Option<&FullReason> {
        self.why_unknown.as_ref()
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
        let name = &package.manifest.name;
        let target = TARGETS.iter().find_map(|(targets, prefix)| {
            let stem = within.strip_prefix(targets)?.strip_prefix('/')?.strip_suffix(".rs")?;
            // A file in a directory below may be a module of several targets.
            let is_alone = !stem.contains('/') && !package.modules.contains(stem) && !package.manifest.names_targets;
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
            .is_none_or(|(package, _)| package.builds_with_modules || self.at_build.contains(&package.manifest.name))
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
        self.package_of(path).is_some_and(|(package, _)| package_of_unit(unit) == package.manifest.name)
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
        let with = |path: &str, text: &str| packages(&[(path, text)]).why_unknown().cloned();
        let known = "#[path = \"x.rs\"]\nmod y;\ninclude!(concat!(env!(\"OUT_DIR\"), \"/x.rs\"));\n";
        assert_eq!(with("a/src/lib.rs", known), None);
        let elsewhere = Some(FullReason::Convention { word: "`#[path]` or `include!` of another directory" });
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
            assert_eq!(with("f/Cargo.toml", text), Some(FullReason::Convention { word: expected }), "{text}");
        }
        assert_eq!(with("f/Cargo.toml", "[workspace.dependencies]\nz = { package = 'rand', version = '1' }"), None);
        let features = Some(FullReason::OtherBuild { why: "a package chooses the features of another one" });
        for text in ["a = { path = '../a', features = ['x'] }", "a = { workspace = true, default-features = false }"] {
            assert_eq!(
                with("f/Cargo.toml", &format!("[package]\nname = 'f'\n[dependencies]\n{text}")),
                features,
                "{text}"
            );
        }
        let runs = Some(FullReason::OtherBuild { why: "a package may run the program of another one" });
        let with_program = |reader: &str| {
            packages(&[("e/src/bin/server/main.rs", ""), ("b/tests/it.rs", reader)]).why_unknown().cloned()
        };
        assert_eq!(with_program("Command::new(cargo_bin(\"server\"))"), runs);
        assert_eq!(with_program("Command::new(\"rustc\")"), None);
        let own = [("e/src/bin/server.rs", ""), ("e/tests/it.rs", "Command::new(\"server\")")];
        assert_eq!(packages(&own).why_unknown(), None);
    }
}

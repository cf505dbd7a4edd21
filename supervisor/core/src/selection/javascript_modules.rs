//! Which JavaScript and TypeScript files of a workspace may import which, read as text: too many are found rather than too few. A
//! quoted string whose last part is a file's name, or that of its directory for an `index` file, names that file, whatever it is for.

use super::file_kind::{Ecosystem, FileKind, JAVASCRIPT_EXTENSIONS, directory, file_name};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Words of a file that may import, run or read any other: listings of directories, processes, code from text.
const REACHES_ALL: [&str; 22] = [
    "child_process",
    "createRequire",
    "eval",
    "execa",
    "execSync",
    "fastGlob",
    "fork",
    "glob",
    "globSync",
    "globby",
    "opendir",
    "proxyquire",
    "readdir",
    "readdirSync",
    "rewire",
    "runInContext",
    "runInNewContext",
    "spawn",
    "spawnSync",
    "tinyglobby",
    "worker_threads",
    "Worker",
];

/// Calls that load a module whose name is computed, unless a quoted string follows.
const LOADING_CALLS: [&str; 4] = ["require(", "import(", "require.resolve(", "requireActual("];

/// Calls that load modules by a pattern.
const LOADING_PATTERNS: [&str; 2] = ["import.meta.glob", "require.context"];

/// Packages that load modules by a convention which no import shows.
const BY_CONVENTION: [&str; 5] = ["ember-source", "haste", "nuxt", "unplugin-auto-import", "unplugin-vue-components"];

/// Keys of a `package.json` that are settings of a test runner or of what compiles for it.
const SETTINGS_KEYS: [&str; 5] = ["babel", "imports", "jest", "mocha", "vitest"];

/// The files of a workspace and their possible imports.
#[derive(Debug, Default)]
pub(super) struct JavaScriptModules {
    /// By file: the files that may import it.
    importers: BTreeMap<String, BTreeSet<String>>,
    reaching_all: BTreeSet<String>,
    /// Names in quoted strings of settings.
    in_settings: BTreeSet<String>,
    /// Those of compilers, which name directories of sources and load no file.
    in_compiler_settings: BTreeSet<String>,
    convention: Option<&'static str>,
}

impl JavaScriptModules {
    /// The modules of these sources, and who may import each of them and of `removed`, files that are gone.
    pub(super) fn new<'a>(
        sources: &BTreeMap<String, String>,
        removed: impl Iterator<Item = &'a str>,
    ) -> JavaScriptModules {
        let mut found = JavaScriptModules::default();
        let packages = packages(sources);
        // The files by each name in their strings, so that not every pair of files is compared.
        let mut by_name: HashMap<String, BTreeSet<&str>> = HashMap::new();
        let mut by_package: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for (path, text) in sources.iter().filter(|(path, _)| is_source(path)) {
            for string in strings(text) {
                by_name.entry(name_of_specifier(path, string)).or_default().insert(path);
                for (name, dir) in &packages {
                    let rest = string.strip_prefix(name.as_str());
                    if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                        by_package.entry(dir).or_default().insert(path);
                    }
                }
            }
            if reaches_all(text) {
                found.reaching_all.insert(path.clone());
            }
        }
        let gone = removed.filter(|path| is_source(path)).map(str::to_owned);
        for path in sources.keys().filter(|path| is_source(path)).cloned().chain(gone) {
            let mut importers: BTreeSet<String> = BTreeSet::new();
            for name in names_of_file(&path) {
                importers.extend(by_name.get(&name).into_iter().flatten().map(|path| (*path).to_owned()));
            }
            for (dir, users) in &by_package {
                if dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/')) {
                    importers.extend(users.iter().map(|path| (*path).to_owned()));
                }
            }
            importers.remove(&path);
            found.importers.insert(path, importers);
        }
        for (path, text) in sources {
            let names = |text: &str| strings(text).map(|string| name_of_specifier(path, string)).collect::<Vec<_>>();
            if file_name(path) == "package.json" {
                found.in_settings.extend(names(&settings_of_manifest(text)));
                let named = BY_CONVENTION.into_iter().find(|name| text.contains(&format!("\"{name}\"")));
                found.convention = found.convention.or(named);
            } else if file_name(path).starts_with("tsconfig") || file_name(path) == "jsconfig.json" {
                found.in_compiler_settings.extend(names(text));
            } else if matches!(FileKind::of(Ecosystem::JavaScript, path), FileKind::Settings(_)) {
                found.in_settings.extend(names(text));
            }
        }
        found
    }

    /// A package that loads modules by a convention which no import shows.
    pub(super) fn convention(&self) -> Option<&'static str> {
        self.convention
    }

    /// The files that may import the file at `path`, directly or through others, itself included.
    pub(super) fn dependents(&self, path: &str) -> BTreeSet<String> {
        self.closure([path.to_owned()])
    }

    /// The files that may import, run or read any file of the workspace, and those that import them.
    pub(super) fn reaching_all(&self) -> BTreeSet<String> {
        self.closure(self.reaching_all.iter().cloned())
    }

    /// Whether settings name the file, such as a set-up file or what replaces a module.
    pub(super) fn is_in_settings(&self, path: &str) -> bool {
        names_of_file(path).iter().any(|name| self.in_settings.contains(name))
            || self.in_compiler_settings.contains(without_extension(file_name(path)))
    }

    fn closure(&self, from: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut pending: Vec<String> = from.into_iter().collect();
        while let Some(path) = pending.pop() {
            if !found.contains(&path) {
                pending.extend(self.importers.get(&path).into_iter().flatten().cloned());
                found.insert(path);
            }
        }
        found
    }
}

/// Whether the file at `path` is a source of JavaScript or TypeScript.
fn is_source(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| JAVASCRIPT_EXTENSIONS.contains(&extension))
}

/// Name and directory of each package in the workspace.
fn packages(sources: &BTreeMap<String, String>) -> Vec<(String, &str)> {
    let manifests = sources.iter().filter(|(path, _)| file_name(path) == "package.json");
    let name = |text: &str| Some(serde_json::from_str::<serde_json::Value>(text).ok()?["name"].as_str()?.to_owned());
    manifests.filter_map(|(path, text)| Some((name(text)?, directory(path)))).collect()
}

fn settings_of_manifest(text: &str) -> String {
    let Ok(manifest) = serde_json::from_str::<serde_json::Value>(text) else { return text.to_owned() };
    SETTINGS_KEYS.iter().filter_map(|key| manifest.get(key)).map(ToString::to_string).collect()
}

fn reaches_all(text: &str) -> bool {
    let is_computed = |call: &str| {
        text.match_indices(call).any(|(at, _)| {
            let argument = text[at + call.len()..].trim_start();
            !argument.starts_with(['\'', '"']) && !argument.starts_with(')')
        })
    };
    let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
    words().any(|word| REACHES_ALL.contains(&word))
        || LOADING_PATTERNS.iter().any(|pattern| text.contains(pattern))
        || LOADING_CALLS.iter().any(|call| is_computed(call))
}

/// What is between two quotes of the same kind in a line.
fn strings(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        ['\'', '"', '`'].into_iter().flat_map(move |quote| {
            // Between any two neighbouring quotes: an apostrophe in a comment does not hide what follows.
            let parts: Vec<&str> = line.split(quote).collect();
            let inner = parts.len().saturating_sub(2);
            parts.into_iter().skip(1).take(inner)
        })
    })
}

/// The name that a string has if it names a module from the file at `path`.
fn name_of_specifier(path: &str, string: &str) -> String {
    let string = string.split(['?', '#']).next().unwrap_or(string).trim_end_matches('/');
    let last = file_name(string);
    if last != "." && last != ".." && !last.is_empty() {
        return without_extension(last).to_owned();
    }
    let mut dirs: Vec<&str> = directory(path).split('/').filter(|part| !part.is_empty()).collect();
    for part in string.split('/') {
        match part {
            ".." => _ = dirs.pop(),
            "." | "" => {}
            part => dirs.push(part),
        }
    }
    dirs.last().copied().unwrap_or_default().to_owned()
}

/// The names by which imports know a file.
fn names_of_file(path: &str) -> Vec<String> {
    let name = without_extension(file_name(path));
    let mut names = vec![name.to_owned()];
    names.extend(name.strip_suffix(".d").map(str::to_owned));
    // A file for one platform: `price.web.ts` is `./price`.
    let is_test = FileKind::of(Ecosystem::JavaScript, path) == FileKind::Test;
    names.extend(name.split_once('.').filter(|_| !is_test).map(|(first, _)| first.to_owned()));
    if name == "index" {
        names.push(file_name(directory(path)).to_owned());
    }
    names
}

fn without_extension(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, extension)) if JAVASCRIPT_EXTENSIONS.contains(&extension) && !stem.is_empty() => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> JavaScriptModules {
        let sources = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        JavaScriptModules::new(&sources, ["src/old.ts"].into_iter())
    }

    fn dependents(files: &[(&str, &str)], path: &str) -> Vec<String> {
        modules(files).dependents(path).into_iter().filter(|found| found != path).collect()
    }

    #[test]
    fn finds_who_may_import_a_file() {
        for (text, is_importer) in [
            ("import { tax } from '../src/price';", true),
            ("import '../src/price.js'", true),
            ("export * from \"@/price\";", true),
            ("const price = require(`../src/price`)", true),
            ("import {\n  tax,\n} from '../src/price';", true),
            ("vi.mock('../src/price', () => ({}));", true),
            ("// it's the tests'\nimport x from '../src/price'", true),
            ("import data from '../src/price?raw'", true),
            ("import { tax } from 'shop';", true),
            ("import { tax } from 'shop/price';", true),
            ("import { prices } from '../src/prices';", false),
            ("const price = 3;", false),
            ("import _ from 'shopping';", false),
        ] {
            let files = [("package.json", r#"{"name": "shop"}"#), ("src/price.ts", ""), ("test/price.test.ts", text)];
            let expected: Vec<&str> = if is_importer { vec!["test/price.test.ts"] } else { vec![] };
            assert_eq!(dependents(&files, "src/price.ts"), expected, "{text}");
        }
        assert_eq!(dependents(&[("a.js", "require('./src/old')")], "src/old.ts"), ["a.js"], "a removed file");
    }

    #[test]
    fn an_index_file_has_the_name_of_its_directory() {
        let files = [
            ("src/cart/index.ts", "export * from './total';"),
            ("src/cart/total.ts", ""),
            ("src/cart/total.test.ts", "import '.';"),
            ("src/shop.ts", "import './cart';"),
            ("src/cart/deep/x.test.ts", "import '..';"),
            ("src/other.ts", "import './price';"),
        ];
        let expected = ["src/cart/deep/x.test.ts", "src/cart/index.ts", "src/cart/total.test.ts", "src/shop.ts"];
        assert_eq!(dependents(&files, "src/cart/total.ts"), expected);
    }

    #[test]
    fn knows_the_files_that_may_reach_any_other() {
        let files = [
            ("a.test.js", "const all = fs.readdirSync(here);"),
            ("b.test.js", "require(name)"),
            ("c.test.js", "await import( './x' )"),
            ("d.test.js", "import './helper'"),
            ("helper.js", "import { spawn } from 'node:child_process'"),
            ("e.test.js", "import.meta.glob('./*.js')"),
        ];
        let reaching: Vec<String> = modules(&files).reaching_all().into_iter().collect();
        assert_eq!(reaching, ["a.test.js", "b.test.js", "d.test.js", "e.test.js", "helper.js"]);
    }

    #[test]
    fn knows_what_settings_name() {
        let manifest = r#"{"main": "lib/main.js", "jest": {"setupFiles": ["<rootDir>/test/setup.js"]}}"#;
        let found = modules(&[("package.json", manifest), ("vitest.config.ts", "{ alias: { a: './fakes/a' } }")]);
        for (path, is_named) in [("test/setup.js", true), ("fakes/a.ts", true), ("lib/main.js", false)] {
            assert_eq!(found.is_in_settings(path), is_named, "{path}");
        }
        assert_eq!(found.convention(), None);
        assert_eq!(modules(&[("package.json", r#"{"devDependencies": {"nuxt": "3"}}"#)]).convention(), Some("nuxt"));
    }
}

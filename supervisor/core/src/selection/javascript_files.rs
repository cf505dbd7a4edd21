//! What the JavaScript sources and settings of a workspace say together: which of them read or look for files, which name another file,
//! and which settings make it unknown what a new file is. Too much is found rather than too little. One text is read in
//! `javascript_text`.

use super::file_kind::{Ecosystem, FileKind, directory, extension, file_name, is_script};
use super::javascript_text::{
    build_word, compiles_or_addresses, computes_names, has_word, imported_names, lists_files, loads_natively,
    looks_for_files, names_in_path, preloaded_names, process_word, reads_any,
};
use std::collections::{BTreeMap, BTreeSet};

/// Packages by which Jest checks types.
const TYPE_CHECKERS_OF_JEST: [&str; 3] = ["ts-jest", "jest-preset-angular", "@angular-builders/jest"];

/// Words of settings by which files with unusual names are tests.
const TEST_SETTINGS: [&str; 4] = ["testMatch", "testRegex", "testPathPattern", "--config"];

/// Words of settings by which a new file may be loaded although no source names it, and without which it is not.
const LOADING_SETTINGS: [(&str, Option<&str>); 7] = [
    ("resolver", None),
    ("haste", None),
    ("automock", None),
    ("plugins", Some("vitest")),
    ("registerHooks", Some("node")),
    ("loader", Some("node")),
    ("loader", Some("mocha")),
];

/// The texts of a workspace.
pub(super) struct JavaScriptFiles<'a> {
    sources: &'a BTreeMap<String, String>,
    framework: &'a str,
    /// Sources that are settings whatever their names: those that the runner loaded for itself, and that its settings import.
    runner_sources: BTreeSet<&'a str>,
}

impl<'a> JavaScriptFiles<'a> {
    /// `runner_files`: what the runner was seen to load for itself.
    pub(super) fn new<'r>(
        sources: &'a BTreeMap<String, String>,
        framework: &'a str,
        runner_files: impl Iterator<Item = &'r str>,
    ) -> JavaScriptFiles<'a> {
        let named = JavaScriptFiles { sources, framework, runner_sources: BTreeSet::new() };
        let loaded = runner_files.filter_map(|file| Some(sources.get_key_value(file)?.0.as_str()));
        let imported = named.imported_from(named.runner_settings());
        let runner_sources = loaded.chain(imported).filter(|path| is_script(path)).collect();
        JavaScriptFiles { runner_sources, ..named }
    }

    /// Whether the file at `path` decides what is run, and how.
    pub(super) fn is_settings(&self, path: &str) -> bool {
        matches!(FileKind::of(Ecosystem::JavaScript, path), FileKind::Settings(_)) || self.runner_sources.contains(path)
    }

    fn settings(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let settings = self.sources.iter().filter(|(path, _)| self.is_settings(path));
        settings.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    // Whether Vitest may take its settings from the file at `path`.
    fn is_of_vitest(&self, path: &str) -> bool {
        ["vite.config.", "vitest."].iter().any(|begin| file_name(path).starts_with(begin))
            || self.framework == "vitest" && self.runner_sources.contains(path)
    }

    /// Settings of the runner and of what transforms for it.
    pub(super) fn runner_settings(&self) -> impl Iterator<Item = &'a str> {
        let begins = ["jest", ".mocharc", "vite", "babel.config.", ".babelrc", "package.json"];
        let is_of_runner = move |path: &&str| begins.iter().any(|begin| file_name(path).starts_with(begin));
        self.settings().map(|(path, _)| path).filter(is_of_runner)
    }

    fn is_in_settings(&self, word: &str) -> bool {
        self.settings().any(|(_, text)| text.contains(word))
    }

    /// What checks the types of files that it does not load; `None` if nothing does.
    pub(super) fn type_checker(&self) -> Option<&'static str> {
        match self.framework {
            "jest" => return TYPE_CHECKERS_OF_JEST.into_iter().find(|package| self.is_in_settings(package)),
            "mocha" => return self.settings().any(|(_, text)| compiles_with_ts_node(text)).then_some("ts-node"),
            "node" => return None,
            _ => {}
        }
        let checks = |(path, text): (&str, &str)| {
            text.contains("--typecheck") || self.is_of_vitest(path) && text.contains("typecheck")
        };
        self.settings().any(checks).then_some("Vitest")
    }

    /// Why modules are loaded in a way that the runner's own loading does not show.
    pub(super) fn unseen_loading(&self) -> Option<&'static str> {
        let is_unseen = |(_, text): (&str, &str)| text.contains("deps") && text.contains("external");
        (self.framework == "vitest" && self.settings().any(is_unseen)).then_some("deps and external")
    }

    /// Why a new file may be loaded although no source names it.
    pub(super) fn unnamed_loading(&self) -> Option<&'static str> {
        let is_of = |framework: Option<&str>| framework.is_none_or(|framework| framework == self.framework);
        let words = LOADING_SETTINGS.into_iter().filter(|(_, framework)| is_of(*framework));
        words.map(|(word, _)| word).find(|word| self.is_in_settings(word))
    }

    /// Why the new file at `path`, with an unusual name, may be a test file.
    pub(super) fn unusual_test<'t>(
        &self,
        path: &str,
        mut tests: impl Iterator<Item = &'t str>,
    ) -> Option<&'static str> {
        if tests.any(|test| !self.is_test_name(test)) {
            return Some("other test files have no usual name, either");
        }
        if self.framework == "node" && is_below(path, "test") {
            return Some("Node runs all that is below a directory `test`");
        }
        let includes = |text: &str| ["include", "includeSource"].iter().any(|word| has_word(text, word));
        let is_unusual = |(path, text): (&str, &str)| {
            TEST_SETTINGS.iter().any(|word| text.contains(word)) || self.is_of_vitest(path) && includes(text)
        };
        self.settings().any(is_unusual).then_some("settings name test files in a way of their own")
    }

    /// Whether the runner takes the file at `path` for a test file where nothing else is set.
    pub(super) fn is_test_name(&self, path: &str) -> bool {
        let name = file_name(path);
        let is_usual = || name.contains(".test.") || name.contains(".spec.");
        let is_test = match self.framework {
            "jest" => {
                is_usual() || name.starts_with("test.") || name.starts_with("spec.") || is_below(path, "__tests__")
            }
            "node" => {
                name.starts_with("test-")
                    || name.starts_with("test.")
                    || [".test.", "-test.", "_test."].iter().any(|part| name.contains(part))
            }
            _ => is_usual(),
        };
        is_script(name) && is_test
    }

    /// The sources that may read, run or load any file.
    pub(super) fn reading(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.scripts().filter(|(_, text)| self.may_reach_any(text)).map(|(path, _)| path)
    }

    fn may_reach_any(&self, text: &str) -> bool {
        let is_unseen = match self.framework {
            "mocha" | "node" => false,
            "vitest" => compiles_or_addresses(text) || loads_natively(text),
            _ => compiles_or_addresses(text),
        };
        is_unseen || reads_any(text)
    }

    /// The sources that load whichever files there are, or one with a name that they compute.
    pub(super) fn looking(&self) -> impl Iterator<Item = &'a str> {
        let looks = |text: &str| looks_for_files(text) || computes_names(text);
        self.scripts().filter(move |(_, text)| looks(text)).map(|(path, _)| path)
    }

    /// The first of `files` whose source may start a process, or write files and is no settings, with the word that says so.
    pub(super) fn may_build<'f>(&self, mut files: impl Iterator<Item = &'f str>) -> Option<(&'f str, &'static str)> {
        files.find_map(|file| {
            let text = self.sources.get(file).filter(|_| is_script(file))?;
            // Settings often name a bundler, or write a file of their own.
            let is_settings = matches!(FileKind::of(Ecosystem::JavaScript, file), FileKind::Settings(_));
            let word = process_word(text).or_else(|| build_word(text).filter(|_| !is_settings))?;
            Some((file, word))
        })
    }

    /// The first of `paths` that a source may read by a name that it computes: the source lists files, or names the extension.
    pub(super) fn read_by_computed_name<'p>(&self, paths: &[&'p str]) -> Option<&'p str> {
        if paths.is_empty() {
            return None;
        }
        let readers: Vec<&str> = self.scripts().map(|(_, text)| text).filter(|text| self.may_reach_any(text)).collect();
        if readers.iter().any(|text| lists_files(text)) {
            return paths.first().copied();
        }
        let extensions: BTreeSet<&str> = paths.iter().filter_map(|path| extension(path)).collect();
        let is_named = |extension: &&str| readers.iter().any(|text| has_word(text, extension));
        let named: BTreeSet<&str> = extensions.into_iter().filter(is_named).collect();
        paths.iter().copied().find(|path| extension(path).is_some_and(|extension| named.contains(extension)))
    }

    fn scripts(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.sources.iter().filter(|(path, _)| is_script(path)).map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files, besides it, that may name the file at `path` in an import.
    pub(super) fn naming(&self, path: &str) -> impl Iterator<Item = &'a str> {
        let names: Vec<String> = import_names(path).map(str::to_owned).collect();
        let own = path.to_owned();
        let naming = self
            .sources
            .iter()
            .filter(move |(source, text)| **source != own && names.iter().any(|name| names_in_path(text, name)));
        naming.map(|(source, _)| source.as_str())
    }

    /// The files that `files` may import, directly or through others, themselves included.
    pub(super) fn imported_from<'f>(&self, files: impl Iterator<Item = &'f str>) -> BTreeSet<&'f str>
    where
        'a: 'f,
    {
        let mut by_name: BTreeMap<&'a str, Vec<&'a str>> = BTreeMap::new();
        for (path, _) in self.scripts() {
            import_names(path).for_each(|name| by_name.entry(name).or_default().push(path));
        }
        let mut found: BTreeSet<&'f str> = BTreeSet::new();
        let mut pending: Vec<&'f str> = files.collect();
        while let Some(path) = pending.pop() {
            if !found.insert(path) {
                continue;
            }
            let text = self.sources.get(path).map_or("", String::as_str);
            let names = if is_script(path) { imported_names(text) } else { preloaded_names(text) };
            // Each name leads to its files once: many files may import a name that many others have.
            pending.extend(names.into_iter().filter_map(|name| by_name.remove(name)).flatten());
        }
        found
    }
}

/// Whether settings compile with ts-node, or a program around it, and do not only depend on it. Where it does not check types, its own
/// settings or the environment may say so as well, which are not read.
fn compiles_with_ts_node(text: &str) -> bool {
    let names = ["ts-node", "ts-mocha"].into_iter().flat_map(|name| text.match_indices(name));
    names.map(|(at, name)| &text[at + name.len()..]).any(|rest| {
        let is_dependency = rest.starts_with("\":");
        !is_dependency && !rest.starts_with("/register/transpile-only") && !rest.starts_with("/transpile-only")
    })
}

/// Whether a directory of this name is above the file at `path`.
fn is_below(path: &str, name: &str) -> bool {
    path.split('/').rev().skip(1).any(|part| part == name)
}

/// The names by which an import may know a file: its own without the end, and for an index its directory's.
fn import_names(path: &str) -> impl Iterator<Item = &str> {
    let name = file_name(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let dir = file_name(directory(path));
    [stem, dir].into_iter().take(if stem == "index" && !dir.is_empty() { 2 } else { 1 })
}

/// The part of a name before its first full stop: files of one directory that share it may be loaded in place of each other.
pub(super) fn first_stem(path: &str) -> &str {
    let name = file_name(path);
    name.split('.').find(|part| !part.is_empty()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    fn files_of<'a>(sources: &'a BTreeMap<String, String>, framework: &'a str) -> JavaScriptFiles<'a> {
        JavaScriptFiles::new(sources, framework, [].into_iter())
    }

    #[test]
    fn a_source_with_require_reads_any_file_in_vitest() {
        let texts = sources(&[("a.js", "const a = require('./b')")]);
        assert_eq!(files_of(&texts, "vitest").reading().count(), 1, "Vite does not see it");
        assert_eq!(files_of(&texts, "jest").reading().count(), 0);
    }

    #[test]
    fn what_a_compiled_text_loads_is_seen_by_node_alone() {
        let compiled = "new Function('return import(name)')";
        let texts = sources(&[("a.js", compiled), ("b.js", "eval(text)"), ("c.js", "new URL(path, base)")]);
        for (framework, count) in [("jest", 3), ("vitest", 3), ("node", 0)] {
            assert_eq!(files_of(&texts, framework).reading().count(), count, "{framework}");
        }
    }

    #[test]
    fn knows_runner_files_that_start_processes() {
        let texts = sources(&[("package.json", "{\"devDependencies\":{\"execa\":\"9\"}}"), ("b.js", "spawn('tsc')")]);
        let files = files_of(&texts, "jest");
        assert_eq!(files.may_build(["package.json", "gone.js"].into_iter()), None, "a dependency starts nothing");
        assert_eq!(files.may_build(["package.json", "b.js"].into_iter()), Some(("b.js", "spawn")));
    }

    // With time that grows with the square of the files, this test would take minutes.
    #[test]
    fn follows_imports_of_one_name_in_linear_time() {
        let names = |count: usize, text: &str| {
            (0..count).map(|dir| (format!("d{dir}/a.js"), text.to_owned())).collect::<BTreeMap<String, String>>()
        };
        let texts = names(20_000, "import './a'");
        assert_eq!(files_of(&texts, "jest").imported_from(["d0/a.js"].into_iter()).len(), 20_000);
    }

    #[test]
    fn knows_files_that_are_read_by_a_computed_name() {
        for (text, expected) in [
            ("fs.readFileSync(`docs/${name}.md`); import fs from 'fs'", Some("docs/a.md")),
            ("readFileSync(name + '.md')", Some("docs/a.md")),
            ("readdirSync('docs').map(read); import 'fs'", Some("docs/a.md")),
            ("import { glob } from 'tinyglobby'", Some("docs/a.md")),
            ("readFileSync('docs/b.md')", None),
            ("readFileSync(name + '.mdx')", None),
            ("readFileSync(name)", None),
            ("link(name + '.md')", None),
        ] {
            let texts = sources(&[("src/a.js", text), ("package.json", "readdir fs")]);
            let found = files_of(&texts, "jest").read_by_computed_name(&["docs/a.md", "LICENSE"]);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn reads_settings_that_the_runner_loads_from_files_with_other_names() {
        let texts = sources(&[
            ("vitest.shared.ts", "export default { test: { typecheck: { enabled: true } } }"),
            ("config/jest.base.js", "module.exports = { preset: 'jest-preset-angular', haste: {} }"),
            ("config/base.mjs", "export default { transform: { x: '@angular-builders/jest' } }"),
            ("config/vite.ts", "export const test = { include: ['**/*.check.ts'] }"),
            ("src/a.ts", "text.includes('a')"),
        ]);
        let with = |framework: &'static str, runner: &'static str| {
            JavaScriptFiles::new(&texts, framework, [runner].into_iter())
        };
        assert_eq!(with("vitest", "vitest.shared.ts").type_checker(), Some("Vitest"));
        assert_eq!(with("vitest", "src/a.ts").type_checker(), None);
        assert_eq!(with("jest", "config/jest.base.js").type_checker(), Some("jest-preset-angular"));
        assert_eq!(with("jest", "config/jest.base.js").unnamed_loading(), Some("haste"));
        assert_eq!(with("jest", "config/base.mjs").type_checker(), Some("@angular-builders/jest"));
        assert!(with("vitest", "config/vite.ts").unusual_test("src/new.js", [].into_iter()).is_some());
        assert!(with("vitest", "src/a.ts").unusual_test("src/new.js", [].into_iter()).is_none());
        let mut imported = texts.clone();
        imported.insert("jest.config.mjs".into(), "import base from './config/base.mjs'".into());
        assert_eq!(files_of(&imported, "jest").type_checker(), Some("@angular-builders/jest"), "by its import");
    }

    #[test]
    fn finds_the_files_that_name_a_file() {
        let texts = sources(&[
            ("src/a.js", "import { b } from './b'"),
            ("src/c.js", "const b = 1; use(b.x)"),
            ("src/d.ts", "export * from \"@/lib/b.js\""),
            ("src/e.js", "import { Button } from './Button'"),
        ]);
        let naming = |path: &str| files_of(&texts, "jest").naming(path).collect::<Vec<_>>();
        assert_eq!(naming("src/b.js"), ["src/a.js", "src/d.ts"]);
        assert_eq!(naming("src/Button/index.tsx"), ["src/e.js"]);
        assert_eq!(naming("src/alone.js"), [""; 0]);
    }

    #[test]
    fn follows_imports_of_the_runner() {
        let texts = sources(&[
            ("vitest.config.ts", "import plugin from './src/plugin.ts'\nconst other = './src/cart.ts'"),
            ("src/plugin.ts", "import { total } from './price'"),
            ("src/price.ts", ""),
            ("src/cart.ts", ""),
            ("src/index.ts", "import './cart'"),
        ]);
        let found = files_of(&texts, "vitest").imported_from(["vitest.config.ts"].into_iter());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["src/plugin.ts", "src/price.ts", "vitest.config.ts"]);
        let package = "{\n\"import\": \"./src/index.ts\",\n\"test\": \"node --import ./src/price.ts vitest\"\n}";
        let texts = sources(&[("package.json", package), ("src/price.ts", ""), ("src/index.ts", "")]);
        let found = files_of(&texts, "vitest").imported_from(["package.json"].into_iter());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["package.json", "src/price.ts"]);
    }

    #[test]
    fn reads_settings() {
        let settings = |name: &str, text: &str| sources(&[(name, text), ("src/a.js", "ts-jest --typecheck testMatch")]);
        let jest = settings("package.json", r#"{"jest":{"preset":"ts-jest"}}"#);
        assert_eq!(files_of(&jest, "jest").type_checker(), Some("ts-jest"));
        let other = settings("package.json", r#"{"scripts":{"typecheck":"tsc","test":"vitest run"}}"#);
        assert_eq!(files_of(&other, "vitest").type_checker(), None);
        let config = settings("vitest.config.ts", "test: { typecheck: { enabled: true } }");
        assert_eq!(files_of(&config, "vitest").type_checker(), Some("Vitest"));
        let of = files_of(&other, "jest");
        assert_eq!(of.unusual_test("src/new.js", ["src/a.test.js", "src/__tests__/b.js"].into_iter()), None);
        assert!(of.unusual_test("src/new.js", ["test/a.js"].into_iter()).is_some());
        let node = files_of(&other, "node");
        for (path, is_test) in [
            ("a.test.mjs", true),
            ("a/b-test.ts", true),
            ("test-a.js", true),
            ("test.cjs", true),
            ("test/a.js", false),
            ("a.spec.js", false),
        ] {
            assert_eq!(node.is_test_name(path), is_test, "{path}");
        }
        assert!(node.unusual_test("test/a/b.js", [].into_iter()).is_some());
        assert_eq!(node.unusual_test("src/b.js", ["test/a.test.js"].into_iter()), None);
        let matched = settings("jest.config.js", "testMatch: ['**/checks/*.js']");
        assert!(files_of(&matched, "jest").unusual_test("src/new.js", [].into_iter()).is_some());
    }
}

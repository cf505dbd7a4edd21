//! A table of changes of a JavaScript project with the tests that they select.

use super::tests::{Files, Project, files, report_of, seen, shown};
use super::{AffectedSummary, Baseline, EndedRun};
use crate::bounds::SELECTION_NAMED_FILES_MAX;
use crate::coverage::{Attribution, Calibration, CoverageMeasurement, LineSpan, LoadedFiles};
use crate::id::RunId;
use crate::report::Report;
use crate::request::{EarlierState, RunRequest, Selection};
use crate::test_case::TestOutcome;

const PRICE: &str = "function total(a) {\n  const b = a;\n  return b * 2;\n}\n\nfunction tax(a) {\n  return a;\n}\n\nmodule.exports = { total, tax };\n";

const TESTS: [&str; 4] =
    ["src/price.test.js.total", "src/cart.test.js.lazy", "src/alone.test.js.alone", "src/reader.test.js.reads"];

fn project_files() -> Files {
    files(&[
        ("package.json", "{}"),
        ("global.js", "require('./src/rate')"),
        ("src/rate.js", "exports.rate = 3;\n"),
        ("src/price.js", PRICE),
        ("src/barrel.js", "export * from './price';\n"),
        ("src/cart.js", "exports.lazy = () => require('./late');\n"),
        ("src/late.js", "exports.late = 4;\n"),
        ("src/unused.js", "exports.unused = 1;\n"),
        ("src/types.d.ts", "type A = 1;\n"),
        ("src/data.json", "{}"),
        ("src/price.test.js", "require('./barrel');\n"),
        ("src/cart.test.js", "require('./cart'); require('./price');\n"),
        ("src/alone.test.js", "expect(1).toMatchSnapshot();\n"),
        ("src/reader.test.js", "require('fs').readFileSync('x');\n"),
        ("src/__snapshots__/alone.test.js.snap", "1"),
    ])
}

/// What each test file loads: the cart loads the price, but executes only its last line.
fn loaded() -> LoadedFiles {
    let mut loaded = LoadedFiles::default();
    loaded.add("src/price.test.js", ["src/price.test.js", "src/barrel.js", "src/price.js"]);
    loaded.add("src/cart.test.js", ["src/cart.test.js", "src/cart.js", "src/late.js", "src/price.js"]);
    loaded.add("src/alone.test.js", ["src/alone.test.js"]);
    loaded.add("src/reader.test.js", ["src/reader.test.js"]);
    loaded.add_runner(["global.js"]);
    loaded
}

fn measured(test_file: &str, test: &str, lines: &[(u32, u32)]) -> CoverageMeasurement {
    let spans = lines.iter().map(|(first, last)| LineSpan { first: *first, last: *last });
    CoverageMeasurement {
        package: test_file.to_owned(),
        tests: vec![test.to_owned()],
        complete: true,
        attribution: Attribution::Test,
        started_processes: false,
        kept: Vec::new(),
        calibration: Calibration::None,
        files: vec![("src/price.js".to_owned(), spans.collect())],
    }
}

fn project_with(framework: &str, files: &Files, tests: &[&str], loaded: LoadedFiles) -> Project {
    let lines = vec![
        measured("src/price.test.js", "total", &[(2, 3), (10, 10)]),
        measured("src/cart.test.js", "lazy", &[(10, 10)]),
    ];
    let outcomes: Vec<(&str, TestOutcome)> = tests.iter().map(|test| (*test, TestOutcome::Passed)).collect();
    let mut project = Project::new(framework, files, &outcomes, lines);
    project.index.record_loaded([], loaded, true);
    project
}

fn select(framework: &str, edit: impl Fn(&mut Files)) -> String {
    let mut now = project_files();
    edit(&mut now);
    shown(&project_with(framework, &project_files(), &TESTS, loaded()).select(&now))
}

/// The reader may read any file.
const READER: &str = "src/reader.test.js.reads";

fn with_reader(tests: &[&str]) -> String {
    let mut all: Vec<&str> = tests.iter().copied().chain([READER]).collect();
    all.sort_unstable();
    all.join(" ")
}

#[test]
fn a_changed_source_selects_the_test_files_that_loaded_it() {
    let [price, cart, alone, _] = TESTS;
    for (path, text, expected) in [
        ("src/price.js", &*PRICE.replace("b * 2", "b * 3"), with_reader(&[price])),
        (
            "src/price.js",
            &*PRICE.replace("const b = a;", "const b = a;\n  if (b) {\n    b();\n  }"),
            with_reader(&[price]),
        ),
        ("src/price.js", &*PRICE.replace("  const b = a;\n", ""), with_reader(&[price])),
        ("src/price.js", &*PRICE.replace("  return a;", "  return a + 1;"), with_reader(&[price, cart])),
        ("src/price.js", &*PRICE.replace("b * 2", "b * 2 }; function more() {"), with_reader(&[price, cart])),
        ("src/price.js", &*PRICE.replace("b * 2;", "b * 2; }"), with_reader(&[price, cart])),
        ("src/price.js", &*PRICE.replace("total(a) {", "total(a, c) {"), with_reader(&[price, cart])),
        ("src/barrel.js", "export { total } from './price';\n", with_reader(&[price])),
        (
            "src/price.js",
            &*PRICE.replace("module.exports", "exports.more = 1; module.exports"),
            with_reader(&[price, cart]),
        ),
        ("src/late.js", "exports.late = 5;\n", with_reader(&[cart])),
        ("src/alone.test.js", "expect(2).toMatchSnapshot();\n", with_reader(&[alone])),
        ("src/__snapshots__/alone.test.js.snap", "2", with_reader(&[alone])),
        ("notes.md", "text", "nothing".to_owned()),
    ] {
        for framework in ["jest", "node"] {
            let edited = select(framework, |now| drop(now.insert(path.into(), text.into())));
            assert_eq!(edited, expected, "{path}, {framework}");
        }
    }
}

#[test]
fn test_files_of_mocha_that_share_a_source_run_with_each_edit_of_it() {
    let [price, cart, ..] = TESTS;
    for text in [
        PRICE.replace("b * 2", "b * 3"),
        PRICE.replace("  return a;", "  return a + 1;"),
        PRICE.replace("module.exports", "exports.more = 1; module.exports"),
    ] {
        let edited = select("mocha", |now| drop(now.insert("src/price.js".into(), text.clone())));
        assert_eq!(edited, with_reader(&[price, cart]), "{text}");
    }
    let late = |now: &mut Files| drop(now.insert("src/late.js".into(), "exports.late = 5;\n".into()));
    assert_eq!(select("mocha", late), with_reader(&[cart]));
}

#[test]
fn what_may_set_something_up_for_other_test_files_of_mocha_runs_all_tests() {
    for (line, word) in [
        ("beforeEach(() => {});", "beforeEach"),
        ("suiteSetup (f);", "suiteSetup"),
        ("const { a } = require('./a'); after(f);", "after"),
        ("  global.limit = 1;", "global"),
        ("globalThis['limit'] = 1;", "globalThis"),
        ("Date.prototype.year = f;", "Date"),
    ] {
        for path in ["src/late.js", "src/new.test.js"] {
            let found = select("mocha", |now| {
                let before = now.get(path).cloned().unwrap_or_default();
                drop(now.insert(path.into(), format!("{before}{line}\n")));
            });
            assert!(found.starts_with(&format!("full: {path} was")) && found.ends_with(word), "{found}");
        }
    }
    let inner = |now: &mut Files| {
        drop(now.insert(
            "src/late.js".into(),
            "  beforeEach(f);\nafterwards(globals);\nCart.prototype.a = Date;\ndescribe(() => { after(f);\n".into(),
        ))
    };
    assert_eq!(select("mocha", inner), with_reader(&[TESTS[1]]));
    let hook = |now: &mut Files| drop(now.insert("src/late.js".into(), "beforeEach(f);\n".into()));
    assert_eq!(select("jest", hook), with_reader(&[TESTS[1]]));
}

#[test]
fn settings_of_mocha_and_what_checks_types_run_all_tests() {
    let with = |settings: &'static str, text: &'static str, changed: &'static str| {
        let mut before = project_files();
        before.insert(settings.into(), text.into());
        let mut now = before.clone();
        now.insert(changed.into(), "exports.late = 5;\n".into());
        shown(&project_with("mocha", &before, &TESTS, loaded()).select(&now))
    };
    let late = "src/late.js";
    assert!(with(".mocharc.cjs", "", ".mocharc.cjs").starts_with("full: .mocharc.cjs, a test runner's settings"));
    assert!(with("test/mocha.opts", "", "test/mocha.opts").starts_with("full: test/mocha.opts, a test runner's"));
    assert!(with(".mocharc.yml", "require: ts-node/register", late).contains("ts-node checks types"));
    assert!(with("test/mocha.opts", "-r ts-node/register", late).contains("ts-node checks types"));
    assert!(with("package.json", r#"{"scripts":{"test":"mocha -r ts-node/register"}}"#, late).contains("checks types"));
    assert!(with("package.json", r#"{"scripts":{"test":"ts-mocha"}}"#, late).contains("checks types"));
    for (settings, text) in [
        ("package.json", r#"{"devDependencies":{"ts-node":"10"}}"#),
        (".mocharc.json", r#"{"require":"ts-node/register/transpile-only"}"#),
    ] {
        assert_eq!(with(settings, text, late), with_reader(&[TESTS[1]]), "{text}");
    }
    let new = with(".mocharc.json", r#"{"loader":"./loader.mjs"}"#, "src/new.js");
    assert!(new.contains("loader load modules by a convention"), "{new}");
}

#[test]
fn what_no_test_was_seen_to_load_runs_all_tests() {
    for (path, expected) in [
        (
            "src/unused.js",
            "full: src/unused.js was changed, and no test was seen to load it: a setting, a transformer or a type check may",
        ),
        ("src/types.d.ts", "full: src/types.d.ts, a declaration of types, was changed"),
        ("src/data.json", "full: src/data.json was changed, and any test may read it"),
        ("package.json", "full: package.json, a build file, was changed"),
        ("global.js", "full: global.js, which the runner loads for itself, was changed"),
        ("src/rate.js", "full: src/rate.js, which the runner loads for itself, was changed"),
        (".env", "full: .env, environment variables, was added"),
        ("vitest.config.mts", "full: vitest.config.mts, a test runner's settings, was added"),
        ("tsconfig.base.json", "full: tsconfig.base.json, a build file, was added"),
        ("src/__snapshots__/other.snap", "full: src/__snapshots__/other.snap was added, and any test may read it"),
    ] {
        assert_eq!(select("jest", |now| drop(now.insert(path.into(), "{ }".into()))), expected, "{path}");
    }
}

#[test]
fn a_new_file_selects_the_test_files_that_name_it_or_look_for_files() {
    let [price, ..] = TESTS;
    let added = |path: &str| select("jest", |now| drop(now.insert(path.into(), "1;\n".into())));
    assert_eq!(added("src/other.js"), READER);
    assert_eq!(added("src/new.test.js"), format!("src/new.test.js.* {READER}"));
    assert_eq!(added("src/__tests__/new.js"), format!("src/__tests__/new.js.* {READER}"));
    assert_eq!(added("lib/price.js"), with_reader(&[price, TESTS[1]]), "a directory of modules may have it");
    for (path, other) in [
        ("src/price.ts", "src/price.js"),
        ("src/price.native.js", "src/price.js"),
        ("src/index.js", "its directory"),
        ("src.js", "src/__snapshots__/alone.test.js.snap"),
        ("src/__mocks__/any.js", "a module that tests replace"),
    ] {
        assert_eq!(added(path), format!("full: {path} was added, and it may be loaded in place of {other}"));
    }
    let named = |settings: &str| {
        let mut before = project_files();
        before.insert("package.json".into(), settings.into());
        let mut now = before.clone();
        now.insert("src/other.js".into(), "1;\n".into());
        shown(&project_with("jest", &before, &TESTS, loaded()).select(&now))
    };
    assert!(
        named(r#"{"main":"src/other.js"}"#)
            .starts_with("full: src/other.js was added, and it may be loaded in place of")
    );
    assert!(named(r#"{"jest":{"testMatch":["**/*.js"]}}"#).contains("it may be a test file: settings name test files"));
    assert!(
        named(r#"{"jest":{"haste":{}}}"#)
            .starts_with("full: sources or settings with haste load modules by a convention")
    );
}

#[test]
fn a_removed_file_selects_the_test_files_that_loaded_or_name_it() {
    let [price, cart, alone, _] = TESTS;
    let removed = |path: &str| select("jest", |now| drop(now.remove(path)));
    assert_eq!(removed("src/barrel.js"), with_reader(&[price]));
    assert_eq!(removed("src/late.js"), with_reader(&[cart]));
    assert_eq!(removed("src/cart.test.js"), READER, "its tests are gone");
    assert!(removed("src/unused.js").starts_with("full: src/unused.js was removed, and no test was seen to load it"));
    let renamed = select("jest", |now| {
        let text = now.remove("src/alone.test.js").unwrap();
        now.insert("src/own.test.js".into(), text);
    });
    assert_eq!(renamed, format!("src/own.test.js.* {READER}"));
    assert!(!renamed.contains(alone));
    // A test that replaces a module names it without loading it.
    let mut with_mock = project_files();
    with_mock.insert("src/alone.test.js".into(), "jest.mock('./late', () => 1);\n".into());
    let mut now = with_mock.clone();
    now.remove("src/late.js");
    let found = shown(&project_with("jest", &with_mock, &TESTS, loaded()).select(&now));
    assert_eq!(found, with_reader(&[alone, cart]));
}

#[test]
fn test_files_of_which_nothing_is_known_run_with_any_change() {
    let [price, cart, ..] = TESTS;
    let mut later = LoadedFiles::default();
    later.add_runner(["global.js"]);
    let mut project = project_with("jest", &project_files(), &TESTS, loaded());
    project.index.record_loaded(["src/cart.test.js"], later, false);
    let mut now = project_files();
    assert_eq!(shown(&project.select(&now)), "nothing");
    now.insert("src/barrel.js".into(), String::new());
    assert_eq!(shown(&project.select(&now)), with_reader(&[price, cart]));
    let unmeasured = project_with("jest", &project_files(), &TESTS, LoadedFiles::default());
    assert_eq!(
        shown(&unmeasured.select(&now)),
        "full: which files the tests load has not been measured here in the last run of all tests"
    );
}

#[test]
fn settings_that_check_types_or_hide_what_is_loaded_run_all_tests() {
    let with = |framework: &str, settings: (&str, &str), change: &str| {
        let mut before = project_files();
        before.insert(settings.0.into(), settings.1.into());
        before.insert("src/late.ts".into(), "1;\n".into());
        let mut now = before.clone();
        now.insert(change.into(), "2;\n".into());
        let mut seen = loaded();
        seen.add("src/cart.test.js", ["src/late.ts"]);
        shown(&project_with(framework, &before, &TESTS, seen).select(&now))
    };
    let checked = with("jest", ("package.json", "ts-jest"), "src/late.ts");
    assert_eq!(
        checked,
        "full: src/late.ts was changed, and ts-jest checks types, also of files that load nothing of it"
    );
    let checked = with("jest", ("package.json", "jest-preset-angular"), "src/barrel.js");
    assert_eq!(
        checked,
        "full: src/barrel.js was changed, and jest-preset-angular checks types, also of files that load nothing of it"
    );
    let checked = with("vitest", ("vitest.config.ts", "typecheck"), "src/late.ts");
    assert!(checked.starts_with("full: src/late.ts was changed, and Vitest checks types"), "{checked}");
    let external = with("vitest", ("vitest.config.ts", "deps: { external: ['x'] }"), "src/barrel.js");
    assert!(external.starts_with("full: sources or settings with deps and external"), "{external}");
}

/// The selection after an edit of files with `texts` more, of which the runner loads `runner` for itself.
fn select_with(framework: &str, texts: &[(&str, &str)], runner: &[&str], edit: impl Fn(&mut Files)) -> String {
    let mut before = project_files();
    before.extend(files(texts));
    let mut now = before.clone();
    edit(&mut now);
    let mut loaded = loaded();
    loaded.add_runner(runner.iter().copied());
    shown(&project_with(framework, &before, &TESTS, loaded).select(&now))
}

#[test]
fn a_runner_that_starts_processes_or_writes_files_runs_all_tests() {
    let edit = |now: &mut Files| drop(now.insert("src/late.js".into(), "exports.late = 5;\n".into()));
    let built =
        [("set-up.js", "const { execSync } = require('child_process');\nmodule.exports = () => execSync('tsc');\n")];
    assert_eq!(
        select_with("jest", &built, &["set-up.js"], edit),
        "full: set-up.js, which the runner loads for itself, names child_process: it may build what any test loads"
    );
    assert_eq!(select_with("jest", &built, &[], edit), with_reader(&[TESTS[1]]), "no test loads it");
    let through =
        [("set-up.mjs", "import { run } from './run.mjs';\n"), ("run.mjs", "import { execa } from 'execa';\n")];
    let found = select_with("jest", &through, &["set-up.mjs"], edit);
    assert!(found.starts_with("full: run.mjs, which the runner loads for itself, names execa"), "{found}");
    let writes = "require('esbuild').buildSync({});\n";
    let found = select_with("jest", &[("set-up.js", writes)], &["set-up.js"], edit);
    assert!(found.starts_with("full: set-up.js, which the runner loads for itself, names esbuild"), "{found}");
    let found = select_with("jest", &[("jest.config.js", writes)], &["jest.config.js"], edit);
    assert!(!found.starts_with("full: "), "settings: {found}");
    let plain = [("vite.config.ts", "export default { root: __dirname, test: { pool: 'forks' } };\n")];
    let found = select_with("vitest", &plain, &["vite.config.ts"], edit);
    assert!(!found.starts_with("full: "), "{found}");
}

#[test]
fn settings_that_the_runner_loads_count_whatever_their_names() {
    let texts = [("vitest.shared.ts", "export default { test: { deps: { external: ['x'] } } };\n")];
    let found = select_with("vitest", &texts, &["vitest.shared.ts"], |now| {
        now.insert("src/late.js".into(), "exports.late = 5;\n".into());
    });
    assert!(found.starts_with("full: sources or settings with deps and external"), "{found}");
    let texts = [("config/jest.base.js", "module.exports = { moduleNameMapper: { '^x$': '<rootDir>/lib/x' } };\n")];
    let found = select_with("jest", &texts, &["config/jest.base.js"], |now| {
        now.insert("lib/x.js".into(), "1;\n".into());
    });
    assert_eq!(found, "full: lib/x.js was added, and it may be loaded in place of what config/jest.base.js names");
}

#[test]
fn documentation_that_is_read_by_a_computed_name_runs_all_tests() {
    let edit = |now: &mut Files| drop(now.insert("docs/a.md".into(), "b".into()));
    for (text, expected) in [
        ("readFileSync(name + '.md');\n", "full: docs/a.md was added, and any test may read it"),
        ("readdirSync('docs');\n", "full: docs/a.md was added, and any test may read it"),
        ("readFileSync('b.md');\n", "nothing"),
    ] {
        assert_eq!(select_with("jest", &[("src/docs.js", text)], &[], edit), expected, "{text}");
    }
}

#[test]
fn a_changed_function_with_a_hoisted_call_selects_what_loads_its_file() {
    let [price, cart, ..] = TESTS;
    for call in ["vi.mock<typeof import('./a')>('./a')", "vi.hoisted<number>(() => 1)", "vi.mock('./a')"] {
        let edited = PRICE.replace("b * 2", &format!("b * 3 || {call}"));
        let found = select("jest", |now| drop(now.insert("src/price.js".into(), edited.clone())));
        assert_eq!(found, with_reader(&[price, cart]), "{call}");
    }
}

#[test]
fn more_new_files_than_are_searched_by_name_run_all_tests() {
    let with = |dir: &str, end: &str, count: usize| {
        select("jest", |now| now.extend((0..count).map(|number| (format!("{dir}/x{number}{end}"), "1;\n".to_owned()))))
    };
    assert_eq!(with("lib", ".js", SELECTION_NAMED_FILES_MAX), READER);
    assert_eq!(
        with("lib", ".js", SELECTION_NAMED_FILES_MAX + 1),
        "full: there are more than 200 new or removed files, and which sources name them is not looked up"
    );
    assert_eq!(with("docs", ".md", SELECTION_NAMED_FILES_MAX), "nothing");
    assert!(
        with("docs", ".md", SELECTION_NAMED_FILES_MAX + 1).starts_with("full: there are more than 200 changed files")
    );
}

#[test]
fn a_file_with_any_change_never_leaves_out_what_loaded_it() {
    for path in project_files().keys().filter(|path| path.ends_with(".js")) {
        let selected = select("jest", |now| drop(now.insert(path.clone(), "changed();\n".into())));
        let project = project_with("jest", &project_files(), &TESTS, loaded());
        for test_file in project.index.loaded().test_files_loading([path.as_str()]) {
            assert!(
                selected.starts_with("full: ") || selected.contains(&format!("{test_file}.")),
                "{path}: {selected}"
            );
        }
    }
}

#[test]
fn a_test_file_that_was_removed_is_forgotten_after_a_run_of_affected_tests() {
    let mut project = project_with("jest", &project_files(), &TESTS, loaded());
    let mut now = project_files();
    now.remove("src/alone.test.js");
    let request =
        RunRequest { selection: Selection::Affected { since: EarlierState::LastRun }, ..RunRequest::default() };
    let affected = Some(AffectedSummary::default());
    let report = Report { affected, ..report_of("jest", &[(READER, TestOutcome::Passed)]) };
    let (run, has_measured) = (RunId::new("r2"), true);
    let ended = EndedRun { run: &run, request: &request, report: &report, has_measured, replaces_coverage: false };
    project.baseline = Baseline::after(Some(project.baseline), &ended, Some(seen(&now))).unwrap();
    assert!(!project.baseline.tests().contains_key("src/alone.test.js"));
    now.insert("src/late.js".into(), "exports.late = 6;\n".into());
    assert_eq!(shown(&project.select(&now)), with_reader(&[TESTS[1]]));
}

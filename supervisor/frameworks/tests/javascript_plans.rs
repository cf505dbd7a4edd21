//! Command lines of the Jest and Vitest adapters for every kind of selection.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod want;
}

use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use proctor_frameworks::runners::jest::Jest;
use proctor_frameworks::runners::vitest::Vitest;
use proctor_frameworks::{FileTree, Framework, Plan, PlanRequest};

fn tree(script: &str) -> FileTree {
    let mut tree = FileTree::default();
    tree.add_with_content("web/package.json", format!("{{\"scripts\":{{\"test\":{script:?}}}}}"));
    ["web/a.test.js", "web/src/b.js", "web/src/c.test.js"].into_iter().for_each(|file| tree.add(file));
    tree
}

fn want(selection: &Selection, parallel: Option<u32>) -> PlanRequest<'_> {
    PlanRequest { parallel, ..support::want::want(selection) }
}

fn plan(framework: &dyn Framework, script: &str, selection: &Selection, parallel: Option<u32>) -> Plan {
    let tree = tree(script);
    framework.plan(&framework.detect(&tree), &tree, &want(selection, parallel)).unwrap()
}

/// The arguments of each step, and the variables with Vitest's settings.
fn lines(plan: &Plan) -> Vec<String> {
    let line = |step: &proctor_frameworks::Step| {
        assert_eq!((step.programs.join(" "), step.dir.as_str()), ("node".to_owned(), "web"));
        assert_eq!(step.env["PROCTOR_REPORT"], "/scratch/report");
        let settings = ["PROCTOR_VITEST", "PROCTOR_LISTING"].iter().filter_map(|name| step.env.get(*name).cloned());
        step.args.iter().cloned().chain(settings).collect::<Vec<_>>().join(" ")
    };
    assert!(plan.report);
    plan.steps.iter().map(line).collect()
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let files = files.iter().map(|file| (*file).to_owned()).collect();
    Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
}

fn failed() -> Selection {
    let test =
        |package: &str, name: &str| RerunTarget::Test(TestId { package: package.to_owned(), name: name.to_owned() });
    Selection::Exactly(vec![test("web/a.test.js", "price > of (a) $1"), test("web/a.test.js", "x")])
}

const JEST: &str = "--ci --watchman=false --testLocationInResults --passWithNoTests=false --cacheDirectory=/cache/jest";

#[test]
fn jest_gets_the_selection() {
    let jest = |script: &str, selection: &Selection, parallel| lines(&plan(&Jest, script, selection, parallel));
    let run = "/scratch/jest/run.cjs";
    assert_eq!(jest("jest", &Selection::All, None), [format!("{run} {JEST}")]);
    assert_eq!(jest("jest", &matching("a b", &[]), None), [format!("{run} {JEST} --testNamePattern=a b")]);
    let files = format!("{run} ./src/b.js ./src/c.test.js --findRelatedTests {JEST}");
    assert_eq!(jest("jest", &matching("", &["web/src"]), None), [files]);
    let names = r"--testNamePattern=^(?:price (?:> )?of \(a\) \$1|x)$";
    assert_eq!(jest("jest", &failed(), None), [format!("{run} ./a.test.js --runTestsByPath {JEST} {names}")]);
    let script = "node --no-warnings node_modules/.bin/jest -c x.js -i --coverage src";
    assert_eq!(
        jest(script, &Selection::All, None),
        [format!("--no-warnings {run} src {JEST} --config=x.js --runInBand")]
    );
    assert_eq!(
        jest(script, &Selection::All, Some(3)),
        [format!("--no-warnings {run} src {JEST} --config=x.js --maxWorkers=3")]
    );
    let notes = plan(&Jest, script, &Selection::All, None).notes;
    assert_eq!(notes, ["the test script gives jest options that were not passed on: --coverage"]);
}

#[test]
fn vitest_gets_the_selection() {
    let vitest = |script: &str, selection: &Selection, parallel| lines(&plan(&Vitest, script, selection, parallel));
    let line = |args: &str, files: &str, related: bool, expression: &str, workers: &str| {
        let settings = format!(
            "{{\"files\":[{files}],\"related\":{related},\"expression\":{expression},\"titles\":null,\"cache\":\"/cache/vitest\",\"workers\":{workers}}}"
        );
        [format!("/scratch/vitest/run.mjs {args}{settings}")]
    };
    assert_eq!(vitest("vitest", &Selection::All, None), line("", "", false, "null", "null"));
    let script = "vitest run -c x.ts --max-workers 4 --ui src";
    assert_eq!(
        vitest(script, &Selection::All, None),
        line("src --config=x.ts --maxWorkers=4 ", "", false, "null", "null")
    );
    assert_eq!(vitest(script, &Selection::All, Some(2)), line("src --config=x.ts ", "", false, "null", "2"));
    assert_eq!(
        vitest("vitest", &matching("a b", &["web/src/b.js"]), None),
        line("", "\"src/b.js\"", true, "\"a b\"", "null")
    );
    let names = r#""^(?:price (?:> )?of \\(a\\) \\$1|x)$""#;
    assert_eq!(vitest("vitest", &failed(), None), line("", "\"a.test.js\"", false, names, "null"));
}

/// The arguments that come from the script: patterns first, then options.
fn words(framework: &dyn Framework, script: &str) -> Vec<String> {
    let plan = plan(framework, script, &Selection::All, None);
    let ours = |word: &&String| JEST.split(' ').all(|own| own != word.as_str()) && !word.starts_with("/scratch/");
    plan.steps.iter().map(|step| step.args.iter().filter(ours).cloned().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_value_of_an_option_is_no_pattern() {
    for (script, expected) in [
        ("jest --testPathIgnorePatterns e2e", "--testPathIgnorePatterns=e2e"),
        (
            "jest --projects a b --selectProjects unit it",
            "--projects=a --projects=b --selectProjects=unit --selectProjects=it",
        ),
        ("jest --roots src lib --test-match '**/x.js'", "--roots=src --roots=lib --testMatch=**/x.js"),
        ("jest --coverageReporters text lcov --ci", ""),
        ("jest --bail 1", ""),
        ("jest --unheard e2e it", ""),
        ("jest --testPathPattern unit", "unit"),
    ] {
        assert_eq!(words(&Jest, script), [expected], "{script}");
    }
    for (script, expected) in [
        ("vitest run --exclude e2e", "--exclude=e2e"),
        ("vitest run --bail 1 --exclude a --exclude b", "--exclude=a --exclude=b"),
        ("vitest run --project unit src", "src --project=unit"),
        ("vitest --unheard e2e", ""),
    ] {
        assert_eq!(words(&Vitest, script), [expected], "{script}");
    }
}

#[test]
fn each_start_in_the_script_becomes_a_command() {
    assert_eq!(words(&Jest, "jest -c unit.js && jest -c e2e.js"), ["--config=unit.js", "--config=e2e.js"]);
    assert_eq!(words(&Vitest, "vitest run a && vitest run --dir b"), ["a", "--dir=b"]);
    let twice = plan(&Jest, "jest -c unit.js && jest -c e2e.js", &matching("", &["web/a.test.js"]), None);
    assert_eq!(twice.steps.len(), 2);
}

#[test]
fn notes_a_script_that_cannot_be_read() {
    let mut tree = FileTree::default();
    tree.add_with_content("web/package.json", r#"{"scripts":{"test":"make check"},"devDependencies":{"jest":"30"}}"#);
    let plan = Jest.plan(&Jest.detect(&tree), &tree, &want(&Selection::All, None)).unwrap();
    assert_eq!(plan.notes, ["the test script could not be read: jest was started without its arguments"]);
}

#[test]
fn a_listing_runs_no_test() {
    let listing = |framework: &dyn Framework, script: &str, selection: &Selection| {
        let tree = tree(script);
        lines(&framework.plan_listing(&framework.detect(&tree), &tree, &want(selection, None)).unwrap()).join("\n")
    };
    let all = listing(&Jest, "jest", &Selection::All);
    assert_eq!(all, format!("/scratch/jest/run.cjs {JEST} --testNamePattern=(?!) "));
    let some = listing(&Jest, "jest", &matching("a b", &[]));
    assert_eq!(some, format!("/scratch/jest/run.cjs {JEST} --testNamePattern=(?!) a b"));
    assert!(listing(&Vitest, "vitest", &Selection::All).ends_with("} "));
}

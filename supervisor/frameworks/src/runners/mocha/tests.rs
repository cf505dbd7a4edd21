//! Plans of the Mocha adapter, and its detection.

use super::*;
use crate::contract::{Framework, ScopeGlobs, Step, TestScope};
use proctor_core::filter::Filter;
use proctor_core::request::Selection;
use proctor_core::test_case::TestId;

fn tree(script: &str) -> FileTree {
    let mut tree = FileTree::default();
    tree.add_with_content("package.json", format!("{{\"scripts\":{{\"test\":\"{script}\"}}}}"));
    for file in ["test/a.spec.js", "test/b.spec.js", "src/x.js"] {
        tree.add(file);
    }
    tree
}

fn plan_of(script: &str, selection: &Selection, parallel: Option<u32>, lists: bool) -> Plan {
    let request = PlanRequest { is_measured: true, parallel, ..PlanRequest::plain(selection) };
    let tree = tree(script);
    let projects = Mocha.detect(&tree);
    let plan =
        if lists { Mocha.plan_listing(&projects, &tree, &request) } else { Mocha.plan(&projects, &tree, &request) };
    plan.unwrap()
}

/// The command line, without what a run always has.
fn line(step: &Step) -> String {
    let line = step.args.join(" ").replace("--reporter=/s/mocha/reporter.cjs --no-color", "...");
    line.strip_prefix("--require=/s/mocha/lines.cjs ").map_or(line.clone(), str::to_owned)
}

fn lines(script: &str, selection: &Selection) -> Vec<String> {
    plan_of(script, selection, None, false).steps.iter().map(line).collect()
}

#[test]
fn combines_the_script_and_the_request_into_the_command_line() {
    let plan = plan_of("TZ=UTC nyc mocha -r ts-node/register -R dot 'test/**/*.js'", &Selection::All, None, false);
    assert_eq!(plan.steps[0].programs, ["node_modules/.bin/mocha", "node_modules/.bin/mocha"]);
    assert_eq!(line(&plan.steps[0]), "... -r ts-node/register test/**/*.js");
    assert_eq!((plan.steps[0].env["TZ"].as_str(), plan.steps[0].env["PROCTOR_REPORT"].as_str()), ("UTC", "/s/report"));
    assert_eq!(plan.notes, ["the test script gives mocha options that were not passed on: -R dot"]);
    assert!(plan.report && plan.files.len() == 16);
    assert_eq!(plan.steps[0].args[0], "--require=/s/mocha/lines.cjs");
    let listing = plan_of("mocha test", &Selection::All, None, true);
    assert_eq!(line(&listing.steps[0]), "--dry-run --no-parallel ... test");
    let parallel = plan_of("mocha --parallel --jobs 8 test", &Selection::All, Some(3), false);
    assert_eq!(line(&parallel.steps[0]), "... --parallel --jobs=3 test");
    let matching = |filter: &str, files: &[&str]| {
        let files = files.iter().map(|&file| file.to_owned()).collect();
        Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
    };
    assert_eq!(lines("mocha -g fast test", &matching("a b", &[])), ["... --grep=a b test"]);
    let plan = plan_of("mocha --config c.json test", &matching("", &["test/a.spec.js", "src"]), None, false);
    assert_eq!(line(&plan.steps[0]), "... --config=/s/mocha/config.cjs --no-package ./test/a.spec.js");
    assert_eq!(plan.steps[0].env["PROCTOR_MOCHA_CONFIG"], "c.json");
}

#[test]
fn reruns_exactly_the_failed_tests_and_the_file_of_a_failed_hook() {
    let test =
        |package: &str, name: &str| RerunTarget::Test(TestId { package: package.to_owned(), name: name.to_owned() });
    let config = "... --config=/s/mocha/config.cjs --no-package";
    let selection = Selection::Exactly(vec![
        test("test/a.spec.js", "s > adds (1+1)"),
        test("test/a.spec.js", "top"),
        test("test/b.spec.js", "s > \"before all\" hook for \"x > y\""),
    ]);
    let expected = [
        format!("{config} ./test/b.spec.js"),
        format!(r"{config} --grep=^(?:s (?:> )?adds \(1\+1\)|top)$ ./test/a.spec.js"),
    ];
    assert_eq!(lines("mocha", &selection), expected);
    let quoted = test("test/a.spec.js", "\"before\" is a word");
    assert_eq!(file_of_hook(&quoted), quoted);
}

#[test]
fn the_scope_of_the_project_file_applies_beside_the_filter_of_the_script() {
    let tree = tree("mocha --grep @fast --invert test");
    let exclude = ScopeGlobs::parse(&["cart > slow".to_owned()]).unwrap();
    let scope = TestScope { exclude, ..TestScope::default() };
    let plan =
        Mocha.plan(&Mocha.detect(&tree), &tree, &PlanRequest { scope: &scope, ..PlanRequest::plain(&Selection::All) });
    let step = &plan.unwrap().steps[0];
    assert_eq!(line(step), "--require=/s/mocha/scope.cjs ... --grep=@fast --invert test");
    assert_eq!(step.env["PROCTOR_TITLES"], "^(?! *(?:cart (?:> )?slow)(?: |$))");
}

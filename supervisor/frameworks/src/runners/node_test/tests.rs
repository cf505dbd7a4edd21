//! Plans of the adapter for Node's test runner, and its detection.

use super::*;
use crate::contract::{Framework, Step};
use proctor_core::filter::Filter;

fn plan_of(script: &str, selection: &Selection, parallel: Option<u32>, lists: bool) -> Plan {
    let request = PlanRequest { is_measured: true, parallel, ..PlanRequest::plain(selection) };
    let mut tree = FileTree::default();
    tree.add_with_content("package.json", format!("{{\"scripts\":{{\"test\":\"{script}\"}}}}"));
    for file in ["a.test.js", "b.test.js", "src/x.js", "src/[id].test.js"] {
        tree.add(file);
    }
    let projects = NodeTest.detect(&tree);
    let plan = if lists {
        NodeTest.plan_listing(&projects, &tree, &request)
    } else {
        NodeTest.plan(&projects, &tree, &request)
    };
    plan.unwrap()
}

fn line(step: &Step) -> String {
    let destination = "--test-reporter-destination=stdout";
    let ours = format!("--test --test-reporter=/s/node/reporter.cjs {destination}");
    let theirs =
        format!(" --test-reporter=spec {destination} --require=/s/node/lines.cjs --require=/s/node/output.cjs");
    step.args.join(" ").replace(&ours, "...").replace(&theirs, "")
}

fn lines(script: &str, selection: &Selection) -> Vec<String> {
    plan_of(script, selection, None, false).steps.iter().map(line).collect()
}

#[test]
fn combines_the_script_and_the_request_into_the_command_line() {
    let script = "NODE_ENV=test node --import tsx --test --watch --test-reporter dot --test-timeout 99 'test/*.ts'";
    let plan = plan_of(script, &Selection::All, None, false);
    assert_eq!(plan.steps[0].programs, ["node_modules/.bin/node", "node"]);
    assert_eq!(line(&plan.steps[0]), "... --import=tsx --test-timeout=99 test/*.ts");
    assert_eq!(plan.steps[0].env["NODE_ENV"], "test");
    assert_eq!(plan.notes, ["the test script gives node options that were not passed on: --watch --test-reporter=dot"]);
    let listing = plan_of("", &Selection::All, None, true);
    assert_eq!(line(&listing.steps[0]), "... --require=/s/node/listing.cjs");
    assert!(listing.steps[0].env.contains_key("PROCTOR_LISTING"));
    let parallel = plan_of("node --test --test-concurrency=8", &Selection::All, Some(3), false);
    assert_eq!(line(&parallel.steps[0]), "... --test-concurrency=3");
    let matching = |filter: &str, files: &[&str]| {
        let files = files.iter().map(|&file| file.to_owned()).collect();
        Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
    };
    assert_eq!(lines("node --test test", &matching("a b", &[])), ["... --test-name-pattern=a b test"]);
    assert_eq!(lines("node --test test", &matching("", &["src"])), ["... ./src/?id?.test.js"]);
}

#[test]
fn marks_requests_that_name_files_or_tests() {
    let is_asked = |script: &str, filter: &str, files: &[&str]| {
        let files = files.iter().map(|&file| file.to_owned()).collect();
        let selection = Selection::Matching { filter: Filter::parse(filter).unwrap(), files };
        plan_of(script, &selection, None, false).steps[0].env.contains_key("PROCTOR_ASKED")
    };
    assert!(!is_asked("node --test", "", &[]));
    for (script, filter, files) in
        [("node --test", "a b", &[][..]), ("node --test", "", &["src"]), ("node --test --test-name-pattern=a", "", &[])]
    {
        assert!(is_asked(script, filter, files), "{script} {filter}");
    }
}

#[test]
fn reruns_exactly_the_failed_tests_and_the_parents_of_subtests() {
    let test =
        |package: &str, name: &str| RerunTarget::Test(TestId { package: package.to_owned(), name: name.to_owned() });
    let selection = Selection::Exactly(vec![
        test("a.test.js", "s > x (1)"),
        test("b.test.js", "parent/child/deep"),
        test("b.test.js", "/ is the root"),
    ]);
    let expected = [
        r"... --test-name-pattern=^(?:\/ is the root|parent|parent\/child|parent\/child\/deep)$ ./b.test.js",
        r"... --test-name-pattern=^(?:s (?:> )?x \(1\))$ ./a.test.js",
    ];
    assert_eq!(lines("", &selection), expected);
    let whole = Selection::Exactly(vec![RerunTarget::Package("a.test.js".to_owned())]);
    assert_eq!(lines("", &whole), ["... ./a.test.js"]);
}

#[test]
fn borp_gets_the_reporter_and_node_gets_the_files() {
    let mut tree = FileTree::default();
    let script = r#"{"scripts":{"test":"c8 borp -p 'test/*.js' --expose-gc --coverage"}}"#;
    tree.add_with_content("package.json", script);
    tree.add("test/a.js");
    let projects = NodeTest.detect(&tree);
    let planned = |selection: &Selection| {
        let plan = NodeTest.plan(&projects, &tree, &PlanRequest::plain(selection)).unwrap();
        let step = &plan.steps[0];
        (format!("{} {}", step.programs[0], step.args.join(" ")), step.env.get("NODE_OPTIONS").cloned())
    };
    let (line, options) = planned(&Selection::All);
    let borp = "node_modules/.bin/borp --reporter=spec --reporter=/s/node/reporter.cjs --pattern=test/*.js --expose-gc";
    assert_eq!((line.as_str(), options.as_deref()), (borp, Some("--require=/s/node/output.cjs")));
    let filter = Filter::parse("a b").unwrap();
    let (line, options) = planned(&Selection::Matching { filter, files: Vec::new() });
    assert_eq!(line, borp);
    assert_eq!(options.as_deref(), Some("--require=/s/node/output.cjs --require=/s/node/named.cjs"));
    let (line, _) = planned(&Selection::Matching { filter: None, files: vec!["test/a.js".to_owned()] });
    assert!(line.contains("--test ") && line.ends_with("--expose-gc ./test/a.js"), "{line}");
}

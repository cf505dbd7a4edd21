//! Plans of the Cypress adapter.

use super::*;
use crate::contract::Framework;
use proctor_core::filter::Filter;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::request::Browser;
use proctor_core::test_case::TestId;

fn tree(script: &str, config: &str) -> FileTree {
    let mut tree = FileTree::default();
    tree.add_with_content("package.json", format!("{{\"scripts\":{{\"e2e\":\"{script}\"}}}}"));
    tree.add_with_content("cypress.config.ts", config);
    for file in ["cypress/e2e/cart.cy.js", "cypress/e2e/login.cy.ts", "cypress/support/e2e.js", "src/x.js"] {
        tree.add(file);
    }
    tree
}

fn plan_for(tree: &FileTree, selection: &Selection, lists: bool) -> Plan {
    let request = PlanRequest { is_measured: true, ..PlanRequest::plain(selection) };
    let projects = Cypress.detect(tree);
    let plan =
        if lists { Cypress.plan_listing(&projects, tree, &request) } else { Cypress.plan(&projects, tree, &request) };
    plan.unwrap()
}

fn lines(selection: &Selection) -> Vec<String> {
    let plan = plan_for(&tree("cypress run --spec x --browser chrome", ""), selection, false);
    plan.steps.iter().map(|step| step.args.join(" ").replace("--reporter=/s/cypress/reporter.cjs", "...")).collect()
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let files = files.iter().map(|&file| file.to_owned()).collect();
    Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
}

#[test]
fn takes_the_command_line_from_the_script_without_reporting_options() {
    let script = "TZ=UTC cypress run -r mochawesome --config retries=2 --record --key k -b chrome -q";
    let plan = plan_for(&tree(script, ""), &Selection::All, false);
    let step = &plan.steps[0];
    assert_eq!(step.programs, ["node_modules/.bin/cypress", "node_modules/.bin/cypress"]);
    assert_eq!(step.args.join(" "), "run --reporter=/s/cypress/reporter.cjs --config=retries=2 -b chrome");
    let noted = "the test script gives cypress options that were not passed on: -r mochawesome --record --key=k -q";
    assert_eq!(plan.notes, [noted]);
    for (name, value) in [
        ("CYPRESS_SCREENSHOTS_FOLDER", "/s/artifacts/cypress/screenshots"),
        ("PROCTOR_CYPRESS_REPORTER", "mochawesome"),
        ("PROCTOR_REPORT", "/s/report"),
        ("PROCTOR_ROOT", "/w"),
        ("TZ", "UTC"),
    ] {
        assert_eq!(step.env[name], value);
    }
    assert!(plan.report && plan.artifacts && plan.files.len() == 4);
}

#[test]
fn a_requested_browser_replaces_the_scripts() {
    for script in ["cypress run --headless -b chrome -q", "cypress run --browser chrome -q"] {
        let tree = tree(script, "");
        let mut plan = plan_for(&tree, &Selection::All, false);
        let asked = BrowserOptions { headed: true, browser: Some(Browser::Firefox) };
        Cypress.apply_browser_options(&tree, &mut plan, "browser", asked).unwrap();
        let expected = "run --reporter=/s/cypress/reporter.cjs --headed --browser=firefox";
        assert_eq!(plan.steps[0].args.join(" "), expected, "{script}");
    }
}

#[test]
fn prefers_the_scripts_reporter_to_the_configurations() {
    let reporter_of = |script: &str, config: &str| {
        let plan = plan_for(&tree(script, config), &Selection::All, false);
        plan.steps[0].env.get("PROCTOR_CYPRESS_REPORTER").cloned()
    };
    let config = "export default defineConfig({\n  reporter: 'junit', // x\n  reporterOptions: { mochaFile: 'x' },\n})";
    assert_eq!(reporter_of("cypress run", config).as_deref(), Some("junit"));
    assert_eq!(reporter_of("cypress run --reporter=dot", config).as_deref(), Some("dot"));
    assert_eq!(reporter_of("cypress run", "reporter: pick(),\n// reporter: 'no'\n"), None);
}

#[test]
fn selects_specs_by_pattern_and_by_file() {
    assert_eq!(lines(&Selection::All), ["run ... --spec=x --browser=chrome"]);
    assert_eq!(lines(&matching("cart", &[])), ["run ... --spec=**/*cart* --browser=chrome"]);
    assert_eq!(lines(&matching("cypress/e2e/l*", &[])), ["run ... --spec=cypress/e2e/l* --browser=chrome"]);
    let both = "run ... --spec=cypress/e2e/cart.cy.js,cypress/e2e/login.cy.ts --browser=chrome";
    assert_eq!(lines(&matching("", &["cypress"])), [both]);
    assert_eq!(lines(&matching("login", &["cypress"])), ["run ... --spec=cypress/e2e/login.cy.ts --browser=chrome"]);
    let test =
        |name: &str| RerunTarget::Test(TestId { package: "cypress/e2e/cart.cy.js".to_owned(), name: name.to_owned() });
    let failed = Selection::Exactly(vec![test("a"), test("b")]);
    assert_eq!(lines(&failed), ["run ... --spec=cypress/e2e/cart.cy.js --browser=chrome"]);
    let plan = plan_for(&tree("cypress run", ""), &failed, false);
    assert_eq!(plan.notes, ["cypress cannot select single tests: their whole specs were run"]);
}

#[test]
fn escapes_pattern_characters_in_file_names() {
    let mut tree = tree("cypress run", "");
    tree.add("cypress/e2e/[id],a{b}.cy.js");
    let selection = matching("", &["cypress/e2e/[id],a{b}.cy.js"]);
    assert_eq!(plan_for(&tree, &selection, false).steps[0].args[2], "--spec=cypress/e2e/?id??a?b?.cy.js");
}

#[test]
fn lists_specs_without_cypress() {
    let plan = plan_for(&tree("", ""), &Selection::All, true);
    let text = String::from_utf8(plan.files[0].bytes.clone()).unwrap();
    let listed: Vec<&str> = text.lines().filter(|line| line.contains("listed")).collect();
    assert_eq!(listed.len(), 2, "{text}");
    assert_eq!(plan.steps[0].args[3..], ["/s/cypress/specs.jsonl-0", "/s/report"]);
    let mut listing = Cypress.listing_parser(&plan, &PlanRequest::plain(&Selection::All));
    listing.step_started(0);
    listing.report(text.as_bytes(), &mut Vec::new());
    listing.step_ended(Exit::Code(0), false, &mut Vec::new());
    assert_eq!(listing.summary().proof, Proof::Shown { tests: 0 });
}

#[test]
fn lists_no_specs_of_a_project_whose_name_begins_with_the_same_letters() {
    let mut tree = FileTree::default();
    for name in ["web", "web2"] {
        tree.add_with_content(format!("{name}/package.json"), r#"{"scripts":{"e2e":"cypress run"}}"#);
        tree.add(format!("{name}/cypress.config.js"));
        tree.add(format!("{name}/cypress/e2e/{name}.cy.js"));
    }
    let plan = plan_for(&tree, &Selection::All, true);
    let listed = |dir: &str| {
        let step = plan.steps.iter().position(|step| step.dir == dir).unwrap();
        String::from_utf8(plan.files[step].bytes.clone()).unwrap()
    };
    let line = |name: &str| format!(r#""package":"cypress/e2e/{name}.cy.js""#);
    assert!(listed("web").contains(&line("web")) && !listed("web").contains("web2"), "{}", listed("web"));
    assert!(listed("web2").contains(&line("web2")));
}

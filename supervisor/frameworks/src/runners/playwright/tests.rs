//! Plans of the Playwright adapter.

use super::*;
use crate::contract::{Framework, Step};
use proctor_core::request::{Browser, RerunTarget, Selection};
use proctor_core::test_case::TestId;
use std::collections::BTreeMap;

fn planned(script: &str, selection: &Selection, parallel: Option<u32>) -> Plan {
    let mut tree = FileTree::default();
    tree.add_with_content("web/package.json", format!("{{\"scripts\":{{\"test\":{script:?}}}}}"));
    ["web/e2e/a.spec.ts", "web/e2e/b.spec.ts", "web/src/page.ts"].into_iter().for_each(|file| tree.add(file));
    let request = PlanRequest {
        parallel,
        workspace: "/w-s",
        scratch: "/scratch",
        cache: "/cache",
        ..PlanRequest::plain(selection)
    };
    Playwright.plan(&Playwright.detect(&tree), &tree, &request).unwrap()
}

fn args(script: &str, selection: &Selection, parallel: Option<u32>) -> Vec<String> {
    planned(script, selection, parallel).steps.iter().map(|step| step.args.join(" ")).collect()
}

const OURS: &str = "test --output=/scratch/artifacts/kept/playwright-0 --update-snapshots=none";

#[test]
fn passes_the_options_of_the_script_on() {
    let script = "playwright install && cross-env A=b playwright test -c e2e --project x --ui -j 2 --reporter=dot e2e";
    let kept = "--config=e2e --project=x --workers=2 --reporter=dot";
    assert_eq!(args(script, &Selection::All, None), [format!("{OURS} {kept} e2e")]);
    let kept = "--config=e2e --project=x --reporter=dot --workers=3";
    assert_eq!(args(script, &Selection::All, Some(3)), [format!("{OURS} {kept} e2e")]);
    let plan = planned(script, &Selection::All, None);
    let notes = [
        "checks of the test script were not run: `playwright install`",
        "the test script gives playwright options that were not passed on: --ui",
    ];
    assert_eq!(plan.notes, notes);
    assert_eq!((plan.steps[0].env["A"].as_str(), plan.dirs.join(" ").as_str()), ("b", "artifacts/kept/playwright-0"));
}

#[test]
fn the_value_of_an_option_is_no_pattern() {
    let of = |script: &str| args(script, &Selection::All, None);
    assert_eq!(of("playwright test --project unit it"), [format!("{OURS} --project=unit --project=it")]);
    assert_eq!(of("playwright test --project=unit it"), [format!("{OURS} --project=unit it")]);
    assert_eq!(of("playwright test --only-changed main --unheard a b"), [OURS]);
    let both = of("playwright test a && playwright test -c b");
    assert_eq!(both, [format!("{OURS} a"), format!("{} --config=b", OURS.replace("playwright-0", "playwright-1"))]);
}

#[test]
fn selects_tests_by_exact_name_and_file() {
    let test =
        |name: &str| RerunTarget::Test(TestId { package: "web/e2e/a.spec.ts".to_owned(), name: name.to_owned() });
    let selection = Selection::Exactly(vec![test("[dark mode] > cart > adds (1)"), test("holds")]);
    let tags = r"(?: @\S+)*";
    let first = format!(r" ?dark mode [^\n]*\.[cm]?[jt]sx? cart{tags} (?:> )?adds \(1\){tags}");
    let second = format!(r" ? [^\n]*\.[cm]?[jt]sx? holds{tags}");
    let wanted = format!(r"{OURS} --grep=/^(?:{first}|{second})$/ ^\/w\-s\/web\/e2e\/a\.spec\.ts$");
    assert_eq!(args("playwright test -x --grep=@smoke", &selection, None), [wanted]);
    let whole = Selection::Exactly(vec![RerunTarget::Package("web/e2e/b.spec.ts".to_owned())]);
    assert_eq!(args("playwright test", &whole, None), [format!(r"{OURS} ^\/w\-s\/web\/e2e\/b\.spec\.ts$")]);
}

#[test]
fn a_directory_selects_its_tests_only() {
    let files = vec!["web".to_owned()];
    let selection = Selection::Matching { filter: None, files };
    let file = |name: &str| format!(r" ^\/w\-s\/web\/e2e\/{name}\.spec\.ts$");
    assert_eq!(args("playwright test", &selection, None), [format!("{OURS}{}{}", file("a"), file("b"))]);
}

#[test]
fn selects_the_browser_as_the_configuration_allows() {
    let browsed = |config: &str| {
        let mut tree = FileTree::default();
        tree.add_with_content("package.json", r#"{"scripts":{"test":"playwright test --project=phone e2e"}}"#);
        tree.add_with_content("playwright.config.ts", config);
        let mut plan = Plan::default();
        let args = ["test", "--project=phone", "e2e"].map(str::to_owned).into();
        plan.steps.push(Step { programs: vec![], args, dir: String::new(), env: BTreeMap::new() });
        let asked = BrowserOptions { headed: true, browser: Some(Browser::Firefox) };
        Playwright.apply_browser_options(&tree, &mut plan, "headed", asked).unwrap();
        plan.steps[0].args.join(" ")
    };
    assert_eq!(browsed("export default { retries: 1 };"), "test --headed --browser=firefox e2e");
    assert_eq!(browsed("export default { projects: [] };"), "test --headed --project=firefox e2e");
}

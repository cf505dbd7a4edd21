//! Plans of the PHPUnit adapter, and its reading of PHP's and PHPUnit's messages.

use super::*;
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;

const RUN: &str = "api: php /s/phpunit/run.php --colors=never --do-not-cache-result --no-coverage";

fn tree() -> FileTree {
    let mut tree = FileTree::with_contents(&[("api/phpunit.xml", "")]);
    for file in
        ["tests/CalcTest.php", "tests/Unit/CalcTest.php", "tests/Unit/CartTest.php", "src/Calc.php", "src/x.php"]
    {
        tree.add(format!("api/{file}"));
    }
    tree
}

fn planned(selection: &Selection) -> Result<Plan, PlanError> {
    let tree = tree();
    Phpunit.plan(&Phpunit.detect(&tree), &tree, &PlanRequest::plain(selection))
}

fn lines(selection: &Selection) -> Vec<String> {
    let plan = planned(selection).unwrap();
    plan.steps.iter().map(|step| format!("{}: {} {}", step.dir, step.programs[0], step.args.join(" "))).collect()
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let files = files.iter().map(|&file| file.to_owned()).collect();
    Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
}

#[test]
fn a_project_without_settings_runs_its_directory_of_tests() {
    assert_eq!(lines(&Selection::All), [RUN]);
    let composer = r#"{"require-dev":{"phpunit/phpunit":"^9","pestphp/pest":"^1"}}"#;
    let tree = FileTree::with_contents(&[("composer.json", composer), ("tests/ATest.php", "")]);
    let plan = Phpunit.plan(&Phpunit.detect(&tree), &tree, &PlanRequest::plain(&Selection::All)).unwrap();
    assert_eq!(plan.steps[0].args.last().unwrap(), "./tests");
    assert!(plan.notes[0].contains("Pest"), "{:?}", plan.notes);
}

#[test]
fn files_select_their_tests() {
    assert_eq!(lines(&matching("adds two", &[])), [format!("{RUN} --filter=adds two")]);
    assert_eq!(lines(&matching("", &["api/tests/CalcTest.php"])), [format!("{RUN} ./tests/CalcTest.php")]);
    let both = [format!("{RUN} ./tests/CalcTest.php"), format!("{RUN} ./tests/Unit/CalcTest.php")];
    assert_eq!(lines(&matching("", &["api/src/Calc.php"])), both);
    assert_eq!(
        lines(&matching("", &["api/tests/Unit", "api/tests/Unit/CartTest.php"])),
        [format!("{RUN} ./tests/Unit")]
    );
    assert_eq!(lines(&matching("", &["api"])), [RUN]);
    assert_eq!(lines(&matching("", &["api/src/x.php", "api/tests/CalcTest.php"])), [RUN]);
    let notes = planned(&matching("", &["api/src/x.php"])).unwrap().notes;
    assert_eq!(notes, ["no test is named after api/src/x.php: all tests of its project run"]);
    for outside in ["../x.php", "/x.php", "other.php", "api/tests/GoneTest.php"] {
        assert!(planned(&matching("", &[outside])).is_err(), "{outside}");
    }
}

#[test]
fn reruns_exactly_the_failed_tests() {
    let package = "api/tests/CalcTest.php".to_owned();
    let test = |name: &str| RerunTarget::Test(TestId { package: package.clone(), name: name.to_owned() });
    let cart = RerunTarget::Package("api/tests/Unit/CartTest.php".to_owned());
    let plan = planned(&Selection::Exactly(vec![test("CalcTest::testB"), test("CalcTest::testA"), cart])).unwrap();
    assert_eq!(plan.steps.len(), 1);
    assert_eq!(plan.steps[0].env["PROCTOR_SELECTION"], "/s/phpunit/selection-0");
    let file = plan.files.iter().find(|file| file.path == "phpunit/selection-0").unwrap();
    let expected =
        "tests/CalcTest.php\tCalcTest::testA\ntests/CalcTest.php\tCalcTest::testB\ntests/Unit/CartTest.php\t\n";
    assert_eq!(String::from_utf8_lossy(&file.bytes), expected);
    let gone = Selection::Exactly(vec![RerunTarget::Package("api/tests/GoneTest.php".to_owned())]);
    assert_eq!(lines(&gone), [RUN], "a deleted file is only covered by everything");
}

#[test]
fn a_listing_sets_its_variable() {
    let tree = tree();
    let (projects, selection) = (Phpunit.detect(&tree), Selection::All);
    let listing = Phpunit.plan_listing(&projects, &tree, &PlanRequest::plain(&selection)).unwrap();
    assert_eq!(listing.steps[0].env["PROCTOR_LISTING"], "1");
}

#[test]
fn reads_the_messages_of_a_run_that_cannot_start() {
    let absent = missing_remedy("proctor: phpunit is not installed for this project: install its packages\n").unwrap();
    assert!(absent.starts_with("phpunit is not installed"));
    assert_eq!(missing_remedy("OK (1 test)"), None);
    let place = |file: &str, line| Some((file.to_owned(), line));
    for (output, why, at) in [
        (
            "An error occurred inside PHPUnit.\n\nMessage:  cannot be loaded\nLocation: /ws/src/broken.php:3\n\n#0 /ws/tests/BrokenTest.php(3): require_once()\n",
            "cannot be loaded",
            place("/ws/src/broken.php", 3),
        ),
        (
            "Error in bootstrap script: RuntimeException:\nno server\n#0 /usr/share/php/PHPUnit/Util/FileLoader.php(66): include_once()\n#8 /s/phpunit/run.php(471): main()\n",
            "Error in bootstrap script: RuntimeException: no server",
            None,
        ),
        (
            "PHP Fatal error:  Uncaught Error: gone in /ws/vendor/a/b.php:7\nStack trace:\n#0 /ws/tests/ATest.php(9): f()\n",
            "Error: gone",
            place("/ws/tests/ATest.php", 9),
        ),
        (
            "PHP Parse error:  syntax error, unexpected token \"}\" in /ws/tests/ATest.php on line 4\n",
            "syntax error, unexpected token \"}\"",
            place("/ws/tests/ATest.php", 4),
        ),
    ] {
        assert_eq!((error_reason(output).as_deref(), error_location(output)), (Some(why), at), "{output}");
    }
    assert_eq!(
        other_failure("Tests: 1, Assertions: 0, Risky: 1.\n").as_deref(),
        Some("PHPUnit counted Tests: 1, Assertions: 0, Risky: 1.")
    );
    assert_eq!(other_failure("Tests: 1, Assertions: 1, Failures: 1.\n"), None);
}

//! `proctor flaky TEST`: the condition that makes a test fail is found and named, and nothing more is said than what was
//! counted.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy treats as ordinary code")]

use proctor_tests::call_counter::COUNTER;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::Value;

fn workspace(tests: &str) -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_shop.py", tests);
    workspace
}

/// The same with unittest, which is loaded in less than half of the time, and executes the tests in the order of their names.
fn unittest_workspace(head: &str, tests: &[(&str, &str)]) -> TestWorkspace {
    let methods: String =
        tests.iter().map(|(name, body)| format!("    def {name}(self):\n        {body}\n\n")).collect();
    let workspace = TestWorkspace::empty();
    workspace.write("test_shop.py", &format!("import unittest\n\n{head}\n\nclass Test(unittest.TestCase):\n{methods}"));
    workspace
}

/// What `proctor flaky` found.
struct Hunt {
    status: i32,
    document: Value,
}

impl Hunt {
    fn new(workspace: &TestWorkspace, test: &str, repeat: &str) -> Hunt {
        let output = workspace.proctor(&["flaky", test, "--repeat", repeat, "--output", "json"]);
        Hunt { status: output.status, document: output.json() }
    }

    /// The names of the stages, and the executions and failures of each.
    fn stages(&self) -> Vec<(&str, u64, u64)> {
        let number = |stage: &Value, key: &str| stage[key].as_u64().unwrap();
        let all = self.document["stages"].as_array().unwrap().iter();
        all.map(|stage| (stage["name"].as_str().unwrap(), number(stage, "executions"), number(stage, "failures")))
            .collect()
    }

    fn conclusion(&self) -> &str {
        self.document["conclusion"].as_str().unwrap()
    }

    fn assert_concludes(&self, conclusion: &str) {
        assert_eq!(self.conclusion(), conclusion, "{:#}", self.document);
    }
}

#[test]
fn halves_the_tests_before_a_failure_until_the_culprit_is_left() {
    let tests = [
        ("test_a", "pass"),
        ("test_b_polluter", "state['x'] = 1"),
        ("test_c", "pass"),
        ("test_d", "pass"),
        ("test_victim", "assert not state"),
    ];
    let workspace = unittest_workspace("state = {}", &tests);
    let hunt = Hunt::new(&workspace, "Test.test_victim", "5");
    assert_eq!(hunt.status, 1);
    let halves = "of the tests before it (test_shop.py/Test.test_";
    assert_eq!(
        hunt.stages(),
        [
            ("alone", 5, 0),
            ("among all tests", 5, 5),
            (format!("after 4 {halves}a to test_shop.py/Test.test_d)").as_str(), 5, 5),
            (format!("after 2 {halves}c to test_shop.py/Test.test_d)").as_str(), 4, 0),
            (format!("after 2 {halves}a to test_shop.py/Test.test_b_polluter)").as_str(), 4, 4),
            (format!("after 1 {halves}b_polluter)").as_str(), 4, 4),
            ("after test_shop.py/Test.test_b_polluter", 5, 5),
        ]
    );
    hunt.assert_concludes(
        "it fails only when test_shop.py/Test.test_b_polluter ran before it: 5 of 5 executions then, 0 of 5 alone",
    );
}

#[test]
fn names_the_smallest_group_if_one_test_is_not_enough() {
    let tests = [
        ("test_a", "state.add(1)"),
        ("test_b", "pass"),
        ("test_c", "state.add(2)"),
        ("test_d", "pass"),
        ("test_victim", "assert state != {1, 2}"),
    ];
    let workspace = unittest_workspace("state = set()", &tests);
    let hunt = Hunt::new(&workspace, "Test.test_victim", "5");
    hunt.assert_concludes(
        "it fails only when the same 4 tests ran before it (from test_shop.py/Test.test_a to test_shop.py/Test.test_d), and \
         no half of them was enough: 5 of 5 executions then, 0 of 5 alone",
    );
}

#[test]
fn executes_the_order_of_an_earlier_run_in_which_it_failed() {
    let workspace = workspace(
        "state = {}\n\ndef test_victim():\n    assert not state\n\ndef test_sound():\n    pass\n\n\
         def test_polluter():\n    state['x'] = 1\n",
    );
    workspace.write(
        "conftest.py",
        "import os\n\ndef pytest_collection_modifyitems(items):\n    \
         items.sort(key=lambda item: item.name, reverse='BACKWARDS' in os.environ)\n",
    );
    // In the order of their names the polluter is first; without it, the victim is.
    workspace.write(
        "test_shop.py",
        &std::fs::read_to_string(workspace.path.join("test_shop.py"))
            .unwrap()
            .replace("test_polluter", "test_wet_paint"),
    );
    let failed = workspace.proctor(&["run", "--env", "BACKWARDS=1", "--output", "json"]);
    assert_eq!(failed.status, 1, "{failed:?}");
    let hunt = Hunt::new(&workspace, "test_victim", "5");
    let stages = hunt.stages();
    assert_eq!(stages[..2], [("alone", 5, 0), ("among all tests", 5, 0)]);
    assert!(stages[2].0.starts_with("after the 1 test(s) before it in run ") && stages[2].2 == 5, "{stages:?}");
    hunt.assert_concludes(
        "it fails only when test_shop.py/test_wet_paint ran before it: 5 of 5 executions then, 0 of 5 alone",
    );
}

#[test]
fn finds_a_culprit_that_only_another_order_shows() {
    let tests =
        [("test_a_victim", "assert not state"), ("test_b_sound", "pass"), ("test_c_polluter", "state['x'] = 1")];
    let functions = tests.map(|(name, body)| format!("def {name}():\n    {body}\n\n")).concat();
    let of_pytest = workspace(&format!("state = {{}}\n\n{functions}"));
    for (workspace, class) in [(of_pytest, ""), (unittest_workspace("state = {}", &tests), "Test.")] {
        let hunt = Hunt::new(&workspace, &format!("{class}test_a_victim"), "5");
        assert_eq!(
            hunt.stages()[..3],
            [("alone", 5, 0), ("among all tests", 5, 0), ("among all tests in the reverse order", 5, 5)],
            "{:#}",
            hunt.document
        );
        hunt.assert_concludes(&format!(
            "it fails only when test_shop.py/{class}test_c_polluter ran before it: 5 of 5 executions then, 0 of 5 alone"
        ));
    }
}

#[test]
fn a_random_order_of_go_has_a_seed_that_fails_each_time() {
    let workspace = TestWorkspace::empty();
    workspace.write("go.mod", "module example.com/shop\n\ngo 1.20\n");
    workspace.write(
        "shop_test.go",
        "package shop\n\nimport \"testing\"\n\nvar dirty bool\n\nfunc TestVictim(t *testing.T) {\n\tif dirty {\n\t\tt.Fatal(\"dirty\")\n\t}\n}\n\n\
         func TestPolluter(t *testing.T) { dirty = true }\n",
    );
    let hunt = Hunt::new(&workspace, "TestVictim", "12");
    let stages = hunt.stages();
    assert_eq!(stages[..2], [("alone", 12, 0), ("among all tests", 12, 0)]);
    let (name, executions, failures) = stages[2];
    assert_eq!((name, executions), ("among all tests in random orders", 12));
    // 12 fair coins are all heads once in 4,096.
    assert!(failures > 0, "{:#}", hunt.document);
    let why = hunt.document["not_executed"][0].as_str().unwrap();
    assert_eq!(why, "among all tests in the reverse order: go cannot be told this order");
}

#[test]
fn finds_that_the_hash_seed_decides() {
    // The hash of a text is odd or even by the seed of the process: with the seed 0 it fails each time, or never.
    let workspace = unittest_workspace("", &[("test_hash", "assert hash('a') % 2")]);
    let hunt = Hunt::new(&workspace, "Test.test_hash", "40");
    let (name, executions, failures) = hunt.stages()[1];
    assert_eq!((name, executions), ("alone with PYTHONHASHSEED=0", 40));
    assert!([0, 40].contains(&failures), "{:#}", hunt.document);
    let sentence = "the hash seed of Python decides: with PYTHONHASHSEED=0 it failed ";
    assert!(hunt.conclusion().contains(sentence), "{:#}", hunt.document);
}

#[test]
fn finds_that_cpu_pressure_decides() {
    // A run without processor time for most of each period stops for 80 ms at a time, some twenty times here. On a busy
    // host it stops less often, since others take the time that the limit would have refused: a few stops are a failure,
    // and it need not fail each time.
    let workspace = workspace(
        "import time\n\ndef test_race():\n    \
         end, last, stops = time.process_time() + 0.4, time.perf_counter(), 0\n    \
         while time.process_time() < end:\n        \
         now = time.perf_counter()\n        stops += now - last > 0.06\n        last = now\n    \
         assert stops < 4\n",
    );
    let hunt = Hunt::new(&workspace, "test_race", "5");
    let (name, executions, failures) = *hunt.stages().last().unwrap();
    assert!(name == "alone under cpu pressure" && executions == 5 && failures > 0, "{:#}", hunt.document);
    let counts = format!("{failures} of 5 executions with 0.2 processors, 0 of 5 without that limit");
    let too_few = format!("it failed under cpu pressure ({counts}): too few executions to say that this is the cause");
    hunt.assert_concludes(&if failures == 5 { format!("it fails only under cpu pressure: {counts}") } else { too_few });
}

#[test]
fn a_test_that_is_flaky_alone_needs_no_other_one() {
    let workspace = unittest_workspace(COUNTER, &[("test_alternates", "assert calls('alternates') % 2")]);
    let hunt = Hunt::new(&workspace, "Test.test_alternates", "6");
    assert_eq!(hunt.status, 1);
    assert_eq!(
        hunt.stages(),
        [("alone", 6, 3), ("alone with PYTHONHASHSEED=0", 6, 3), ("alone under cpu pressure", 6, 3)]
    );
    hunt.assert_concludes("it is flaky by itself: no other test is needed for a failure");
    let unknown = workspace.proctor(&["flaky", "test_of_nobody", "--repeat", "2"]);
    assert!(unknown.status == 2 && unknown.stderr.contains("no test is named"), "{unknown:?}");
}

#[test]
fn a_search_that_could_not_run_the_tests_is_no_success() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_shop.py", "def test_sound():\n    pass\n");
    workspace.write("test_broken.py", "import no_such_module\n");
    let run = workspace.proctor(&["flaky", "test_sound", "--repeat", "2"]);
    assert_eq!(run.status, 3, "{run:?}");
    assert!(run.stdout.contains("nothing follows: the tests did not run to their end"), "{run:?}");
}

#[test]
fn a_test_that_sometimes_ends_its_runner_is_flaky() {
    let workspace = workspace(&format!(
        "{COUNTER}import os\n\ndef test_crash():\n    if calls('crash') in {{2}}:\n        os.abort()\n\ndef test_sound():\n    pass\n"
    ));
    let run = workspace.proctor(&["flaky", "test_crash", "--repeat", "4"]);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.stdout.starts_with("alone: failed 1 of 4 executions"), "{run:?}");
}

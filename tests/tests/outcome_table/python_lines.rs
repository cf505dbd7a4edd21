//! The lines that each test of Python executes: pytest, pytest-xdist and unittest, with a Python that reports lines (3.12 or newer), and
//! with the one of the other tests. The latter has a tracer where it is older, as Python 3.11 of Debian 12 is.

use crate::covering_tests::{Expected, check_covering};
use proctor_core::coverage::{Attribution, CoverageIndex};
use proctor_tests::process::{ProcessOutput, command, ensure_installed, search_path_with_lines, tools, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, copy, tree, write_before_run};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

const PRICE: &str = "tests/test_price.py";
const STOCK: &str = "tests/test_stock.py";
const ALL_OF_PRICE: &[&str] = &[
    "TestRates::test_converted",
    "TestRates::test_twice",
    "test_process",
    "test_rounded[149]",
    "test_rounded[150]",
    "test_tax",
];
const ALL_OF_STOCK: &[&str] = &["test_has", "test_has_not", "test_without_stock"];

const PYTEST: &[Expected<'_>] = &[
    ("shop/price.py:5", &[(PRICE, &["test_tax"])]),
    ("shop/price.py:9", &[(PRICE, &["test_rounded[149]", "test_rounded[150]"])]),
    ("shop/price.py:10", &[(PRICE, &["test_rounded[150]"])]),
    ("shop/price.py:11", &[(PRICE, &["test_rounded[149]"])]),
    ("shop/price.py:25", &[]),
    // The line of a function that has only one, which is also executed when the module is loaded.
    ("shop/price.py:20", &[(PRICE, ALL_OF_PRICE), (STOCK, ALL_OF_STOCK)]),
    ("shop/rates.py:5", &[(PRICE, &["TestRates::test_converted"])]),
    // A test imported the module: any other may need it from now on.
    ("shop/rates.py:1", &[(PRICE, ALL_OF_PRICE), (STOCK, ALL_OF_STOCK)]),
    // A fixture of the session, with its teardown.
    ("shop/stock.py:3", &[(STOCK, &["test_has", "test_has_not"])]),
    ("shop/stock.py:6", &[(STOCK, &["test_has", "test_has_not"])]),
    ("tests/conftest.py:9", &[(STOCK, &["test_has", "test_has_not"])]),
    ("tests/conftest.py:1", &[(PRICE, ALL_OF_PRICE), (STOCK, ALL_OF_STOCK)]),
    // A test file's own lines.
    ("tests/test_price.py:9", &[(PRICE, &["test_tax"])]),
    ("tests/test_price.py:8", &[(PRICE, ALL_OF_PRICE)]),
    ("tests/test_stock.py:1", &[(STOCK, ALL_OF_STOCK)]),
];

const UNITTEST: &[Expected<'_>] = &[
    ("price.py:5", &[("test_price.py", &["TestPrice.test_parts", "TestPrice.test_tax"])]),
    (
        "price.py:9",
        &[
            ("test_price.py", &["TestPrice.test_parts", "TestPrice.test_rate", "TestPrice.test_tax"]),
            ("test_stock.py", &["TestStock.test_has", "TestStock.test_has_not"]),
        ],
    ),
    ("price.py:13", &[]),
    ("test_stock.py:12", &[("test_stock.py", &["TestStock.test_has"])]),
    ("test_stock.py:7", &[("test_stock.py", &["TestStock.test_has", "TestStock.test_has_not"])]),
];

/// A command with a Python on PATH that reports lines.
pub(crate) fn proctor(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    wait_for_exit(workspace.command("proctor").args(arguments).env("PATH", search_path_with_lines()).spawn().unwrap())
}

/// The same with the Python of the other tests on PATH.
fn proctor_with_default_python(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    wait_for_exit(workspace.command("proctor").args(arguments).spawn().unwrap())
}

fn check(workspace: &TestWorkspace, table: &[Expected<'_>]) {
    check_covering(table, |place| proctor(workspace, &["covering", place]));
}

fn coverage(output: &ProcessOutput) -> Value {
    let report = output.json();
    assert_eq!((output.status, &report["outcome"]), (0, &json!("passed")), "{output:?}");
    report["coverage"].clone()
}

#[test]
fn measures_each_test_of_pytest() {
    let workspace = TestWorkspace::with_fixture("pytest/lines");
    let coverage = coverage(&proctor(&workspace, &["run", "--output", "json"]));
    let notes = "1 test(s) started processes, of which no line is measured: test_process of tests/test_price.py";
    assert_eq!((&coverage["measured"], &coverage["notes"]), (&json!(true), &json!([notes])));
    check(&workspace, PYTEST);
}

#[test]
fn measures_each_test_of_pytest_with_the_default_python() {
    let workspace = TestWorkspace::with_fixture("pytest/lines");
    let coverage = coverage(&proctor_with_default_python(&workspace, &["run", "--coverage", "on", "--output", "json"]));
    let notes = "1 test(s) started processes, of which no line is measured: test_process of tests/test_price.py";
    assert_eq!((&coverage["measured"], &coverage["notes"]), (&json!(true), &json!([notes])));
    check(&workspace, PYTEST);
}

#[test]
fn measures_each_test_of_unittest_with_the_default_python() {
    let workspace = TestWorkspace::with_fixture("unittest/lines");
    let coverage = coverage(&proctor_with_default_python(&workspace, &["run", "--coverage", "on", "--output", "json"]));
    assert_eq!((&coverage["measured"], &coverage["notes"]), (&json!(true), &json!([])));
    check(&workspace, UNITTEST);
}

/// A module of so much code that it takes a while to be read, and a test that ends its execution by a signal meanwhile.
const INTERRUPTED: &str = "import signal\nimport time\n\nimport pytest\n\n\nclass Late(Exception):\n    pass\n\n\n\
                           def be_late(*_):\n    raise Late\n\n\ndef test_late(tmp_path):\n    \
                           text = ''.join(f'def f{i}(a):\\n    return a + {i}\\n' for i in range(8000))\n    \
                           code = compile(text, __file__, 'exec')\n    signal.signal(signal.SIGALRM, be_late)\n    \
                           signal.setitimer(signal.ITIMER_REAL, 0.05)\n    with pytest.raises(Late):\n        \
                           exec(code, {})\n        time.sleep(5)\n";

#[test]
fn what_a_handler_of_a_signal_raises_while_code_is_read_reaches_the_test() {
    let workspace = TestWorkspace::empty();
    write_before_run(&workspace.path, "requirements.txt", "pytest\n");
    write_before_run(&workspace.path, "test_late.py", INTERRUPTED);
    let ran = proctor(&workspace, &["run", "--output", "json"]);
    assert_eq!((ran.status, &coverage(&ran)["measured"]), (0, &json!(true)), "{ran:?}");
}

/// A module with a function for each test of [`TESTS_WITH_TRACERS`].
const TRACED: &str = "def one():\n    return 1\n\n\ndef two():\n    return 2\n\n\ndef three():\n    return 3\n\n\n\
                      def four():\n    return 4\n";

/// Tests of which the second has a tracer of its own for a while, the third removes one that is not there, as doctest does, and the
/// fourth has another thread.
const TESTS_WITH_TRACERS: &str = "import sys\nimport threading\nimport traced\n\n\ndef test_one():\n    assert traced.one() == 1\n\n\n\
                                  def test_two():\n    seen = []\n    before = sys.gettrace()\n    \
                                  sys.settrace(lambda frame, event, value: seen.append(frame.f_code.co_name))\n    \
                                  traced.two()\n    sys.settrace(before)\n    assert before is None and seen == ['two']\n\n\n\
                                  def test_three():\n    sys.settrace(sys.gettrace())\n    assert traced.three() == 3\n\n\n\
                                  def test_four():\n    thread = threading.Thread(target=traced.four)\n    thread.start()\n    \
                                  thread.join()\n";

/// Whether the default Python has `sys.monitoring`, beside which a project can have a tracer.
fn default_python_has_room_for_tracers() -> bool {
    let has_monitoring = ["-c", "import sys; sys.exit(not hasattr(sys, 'monitoring'))"];
    let python = tools().join("pytest/bin/python");
    ensure_installed("pytest");
    wait_for_exit(command(&python).args(has_monitoring).spawn().unwrap()).status == 0
}

#[test]
fn a_test_with_a_tracer_of_its_own_keeps_it_and_has_no_lines_of_an_older_python() {
    let workspace = TestWorkspace::empty();
    write_before_run(&workspace.path, "requirements.txt", "pytest\n");
    write_before_run(&workspace.path, "traced.py", TRACED);
    write_before_run(&workspace.path, "test_traced.py", TESTS_WITH_TRACERS);
    let coverage = coverage(&proctor_with_default_python(&workspace, &["run", "--coverage", "on", "--output", "json"]));
    let note =
        "the lines of 1 test(s) are left out, as a tracer of the project was in force: test_two of test_traced.py";
    let has_room = default_python_has_room_for_tracers();
    assert_eq!(coverage["notes"], if has_room { json!([]) } else { json!([note]) });
    let with_tracer: &[(&str, &[&str])] = if has_room { &[("test_traced.py", &["test_two"])] } else { &[] };
    check(
        &workspace,
        &[
            ("traced.py:2", &[("test_traced.py", &["test_one"])]),
            ("traced.py:6", with_tracer),
            ("traced.py:10", &[("test_traced.py", &["test_three"])]),
            ("traced.py:14", &[("test_traced.py", &["test_four"])]),
        ],
    );
}

#[test]
fn a_tracer_of_the_project_from_the_start_on_leaves_an_older_python_unmeasured() {
    let workspace = TestWorkspace::empty();
    write_before_run(&workspace.path, "requirements.txt", "pytest\n");
    write_before_run(&workspace.path, "traced.py", TRACED);
    let settings = "import sys\n\nnames = []\n\n\ndef trace(frame, event, value):\n    names.append(frame.f_code.co_name)\n\n\n\
                    sys.settrace(trace)\n\n\ndef pytest_unconfigure():\n    sys.settrace(None)\n";
    write_before_run(&workspace.path, "conftest.py", settings);
    let test = "import conftest\nimport sys\nimport traced\n\n\ndef test_one():\n    assert traced.one() == 1\n    \
                assert conftest.names[-1] == 'one' and sys.gettrace() is conftest.trace\n";
    write_before_run(&workspace.path, "test_traced.py", test);
    let coverage = coverage(&proctor_with_default_python(&workspace, &["run", "--coverage", "on", "--output", "json"]));
    let notes: Vec<&str> = coverage["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    if default_python_has_room_for_tracers() {
        assert_eq!((&coverage["measured"], notes.len()), (&json!(true), 0), "{coverage}");
    } else {
        let begins = "lines are not measured test by test: a coverage measurement or debugger of the project's own has the one tracer";
        assert!(notes.iter().any(|note| note.starts_with(begins)), "{notes:?}");
    }
}

#[test]
fn measures_each_test_in_the_workers_of_pytest_xdist() {
    let workspace = TestWorkspace::with_fixture("pytest/lines");
    // Each file in one worker, so that files share no process or share one.
    let settings = "[tool.pytest.ini_options]\npythonpath = [\".\"]\naddopts = \"--dist loadfile\"\n";
    std::fs::write(workspace.path.join("pyproject.toml"), settings).unwrap();
    coverage(&proctor(&workspace, &["run", "--parallel", "2", "--output", "json"]));
    let lines_of_tests: Vec<Expected<'_>> =
        PYTEST.iter().filter(|(place, _)| !place.ends_with("rates.py:1")).copied().collect();
    check(&workspace, &lines_of_tests);
}

#[test]
fn a_test_that_imports_multiprocessing_first_starts_no_process() {
    let workspace = TestWorkspace::empty();
    let test = "def test_import():\n    import multiprocessing.process\n\n\ndef test_start():\n    \
                import multiprocessing\n    multiprocessing.Process(target=print).start()\n";
    std::fs::write(workspace.path.join("test_first.py"), test).unwrap();
    let coverage = coverage(&proctor(&workspace, &["run", "--framework", "pytest", "--output", "json"]));
    let note = "1 test(s) started processes, of which no line is measured: test_start of test_first.py";
    assert_eq!(coverage["notes"], json!([note]));
}

#[test]
fn a_rerun_replaces_the_lines_of_its_tests() {
    let workspace = TestWorkspace::with_fixture("pytest/lines");
    coverage(&proctor(&workspace, &["run", "--output", "json"]));
    let file = workspace.path.join("shop/price.py");
    let changed = std::fs::read_to_string(&file).unwrap().replace("if cents % 100 >= 50", "if cents % 100 > 40");
    std::fs::write(file, changed).unwrap();
    let output = proctor(&workspace, &["run", "--output", "json", "--test", "tests/test_price.py::test_rounded[149]"]);
    assert_eq!(output.status, 1, "{output:?}");
    check(
        &workspace,
        &[
            ("shop/price.py:10", &[(PRICE, &["test_rounded[149]", "test_rounded[150]"])]),
            ("shop/price.py:11", &[]),
            ("shop/price.py:5", &[(PRICE, &["test_tax"])]),
        ],
    );
}

#[test]
fn measures_each_test_of_unittest() {
    let workspace = TestWorkspace::with_fixture("unittest/lines");
    let coverage = coverage(&proctor(&workspace, &["run", "--output", "json"]));
    assert_eq!((&coverage["measured"], &coverage["notes"]), (&json!(true), &json!([])));
    check(&workspace, UNITTEST);
}

#[test]
fn leaves_the_report_of_the_projects_own_measurement_as_it_is() {
    let report = |coverage: &str| {
        let workspace = TestWorkspace::with_fixture("pytest/lines");
        let settings = "[tool.pytest.ini_options]\npythonpath = [\".\"]\n\
                        addopts = \"--cov=shop --cov=tests --cov-branch --cov-report=json:lines.json --cov-report=term-missing\"\n\
                        [tool.coverage.json]\nshow_contexts = true\n";
        std::fs::write(workspace.path.join("pyproject.toml"), settings).unwrap();
        let output = proctor(&workspace, &["run", "--coverage", coverage, "--output", "json"]);
        let lines = std::fs::read_to_string(workspace.path.join("lines.json")).unwrap();
        let (before, rest) = lines.split_once("\"timestamp\":").unwrap();
        let printed = output.json()["stdout_tail"].as_str().unwrap().to_owned();
        let (_, table) = printed.split_once("tests coverage").unwrap();
        let table: String = table.lines().take_while(|line| !line.contains(" passed")).collect();
        (format!("{before}{}", rest.split_once(',').unwrap().1), table, output.json()["coverage"]["measured"] == true)
    };
    let (with, without) = (report("auto"), report("off"));
    assert_eq!((with.2, without.2), (true, false));
    assert_eq!((with.0, with.1), (without.0, without.1));
}

/// The lines of every test of a third-party suite must be those that coverage.py's contexts have, in the same run.
#[test]
fn each_test_of_toolz_has_the_lines_of_coverages_contexts() {
    let workspace = TestWorkspace::empty();
    ensure_installed("pyprojects");
    copy(&tools().join("pyprojects/toolz-1.2.0"), &workspace.path);
    let settings = "[pytest]\naddopts = --cov=toolz --cov-context=test --cov-report=json:lines.json\n";
    std::fs::write(workspace.path.join("pytest.ini"), settings).unwrap();
    // Python's own events have no contexts in coverage.py.
    std::fs::write(workspace.path.join(".coveragerc"), "[run]\ncore = ctrace\n[json]\nshow_contexts = true\n").unwrap();
    coverage(&proctor(&workspace, &["run", "--output", "json"]));
    let entries = std::fs::read_dir(workspace.root().join("state/proctor")).unwrap();
    let mut stored = entries.map(|entry| entry.unwrap().path().join("memory.json"));
    let memory = std::fs::read(stored.find(|file| file.exists()).unwrap()).unwrap();
    let memory: Value = serde_json::from_slice(&memory).unwrap();
    let index: CoverageIndex = serde_json::from_value(memory["coverage"].clone()).unwrap();
    let report = std::fs::read(workspace.path.join("lines.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let mut pairs = 0;
    for (file, lines) in report["files"].as_object().unwrap() {
        for (line, contexts) in lines["contexts"].as_object().unwrap() {
            // `toolz/tests/test_x.py::test_y|run`; the empty context is outside of any test.
            let contexts = contexts.as_array().unwrap().iter().filter_map(Value::as_str);
            let expected: BTreeSet<&str> = contexts.filter_map(|context| Some(context.rsplit_once('|')?.0)).collect();
            let covering = index.covering(file, Some(line.parse().unwrap()));
            let found: BTreeSet<String> =
                covering.tests.iter().map(|test| format!("{}::{}", test.package, test.name)).collect();
            let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
            match covering.attribution {
                Some(Attribution::Test) => assert_eq!(found, expected, "{file}:{line}"),
                // Shared by tests of which coverage.py does not know that they need the line.
                _ => assert!(found.is_superset(&expected), "{file}:{line}: {expected:?} and not {found:?}"),
            }
            pairs += expected.len();
        }
    }
    assert!(pairs > 2_000, "{pairs} pairs of test and line");
}

#[test]
fn the_extension_module_stores_the_lines_and_the_tool_id_is_given_back() {
    let workspace = TestWorkspace::with_fixture("pytest/lines");
    let test = "import sys\n\nimport proctor_coverage\n\n\ndef test_lines():\n    \
                assert type(proctor_coverage.current._lines).__name__ == 'StoredLines'\n    \
                assert sys.monitoring.get_tool(sys.monitoring.COVERAGE_ID) is None\n";
    std::fs::write(workspace.path.join("tests/test_lines.py"), test).unwrap();
    let ended = "import sys\n\n\ndef pytest_unconfigure():\n    \
                 print('tools:', [sys.monitoring.get_tool(tool) for tool in range(6)])\n";
    std::fs::write(workspace.path.join("conftest.py"), ended).unwrap();
    let output = proctor(&workspace, &["run", "--output", "json"]);
    coverage(&output);
    let printed = output.json()["stdout_tail"].as_str().unwrap().to_owned();
    assert!(printed.contains("tools: [None, None, None, None, None, None]"), "{printed}");
}

const CACHED: &str = "kept = []\n\n\ndef rates():\n    if not kept:\n        kept.append(read())\n    return kept[0]\n\n\ndef read():\n    \
                      return [2]\n\n\ndef total(a):\n    return rates()[0] * a\n\n\ndef tax(a):\n    return a\n";

/// Tests of which the first fills a cache, one that needs none, and one of which a file says how often it ran.
const TESTS_OF_CACHED: &str = "import cached\nimport pytest\n\n\n\
                               @pytest.mark.parametrize('a', range(8))\ndef test_total(a, capsys):\n    \
                               with capsys.disabled():\n        print('total of', a)\n    assert cached.total(a) == 2 * a\n\n\n\
                               def test_tax():\n    print('tax of', 1)\n    assert cached.tax(1) == 1\n\n\n\
                               def test_log():\n    with open('log.txt', 'a') as file:\n        file.write('ran\\n')\n";

/// A test that an earlier one enables.
const TEST_OF_ORDER: &str = "import cached\n\n\ndef test_first():\n    cached.read.first = True\n\n\n\
                             def test_second():\n    assert cached.read.first\n";

/// The names of the tests that the edits since the last run may affect, in order.
pub(crate) fn affected(workspace: &TestWorkspace) -> Vec<String> {
    let answer = proctor(workspace, &["affected", "--output", "json"]).json();
    let tests = answer["tests"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let mut names: Vec<String> = tests.iter().map(|test| test["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// The edit of [`CACHED`] that one test executes.
fn edit_of_tax() -> String {
    CACHED.replace("return a\n", "return 1 * a\n")
}

/// Runs all ten tests until each has also run alone, for which one may take too long on a busy machine.
#[track_caller]
fn run_until_all_ran_alone(workspace: &TestWorkspace, run: impl Fn()) {
    let all_ran_alone = || {
        run();
        write_before_run(&workspace.path, "cached.py", &edit_of_tax());
        let answer = proctor(workspace, &["affected", "--output", "json"]).json();
        write_before_run(&workspace.path, "cached.py", CACHED);
        answer["affected"]["safe_because"].as_str().is_some_and(|why| why.contains("10 test(s) also ran alone"))
    };
    assert!((0..20).any(|_| all_ran_alone()), "some test never ran alone");
}

/// Edits functions of [`CACHED`], and compares the tests that each affects. Returns all tests.
#[track_caller]
fn check_edits_of_cached(workspace: &TestWorkspace) -> Vec<String> {
    let totals: Vec<String> = (0..8).map(|a| format!("test_total[{a}]")).collect();
    let all = [&["test_log".to_owned(), "test_tax".to_owned()], &totals[..]].concat();
    for (old, new, expected) in [
        ("return a\n", "return 1 * a\n", vec!["test_tax".to_owned()]),
        ("return rates()[0] * a", "return a * rates()[0]", totals.clone()),
        ("return [2]", "return [2, 3]", totals),
    ] {
        write_before_run(&workspace.path, "cached.py", &CACHED.replace(old, new));
        assert_eq!(affected(workspace), expected, "{new}");
    }
    all
}

/// Settings with which each run measures the project's own coverage, and writes reports of it.
const WITH_PYTEST_COV: &str = "[tool.pytest.ini_options]\npythonpath = [\".\"]\naddopts = \"--cov=cached --cov-branch \
                               --cov-report=term-missing --cov-report=xml --cov-fail-under=50 OTHERS\"\n";

/// Prints all that coverage.py has kept, once everything else is done.
const PRINTS_COVERAGE: &str = "import coverage\n\n\ndef pytest_unconfigure():\n    data = coverage.CoverageData()\n    data.read()\n    \
                               for context in sorted(data.measured_contexts()):\n        data.set_query_context(context)\n        \
                               for file in sorted(data.measured_files()):\n            \
                               print('kept', context, file, sorted(data.arcs(file)))\n";

#[test]
fn an_edit_selects_the_tests_that_executed_the_function_in_a_project_with_pytest_cov() {
    for others in ["", "--cov-context=test"] {
        let workspace = TestWorkspace::empty();
        write_before_run(&workspace.path, "pyproject.toml", &WITH_PYTEST_COV.replace("OTHERS", others));
        write_before_run(&workspace.path, "conftest.py", PRINTS_COVERAGE);
        write_before_run(&workspace.path, "cached.py", CACHED);
        let tests = TESTS_OF_CACHED.replace("open('log.txt', 'a')", "__import__('tempfile').TemporaryFile('w')");
        write_before_run(&workspace.path, "test_cached.py", &tests);
        let measured = |coverage: &str| {
            let report = proctor(&workspace, &["run", "--coverage", coverage, "--output", "json"]).json();
            assert_eq!(
                (&report["outcome"], report["tests"].as_array().unwrap().len()),
                (&json!("passed"), 10),
                "{report}"
            );
            let lines = report["stdout_tail"].as_str().unwrap().lines();
            let printed: Vec<String> = lines.filter(|line| !line.contains(" passed in ")).map(str::to_owned).collect();
            assert!(printed.iter().any(|line| line.starts_with("kept ")), "{printed:?}");
            let xml = std::fs::read_to_string(workspace.path.join("coverage.xml")).unwrap();
            let (before, after) = xml.split_once("timestamp=\"").unwrap();
            let xml = format!("{before}{}", after.split_once('"').unwrap().1);
            let files: Vec<PathBuf> = tree(&workspace.path).into_keys().collect();
            (printed, xml, files)
        };
        let without = measured("off");
        run_until_all_ran_alone(&workspace, || assert_eq!(measured("auto"), without));
        check_edits_of_cached(&workspace);
        write_before_run(&workspace.path, "cached.py", &edit_of_tax());
        let report = proctor(&workspace, &["run", "--affected", "--output", "json"]).json();
        let why = report["affected"]["safe_because"].as_str().unwrap_or_else(|| panic!("{report}"));
        assert!(why.contains("10 test(s) also ran alone"), "{why}");
    }
}

/// Tests that write a file which the first of them opens, and one that waits for what an earlier one does.
const TESTS_OF_ORDER: &str = "import logging, queue\nimport pytest\n\nmade = queue.Queue()\n\n\n\
                              @pytest.mark.parametrize('a', range(8))\ndef test_log(a):\n    logging.info('%s', a)\n\n\n\
                              def test_put():\n    made.put(1)\n\n\ndef test_get():\n    made.get()\n";

#[test]
fn a_test_that_runs_alone_writes_nothing_and_is_not_waited_for() {
    let workspace = TestWorkspace::empty();
    write_before_run(&workspace.path, "requirements.txt", "pytest\n");
    let log = "import logging\n\nlog = logging.FileHandler('app.log', delay=True)\n\
               logging.basicConfig(handlers=[log], level=logging.INFO)\n";
    write_before_run(&workspace.path, "conftest.py", log);
    write_before_run(&workspace.path, "test_order.py", TESTS_OF_ORDER);
    let report = proctor(&workspace, &["run", "--output", "json"]).json();
    assert_eq!((&report["outcome"], report["tests"].as_array().unwrap().len()), (&json!("passed"), 10), "{report}");
    assert_eq!(std::fs::read_to_string(workspace.path.join("app.log")).unwrap().lines().count(), 8);
}

/// Tests of the price and of the tax for unittest, with subtests and a fixture of the class, and one that fills a cache for the next.
const FILES_OF_UNITTEST: [(&str, &str); 5] = [
    ("shop/__init__.py", ""),
    ("shop/price.py", "def total(a):\n    return 2 * a\n\n\ndef start():\n    return 1\n"),
    ("cached.py", CACHED),
    (
        "tests/test_price.py",
        "import unittest\nfrom shop import price\n\n\nclass Price(unittest.TestCase):\n    @classmethod\n    \
         def setUpClass(cls):\n        cls.start = price.start()\n\n    def test_total(self):\n        for a in (1, 2):\n            \
         with self.subTest(a=a):\n                self.assertEqual(price.total(a), 2 * a)\n\n    def test_start(self):\n        \
         self.assertEqual(self.start, 1)\n",
    ),
    (
        "tests/test_cached.py",
        "import unittest\nimport cached\n\n\nclass Cached(unittest.TestCase):\n    def test_one(self):\n        print('once', 1)\n        \
         self.assertEqual(cached.total(1), 2)\n\n    def test_two(self):\n        self.assertEqual(cached.total(2), 4)\n\n    \
         def test_tax(self):\n        self.assertEqual(cached.tax(1), 1)\n",
    ),
];

#[test]
fn an_edit_selects_the_tests_of_unittest_that_executed_the_function() {
    let workspace = TestWorkspace::empty();
    FILES_OF_UNITTEST.iter().for_each(|(file, text)| write_before_run(&workspace.path, file, text));
    write_before_run(&workspace.path, "tests/__init__.py", "");
    let report = proctor(&workspace, &["run", "--output", "json"]).json();
    assert_eq!((&report["outcome"], report["tests"].as_array().unwrap().len()), (&json!("passed"), 7), "{report}");
    assert_eq!(report["stdout_tail"].as_str().unwrap().matches("once 1").count(), 1, "{report}");
    let total = ["Price.test_total", "Price.test_total/(a=1)", "Price.test_total/(a=2)"];
    let all = [&["Cached.test_one", "Cached.test_tax", "Cached.test_two", "Price.test_start"], &total[..]].concat();
    for (file, old, new, expected) in [
        ("shop/price.py", "return 2 * a", "return a * 2", &total[..]),
        // A fixture of a class runs between the tests of two files, and belongs to these.
        ("shop/price.py", "return 1", "return 1 + 0", &all),
        ("cached.py", "return a\n", "return 1 * a\n", &["Cached.test_tax"]),
        ("cached.py", "return rates()[0] * a", "return a * rates()[0]", &["Cached.test_one", "Cached.test_two"]),
        // One test executes it for another, as is known of tests that ran alone.
        ("cached.py", "return [2]", "return [2, 3]", &["Cached.test_one", "Cached.test_two"]),
    ] {
        let (_, text) = FILES_OF_UNITTEST.iter().find(|(name, _)| *name == file).unwrap();
        write_before_run(&workspace.path, file, &text.replace(old, new));
        assert_eq!(affected(&workspace), expected, "{new}");
        write_before_run(&workspace.path, file, text);
    }
}

#[test]
fn an_edit_selects_the_tests_that_executed_the_function_or_needed_it_behind_a_cache() {
    let workspace = TestWorkspace::empty();
    write_before_run(&workspace.path, "requirements.txt", "pytest\n");
    write_before_run(&workspace.path, "cached.py", CACHED);
    write_before_run(&workspace.path, "test_cached.py", TESTS_OF_CACHED);
    write_before_run(&workspace.path, "log.txt", "");
    let report = proctor(&workspace, &["run", "--output", "json"]).json();
    // Tests that ran alone as well are in no report, print nothing and change nothing.
    assert_eq!((&report["outcome"], report["tests"].as_array().unwrap().len()), (&json!("passed"), 10), "{report}");
    let printed = report["stdout_tail"].as_str().unwrap();
    assert_eq!((printed.matches("total of").count(), printed.matches("tax of").count()), (8, 0), "{printed}");
    assert_eq!(std::fs::read_to_string(workspace.path.join("log.txt")).unwrap(), "ran\n");
    // The run has changed it.
    coverage(&proctor(&workspace, &["run", "--output", "json"]));
    std::fs::write(
        workspace.path.join("test_cached.py"),
        TESTS_OF_CACHED.replace("open('log.txt', 'a')", "__import__('tempfile').TemporaryFile('w')"),
    )
    .unwrap();
    write_before_run(&workspace.path, "log.txt", "");
    run_until_all_ran_alone(&workspace, || _ = coverage(&proctor(&workspace, &["run", "--output", "json"])));
    let all = check_edits_of_cached(&workspace);
    // A test that cannot run alone depends on others in a way that no line shows.
    write_before_run(&workspace.path, "cached.py", CACHED);
    write_before_run(&workspace.path, "test_order.py", TEST_OF_ORDER);
    coverage(&proctor(&workspace, &["run", "--output", "json"]));
    write_before_run(&workspace.path, "cached.py", &CACHED.replace("return a\n", "return 1 * a\n"));
    let all = [&["test_first".to_owned()], &all[..1], &["test_second".to_owned()], &all[1..]].concat();
    assert_eq!(affected(&workspace), all);
}

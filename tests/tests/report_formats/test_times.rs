//! Set-up and processor time of tests, from the runners that tell them, at the three entrances.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests, which clippy treats as ordinary code"
)]

use proctor_tests::mcp_client::Mcp;
use proctor_tests::supervisor_process::{SupervisorProcess, TENANTS, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree};
use serde_json::{Value, json};
use std::fs;

/// A test that waits in its set-up, and one that keeps a processor busy, each for 0.3 seconds.
const PYTEST: &str = "import time\n\nimport pytest\n\n\
    @pytest.fixture\ndef slow():\n    time.sleep(0.2)\n    yield\n    time.sleep(0.1)\n\n\
    def test_waits(slow):\n    pass\n\n\
    def test_works():\n    end = time.process_time() + 0.3\n    while time.process_time() < end:\n        pass\n";

const UNITTEST: &str = "import time\nimport unittest\n\n\
    class Waiting(unittest.TestCase):\n    \
    def setUp(self):\n        time.sleep(0.2)\n        self.addCleanup(time.sleep, 0.1)\n\n    \
    def test_waits(self):\n        pass\n\n\n\
    class Working(unittest.TestCase):\n    \
    def test_works(self):\n        end = time.process_time() + 0.3\n        while time.process_time() < end:\n            pass\n";

const MOCHA: &str = "describe('of mocha', () => {\n\
    beforeEach((done) => { const until = Date.now() + 50; while (Date.now() < until); done(); });\n\
    it('test_waits', (done) => { setTimeout(done, 300); });\n\
    it('test_works', () => {\n\
    const used = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e6; };\n\
    const end = used() + 0.3;\n\
    while (used() < end);\n\
    });\n});\n";

const PLAYWRIGHT: &str = "import { test } from '@playwright/test';\n\
    test.describe('waiting', () => {\n\
    test.beforeEach(() => new Promise((resolve) => { setTimeout(resolve, 300); }));\n\
    test('test_waits', () => {});\n});\n";

/// The report's test whose name ends so.
fn test_of<'a>(report: &'a Value, name: &str) -> &'a Value {
    let tests = report["tests"].as_array().unwrap();
    tests.iter().find(|test| test["name"].as_str().unwrap().ends_with(name)).unwrap_or_else(|| panic!("{report}"))
}

fn seconds(test: &Value, field: &str) -> f64 {
    test[field].as_f64().unwrap_or_else(|| panic!("no {field}: {test}"))
}

/// Set-up is most of the test that waits in it; the process works in one test, and does not in the other.
fn assert_times(report: &Value) {
    let (waits, works) = (test_of(report, "test_waits"), test_of(report, "test_works"));
    let (whole, setup) = (seconds(waits, "duration_s"), seconds(waits, "setup_s"));
    assert!(setup >= 0.3 && setup <= whole, "{waits}");
    assert!(seconds(works, "cpu_s") >= 0.3 && seconds(works, "duration_s") >= 0.3, "{works}");
    // What a test sleeps is no processor time, however busy the machine is.
    assert!(seconds(waits, "cpu_s") < 0.3, "{waits}");
}

fn run(workspace: &TestWorkspace, framework: &str) -> Value {
    let run = workspace.proctor(&["run", "--framework", framework, "--output", "json"]);
    assert_eq!(run.status, 0, "{run:?}");
    run.json()
}

#[test]
fn pytest_and_unittest_tell_set_up_from_the_test_and_how_long_it_worked() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_shop.py", PYTEST);
    let report = run(&workspace, "pytest");
    assert_times(&report);
    let waits = test_of(&report, "test_waits");
    let (call, setup, whole) =
        (waits["call"]["duration"].as_f64().unwrap(), seconds(waits, "setup_s"), seconds(waits, "duration_s"));
    assert!((call + setup - whole).abs() < 0.01, "the set-up is no part of the call: {report}");
    let plan = workspace.proctor(&["report", "--format", "optimization"]).stdout;
    assert!(plan.contains("Set-up and tear-down took ") && plan.contains(" s of 2 tests.\n"), "{plan}");
    assert!(plan.contains("their own process used "), "{plan}");
    let estimate = "With `proctor run --parallel 2`, which needs pytest-xdist, they would take about ";
    assert!(plan.contains(estimate) && plan.contains("This is an estimate from the times of this run"), "{plan}");
    let page = workspace.proctor(&["report", "--format", "html", "--out", "report.html"]);
    assert_eq!(page.status, 0, "{page:?}");
    let shown = crate::readers::chromium(&workspace.path.join("report.html"), "test_works");
    let slowest = shown["slowest"].as_array().unwrap();
    let parts = slowest.iter().filter(|text| text.as_str().unwrap().starts_with("set-up "));
    assert_eq!(parts.filter(|text| text.as_str().unwrap().contains(", processor ")).count(), 2, "{shown}");

    let workspace = TestWorkspace::empty();
    workspace.write("test_shop.py", UNITTEST);
    assert_times(&run(&workspace, "unittest"));
}

#[test]
fn mocha_tells_how_long_a_test_worked_and_playwright_how_long_its_hooks_took() {
    let workspace = TestWorkspace::with_fixture("mocha/pass");
    workspace.write("test/times.spec.js", MOCHA);
    let report = run(&workspace, "mocha");
    let (waits, works) = (test_of(&report, "test_waits"), test_of(&report, "test_works"));
    assert!(seconds(works, "cpu_s") >= 0.3 && seconds(waits, "cpu_s") < 0.3, "{waits} {works}");
    assert_eq!(waits.get("setup_s"), None, "Mocha's time of a test is without its hooks");

    let workspace = TestWorkspace::with_fixture("playwright/pass");
    workspace.write("e2e/times.spec.ts", PLAYWRIGHT);
    let report = run(&workspace, "playwright");
    let waits = test_of(&report, "test_waits");
    let (whole, setup) = (seconds(waits, "duration_s"), seconds(waits, "setup_s"));
    assert!(setup >= 0.3 && setup <= whole, "{waits}");
}

#[tokio::test]
async fn an_agent_and_a_service_get_the_same_times() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_shop.py", PYTEST);
    let mcp = Mcp::start(&workspace).await;
    mcp.call("run_tests", json!({})).await;
    let slowest = mcp.call("get_test_report", json!({"format": "slowest"})).await;
    let tests = json!({"tests": slowest.structured["slowest"]});
    let named = |name: &str| {
        let tests = tests["tests"].as_array().unwrap();
        tests.iter().find(|test| test["name"].as_str().unwrap().ends_with(name)).unwrap().clone()
    };
    assert!(seconds(&named("test_waits"), "setup_s") >= 0.3, "{slowest:?}");
    assert!(seconds(&named("test_works"), "cpu_s") >= 0.3, "{slowest:?}");
    let line = slowest.text.lines().find(|line| line.contains("::test_waits")).unwrap();
    assert!(line.contains(" (set-up 0.") && line.contains(" s, processor 0."), "{line}");
    mcp.close().await;

    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "shop");
    fs::write(workspace.join("requirements.txt"), "pytest\n").unwrap();
    fs::write(workspace.join("test_shop.py"), PYTEST).unwrap();
    chown_tree(&workspace, first_uid(TENANTS[0]));
    let session = client.open_session(&workspace).await;
    let run = client.run(&session).await;
    let test = |name: &str| run.report().tests.iter().find(|test| test.name == name).unwrap();
    assert!(test("test_waits").setup_s.is_some_and(|seconds| seconds >= 0.3), "{:?}", test("test_waits"));
    assert!(test("test_works").cpu_s.is_some_and(|seconds| seconds >= 0.3), "{:?}", test("test_works"));
}

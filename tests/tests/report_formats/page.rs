//! The HTML report in Chromium: with few and with 20,000 tests, with hostile texts, by keyboard, and without scripts.

use crate::readers;
use crate::stored_report::{HOSTILE, change, set_tests, test, workspace};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};

fn open(workspace: &TestWorkspace, words: &str) -> Value {
    let written = workspace.proctor(&["report", "--format", "html", "--out", "report.html"]);
    assert_eq!(written.status, 0, "{written:?}");
    readers::chromium(&workspace.path.join("report.html"), words)
}

#[test]
fn shows_failures_first_with_values_source_timeline_and_history() {
    let workspace = workspace();
    assert_eq!(workspace.proctor(&["run"]).status, 1, "a second run, for the history");
    change(&workspace, |report| {
        let failing = &mut report["tests"][0];
        (failing["expected"], failing["actual"]) = ("one\ntwo\nthree".into(), "one\n2\nthree".into());
    });
    let shown = open(&workspace, "test_b");
    assert_eq!((&shown["badge"], &shown["count"]), (&json!("failed"), &json!("1 of 2 entries")), "{shown}");
    assert_eq!(shown["first_rows"], json!(["test_a"]));
    assert_eq!(shown["source"], json!(["    assert total == 2"]));
    assert_eq!(shown["diff"], json!([["add", "two"], ["del", "2"]]));
    assert!(shown["detail"].as_str().unwrap().contains("test_shop.py:3"), "{shown}");
    assert_eq!((&shown["history"], &shown["timeline"]), (&json!(2), &json!(true)));
    assert_eq!((&shown["all"], &shown["found"]), (&json!("2 of 2 entries"), &json!(["test_b"])));
    assert_eq!((&shown["selected_before"], &shown["active_is_selected"]), (&json!("test_afailed"), &json!(true)));
    assert_eq!((&shown["selected_after"], &shown["last"]), (&json!("test_bpassed"), &json!("test_bpassed")));
    assert_eq!(shown["themes_differ"], true);
    let policy = shown["policy"].as_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    assert!(shown["plain"].as_str().unwrap().contains("test_a test_shop.py: "), "{shown}");
}

#[test]
fn shows_a_changed_source_as_such_and_never_one_behind_a_link() {
    let workspace = workspace();
    workspace.write("test_shop.py", "# one\n# two\n# three\n");
    let shown = open(&workspace, "test_b");
    assert_eq!(shown["source"], json!(["# three"]));
    assert!(shown["detail"].as_str().unwrap().contains("was changed since the run began"), "{shown}");
    std::fs::remove_file(workspace.path.join("test_shop.py")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", workspace.path.join("test_shop.py")).unwrap();
    assert_eq!(open(&workspace, "test_b")["source"], json!([]));
}

#[test]
fn shows_hostile_texts_as_text() {
    let workspace = workspace();
    change(&workspace, |report| {
        let mut hostile = test(HOSTILE, &format!("a {HOSTILE}"), "failed");
        for field in ["message", "expected", "stack", "output"] {
            hostile[field] = HOSTILE.into();
        }
        hostile["actual"] = "other".into();
        set_tests(report, vec![hostile, test("{{script}}", "b</script><img src=x onerror=alert(1)>", "passed")]);
        report["evidence"]["notes"] = json!([HOSTILE]);
        report["framework"] = HOSTILE.into();
    });
    let shown = open(&workspace, "onerror=alert");
    assert!(shown["title"].as_str().unwrap().starts_with("failed: 1 of 2 tests failed"), "{shown}");
    assert_eq!(shown["scripts"], 2, "the data and the page's own");
    let name = "a ]]></failure><b>&\\u{0}\\u{1b}[31mred\\u{202e}evil";
    assert!(shown["first_rows"][0].as_str().unwrap().starts_with(name), "{shown}");
    assert!(shown["notes"][0].as_str().unwrap().contains("</script><script>document.title"), "{shown}");
    assert_eq!(shown["found"], json!(["b</script><img src=x onerror=alert(1)>"]));
}

#[test]
fn holds_twenty_thousand_tests_with_a_screenful_of_elements() {
    let workspace = workspace();
    change(&workspace, |report| {
        let tests = (0..20_000).map(|number| {
            let outcome = if number < 300 { "failed" } else { "passed" };
            let mut test = test(&format!("package{}", number / 100), &format!("test number {number}."), outcome);
            test["finished_s"] = (f64::from(number) / 100.0).into();
            test
        });
        let tests = tests.collect();
        set_tests(report, tests);
    });
    let shown = open(&workspace, "number 12345.");
    assert_eq!((&shown["count"], &shown["all"]), (&json!("300 of 20,000 entries"), &json!("20,000 of 20,000 entries")));
    assert_eq!(shown["last"], "test number 19999.passed");
    assert_eq!(shown["found"], json!(["test number 12345."]));
    let (rows, nodes) = (shown["rows"].as_u64().unwrap(), shown["nodes"].as_u64().unwrap());
    assert!(rows < 60 && nodes < 1_000, "{rows} rows and {nodes} elements");
}

#[test]
fn draws_the_resources_that_a_run_used_over_its_time() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_shop.py", "import time\n\ndef test_waits():\n    time.sleep(3.5)\n");
    let run = workspace.proctor(&["run", "--output", "json"]);
    assert_eq!(run.status, 0, "{run:?}");
    let usage = run.json()["usage"].clone();
    let samples = usage.as_array().unwrap();
    assert!(samples.len() >= 3, "{usage}");
    assert!(samples.iter().all(|sample| sample["processes"].as_u64().unwrap() > 0), "{usage}");
    assert!(samples.iter().all(|sample| sample["memory_bytes"].as_u64().unwrap() > 0), "{usage}");
    assert!(samples.windows(2).all(|pair| pair[0]["cpu_ms"].as_u64() <= pair[1]["cpu_ms"].as_u64()), "{usage}");
    let shown = open(&workspace, "test_waits");
    let charts = shown["usage"].as_array().unwrap();
    assert_eq!(charts.len(), 3, "{shown}");
    for (chart, title) in charts.iter().zip(["Memory, at most ", "Processors, at most ", "Processes, at most "]) {
        assert!(chart[0].as_str().unwrap().starts_with(title) && chart[1] == true, "{chart}");
    }
}

//! The page in headless Chromium: two tenants and an operator, hostile names, a drain, a thousand sessions, and pages of
//! other origins.

use crate::floods::{Events, VIEWERS_PER_CALLER};
use crate::{
    HEADER_WORKSPACE, HOSTILE_TEST, HOSTILE_WORKSPACE, bearer, hostile_workspace, release, run_command, start,
};
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use proctor_tests::process::{command, ensure_installed, source_root, tools, wait_for_exit};
use proctor_tests::supervisor_process::{SupervisorSettings, token};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Once;

fn browse(scenario: &str, address: SocketAddr, name: &str, search: &str) -> Value {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ["pytest-playwright", "chromium"].into_iter().for_each(ensure_installed));
    let mut viewer = command(&tools().join("pytest-playwright/bin/python"));
    viewer.arg(source_root().join("tests/tests/page/viewer.py")).args([
        scenario,
        &format!("http://{address}"),
        &token(name),
    ]);
    viewer
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", std::env::temp_dir())
        .env("PROCTOR_SEARCH", search);
    if let Some(dir) = std::env::var_os("PROCTOR_SCREENSHOTS") {
        viewer.env("PROCTOR_SCREENSHOTS", std::path::Path::new(&dir).join(name));
    }
    let output = wait_for_exit(viewer.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(output.status, 0, "{output:?}");
    output.json()
}

fn cells(view: &Value, table: &str) -> Vec<Vec<String>> {
    serde_json::from_value(view[table].clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tenant_sees_only_its_own_and_hostile_names_are_text() {
    let (supervisor, address) = start(SupervisorSettings::default());
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let failing = hostile_workspace(&supervisor, "alpha", false);
    alpha.open_session(&supervisor.empty_workspace("alpha", HEADER_WORKSPACE)).await;
    let session = alpha.open_session(&failing).await;
    assert_eq!(alpha.run(&session).await.report().outcome(), v1::Outcome::Failed);
    let waiting = hostile_workspace(&supervisor, "beta", true);
    let bank = beta.open_session(&supervisor.empty_workspace("beta", "bank")).await;
    run_command(&beta, &bank, "true").await;
    let session = beta.open_session(&waiting).await;
    let mut running = beta.start(v1::RunTestsRequest { session_id: session, ..Default::default() }).await.unwrap();
    let is_hostile = |test: &v1::TestId| test.name.contains("svg");
    let shows_it = |event: &Event| match event {
        Event::Progress(progress) => progress.running.as_ref().is_some_and(is_hostile),
        _ => false,
    };
    running.wait_for_event("progress of the hostile test", shows_it).await;

    let view = browse("look", address, "alpha", "");
    assert!(view["identity"].as_str().unwrap().starts_with("alpha (tenant) · version "), "{view}");
    assert_eq!(
        (&view["connection"], &view["may_drain"], &view["tenants_shown"]),
        (&json!("live"), &json!(false), &json!(false))
    );
    let recent = cells(&view, "recent");
    assert_eq!(recent.len(), 1, "{view}");
    assert_eq!(recent[0][..3], ["✕failed", HOSTILE_WORKSPACE, "pytest"].map(str::to_owned), "{view}");
    assert_eq!((&view["running"], &view["queue"]), (&json!([]), &json!([])));
    let text = view["text"].as_str().unwrap();
    assert!(!text.contains("beta") && !text.contains("bank"), "{text}");
    assert!(text.contains("a\\r\\nX-Evil: 1\\r\\n\\r\\n<script>document.title='owned'<\\u{202e}"), "{text}");
    assert_eq!(
        (&view["cookies"], &view["cookie_in_script"]),
        (&json!([{ "httpOnly": true, "sameSite": "Strict", "path": "/" }]), &json!(""))
    );
    assert_eq!((&view["title"], &view["svgs"], &view["markup"]), (&json!("proctor"), &json!(0), &json!("TypeError")));
    let report = &view["report"];
    assert_eq!(
        (&report["origin"], &report["opener"], &report["fetch"]),
        (&json!("null"), &json!("null"), &json!("TypeError")),
        "{report}"
    );
    assert!(report["title"].as_str().unwrap().starts_with("failed: "), "{report}");
    assert!(report["text"].as_str().unwrap().contains(HOSTILE_TEST), "{report}");
    assert_eq!((&report["svgs"], &report["cookie"]), (&json!(0), &json!("SecurityError")), "{report}");

    let view = browse("look", address, "beta", "");
    let running_rows = cells(&view, "running");
    assert_eq!((running_rows.len(), &running_rows[0][0]), (1, &HOSTILE_WORKSPACE.to_owned()), "{view}");
    assert!(running_rows[0].last().unwrap().contains(HOSTILE_TEST), "{view}");
    assert!(view["progress"][0][2].as_str().unwrap().contains("1"), "{view}");
    assert!(view["tiles"].as_array().unwrap().contains(&json!(["Running", "1"])), "{view}");
    let recent = cells(&view, "recent");
    assert_eq!(recent[0][..5], ["✓passed", "bank", "custom", "–", "–"].map(str::to_owned), "{view}");

    let view = browse("look", address, "operator", "");
    assert!(view["may_drain"] == true && view["tenants_shown"] == true, "{view}");
    assert!(view["report"].is_null(), "reports are for tenants: {view}");
    let tenants: Vec<String> = cells(&view, "tenants").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(tenants, ["beta", "alpha"], "the one with a run comes first");
    assert_eq!((cells(&view, "sessions").len(), cells(&view, "recent").len()), (4, 2), "{view}");
    let meters: Vec<String> =
        view["meters"].as_array().unwrap().iter().map(|meter| meter[1].as_str().unwrap().to_owned()).collect();
    assert!(meters[1].contains(" of ") && meters[1].contains("GiB"), "{meters:?}");
    release(&waiting);
    running.read_to_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_drains_after_a_confirmation_and_sees_the_end() {
    let settings = SupervisorSettings { host: "drain = \"10s\"".to_owned(), ..SupervisorSettings::default() };
    let (mut supervisor, address) = start(settings);
    let client = supervisor.client("alpha").await;
    let paused = supervisor.paused_test("alpha", "paused");
    let session = client.open_session(&paused.workspace).await;
    let running = client.start(v1::RunTestsRequest { session_id: session, ..Default::default() }).await.unwrap();
    paused.wait_until_paused();
    let shown = browse("drain", address, "operator", "");
    assert_eq!(shown["focused"], "Keep it running", "{shown}");
    assert!(shown["dialog"].as_str().unwrap().contains("1 run active and 0 queued now."), "{shown}");
    assert_eq!(shown["kept"], json!([false, 0]), "{shown}");
    assert!(
        shown["notice"].as_str().unwrap().starts_with("The supervisor drains: it refuses new work, 1 run may finish"),
        "{shown}"
    );
    assert_eq!(shown["button"], json!(["Draining", true]), "{shown}");
    assert!(shown["after"][0].as_str().unwrap().contains("drained and has ended"), "{shown}");
    assert_eq!(supervisor.wait_for_exit().status, 0);
    drop(running);
    let audit = std::fs::read_to_string(supervisor.audit_log()).unwrap();
    assert!(audit.lines().any(|line| line.contains("operator_call") && line.contains("page/drain")), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_sessions_are_a_page_that_can_be_searched() {
    let (supervisor, address) = start(SupervisorSettings::default());
    let client = supervisor.client("alpha").await;
    let workspaces: Vec<_> =
        (0..20).map(|number| supervisor.empty_workspace("alpha", &format!("service-{number:02}"))).collect();
    for number in 0..993 {
        client.open_separate_session(&workspaces[number % 20]).await;
    }
    client.open_session(&supervisor.empty_workspace("alpha", "needle-in-1000")).await;
    for (number, script) in ["true", "exit 1", "true", "kill -SEGV $$", "true", "exit 2"].into_iter().enumerate() {
        let session = client.open_separate_session(&workspaces[number]).await;
        run_command(&client, &session, script).await;
    }
    let shown = browse("search", address, "operator", "NEEDLE");
    let first = &shown["first"];
    assert!(first["tiles"].as_array().unwrap().contains(&json!(["Sessions", "1,000"])), "{first}");
    assert_eq!(cells(first, "sessions").len(), 50, "{first}");
    assert!(first["nodes"].as_u64().unwrap() < 2_000, "{first}");
    assert_ne!(first["sessions"], shown["second"], "{shown}");
    assert_eq!(cells(&shown, "found")[0][1], "needle-in-1000", "{shown}");
    assert_eq!(
        (&shown["count"], &shown["none"]),
        (&json!("1 of 1,000 match"), &json!("No session matches.")),
        "{shown}"
    );
}

#[test]
fn a_refused_viewer_sees_why() {
    let (_supervisor, address) = start(SupervisorSettings::default());
    let streams: Vec<_> = (0..VIEWERS_PER_CALLER).map(|_| Events::open(address, &bearer("alpha"), "")).collect();
    assert!(streams.iter().all(|(status, _)| *status == 200));
    let shown = browse("refused", address, "alpha", "");
    assert_eq!(shown["connection"], "refused: too many viewers of this caller: close another page");
}

#[test]
fn a_page_of_another_origin_reads_and_changes_nothing() {
    let (supervisor, address) = start(SupervisorSettings::default());
    let results = browse("foreign", address, "operator", "");
    for (attack, expected) in [
        ("page", "TypeError"),
        ("events", "TypeError"),
        ("metrics", "TypeError"),
        ("opaque_drain", "TypeError"),
        ("source", "error"),
        ("script", "error"),
        ("frame", "closed"),
        ("drain_button", "Drain…"),
    ] {
        assert_eq!(results[attack], expected, "{attack}: {results}");
    }
    assert!(results["form"].as_str().unwrap().contains("another origin"), "{results}");
    assert!(!supervisor.log().contains("drains"), "{}", supervisor.log());
}

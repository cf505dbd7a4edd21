//! Running again exactly what failed, through gRPC and the command line.

use proctor_proto::reason;
use proctor_proto::v1::RunFailingTestsRequest;
use proctor_tests::expected::row;
use proctor_tests::place::Place;
use proctor_tests::row::Row;
use proctor_tests::supervisor::Supervisor;
use proctor_tests::wire::Client;
use std::collections::BTreeSet;
use tonic_types::StatusExt;

// Everything that failed, and of the rest only what Go cannot leave out: a subtest whose name is the beginning of that of a
// failed one, as `a/b` is of `a/b/c+`.
fn wanted(row: &Row) -> BTreeSet<&str> {
    let failed = |nodeid: &str| row.tests.iter().any(|case| case.is_failure() && case.nodeid == nodeid);
    let begins = |nodeid: &str| {
        let mut failures = row.tests.iter().filter(|case| case.is_failure());
        failures.any(|case| case.nodeid.strip_prefix(nodeid).is_some_and(|rest| rest.starts_with('/')))
    };
    row.tests.iter().map(|case| case.nodeid).filter(|nodeid| failed(nodeid) || begins(nodeid)).collect()
}

async fn rerun(client: &Client, session_id: &str) -> proctor_proto::v1::Report {
    let request = RunFailingTestsRequest { session_id: session_id.to_owned(), ..RunFailingTestsRequest::default() };
    let mut events = client.runs.clone().run_failing_tests(request).await.unwrap().into_inner();
    loop {
        let event = events.message().await.unwrap().unwrap();
        if let Some(proctor_proto::v1::run_event::Event::Finished(report)) = event.event {
            return report;
        }
    }
}

#[tokio::test]
async fn exactly_what_failed_runs_again_whatever_its_name() {
    let supervisor = Supervisor::start();
    let client = supervisor.client("beta").await;
    for name in ["fail", "table", "twomodules", "unicode", "shapes"] {
        let row = row(&format!("go/{name}"));
        let session = client.open(&supervisor.workspace("beta", name, row.fixture)).await;
        let first = client.run(&session).await;
        assert_eq!(first.report().exit_code, 1);
        let again = rerun(&client, &session).await;
        let ran: BTreeSet<&str> = again.tests.iter().map(|test| test.nodeid.as_str()).collect();
        assert_eq!(ran, wanted(row), "{name}");
    }
}

#[tokio::test]
async fn what_did_not_build_is_built_again_and_nothing_else() {
    let supervisor = Supervisor::start();
    let client = supervisor.client("alpha").await;
    let row = row("go/builderror");
    let workspace = supervisor.workspace("alpha", "shop", row.fixture);
    let session = client.open(&workspace).await;
    client.run(&session).await;
    let again = rerun(&client, &session).await;
    assert_eq!((again.collectors.len(), again.tests.len()), (1, 0), "{again:?}");
    std::fs::write(
        workspace.join("broken/broken.go"),
        "package broken\n\nfunc Count(names []string) int { return 0 }\n",
    )
    .unwrap();
    let mended = rerun(&client, &session).await;
    let ran: Vec<&str> = mended.tests.iter().map(|test| test.nodeid.as_str()).collect();
    assert_eq!(ran, ["example.com/builderror/broken/TestCount"]);
    let request = RunFailingTestsRequest { session_id: session.clone(), ..RunFailingTestsRequest::default() };
    let nothing = client.runs.clone().run_failing_tests(request).await.unwrap_err();
    let info = nothing.get_details_error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.metadata["framework"].as_str()), (reason::NOTHING_TO_RERUN, "go"));
}

#[test]
fn the_command_line_reruns_what_failed_in_the_process_before() {
    let place = Place::with("go/table");
    let nothing = place.proctor(&["run", "--failed"]);
    assert_eq!(nothing.status, 2, "{nothing:?}");
    assert_eq!(place.proctor(&["run"]).status, 1);
    let again = place.proctor(&["run", "--failed", "--output", "json"]);
    assert_eq!(again.status, 1);
    let report = again.json();
    let ran: BTreeSet<&str> =
        report["tests"].as_array().unwrap().iter().map(|test| test["nodeid"].as_str().unwrap()).collect();
    assert_eq!(ran, wanted(row("go/table")));
    place
        .write("table.go", "package table\n\nfunc Abs(n int) int {\n\tif n < 0 {\n\t\treturn -n\n\t}\n\treturn n\n}\n");
    assert_eq!(place.proctor(&["run", "--failed"]).status, 0);
    let nothing = place.proctor(&["run", "--failed"]);
    assert_eq!(
        (nothing.status, nothing.stdout.as_str()),
        (0, "last run_tests had no failures — nothing to rerun (go)\n")
    );
}

/// Python would take the compiled code of the first text for that of the second: size and time of change are the same.
#[test]
fn an_edit_within_a_second_is_seen_though_bytecode_is_kept() {
    for fixture in ["pytest/pass", "unittest/pass"] {
        let place = Place::with(fixture);
        let file = place.workspace.join("calc/money.py");
        let text = std::fs::read_to_string(&file).unwrap();
        let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(place.proctor(&["run"]).status, 0, "{fixture}");
        let broken = text.replace("// 100", "// 101");
        assert_eq!((broken.len(), broken == text), (text.len(), false));
        std::fs::write(&file, broken).unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        let said = place.proctor(&["run"]);
        assert_eq!(said.status, 1, "{fixture}: {said:?}");
    }
}

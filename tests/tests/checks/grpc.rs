//! `Runs/RunChecks`.

use crate::{UNUSED_IMPORT, path_with_checkers, stand_in_for_ruff};
use proctor_proto::reason;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{
    CancelRunRequest, CheckKind, CheckReport, CheckerState, Outcome, RunChecksRequest, RunState, Severity,
};
use proctor_tests::grpc_client::CompletedRun;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, TENANTS, first_uid};
use proctor_tests::test_workspace::chown_tree;
use std::fs;
use std::path::{Path, PathBuf};
use tonic::Code;
use tonic_types::StatusExt;

fn supervisor() -> SupervisorProcess {
    let path = path_with_checkers().into_string().unwrap();
    SupervisorProcess::with_settings(&SupervisorSettings { path, ..SupervisorSettings::default() })
}

fn own(workspace: &Path) {
    chown_tree(workspace, first_uid(TENANTS[0]));
}

fn write(workspace: &Path, file: &str, content: &str) {
    fs::write(workspace.join(file), content).unwrap();
    own(workspace);
}

/// A workspace of the first tenant whose ruff never ends.
fn hanging(supervisor: &SupervisorProcess) -> PathBuf {
    let workspace = supervisor.empty_workspace("alpha", "hangs");
    stand_in_for_ruff(&workspace, "echo started; exec sleep 600");
    own(&workspace);
    workspace
}

fn all(session_id: &str) -> RunChecksRequest {
    RunChecksRequest { session_id: session_id.to_owned(), ..RunChecksRequest::default() }
}

fn report(run: &CompletedRun) -> &CheckReport {
    run.report().check.as_ref().unwrap()
}

#[tokio::test]
async fn a_check_is_a_run_with_events_and_leaves_the_tests_alone() {
    let supervisor = supervisor();
    let alpha = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    write(&workspace, "ruff.toml", "");
    write(&workspace, "a.py", UNUSED_IMPORT);
    let session = alpha.open_session(&workspace).await;
    let tests = alpha.run(&session).await;
    let failures = alpha.failures(&session).await;

    let first = alpha.check(RunChecksRequest { checkers: vec!["ruff".into()], ..all(&session) }).await;
    let first = first.unwrap().read_to_end().await;
    first.assert_numbered_from(0);
    let is = |wanted: fn(&Event) -> bool| first.events.iter().any(|event| event.event.as_ref().is_some_and(wanted));
    assert!(is(|event| matches!(event, Event::Queued(_))) && is(|event| matches!(event, Event::Output(_))));
    assert!(is(|event| matches!(event, Event::Started(started) if started.isolation.is_some())));
    assert_eq!((first.report().outcome(), first.report().exit_code), (Outcome::Failed, 1));
    let found = report(&first);
    assert_eq!((found.errors, found.findings.len(), &found.comparison), (1, 1, &None), "{found:?}");
    let finding = &found.findings[0];
    assert_eq!((finding.file.as_str(), finding.rule.as_str()), ("a.py", "F401"));
    assert_eq!((finding.severity(), finding.kind(), finding.new), (Severity::Error, CheckKind::Lint, false));
    assert!(finding.fix.as_ref().is_some_and(|fix| !fix.edits.is_empty()), "{finding:?}");
    assert_eq!((found.checkers[0].checker.as_str(), found.checkers[0].state()), ("ruff", CheckerState::Complete));

    // It is read as any other run, and is not the last run of the tests.
    assert_eq!(alpha.watch(&first.run_id, 0).await.read_to_end().await.events, first.events);
    let status = alpha.get_run(&first.run_id, 0).await;
    assert_eq!((status.state(), status.report.as_ref()), (RunState::Finished, Some(first.report())));
    let known = alpha.wait_for_session(&session, "the session exists", |_| true).await;
    assert_eq!(known.last_run_id, tests.run_id);
    assert_eq!(alpha.failures(&session).await.failures, failures.failures);

    write(&workspace, "a.py", "import json\n");
    let request = RunChecksRequest { kinds: vec![CheckKind::Lint.into()], files: vec!["a.py".into()], ..all(&session) };
    let second = alpha.check(request).await.unwrap().read_to_end().await;
    let compared = report(&second).comparison.as_ref().unwrap();
    assert_eq!((compared.new, compared.fixed, report(&second).findings[0].new), (1, 1, true), "{compared:?}");
    assert!(compared.fixed_findings[0].message.contains("`os`"), "{compared:?}");

    drop(alpha);
    let log = fs::read_to_string(supervisor.audit_log()).unwrap();
    let of_checks = |event: &str, run: &str| {
        let line = log.lines().find(|line| line.contains(event) && line.contains(run));
        line.unwrap_or_else(|| panic!("no {event} of {run} in {log}")).to_owned()
    };
    assert!(of_checks("\"run_accepted\"", &first.run_id).contains("\"rpc\":\"Runs/RunChecks\""));
    assert!(of_checks("\"run_finished\"", &first.run_id).contains("\"outcome\":\"failed\""));
}

#[tokio::test]
async fn a_check_is_attached_to_and_cancelled_as_tests_are() {
    let supervisor = supervisor();
    let alpha = supervisor.client("alpha").await;
    let session = alpha.open_session(&hanging(&supervisor)).await;
    let mut first = alpha.check(all(&session)).await.unwrap();
    let run = first.wait_for_event("output", |event| matches!(event, Event::Output(_))).await.run_id;
    let mut second = alpha.check(all(&session)).await.unwrap();
    let queued = second.next().await.unwrap().unwrap().clone();
    let is_attached = matches!(queued.event, Some(Event::Queued(queued)) if queued.attached);
    assert!(is_attached && queued.run_id == run, "{queued:?}");
    // A check of something else is another run, and waits.
    let other = RunChecksRequest { kinds: vec![CheckKind::Lint.into()], ..all(&session) };
    let mut other = alpha.check(other).await.unwrap();
    let queued = other.next().await.unwrap().unwrap().clone();
    assert!(matches!(queued.event, Some(Event::Queued(waiting)) if waiting.position == 1), "{queued:?}");
    for cancelled in [&queued.run_id, &run] {
        alpha.runs.clone().cancel_run(CancelRunRequest { run_id: cancelled.clone() }).await.unwrap();
    }
    let ended = first.read_to_end().await;
    assert_eq!((ended.report().outcome(), ended.report().exit_code), (Outcome::Cancelled, 130));
    let found = report(&ended);
    assert_eq!((found.checkers[0].state(), found.findings.len()), (CheckerState::Failed, 0), "{found:?}");
    let never_started = other.read_to_end().await;
    assert_eq!((never_started.report().outcome(), &never_started.report().check), (Outcome::Cancelled, &None));
}

#[tokio::test]
async fn what_cannot_be_checked_is_refused_before_any_process_starts() {
    let supervisor = supervisor();
    let alpha = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "shop");
    write(&workspace, "a.py", "");
    let session = alpha.open_session(&workspace).await;
    let refused = async |request: RunChecksRequest| {
        let status = alpha.check(request).await.err().unwrap();
        let reason = status.get_details_error_info().unwrap().reason;
        (status.code(), reason, status.message().to_owned())
    };
    let (code, name, text) = refused(all(&session)).await;
    assert_eq!((code, name.as_str()), (Code::FailedPrecondition, reason::NO_CHECKER));
    assert!(
        text.starts_with("no checker is set up in the workspace (") && text.ends_with("to use its defaults"),
        "{text}"
    );
    let named = |name: &str| RunChecksRequest { checkers: vec![name.to_owned()], ..all(&session) };
    let (code, name, text) = refused(named("go-vet")).await;
    assert_eq!((code, name.as_str()), (Code::FailedPrecondition, reason::NO_CHECKER), "{text}");
    for (request, field) in [
        (named("rough"), "checkers"),
        (RunChecksRequest { checkers: vec![String::new(); 65], ..all(&session) }, "checkers"),
        (RunChecksRequest { kinds: vec![0], ..all(&session) }, "kinds"),
        (RunChecksRequest { kinds: vec![7], ..all(&session) }, "kinds"),
        (RunChecksRequest { files: vec!["gone.py".into()], ..all(&session) }, "files"),
        (RunChecksRequest { files: vec!["../a.py".into()], ..all(&session) }, "files"),
        (RunChecksRequest { since: "-x".into(), ..named("ruff") }, "since"),
        (RunChecksRequest { priority: 9, ..named("ruff") }, "priority"),
    ] {
        let status = alpha.check(request.clone()).await.err().unwrap();
        let info = status.get_details_error_info().unwrap();
        assert_eq!(info.metadata.get("field").map(String::as_str), Some(field), "{request:?}: {status:?}");
    }
}

#[tokio::test]
async fn limits_hold_for_checks() {
    let supervisor = supervisor();
    let alpha = supervisor.client("alpha").await;
    let session = alpha.open_session(&hanging(&supervisor)).await;
    let limits = Some(proctor_proto::v1::Limits { wall_ms: 500, ..Default::default() });
    let ended = alpha.check(RunChecksRequest { limits, ..all(&session) }).await.unwrap().read_to_end().await;
    assert_eq!((ended.report().outcome(), ended.report().exit_code), (Outcome::TimedOut, 124));
    assert_eq!(report(&ended).checkers[0].state(), CheckerState::Failed, "{ended:?}");
}

//! `proctor admin` at a running supervisor: what operators see and do, and the errors for tenants and for a missing
//! supervisor. Also `proctor doctor`.

use nix::unistd::getuid;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Outcome, RunTestsRequest};
use proctor_tests::process::{ProcessOutput, command, program, wait_for_exit};
use proctor_tests::supervisor_process::SupervisorProcess;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

const COMMANDS: [&[&str]; 6] = [&["tenants"], &["usage"], &["sessions"], &["runs"], &["stop", "s-1"], &["drain"]];

fn admin(socket: &Path, arguments: &[&str]) -> ProcessOutput {
    let mut command = command(&program("proctor"));
    let command = command.arg("admin").args(arguments).arg("--socket").arg(socket);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wait_for_exit(command.spawn().unwrap())
}

/// The columns of each line of a table, without its header and without the age of each entry.
fn rows(output: &ProcessOutput) -> Vec<Vec<&str>> {
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
    let is_age = |word: &&str| word.strip_suffix('s').is_some_and(|count| count.parse::<u32>().is_ok());
    output.stdout.lines().skip(1).map(|line| line.split_whitespace().filter(|word| !is_age(word)).collect()).collect()
}

#[tokio::test]
async fn operator_lists_and_drains_while_a_tenant_is_refused() {
    let mut supervisor = SupervisorProcess::start();
    let socket = supervisor.socket();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session = alpha.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    let idle = beta.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    let sleep = |seconds: &str| RunTestsRequest {
        session_id: session.clone(),
        command: ["/bin/sleep", seconds].map(str::to_owned).to_vec(),
        ..RunTestsRequest::default()
    };
    let mut running = alpha.start(sleep("600")).await.unwrap();
    let run = running.wait_for_event("the start", |event| matches!(event, Event::Started(_))).await.run_id;
    let mut queued = alpha.start(sleep("601")).await.unwrap();
    let queued_run = queued.wait_for_event("queueing", |event| matches!(event, Event::Queued(_))).await.run_id;

    // The test's user id belongs to tenant alpha.
    for subcommand in COMMANDS {
        let output = admin(&socket, subcommand);
        assert_eq!((output.status, output.stdout.as_str()), (5, ""), "{subcommand:?}: {output:?}");
        assert!(output.stderr.starts_with("proctor: permission denied: for operators only\n"), "{output:?}");
        assert!(output.stderr.contains("[operators]"), "the error names the remedy: {output:?}");
    }
    let uid = getuid();
    let log = supervisor.reload_host_file(|text| {
        let text = text.replace(&format!("\nuids = [{uid}]"), "\nuids = []");
        text.replace("[operators]\n", &format!("[operators]\nuids = [{uid}]\n"))
    });
    assert!(log.contains("was reloaded"), "{log}");

    let tenants = admin(&socket, &["tenants"]);
    assert_eq!(rows(&tenants), [["1", "1", "1", "alpha"], ["1", "0", "0", "beta"]]);
    let sessions = admin(&socket, &["sessions"]);
    assert_eq!(rows(&sessions), [["1", "1", &*session, "alpha"], ["0", "0", &*idle, "beta"]]);
    let runs = admin(&socket, &["runs"]);
    assert_eq!(rows(&runs), [["running", &*run, "alpha"], ["queued", &*queued_run, "alpha"]]);
    check_documents(&socket, [&session, &run, &queued_run]);
    let stopped = admin(&socket, &["stop", &queued_run]);
    assert_eq!((stopped.status, stopped.stdout), (0, format!("stopped {queued_run}\n")), "{}", stopped.stderr);
    let report = queued.read_to_end().await;
    assert_eq!(report.report().outcome(), Outcome::Cancelled);
    for ended in [&*queued_run, "nonsense", &format!("{session}-99")] {
        let again = admin(&socket, &["stop", ended]);
        let text = "proctor: no run with this id is queued or running\n";
        assert_eq!((again.status, again.stdout.as_str(), again.stderr.as_str()), (5, "", text));
    }
    let drained = admin(&socket, &["drain", "--deadline", "0"]);
    assert_eq!(drained.stdout, "drained: 0 runs finished, 1 cancelled\n", "{drained:?}");
    assert_eq!((drained.status, supervisor.wait_for_exit().status), (0, 0));

    for subcommand in COMMANDS {
        let output = admin(&socket, subcommand);
        assert_eq!(output.status, 5, "{subcommand:?}: {output:?}");
        let expected =
            format!("proctor: {}: no supervisor answers on this socket: No such file or directory", socket.display());
        assert!(output.stderr.starts_with(&expected), "{output:?}");
        assert!(["proctor serve", "--socket"].iter().all(|help| output.stderr.contains(help)), "{output:?}");
    }
}

/// The lists as documents: one busy session of alpha, and an idle one of beta.
fn check_documents(socket: &Path, [session, run, queued_run]: [&String; 3]) {
    let document = |list: &str| admin(socket, &[list, "--output", "json"]).json();
    let tenants = document("tenants");
    assert_eq!(tenants[0], json!({"tenant": "alpha", "sessions": 1, "running": 1, "queued": 1}));
    let usage = document("usage");
    assert_eq!((&usage[0]["queued"]["used"], &usage[1]["tenant"]), (&json!(1), &json!("beta")));
    assert_eq!((&usage[0]["streams"]["used"], &usage[1]["streams"]["used"]), (&json!(2), &json!(0)));
    assert!(usage[0]["retained_bytes"]["max"].as_u64() > usage[0]["retained_bytes"]["used"].as_u64(), "{usage}");
    let sessions = document("sessions");
    assert_eq!((&sessions[0]["session"], &sessions[0]["running_run"]), (&json!(session), &json!(run)));
    assert_eq!((&sessions[1]["last_outcome"], &sessions[1]["queued"]), (&Value::Null, &json!(0)));
    let runs = document("runs");
    let states: Vec<_> = runs.as_array().unwrap().iter().map(|run| (&run["run"], &run["state"])).collect();
    assert_eq!(states, [(&json!(run), &json!("running")), (&json!(queued_run), &json!("queued"))]);
}

#[test]
fn doctor_lists_every_layer_and_toolchain() {
    let doctor = |more: &[&str]| {
        let piped = (Stdio::piped(), Stdio::piped());
        wait_for_exit(
            command(&program("proctor")).arg("doctor").args(more).stdout(piped.0).stderr(piped.1).spawn().unwrap(),
        )
    };
    let (output, data) = (doctor(&[]), doctor(&["--output", "json"]));
    let checks = data.json();
    let checks = checks.as_array().unwrap();
    let whole = checks.iter().filter(|check| check["needed"] == true).all(|check| check["status"] == "usable");
    assert_eq!((output.status, data.status), (i32::from(!whole), i32::from(!whole)), "{output:?}");
    for check in checks {
        let (name, detail) = (check["name"].as_str().unwrap(), check["detail"].as_str().unwrap());
        assert!(output.stdout.contains(name), "{name}: {detail}: {output:?}");
    }
    for name in ["release", "cgroup mode", "landlock", "seccomp", "go", "cargo"] {
        assert!(checks.iter().any(|check| check["name"] == name), "{name}: {checks:?}");
    }
}

/// Pages of one session, so that a page ends at every possible position.
#[tokio::test]
async fn lists_sessions_of_all_tenants_in_pages() {
    use proctor_proto::v1::ListAllSessionsRequest;
    let supervisor = SupervisorProcess::start();
    let mut opened = Vec::new();
    for tenant in ["beta", "alpha"] {
        let client = supervisor.client(tenant).await;
        let workspace = supervisor.empty_workspace(tenant, "shop");
        for _ in 0..2 {
            opened.push((tenant.to_owned(), client.open_separate_session(&workspace).await));
        }
    }
    opened.sort();
    let (mut host, mut listed, mut page_token) = (supervisor.client("operator").await.host, Vec::new(), String::new());
    loop {
        let page = host.list_all_sessions(ListAllSessionsRequest { page_size: 1, page_token }).await.unwrap();
        let page = page.into_inner();
        assert_eq!(page.sessions.len(), 1);
        listed.extend(page.sessions.into_iter().map(|one| (one.tenant_id, one.session.unwrap().session_id)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, opened);
}

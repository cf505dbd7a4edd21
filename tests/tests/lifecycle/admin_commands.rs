//! `proctor admin` at a running supervisor: what an operator sees and does, what a tenant is told, and what is said where no
//! supervisor is.

use nix::unistd::getuid;
use proctor_proto::v1::RunTestsRequest;
use proctor_proto::v1::run_event::Event;
use proctor_tests::process::{ProcessOutput, command, program, wait_for_exit};
use proctor_tests::supervisor_process::SupervisorProcess;
use std::path::Path;
use std::process::Stdio;

const QUESTIONS: [&str; 4] = ["tenants", "sessions", "runs", "drain"];

fn admin(socket: &Path, arguments: &[&str]) -> ProcessOutput {
    let mut command = command(&program("proctor"));
    let command = command.arg("admin").args(arguments).arg("--socket").arg(socket);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wait_for_exit(command.spawn().unwrap())
}

/// The words of each line of a table, after its head and without how old things are.
fn rows(said: &ProcessOutput) -> Vec<Vec<&str>> {
    assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{said:?}");
    let is_age = |word: &&str| word.strip_suffix('s').is_some_and(|count| count.parse::<u32>().is_ok());
    said.stdout.lines().skip(1).map(|line| line.split_whitespace().filter(|word| !is_age(word)).collect()).collect()
}

#[tokio::test]
async fn an_operator_sees_everything_and_ends_it_and_a_tenant_is_refused() {
    let mut supervisor = SupervisorProcess::start();
    let socket = supervisor.socket();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session = alpha.open(&supervisor.empty_workspace("alpha", "shop")).await;
    let idle = beta.open(&supervisor.empty_workspace("beta", "shop")).await;
    let sleep = |seconds: &str| RunTestsRequest {
        session_id: session.clone(),
        command: ["/bin/sleep", seconds].map(str::to_owned).to_vec(),
        ..RunTestsRequest::default()
    };
    let mut running = alpha.start(sleep("600")).await.unwrap();
    let run = running.until("the start", |event| matches!(event, Event::Started(_))).await.run_id;
    let mut waiting = alpha.start(sleep("601")).await.unwrap();
    let behind = waiting.until("its place", |event| matches!(event, Event::Queued(_))).await.run_id;

    // Our user id is alpha's.
    for question in QUESTIONS {
        let said = admin(&socket, &[question]);
        assert_eq!((said.status, said.stdout.as_str()), (5, ""), "{question}: {said:?}");
        assert!(said.stderr.starts_with("proctor: permission denied: for operators only\n"), "{said:?}");
        assert!(said.stderr.contains("[operators]"), "it says what helps: {said:?}");
    }
    let uid = getuid();
    let said = supervisor.reload(|text| {
        let text = text.replace(&format!("\nuids = [{uid}]"), "\nuids = []");
        text.replace("[operators]\n", &format!("[operators]\nuids = [{uid}]\n"))
    });
    assert!(said.contains("was reloaded"), "{said}");

    let tenants = admin(&socket, &["tenants"]);
    assert_eq!(rows(&tenants), [["1", "1", "1", "alpha"], ["1", "0", "0", "beta"]]);
    let sessions = admin(&socket, &["sessions"]);
    assert_eq!(rows(&sessions), [["1", "1", &*session, "alpha"], ["0", "0", &*idle, "beta"]]);
    let runs = admin(&socket, &["runs"]);
    assert_eq!(rows(&runs), [["running", &*run, "alpha"], ["queued", &*behind, "alpha"]]);
    let drained = admin(&socket, &["drain", "--deadline", "0"]);
    assert_eq!(drained.stdout, "drained: 0 runs finished, 2 cancelled\n", "{drained:?}");
    assert_eq!((drained.status, supervisor.wait_for_exit().status), (0, 0));

    for question in QUESTIONS {
        let said = admin(&socket, &[question]);
        assert_eq!(said.status, 5, "{question}: {said:?}");
        let expected =
            format!("proctor: {}: no supervisor answers on this socket: No such file or directory", socket.display());
        assert!(said.stderr.starts_with(&expected), "{said:?}");
        assert!(["proctor serve", "--socket"].iter().all(|help| said.stderr.contains(help)), "{said:?}");
    }
}

#[test]
fn the_doctor_tells_every_layer_and_every_toolchain() {
    let doctor = |more: &[&str]| {
        let piped = (Stdio::piped(), Stdio::piped());
        wait_for_exit(
            command(&program("proctor")).arg("doctor").args(more).stdout(piped.0).stderr(piped.1).spawn().unwrap(),
        )
    };
    let (said, data) = (doctor(&[]), doctor(&["--output", "json"]));
    let checks = data.json();
    let checks = checks.as_array().unwrap();
    let whole = checks.iter().filter(|check| check["needed"] == true).all(|check| check["status"] == "usable");
    assert_eq!((said.status, data.status), (i32::from(!whole), i32::from(!whole)), "{said:?}");
    for check in checks {
        let (name, detail) = (check["name"].as_str().unwrap(), check["detail"].as_str().unwrap());
        assert!(said.stdout.contains(name), "{name}: {detail}: {said:?}");
    }
    for name in ["release", "cgroup mode", "landlock", "seccomp", "go", "cargo"] {
        assert!(checks.iter().any(|check| check["name"] == name), "{name}: {checks:?}");
    }
}

/// Pages of one, so that each place where one can end is tried.
#[tokio::test]
async fn sessions_of_all_tenants_are_listed_page_by_page() {
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

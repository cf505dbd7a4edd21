//! `proctor top` at a pseudo terminal: it shows a run with its progress, and its keys stop the run and end the view.

use nix::unistd::getuid;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Outcome, RunTestsRequest};
use proctor_tests::process::{command, program, wait_for_exit};
use proctor_tests::pseudo_terminal::PseudoTerminal;
use proctor_tests::supervisor_process::SupervisorProcess;
use std::process::Stdio;

#[tokio::test(flavor = "multi_thread")]
async fn shows_runs_and_stops_one_at_a_key() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("beta").await;
    let session = client.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    let uid = getuid();
    let log = supervisor.reload_host_file(|text| {
        let text = text.replace(&format!("\nuids = [{uid}]"), "\nuids = []");
        text.replace("[operators]\n", &format!("[operators]\nuids = [{uid}]\n"))
    });
    assert!(log.contains("was reloaded"), "{log}");
    let mut command = command(&program("proctor"));
    command.args(["top", "--interval", "100ms", "--socket"]).arg(supervisor.socket());

    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = wait_for_exit(output);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""));
    assert!(output.stderr.contains("no terminal") && output.stderr.contains("proctor admin runs"), "{output:?}");

    let mut top = PseudoTerminal::start(&command);
    top.wait_for_screen("1 session, 0 running");
    let request = RunTestsRequest {
        session_id: session.clone(),
        command: ["/bin/sleep", "600"].map(str::to_owned).to_vec(),
        ..RunTestsRequest::default()
    };
    let mut running = client.start(request).await.unwrap();
    let run = running.wait_for_event("the start", |event| matches!(event, Event::Started(_))).await.run_id;
    top.wait_for_screen(&format!("{}-", &run[..8]));
    top.press("s");
    top.wait_for_screen("y stops it");
    top.press("y");
    assert_eq!(running.read_to_end().await.report().outcome(), Outcome::Cancelled);
    top.wait_for_screen("stopped ");
    top.press("q");
    assert_eq!(top.status(), Some(0));
}

//! The page for people of a real supervisor, over HTTP and in headless Chromium: a tenant sees only its own, an operator
//! everything; other origins, floods and hostile names get nothing.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

mod access;
mod browser;
mod floods;

use proctor_proto::v1;
use proctor_tests::grpc_client::{Client, CompletedRun};
use proctor_tests::metrics_scrape::{HttpAnswer, metrics_address};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, first_uid, token};
use proctor_tests::test_workspace::chown_tree;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

/// A name that a browser must only ever show: markup and quotes.
const HOSTILE_WORKSPACE: &str = "b<svg onload=\"document.title='owned'\">'";

/// Such a name with the lines of a header, in which no runner starts.
const HEADER_WORKSPACE: &str = "a\r\nX-Evil: 1\r\n\r\n<script>document.title='owned'<\u{202e}";

/// A test with such a name.
const HOSTILE_TEST: &str = "<svg/onload=document.title='owned'>";

/// A supervisor with a page, and the address of it.
fn start(settings: SupervisorSettings) -> (SupervisorProcess, SocketAddr) {
    let keys = "[telemetry]\nlisten = \"127.0.0.1:0\"\npage = true\npage_hosts = [\"proctor.example.org\"]";
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings { listen: keys.to_owned(), ..settings });
    let address = metrics_address(&supervisor);
    (supervisor, address)
}

/// Sends a request, with the page's own host unless the headers have one, and reads the answer to its end.
fn send(address: SocketAddr, request_line: &str, headers: &str, body: &str) -> HttpAnswer {
    let mut stream = open(address, request_line, headers, body);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("\r\n\r\n"), "{request_line} {headers}: {answer:?}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    HttpAnswer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// Sends a request and leaves the answer unread.
fn open(address: SocketAddr, request_line: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let host = if headers.contains("Host: ") { String::new() } else { format!("Host: {address}\r\n") };
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    write!(stream, "{request_line} HTTP/1.1\r\n{host}{length}{headers}\r\n{body}").unwrap();
    stream
}

fn bearer(name: &str) -> String {
    format!("Authorization: Bearer {}\r\n", token(name))
}

/// Headers of a form that the page itself sends.
fn form(address: SocketAddr) -> String {
    format!("Origin: http://{address}\r\nContent-Type: application/x-www-form-urlencoded\r\n")
}

/// Logs in with a token and returns the answer.
fn log_in(address: SocketAddr, token: &str) -> HttpAnswer {
    send(address, "POST /login", &form(address), &format!("token={token}"))
}

/// The header line with the cookie of a login.
fn cookie(login: &HttpAnswer) -> String {
    let line = login.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    format!("Cookie: {}\r\n", line.split(';').next().unwrap())
}

/// Runs a shell script in a session as a command.
async fn run_command(client: &Client, session: &str, script: &str) -> CompletedRun {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let request = v1::RunTestsRequest { session_id: session.to_owned(), command, ..Default::default() };
    client.start(request).await.unwrap().read_to_end().await
}

/// A workspace of pytest whose test has a hostile name: it fails, or waits until the file `.cache/gate` exists.
fn hostile_workspace(supervisor: &SupervisorProcess, tenant: &str, waits: bool) -> PathBuf {
    let workspace = supervisor.empty_workspace(tenant, HOSTILE_WORKSPACE);
    std::fs::create_dir(workspace.join(".cache")).unwrap();
    std::fs::write(workspace.join(".cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
    std::fs::write(workspace.join("requirements.txt"), "pytest\n").unwrap();
    let body = match waits {
        true => "while not os.path.exists('.cache/gate'): time.sleep(0.005)",
        false => "assert not \"</script><script>document.title='owned'</script>\"",
    };
    let test = format!(
        "import os, time, pytest\n\n\ndef test_passes():\n    pass\n\n\n\
         @pytest.mark.parametrize('x', [1], ids=[\"{HOSTILE_TEST}\"])\ndef test_hostile(x):\n    {body}\n"
    );
    std::fs::write(workspace.join("test_hostile.py"), test).unwrap();
    chown_tree(&workspace, first_uid(tenant));
    workspace
}

/// Lets the waiting test of a hostile workspace go on.
fn release(workspace: &Path) {
    std::fs::write(workspace.join(".cache/gate"), "").unwrap();
}

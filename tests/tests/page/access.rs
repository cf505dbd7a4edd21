//! Who gets what over plain HTTP: logins, bearer tokens, tenants, other origins, other names of the host.

use crate::{bearer, cookie, form, log_in, run_command, send, start};
use proctor_tests::process::wait_until;
use proctor_tests::supervisor_process::{SupervisorSettings, token};
use std::net::SocketAddr;

fn status(address: SocketAddr, request_line: &str, headers: &str) -> u16 {
    send(address, request_line, headers, "").status
}

#[test]
fn without_a_credential_only_the_login_form_and_its_files_are_shown() {
    let (_supervisor, address) = start(SupervisorSettings::default());
    for path in ["/events", "/runs/a-1/report.html"] {
        let answer = send(address, &format!("GET {path}"), "", "");
        assert!(answer.status == 401 && answer.head.contains("www-authenticate: bearer"), "{answer:?}");
    }
    assert_eq!(status(address, "POST /drain", &form(address)), 401);
    let shell = send(address, "GET /", "", "");
    assert!(shell.status == 401 && shell.body.contains("action=\"/login\"") && !shell.body.contains("page.js"));
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';",
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "referrer-policy: same-origin",
        "cross-origin-opener-policy: same-origin",
        "cross-origin-resource-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(shell.head.contains(header), "{header} in {shell:?}");
    }
    let style = send(address, "GET /assets/page.css", "", "");
    assert!(style.status == 200 && style.head.contains("text/css"), "{style:?}");
    assert_eq!(status(address, "GET /assets/..%2f..%2fproctor.toml", ""), 404);
    assert_eq!(status(address, "GET /login", ""), 405);
    assert_eq!(status(address, "GET /nothing", ""), 404);
}

#[test]
fn a_login_is_a_cookie_that_no_script_reads_and_that_ends() {
    let (supervisor, address) = start(SupervisorSettings::default());
    for wrong in ["", "token-of-stranger", "%00", "a%0d%0aSet-Cookie:+x=1"] {
        let refused = log_in(address, wrong);
        assert!(refused.status == 401 && refused.body.contains("is not known"), "{refused:?}");
        assert!(!refused.head.contains("set-cookie"), "{refused:?}");
    }
    let login = log_in(address, &token("alpha"));
    assert!(login.status == 303 && login.head.contains("location: /\r\n"), "{login:?}");
    assert!(login.head.contains("; path=/; httponly; samesite=strict\r\n"), "{login:?}");
    let cookie_of_alpha = cookie(&login);
    let page = send(address, "GET /", &cookie_of_alpha, "");
    assert!(page.status == 200 && page.body.contains("src=\"/assets/page.js\""), "{page:?}");
    // The cookie is random: it has nothing of the token, and each login another one.
    assert_ne!(cookie(&log_in(address, &token("alpha"))), cookie_of_alpha);
    assert_eq!(status(address, "POST /logout", &format!("{}{cookie_of_alpha}", form(address))), 303);
    assert_eq!(status(address, "GET /", &cookie_of_alpha), 401);
    // The audit log is written by a thread of its own.
    let audit = || std::fs::read_to_string(supervisor.audit_log()).unwrap();
    let wait_for_refusal = |call: &str| {
        let is_it = |line: &str| line.contains("authentication_refused") && line.contains(call);
        wait_until("the refusal is in the audit log", || audit().lines().any(is_it));
    };
    wait_for_refusal("page/login");
    for (path, call) in [("/events", "page/events"), ("/runs/a-1/report.html", "page/report")] {
        assert_eq!(status(address, &format!("GET {path}"), &bearer("stranger")), 401);
        wait_for_refusal(call);
    }
    assert!(!audit().contains("token-of-stranger"), "{}", audit());
    // Another credential in the host file ends the logins of the one before.
    let before = cookie(&log_in(address, &token("beta")));
    assert_eq!(status(address, "GET /", &before), 200);
    let hash = |name: &str| blake3::hash(token(name).as_bytes()).to_string();
    let log = supervisor.reload_host_file(|text| text.replace(&hash("beta"), &hash("gamma")));
    assert!(log.contains("was reloaded"), "{log}");
    assert_eq!(status(address, "GET /", &before), 401);
    assert_eq!(log_in(address, &token("beta")).status, 401);
}

#[test]
fn visits_and_logins_of_a_tenant_count_in_its_rate() {
    let tenant = "quota = { requests_per_second = 1 }".to_owned();
    let (_supervisor, address) = start(SupervisorSettings { tenant, ..SupervisorSettings::default() });
    assert!((0..100).any(|_| log_in(address, &token("alpha")).status == 429));
    assert!((0..100).any(|_| status(address, "GET /", &bearer("beta")) == 429));
    assert!((0..100).all(|_| status(address, "GET /", &bearer("operator")) == 200));
}

#[test]
fn behind_a_proxy_the_cookie_is_for_its_host_and_tls_alone() {
    let (_supervisor, address) = start(SupervisorSettings::default());
    let host = "Host: proctor.example.org\r\nOrigin: https://proctor.example.org\r\n\
                Content-Type: application/x-www-form-urlencoded\r\n";
    let login = send(address, "POST /login", host, &format!("token={}", token("alpha")));
    assert_eq!(login.status, 303, "{login:?}");
    assert!(login.head.contains("set-cookie: __host-proctor_login=") && login.head.contains("; secure"), "{login:?}");
}

#[test]
fn other_origins_and_other_names_of_the_host_are_refused() {
    let (supervisor, address) = start(SupervisorSettings::default());
    let operator = cookie(&log_in(address, &token("operator")));
    let port = address.port();
    for origin in [
        String::new(),
        "Origin: null\r\n".to_owned(),
        "Origin: http://evil.example.org\r\n".to_owned(),
        format!("Origin: http://localhost:{port}\r\n"),
        format!("Origin: http://127.0.0.1:{}\r\n", port ^ 1),
        format!("Origin: http://{address}\r\nSec-Fetch-Site: cross-site\r\n"),
        format!("Origin: http://{address}\r\nOrigin: http://{address}\r\n"),
    ] {
        assert_eq!(status(address, "POST /drain", &format!("{operator}{origin}")), 403, "{origin:?}");
        assert_eq!(status(address, "POST /logout", &format!("{operator}{origin}")), 403, "{origin:?}");
    }
    for foreign in ["Origin: http://evil.example.org\r\n", "Sec-Fetch-Site: same-site\r\n"] {
        let answer = send(address, "GET /events", &format!("{operator}{foreign}"), "");
        assert!(answer.status == 403 && !answer.head.contains("access-control"), "{answer:?}");
    }
    // A name of the attacker's that leads to loopback.
    for host in ["evil.example.org", "localhost.evil.example.org", "192.0.2.1"] {
        let headers = format!("Host: {host}:{port}\r\n{operator}");
        assert_eq!(status(address, "GET /", &headers), 421, "{host}");
        assert_eq!(status(address, "GET /events", &headers), 421, "{host}");
    }
    assert!(!supervisor.log().contains("drains"), "{}", supervisor.log());
    assert_eq!(status(address, "GET /", &format!("Host: proctor.localhost:{port}\r\n{operator}")), 200);
}

#[tokio::test]
async fn a_report_of_another_tenant_is_like_one_that_does_not_exist() {
    let (supervisor, address) = start(SupervisorSettings::default());
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    let run = run_command(&client, &session, "echo secret-of-alpha; exit 3").await;
    let path = format!("GET /runs/{}/report.html", run.run_id);
    let own = send(address, &path, &bearer("alpha"), "");
    assert!(own.status == 200 && own.body.contains("secret-of-alpha"), "{own:?}");
    let policy = own.head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
    assert!(policy.ends_with("; sandbox allow-scripts") && policy.contains("script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("allow-same-origin"), "{policy}");
    // As over gRPC.
    let operator = send(address, &path, &bearer("operator"), "");
    assert_eq!((operator.status, operator.body.trim()), (403, "this caller is an operator, not a tenant"));
    let foreign = send(address, &path, &bearer("beta"), "");
    let unknown = send(address, "GET /runs/0123456789abcdef0123456789abcdef-1/report.html", &bearer("beta"), "");
    assert_eq!((foreign.status, &foreign.body), (404, &unknown.body));
    let without_date = |head: &str| head.lines().filter(|line| !line.starts_with("date:")).collect::<String>();
    assert_eq!(without_date(&foreign.head), without_date(&unknown.head));
    for hostile in ["%0d%0aSet-Cookie:%20x=1", "..%2f..%2f", "%00", &"a".repeat(5_000)] {
        let answer = send(address, &format!("GET /runs/{hostile}/report.html"), &bearer("alpha"), "");
        assert!(answer.status == 404 && !answer.head.contains("set-cookie"), "{answer:?}");
    }
    let audit = std::fs::read_to_string(supervisor.audit_log()).unwrap();
    let line = |event: &str| audit.lines().any(|line| line.contains(event) && line.contains("page/report"));
    assert!(line("\"report_read\"") && line("\"denied\""), "{audit}");
    assert_eq!(send(address, "POST /drain", &bearer("beta"), "").status, 403);
    assert!(!supervisor.log().contains("drains"), "{}", supervisor.log());
}

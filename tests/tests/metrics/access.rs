//! Who may scrape, and what other requests are answered.

use crate::settings;
use proctor_tests::metrics_scrape::{http, metrics_address};
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use std::io::Read;
use std::net::TcpStream;

#[test]
fn answers_in_the_format_that_the_scraper_accepts() {
    let supervisor = SupervisorProcess::with_settings(&settings());
    let address = metrics_address(&supervisor);
    let prometheus =
        "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n";
    let answer = http(address, "GET /metrics", prometheus);
    assert!(answer.status == 200 && answer.head.contains("application/openmetrics-text; version=1.0.0"), "{answer:?}");
    assert!(answer.body.ends_with("# EOF\n") && answer.body.contains("# UNIT proctor_uptime_seconds seconds\n"));
    let answer = http(address, "GET /metrics", "");
    assert!(answer.head.contains("text/plain; version=0.0.4") && !answer.body.contains("# EOF"), "{answer:?}");
    assert_eq!(http(address, "GET /", "").status, 404);
    assert_eq!(http(address, "POST /metrics", "Content-Length: 0\r\n").status, 405);
    let head = http(address, "HEAD /metrics", "");
    assert!(head.status == 200 && head.body.is_empty(), "{head:?}");
}

#[test]
fn a_scrape_needs_an_operators_token_if_the_host_file_says_so() {
    let mut settings = settings();
    settings.listen += "\nrequire_token = true";
    let supervisor = SupervisorProcess::with_settings(&settings);
    let address = metrics_address(&supervisor);
    let status = |headers: &str| http(address, "GET /metrics", headers).status;
    let bearer = |name: &str| format!("Authorization: Bearer {}\r\n", token(name));
    assert_eq!(status(&bearer("operator")), 200);
    for refused in [
        String::new(),
        bearer("alpha"),
        bearer("stranger"),
        format!("Authorization: Basic {}\r\n", token("operator")),
        format!("{}{}", bearer("operator"), bearer("operator")),
    ] {
        let answer = http(address, "GET /metrics", &refused);
        assert!(answer.status == 401 && !answer.body.contains("proctor_"), "{refused:?}: {answer:?}");
    }
}

/// Connections that send nothing occupy all places until they are closed; the callers of gRPC do not notice.
#[tokio::test]
async fn silent_scrapers_are_closed_and_take_no_connection_from_callers() {
    let supervisor = SupervisorProcess::with_settings(&settings());
    let address = metrics_address(&supervisor);
    let mut silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    let client = supervisor.client("alpha").await;
    client.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    assert_eq!(silent[0].read(&mut [0; 16]).unwrap(), 0, "the listener closes a connection without a request");
    drop(silent);
    assert_eq!(http(address, "GET /metrics", "").status, 200);
}

#[test]
fn many_scrapes_at_a_time_are_all_answered() {
    let supervisor = SupervisorProcess::with_settings(&settings());
    let address = metrics_address(&supervisor);
    std::thread::scope(|scope| {
        let scrapers: Vec<_> = (0..32)
            .map(|_| scope.spawn(|| (0..10).map(|_| http(address, "GET /metrics", "").status).collect::<Vec<_>>()))
            .collect();
        for scraper in scrapers {
            assert_eq!(scraper.join().unwrap(), [200; 10]);
        }
    });
}

//! Many scrapes, many viewers, viewers that read nothing, and large requests: bounded, and nobody else notices.

use crate::{bearer, form, open, send, start};
use proctor_tests::metrics_scrape::http;
use proctor_tests::process::wait_until;
use proctor_tests::supervisor_process::SupervisorSettings;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Places of one caller among the viewers.
pub(crate) const VIEWERS_PER_CALLER: usize = 16;

/// Requests of the page at a time, streams and reports aside.
const PAGE_REQUESTS: usize = 32;

/// Scrapes at a time.
const SCRAPES: usize = 16;

/// A stream of events, of which the head has been read.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    pub(crate) fn open(address: SocketAddr, headers: &str, query: &str) -> (u16, Events) {
        let mut events = Events(BufReader::new(open(address, &format!("GET /events{query}"), headers, "")));
        let status = events.line();
        while !events.line().is_empty() {}
        (status.split(' ').nth(1).unwrap().parse().unwrap(), events)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn view(&mut self) -> Value {
        loop {
            if let Some(data) = self.line().strip_prefix("data: ") {
                return serde_json::from_str::<Value>(data).unwrap()["view"].take();
            }
        }
    }
}

#[tokio::test]
async fn a_stream_has_what_its_caller_may_see_and_follows_it() {
    let (supervisor, address) = start(SupervisorSettings::default());
    let (status, mut alpha) = Events::open(address, &bearer("alpha"), "");
    assert_eq!(status, 200);
    let first = alpha.view();
    assert_eq!((first["viewer"].as_str(), first["sessions"]["total"].as_u64()), (Some("alpha"), Some(0)));
    let (_, mut beta) = Events::open(address, &bearer("beta"), "");
    assert_eq!(beta.view()["sessions"]["total"], 0);
    let client = supervisor.client("alpha").await;
    client.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    let changed = alpha.view();
    assert_eq!(changed["sessions"]["rows"][0]["workspace"], "shop", "{changed}");
    let (_, mut operator) = Events::open(address, &bearer("operator"), "?search=shop&page=7");
    let all = operator.view();
    assert_eq!((&all["sessions"]["matching"], &all["is_operator"]), (&1.into(), &true.into()), "{all}");
    for malformed in ["?page=-1", "?page=x", "?search=%ff&page="] {
        assert_eq!(Events::open(address, &bearer("alpha"), malformed).0, 400, "{malformed}");
    }
    // The credential is revoked: the stream says so and ends.
    let hash = blake3::hash(b"token-of-beta").to_string();
    let log = supervisor.reload_host_file(|text| text.replace(&hash, &hash.replace(|c: char| c.is_ascii_digit(), "0")));
    assert!(log.contains("was reloaded"), "{log}");
    let rest: Vec<String> = beta.0.lines().map_while(Result::ok).collect();
    assert!(rest.iter().any(|line| line == "event: logged_out"), "{rest:?}");
    assert!(!rest.iter().any(|line| line.contains("shop")), "{rest:?}");
}

#[test]
fn viewers_have_places_of_their_own_and_scrapers_keep_theirs() {
    let (_supervisor, address) = start(SupervisorSettings::default());
    let mut viewers = Vec::new();
    for _ in 0..VIEWERS_PER_CALLER {
        // They read nothing but the head.
        let (status, stream) = Events::open(address, &bearer("alpha"), "");
        assert_eq!(status, 200);
        viewers.push(stream);
    }
    assert_eq!(Events::open(address, &bearer("alpha"), "").0, 429);
    assert_eq!(send(address, "GET /runs/a-1/report.html", &bearer("alpha"), "").status, 429);
    let (status, mut other) = Events::open(address, &bearer("beta"), "");
    assert_eq!((status, other.view()["viewer"].as_str()), (200, Some("beta")));
    assert_eq!(http(address, "GET /metrics", "").status, 200);
    viewers.pop();
    wait_until("the place of a viewer that left is free", || Events::open(address, &bearer("alpha"), "").0 == 200);
}

#[test]
fn logins_that_trickle_keep_no_scraper_out() {
    let (_supervisor, address) = start(SupervisorSettings::default());
    // More than the places of the page and of scrapers. They announce a body and send none of it.
    let trickling: Vec<TcpStream> = (0..PAGE_REQUESTS + SCRAPES + 1)
        .map(|_| open(address, "POST /login", &format!("{}Content-Length: 1000\r\n", form(address)), ""))
        .collect();
    for _ in 0..SCRAPES {
        assert_eq!(http(address, "GET /metrics", "").status, 200);
    }
    for mut login in trickling {
        let mut answer = String::new();
        login.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 ") || answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    assert_eq!(send(address, "GET /", &bearer("alpha"), "").status, 200);
}

#[test]
fn tenants_share_places_and_take_none_of_operators() {
    let (_supervisor, address) = start(SupervisorSettings::default());
    let mut viewers = Vec::new();
    for tenant in ["alpha", "beta"] {
        for _ in 0..VIEWERS_PER_CALLER {
            let (status, stream) = Events::open(address, &bearer(tenant), "");
            assert_eq!(status, 200);
            viewers.push(stream);
        }
    }
    for _ in 0..VIEWERS_PER_CALLER {
        let (status, stream) = Events::open(address, &bearer("operator"), "");
        assert_eq!(status, 200);
        viewers.push(stream);
    }
    assert_eq!(Events::open(address, &bearer("operator"), "").0, 429);
}

#[test]
fn a_scrape_every_10_ms_leaves_room_for_viewers() {
    let (_supervisor, address) = start(SupervisorSettings::default());
    let (_, mut viewer) = Events::open(address, &bearer("operator"), "");
    assert_eq!(viewer.view()["is_operator"], true);
    std::thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            for _ in 0..300 {
                assert_eq!(http(address, "GET /metrics", "").status, 200);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        while !scraper.is_finished() {
            assert_eq!(send(address, "GET /", &bearer("alpha"), "").status, 200);
            let (status, mut other) = Events::open(address, &bearer("beta"), "");
            assert_eq!((status, other.view()["viewer"].as_str()), (200, Some("beta")));
        }
        scraper.join().unwrap();
    });
}

#[test]
fn large_and_malformed_requests_are_refused() {
    let (_supervisor, address) = start(SupervisorSettings::default());
    let large = format!("token={}", "x".repeat(64 * 1024));
    assert_eq!(send(address, "POST /login", &form(address), &large).status, 413);
    let token = format!("token={}", "x".repeat(9 * 1024));
    let too_long = send(address, "POST /login", &form(address), &token);
    assert!(too_long.status == 413 && too_long.body.contains("at most 8 KiB"), "{too_long:?}");
    let form_without_token = send(address, "POST /login", &form(address), "other=1");
    assert_eq!(form_without_token.status, 422);
    let json = format!("Origin: http://{address}\r\nContent-Type: application/json\r\n");
    assert_eq!(send(address, "POST /login", &json, "{\"token\":\"x\"}").status, 415);
    let search = format!("GET /events?search={}", "x".repeat(20_000));
    assert!(send(address, &search, &bearer("alpha"), "").status >= 400);
}

//! The metrics of a real supervisor: the guide names all of them, each moves with what it measures, and a scrape needs a
//! token where the host file says so. A collector of OTLP gets the same.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests, which clippy treats as ordinary code"
)]

mod access;
mod dashboards;
mod movement;
mod otlp;

use proctor_proto::v1;
use proctor_tests::grpc_client::{Client, CompletedRun};
use proctor_tests::metrics_scrape::MetricsScrape;
use proctor_tests::process::{source_root, wait_until};
use proctor_tests::supervisor_process::SupervisorSettings;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Settings with a listener for scrapes on a free port of loopback.
fn settings() -> SupervisorSettings {
    SupervisorSettings {
        listen: "[telemetry]\nlisten = \"127.0.0.1:0\"".to_owned(),
        host: "cpus = 4".to_owned(),
        ..SupervisorSettings::default()
    }
}

/// Kind of each metric of the operator's guide, by name.
fn documented() -> BTreeMap<String, String> {
    let guide = std::fs::read_to_string(source_root().join("deploy/README.md")).unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter(|(name, _)| name.starts_with("proctor_") || name.starts_with("process_"));
    rows.map(|(name, rest)| (name.to_owned(), rest.split(' ').next().unwrap().to_owned())).collect()
}

/// Scrapes until the metrics are as wanted, and returns them.
fn scrape_until(address: SocketAddr, what: &str, wanted: impl Fn(&MetricsScrape) -> bool) -> MetricsScrape {
    let mut last = None;
    wait_until(what, || {
        let scrape = MetricsScrape::of(address);
        let is_wanted = wanted(&scrape);
        last = Some(scrape);
        is_wanted
    });
    last.unwrap()
}

fn shell(session: &str, script: &str) -> v1::RunTestsRequest {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    v1::RunTestsRequest { session_id: session.to_owned(), command, ..Default::default() }
}

async fn run(client: &Client, request: v1::RunTestsRequest) -> CompletedRun {
    client.start(request).await.unwrap().read_to_end().await
}

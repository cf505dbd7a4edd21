//! Metrics over OTLP: a collector gets what a scrape shows, also at the end of the supervisor, and one that takes nothing
//! costs nothing.

use crate::{run, scrape_until, shell};
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use proctor_tests::metrics_scrape::{MetricsScrape, metrics_address};
use proctor_tests::process::wait_until;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use prost::Message;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// What a collector has got: each message with its `api-key`.
#[derive(Debug, Clone, Default)]
struct Received(Arc<Mutex<Vec<(String, ExportMetricsServiceRequest)>>>);

impl Received {
    fn messages(&self) -> Vec<(String, ExportMetricsServiceRequest)> {
        self.0.lock().unwrap().clone()
    }

    /// The metrics of the last message.
    fn last(&self) -> Vec<Metric> {
        let messages = self.messages();
        let Some((_, message)) = messages.last() else { return Vec::new() };
        message.resource_metrics[0].scope_metrics[0].metrics.clone()
    }
}

#[tonic::async_trait]
impl MetricsService for Received {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let key = request.metadata().get("api-key").map_or("", |key| key.to_str().unwrap()).to_owned();
        self.0.lock().unwrap().push((key, request.into_inner()));
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// A collector over gRPC, with TLS if it has an identity.
async fn grpc(identity: Option<Identity>) -> (SocketAddr, Received) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, received) = (listener.local_addr().unwrap(), Received::default());
    let mut server = Server::builder();
    if let Some(identity) = identity {
        server = server.tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
    }
    let serving = server
        .add_service(MetricsServiceServer::new(received.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serving);
    (address, received)
}

/// A collector over HTTP.
fn http() -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, received) = (listener.local_addr().unwrap(), Received::default());
    let shared = received.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            take_over_http(stream, &shared);
        }
    });
    (address, received)
}

fn take_over_http(mut stream: TcpStream, received: &Received) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_ascii_lowercase()),
        }
    }
    let header = |name: &str| lines.iter().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or_default();
    assert_eq!((lines[0].as_str(), header("content-type")), ("post /v1/metrics http/1.1", "application/x-protobuf"));
    let mut body = vec![0; header("content-length").parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let message = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
    received.0.lock().unwrap().push((header("api-key").to_owned(), message));
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
}

/// Settings of a supervisor that sends metrics to `address`, and is scraped.
fn settings(scheme: &str, address: SocketAddr, more: &str) -> SupervisorSettings {
    SupervisorSettings {
        listen: format!(
            "[telemetry]\nlisten = \"127.0.0.1:0\"\n[telemetry.metrics]\nendpoint = \"{scheme}://{address}\"\n{more}"
        ),
        host: "cpus = 4".to_owned(),
        env: vec![("OTEL_EXPORTER_OTLP_HEADERS".to_owned(), "api-key=a%20key".into())],
        ..SupervisorSettings::default()
    }
}

/// Name in `/metrics` of a metric of OTLP, as stores of Prometheus translate it.
fn prometheus_name(metric: &Metric) -> String {
    let unit = match metric.unit.as_str() {
        "s" => "_seconds",
        "By" => "_bytes",
        _ => "",
    };
    let total = if matches!(metric.data, Some(Data::Sum(_))) { "_total" } else { "" };
    format!("{}{unit}{total}", metric.name.replace('.', "_"))
}

fn sum(metrics: &[Metric], name: &str) -> f64 {
    let number = |point: &NumberDataPoint| match point.value {
        Some(Value::AsDouble(value)) => value,
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        Some(Value::AsInt(value)) => value as f64,
        None => panic!("{point:?}"),
    };
    let value = |metric: &Metric| -> f64 {
        match &metric.data {
            Some(Data::Sum(sum)) => sum.data_points.iter().map(number).sum(),
            Some(Data::Gauge(gauge)) => gauge.data_points.iter().map(number).sum(),
            #[expect(clippy::cast_precision_loss, reason = "small counts")]
            Some(Data::Histogram(histogram)) => histogram.data_points.iter().map(|point| point.count as f64).sum(),
            other => panic!("{other:?}"),
        }
    };
    metrics.iter().filter(|metric| prometheus_name(metric) == name).map(value).sum()
}

/// A collector gets the families of a scrape with the same values, at an interval and at the end.
async fn assert_gets_all(settings: &SupervisorSettings, received: &Received) {
    let mut supervisor = SupervisorProcess::with_settings(settings);
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    run(&client, shell(&session, "true")).await;
    wait_until("a message has the run", || sum(&received.last(), "proctor_runs_total") == 1.0);
    let (scrape, metrics) = (MetricsScrape::of(metrics_address(&supervisor)), received.last());
    let names: BTreeSet<String> = metrics.iter().map(prometheus_name).collect();
    let empty = |name: &String| scrape.sum(name, &[]) == 0.0 && scrape.sum(&format!("{name}_count"), &[]) == 0.0;
    let missing: Vec<&String> = scrape.kinds.keys().filter(|name| !names.contains(*name) && !empty(name)).collect();
    assert_eq!(missing, Vec::<&String>::new());
    assert!(names.iter().all(|name| scrape.kinds.contains_key(name)), "{names:?}");
    for name in
        ["proctor_host_budget_memory_bytes", "proctor_sessions", "proctor_host_budget_cpus", "proctor_build_info"]
    {
        assert_eq!(sum(&metrics, name), scrape.sum(name, &[]), "{name}");
    }
    assert_eq!(sum(&metrics, "proctor_run_duration_seconds"), 1.0);
    run(&client, shell(&session, "true")).await;
    drop(client);
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
    assert_eq!(sum(&received.last(), "proctor_runs_total"), 2.0, "the end of the supervisor sends the last counts");
    let messages = received.messages();
    assert!(messages.iter().all(|(key, _)| key == "a key"), "{:?}", messages[0].0);
    let resource = messages[0].1.resource_metrics[0].resource.clone().unwrap();
    assert!(resource.attributes.iter().any(|pair| pair.key == "service.name"), "{resource:?}");
    assert!(!supervisor.log().contains("a key"), "{}", supervisor.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_what_a_scrape_shows_over_grpc() {
    let (address, received) = grpc(None).await;
    assert_gets_all(&settings("http", address, "interval = \"1s\""), &received).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_what_a_scrape_shows_over_http() {
    let (address, received) = http();
    let settings = settings("http", address, "interval = \"1s\"\nprotocol = \"http/protobuf\"");
    assert_gets_all(&settings, &received).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_with_tls_needs_a_certificate_of_the_configured_authority() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (address, received) = grpc(Some(Identity::from_pem(cert.pem(), signing_key.serialize_pem()))).await;
    let dir = tempfile::tempdir().unwrap();
    let authority = |name: &str, pem: String| {
        std::fs::write(dir.path().join(name), pem).unwrap();
        settings("https", address, &format!("interval = \"1s\"\nca = {:?}", dir.path().join(name)))
    };
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let supervisor = SupervisorProcess::with_settings(&authority("other.pem", other.cert.pem()));
    wait_until("the loss is logged", || supervisor.log().contains("metrics did not reach the collector"));
    assert_eq!(received.messages().len(), 0);
    drop(supervisor);
    let supervisor = SupervisorProcess::with_settings(&authority("own.pem", cert.pem()));
    wait_until("the collector has a message", || !received.messages().is_empty());
    assert!(!supervisor.log().contains("did not reach"), "{}", supervisor.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_holds_up_neither_runs_nor_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (connected, connections) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // They stay open, and nothing is read.
        let streams: Vec<TcpStream> =
            listener.incoming().map_while(Result::ok).inspect(|_| _ = connected.try_send(())).collect();
        drop(streams);
    });
    let settings = settings("http", address, "interval = \"1s\"\ntimeout = \"1h\"");
    let mut supervisor = SupervisorProcess::with_settings(&settings);
    connections.recv().unwrap();
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    let report = run(&client, shell(&session, "true")).await;
    assert_eq!(report.report().outcome, i32::from(proctor_proto::v1::Outcome::Passed));
    scrape_until(metrics_address(&supervisor), "scrapes go on", |scrape| scrape.sum("proctor_runs_total", &[]) == 1.0);
    drop(client);
    // It would take an hour.
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_be_used_are_logged_and_the_supervisor_serves() {
    let address = "127.0.0.1:1".parse().unwrap();
    let mut headers = settings("http", address, "");
    headers.env = vec![("OTEL_EXPORTER_OTLP_HEADERS".to_owned(), "secret".into())];
    let no_certificate = settings("https", address, "protocol = \"http/protobuf\"\nca = \"/etc/passwd\"");
    for (settings, text) in [(headers, "name=value"), (no_certificate, "certificate")] {
        let mut supervisor = SupervisorProcess::with_settings(&settings);
        wait_until("the problem is logged", || supervisor.log().contains("no metrics are sent"));
        let log = supervisor.log();
        assert!(log.contains(text) && !log.contains("secret"), "{log}");
        assert_eq!(MetricsScrape::of(metrics_address(&supervisor)).sum("proctor_draining", &[]), 0.0);
        assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
    }
}

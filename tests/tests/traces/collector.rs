//! A collector of traces that listens on loopback, over gRPC or HTTP, and ones that misbehave.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{Span as WireSpan, status::StatusCode};
use proctor_tests::process::wait_until;
use prost::Message;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A span as the collector got it. Attributes are texts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for one that begins its trace.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) is_error: bool,
    pub(crate) state: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) events: Vec<(String, BTreeMap<String, String>)>,
    pub(crate) resource: BTreeMap<String, String>,
}

impl Span {
    /// An attribute; empty if the span does not have it.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// What a collector has got.
#[derive(Debug, Clone, Default)]
struct Received {
    spans: Arc<Mutex<Vec<Span>>>,
    headers: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

/// A collector.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    received: Received,
}

/// What a collector does with each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Reads requests of HTTP and takes their spans.
    Takes,
    /// Says nothing.
    Hangs,
    /// Closes it at once.
    Closes,
    /// Answers what is neither HTTP nor gRPC.
    AnswersNonsense,
    /// Answers HTTP without end.
    Floods,
    /// Refuses the spans.
    Refuses,
}

impl Collector {
    /// A collector over gRPC.
    pub(crate) async fn grpc() -> Collector {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Received::default());
        let service = TraceServiceServer::new(received.clone());
        let serving = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        Collector { address, received }
    }

    /// A collector with a thread for each connection.
    pub(crate) fn with_behaviour(behaviour: Behaviour) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Received::default());
        let shared = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let shared = shared.clone();
                // A caller that leaves ends it.
                std::thread::spawn(move || _ = serve(behaviour, stream, &shared));
            }
        });
        Collector { address, received }
    }

    /// URL of the collector.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.received.spans.lock().unwrap().clone()
    }

    /// Header lines of all requests of HTTP so far.
    pub(crate) fn headers(&self) -> Vec<String> {
        self.received.headers.lock().unwrap().clone()
    }

    /// Connections so far, of a collector with a behaviour.
    pub(crate) fn connections(&self) -> usize {
        self.received.connections.load(Ordering::Relaxed)
    }

    /// Waits until the spans are as wanted.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        wait_until(what, || wanted(&self.spans()));
        self.spans()
    }

    /// Waits for the span of a run and for all that its trace has by then, and returns the trace.
    pub(crate) fn trace_of_run(&self, run: &str) -> Vec<Span> {
        let is_run = |span: &Span| span.name == "run" && span.get("proctor.run.id") == run;
        // A request, which may have a parent elsewhere, ends when the client has the answer: after the spans below it.
        let is_request = |span: &Span| span.name.starts_with("proctor");
        let spans = self.wait_for("the span of the run", |spans| {
            let has_parent = |span: &Span| is_request(span) || spans.iter().any(|other| other.id == span.parent);
            let run = spans.iter().find(|span| is_run(span));
            run.is_some_and(|run| spans.iter().filter(|span| span.trace == run.trace).all(has_parent))
        });
        let trace = spans.iter().find(|span| is_run(span)).unwrap().trace.clone();
        spans.into_iter().filter(|span| span.trace == trace).collect()
    }
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.take(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Received {
    fn take(&self, request: ExportTraceServiceRequest) {
        let mut spans = self.spans.lock().unwrap();
        for of_resource in request.resource_spans {
            let resource = attributes(of_resource.resource.map(|resource| resource.attributes).unwrap_or_default());
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                spans.push(read_span(span, &resource));
            }
        }
    }
}

fn read_span(span: WireSpan, resource: &BTreeMap<String, String>) -> Span {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Span {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        start_ns: span.start_time_unix_nano,
        end_ns: span.end_time_unix_nano,
        is_error: span.status.is_some_and(|status| status.code() == StatusCode::Error),
        state: span.trace_state,
        attributes: attributes(span.attributes),
        events: span.events.into_iter().map(|event| (event.name, attributes(event.attributes))).collect(),
        resource: resource.clone(),
        name: span.name,
    }
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, text(pair.value))).collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        other => format!("{other:?}"),
    }
}

fn serve(behaviour: Behaviour, mut stream: TcpStream, received: &Received) -> std::io::Result<()> {
    match behaviour {
        Behaviour::Closes => return Ok(()),
        Behaviour::AnswersNonsense => return stream.write_all(&[0xff; 4_096]),
        Behaviour::Hangs => {
            // Until the client closes.
            return stream.read_to_end(&mut Vec::new()).map(|_| ());
        }
        Behaviour::Takes | Behaviour::Floods | Behaviour::Refuses => {}
    }
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut len = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            len = value.trim().parse().unwrap();
        }
        received.headers.lock().unwrap().push(line.to_owned());
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body)?;
    match behaviour {
        Behaviour::Refuses => stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nno\x1b[2J"),
        Behaviour::Floods => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 65_536])?;
            }
        }
        _ => {
            received.take(ExportTraceServiceRequest::decode(&*body).unwrap());
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        }
    }
}

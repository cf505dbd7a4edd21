//! Sends the metrics to a collector, at an interval and once more at the end of the supervisor. It has a thread of its
//! own: however slow the collector is, no caller and no scrape waits for it, and one message at a time is on its way.

use super::encoding::{Scrape, encode};
use super::http_client::CollectorClient;
use super::losses::Losses;
use super::resource::resource;
use super::settings::{CollectorSettings, ConfiguredCollector, Signal, milliseconds, trimmed};
use crate::clock::Clock;
use crate::config::{MetricsTable, OtlpProtocol};
use crate::telemetry::collector::MetricsCollector;
use opentelemetry_http::{Bytes, HttpClient, Request};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use percent_encoding::percent_decode_str;
use proctor_core::bounds::METRICS_INTERVAL_MIN_MS;
use proctor_core::timestamp::Timestamp;
use prost::Message;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig};

/// Default of the time between two messages, as OpenTelemetry has it.
const INTERVAL: Duration = Duration::from_secs(60);

/// Longest time that the end of the supervisor waits for the collector: for the message on its way, and for the last one.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Where metrics are sent, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsSettings {
    /// Where they are sent.
    pub collector: CollectorSettings,
    /// Time between two messages.
    pub interval: Duration,
}

impl MetricsSettings {
    /// The settings by a host file's table and the environment; `None` if no metrics are sent.
    ///
    /// # Errors
    /// A variable has a value that proctor does not know.
    pub fn resolve(
        table: &MetricsTable,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<MetricsSettings>, String> {
        let env = trimmed(env);
        let MetricsTable { endpoint, protocol, interval, timeout, ca } = table.clone();
        let configured = ConfiguredCollector { endpoint, protocol, timeout, ca };
        let Some(collector) = CollectorSettings::resolve(Signal::Metrics, configured, &env)? else { return Ok(None) };
        let interval = interval.map(|interval| Duration::from_millis(interval.ms));
        let interval = interval.or_else(|| env("OTEL_METRIC_EXPORT_INTERVAL").and_then(milliseconds));
        let interval = interval.unwrap_or(INTERVAL).max(Duration::from_millis(METRICS_INTERVAL_MIN_MS));
        Ok(Some(MetricsSettings { collector, interval }))
    }
}

/// The sending of metrics, until [`finish`](MetricsExport::finish).
#[derive(Debug)]
pub struct MetricsExport {
    /// Kept for its threads.
    _runtime: BackgroundRuntime,
    stop: oneshot::Sender<()>,
    done: oneshot::Receiver<()>,
}

/// A runtime that may be dropped within another one, which must not wait for its threads.
#[derive(Debug)]
struct BackgroundRuntime(Option<Runtime>);

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl MetricsExport {
    /// Starts to send what `collector` reads. No connection is made before the first interval has passed.
    ///
    /// # Errors
    /// A text for the log: the authorities of the collector, its headers, or threads.
    pub fn start(
        settings: &MetricsSettings,
        collector: MetricsCollector,
        clock: Clock,
    ) -> Result<MetricsExport, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("metrics")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let handle = runtime.handle().clone();
        let runtime = BackgroundRuntime(Some(runtime));
        let transport = {
            // The connections of gRPC belong to the runtime in which they are prepared.
            let _guard = handle.enter();
            Transport::new(&settings.collector)?
        };
        let (stop, stopped) = oneshot::channel();
        let (finished, done) = oneshot::channel();
        let exporter =
            Exporter { transport, timeout: settings.collector.timeout, collector, clock, losses: Losses::new() };
        let interval = settings.interval;
        handle.spawn(async move {
            exporter.export_until(stopped, interval).await;
            _ = finished.send(());
        });
        Ok(MetricsExport { _runtime: runtime, stop, done })
    }

    /// Sends the metrics a last time, within a limit. Call it while their collector still reads them.
    pub async fn finish(self) {
        drop(self.stop);
        // What could not be sent is in the log.
        _ = timeout(FLUSH_TIMEOUT, self.done).await;
    }
}

struct Exporter {
    transport: Transport,
    timeout: Duration,
    collector: MetricsCollector,
    clock: Clock,
    losses: Losses,
}

impl Exporter {
    async fn export_until(self, mut stopped: oneshot::Receiver<()>, interval: Duration) {
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_last = false;
        while !is_last {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = &mut stopped => is_last = true,
            }
            let sent = timeout(self.timeout, self.export()).await;
            if let Err(why) = sent.unwrap_or_else(|_| Err(format!("not within {} ms", self.timeout.as_millis())))
                && let Some((lost, error)) = self.losses.add(1, why)
            {
                tracing::warn!(
                    error,
                    messages = lost,
                    "metrics did not reach the collector; further losses are logged in a minute"
                );
            }
        }
    }

    async fn export(&self) -> Result<(), String> {
        let exposition = self.collector.collect_anew().await.ok_or("the metrics cannot be read")?;
        let read_at = self.clock.now();
        let scrape = Scrape {
            resource: (&resource()).into(),
            started_at: Timestamp(read_at.0.saturating_sub(self.clock.elapsed_ms())),
            read_at,
        };
        let answer = self.transport.send(encode(exposition.samples(), &scrape)).await?;
        match answer.partial_success {
            Some(ExportMetricsPartialSuccess { rejected_data_points: rejected @ 1.., error_message }) => {
                Err(format!("the collector rejected {rejected} data points: {error_message}"))
            }
            _ => Ok(()),
        }
    }
}

enum Transport {
    Grpc { client: MetricsServiceClient<Channel>, metadata: MetadataMap },
    Http { client: CollectorClient, endpoint: String, headers: HeaderMap },
}

impl Transport {
    fn new(settings: &CollectorSettings) -> Result<Transport, String> {
        let authorities = settings.authorities()?;
        let headers = parse_headers(settings.headers.as_deref().unwrap_or_default())?;
        if settings.protocol == OtlpProtocol::HttpProtobuf {
            let client = CollectorClient::new(authorities.as_deref())?;
            return Ok(Transport::Http { client, endpoint: settings.endpoint.clone(), headers });
        }
        let endpoint = Channel::from_shared(settings.endpoint.clone()).map_err(|error| error.to_string())?;
        let endpoint = match authorities {
            Some(pem) => endpoint
                .tls_config(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)))
                .map_err(|error| error.to_string())?,
            None => endpoint,
        };
        let client = MetricsServiceClient::new(endpoint.connect_lazy());
        Ok(Transport::Grpc { client, metadata: MetadataMap::from_headers(headers) })
    }

    async fn send(&self, message: ExportMetricsServiceRequest) -> Result<ExportMetricsServiceResponse, String> {
        match self {
            Transport::Grpc { client, metadata } => {
                let mut request = tonic::Request::new(message);
                *request.metadata_mut() = metadata.clone();
                let answer = client.clone().export(request).await;
                answer.map(tonic::Response::into_inner).map_err(|status| status.to_string())
            }
            Transport::Http { client, endpoint, headers } => {
                let mut request = Request::post(endpoint)
                    .header(CONTENT_TYPE, "application/x-protobuf")
                    .body(Bytes::from(message.encode_to_vec()))
                    .map_err(|error| error.to_string())?;
                request.headers_mut().extend(headers.clone());
                let answer = client.send_bytes(request).await.map_err(|error| error.to_string())?;
                if !answer.status().is_success() {
                    return Err(format!("the collector answered {}", answer.status()));
                }
                ExportMetricsServiceResponse::decode(answer.into_body()).map_err(|error| error.to_string())
            }
        }
    }
}

/// The headers of `OTEL_EXPORTER_OTLP_HEADERS`: `name=value,name=value`, with values encoded as in URLs. No error names a
/// value, which may be a secret.
fn parse_headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let malformed = || "OTEL_EXPORTER_OTLP_HEADERS: expected name=value,name=value".to_owned();
        let (name, value) = pair.split_once('=').ok_or_else(malformed)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| malformed())?;
        let name: HeaderName = name.trim().parse().map_err(|_| malformed())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| malformed())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_decoded_and_no_error_has_a_value() {
        let headers = parse_headers(" api-key = a%20b , x=1,").unwrap();
        let pairs: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(pairs, [("api-key", "a b"), ("x", "1")]);
        for wrong in ["secret", "a b=secret", "x=secret%00", "x=%ffsecret"] {
            let error = parse_headers(wrong).unwrap_err();
            assert!(!error.contains("secret") && error.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{error}");
        }
    }

    #[test]
    fn the_interval_is_bounded() {
        let resolve = |table: &str, interval: &str| {
            let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1"), ("OTEL_METRIC_EXPORT_INTERVAL", interval)];
            let of = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            MetricsSettings::resolve(&toml::from_str(table).unwrap(), of).unwrap().unwrap().interval.as_millis()
        };
        assert_eq!([resolve("", ""), resolve("", "5000"), resolve("", "0")], [60_000, 5_000, 1_000]);
        assert_eq!(resolve("interval = \"2s\"", "5000"), 2_000);
        let table = toml::from_str("interval = \"2s\"").unwrap();
        assert_eq!(MetricsSettings::resolve(&table, |_| None), Ok(None));
    }
}

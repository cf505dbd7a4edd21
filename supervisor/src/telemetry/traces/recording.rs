//! The recording of spans by this process, from the start of its log to the flush at its end.

use super::TARGET;
use super::exporter::{BoundedExporter, BoundedProcessor};
use super::settings::TraceSettings;
use super::span_counts::COUNTS;
use crate::config::OtlpProtocol;
use crate::telemetry::otlp::http_client::CollectorClient;
use crate::telemetry::otlp::resource::resource;
use crate::telemetry::otlp::settings::CollectorSettings;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{
    Protocol, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
    tonic_types::transport::{Certificate, ClientTlsConfig},
};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanLimits};
use proctor_core::bounds::TRACE_TESTS_MAX;
use std::time::Duration;
use tokio::runtime::Runtime;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

/// Longest time that the end of the process waits for the collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Spans in one message to the collector, as OpenTelemetry has it.
const BATCH_SPANS: usize = 512;

/// Events of a span: those of tests, and of the layers of a sandbox.
const SPAN_EVENTS: usize = TRACE_TESTS_MAX + 32;

/// Attributes of a span or event: more than any has.
const ATTRIBUTES: u32 = 32;

/// The recording of spans. Nothing is recorded after [`Recording::finish`].
#[derive(Debug)]
pub struct Recording {
    provider: SdkTracerProvider,
    /// Sends the spans. It is not that of the runs: what a collector does to a connection happens here.
    runtime: Runtime,
}

impl Recording {
    /// Starts the recording. No connection is made before a span has ended.
    ///
    /// # Errors
    /// A text for the log: the authorities of the collector, or threads.
    pub fn start(settings: &TraceSettings) -> Result<Recording, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        // The connections of gRPC belong to the runtime in which they are prepared.
        let exporter = {
            let _guard = runtime.enter();
            exporter(&settings.collector)?
        };
        let exporter = BoundedExporter::new(exporter, runtime.handle().clone(), settings.collector.timeout);
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(settings.queue_spans)
            .with_max_export_batch_size(BATCH_SPANS.min(settings.queue_spans))
            .with_scheduled_delay(settings.interval)
            .build();
        let inner = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let limits = SpanLimits {
            max_events_per_span: u32::try_from(SPAN_EVENTS).unwrap_or(u32::MAX),
            max_attributes_per_span: ATTRIBUTES,
            max_attributes_per_event: ATTRIBUTES,
            ..SpanLimits::default()
        };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BoundedProcessor { inner, queue_spans: settings.queue_spans, counts: &COUNTS })
            .with_sampler(settings.sampler)
            .with_span_limits(limits)
            .with_resource(resource())
            .build();
        Ok(Recording { provider, runtime })
    }

    /// The layer that records the spans of this program, and nothing else.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let layer: OpenTelemetryLayer<S, SdkTracer> = OpenTelemetryLayer::new(self.provider.tracer("proctor"));
        layer
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_level(false)
            .with_context_activation(false)
            .with_filter(Targets::new().with_target(TARGET, LevelFilter::INFO))
    }

    /// Sends what has been recorded, within a limit.
    pub fn finish(self) {
        // The exporter has logged what it could not send.
        _ = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        self.runtime.shutdown_background();
    }
}

fn exporter(settings: &CollectorSettings) -> Result<SpanExporter, String> {
    let authorities = settings.authorities()?;
    let exporter = match settings.protocol {
        OtlpProtocol::Grpc => {
            let builder = SpanExporter::builder()
                .with_tonic()
                .with_endpoint(settings.endpoint.as_str())
                .with_timeout(settings.timeout);
            match authorities {
                Some(pem) => {
                    builder.with_tls_config(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))).build()
                }
                None => builder.build(),
            }
        }
        OtlpProtocol::HttpProtobuf => SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(settings.endpoint.as_str())
            .with_timeout(settings.timeout)
            .with_http_client(CollectorClient::new(authorities.as_deref())?)
            .build(),
    };
    exporter.map_err(|error| error.to_string())
}

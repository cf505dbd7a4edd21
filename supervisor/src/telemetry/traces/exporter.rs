//! Sends ended spans to the collector from a thread of its own, and counts those that it cannot send. However slow the
//! collector is, the end of a span takes a place in a queue or none.

use super::span_counts::{COUNTS, SpanCounts};
use crate::telemetry::otlp::losses::Losses;
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter as OtlpExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Sends batches on a runtime of its own, within a time.
#[derive(Debug)]
pub(super) struct BoundedExporter {
    inner: Arc<OtlpExporter>,
    runtime: Handle,
    timeout: Duration,
    losses: Losses,
}

impl BoundedExporter {
    /// Each batch is sent within `timeout`, on `runtime`.
    pub(super) fn new(inner: OtlpExporter, runtime: Handle, timeout: Duration) -> BoundedExporter {
        BoundedExporter { inner: Arc::new(inner), runtime, timeout, losses: Losses::new() }
    }

    fn log(&self, spans: usize, error: &OTelSdkError) {
        if let Some((lost, error)) = self.losses.add(spans as u64, error) {
            tracing::warn!(
                error,
                spans = lost,
                "spans did not reach the collector; further losses are logged in a minute"
            );
        }
    }
}

impl SpanExporter for BoundedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (spans, inner, limit) = (batch.len(), Arc::clone(&self.inner), self.timeout);
        let sending = self.runtime.spawn(async move {
            let sent = tokio::time::timeout(limit, inner.export(batch)).await;
            sent.unwrap_or(Err(OTelSdkError::Timeout(limit)))
        });
        let sent = sending.await.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())));
        COUNTS.record_export(spans, sent.is_ok());
        if let Err(error) = &sent {
            self.log(spans, error);
        }
        sent
    }

    fn set_resource(&mut self, resource: &Resource) {
        // Nothing is sent yet.
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.set_resource(resource);
        }
    }
}

/// Hands ended spans to the exporter's thread, if the queue has a place.
#[derive(Debug)]
pub(super) struct BoundedProcessor {
    pub(super) inner: BatchSpanProcessor,
    /// Spans that may wait, those being sent included.
    pub(super) queue_spans: usize,
    pub(super) counts: &'static SpanCounts,
}

impl SpanProcessor for BoundedProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.counts.enqueue(self.queue_spans) {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

//! Sends ended spans to the collector from a thread of its own, and counts those that it cannot send. However slow the
//! collector is, the end of a span takes a place in a queue or none.

use super::span_counts::{COUNTS, SpanCounts};
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter as OtlpExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};
use proctor_core::bounds::clip;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Shortest time between two log lines about spans that were not sent.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Longest text of an error in the log, in bytes: the collector may have written it.
const ERROR_BYTES_MAX: usize = 512;

/// Sends batches on a runtime of its own, within a time.
#[derive(Debug)]
pub(super) struct BoundedExporter {
    inner: Arc<OtlpExporter>,
    runtime: Handle,
    timeout: Duration,
    log: FailureLog,
}

impl BoundedExporter {
    /// Each batch is sent within `timeout`, on `runtime`.
    pub(super) fn new(inner: OtlpExporter, runtime: Handle, timeout: Duration) -> BoundedExporter {
        BoundedExporter { inner: Arc::new(inner), runtime, timeout, log: FailureLog::new() }
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
            self.log.record(spans, error);
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

/// Logs lost spans, at most once a minute.
#[derive(Debug)]
struct FailureLog {
    created: Instant,
    /// Milliseconds from the creation until the next line may be written.
    next_ms: AtomicU64,
    lost: AtomicU64,
}

impl FailureLog {
    fn new() -> FailureLog {
        FailureLog { created: Instant::now(), next_ms: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    fn record(&self, spans: usize, error: &OTelSdkError) {
        if let Some(lost) = self.due(spans as u64, self.created.elapsed()) {
            let error = clip(error.to_string(), ERROR_BYTES_MAX);
            tracing::warn!(
                error,
                spans = lost,
                "spans did not reach the collector; further losses are logged in a minute"
            );
        }
    }

    /// The number of spans lost since the last line, if another one is due.
    fn due(&self, spans: u64, now: Duration) -> Option<u64> {
        let lost = self.lost.fetch_add(spans, Ordering::Relaxed) + spans;
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        if now_ms < self.next_ms.load(Ordering::Relaxed) {
            return None;
        }
        let interval_ms = u64::try_from(LOG_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        self.next_ms.store(now_ms.saturating_add(interval_ms), Ordering::Relaxed);
        self.lost.fetch_sub(lost, Ordering::Relaxed);
        Some(lost)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_lost_spans_once_a_minute_with_their_number() {
        let log = FailureLog::new();
        let lines: Vec<Option<u64>> =
            [0, 1, 30, 59, 60, 61, 200].map(|at| log.due(10, Duration::from_secs(at))).to_vec();
        assert_eq!(lines, [Some(10), None, None, None, Some(40), None, Some(20)]);
    }
}

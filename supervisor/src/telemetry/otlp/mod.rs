//! OTLP: what sending traces and metrics to a collector has in common, and the metrics.
//!
//! [`settings`] joins host file and environment, `http_client` is the client of both, `losses` keeps the log short while a
//! collector takes nothing, `resource` says what all that is sent is about, and [`metrics`] encodes and sends the samples
//! of a scrape. Spans are sent by [`traces`](super::traces).

mod encoding;
pub(super) mod http_client;
pub(super) mod losses;
pub mod metrics;
pub(super) mod resource;
pub mod settings;

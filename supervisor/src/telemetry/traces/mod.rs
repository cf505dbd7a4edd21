//! Traces: from the `tracing` spans that this room opens to a collector over OTLP. Off unless the host file or the
//! standard `OTEL_*` variables name a collector.
//!
//! [`request`] and [`run`] open the spans of a call and of a run; nothing outside of this room knows of OpenTelemetry.
//! [`settings`] joins host file and environment, [`recording`] owns the provider from start to flush, `sampler` bounds
//! how much is recorded, `exporter` sends and counts, and `context` reads and writes W3C Trace Context. All spans have
//! the target [`TARGET`], which no log has. Without a collector no layer records them: the callsites are disabled, and
//! each span is a load of an atomic.
//!
//! No span has a command line, an environment or a path of the host. A caller's context is a parent link and nothing
//! else: its flag cannot make more be recorded than the operator allows, its `tracestate` is bounded, its baggage is
//! not taken over.

mod context;
mod exporter;
pub mod recording;
pub mod request;
pub mod run;
mod sampler;
pub mod settings;
pub mod span_counts;

pub use context::adopt_parent;

/// Target of every span of a trace.
pub const TARGET: &str = "proctor::trace";

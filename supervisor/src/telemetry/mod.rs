//! What the operator sees of a supervisor from outside: the metrics at `/metrics`, and traces.
//!
//! [`counters`] counts what nothing else counts, [`metric`] is the one table of names, [`collector`] reads all facts
//! for a scrape, [`exposition`] writes them in the formats of Prometheus, [`listener`] serves them over HTTP,
//! and [`otlp`] sends them to a collector. No metric has a label whose values a caller chooses: no test's name, no
//! path, no session. [`traces`] has the spans of calls and runs.

pub mod collector;
pub mod counters;
mod exposition;
pub mod failure_streak;
pub mod listener;
pub mod metric;
pub mod otlp;
mod process;
pub mod traces;

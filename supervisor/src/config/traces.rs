//! The `[telemetry.traces]` table: the collector of traces, and how many of them it gets.

use super::otlp::{OtlpProtocol, collector_problems, problem};
use super::units::Duration;
use super::{Problem, changed_keys};
use proctor_core::bounds::TRACE_QUEUE_SPANS_MAX;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Where traces go. What is left out here is taken from the standard `OTEL_*` variables.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracesTable {
    /// URL of the collector. Without it, here and in the environment, there are no traces.
    pub endpoint: Option<String>,
    /// Encoding and transport.
    pub protocol: Option<OtlpProtocol>,
    /// Part of the traces that are recorded, from 0 to 1.
    pub sample_ratio: Option<f64>,
    /// Longest time for sending a batch, its retries included.
    pub timeout: Option<Duration>,
    /// Ended spans that may wait for the collector; further ones are dropped and counted.
    pub queue_spans: Option<usize>,
    /// PEM file with the certificates of the authorities that may sign the collector's.
    pub ca: Option<PathBuf>,
}

impl TracesTable {
    /// The table of a host file that is checked later; its defaults if it cannot be read. The recording of spans
    /// begins before anything else.
    #[must_use]
    pub fn peek(host_file: &Path) -> TracesTable {
        #[derive(Default, Deserialize)]
        struct Telemetry {
            #[serde(default)]
            traces: TracesTable,
        }
        #[derive(Default, Deserialize)]
        struct HostFile {
            #[serde(default)]
            telemetry: Telemetry,
        }
        let text = fs::read_to_string(host_file).unwrap_or_default();
        toml::from_str::<HostFile>(&text).unwrap_or_default().telemetry.traces
    }

    /// The keys that differ in `new`.
    pub(super) fn changed_keys(&self, new: &TracesTable) -> Vec<&'static str> {
        // The pattern lists every field, so that a new one cannot be forgotten here.
        let TracesTable { endpoint, protocol, sample_ratio, timeout, queue_spans, ca } = self;
        changed_keys([
            ("telemetry.traces.endpoint", *endpoint != new.endpoint),
            ("telemetry.traces.protocol", *protocol != new.protocol),
            ("telemetry.traces.sample_ratio", *sample_ratio != new.sample_ratio),
            ("telemetry.traces.timeout", *timeout != new.timeout),
            ("telemetry.traces.queue_spans", *queue_spans != new.queue_spans),
            ("telemetry.traces.ca", *ca != new.ca),
        ])
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        const TABLE: &str = "telemetry.traces";
        let ratio = self.sample_ratio.filter(|ratio| !(0.0..=1.0).contains(ratio));
        let queue = self.queue_spans.filter(|spans| !(1..=TRACE_QUEUE_SPANS_MAX).contains(spans));
        let mut problems = collector_problems(TABLE, self.endpoint.as_deref(), self.ca.as_deref());
        problems.extend(ratio.map(|ratio| problem(TABLE, "sample_ratio", format!("must be from 0 to 1, got {ratio}"))));
        problems.extend(queue.map(|spans| {
            problem(TABLE, "queue_spans", format!("must be from 1 to {TRACE_QUEUE_SPANS_MAX}, got {spans}"))
        }));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let table = toml::from_str::<TracesTable>(text).unwrap();
        table.problems().into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn checks_every_value() {
        assert!(problems("").is_empty());
        let good = "endpoint = \"https://collector:4318/v1/traces\"\nprotocol = \"http/protobuf\"\nsample_ratio = 0.5\n\
                    timeout = \"2s\"\nqueue_spans = 16384\nca = \"/etc/passwd\"";
        assert_eq!(problems(good), Vec::<String>::new());
        for (text, part) in [
            ("endpoint = \"collector:4317\"", "expected something like"),
            ("endpoint = \"ftp://collector\"", "expected something like"),
            ("endpoint = \"http://user:word@collector\"", "OTEL_EXPORTER_OTLP_HEADERS"),
            ("endpoint = \"http://a b\"", "is no URL"),
            ("sample_ratio = 1.5", "from 0 to 1"),
            ("sample_ratio = nan", "from 0 to 1"),
            ("queue_spans = 0", "from 1 to 16384"),
            ("queue_spans = 16385", "from 1 to 16384"),
            ("ca = \"ca.pem\"", "absolute"),
            ("ca = \"/nowhere/ca.pem\"", "No such file"),
        ] {
            let found = problems(text);
            assert!(found.len() == 1 && found[0].contains(part), "{text}: {found:?}");
        }
        assert!(toml::from_str::<TracesTable>("protocol = \"http/json\"").is_err());
    }

    #[test]
    fn a_host_file_that_cannot_be_read_has_no_traces() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("proctor.toml");
        assert_eq!(TracesTable::peek(&file), TracesTable::default());
        fs::write(&file, "[telemetry.traces]\nendpoint = \"http://[::1]:1\"\n[[tenant]]\nid = 7\n").unwrap();
        assert_eq!(TracesTable::peek(&file).endpoint.as_deref(), Some("http://[::1]:1"));
        fs::write(&file, "[telemetry.traces]\nendpoint = 7\n").unwrap();
        assert_eq!(TracesTable::peek(&file), TracesTable::default());
    }
}

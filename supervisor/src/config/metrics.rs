//! The `[telemetry.metrics]` table: the collector that metrics are sent to, beside `/metrics`.

use super::otlp::{OtlpProtocol, collector_problems, problem};
use super::units::Duration;
use super::{Problem, changed_keys};
use proctor_core::bounds::METRICS_INTERVAL_MIN_MS;
use serde::Deserialize;
use std::path::PathBuf;

/// Where metrics are sent. What is left out here is taken from the standard `OTEL_*` variables.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsTable {
    /// URL of the collector. Without it, here and in the environment, no metrics are sent.
    pub endpoint: Option<String>,
    /// Encoding and transport.
    pub protocol: Option<OtlpProtocol>,
    /// Time between two messages.
    pub interval: Option<Duration>,
    /// Longest time for sending one message.
    pub timeout: Option<Duration>,
    /// PEM file with the certificates of the authorities that may sign the collector's.
    pub ca: Option<PathBuf>,
}

impl MetricsTable {
    /// The keys that differ in `new`.
    pub(super) fn changed_keys(&self, new: &MetricsTable) -> Vec<&'static str> {
        // The pattern lists every field, so that a new one cannot be forgotten here.
        let MetricsTable { endpoint, protocol, interval, timeout, ca } = self;
        changed_keys([
            ("telemetry.metrics.endpoint", *endpoint != new.endpoint),
            ("telemetry.metrics.protocol", *protocol != new.protocol),
            ("telemetry.metrics.interval", *interval != new.interval),
            ("telemetry.metrics.timeout", *timeout != new.timeout),
            ("telemetry.metrics.ca", *ca != new.ca),
        ])
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        const TABLE: &str = "telemetry.metrics";
        let mut problems = collector_problems(TABLE, self.endpoint.as_deref(), self.ca.as_deref());
        let interval = self.interval.filter(|interval| interval.ms < METRICS_INTERVAL_MIN_MS);
        problems.extend(interval.map(|interval| {
            problem(TABLE, "interval", format!("must be at least {METRICS_INTERVAL_MIN_MS}ms, got {}ms", interval.ms))
        }));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let table = toml::from_str::<MetricsTable>(text).unwrap();
        table.problems().into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn checks_every_value() {
        let good = "endpoint = \"https://collector:4318\"\nprotocol = \"http/protobuf\"\ninterval = \"1s\"\n\
                    timeout = \"2s\"\nca = \"/etc/passwd\"";
        assert_eq!([problems(""), problems(good)], [Vec::<String>::new(), Vec::new()]);
        for (text, expected) in [
            ("endpoint = \"collector:4317\"", "telemetry.metrics.endpoint: expected something like"),
            ("interval = \"999ms\"", "telemetry.metrics.interval: must be at least 1000ms, got 999ms"),
            ("ca = \"ca.pem\"", "telemetry.metrics.ca: must be an absolute path"),
        ] {
            let found = problems(text);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{text}: {found:?}");
        }
        assert!(toml::from_str::<MetricsTable>("sample_ratio = 1").is_err());
    }
}

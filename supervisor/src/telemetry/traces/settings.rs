//! What is recorded and where it goes: the host file first, then the standard `OTEL_*` variables.

use super::sampler::BoundedSampler;
use crate::config::TracesTable;
use crate::telemetry::otlp::settings::{CollectorSettings, ConfiguredCollector, Signal, milliseconds, trimmed};
use proctor_core::bounds::{TRACE_QUEUE_SPANS, TRACE_QUEUE_SPANS_MAX};
use std::time::Duration;

/// Default of the pause between two batches, as OpenTelemetry has it.
const EXPORT_INTERVAL: Duration = Duration::from_secs(5);

/// The settings of a process that records traces.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// Where they go.
    pub collector: CollectorSettings,
    /// Longest time that an ended span waits before its batch is sent.
    pub interval: Duration,
    /// Ended spans that may wait.
    pub queue_spans: usize,
    /// What is recorded.
    pub sampler: BoundedSampler,
}

impl TraceSettings {
    /// The settings by a host file's table and the environment; `None` if there are no traces.
    ///
    /// # Errors
    /// A variable has a value that proctor does not know.
    pub fn resolve(table: &TracesTable, env: impl Fn(&str) -> Option<String>) -> Result<Option<TraceSettings>, String> {
        let env = trimmed(env);
        let TracesTable { endpoint, protocol, timeout, ca, .. } = table.clone();
        let configured = ConfiguredCollector { endpoint, protocol, timeout, ca };
        let Some(collector) = CollectorSettings::resolve(Signal::Traces, configured, &env)? else { return Ok(None) };
        let interval = env("OTEL_BSP_SCHEDULE_DELAY").and_then(milliseconds).unwrap_or(EXPORT_INTERVAL);
        let queue = table.queue_spans.or_else(|| env("OTEL_BSP_MAX_QUEUE_SIZE")?.parse().ok());
        Ok(Some(TraceSettings {
            collector,
            // Without a pause the thread would spin.
            interval: interval.max(Duration::from_millis(10)),
            queue_spans: queue.unwrap_or(TRACE_QUEUE_SPANS).clamp(1, TRACE_QUEUE_SPANS_MAX),
            sampler: sampler(table.sample_ratio, env("OTEL_TRACES_SAMPLER"), env("OTEL_TRACES_SAMPLER_ARG"))?,
        }))
    }
}

fn sampler(ratio: Option<f64>, name: Option<String>, argument: Option<String>) -> Result<BoundedSampler, String> {
    let by_argument = || argument.and_then(|text| text.parse().ok()).filter(|ratio| (0.0..=1.0).contains(ratio));
    let (by_env, honours_unsampled) = match name.as_deref() {
        None | Some("parentbased_always_on") => (1.0, true),
        Some("parentbased_always_off") => (0.0, true),
        Some("parentbased_traceidratio") => (by_argument().unwrap_or(1.0), true),
        Some("always_on") => (1.0, false),
        Some("always_off") => (0.0, false),
        Some("traceidratio") => (by_argument().unwrap_or(1.0), false),
        Some(other) => return Err(format!("OTEL_TRACES_SAMPLER: {other:?} is not known")),
    };
    Ok(BoundedSampler { ratio: ratio.unwrap_or(by_env), honours_unsampled })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(table: &str, env: &[(&str, &str)]) -> Result<Option<TraceSettings>, String> {
        let of = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        TraceSettings::resolve(&toml::from_str(table).unwrap(), of)
    }

    fn endpoint(table: &str, env: &[(&str, &str)]) -> Option<String> {
        resolve(table, env).unwrap().map(|settings| settings.collector.endpoint)
    }

    #[test]
    fn is_off_unless_a_collector_is_named() {
        let host = "endpoint = \"http://host:1\"";
        for (table, env, expected) in [
            ("", &[][..], None),
            ("protocol = \"grpc\"", &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], None),
            ("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env:1")], Some("http://env:1")),
            ("", &[("OTEL_TRACES_EXPORTER", "otlp")], Some("http://localhost:4317")),
            (host, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env:1")], Some("http://host:1")),
            (host, &[("OTEL_TRACES_EXPORTER", "none")], None),
            (host, &[("OTEL_SDK_DISABLED", "TRUE")], None),
            (
                "",
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1")],
                Some("http://t:1"),
            ),
        ] {
            assert_eq!(endpoint(table, env).as_deref(), expected, "{table} {env:?}");
        }
    }

    #[test]
    fn http_has_a_path() {
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        let of = |key, value| endpoint("", &[http, (key, value)]).unwrap();
        assert_eq!(of("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1/"), "http://e:1/v1/traces");
        assert_eq!(of("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://e:1/x"), "http://e:1/x");
        assert_eq!(of("OTEL_TRACES_EXPORTER", "otlp"), "http://localhost:4318/v1/traces");
        let table = "protocol = \"http/protobuf\"\nendpoint = \"http://h:1\"";
        assert_eq!(endpoint(table, &[]).unwrap(), "http://h:1/v1/traces");
    }

    #[test]
    fn rejects_what_it_does_not_know() {
        let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1");
        for wrong in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "file:///etc/passwd"),
        ] {
            assert!(resolve("", &[collector, wrong]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn bounds_every_number() {
        let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1");
        let of = |table, key, value| resolve(table, &[collector, (key, value)]).unwrap().unwrap();
        assert_eq!(of("", "OTEL_BSP_MAX_QUEUE_SIZE", "99999999").queue_spans, TRACE_QUEUE_SPANS_MAX);
        assert_eq!(of("", "OTEL_BSP_MAX_QUEUE_SIZE", "x").queue_spans, TRACE_QUEUE_SPANS);
        assert_eq!(of("queue_spans = 7", "OTEL_BSP_MAX_QUEUE_SIZE", "9").queue_spans, 7);
        assert_eq!(of("", "OTEL_BSP_SCHEDULE_DELAY", "0").interval, Duration::from_millis(10));
        assert_eq!(of("timeout = \"2s\"", "OTEL_EXPORTER_OTLP_TIMEOUT", "9").collector.timeout, Duration::from_secs(2));
        let ratio = |table, name, argument| {
            let env = [collector, ("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", argument)];
            let BoundedSampler { ratio, honours_unsampled } = resolve(table, &env).unwrap().unwrap().sampler;
            (ratio, honours_unsampled)
        };
        assert_eq!(ratio("", "traceidratio", "0.25"), (0.25, false));
        assert_eq!(ratio("", "parentbased_traceidratio", "7"), (1.0, true));
        assert_eq!(ratio("sample_ratio = 0.5", "always_on", ""), (0.5, false));
        assert_eq!(ratio("sample_ratio = 0.5", "", ""), (0.5, true));
    }
}

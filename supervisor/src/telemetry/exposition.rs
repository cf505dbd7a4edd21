//! The text of a scrape, in the format that the caller asks for.

use super::metric::{METRICS, Metric};
use proctor_core::histogram::HistogramCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// The content type of OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Integer(u64),
    Histogram(HistogramCounts),
}

/// One sample: its metric, the values of its labels in order, and its value.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) metric: &'static Metric,
    pub(super) labels: Vec<String>,
    pub(super) value: Value,
}

/// All samples of a scrape.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    /// Adds a sample.
    pub(super) fn add(&mut self, metric: &'static Metric, labels: &[&str], value: Value) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.base);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.0.push(Sample { metric, labels, value });
    }

    /// Adds a whole number.
    pub(super) fn count(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        self.add(metric, labels, Value::Integer(value));
    }

    /// The samples of `metric`.
    pub(super) fn of_metric(&self, metric: &'static Metric) -> impl Iterator<Item = &Sample> {
        self.0.iter().filter(move |sample| std::ptr::eq(sample.metric, metric))
    }
}

/// The samples, for the encoder of Prometheus, which owns what it collects from.
#[derive(Debug)]
struct Shared(Arc<Samples>);

impl Collector for Shared {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let mut family = encoder.encode_descriptor(metric.base, metric.help, metric.unit.as_ref(), metric.kind)?;
            for sample in self.0.of_metric(metric) {
                let labels: Vec<(&str, &str)> =
                    metric.labels.iter().copied().zip(sample.labels.iter().map(String::as_str)).collect();
                let labels = labels.as_slice();
                let mut encoder = family.encode_family(&labels)?;
                let is_counter = matches!(metric.kind, MetricType::Counter);
                match &sample.value {
                    Value::Number(value) if is_counter => encoder.encode_counter::<NoLabelSet, _, f64>(value, None)?,
                    Value::Integer(value) if is_counter => encoder.encode_counter::<NoLabelSet, _, f64>(value, None)?,
                    Value::Number(value) => encoder.encode_gauge(value)?,
                    Value::Integer(value) => encoder.encode_gauge(value)?,
                    Value::Histogram(HistogramCounts { buckets, count, sum_s }) => {
                        encoder.encode_histogram::<NoLabelSet>(*sum_s, *count, buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The samples of one scrape, and their texts. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Exposition {
    samples: Arc<Samples>,
    openmetrics: Arc<str>,
    prometheus: Arc<str>,
}

impl Exposition {
    /// Encodes the samples.
    pub(super) fn encode(samples: Samples) -> Result<Exposition, fmt::Error> {
        let (samples, mut registry) = (Arc::new(samples), Registry::default());
        registry.register_collector(Box::new(Shared(Arc::clone(&samples))));
        let (mut openmetrics, mut prometheus) = (String::new(), String::new());
        text::encode(&mut openmetrics, &registry)?;
        prometheus_text::encode(&mut prometheus, &registry)?;
        Ok(Exposition { samples, openmetrics: openmetrics.into(), prometheus: prometheus.into() })
    }

    /// The samples.
    pub(super) fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Content type and text for a request with this `Accept` header.
    pub(super) fn for_accept(&self, accept: &str) -> (&'static str, &Arc<str>) {
        if accept.contains("application/openmetrics-text") {
            (OPENMETRICS, &self.openmetrics)
        } else {
            (prometheus_text::CONTENT_TYPE, &self.prometheus)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metric::{CALLS, PROCESS_CPU, SESSIONS};
    use super::*;

    #[test]
    fn writes_both_formats_with_units_labels_and_escapes() {
        let mut samples = Samples::default();
        samples.count(&SESSIONS, &["a\"b"], 2);
        samples.add(&PROCESS_CPU, &[], Value::Number(1.5));
        let buckets = vec![(0.5, 1), (f64::INFINITY, 2)];
        let times = HistogramCounts { buckets, count: 3, sum_s: 4.5 };
        samples.add(&CALLS, &["Runs/GetRun", "OK"], Value::Histogram(times));
        let exposition = Exposition::encode(samples).unwrap();
        let (kind, openmetrics) = exposition.for_accept("application/openmetrics-text;version=1.0.0,*/*;q=0.1");
        assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
        for line in [
            "# TYPE proctor_call_duration_seconds histogram",
            "# UNIT proctor_call_duration_seconds seconds",
            "proctor_call_duration_seconds_bucket{le=\"0.5\",method=\"Runs/GetRun\",code=\"OK\"} 1",
            "proctor_call_duration_seconds_bucket{le=\"+Inf\",method=\"Runs/GetRun\",code=\"OK\"} 3",
            "proctor_call_duration_seconds_sum{method=\"Runs/GetRun\",code=\"OK\"} 4.5",
            "# TYPE process_cpu_seconds counter",
            "process_cpu_seconds_total 1.5",
            "proctor_sessions{tenant=\"a\\\"b\"} 2",
            "# TYPE proctor_queue_depth gauge",
            "# EOF",
        ] {
            assert!(openmetrics.lines().any(|other| other == line), "{line} in {openmetrics}");
        }
        let (kind, prometheus) = exposition.for_accept("*/*");
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        assert!(prometheus.contains("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\n"));
        assert!(!prometheus.contains("# EOF"));
    }
}

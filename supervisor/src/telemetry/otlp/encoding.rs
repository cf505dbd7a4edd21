//! The samples of a scrape as one message of OTLP.
//!
//! Names have dots, and neither unit nor suffix: as a store of Prometheus writes them, they are those of `/metrics`.
//! Counts are cumulative since the start of the process.

use crate::telemetry::exposition::{Sample, Samples, Value};
use crate::telemetry::metric::{METRICS, Metric as Described};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proctor_core::histogram::HistogramCounts;
use proctor_core::timestamp::Timestamp;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// What all samples of a message have in common.
#[derive(Debug, Clone)]
pub(super) struct Scrape {
    /// What they are about.
    pub(super) resource: Resource,
    /// Start of the process.
    pub(super) started_at: Timestamp,
    /// When they were read.
    pub(super) read_at: Timestamp,
}

/// The message with all samples. A metric without a sample is left out.
pub(super) fn encode(samples: &Samples, scrape: &Scrape) -> ExportMetricsServiceRequest {
    let metrics = METRICS.iter().filter_map(|metric| {
        let of_metric: Vec<&Sample> = samples.of_metric(metric).collect();
        (!of_metric.is_empty()).then(|| Metric {
            name: metric.base.replace('_', "."),
            description: metric.help.to_owned(),
            unit: unit(metric).to_owned(),
            data: Some(data(metric, &of_metric, scrape)),
            ..Metric::default()
        })
    });
    let scope = InstrumentationScope {
        name: "proctor".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let of_scope = ScopeMetrics { scope: Some(scope), metrics: metrics.collect(), ..ScopeMetrics::default() };
    let of_resource = ResourceMetrics {
        resource: Some(scrape.resource.clone()),
        scope_metrics: vec![of_scope],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
}

/// The unit in UCUM.
fn unit(metric: &Described) -> &'static str {
    match metric.unit {
        Some(Unit::Seconds) => "s",
        Some(Unit::Bytes) => "By",
        _ => "1",
    }
}

fn data(metric: &Described, samples: &[&Sample], scrape: &Scrape) -> Data {
    let temporality = AggregationTemporality::Cumulative.into();
    match metric.kind {
        MetricType::Histogram => Data::Histogram(Histogram {
            data_points: samples.iter().filter_map(|sample| histogram(sample, scrape)).collect(),
            aggregation_temporality: temporality,
        }),
        MetricType::Counter => Data::Sum(Sum {
            data_points: samples.iter().filter_map(|sample| number(sample, scrape)).collect(),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        _ => Data::Gauge(Gauge { data_points: samples.iter().filter_map(|sample| number(sample, scrape)).collect() }),
    }
}

fn number(sample: &Sample, scrape: &Scrape) -> Option<NumberDataPoint> {
    let value = match &sample.value {
        Value::Number(value) => number_data_point::Value::AsDouble(*value),
        Value::Integer(value) => number_data_point::Value::AsInt(i64::try_from(*value).unwrap_or(i64::MAX)),
        Value::Histogram(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(sample),
        start_time_unix_nano: nanoseconds(scrape.started_at),
        time_unix_nano: nanoseconds(scrape.read_at),
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn histogram(sample: &Sample, scrape: &Scrape) -> Option<HistogramDataPoint> {
    let Value::Histogram(HistogramCounts { buckets, count, sum_s }) = &sample.value else { return None };
    Some(HistogramDataPoint {
        attributes: attributes(sample),
        start_time_unix_nano: nanoseconds(scrape.started_at),
        time_unix_nano: nanoseconds(scrape.read_at),
        count: *count,
        sum: Some(*sum_s),
        bucket_counts: buckets.iter().map(|(_, count)| *count).collect(),
        // The last bucket has no bound.
        explicit_bounds: buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()).collect(),
        ..HistogramDataPoint::default()
    })
}

fn attributes(sample: &Sample) -> Vec<KeyValue> {
    let labels = sample.metric.labels.iter().zip(&sample.labels);
    labels
        .map(|(name, value)| KeyValue {
            key: (*name).to_owned(),
            value: Some(AnyValue { value: Some(any_value::Value::StringValue(value.clone())) }),
            ..KeyValue::default()
        })
        .collect()
}

fn nanoseconds(at: Timestamp) -> u64 {
    at.0.saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metric::{CALLS, KEPT, PROCESS_CPU, RUNS};

    #[test]
    fn each_kind_has_its_name_unit_labels_and_value() {
        let mut samples = Samples::default();
        samples.count(&RUNS, &["go", "passed"], 3);
        samples.count(&KEPT, &["shop"], u64::MAX);
        samples.add(&PROCESS_CPU, &[], Value::Number(1.5));
        let buckets = vec![(0.5, 1), (2.0, 0), (f64::INFINITY, 2)];
        let times = HistogramCounts { buckets, count: 3, sum_s: 4.5 };
        samples.add(&CALLS, &["Runs/GetRun", "OK"], Value::Histogram(times));
        let scrape = Scrape { resource: Resource::default(), started_at: Timestamp(1_000), read_at: Timestamp(3_000) };
        let request = encode(&samples, &scrape);
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let names: Vec<(&str, &str)> =
            metrics.iter().map(|metric| (metric.name.as_str(), metric.unit.as_str())).collect();
        let expected = [
            ("proctor.call.duration", "s"),
            ("proctor.runs", "1"),
            ("proctor.tenant.kept", "By"),
            ("process.cpu", "s"),
        ];
        assert_eq!(names, expected);
        let Some(Data::Histogram(calls)) = &metrics[0].data else { panic!("{metrics:?}") };
        let point = &calls.data_points[0];
        assert_eq!((&point.bucket_counts[..], &point.explicit_bounds[..]), (&[1, 0, 2][..], &[0.5, 2.0][..]));
        assert_eq!((point.count, point.sum), (3, Some(4.5)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000_000_000, 3_000_000_000));
        let labels: Vec<&str> = point.attributes.iter().map(|pair| pair.key.as_str()).collect();
        assert_eq!(labels, ["method", "code"]);
        let Some(Data::Sum(runs)) = &metrics[1].data else { panic!("{metrics:?}") };
        assert_eq!(runs.data_points[0].value, Some(number_data_point::Value::AsInt(3)));
        assert!(runs.is_monotonic && runs.aggregation_temporality == i32::from(AggregationTemporality::Cumulative));
        let Some(Data::Gauge(kept)) = &metrics[2].data else { panic!("{metrics:?}") };
        assert_eq!(kept.data_points[0].value, Some(number_data_point::Value::AsInt(i64::MAX)));
        let Some(Data::Sum(cpu)) = &metrics[3].data else { panic!("{metrics:?}") };
        assert_eq!(cpu.data_points[0].value, Some(number_data_point::Value::AsDouble(1.5)));
    }
}

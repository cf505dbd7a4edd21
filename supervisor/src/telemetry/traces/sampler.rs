//! Decides which traces are recorded: a part of those that begin here or come from a caller, all spans of each or none.

use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};

/// Records a part of the traces. The decision is drawn, not computed from the trace's id as OpenTelemetry's own
/// sampler does: a caller chooses that id, and could choose one that is always recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedSampler {
    /// Part of the traces that are recorded, from 0 to 1.
    pub ratio: f64,
    /// Whether a caller's unset flag keeps its trace from being recorded. A set flag never has an effect.
    pub honours_unsampled: bool,
}

impl BoundedSampler {
    fn draws(self) -> bool {
        // A fraction of 2^32 is exact in a double. Without random numbers nothing is recorded.
        self.ratio >= 1.0 || getrandom::u32().is_ok_and(|drawn| f64::from(drawn) / 4_294_967_296.0 < self.ratio)
    }
}

impl ShouldSample for BoundedSampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        _trace_id: TraceId,
        _name: &str,
        _kind: &SpanKind,
        _attributes: &[KeyValue],
        _links: &[Link],
    ) -> SamplingResult {
        let parent = parent.map(|context| context.span().span_context().clone()).filter(|parent| parent.is_valid());
        let is_recorded = match &parent {
            Some(own) if !own.is_remote() => own.is_sampled(),
            Some(caller) if self.honours_unsampled && !caller.is_sampled() => false,
            _ => self.draws(),
        };
        SamplingResult {
            decision: if is_recorded { SamplingDecision::RecordAndSample } else { SamplingDecision::Drop },
            attributes: Vec::new(),
            trace_state: parent.map_or_else(TraceState::default, |parent| parent.trace_state().clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags};

    fn records(sampler: BoundedSampler, parent: Option<(bool, TraceFlags)>) -> bool {
        let context = parent.map(|(is_remote, flags)| {
            let (trace, span) = (TraceId::from(7), SpanId::from(7));
            Context::new().with_remote_span_context(SpanContext::new(
                trace,
                span,
                flags,
                is_remote,
                TraceState::default(),
            ))
        });
        let result = sampler.should_sample(context.as_ref(), TraceId::from(7), "", &SpanKind::Server, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }

    #[test]
    fn a_callers_flag_can_only_reduce_what_is_recorded() {
        let (set, unset) = (TraceFlags::SAMPLED, TraceFlags::default());
        for honours_unsampled in [true, false] {
            let all = BoundedSampler { ratio: 1.0, honours_unsampled };
            let none = BoundedSampler { ratio: 0.0, honours_unsampled };
            assert!(records(all, None) && records(all, Some((true, set))));
            assert_eq!(records(all, Some((true, unset))), !honours_unsampled);
            assert!(!records(none, None) && !records(none, Some((true, set))) && !records(none, Some((true, unset))));
            // Spans of one trace are recorded alike.
            assert!(records(none, Some((false, set))) && !records(all, Some((false, unset))));
        }
    }

    #[test]
    fn a_caller_that_repeats_a_trace_id_gets_no_more_than_its_part() {
        let half = BoundedSampler { ratio: 0.5, honours_unsampled: true };
        let recorded = (0..2_000).filter(|_| records(half, Some((true, TraceFlags::SAMPLED)))).count();
        // Twenty standard deviations on both sides.
        assert!((553..1_447).contains(&recorded), "{recorded}");
    }
}

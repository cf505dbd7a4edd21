//! W3C Trace Context: reads a caller's `traceparent` and `tracestate`, and writes `traceparent` for a run.

use super::TARGET;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use proctor_core::bounds::TRACE_STATE_BYTES_MAX;
use tonic::codegen::http::HeaderMap;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Length of version, trace id, parent id and flags with their hyphens.
const PARENT_BYTES: usize = 55;

/// The context of a call; `None` if it has none, several, or one that is not well-formed.
pub(super) fn from_headers(headers: &HeaderMap) -> Option<SpanContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
    let states: Option<Vec<&str>> = headers.get_all("tracestate").iter().map(|value| value.to_str().ok()).collect();
    parse(parent.to_str().ok()?, &states.unwrap_or_default().join(","))
}

fn parse(parent: &str, state: &str) -> Option<SpanContext> {
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (known, further) = parent.split_at_checked(PARENT_BYTES)?;
    let parts: Vec<&str> = known.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { return None };
    let lengths = [version, trace, span, flags].map(str::len);
    if lengths != [2, 32, 16, 2] || ![version, trace, span, flags].into_iter().all(is_hex) || version == "ff" {
        return None;
    }
    // A later version may have further parts.
    if !further.is_empty() && (version == "00" || !further.starts_with('-')) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let state =
        if state.len() <= TRACE_STATE_BYTES_MAX { state.parse().unwrap_or_default() } else { TraceState::default() };
    let context = SpanContext::new(trace, span, flags, true, state);
    context.is_valid().then_some(context)
}

/// Makes `span`, which has no child yet, a child of `parent`. It does not keep the parent open.
pub(super) fn set_parent(span: &Span, parent: SpanContext) {
    // Fails only without a layer that records it.
    _ = span.set_parent(Context::new().with_remote_span_context(parent));
}

/// The context of an open span; `None` if nothing records it.
pub(super) fn of_span(span: &Span) -> Option<SpanContext> {
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then_some(context)
}

/// A parent whose children are not recorded.
pub(super) fn unrecorded() -> SpanContext {
    SpanContext::new(TraceId::from(1), SpanId::from(1), TraceFlags::default(), false, TraceState::default())
}

/// The `traceparent` of an open span; `None` if nothing records it.
pub(super) fn traceparent(span: &Span) -> Option<String> {
    let context = of_span(span)?;
    Some(format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags()))
}

/// The span of a command whose caller gave it a `traceparent` in its environment.
pub fn adopt_parent(traceparent: Option<&str>, command: &'static str) -> Span {
    let span = tracing::info_span!(target: TARGET, parent: None, "command", otel.name = command);
    if let Some(parent) = traceparent.and_then(|parent| parse(parent, "")) {
        set_parent(&span, parent);
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(headers: &[(&'static str, &str)]) -> Option<SpanContext> {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| _ = map.append(*name, value.parse().unwrap()));
        from_headers(&map)
    }

    #[test]
    fn reads_a_well_formed_context_only() {
        let found = read(&[("traceparent", GOOD)]).unwrap();
        assert_eq!(found.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(found.span_id().to_string(), "b7ad6b7169203331");
        assert!(found.is_sampled() && found.is_remote());
        // Unknown flags are not passed on; a later version may have more parts.
        assert_eq!(read(&[("traceparent", &GOOD.replace("-01", "-ff"))]).unwrap().trace_flags(), TraceFlags::SAMPLED);
        assert!(read(&[("traceparent", &format!("{}-x", GOOD.replacen("00", "01", 1)))]).is_some());
        for wrong in [
            "",
            "00",
            &GOOD.to_uppercase(),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replace("b7ad6b7169203331", "0000000000000000"),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &format!("{GOOD}-x"),
            &GOOD.replace("b7ad", "b7é"),
            &"-".repeat(55),
            &"0".repeat(100_000),
        ] {
            assert_eq!(read(&[("traceparent", wrong)]), None, "{wrong:.80}");
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("traceparent", GOOD), ("traceparent", GOOD)]), None, "which of them?");
    }

    #[test]
    fn bounds_the_state_and_drops_one_that_is_not_well_formed() {
        let state = |value: &str| read(&[("traceparent", GOOD), ("tracestate", value)]).unwrap().trace_state().header();
        assert_eq!(state("a=1,b=2"), "a=1,b=2");
        for dropped in [&format!("a={}", "x".repeat(TRACE_STATE_BYTES_MAX)), "no members", "A=1"] {
            assert_eq!(state(dropped), "", "{dropped}");
        }
        let both = read(&[("traceparent", GOOD), ("tracestate", "a=1"), ("tracestate", "b=2")]).unwrap();
        assert_eq!(both.trace_state().header(), "a=1,b=2");
    }
}

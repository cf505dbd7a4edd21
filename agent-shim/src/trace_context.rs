//! The trace context that a client sends with a call (W3C `traceparent` and `tracestate`, in `_meta` as MCP has them),
//! on its way into the gRPC requests of that call, with the method and the tool that the client called. `baggage` is
//! not passed on.

use rmcp::model::RequestMetaObject;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

/// Name of the parent in `_meta`, and of the gRPC metadata.
const PARENT: &str = "traceparent";

/// Name of the state in both.
const STATE: &str = "tracestate";

/// Longest state that is passed on, in bytes: what W3C Trace Context asks everybody to pass on.
const STATE_BYTES_MAX: usize = 512;

/// Names of the gRPC metadata with the method of MCP and the tool.
const METHOD: &str = "proctor-mcp-method";
const TOOL: &str = "proctor-mcp-tool";

type Value = MetadataValue<Ascii>;

/// What all gRPC requests of one call have in common.
#[derive(Debug, Clone)]
struct CallTrace {
    method: &'static str,
    tool: Option<&'static str>,
    parent: Option<Value>,
    state: Option<Value>,
}

tokio::task_local! {
    static CURRENT: CallTrace;
}

/// Carries out `call` of a tool, whose requests get the trace context of `meta`.
pub(crate) async fn scope_tool<T>(meta: &RequestMetaObject, tool: &'static str, call: impl Future<Output = T>) -> T {
    CURRENT.scope(CallTrace::new(meta, "tools/call", Some(tool)), call).await
}

/// Carries out a call of another method.
pub(crate) async fn scope<T>(meta: &RequestMetaObject, method: &'static str, call: impl Future<Output = T>) -> T {
    CURRENT.scope(CallTrace::new(meta, method, None), call).await
}

/// Adds the trace context of the current call, if there is one.
pub(crate) fn add_to(metadata: &mut MetadataMap) {
    let Ok(CallTrace { method, tool, parent, state }) = CURRENT.try_with(Clone::clone) else { return };
    metadata.insert(METHOD, Value::from_static(method));
    if let Some(tool) = tool {
        metadata.insert(TOOL, Value::from_static(tool));
    }
    if let Some(parent) = parent {
        metadata.insert(PARENT, parent);
        state.into_iter().for_each(|state| _ = metadata.insert(STATE, state));
    }
}

impl CallTrace {
    fn new(meta: &RequestMetaObject, method: &'static str, tool: Option<&'static str>) -> CallTrace {
        let text = |name| meta.0.0.get(name)?.as_str();
        let state = text(STATE).filter(|state| state.len() <= STATE_BYTES_MAX).and_then(|state| state.parse().ok());
        CallTrace { method, tool, parent: text(PARENT).and_then(parent), state }
    }
}

// Version, trace id, parent id and flags in lower-case hexadecimal; anything else is not passed on.
fn parent(text: &str) -> Option<Value> {
    let is_hex = |part: &&str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let lengths: Vec<usize> = text.split('-').filter(is_hex).map(str::len).collect();
    (lengths == [2, 32, 16, 2] && text.len() == 55).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    async fn passed_on(parent: &str, state: &str) -> MetadataMap {
        let mut meta = RequestMetaObject::default();
        meta.0.0.insert(PARENT.to_owned(), json!(parent));
        meta.0.0.insert(STATE.to_owned(), json!(state));
        meta.0.0.insert("baggage".to_owned(), json!("secret=1"));
        let mut metadata = MetadataMap::new();
        scope_tool(&meta, "run_tests", async { add_to(&mut metadata) }).await;
        metadata
    }

    fn text<'a>(metadata: &'a MetadataMap, name: &str) -> Option<&'a str> {
        metadata.get(name).map(|value| value.to_str().unwrap())
    }

    #[tokio::test]
    async fn passes_on_a_well_formed_context_only() {
        let long = format!("a={}", "x".repeat(STATE_BYTES_MAX));
        for (parent, state, passed) in [
            (GOOD, "a=1", [Some(GOOD), Some("a=1")]),
            (GOOD, "", [Some(GOOD), Some("")]),
            (GOOD, &long, [Some(GOOD), None]),
            (GOOD, "a=1\nx: y", [Some(GOOD), None]),
            ("00-0AF7", "a=1", [None, None]),
            (&GOOD.replace('0', "x"), "a=1", [None, None]),
            (&format!("{GOOD}-0"), "a=1", [None, None]),
        ] {
            let metadata = passed_on(parent, state).await;
            assert_eq!([PARENT, STATE].map(|name| text(&metadata, name)), passed, "{parent} {state:.20}");
            assert_eq!(
                [METHOD, TOOL, "baggage"].map(|name| text(&metadata, name)),
                [Some("tools/call"), Some("run_tests"), None]
            );
        }
        let mut metadata = MetadataMap::new();
        add_to(&mut metadata);
        assert!(metadata.is_empty(), "outside of a call");
        scope(&RequestMetaObject::default(), "tasks/get", async { add_to(&mut metadata) }).await;
        assert_eq!([METHOD, TOOL].map(|name| text(&metadata, name)), [Some("tasks/get"), None]);
    }
}

//! The trace context that a client sends with a call (W3C `traceparent`, in `_meta` as MCP has it), on its way into the gRPC
//! requests of that call.

use rmcp::model::RequestMetaObject;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

/// Name of the member in `_meta`, and of the gRPC metadata.
const NAME: &str = "traceparent";

tokio::task_local! {
    static CURRENT: Option<MetadataValue<Ascii>>;
}

/// Carries out `call`, whose requests get the trace context of `meta`.
pub(crate) async fn scope<T>(meta: &RequestMetaObject, call: impl Future<Output = T>) -> T {
    CURRENT.scope(from_meta(meta), call).await
}

/// Adds the trace context of the current call, if it has one.
pub(crate) fn add_to(metadata: &mut MetadataMap) {
    if let Ok(Some(value)) = CURRENT.try_with(Clone::clone) {
        metadata.insert(NAME, value);
    }
}

// Version, trace id, parent id and flags in lower-case hexadecimal; anything else is not passed on.
fn from_meta(meta: &RequestMetaObject) -> Option<MetadataValue<Ascii>> {
    let text = meta.0.0.get(NAME)?.as_str()?;
    let is_hex = |part: &&str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let lengths: Vec<usize> = text.split('-').filter(is_hex).map(str::len).collect();
    (lengths == [2, 32, 16, 2] && text.len() == 55).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[tokio::test]
    async fn passes_on_a_well_formed_context_only() {
        for (text, passed) in
            [(GOOD, true), ("00-0AF7", false), (&GOOD.replace('0', "x"), false), (&format!("{GOOD}-0"), false)]
        {
            let mut meta = RequestMetaObject::default();
            meta.0.0.insert(NAME.to_owned(), json!(text));
            let mut metadata = MetadataMap::new();
            scope(&meta, async { add_to(&mut metadata) }).await;
            assert_eq!(metadata.get(NAME).map(|value| value.to_str().unwrap()), passed.then_some(text));
        }
        let mut metadata = MetadataMap::new();
        add_to(&mut metadata);
        assert!(metadata.is_empty(), "outside of a call");
    }
}

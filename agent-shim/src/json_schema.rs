//! JSON Schemas of the tools' arguments and answers. One `type` per property, no `format`, no unions: some model providers
//! refuse those.

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use std::sync::Arc;

/// An object with exactly these properties, of which `required` must be present.
pub(crate) fn arguments(properties: &[(&str, Value)], required: &[&str]) -> Arc<JsonObject> {
    let mut schema = object_of(properties, required);
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    Arc::new(schema)
}

/// An object with these properties, and possibly others.
pub(crate) fn answer(properties: &[(&str, Value)], required: &[&str]) -> Arc<JsonObject> {
    Arc::new(object_of(properties, required))
}

fn object_of(properties: &[(&str, Value)], required: &[&str]) -> JsonObject {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    let properties = properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

/// A number.
pub(crate) fn number(description: &str) -> Value {
    json!({"type": "number", "description": description})
}

/// A string.
pub(crate) fn string(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// One of some strings.
pub(crate) fn one_of(choices: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": choices, "description": description})
}

/// True or false.
pub(crate) fn boolean(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// A list of strings.
pub(crate) fn strings(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

/// A list of objects with these properties, among others.
pub(crate) fn objects(properties: &[(&str, Value)], description: &str) -> Value {
    let items = Value::Object(object_of(properties, &[]));
    json!({"type": "array", "items": items, "description": description})
}

/// An object; the description lists its properties.
pub(crate) fn object(description: &str) -> Value {
    json!({"type": "object", "description": description})
}

/// A list of tests by package and name.
pub(crate) fn tests(description: &str) -> Value {
    objects(
        &[
            ("package", string("What the framework runs as a unit: Go import path, Python file.")),
            ("name", string("The test within it, in the runner's own form.")),
        ],
        description,
    )
}

/// The argument `timeout` of every tool that runs tests.
pub(crate) fn timeout() -> Value {
    number(
        "Seconds after which the run is stopped; what had finished until then is still reported. Default 300, or 900 \
         for frameworks that build a project first or drive a browser or a device; more than 1800 is clamped to 1800.",
    )
}

/// The argument `max_tokens` of every tool that prints output.
pub(crate) fn max_tokens() -> Value {
    number(
        "Wish for a short answer: about this many tokens (4 bytes each) of text. Then failures come first and of the \
         output the end rather than the beginning. Without it up to 500 KiB of each stream are returned.",
    )
}

/// The argument `framework` of every tool that has one.
pub(crate) fn framework() -> Value {
    string(
        "Test framework by name, for example go. Leave it out: it is detected. Needed only when the workspace holds \
         several project types; then the error lists them, and all runs every one.",
    )
}

/// The argument `filter` of every tool that selects tests.
pub(crate) fn filter() -> Value {
    string(
        "Only tests that match, in the runner's own syntax: Go -run regular expression, pytest -k expression, Jest and \
         Vitest -t pattern, cargo substring. At most 200 characters; not starting with '-', no '..'. A filter that \
         matches nothing gives the outcome no_tests.",
    )
}

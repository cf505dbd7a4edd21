//! JSON Schemas of the tools' arguments and answers. One `type` per property, no `format`, no unions: some model providers
//! refuse those. Every client sends them to its model, so descriptions are short, and members that explain themselves have
//! none.

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// An object with exactly these properties, of which `required` must be present.
pub(crate) fn arguments(
    properties: impl IntoIterator<Item = (&'static str, Value)>,
    required: &[&str],
) -> Arc<JsonObject> {
    let mut schema = object_of(properties);
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    Arc::new(schema)
}

/// An object with these properties and those that every answer may have, and possibly others.
pub(crate) fn answer(properties: impl IntoIterator<Item = (&'static str, Value)>) -> Arc<JsonObject> {
    let common = [("headline", plain("string")), ("next", plain("string")), ("notes", list(plain("string")))];
    let mut schema = object_of(common.into_iter().chain(properties));
    schema.insert("required".to_owned(), json!(["headline"]));
    Arc::new(schema)
}

fn object_of(properties: impl IntoIterator<Item = (&'static str, Value)>) -> JsonObject {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema
}

/// Schema of a value of this type that its name explains.
pub(crate) fn plain(kind: &str) -> Value {
    json!({ "type": kind })
}

/// Schema of a list of `items`.
pub(crate) fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Schema of an object with these properties, among others.
pub(crate) fn object(properties: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(object_of(properties))
}

/// Schema of a number.
pub(crate) fn number(description: &str) -> Value {
    json!({"type": "number", "description": description})
}

/// Schema of a string.
pub(crate) fn string(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// Schema of a string that is one of `choices`.
pub(crate) fn one_of(choices: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": choices, "description": description})
}

/// Schema of a boolean.
pub(crate) fn boolean(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// Schema of a list of strings.
pub(crate) fn strings(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

/// Schema of tests by package.
pub(crate) fn tests() -> Value {
    list(object([("package", plain("string")), ("names", list(plain("string")))]))
}

/// The same for the tools that answer as `run_tests` does, whose schema has the other members, and that may have no run to
/// answer for.
pub(crate) fn run_in_brief() -> Vec<(&'static str, Value)> {
    vec![
        ("outcome", plain("string")),
        ("failures", list(plain("object"))),
        ("run_id", plain("string")),
        ("nothing_ran", plain("string")),
    ]
}

/// Schemas of the members of an answer about an ended run.
pub(crate) fn run() -> Vec<(&'static str, Value)> {
    let failure = [
        ("name", plain("string")),
        ("kind", string("build, collection or running; absent for a failed test")),
        ("at", string("file:line")),
        ("message", plain("string")),
        ("expected", plain("string")),
        ("actual", plain("string")),
        ("stack", list(plain("string"))),
        ("output", plain("string")),
        ("alike", strings("failed with the same message at the same place")),
    ];
    let named = [
        ("kind", plain("string")),
        ("file", plain("string")),
        ("package", plain("string")),
        ("names", list(plain("string"))),
        ("lines", list(plain("number"))),
    ];
    vec![
        ("outcome", string("only passed is success")),
        ("summary", plain("object")),
        ("failures", list(object(failure))),
        (
            "named",
            json!({"type": "array", "items": object(named), "description": "further failures, a line for each name"}),
        ),
        ("attached", plain("string")),
        ("exit_code", plain("number")),
        ("run_id", plain("string")),
        ("stdout_tail", plain("string")),
        ("stderr_tail", plain("string")),
    ]
}

/// The argument `timeout` of the tools that run tests.
pub(crate) fn timeout() -> Value {
    number("Seconds, at most 1800. Default 300; 900 for builds, browsers and devices.")
}

/// The argument `max_tokens` of every tool.
pub(crate) fn max_tokens() -> Value {
    number("Of the answer. Default 2000.")
}

/// The argument `raw` of the tools that answer for a run.
pub(crate) fn raw() -> Value {
    boolean("Text is the runner's own output, up to 500 KiB a stream.")
}

/// The argument `verbose` of the tools that answer for a run.
pub(crate) fn verbose() -> Value {
    boolean("Adds passed tests, limits, isolation, resources.")
}

/// An argument of this type that means what it means to `run_tests`, whose schema describes it.
pub(crate) fn as_in_run_tests(kind: &str) -> Value {
    json!({"type": kind, "description": "As in run_tests."})
}

/// The argument `framework` of the tools that have one.
pub(crate) fn framework() -> Value {
    string("Default: detected. Needed with several project types; all runs every one.")
}

/// The argument `filter` of the tools that select tests.
pub(crate) fn filter() -> Value {
    string(
        "In the runner's own syntax: Go -run regular expression, pytest -k, Jest and Vitest -t pattern, cargo substring.",
    )
}

//! The JSON schema of the project file, for editors: made from the types of its keys.

use super::keys::ProjectFile;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use std::collections::BTreeMap;

/// The schema as a file of proctor's source tree.
pub const SCHEMA_FILE: &str = "deploy/project-file.schema.json";

/// The schema of `.proctor.yaml`, draft 7, which editors read.
#[must_use]
pub fn schema() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<ProjectFile>();
    // A map of strings cannot fail to be written.
    let text = serde_json::to_string_pretty(&sorted(schema.to_value())).unwrap_or_default();
    format!("{text}\n")
}

/// The value with the keys of all objects sorted: whether `serde_json` keeps their order depends on what else is in a build.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

//! The JSON schema of the project file, for editors: made from the types of its keys.

use super::keys::ProjectFile;
use schemars::generate::SchemaSettings;

/// The schema as a file of proctor's source tree.
pub const SCHEMA_FILE: &str = "deploy/project-file.schema.json";

/// The schema of `.proctor.yaml`, draft 7, which editors read.
#[must_use]
pub fn schema() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<ProjectFile>();
    // A map of strings cannot fail to be written.
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    format!("{text}\n")
}

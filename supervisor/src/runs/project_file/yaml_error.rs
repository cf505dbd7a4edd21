//! Parses YAML and words the library's errors for the author of a project file.

use serde::Deserialize;
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

/// How alike a misspelled key and its correction are, at least, from 0 to 1. `max_mem` and `max_memory` are 0.94 alike.
const SIMILARITY_MIN: f64 = 0.8;

/// Parses the file. Errors begin with line and key.
pub(super) fn parse<T: for<'de> Deserialize<'de> + Default>(content: &str) -> Result<T, String> {
    if content.trim().is_empty() {
        return Ok(T::default());
    }
    serde_saphyr::from_str(content).map_err(|error| {
        let text = plain_text(error.without_snippet());
        let Some(line) = error.location().map(|location| location.line()) else { return text };
        let index = usize::try_from(line).unwrap_or(1).saturating_sub(1);
        let key = key_at(content, index).map(|key| format!(", {key}")).unwrap_or_default();
        format!("line {line}{key}: {text}")
    })
}

/// The key on a line, or above it for an entry of a list.
fn key_at(content: &str, index: usize) -> Option<&str> {
    let lines: Vec<&str> = content.lines().take(index + 1).collect();
    // A line of a list, a comment or an empty line has none.
    let is_key = |line: &&&str| line.contains(':') && !line.trim_start().starts_with(['-', '#', '\'', '"']);
    let (key, _) = lines.iter().rev().find(is_key)?.split_once(':')?;
    Some(key.trim_matches([' ', '{']))
}

/// The error in words for the author of the file; some of the library's texts address its callers.
fn plain_text(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as Yaml;
    let fixed = match error {
        Yaml::DuplicateMappingKey { key: Some(key), .. } => return format!("{key} appears a second time"),
        Yaml::DuplicateMappingKey { key: None, .. } => "appears a second time",
        Yaml::SerdeUnknownField { field, expected, .. } => return unknown_key(field, expected),
        Yaml::MultipleDocuments { .. } => "a second document begins here: the file is one",
        Yaml::RecursiveReferencesRequireWeakTypes { .. } => "refers to itself",
        Yaml::NullIntoString { .. } => "has no value",
        Yaml::Unexpected { expected: "mapping start", .. } => "expected keys with values",
        Yaml::Unexpected { expected: "string scalar", .. } => "expected a text",
        Yaml::InvalidScalar { ty: "u32", .. } => "expected a whole number",
        Yaml::Unexpected { expected: "sequence start", .. } => "expected a list",
        Yaml::InvalidScalar { ty: "boolean", .. } => "expected true or false",
        Yaml::SerdeInvalidType { expected, .. } => return format!("expected {expected}"),
        _ => return UserMessageFormatter.format_message(error).into_owned(),
    };
    fixed.to_owned()
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    let similarity = |name: &str| strsim::jaro_winkler(key, name);
    let nearest = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    match nearest.filter(|name| similarity(name) >= SIMILARITY_MIN) {
        Some(name) => format!("unknown field `{key}`: did you mean `{name}`?"),
        None => format!("unknown field `{key}`: known are {}", known.join(", ")),
    }
}

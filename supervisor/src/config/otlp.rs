//! What the tables of collectors have in common: the protocols of OTLP, and the checks of a URL and of a file of
//! authorities.

use super::Problem;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use tonic::codegen::http::Uri;

/// The encoding and transport of OTLP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum OtlpProtocol {
    /// OTLP over gRPC, by convention at port 4317.
    #[default]
    #[serde(rename = "grpc")]
    Grpc,
    /// OTLP over HTTP with Protocol Buffers, by convention at port 4318.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}

/// A problem of `key` in `table`.
pub(super) fn problem(table: &str, key: &str, text: impl std::fmt::Display) -> Problem {
    let at = format!("{table}.{key}");
    Problem::new(at.clone(), format!("{at}: {text}"))
}

/// Problems of the collector that `table` names.
pub(super) fn collector_problems(table: &str, endpoint: Option<&str>, ca: Option<&Path>) -> Vec<Problem> {
    let endpoint = endpoint.and_then(|endpoint| check_endpoint(endpoint).err());
    let ca = ca.and_then(|ca| match fs::read(ca) {
        _ if !ca.is_absolute() => Some("must be an absolute path".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    });
    [endpoint.map(|why| problem(table, "endpoint", why)), ca.map(|why| problem(table, "ca", why))]
        .into_iter()
        .flatten()
        .collect()
}

/// Checks the URL of a collector; the error says what is wrong.
pub fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let uri: Uri = endpoint.parse().map_err(|error| format!("{endpoint:?} is no URL: {error}"))?;
    let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    if !has_scheme || uri.host().is_none_or(str::is_empty) {
        return Err(format!("expected something like http://127.0.0.1:4317, got {endpoint:?}"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("a URL with credentials would be logged: set OTEL_EXPORTER_OTLP_HEADERS".to_owned());
    }
    Ok(())
}

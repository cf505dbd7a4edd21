//! Which collector gets a signal: the host file first, then the standard `OTEL_*` variables.

use crate::config::{OtlpProtocol, check_endpoint};
use std::path::PathBuf;
use std::time::Duration;
use tonic::codegen::http::Uri;

/// Default of the longest time for sending a message, as OpenTelemetry has it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Bundles of authorities of the distributions, in the order in which they are tried.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// What a collector gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Samples of metrics.
    Metrics,
}

impl Signal {
    /// Its name in the variables of OpenTelemetry.
    fn name(self) -> &'static str {
        match self {
            Signal::Traces => "TRACES",
            Signal::Metrics => "METRICS",
        }
    }

    /// Its path over HTTP.
    fn path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
        }
    }
}

/// Reads a variable of the environment, without blanks around; `None` if it is not set or empty.
pub fn trimmed(env: impl Fn(&str) -> Option<String>) -> impl Fn(&str) -> Option<String> {
    move |name| env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// What a table of the host file says of its collector.
#[derive(Debug, Clone, Default)]
pub struct ConfiguredCollector {
    /// URL.
    pub endpoint: Option<String>,
    /// Encoding and transport.
    pub protocol: Option<OtlpProtocol>,
    /// Longest time for sending a message.
    pub timeout: Option<crate::config::units::Duration>,
    /// PEM file of the authorities.
    pub ca: Option<PathBuf>,
}

/// A collector of one signal.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectorSettings {
    /// URL, with the path for HTTP.
    pub endpoint: String,
    /// Encoding and transport.
    pub protocol: OtlpProtocol,
    /// Longest time for sending a message, its retries included.
    pub timeout: Duration,
    /// PEM file of the authorities, for a collector with TLS.
    pub authorities: Option<PathBuf>,
    /// The text of `OTEL_EXPORTER_OTLP_HEADERS`, which may have secrets.
    pub headers: Option<String>,
}

impl CollectorSettings {
    /// The collector of `signal` by a table of the host file and the environment; `None` if nothing is sent.
    ///
    /// # Errors
    /// A variable has a value that proctor does not know.
    pub fn resolve(
        signal: Signal,
        table: ConfiguredCollector,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<CollectorSettings>, String> {
        let name = signal.name();
        let with_variable = |end: &str| {
            let variables = [format!("OTEL_EXPORTER_OTLP_{name}_{end}"), format!("OTEL_EXPORTER_OTLP_{end}")];
            variables.into_iter().find_map(|variable| Some((env(&variable)?, variable)))
        };
        let of_signal = |end: &str| with_variable(end).map(|(value, _)| value);
        let exporter = env(&format!("OTEL_{name}_EXPORTER"));
        let is_off = env("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        match exporter.as_deref() {
            _ if is_off => return Ok(None),
            Some("none") => return Ok(None),
            None | Some("otlp") => {}
            Some(other) => return Err(format!("OTEL_{name}_EXPORTER: only otlp and none are known, got {other:?}")),
        }
        let named = with_variable("PROTOCOL");
        let protocol = match (table.protocol, named.as_ref().map(|(value, variable)| (value.as_str(), variable))) {
            (Some(protocol), _) => protocol,
            (None, None | Some(("grpc", _))) => OtlpProtocol::Grpc,
            (None, Some(("http/protobuf", _))) => OtlpProtocol::HttpProtobuf,
            (None, Some((other, variable))) => {
                return Err(format!("{variable}: only grpc and http/protobuf are known, got {other:?}"));
            }
        };
        let with_path = |endpoint: &str| with_path(endpoint, protocol, signal);
        let default = || {
            let is_grpc = protocol == OtlpProtocol::Grpc;
            let endpoint = if is_grpc { "http://localhost:4317" } else { "http://localhost:4318" };
            exporter.as_ref().map(|_| with_path(endpoint))
        };
        let endpoint = table.endpoint.as_deref().map(with_path);
        let endpoint = endpoint
            .or_else(|| env(&format!("OTEL_EXPORTER_OTLP_{name}_ENDPOINT")))
            .or_else(|| Some(with_path(&env("OTEL_EXPORTER_OTLP_ENDPOINT")?)))
            .or_else(default);
        let Some(endpoint) = endpoint else { return Ok(None) };
        check_endpoint(&endpoint).map_err(|why| format!("the collector of {}: {why}", name.to_lowercase()))?;
        let timeout = table.timeout.map(|timeout| Duration::from_millis(timeout.ms));
        let timeout = timeout.or_else(|| of_signal("TIMEOUT").and_then(milliseconds));
        Ok(Some(CollectorSettings {
            authorities: table.ca.or_else(|| of_signal("CERTIFICATE").map(PathBuf::from)),
            protocol,
            // Nothing can be sent in no time.
            timeout: timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(TIMEOUT),
            headers: of_signal("HEADERS"),
            endpoint,
        }))
    }

    /// The certificates of the authorities, as PEM: those of the configured file, or else the host's. `None` for a collector
    /// without TLS.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn authorities(&self) -> Result<Option<Vec<u8>>, String> {
        if !self.endpoint.starts_with("https:") {
            return Ok(None);
        }
        let of_system = || SYSTEM_AUTHORITIES.map(PathBuf::from).into_iter().find(|path| path.exists());
        let path = self.authorities.clone().or_else(of_system).unwrap_or_else(|| PathBuf::from(SYSTEM_AUTHORITIES[0]));
        std::fs::read(&path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// A number of milliseconds. As OpenTelemetry asks, another text is as none.
pub fn milliseconds(text: String) -> Option<Duration> {
    text.parse().ok().map(Duration::from_millis)
}

/// The endpoint for a protocol: over HTTP, one without a path gets that of its signal.
fn with_path(endpoint: &str, protocol: OtlpProtocol, signal: Signal) -> String {
    let has_path = endpoint.parse::<Uri>().is_ok_and(|uri| uri.path() != "/");
    if protocol == OtlpProtocol::Grpc || has_path {
        return endpoint.to_owned();
    }
    format!("{}{}", endpoint.trim_end_matches('/'), signal.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(signal: Signal, table: Option<&str>, env: &[(&str, &str)]) -> Option<String> {
        let of = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let table = ConfiguredCollector { endpoint: table.map(str::to_owned), ..ConfiguredCollector::default() };
        CollectorSettings::resolve(signal, table, trimmed(of)).unwrap().map(|settings| settings.endpoint)
    }

    #[test]
    fn each_signal_has_its_own_variables_and_path() {
        let shared = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m:1");
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        let off = ("OTEL_METRICS_EXPORTER", "none");
        for (env, traces, metrics) in [
            (&[][..], None, None),
            (&[shared], Some("http://e:1"), Some("http://e:1")),
            (&[shared, own], Some("http://e:1"), Some("http://m:1")),
            (&[shared, http], Some("http://e:1/v1/traces"), Some("http://e:1/v1/metrics")),
            (&[shared, off], Some("http://e:1"), None),
            (&[("OTEL_METRICS_EXPORTER", "otlp")], None, Some("http://localhost:4317")),
        ] {
            let found = [Signal::Traces, Signal::Metrics].map(|signal| endpoint(signal, None, env));
            assert_eq!([found[0].as_deref(), found[1].as_deref()], [traces, metrics], "{env:?}");
        }
        assert_eq!(endpoint(Signal::Metrics, Some("http://h:1"), &[shared, own]).as_deref(), Some("http://h:1"));
    }
}

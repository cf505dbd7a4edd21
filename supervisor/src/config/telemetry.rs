//! The `[telemetry]` table: the address of `/metrics`, and traces.

use super::{Problem, TracesTable, changed_keys};
use serde::Deserialize;
use std::net::SocketAddr;

/// What the supervisor reports about itself.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetryTable {
    /// TCP address of `/metrics`; without it there is no listener.
    pub listen: Option<SocketAddr>,
    /// Whether a scrape needs an operator's bearer token; beyond loopback it always does.
    #[serde(default)]
    pub require_token: bool,
    /// Allows unencrypted scrapes beyond loopback, for hosts behind a TLS proxy.
    #[serde(default)]
    pub plaintext: bool,
    /// Where traces go.
    #[serde(default)]
    pub traces: TracesTable,
}

impl TelemetryTable {
    /// Whether a scrape needs an operator's bearer token.
    #[must_use]
    pub fn needs_token(&self) -> bool {
        self.require_token || self.listen.is_some_and(|address| !address.ip().is_loopback())
    }

    /// The keys that differ in `new`.
    #[must_use]
    pub fn changed_keys(&self, new: &TelemetryTable) -> Vec<&'static str> {
        // The pattern lists every field, so that a new one cannot be forgotten here.
        let TelemetryTable { listen, require_token, plaintext, traces } = self;
        let mut keys = changed_keys([
            ("telemetry.listen", *listen != new.listen),
            ("telemetry.require_token", *require_token != new.require_token),
            ("telemetry.plaintext", *plaintext != new.plaintext),
        ]);
        keys.extend(traces.changed_keys(&new.traces));
        keys
    }

    pub(super) fn problems(&self, has_operator_token: bool) -> Vec<Problem> {
        let mut problems = self.traces.problems();
        problems.extend(self.listen.into_iter().flat_map(|listen| self.listen_problems(listen, has_operator_token)));
        problems
    }

    fn listen_problems(&self, listen: SocketAddr, has_operator_token: bool) -> Vec<Problem> {
        let is_exposed = !listen.ip().is_loopback() && !self.plaintext;
        let exposed = format!(
            "telemetry.listen: {listen} is not loopback and not encrypted; put a TLS proxy in front and set plaintext = true"
        );
        let nobody = "telemetry.listen: a scrape needs a bearer token, and [operators] has neither token_hashes nor \
                      jwt_subjects";
        [
            is_exposed.then(|| Problem::new("telemetry.listen", exposed)),
            (self.needs_token() && !has_operator_token).then(|| Problem::new("telemetry.listen", nobody)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_a_token_and_a_proxy_are_needed() {
        let parse = |text: &str| toml::from_str::<TelemetryTable>(text).unwrap();
        let problems = |text: &str, has_token| {
            parse(text).problems(has_token).into_iter().map(|problem| problem.text).collect::<Vec<_>>()
        };
        assert!(problems("", false).is_empty() && problems("listen = \"127.0.0.1:9464\"", false).is_empty());
        assert!(!parse("listen = \"[::1]:9464\"").needs_token() && parse("listen = \"0.0.0.0:1\"").needs_token());
        let exposed = problems("listen = \"0.0.0.0:9464\"", true);
        assert!(exposed.len() == 1 && exposed[0].contains("plaintext = true"), "{exposed:?}");
        assert!(problems("listen = \"0.0.0.0:9464\"\nplaintext = true", true).is_empty());
        let nobody = problems("listen = \"127.0.0.1:9464\"\nrequire_token = true", false);
        assert!(nobody.len() == 1 && nobody[0].contains("[operators]"), "{nobody:?}");
    }
}

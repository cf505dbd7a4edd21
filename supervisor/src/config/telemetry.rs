//! The `[telemetry]` table: the address of `/metrics` and of the page for people, and the collectors of traces and metrics.

use super::{MetricsTable, Problem, TracesTable, changed_keys};
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
    /// Whether the page for people is on the same address.
    #[serde(default)]
    pub page: bool,
    /// Names under which browsers reach the page through a TLS proxy, beside those of loopback.
    #[serde(default)]
    pub page_hosts: Vec<String>,
    /// Where traces go.
    #[serde(default)]
    pub traces: TracesTable,
    /// Where metrics are sent.
    #[serde(default)]
    pub metrics: MetricsTable,
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
        let TelemetryTable { listen, require_token, plaintext, page, page_hosts, traces, metrics } = self;
        let mut keys = changed_keys([
            ("telemetry.listen", *listen != new.listen),
            ("telemetry.require_token", *require_token != new.require_token),
            ("telemetry.plaintext", *plaintext != new.plaintext),
            ("telemetry.page", *page != new.page),
            ("telemetry.page_hosts", *page_hosts != new.page_hosts),
        ]);
        keys.extend(traces.changed_keys(&new.traces));
        keys.extend(metrics.changed_keys(&new.metrics));
        keys
    }

    // Whether any caller, and whether an operator, can present a token.
    pub(super) fn problems(&self, has_token: bool, has_operator_token: bool) -> Vec<Problem> {
        let mut problems = self.traces.problems();
        problems.extend(self.metrics.problems());
        problems.extend(self.page_problems(has_token));
        problems.extend(self.listen.into_iter().flat_map(|listen| self.listen_problems(listen, has_operator_token)));
        problems
    }

    fn page_problems(&self, has_token: bool) -> Vec<Problem> {
        let nowhere = "telemetry.page: needs telemetry.listen, the address of the page";
        let nobody = "telemetry.page: no caller can log in, as neither [operators] nor a [[tenant]] has token_hashes or \
                      jwt_subjects";
        // A listener of all addresses is on loopback too.
        let is_elsewhere = |address: SocketAddr| !address.ip().is_loopback() && !address.ip().is_unspecified();
        let unreachable = "telemetry.page: no browser reaches the page beyond loopback without a name; add the name of \
                           the TLS proxy to telemetry.page_hosts, or let telemetry.listen be 127.0.0.1";
        let unused = "telemetry.page_hosts: names the page, which is off; set page = true or remove it";
        let mut problems: Vec<Problem> = [
            (self.page && self.page_hosts.is_empty() && self.listen.is_some_and(is_elsewhere))
                .then(|| Problem::new("telemetry.page", unreachable)),
            (!self.page && !self.page_hosts.is_empty()).then(|| Problem::new("telemetry.page_hosts", unused)),
            (self.page && self.listen.is_none()).then(|| Problem::new("telemetry.page", nowhere)),
            (self.page && !has_token).then(|| Problem::new("telemetry.page", nobody)),
        ]
        .into_iter()
        .flatten()
        .collect();
        for (index, name) in self.page_hosts.iter().enumerate() {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            if name.is_empty() || !name.chars().all(is_name) {
                let text = format!("telemetry.page_hosts: {name:?} is no host name; write it without scheme and port");
                problems.push(Problem::new(format!("telemetry.page_hosts.{index}"), text));
            }
        }
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
            parse(text).problems(has_token, has_token).into_iter().map(|problem| problem.text).collect::<Vec<_>>()
        };
        assert!(problems("", false).is_empty() && problems("listen = \"127.0.0.1:9464\"", false).is_empty());
        assert!(!parse("listen = \"[::1]:9464\"").needs_token() && parse("listen = \"0.0.0.0:1\"").needs_token());
        let exposed = problems("listen = \"0.0.0.0:9464\"", true);
        assert!(exposed.len() == 1 && exposed[0].contains("plaintext = true"), "{exposed:?}");
        assert!(problems("listen = \"0.0.0.0:9464\"\nplaintext = true", true).is_empty());
        let nobody = problems("listen = \"127.0.0.1:9464\"\nrequire_token = true", false);
        assert!(nobody.len() == 1 && nobody[0].contains("[operators]"), "{nobody:?}");
    }

    #[test]
    fn the_page_needs_an_address_a_credential_and_names_of_hosts() {
        let problems = |text: &str, has_token| {
            let table = toml::from_str::<TelemetryTable>(text).unwrap();
            table.problems(has_token, false).into_iter().map(|problem| problem.text).collect::<Vec<_>>()
        };
        let on = "listen = \"127.0.0.1:9464\"\npage = true\n";
        assert!(problems(on, true).is_empty());
        assert!(problems("page = true", true)[0].contains("telemetry.listen"));
        assert!(problems(on, false)[0].contains("no caller can log in"));
        assert!(problems("page_hosts = [\"a.example.org\"]", true)[0].contains("set page = true"));
        let beyond = |listen: &str, more: &str| {
            let table = format!("listen = \"{listen}:9464\"\nplaintext = true\npage = true\n{more}");
            problems(&table, true).iter().any(|problem| problem.contains("telemetry.page_hosts"))
        };
        assert!(beyond("192.0.2.1", "") && !beyond("192.0.2.1", "page_hosts = [\"a.example.org\"]"));
        assert!(!beyond("0.0.0.0", "") && !beyond("[::1]", ""), "loopback is among its addresses");
        let hosts = |names: &str| problems(&format!("{on}page_hosts = [{names}]"), true).len();
        assert_eq!((hosts("\"proctor.example.org\""), hosts("\"https://a\", \"a:1\", \"\", \"*\"")), (0, 4));
    }
}

//! Authorization of HTTP callers: the bearer tokens and the client certificate, the challenge to a caller without either, and the
//! metadata of RFC 9728.
//!
//! The token of the file is opaque and made for this shim alone; a file with the supervisor's token is refused. A token of an
//! authorization server has to name the resource as its audience. No credential is ever sent to the other side.

use super::access_token::TokenIssuer;
use super::tls::{ClientCertificates, HttpTls};
use super::watched_files::WatchedFiles;
use crate::bearer_token::read_token;
use crate::command_line::{HttpIssuer, HttpSettings};
use anyhow::ensure;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use rustls::pki_types::UnixTime;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// What gives access.
pub(super) struct Authorization {
    token: Option<WatchedFiles<String>>,
    issuer: Option<(HttpIssuer, WatchedFiles<TokenIssuer>)>,
    tls: Option<Arc<WatchedFiles<HttpTls>>>,
    // Whether client certificates give access.
    has_client_ca: bool,
}

/// The credentials of a request, as checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    Valid,
    Missing,
    /// And what is wrong with it.
    InvalidToken(&'static str),
    InvalidCertificate,
}

impl Authorization {
    /// Reads the token and the issuer's keys. `tls`: that of the listener.
    pub(super) fn new(
        settings: &HttpSettings,
        tls: Option<Arc<WatchedFiles<HttpTls>>>,
    ) -> anyhow::Result<Authorization> {
        let supervisor_token = settings.supervisor_token_file.as_deref();
        let token = settings.token_file.as_deref().map(|path| watch_token(path, supervisor_token)).transpose()?;
        let has_client_ca = settings.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
        let issuer =
            settings.issuer.clone().map(|issuer| Ok::<_, anyhow::Error>((issuer.clone(), watch_issuer(issuer)?)));
        Ok(Authorization { token, issuer: issuer.transpose()?, tls, has_client_ca })
    }

    /// Checks the credentials of a request for `resource`, the URL of a workspace, which came over a connection with these
    /// certificates. A token takes precedence over a certificate, as at the supervisor.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        certificates: Option<&ClientCertificates>,
        resource: &str,
    ) -> Credentials {
        match (headers.get(AUTHORIZATION), certificates) {
            (Some(given), _) => match self.check_token(given, resource) {
                Ok(()) => Credentials::Valid,
                Err(fault) => Credentials::InvalidToken(fault),
            },
            (None, Some(chain)) => {
                let tls = self.tls.as_ref().and_then(|tls| tls.current());
                let is_valid = tls.is_some_and(|tls| tls.admits(chain, UnixTime::now()));
                if is_valid { Credentials::Valid } else { Credentials::InvalidCertificate }
            }
            (None, None) => Credentials::Missing,
        }
    }

    fn check_token(&self, given: &HeaderValue, resource: &str) -> Result<(), &'static str> {
        let wrong = "the token is wrong or was replaced";
        let given = bearer(given).ok_or(wrong)?;
        let token = self.token.as_ref().and_then(WatchedFiles::current);
        // Compares in constant time, except for the length.
        if token.is_some_and(|token| token.as_bytes().ct_eq(given).into()) {
            return Ok(());
        }
        let issuer = self.issuer.as_ref().and_then(|(_, keys)| keys.current()).ok_or(wrong)?;
        issuer.check(std::str::from_utf8(given).map_err(|_| wrong)?, resource)
    }

    /// What a caller with these credentials is told.
    pub(super) fn refusal(&self, credentials: &Credentials) -> String {
        match credentials {
            Credentials::InvalidToken(fault) => format!("Unauthorized: {fault}"),
            Credentials::InvalidCertificate => {
                "Unauthorized: the client certificate has expired, or has none of the names that have access".to_owned()
            }
            Credentials::Missing | Credentials::Valid => {
                let ways = [
                    (self.token.is_some(), "send the token of --http-token-file as Authorization: Bearer"),
                    (self.issuer.is_some(), "get a token from the authorization server that the metadata names"),
                    (self.has_client_ca, "present a client certificate of an authority in --http-client-ca"),
                ];
                let ways: Vec<&str> = ways.into_iter().filter(|(is_way, _)| *is_way).map(|(_, way)| way).collect();
                format!("Unauthorized: {}", ways.join(", or "))
            }
        }
    }

    /// The metadata of a resource. Without an issuer it names no authorization server: the operator hands out the token.
    pub(super) fn metadata(&self, resource: &str) -> Vec<u8> {
        let methods: &[&str] = if self.token.is_some() || self.issuer.is_some() { &["header"] } else { &[] };
        let mut document = json!({
            "resource": resource,
            "resource_name": "proctor test runs",
            "bearer_methods_supported": methods,
        });
        if let Some((HttpIssuer { name, .. }, _)) = &self.issuer {
            document["authorization_servers"] = json!([name]);
        }
        document.to_string().into_bytes()
    }
}

// `supervisor_token`: the file with the supervisor's token, which is not accepted, now or after a replacement.
fn watch_token(path: &Path, supervisor_token: Option<&Path>) -> anyhow::Result<WatchedFiles<String>> {
    let (path, supervisor_token) = (path.to_owned(), supervisor_token.map(Path::to_owned));
    let paths = std::iter::once(&path).chain(&supervisor_token).cloned().collect();
    WatchedFiles::open(paths, move || {
        let token = read_token(&path)?;
        let supervisor_token = supervisor_token.as_deref().map(read_token).transpose()?;
        ensure!(
            supervisor_token.as_ref() != Some(&token),
            "--http-token-file {}: holds the supervisor's token; make one for this server alone, for example with \
             `openssl rand -hex 32`",
            path.display()
        );
        Ok(token)
    })
}

fn watch_issuer(HttpIssuer { name, keys }: HttpIssuer) -> anyhow::Result<WatchedFiles<TokenIssuer>> {
    WatchedFiles::open(vec![keys.clone()], move || TokenIssuer::load(&name, &keys))
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The header `WWW-Authenticate` of a refusal, as RFC 6750 and RFC 9728 have it. `base`: URL of the server.
pub(super) fn challenge(credentials: &Credentials, base: &str, path: &str) -> String {
    let error = match credentials {
        Credentials::InvalidToken(fault) => format!(", error=\"invalid_token\", error_description=\"{fault}\""),
        Credentials::Missing | Credentials::InvalidCertificate | Credentials::Valid => String::new(),
    };
    format!("Bearer realm=\"proctor-mcp\", resource_metadata=\"{base}{METADATA_PATH}{path}\"{error}")
}

/// Path of the metadata; the path of the resource follows.
pub(super) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

#[cfg(test)]
mod tests {
    use super::*;

    const WRONG: &str = "the token is wrong or was replaced";

    fn authorization(token: &Path, supervisor_token: Option<&Path>) -> anyhow::Result<Authorization> {
        let token = Some(watch_token(token, supervisor_token)?);
        Ok(Authorization { token, issuer: None, tls: None, has_client_ca: false })
    }

    fn check(authorization: &Authorization, value: &str) -> Credentials {
        authorization.check(&HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]), None, "")
    }

    #[test]
    fn accepts_the_token_of_the_file_as_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let authorization = authorization(&path, None).unwrap();
        for (value, expected) in [
            ("Bearer one", Credentials::Valid),
            ("bearer  one", Credentials::Valid),
            ("Bearer two", Credentials::InvalidToken(WRONG)),
            ("Bearer ", Credentials::InvalidToken(WRONG)),
            ("Bearer", Credentials::InvalidToken(WRONG)),
            ("Basic one", Credentials::InvalidToken(WRONG)),
            ("one", Credentials::InvalidToken(WRONG)),
        ] {
            assert_eq!(check(&authorization, value), expected, "{value}");
        }
        assert_eq!(authorization.check(&HeaderMap::new(), None, ""), Credentials::Missing);
        let other = dir.path().join("other");
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(check(&authorization, "Bearer one"), Credentials::InvalidToken(WRONG));
        assert_eq!(check(&authorization, "Bearer two"), Credentials::Valid);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(check(&authorization, "Bearer two"), Credentials::InvalidToken(WRONG), "no file, no access");
    }

    #[test]
    fn refuses_the_token_of_the_supervisor() {
        let dir = tempfile::tempdir().unwrap();
        let (http, supervisor) = (dir.path().join("http"), dir.path().join("supervisor"));
        std::fs::write(&http, "same").unwrap();
        std::fs::write(&supervisor, "same\n").unwrap();
        let error = authorization(&http, Some(&supervisor)).err().unwrap().to_string();
        assert!(error.contains("holds the supervisor's token"), "{error}");
        std::fs::write(&supervisor, "other").unwrap();
        let authorization = authorization(&http, Some(&supervisor)).unwrap();
        std::fs::write(&http, "other").unwrap();
        assert_eq!(check(&authorization, "Bearer other"), Credentials::InvalidToken(WRONG), "nor after a replacement");
    }
}

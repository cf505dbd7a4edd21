//! Authorization of HTTP callers: the bearer token, the challenge to a caller without one, and the metadata of RFC 9728.
//!
//! The token is opaque and made for this shim alone, so that it has no audience to check; a file with the supervisor's token is
//! refused, and neither token is ever sent to the other side.

use crate::bearer_token::{TokenError, read_token};
use anyhow::ensure;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use subtle::ConstantTimeEq;

/// The token that callers have to present.
pub(super) struct HttpToken {
    path: PathBuf,
    // Not accepted, although it may come to stand in the file.
    supervisor_token: Option<String>,
    known: Mutex<KnownToken>,
}

/// The token as last read. `None` while the file is unusable: nobody has access then.
struct KnownToken {
    stamp: Option<FileStamp>,
    token: Option<String>,
}

/// Inode, size, and time of the last change in nanoseconds: differs after a rotation.
type FileStamp = (u64, u64, i64, i64);

/// The credentials of a request, as checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    Valid,
    Missing,
    Invalid,
}

impl HttpToken {
    /// Reads the token. `supervisor_token_file`: that of the supervisor, whose token is not accepted.
    pub(super) fn read(path: &Path, supervisor_token_file: Option<&Path>) -> anyhow::Result<HttpToken> {
        let stamp = stamp(path);
        let token = read_token(path)?;
        let supervisor_token = supervisor_token_file.map(read_token).transpose()?;
        ensure!(
            supervisor_token.as_ref() != Some(&token),
            "--http-token-file {}: holds the supervisor's token; make one for this server alone, for example with \
             `openssl rand -hex 32`",
            path.display()
        );
        let known = Mutex::new(KnownToken { stamp, token: Some(token) });
        Ok(HttpToken { path: path.to_owned(), supervisor_token, known })
    }

    /// Checks the credentials of a request. Reads the file again if it was replaced.
    pub(super) fn check(&self, headers: &HeaderMap) -> Credentials {
        let Some(given) = headers.get(AUTHORIZATION) else { return Credentials::Missing };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.path);
        if stamp != known.stamp || stamp.is_none() {
            let token = read_token(&self.path).inspect_err(|error: &TokenError| {
                tracing::warn!(error = error as &dyn std::error::Error, "no caller has access without the token file");
            });
            // The supervisor's own token gives no access here after a replacement either.
            let token = token.ok().filter(|token| self.supervisor_token.as_ref() != Some(token));
            *known = KnownToken { stamp, token };
        }
        let is_valid = known.token.as_ref().zip(bearer(given)).is_some_and(|(token, given)| {
            // Compares in constant time, except for the length.
            token.as_bytes().ct_eq(given).into()
        });
        if is_valid { Credentials::Valid } else { Credentials::Invalid }
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The header `WWW-Authenticate` of a refusal, as RFC 6750 and RFC 9728 have it. `base`: URL of the server.
pub(super) fn challenge(credentials: &Credentials, base: &str, path: &str) -> String {
    let error = match credentials {
        Credentials::Invalid => ", error=\"invalid_token\", error_description=\"the token is wrong or was replaced\"",
        Credentials::Missing | Credentials::Valid => "",
    };
    format!("Bearer realm=\"proctor-mcp\", resource_metadata=\"{base}{METADATA_PATH}{path}\"{error}")
}

/// Path of the metadata; the path of the resource follows.
pub(super) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// The metadata of the resource at `base` and `path`. It names no authorization server: the operator hands out the token.
pub(super) fn metadata(base: &str, path: &str) -> Vec<u8> {
    let document = json!({
        "resource": format!("{base}{path}"),
        "resource_name": "proctor test runs",
        "bearer_methods_supported": ["header"],
    });
    document.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn accepts_the_token_of_the_file_as_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let token = HttpToken::read(&path, None).unwrap();
        for (value, expected) in [
            ("Bearer one", Credentials::Valid),
            ("bearer  one", Credentials::Valid),
            ("Bearer two", Credentials::Invalid),
            ("Bearer ", Credentials::Invalid),
            ("Bearer", Credentials::Invalid),
            ("Basic one", Credentials::Invalid),
            ("one", Credentials::Invalid),
        ] {
            assert_eq!(token.check(&headers(value)), expected, "{value}");
        }
        assert_eq!(token.check(&HeaderMap::new()), Credentials::Missing);
        let other = dir.path().join("other");
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(token.check(&headers("Bearer one")), Credentials::Invalid);
        assert_eq!(token.check(&headers("Bearer two")), Credentials::Valid);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(token.check(&headers("Bearer two")), Credentials::Invalid, "no file, no access");
    }

    #[test]
    fn refuses_the_token_of_the_supervisor() {
        let dir = tempfile::tempdir().unwrap();
        let (http, supervisor) = (dir.path().join("http"), dir.path().join("supervisor"));
        std::fs::write(&http, "same").unwrap();
        std::fs::write(&supervisor, "same\n").unwrap();
        let error = HttpToken::read(&http, Some(&supervisor)).err().unwrap().to_string();
        assert!(error.contains("holds the supervisor's token"), "{error}");
    }
}

//! Reads files with bearer tokens; the tenant's, and the interceptor that adds it, and the trace context, to every call.

use crate::trace_context;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// Largest token file, in bytes. Opaque tokens have some dozen bytes, JWTs a few thousand.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Why a token file is unusable.
#[derive(Debug, Error)]
pub(crate) enum TokenError {
    #[error("cannot read the token file {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the token file {} holds no usable token: one line of visible ASCII is expected", path.display())]
    Form { path: PathBuf },
}

/// Adds `authorization: Bearer …` to every call, if there is a token.
#[derive(Clone)]
pub(crate) struct BearerToken(Option<MetadataValue<Ascii>>);

impl BearerToken {
    /// No token: the transport itself identifies the caller.
    pub(crate) const NONE: BearerToken = BearerToken(None);

    /// Reads the token from the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<BearerToken, TokenError> {
        let token = read_token(path)?;
        let form_error = || TokenError::Form { path: path.to_owned() };
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| form_error())?;
        value.set_sensitive(true);
        Ok(BearerToken(Some(value)))
    }
}

/// Reads the token from the file at `path` and trims white space.
pub(crate) fn read_token(path: &Path) -> Result<String, TokenError> {
    let form_error = || TokenError::Form { path: path.to_owned() };
    let read_error = |source| TokenError::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(read_error)?.len() > TOKEN_BYTES_MAX {
        return Err(form_error());
    }
    let text = std::fs::read_to_string(path).map_err(read_error)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(form_error());
    }
    Ok(token.to_owned())
}

impl Interceptor for BearerToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        trace_context::add_to(request.metadata_mut());
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_a_token_of_one_word_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, " s3cret\n").unwrap();
        let request = BearerToken::read(&path).unwrap().call(Request::new(())).unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer s3cret");
        for bad in ["", "\n", "two words", "caf\u{e9}\u{0}"] {
            std::fs::write(&path, bad).unwrap();
            assert!(BearerToken::read(&path).is_err(), "{bad:?}");
        }
        assert!(matches!(BearerToken::read(&dir.path().join("none")), Err(TokenError::Read { .. })));
    }
}

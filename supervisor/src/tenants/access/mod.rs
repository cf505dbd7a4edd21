//! Access control: maps a presented credential to a caller. One value holds all tenants, operators and verification
//! keys, so that a new host file replaces it as a whole.

mod certificates;
mod jwt;

use crate::config::{Config, ConfigReader, Diagnostic, Problem};
use crate::host::resolved_path::ResolvedPath;
use crate::tenants::{Caller, Credential, Tenants};
use crate::workspace::Workspace;
use certificates::TlsAccess;
use jwt::Issuer;
use proctor_core::bounds::HOST_FILE_BYTES_MAX;
use proctor_core::human_units::format_bytes;
use proctor_core::id::TenantId;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::watch;

/// The current access, for tasks that check it more than once.
pub type CurrentAccess = watch::Receiver<Arc<Access>>;

/// All tenants and operators, and the keys that verify their credentials.
#[derive(Debug)]
pub struct Access {
    /// All tenants and operators.
    pub tenants: Tenants,
    jwt: Option<Issuer>,
    tls: Option<TlsAccess>,
}

/// A credential as a peer presents it, unverified.
#[derive(Debug, Clone)]
pub enum PresentedCredential {
    /// The user id at the other end of a unix socket.
    Uid(u32),
    /// A bearer token.
    Token(Arc<str>),
    /// The certificates of a TLS client, its own first.
    Certificates(Arc<[CertificateDer<'static>]>),
}

/// Why a credential is refused. For the log: the caller gets the same text for every reason.
#[derive(Debug, Error)]
pub enum AuthError {
    /// No tenant or operator has this user id, token, subject or name.
    #[error("no tenant or operator has it")]
    Unknown,
    /// The JSON web token is not valid.
    #[error("JSON web token")]
    Jwt(#[from] jwt::JwtError),
    /// The certificate is not valid.
    #[error("client certificate")]
    Certificate(#[from] rustls::Error),
}

impl Access {
    /// Access of a supervisor without a host file.
    #[must_use]
    pub fn from_tenants(tenants: Tenants) -> Access {
        Access { tenants, jwt: None, tls: None }
    }

    /// Loads the access of a host file without [`Config::problems`], with the keys and certificates that it names. Adds
    /// warnings for its author to `notes`.
    pub fn load(
        config: &Config,
        may_switch: bool,
        before: &Tenants,
        notes: &mut Vec<Problem>,
    ) -> Result<Access, Vec<Problem>> {
        let jwt = config.jwt.as_ref().map(Issuer::load).transpose();
        let tls = config.listen.tls.as_ref().map(|table| TlsAccess::load(table, notes)).transpose();
        match (jwt, tls) {
            (Ok(jwt), Ok(tls)) => Ok(Access { tenants: Tenants::from_config(config, may_switch, before), jwt, tls }),
            (jwt, tls) => Err([jwt.err(), tls.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// The caller with this credential, which must have been valid `at` this time.
    pub fn caller(&self, presented: &PresentedCredential, at: UnixTime) -> Result<Caller, AuthError> {
        let caller = match presented {
            PresentedCredential::Uid(uid) => self.tenants.identify(Credential::Uid(*uid)),
            // Only the form decides: a token of one kind is never tried as the other.
            PresentedCredential::Token(token) if jwt::has_jwt_form(token) => {
                let issuer = self.jwt.as_ref().ok_or(AuthError::Unknown)?;
                self.tenants.identify(Credential::Subject(&issuer.subject(token, at.as_secs())?))
            }
            PresentedCredential::Token(token) => self.tenants.identify(Credential::Token(token)),
            PresentedCredential::Certificates(chain) => {
                let names = self.tls.as_ref().map_or_else(|| Ok(Vec::new()), |tls| tls.names(chain, at))?;
                self.tenants.identify(Credential::Names(&names))
            }
        };
        caller.ok_or(AuthError::Unknown)
    }

    /// The TLS configuration, if the host file has one.
    #[must_use]
    pub fn server(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(|tls| Arc::clone(&tls.server))
    }

    /// Whether this tenant may have a session in this workspace.
    #[must_use]
    pub fn admits(&self, tenant: &TenantId, workspace: &Workspace) -> bool {
        self.tenants.get(tenant).is_some_and(|tenant| tenant.roots.iter().any(|root| root.contains(workspace)))
    }
}

/// The content of a host file, loaded.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The access that it grants.
    pub access: Access,
    /// Paths that nothing visible to all runs may contain, under each of their names.
    pub private: Vec<PathBuf>,
    /// Warnings for its author, each with its line.
    pub notes: Vec<String>,
}

/// Loads the host file at `path` with everything that it names, and runs the checks in `more` on it too; `before` are
/// the current tenants. Returns the loaded file, or everything that is wrong with it.
pub fn load(
    path: &Path,
    may_switch: bool,
    before: &Tenants,
    more: impl FnOnce(&mut Config) -> Vec<Problem>,
) -> Result<LoadedConfig, Vec<Diagnostic>> {
    let problem = |text: String| vec![Diagnostic::Problem(format!("{}{text}", path.display()))];
    let bytes = read_file(path).map_err(|error| problem(format!(": {error}")))?;
    let text = parse_utf8(&bytes).map_err(|line| problem(format!(":{line}: is not UTF-8")))?;
    let mut reader = ConfigReader::new(text);
    let mut config = reader.config().clone();
    reader.add(config.problems());
    reader.add(more(&mut config));
    // Files are checked whatever else is wrong, so that all problems are reported at once.
    let mut notes = Vec::new();
    let access = Access::load(&config, may_switch, before, &mut notes).map_err(|problems| reader.add(problems));
    reader.add(notes);
    let (_, notes) = reader.finish(path)?;
    let access = access.map_err(|()| problem(": cannot be carried out".to_owned()))?;
    let private = config.private_paths().iter().flat_map(ResolvedPath::names).collect();
    Ok(LoadedConfig { config, access, private, notes })
}

// Reads the file at `path`, up to the largest size of a host file.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(HOST_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > HOST_FILE_BYTES_MAX {
        let text = format!("is larger than {}, the most that a host file may have", format_bytes(HOST_FILE_BYTES_MAX));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

// The bytes as text, or the line of the first byte that is not UTF-8.
fn parse_utf8(bytes: &[u8]) -> Result<&str, usize> {
    let line = |upto: usize| bytes.iter().take(upto).filter(|byte| **byte == b'\n').count() + 1;
    std::str::from_utf8(bytes).map_err(|error| line(error.valid_up_to()))
}

/// The current time in the form of certificates and tokens.
#[must_use]
pub fn now() -> UnixTime {
    UnixTime::now()
}

#[cfg(test)]
mod tests;

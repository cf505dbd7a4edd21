//! Access: from what a transport shows of a peer to who calls. One value holds everybody who may and everything that
//! proves it, so that a new host file takes its place as a whole. Must not know any request.

mod certificates;
mod expiry;
mod jwt;

use crate::config::{Config, ConfigReader, Diagnostic, Problem};
use crate::host::resolved_path::ResolvedPath;
use crate::tenants::{Caller, Credential, Tenants};
use crate::workspace::Workspace;
use certificates::Tls;
use jwt::Issuer;
use proctor_core::id::TenantId;
use proctor_core::quantity::show_bytes;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::watch;

/// Bytes of a host file: ten thousand tenants with a few identities each. A file is read as a whole, and each SIGHUP waits for
/// the one before: one that somebody has filled by mistake must not keep an operator from revoking a credential.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Access as it is now, to everybody who asks more than once.
pub type CurrentAccess = watch::Receiver<Arc<Access>>;

/// Everybody who may call, and what proves who they are.
#[derive(Debug)]
pub struct Access {
    /// Everybody who may call.
    pub tenants: Tenants,
    jwt: Option<Issuer>,
    tls: Option<Tls>,
}

/// What a peer has shown.
#[derive(Debug, Clone)]
pub enum PresentedCredential {
    /// The user id at the other end of a unix socket.
    Uid(u32),
    /// A bearer token.
    Token(Arc<str>),
    /// The certificates of a TLS client, its own first.
    Certificates(Arc<[CertificateDer<'static>]>),
}

/// Why a peer is nobody. For the log: a caller is told the same whatever it is.
#[derive(Debug, Error)]
pub enum AuthError {
    /// AuthError has this user id, token, subject or name.
    #[error("nobody has it")]
    Unknown,
    /// A JSON web token does not count.
    #[error("JSON web token")]
    Jwt(#[from] jwt::JwtError),
    /// A certificate does not count.
    #[error("client certificate")]
    Certificate(#[from] rustls::Error),
}

impl Access {
    /// Of a supervisor that has no host file.
    #[must_use]
    pub fn of(tenants: Tenants) -> Access {
        Access { tenants, jwt: None, tls: None }
    }

    /// What a host file without [`Config::problems`] says, with the keys and certificates that it names.
    /// In `notes` is what its author should know.
    pub fn load(
        config: &Config,
        may_switch: bool,
        before: &Tenants,
        notes: &mut Vec<Problem>,
    ) -> Result<Access, Vec<Problem>> {
        let jwt = config.jwt.as_ref().map(Issuer::load).transpose();
        let tls = config.listen.tls.as_ref().map(|table| Tls::load(table, notes)).transpose();
        match (jwt, tls) {
            (Ok(jwt), Ok(tls)) => Ok(Access { tenants: Tenants::from_config(config, may_switch, before), jwt, tls }),
            (jwt, tls) => Err([jwt.err(), tls.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// Who has shown this, `at` a time at which it must have been valid.
    pub fn caller(&self, shown: &PresentedCredential, at: UnixTime) -> Result<Caller, AuthError> {
        let caller = match shown {
            PresentedCredential::Uid(uid) => self.tenants.identify(Credential::Uid(*uid)),
            // By its form alone: what looks like one kind is never tried as the other.
            PresentedCredential::Token(token) if jwt::is_one(token) => {
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

    /// How TLS is spoken, where it is.
    #[must_use]
    pub fn server(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(|tls| Arc::clone(&tls.server))
    }

    /// Whether a session of this tenant in this workspace may be.
    #[must_use]
    pub fn admits(&self, tenant: &TenantId, workspace: &Workspace) -> bool {
        self.tenants.get(tenant).is_some_and(|tenant| tenant.roots.iter().any(|root| root.contains(workspace)))
    }
}

/// What a host file comes to.
#[derive(Debug)]
pub struct LoadedConfig {
    /// What it says.
    pub config: Config,
    /// Who may call by it.
    pub access: Access,
    /// Places that nothing shown to all runs may hold, under each of their names.
    pub private: Vec<PathBuf>,
    /// What its author should know, each with its line.
    pub notes: Vec<String>,
}

/// Reads the host file at `path` with everything that it names, and has `more` look at it too; `before` are the
/// tenants of now. What it says, or everything that is wrong with it.
pub fn load(
    path: &Path,
    may_switch: bool,
    before: &Tenants,
    more: impl FnOnce(&mut Config) -> Vec<Problem>,
) -> Result<LoadedConfig, Vec<Diagnostic>> {
    let refused = |text: String| vec![Diagnostic::Problem(format!("{}{text}", path.display()))];
    let bytes = bytes_of(path).map_err(|error| refused(format!(": {error}")))?;
    let text = text_of(&bytes).map_err(|line| refused(format!(":{line}: is not UTF-8")))?;
    let mut reading = ConfigReader::new(text);
    let mut config = reading.config().clone();
    reading.add(config.problems());
    reading.add(more(&mut config));
    // Files are looked at whatever else is wrong, so that nothing is left to be found the next time.
    let mut notes = Vec::new();
    let access = Access::load(&config, may_switch, before, &mut notes).map_err(|problems| reading.add(problems));
    reading.add(notes);
    let (_, notes) = reading.finish(path)?;
    let access = access.map_err(|()| refused(": cannot be carried out".to_owned()))?;
    let private = config.private_paths().iter().flat_map(ResolvedPath::names).collect();
    Ok(LoadedConfig { config, access, private, notes })
}

// What is in the file at `path`: no more of it is read than a host file may have.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        let text = format!("is larger than {}, the most that a host file may have", show_bytes(FILE_BYTES_MAX));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

// The text that these bytes are, or the line on which they are none.
fn text_of(bytes: &[u8]) -> Result<&str, usize> {
    let line = |upto: usize| bytes.iter().take(upto).filter(|byte| **byte == b'\n').count() + 1;
    std::str::from_utf8(bytes).map_err(|error| line(error.valid_up_to()))
}

/// Now, as certificates and tokens count time.
#[must_use]
pub fn now() -> UnixTime {
    UnixTime::now()
}

#[cfg(test)]
mod tests;

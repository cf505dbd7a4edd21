//! The `[listen]` table: socket, address and TLS files.

use super::Problem;
use proctor_core::bounds::UNIX_SOCKET_PATH_BYTES_MAX;
use serde::Deserialize;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// All permission bits of a socket.
const MODE_MAX: u32 = 0o777;

/// The addresses on which the supervisor listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Path of a unix socket; callers are identified by UID.
    pub unix: Option<PathBuf>,
    /// Permission bits of the socket, in octal: `"0660"`.
    pub unix_mode: Option<String>,
    /// TCP address; callers are identified by bearer tokens, and with TLS also by certificates.
    pub tcp: Option<SocketAddr>,
    /// TLS on TCP.
    pub tls: Option<TlsTable>,
    /// Allows unencrypted TCP beyond loopback, for hosts behind a TLS proxy.
    #[serde(default)]
    pub tcp_plaintext: bool,
}

/// TLS on TCP. All files are PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTable {
    /// The supervisor's certificate and its intermediate certificates.
    #[serde(default)]
    pub cert: PathBuf,
    /// The private key of the certificate.
    #[serde(default)]
    pub key: PathBuf,
    /// Authorities for client certificates; without it no client certificate is accepted.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists of these authorities and their intermediates.
    pub client_crl: Option<PathBuf>,
}

impl Listen {
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |condition: bool, at: &str, text: &str| {
            if condition {
                problems.push(Problem::new(at, format!("{at}: {text}")));
            }
        };
        let no_address = self.unix.is_none() && self.tcp.is_none();
        wrong(no_address, "listen", "neither unix nor tcp is set; name a socket or an address");
        let invalid_mode = !self.mode().is_ok_and(|mode| mode <= MODE_MAX);
        wrong(invalid_mode, "listen.unix_mode", "expected octal digits like \"0660\", at most \"0777\"");
        let unix = self.unix.as_deref().and_then(unix_problem);
        unix.iter().for_each(|text| wrong(true, "listen.unix", text));
        if let Some(tcp) = self.tcp {
            let exposed = !tcp.ip().is_loopback() && !self.tcp_plaintext && self.tls.is_none();
            let text = format!(
                "{tcp} is not loopback and not encrypted; add [listen.tls], or put a TLS proxy in front and set \
                 tcp_plaintext = true"
            );
            wrong(exposed, "listen.tcp", &text);
        }
        if let Some(tls) = &self.tls {
            wrong(self.tcp.is_none(), "listen.tls", "has no effect without listen.tcp");
            wrong(self.tcp_plaintext, "listen.tcp_plaintext", "contradicts [listen.tls]; remove one of the two");
            wrong(tls.cert.as_os_str().is_empty(), "listen.tls.cert", "is missing; name a file with a certificate");
            wrong(
                tls.key.as_os_str().is_empty(),
                "listen.tls.key",
                "is missing; name a file with the certificate's key",
            );
            let useless = tls.client_crl.is_some() && tls.client_ca.is_none();
            wrong(useless, "listen.tls.client_crl", "has no effect without client_ca");
        }
        // Only a note: the service manager may create the directory (`RuntimeDirectory`) before it starts the
        // supervisor.
        let parent =
            self.unix.as_deref().and_then(Path::parent).filter(|parent| parent.is_absolute() && !parent.is_dir());
        let text = |parent: &Path| {
            format!("listen.unix: its directory {} must exist when the supervisor starts", parent.display())
        };
        problems.extend(parent.map(|parent| Problem::note("listen.unix", text(parent))));
        problems
    }

    /// The permission bits of the socket; by default only its owner may connect.
    pub fn mode(&self) -> Result<u32, std::num::ParseIntError> {
        self.unix_mode.as_deref().map_or(Ok(0o600), |octal| u32::from_str_radix(octal, 8))
    }
}

// Why no socket can be bound to this path.
fn unix_problem(path: &Path) -> Option<String> {
    let (len, file_type) =
        (path.as_os_str().as_bytes().len(), path.symlink_metadata().ok().map(|found| found.file_type()));
    let rows = [
        (len == 0, "is empty; name a path, or leave it out"),
        (len > 0 && !path.is_absolute(), "must be an absolute path"),
        (
            len > UNIX_SOCKET_PATH_BYTES_MAX,
            &format!("has {len} bytes; a socket path has at most {UNIX_SOCKET_PATH_BYTES_MAX}"),
        ),
        (file_type.is_some_and(|kind| kind.is_dir()), "is a directory; name a path in it"),
        (
            file_type.is_some_and(|kind| !kind.is_dir() && !kind.is_socket()),
            "exists and is not a socket: remove it, or name another path",
        ),
    ];
    rows.into_iter().find(|(holds, _)| *holds).map(|(_, text)| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;

    fn messages(listen: &Listen) -> Vec<String> {
        listen.problems().into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn reports_a_socket_that_cannot_be_bound() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("file"), "").unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let long = |len: usize| PathBuf::from(format!("/{}", "x".repeat(len - 1)));
        for (unix, problem) in [
            (PathBuf::new(), Some("is empty")),
            ("proctor.sock".into(), Some("must be an absolute path")),
            (long(108), Some("has 108 bytes; a socket path has at most 107")),
            (long(107), None),
            (at("dir"), Some("is a directory")),
            (at("file"), Some("exists and is not a socket")),
            (at("socket"), None),
            (at("new"), None),
        ] {
            let messages = messages(&Listen { unix: Some(unix.clone()), ..Listen::default() });
            assert_eq!(messages.len(), usize::from(problem.is_some()), "{}: {messages:?}", unix.display());
            let named = |problem| messages[0].starts_with(&format!("listen.unix: {problem}"));
            assert!(problem.is_none_or(named), "{problem:?} in {messages:?}");
        }
        let problems = Listen { unix: Some(at("gone/s")), ..Listen::default() }.problems();
        assert!(problems.len() == 1 && problems[0].is_note, "{problems:?}");
    }

    #[test]
    fn accepts_only_permission_bits_as_unix_mode() {
        let messages = |mode: &str| {
            messages(&Listen { unix: Some("/s".into()), unix_mode: Some(mode.into()), ..Listen::default() })
        };
        for (mode, good) in
            [("0660", true), ("777", true), ("1777", false), ("0888", false), ("rw", false), ("", false)]
        {
            assert_eq!(messages(mode).is_empty(), good, "{mode}: {:?}", messages(mode));
        }
    }
}

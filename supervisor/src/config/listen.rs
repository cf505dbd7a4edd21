//! Where the supervisor listens. Must not know who calls there, or what a certificate says.

use super::Problem;
use serde::Deserialize;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Longest path of a unix socket, in bytes: a `sockaddr_un` has room for it and for a zero at its end.
const UNIX_BYTES_MAX: usize = 107;

/// All permission bits that a socket has.
const MODE_MAX: u32 = 0o777;

/// Addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Path of a unix socket; callers are known by their uid.
    pub unix: Option<PathBuf>,
    /// Permission bits of the socket, in octal: `"0660"`.
    pub unix_mode: Option<String>,
    /// Address for TCP; callers are known by bearer tokens, and with TLS by certificates too.
    pub tcp: Option<SocketAddr>,
    /// TLS on TCP.
    pub tls: Option<TlsTable>,
    /// Allows TCP beyond loopback although it is not encrypted, for hosts behind a TLS proxy.
    #[serde(default)]
    pub tcp_plaintext: bool,
}

/// TLS on TCP. All files are PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTable {
    /// The supervisor's certificate, and those between it and its authority's.
    #[serde(default)]
    pub cert: PathBuf,
    /// Its private key.
    #[serde(default)]
    pub key: PathBuf,
    /// The authorities whose certificates callers may have; without it nobody is known by a certificate.
    pub client_ca: Option<PathBuf>,
    /// Lists of what these authorities, and those between them and a caller, have revoked.
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
        let nowhere = self.unix.is_none() && self.tcp.is_none();
        wrong(nowhere, "listen", "neither unix nor tcp is set; name a socket or an address");
        let beyond = !self.mode().is_ok_and(|mode| mode <= MODE_MAX);
        wrong(beyond, "listen.unix_mode", "expected octal digits like \"0660\", at most \"0777\"");
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
            wrong(self.tcp.is_none(), "listen.tls", "is of no use without listen.tcp");
            wrong(
                self.tcp_plaintext,
                "listen.tcp_plaintext",
                "says that TCP is not encrypted, and [listen.tls] that it is",
            );
            wrong(tls.cert.as_os_str().is_empty(), "listen.tls.cert", "is missing; name a file with a certificate");
            wrong(
                tls.key.as_os_str().is_empty(),
                "listen.tls.key",
                "is missing; name a file with the certificate's key",
            );
            let useless = tls.client_crl.is_some() && tls.client_ca.is_none();
            wrong(useless, "listen.tls.client_crl", "is of no use without client_ca");
        }
        // The service manager may make it (`RuntimeDirectory`), and did so before a running supervisor reads its file anew.
        let parent =
            self.unix.as_deref().and_then(Path::parent).filter(|parent| parent.is_absolute() && !parent.is_dir());
        let text =
            |parent: &Path| format!("listen.unix: its directory {} has to be there at the start", parent.display());
        problems.extend(parent.map(|parent| Problem::note("listen.unix", text(parent))));
        problems
    }

    /// The permission bits of the socket; without any, only its owner may connect.
    pub fn mode(&self) -> Result<u32, std::num::ParseIntError> {
        self.unix_mode.as_deref().map_or(Ok(0o600), |octal| u32::from_str_radix(octal, 8))
    }
}

// Why no socket can be bound to this path.
fn unix_problem(path: &Path) -> Option<String> {
    let (len, there) = (path.as_os_str().as_bytes().len(), path.symlink_metadata().ok().map(|found| found.file_type()));
    let rows = [
        (len == 0, "is empty; name a path, or leave it out"),
        (len > 0 && !path.is_absolute(), "must be an absolute path"),
        (len > UNIX_BYTES_MAX, &format!("has {len} bytes, and the path of a socket at most {UNIX_BYTES_MAX}")),
        (there.is_some_and(|kind| kind.is_dir()), "is a directory; name a path in it"),
        (
            there.is_some_and(|kind| !kind.is_dir() && !kind.is_socket()),
            "something other than a socket is there: remove it, or name another path",
        ),
    ];
    rows.into_iter().find(|(holds, _)| *holds).map(|(_, text)| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;

    fn told(listen: &Listen) -> Vec<String> {
        listen.problems().into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn a_socket_that_cannot_be_bound_is_told_before_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("file"), "").unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let long = |len: usize| PathBuf::from(format!("/{}", "x".repeat(len - 1)));
        for (unix, problem) in [
            (PathBuf::new(), Some("is empty")),
            ("proctor.sock".into(), Some("must be an absolute path")),
            (long(108), Some("has 108 bytes, and the path of a socket at most 107")),
            (long(107), None),
            (at("dir"), Some("is a directory")),
            (at("file"), Some("something other than a socket is there")),
            (at("socket"), None),
            (at("new"), None),
        ] {
            let told = told(&Listen { unix: Some(unix.clone()), ..Listen::default() });
            assert_eq!(told.len(), usize::from(problem.is_some()), "{}: {told:?}", unix.display());
            let named = |problem| told[0].starts_with(&format!("listen.unix: {problem}"));
            assert!(problem.is_none_or(named), "{problem:?} in {told:?}");
        }
        let problems = Listen { unix: Some(at("gone/s")), ..Listen::default() }.problems();
        assert!(problems.len() == 1 && problems[0].is_note, "{problems:?}");
    }

    #[test]
    fn a_socket_has_permission_bits_and_no_others() {
        let told =
            |mode: &str| told(&Listen { unix: Some("/s".into()), unix_mode: Some(mode.into()), ..Listen::default() });
        for (mode, good) in
            [("0660", true), ("777", true), ("1777", false), ("0888", false), ("rw", false), ("", false)]
        {
            assert_eq!(told(mode).is_empty(), good, "{mode}: {:?}", told(mode));
        }
    }
}

//! TLS: the server's certificate, and the names in client certificates. A client is identified by a name in its
//! certificate's subjectAltName, a URI (as in SPIFFE) or a DNS name, and by nothing else in it.

use crate::config::{Problem, TlsTable};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use x509_parser::prelude::{ASN1Time, CertificateRevocationList, FromDer, Validity, X509Certificate};

/// The TLS configuration of a host file.
#[derive(Debug)]
pub(super) struct TlsAccess {
    pub(super) server: Arc<ServerConfig>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl TlsAccess {
    /// Loads the files that the table names.
    pub(super) fn load(table: &TlsTable, notes: &mut Vec<Problem>) -> Result<TlsAccess, Vec<Problem>> {
        let mut problems = Vec::new();
        if table.cert.as_os_str().is_empty() || table.key.as_os_str().is_empty() {
            return Err(problems); // the table's own check reports this
        }
        let clients = client_verifier(table, &mut problems, notes);
        let chain: Vec<CertificateDer<'static>> = read_pem(&table.cert, "cert", "certificate", &mut problems);
        notes.extend(check_validity(table, &chain));
        let key = PrivateKeyDer::from_pem_file(&table.key);
        let key = key.map_err(|error| problems.push(problem("key", &table.key, pem(&error, "private key")))).ok();
        let (Some(key), []) = (key, problems.as_slice()) else { return Err(problems) };
        let verifier = clients.clone().unwrap_or_else(WebPkiClientVerifier::no_client_auth);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_client_cert_verifier(verifier))
            .and_then(|builder| builder.with_single_cert(chain, key));
        let mut server = server.map_err(|error| vec![problem("key", &table.key, error.to_string())])?;
        server.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsAccess { server: Arc::new(server), clients })
    }

    /// The names in a client's certificate, if one of the configured authorities vouches for it at that time.
    ///
    /// The handshake has proved that the client has the key. Authorities and revocations are checked again here,
    /// because a connection may be older than they are.
    pub(super) fn names(&self, chain: &[CertificateDer<'_>], at: UnixTime) -> Result<Vec<String>, Error> {
        let (Some(clients), Some((own, intermediates))) = (&self.clients, chain.split_first()) else {
            return Err(Error::NoCertificatesPresented);
        };
        clients.verify_client_cert(own, intermediates, at)?;
        let own = webpki::EndEntityCert::try_from(own).map_err(|_| CertificateError::BadEncoding)?;
        // DNS names are case-insensitive; the host file's are compared in lower case too.
        let dns = own.valid_dns_names().map(str::to_ascii_lowercase);
        let uris = own.valid_uri_names().filter(|uri| uri.contains(':')).map(str::to_owned);
        Ok(uris.chain(dns).collect())
    }
}

fn client_verifier(
    table: &TlsTable,
    problems: &mut Vec<Problem>,
    notes: &mut Vec<Problem>,
) -> Option<Arc<dyn ClientCertVerifier>> {
    let path = table.client_ca.as_ref()?;
    let before = problems.len();
    let mut roots = RootCertStore::empty();
    for authority in read_pem::<CertificateDer<'static>>(path, "client_ca", "certificate", problems) {
        if let Err(error) = roots.add(authority) {
            problems.push(problem("client_ca", path, error.to_string()));
        }
    }
    let crls: Vec<CertificateRevocationListDer<'static>> = match &table.client_crl {
        Some(path) => read_pem(path, "client_crl", "revocation list", problems),
        None => Vec::new(),
    };
    if problems.len() > before {
        return None;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        // A client without a certificate may have a bearer token.
        .allow_unauthenticated();
    if !crls.is_empty() {
        notes.extend(check_revocation_lists(table, &crls));
        // Every certificate between the caller's and the authority is checked too, each against the list of its own
        // issuer. Lists may cover only some authorities; an expired list means that no client of its authority is
        // accepted.
        builder = builder.with_crls(crls).allow_unknown_revocation_status().enforce_revocation_expiration();
    }
    let at = if table.client_crl.is_some() { "client_crl" } else { "client_ca" };
    builder.build().map_err(|error| problems.push(problem(at, path, error.to_string()))).ok()
}

// A note, no problem of the file: a problem would keep an operator from revoking something else.
fn check_revocation_lists(table: &TlsTable, crls: &[CertificateRevocationListDer<'static>]) -> Option<Problem> {
    let now = ASN1Time::now();
    let expired = crls.iter().filter(|list| next_update(list).is_some_and(|end| end <= now)).count();
    let text = format!(
        "{expired} of {} lists are out of date; client certificates of their authorities are refused until newer lists are loaded",
        crls.len()
    );
    table.client_crl.as_ref().filter(|_| expired > 0).map(|path| note("client_crl", path, text))
}

// A note for an invalid server certificate: callers refuse it, and the unix socket still works.
fn check_validity(table: &TlsTable, chain: &[CertificateDer<'_>]) -> Option<Problem> {
    let now = ASN1Time::now();
    let wrong = |validity: Validity| match now {
        now if now < validity.not_before => Some("is not valid yet"),
        now if now > validity.not_after => Some("is out of date"),
        _ => None,
    };
    let wrong = chain.iter().filter_map(|one| validity(one)).find_map(wrong)?;
    Some(note("cert", &table.cert, format!("a certificate in it {wrong}; clients that connect over TCP refuse it")))
}

/// The time by which a list promises its successor; `None` if it names none, or if the bytes are no list in DER. The
/// TLS library enforces this time and does not expose it.
pub(super) fn next_update(list: &[u8]) -> Option<ASN1Time> {
    CertificateRevocationList::from_der(list).ok()?.1.next_update()
}

/// The validity of a certificate; `None` if the bytes are no certificate in DER.
pub(super) fn validity(certificate: &[u8]) -> Option<Validity> {
    Some(X509Certificate::from_der(certificate).ok()?.1.validity().clone())
}

// All items of one kind in a PEM file; a problem without any.
fn read_pem<T: PemObject>(path: &Path, key: &str, kind: &str, problems: &mut Vec<Problem>) -> Vec<T> {
    let read = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<T>, PemError>>);
    let read = read.and_then(|found| if found.is_empty() { Err(PemError::NoItemsFound) } else { Ok(found) });
    read.unwrap_or_else(|error| {
        problems.push(problem(key, path, pem(&error, kind)));
        Vec::new()
    })
}

fn pem(error: &PemError, kind: &str) -> String {
    match error {
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => format!("contains no {kind} in PEM"),
        other => format!("no {kind} in PEM: {other}"),
    }
}

fn note(key: &str, path: &Path, detail: String) -> Problem {
    Problem { is_note: true, ..problem(key, path, detail) }
}

fn problem(key: &str, path: &Path, detail: String) -> Problem {
    let at = format!("listen.tls.{key}");
    let text = format!("{at}: {}: {detail}", path.display());
    Problem::new(at, text)
}

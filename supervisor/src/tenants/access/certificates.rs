//! TLS: the certificate that we show, and the names in those that are shown to us. A client is known by a name in its
//! certificate's subjectAltName, a URI (as SPIFFE has it) or a DNS name, and by nothing else in it. Must not know whose a
//! name is.

use super::expiry;
use crate::config::{Problem, TlsTable};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// TLS as a host file has it.
#[derive(Debug)]
pub(super) struct Tls {
    pub(super) server: Arc<ServerConfig>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl Tls {
    /// Reads everything that the table names.
    pub(super) fn load(table: &TlsTable, notes: &mut Vec<Problem>) -> Result<Tls, Vec<Problem>> {
        let mut problems = Vec::new();
        if table.cert.as_os_str().is_empty() || table.key.as_os_str().is_empty() {
            return Err(problems); // which the table says itself
        }
        let clients = clients(table, &mut problems, notes);
        let chain: Vec<CertificateDer<'static>> = all(&table.cert, "cert", "certificate", &mut problems);
        notes.extend(untimely(table, &chain));
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
        Ok(Tls { server: Arc::new(server), clients })
    }

    /// The names in a client's certificate, if an authority of ours says that it was its own at that time.
    ///
    /// The handshake has proved that the client has the key. Authorities and revocations are looked at again here,
    /// because a connection may be older than they are.
    pub(super) fn names(&self, chain: &[CertificateDer<'_>], at: UnixTime) -> Result<Vec<String>, Error> {
        let (Some(clients), Some((own, others))) = (&self.clients, chain.split_first()) else {
            return Err(Error::NoCertificatesPresented);
        };
        clients.verify_client_cert(own, others, at)?;
        let own = webpki::EndEntityCert::try_from(own).map_err(|_| CertificateError::BadEncoding)?;
        // DNS names know no case; the host file's are compared in lower case too.
        let dns = own.valid_dns_names().map(str::to_ascii_lowercase);
        let uris = own.valid_uri_names().filter(|uri| uri.contains(':')).map(str::to_owned);
        Ok(uris.chain(dns).collect())
    }
}

fn clients(
    table: &TlsTable,
    problems: &mut Vec<Problem>,
    notes: &mut Vec<Problem>,
) -> Option<Arc<dyn ClientCertVerifier>> {
    let path = table.client_ca.as_ref()?;
    let before = problems.len();
    let mut roots = RootCertStore::empty();
    for authority in all::<CertificateDer<'static>>(path, "client_ca", "certificate", problems) {
        if let Err(error) = roots.add(authority) {
            problems.push(problem("client_ca", path, error.to_string()));
        }
    }
    let crls: Vec<CertificateRevocationListDer<'static>> = match &table.client_crl {
        Some(path) => all(path, "client_crl", "revocation list", problems),
        None => Vec::new(),
    };
    if problems.len() > before {
        return None;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        // Who shows none may have a bearer token.
        .allow_unauthenticated();
    if !crls.is_empty() {
        notes.extend(ended(table, &crls));
        // Every certificate between the caller's and the authority too, each by the list of its own issuer. Lists may be of some
        // authorities alone; one that is out of date says nothing any more, and then nobody of its authority is let in.
        builder = builder.with_crls(crls).allow_unknown_revocation_status().enforce_revocation_expiration();
    }
    let at = if table.client_crl.is_some() { "client_crl" } else { "client_ca" };
    builder.build().map_err(|error| problems.push(problem(at, path, error.to_string()))).ok()
}

// No problem of the file: one would keep an operator from revoking something else.
fn ended(table: &TlsTable, crls: &[CertificateRevocationListDer<'static>]) -> Option<Problem> {
    let now = UnixTime::now().as_secs();
    let ended = crls.iter().filter(|list| expiry::next_update(list).is_some_and(|end| end <= now)).count();
    let text = format!(
        "{ended} of {} lists are out of date; client certificates of their authorities are refused until there are newer ones",
        crls.len()
    );
    table.client_crl.as_ref().filter(|_| ended > 0).map(|path| note("client_crl", path, text))
}

// The same of what we show ourselves: callers refuse it, and the unix socket goes on.
fn untimely(table: &TlsTable, chain: &[CertificateDer<'_>]) -> Option<Problem> {
    let now = UnixTime::now().as_secs();
    let wrong = |(from, until)| match now {
        now if now < from => Some("is not valid yet"),
        now if now > until => Some("is out of date"),
        _ => None,
    };
    let wrong = chain.iter().filter_map(|one| expiry::validity(one)).find_map(wrong)?;
    Some(note("cert", &table.cert, format!("a certificate in it {wrong}; who connects over TCP refuses it")))
}

// Everything of one kind in a file; a problem when there is none.
fn all<T: PemObject>(path: &Path, key: &str, kind: &str, problems: &mut Vec<Problem>) -> Vec<T> {
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
        PemError::NoItemsFound => format!("there is no {kind} in it, in PEM"),
        other => format!("no {kind} in PEM: {other}"),
    }
}

fn note(key: &str, path: &Path, what: String) -> Problem {
    Problem { is_note: true, ..problem(key, path, what) }
}

fn problem(key: &str, path: &Path, what: String) -> Problem {
    let at = format!("listen.tls.{key}");
    let text = format!("{at}: {}: {what}", path.display());
    Problem::new(at, text)
}

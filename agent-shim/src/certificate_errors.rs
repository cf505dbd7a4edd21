//! Recognises certificate faults among the causes of a connection error and explains how to fix them.

use std::error::Error;

/// A certificate fault: what is wrong, and the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CertificateFault {
    pub(crate) what: &'static str,
    pub(crate) remedy: &'static str,
}

const UNKNOWN_AUTHORITY: CertificateFault = CertificateFault {
    what: "the supervisor's certificate was not signed by an authority in --ca",
    remedy: "Give --ca the certificate of the authority that signed the supervisor's; its operator has it.",
};

const EXPIRED: CertificateFault = CertificateFault {
    what: "the supervisor's certificate has expired",
    remedy: "Its operator has to renew it ([listen.tls] of the host file, then SIGHUP). See whether this host's clock is right.",
};

const NOT_YET_VALID: CertificateFault = CertificateFault {
    what: "the supervisor's certificate is not valid yet",
    remedy: "See whether this host's clock is right, or ask the supervisor's operator.",
};

const WRONG_NAME: CertificateFault = CertificateFault {
    what: "the supervisor's certificate names another host",
    remedy: "Name the host in --supervisor as the certificate does.",
};

const INVALID: CertificateFault = CertificateFault {
    what: "the supervisor's certificate is not valid",
    remedy: "Ask the supervisor's operator, and check --ca.",
};

const CLIENT_EXPIRED: CertificateFault = CertificateFault {
    what: "the supervisor refuses our certificate, which has expired",
    remedy: "Renew --cert and --key; they are read anew for each connection.",
};

const CLIENT_REFUSED: CertificateFault = CertificateFault {
    what: "the supervisor refuses our certificate",
    remedy: "It must be of an authority in the host file's listen.tls.client_ca, and not be revoked. Check --cert and --key, or \
             ask the operator.",
};

// Fragments of rustls error texts: HTTP/2 keeps only the text of an error of a lower layer. `received fatal alert` is the
// server's verdict on the client certificate, with the names of RFC 8446, 6.2. The first match counts.
const FAULTS_BY_TEXT: [(&str, CertificateFault); 11] = [
    ("invalid peer certificate: UnknownIssuer", UNKNOWN_AUTHORITY),
    // Signed by a different authority that has the same name.
    ("invalid peer certificate: BadSignature", UNKNOWN_AUTHORITY),
    ("invalid peer certificate: certificate expired", EXPIRED),
    ("invalid peer certificate: certificate not valid yet", NOT_YET_VALID),
    ("invalid peer certificate: certificate not valid for name", WRONG_NAME),
    ("invalid peer certificate", INVALID),
    ("received fatal alert: CertificateExpired", CLIENT_EXPIRED),
    ("received fatal alert: UnknownCA", CLIENT_REFUSED),
    ("received fatal alert: CertificateRevoked", CLIENT_REFUSED),
    ("received fatal alert: DecryptError", CLIENT_REFUSED),
    ("received fatal alert: BadCertificate", CLIENT_REFUSED),
];

/// The certificate fault that caused `error`, if any.
pub(crate) fn find_fault(error: &(dyn Error + 'static)) -> Option<CertificateFault> {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    let found = FAULTS_BY_TEXT.iter().find(|(fragment, _)| texts.iter().any(|text| text.contains(fragment)));
    found.map(|(_, fault)| *fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// The end-to-end suites check these texts against real supervisors.
    #[test]
    fn finds_certificate_faults_anywhere_among_the_causes() {
        let fault = |text: &str| find_fault(&io::Error::other(io::Error::other(text.to_owned())));
        assert_eq!(fault("invalid peer certificate: UnknownIssuer"), Some(UNKNOWN_AUTHORITY));
        assert_eq!(fault("invalid peer certificate: certificate expired: verification time 2 (UNIX)"), Some(EXPIRED));
        assert_eq!(fault("invalid peer certificate: certificate not valid for name \"x\""), Some(WRONG_NAME));
        assert_eq!(fault("invalid peer certificate: BadEncoding"), Some(INVALID));
        assert_eq!(fault("error reading a body: received fatal alert: CertificateExpired"), Some(CLIENT_EXPIRED));
        assert_eq!(fault("Connection refused (os error 111)"), None);
        assert_eq!(fault("received fatal alert: InternalError"), None);
    }
}

//! What certificates have to do with a connection that was not made, or did not last, and what helps. Must not know what was
//! asked over it.

use std::error::Error;

/// What is wrong with a certificate, for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CertificateFault {
    pub(crate) what: &'static str,
    pub(crate) remedy: &'static str,
}

const OTHER_AUTHORITY: CertificateFault = CertificateFault {
    what: "the supervisor's certificate was not signed by an authority in --ca",
    remedy: "Give --ca the certificate of the authority that signed the supervisor's; its operator has it.",
};

const EXPIRED: CertificateFault = CertificateFault {
    what: "the supervisor's certificate has expired",
    remedy: "Its operator has to renew it ([listen.tls] of the host file, then SIGHUP). See whether this host's clock is right.",
};

const NOT_YET: CertificateFault = CertificateFault {
    what: "the supervisor's certificate is not valid yet",
    remedy: "See whether this host's clock is right, or ask the supervisor's operator.",
};

const OTHER_NAME: CertificateFault = CertificateFault {
    what: "the supervisor's certificate names another host",
    remedy: "Name the host in --supervisor as the certificate does.",
};

const OTHER: CertificateFault = CertificateFault {
    what: "the supervisor's certificate is not valid",
    remedy: "Ask the supervisor's operator, and check --ca.",
};

const OURS_EXPIRED: CertificateFault = CertificateFault {
    what: "the supervisor refuses our certificate, which has expired",
    remedy: "Renew --cert and --key; they are read anew for each connection.",
};

const OURS_UNKNOWN: CertificateFault = CertificateFault {
    what: "the supervisor refuses our certificate",
    remedy: "It must be of an authority in the host file's listen.tls.client_ca, and not be revoked. Check --cert and --key, or \
             ask the operator.",
};

// By the words of rustls: what HTTP/2 keeps of an error below it is its text alone. `received fatal alert` is what the other
// side says of ours, by the names of RFC 8446, 6.2.
const KNOWN: [(&str, CertificateFault); 11] = [
    ("invalid peer certificate: UnknownIssuer", OTHER_AUTHORITY),
    // What an authority of the same name as another's signs.
    ("invalid peer certificate: BadSignature", OTHER_AUTHORITY),
    ("invalid peer certificate: certificate expired", EXPIRED),
    ("invalid peer certificate: certificate not valid yet", NOT_YET),
    ("invalid peer certificate: certificate not valid for name", OTHER_NAME),
    ("invalid peer certificate", OTHER),
    ("received fatal alert: CertificateExpired", OURS_EXPIRED),
    ("received fatal alert: UnknownCA", OURS_UNKNOWN),
    ("received fatal alert: CertificateRevoked", OURS_UNKNOWN),
    ("received fatal alert: DecryptError", OURS_UNKNOWN),
    ("received fatal alert: BadCertificate", OURS_UNKNOWN),
];

/// What is wrong with a certificate, if that is what `error` came of.
pub(crate) fn trouble(error: &(dyn Error + 'static)) -> Option<CertificateFault> {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    let found = KNOWN.iter().find(|(words, _)| texts.iter().any(|text| text.contains(words)));
    found.map(|(_, trouble)| *trouble)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// The words themselves are tried on real supervisors, in the end-to-end suites.
    #[test]
    fn a_cause_is_found_wherever_it_is_and_only_if_it_is_a_certificate() {
        let of = |text: &str| trouble(&io::Error::other(io::Error::other(text.to_owned())));
        assert_eq!(of("invalid peer certificate: UnknownIssuer"), Some(OTHER_AUTHORITY));
        assert_eq!(of("invalid peer certificate: certificate expired: verification time 2 (UNIX)"), Some(EXPIRED));
        assert_eq!(of("invalid peer certificate: certificate not valid for name \"x\""), Some(OTHER_NAME));
        assert_eq!(of("invalid peer certificate: BadEncoding"), Some(OTHER));
        assert_eq!(of("error reading a body: received fatal alert: CertificateExpired"), Some(OURS_EXPIRED));
        assert_eq!(of("EstablishedConnection refused (os error 111)"), None);
        assert_eq!(of("received fatal alert: InternalError"), None);
    }
}

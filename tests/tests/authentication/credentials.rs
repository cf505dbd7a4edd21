//! Certificates, keys and tokens made for one test, and a supervisor configured to accept them.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proctor_proto::client::TlsConfig;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, SanType, date_time_ymd};
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// A year in the future.
pub(crate) const LATER: i32 = 4_000;

/// A year in the past.
pub(crate) const BEFORE: i32 = 2_020;

/// Certificates and keys of a supervisor and its clients, in a temporary directory.
pub(crate) struct Keys {
    dir: TempDir,
    pub(crate) authorities: String,
    authority: Issuer<'static, KeyPair>,
    issuer: KeyPair,
}

impl Keys {
    pub(crate) fn new() -> Keys {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authorities = params.self_signed(&key).unwrap().pem();
        let authority = Issuer::new(params, key);
        let issuer = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let keys = Keys { dir, authorities, authority, issuer };
        keys.renew(LATER);
        keys.write("clients.pem", &keys.authorities);
        keys.write("issuer.pem", &keys.issuer.public_key_pem());
        keys
    }

    /// Path of one of the files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes one of the files.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Writes a new server certificate that is valid until `year` begins.
    pub(crate) fn renew(&self, year: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        self.write("server.pem", &params.signed_by(&key, &self.authority).unwrap().pem());
        self.write("server.key", &key.serialize_pem());
    }

    /// A client certificate for `name` that is valid until `year` begins, and its key.
    pub(crate) fn certificate(&self, name: &str, year: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(name.try_into().unwrap())];
        params.not_after = date_time_ymd(year, 1, 1);
        (params.signed_by(&key, &self.authority).unwrap().pem(), key.serialize_pem())
    }

    /// TLS settings of a client, with a certificate for `name` or without one.
    pub(crate) fn client(&self, name: Option<&str>) -> TlsConfig {
        TlsConfig { authorities: self.authorities.clone(), client: name.map(|name| self.certificate(name, LATER)) }
    }

    /// A signed JSON web token that expires in `lives_s` seconds.
    pub(crate) fn jwt(&self, subject: &str, lives_s: i64) -> String {
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
        let claims = serde_json::json!({ "iss": "i", "aud": "proctor", "sub": subject, "exp": now + lives_s });
        let key = EncodingKey::from_ed_der(self.issuer.serialized_der());
        encode(&Header::new(Algorithm::EdDSA), &claims, &key).unwrap()
    }

    /// A supervisor with TLS that accepts certificates and web tokens of tenant beta and a certificate of an operator.
    pub(crate) fn supervisor(&self) -> SupervisorProcess {
        let dir = self.dir.path().display();
        let listen = format!(
            "[listen.tls]\ncert = \"{dir}/server.pem\"\nkey = \"{dir}/server.key\"\nclient_ca = \"{dir}/clients.pem\"\n\
             [jwt]\nkeys = [\"{dir}/issuer.pem\"]\nissuer = \"i\"\naudience = \"proctor\"\n"
        );
        let supervisor =
            SupervisorProcess::with_settings(&SupervisorSettings { listen, ..SupervisorSettings::default() });
        let output = supervisor.reload_host_file(|text| {
            let text = text.replace("[operators]\n", "[operators]\ncert_names = [\"spiffe://x/operator\"]\n");
            let beta = "jwt_subjects = [\"beta\"]\ncert_names = [\"spiffe://x/beta\"]\n";
            text.replace("id = \"beta\"\n", &format!("id = \"beta\"\n{beta}"))
        });
        assert!(output.contains("was reloaded"), "{output}");
        supervisor
    }
}

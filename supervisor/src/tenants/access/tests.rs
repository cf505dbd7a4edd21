//! Tests of each credential, alone and beside the others, and of everything that must be refused. Keys and certificates
//! are generated here, except RSA's: those are the example of RFC 7515, appendix A.2.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, IsCa, Issuer as Authority,
    KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PublicKeyData, RevokedCertParams,
    SanType, SerialNumber, date_time_ymd,
};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

/// A time at which everything generated here is valid, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

const RSA_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";

/// A directory with everything that a host file names, and the matching keys.
struct World {
    dir: TempDir,
    edwards: KeyPair,
    curve: KeyPair,
    authority: Authority<'static, KeyPair>,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let edwards = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let curve = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let (authority, root) = authority();
        let world = World { dir, edwards, curve, authority };
        world.write("clients.pem", &root.pem());
        world.write("edwards.pem", &world.edwards.public_key_pem());
        world.write("curve.pem", &world.curve.public_key_pem());
        let server = KeyPair::generate().unwrap();
        let presented = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&server).unwrap();
        world.write("server.pem", &presented.pem());
        world.write("server.key", &server.serialize_pem());
        world
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn host_file(&self) -> String {
        format!(
            "state_dir = \"{dir}/state\"\n\
             [listen]\nunix = \"{dir}/s\"\ntcp = \"127.0.0.1:0\"\n\
             [listen.tls]\ncert = \"{dir}/server.pem\"\nkey = \"{dir}/server.key\"\nclient_ca = \"{dir}/clients.pem\"\n\
             [jwt]\nkeys = [\"{dir}/edwards.pem\", \"{dir}/curve.pem\"]\nissuer = \"issuer\"\naudience = \"proctor\"\n\
             [sandbox]\nleft_off = [\"tenant_uid\"]\n\
             [operators]\njwt_subjects = [\"root\"]\ncert_names = [\"spiffe://x/operator\"]\n\
             [[tenant]]\nid = \"a\"\nroots = [\"{dir}/work\"]\nuids = [1]\ntoken_hashes = [\"{a}\"]\njwt_subjects = [\"alpha\"]\n\
             cert_names = [\"spiffe://x/a\", \"A.example\"]\n\
             [[tenant]]\nid = \"b\"\nroots = [\"{dir}/work\"]\njwt_subjects = [\"beta\"]\ncert_names = [\"spiffe://x/b\"]\n",
            dir = self.dir.path().display(),
            a = blake3::hash(b"secret"),
        )
    }

    fn load(&self, text: &str) -> Result<Access, Vec<String>> {
        self.read(text).map(|loaded| loaded.access)
    }

    /// The notes about a valid file.
    fn notes(&self, text: &str) -> Vec<String> {
        let short = |note: String| note.replace(&format!("{}/", self.dir.path().display()), "");
        self.read(text).unwrap().notes.into_iter().map(short).collect()
    }

    fn read(&self, text: &str) -> Result<LoadedConfig, Vec<String>> {
        self.write("proctor.toml", text);
        let path = self.dir.path().join("proctor.toml");
        let read = load(&path, true, &Tenants::default(), |_| Vec::new());
        let short =
            |diagnostic: Diagnostic| diagnostic.to_string().replace(&format!("{}/", self.dir.path().display()), "");
        read.map_err(|problems| problems.into_iter().map(short).collect())
    }

    fn access(&self) -> Access {
        self.load(&self.host_file()).unwrap()
    }

    fn client(&self, params: &CertificateParams) -> PresentedCredential {
        client(&self.authority, params)
    }

    /// Access with a revocation list of the authority, valid until the start of a year.
    fn with_revocation_list(&self, revoked_certs: Vec<RevokedCertParams>, until: i32) -> Access {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 2),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.authority).unwrap();
        let end = certificates::next_update(list.der()).unwrap().timestamp();
        assert_eq!(end, date_time_ymd(until, 1, 1).unix_timestamp(), "as the library writes it");
        self.write("clients.crl", &list.pem().unwrap());
        self.load(&self.host_file_with_list()).unwrap()
    }

    /// The host file with a revocation list.
    fn host_file_with_list(&self) -> String {
        let named = format!("\nclient_crl = \"{}/clients.crl\"\n[jwt]", self.dir.path().display());
        self.host_file().replace("\n[jwt]", &named)
    }
}

fn authority() -> (Authority<'static, KeyPair>, Certificate) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let root = params.self_signed(&key).unwrap();
    (Authority::new(params, key), root)
}

fn revoked(serial: u64) -> RevokedCertParams {
    RevokedCertParams {
        serial_number: SerialNumber::from(serial),
        revocation_time: date_time_ymd(2026, 1, 2),
        reason_code: None,
        invalidity_date: None,
    }
}

fn named(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names
        .iter()
        .map(|name| match name.contains(':') {
            true => SanType::URI((*name).try_into().unwrap()),
            false => SanType::DnsName((*name).try_into().unwrap()),
        })
        .collect();
    params
}

fn client(authority: &Authority<'static, KeyPair>, params: &CertificateParams) -> PresentedCredential {
    let certificate = params.signed_by(&KeyPair::generate().unwrap(), authority).unwrap();
    PresentedCredential::Certificates([certificate.der().clone()].into())
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

fn token(text: impl Into<String>) -> PresentedCredential {
    PresentedCredential::Token(text.into().into())
}

fn claims(subject: &str) -> Value {
    json!({ "iss": "issuer", "aud": "proctor", "exp": NOW + 600, "sub": subject })
}

fn edwards(world: &World, claims: &Value) -> String {
    encode(&Header::new(Algorithm::EdDSA), claims, &EncodingKey::from_ed_der(world.edwards.serialized_der())).unwrap()
}

fn identify(access: &Access, presented: &PresentedCredential) -> String {
    match access.caller(presented, at(NOW)) {
        Ok(Caller { tenant, operator, .. }) => {
            let tenant = tenant.map_or("-".to_owned(), |tenant| tenant.id.to_string());
            format!("{tenant}{}", if operator { " operator" } else { "" })
        }
        Err(why) => {
            format!("refused: {}", std::error::Error::source(&why).map_or(why.to_string(), ToString::to_string))
        }
    }
}

#[test]
fn each_credential_identifies_its_tenant_and_operators_are_a_separate_role() {
    let world = World::new();
    let access = world.access();
    let curve = EncodingKey::from_ec_der(world.curve.serialized_der());
    for (presented, expected) in [
        (PresentedCredential::Uid(1), "a"),
        (PresentedCredential::Uid(2), "refused: no tenant or operator has it"),
        (token("secret"), "a"),
        (token("Secret"), "refused: no tenant or operator has it"),
        (token(edwards(&world, &claims("alpha"))), "a"),
        (token(edwards(&world, &claims("beta"))), "b"),
        (token(edwards(&world, &claims("root"))), "- operator"),
        (token(edwards(&world, &claims("gamma"))), "refused: no tenant or operator has it"),
        (token(encode(&Header::new(Algorithm::ES256), &claims("beta"), &curve).unwrap()), "b"),
        (world.client(&named(&["spiffe://x/a"])), "a"),
        (world.client(&named(&["a.EXAMPLE"])), "a"),
        (world.client(&named(&["other.example", "spiffe://x/b"])), "b"),
        (world.client(&named(&["spiffe://x/operator"])), "- operator"),
        (world.client(&named(&["spiffe://x/b", "spiffe://x/operator"])), "b operator"),
        (world.client(&named(&["spiffe://x/A"])), "refused: no tenant or operator has it"),
        (world.client(&named(&["spiffe://x/a", "spiffe://x/b"])), "refused: no tenant or operator has it"),
    ] {
        assert_eq!(identify(&access, &presented), expected, "{presented:?}");
    }
}

#[test]
fn accepts_a_json_web_token_only_when_all_claims_are_valid() {
    let world = World::new();
    let access = world.access();
    let with = |change: Value| {
        let mut claims = claims("alpha");
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        identify(&access, &token(edwards(&world, &claims)))
    };
    let (expired, not_yet) = ("refused: expired, or without a time at which it expires", "refused: not valid yet");
    for (change, expected) in [
        (json!({}), "a"),
        (json!({ "aud": ["other", "proctor"] }), "a"),
        (json!({ "exp": NOW - 29 }), "a"), // within the leeway
        (json!({ "exp": NOW as f64 + 0.5, "nbf": NOW + 30 }), "a"),
        (json!({ "exp": NOW - 30 }), expired),
        (json!({ "exp": null }), expired),
        (json!({ "exp": "tomorrow" }), expired),
        (json!({ "exp": -1 }), expired),
        (json!({ "nbf": NOW + 31 }), not_yet),
        (json!({ "aud": "other" }), "refused: for another audience"),
        (json!({ "aud": null }), "refused: for another audience"),
        (json!({ "iss": "other" }), "refused: from another issuer"),
        (json!({ "iss": ["issuer"] }), "refused: from another issuer"),
        (json!({ "sub": null }), "refused: without a subject"),
        (json!({ "sub": "" }), "refused: without a subject"),
    ] {
        assert_eq!(with(change.clone()), expected, "{change}");
    }
}

#[test]
fn accepts_only_the_issuers_own_signature() {
    let world = World::new();
    let access = world.access();
    let good = edwards(&world, &claims("alpha"));
    let parts: Vec<&str> = good.split('.').collect();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let hmac = |secret: &[u8]| {
        encode(&Header::new(Algorithm::HS256), &claims("alpha"), &EncodingKey::from_secret(secret)).unwrap()
    };
    let other = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let other = EncodingKey::from_ed_der(other.serialized_der());
    let critical = part(json!({ "alg": "EdDSA", "crit": ["exp"], "exp": 1 }));
    let (signature, malformed) = ("refused: signed by no key of the issuer", "refused: not a token that can be read");
    for (text, expected) in [
        (good.clone(), "a"),
        (encode(&Header::new(Algorithm::EdDSA), &claims("alpha"), &other).unwrap(), signature),
        (format!("{}.{}.{}", parts[0], part(claims("beta")), parts[2]), signature),
        (format!("{}.{}.", part(json!({ "alg": "none" })), parts[1]), signature),
        (hmac(world.edwards.public_key_pem().as_bytes()), signature),
        (hmac(world.edwards.public_key_raw()), signature),
        (hmac(b""), signature),
        (format!("{}.{}.{}", part(json!({ "alg": "ES256" })), parts[1], parts[2]), signature),
        (format!("{critical}.{}.{}", parts[1], parts[2]), malformed),
        ("..".to_owned(), malformed),
        (format!("{good}{}", "A".repeat(8 * 1024)), malformed),
    ] {
        assert_eq!(identify(&access, &token(&text)), expected, "{text}");
    }
}

/// The form decides, and a token refused in one form is never tried in the other.
#[test]
fn never_tries_an_opaque_token_as_a_json_web_token_or_the_reverse() {
    let world = World::new();
    let expired = edwards(&world, &json!({ "iss": "issuer", "aud": "proctor", "exp": 1, "sub": "alpha" }));
    let text =
        world.host_file().replace(&blake3::hash(b"secret").to_string(), &blake3::hash(expired.as_bytes()).to_string());
    assert!(identify(&world.load(&text).unwrap(), &token(expired)).starts_with("refused: expired"));
}

#[test]
fn accepts_rsa_keys_from_a_key_set_and_from_pem() {
    let world = World::new();
    let n = URL_SAFE_NO_PAD.decode(RSA_N).unwrap();
    // RFC 8017's RSAPublicKey within a SubjectPublicKeyInfo, as openssl would write it.
    let key =
        [&[0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0x00], &n[..], &[0x02, 0x03, 0x01, 0x00, 0x01]].concat();
    let algorithm = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
    let info = [&[0x30, 0x82, 0x01, 0x22], &algorithm[..], &[0x03, 0x82, 0x01, 0x0f, 0x00], &key[..]].concat();
    let pem = base64::engine::general_purpose::STANDARD.encode(info);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{pem}\n-----END PUBLIC KEY-----\n");
    let unknown = json!({ "kty": "EC", "crv": "P-521", "x": "AA", "y": "AA" });
    let set = |more: Value| {
        let mut rsa = json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB", "kid": "one" });
        for (name, value) in more.as_object().unwrap() {
            rsa[name] = value.clone();
        }
        json!({ "keys": [unknown, rsa] }).to_string()
    };
    let text = world.host_file().replace("edwards.pem", "rsa").replace("\"issuer\"", "\"joe\"");
    let signed = "refused: for another audience"; // which the example does not have
    for (file, expected) in
        [(&pem, signed), (&set(json!({})), signed), (&set(json!({ "alg": "RS256", "use": "sig" })), signed)]
    {
        world.write("rsa", file);
        assert_eq!(identify(&world.load(&text).unwrap(), &token(RSA_TOKEN)), expected, "{file}");
    }
    for file in [
        set(json!({ "use": "enc" })),
        set(json!({ "alg": "RS512" })),
        set(json!({ "n": &RSA_N[..168] })), // 1,008 bits
        json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0" }] }).to_string(),
    ] {
        world.write("rsa", &file);
        let problems = world.load(&text).unwrap_err();
        assert_eq!(
            problems,
            [
                "proctor.toml:10: jwt.keys: rsa: contains no public key that is Ed25519, P-256, or RSA of 2,048 bits or more"
            ],
            "{file}"
        );
    }
}

#[test]
fn rejects_keys_in_pem_of_other_kinds() {
    let world = World::new();
    let pem = |der: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
    };
    let edwards = world.edwards.subject_public_key_info();
    // The header of a compressed P-256 point (RFC 5480), and of an RSA key whose modulus has 1,024 bits.
    let mut compressed = world.curve.subject_public_key_info()[..59].to_vec();
    (compressed[1], compressed[24], compressed[26]) = (57, 34, 2);
    let algorithm = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
    let modulus = [&[0x02, 0x81, 0x81, 0x00][..], &[0xa1; 128], &[0x02, 0x03, 0x01, 0x00, 0x01]].concat();
    let short = [&[0x30, 0x81, 0x9f][..], &algorithm, &[0x03, 0x81, 0x8d, 0x00, 0x30, 0x81, 0x89], &modulus].concat();
    for key in [
        KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap().public_key_pem(),
        pem(&[&edwards[..], &[0]].concat()),
        pem(&edwards[..edwards.len() - 1]),
        pem(&compressed),
        pem(&short),
        pem(b""),
    ] {
        world.write("edwards.pem", &key);
        assert_eq!(
            world.load(&world.host_file()).unwrap_err(),
            [
                "proctor.toml:10: jwt.keys: edwards.pem: a key in it is neither Ed25519 nor P-256 nor RSA of 2,048 bits or more"
            ],
            "{key}"
        );
    }
}

#[test]
fn does_not_try_a_key_with_another_id() {
    let world = World::new();
    let x = URL_SAFE_NO_PAD.encode(world.edwards.public_key_raw());
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": "new" });
    world.write("edwards.pem", &json!({ "keys": [key] }).to_string());
    let access = world.access();
    let signed_as = |kid: Option<&str>| {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = kid.map(str::to_owned);
        let key = EncodingKey::from_ed_der(world.edwards.serialized_der());
        identify(&access, &token(encode(&header, &claims("alpha"), &key).unwrap()))
    };
    assert_eq!(signed_as(Some("new")), "a");
    assert_eq!(signed_as(None), "a");
    assert_eq!(signed_as(Some("old")), "refused: signed by no key of the issuer");
}

#[test]
fn accepts_a_certificate_only_while_valid_and_not_revoked() {
    let world = World::new();
    let mut short = named(&["spiffe://x/a"]);
    (short.not_before, short.not_after) = (date_time_ymd(2027, 1, 1), date_time_ymd(2027, 2, 1));
    short.serial_number = Some(SerialNumber::from(7_u64));
    let presented = world.client(&short);
    let access = world.access();
    assert_eq!(identify(&access, &presented), "a");
    for moment in [NOW - 30 * 86_400, NOW + 30 * 86_400] {
        assert!(matches!(access.caller(&presented, at(moment)), Err(AuthError::Certificate(_))), "{moment}");
    }
    let (stranger, _) = authority();
    let forged = client(&stranger, &named(&["spiffe://x/a"]));
    assert!(matches!(access.caller(&forged, at(NOW)), Err(AuthError::Certificate(_))), "another authority's");
    // The common name is not used.
    let mut common = named(&[]);
    common.distinguished_name.push(rcgen::DnType::CommonName, "a.example");
    assert_eq!(identify(&access, &world.client(&common)), "refused: no tenant or operator has it");

    let revoked = revoked(7);
    let access = world.with_revocation_list(vec![revoked], 2028);
    assert!(matches!(access.caller(&presented, at(NOW)), Err(AuthError::Certificate(_))), "revoked");
    assert_eq!(identify(&access, &world.client(&named(&["spiffe://x/a"]))), "a", "others are not");
}

#[test]
fn refuses_a_certificate_of_a_revoked_intermediate_authority() {
    let world = World::new();
    let (between, key) = {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::default());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(rcgen::DnType::CommonName, "between");
        params.serial_number = Some(SerialNumber::from(9_u64));
        (params, key)
    };
    let vouched = between.signed_by(&key, &world.authority).unwrap();
    let between = Authority::new(between, key);
    let own = named(&["spiffe://x/a"]).signed_by(&KeyPair::generate().unwrap(), &between).unwrap();
    let presented = PresentedCredential::Certificates([own.der().clone(), vouched.der().clone()].into());
    assert_eq!(identify(&world.access(), &presented), "a");
    assert_eq!(
        identify(&world.with_revocation_list(vec![revoked(8)], 2028), &presented),
        "a",
        "the intermediate authority has no list of its own"
    );
    let access = world.with_revocation_list(vec![revoked(9)], 2028);
    assert!(matches!(access.caller(&presented, at(NOW)), Err(AuthError::Certificate(_))), "revoked");
}

/// An expired list misses later revocations.
#[test]
fn refuses_all_clients_of_an_authority_with_an_expired_list() {
    let world = World::new();
    let presented = world.client(&named(&["spiffe://x/a"]));
    for (until, expected) in [(2028, true), (2055, true), (2027, false)] {
        let access = world.with_revocation_list(Vec::new(), until);
        assert_eq!(access.caller(&presented, at(NOW)).is_ok(), expected, "good until {until}");
    }
    for length in 0..40 {
        assert_eq!(certificates::next_update(&[0x30; 64][..length]), None);
    }
}

#[test]
fn reports_the_line_of_a_file_that_is_not_utf8() {
    for (bytes, line) in [(&b"\xff"[..], 1), (b"a = 1\n# caf\xe9\n", 2), (b"\n\n\n\xc3", 4)] {
        let world = World::new();
        fs::write(world.dir.path().join("file"), bytes).unwrap();
        let path = world.dir.path().join("file");
        let result = load(&path, true, &Tenants::default(), |_| Vec::new()).map(drop);
        assert_eq!(result, Err(vec![Diagnostic::Problem(format!("{}:{line}: is not UTF-8", path.display()))]));
    }
}

/// Also for a file without an end.
#[test]
fn refuses_a_file_that_is_too_large_before_parsing_it() {
    let world = World::new();
    let size = |text: &str| usize::try_from(HOST_FILE_BYTES_MAX).unwrap() - text.len();
    let text = world.host_file();
    let filled = |more: usize| format!("{text}{}", "#".repeat(size(&text) + more));
    assert!(world.read(&filled(0)).is_ok());
    let message = ": is larger than 4 MiB, the most that a host file may have";
    assert_eq!(world.read(&filled(1)).unwrap_err(), [format!("proctor.toml{message}")]);
    let endless = load(Path::new("/dev/zero"), true, &Tenants::default(), |_| Vec::new()).map(drop);
    assert_eq!(endless, Err(vec![Diagnostic::Problem(format!("/dev/zero{message}"))]));
}

/// Neither is a problem: it would keep an operator from revoking a credential.
#[test]
fn notes_expired_and_not_yet_valid_certificates_with_their_line() {
    let world = World::new();
    assert_eq!(world.notes(&world.host_file()), [""; 0]);
    let key = KeyPair::generate().unwrap();
    world.write("server.key", &key.serialize_pem());
    for (from, until, wrong) in [
        (2020, 2021, Some("is out of date")),
        (2020, 2120, None),
        (2110, 2120, Some("is not valid yet")),
        (1970, 2049, None),
    ] {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        let certificate = params.self_signed(&key).unwrap();
        let validity = certificates::validity(certificate.der()).unwrap();
        let [first, last] = [from, until].map(|year| date_time_ymd(year, 1, 1).unix_timestamp());
        assert_eq!((validity.not_before.timestamp(), validity.not_after.timestamp()), (first, last));
        world.write("server.pem", &certificate.pem());
        let note = |wrong| {
            format!(
                "proctor.toml:6: note: listen.tls.cert: server.pem: a certificate in it {wrong}; clients that connect over TCP refuse it"
            )
        };
        assert_eq!(
            world.notes(&world.host_file()),
            wrong.map(note).into_iter().collect::<Vec<_>>(),
            "{from} to {until}"
        );
    }
    for length in 0..40 {
        assert_eq!(certificates::validity(&[0x30; 64][..length]), None);
    }
    _ = world.with_revocation_list(Vec::new(), 2021);
    let notes = world.notes(&world.host_file_with_list());
    assert!(
        notes.len() == 1 && notes[0].contains("listen.tls.client_crl: clients.crl: 1 of 1 lists are out of date"),
        "{notes:?}"
    );
}

#[test]
fn reports_problems_of_named_files_with_their_line() {
    let world = World::new();
    let text = world.host_file();
    let problems = |text: &str| world.load(text).unwrap_err();
    let all =
        text.replace("server.pem", "nowhere").replace("clients.pem", "server.key").replace("curve.pem", "server.key");
    assert_eq!(
        problems(&all.replace("issuer = \"issuer\"\n", "")),
        [
            "proctor.toml:6: listen.tls.cert: nowhere: No such file or directory (os error 2)",
            "proctor.toml:8: listen.tls.client_ca: server.key: contains no certificate in PEM",
            "proctor.toml:9: jwt.issuer: is missing; set it to claim `iss` of the accepted tokens",
            "proctor.toml:10: jwt.keys: server.key: contains no public key that is Ed25519, P-256, or RSA of 2,048 \
             bits or more",
        ]
    );
    world.write("other.key", &KeyPair::generate().unwrap().serialize_pem());
    let mismatch = problems(&text.replace("server.key", "other.key"));
    assert_eq!(mismatch.len(), 1, "{mismatch:?}");
    assert!(mismatch[0].starts_with("proctor.toml:7: listen.tls.key: other.key: "), "{mismatch:?}");
}

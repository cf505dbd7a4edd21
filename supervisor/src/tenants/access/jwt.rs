//! Verification of JSON web tokens of one issuer (RFC 7519). Signatures are asymmetric; each key is used with its own
//! algorithm, whatever the token names.

use crate::config::{JwtTable, Problem};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use proctor_core::bounds::{JWT_BYTES_MAX, JWT_LEEWAY_S, RSA_MODULUS_BYTES_MIN};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;
use thiserror::Error;
use x509_parser::oid_registry::{OID_EC_P256, OID_SIG_ED25519};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo};
use x509_parser::public_key::PublicKey;

/// Length of an uncompressed P-256 point in bytes, the only form that verifies signatures here (RFC 5480, section 2.2).
const P256_POINT_BYTES: usize = 65;

/// The trusted issuer, with its keys and the claims that it must set.
#[derive(Debug)]
pub(super) struct Issuer {
    keys: Vec<VerificationKey>,
    name: String,
    audience: String,
    claim: String,
    leeway_s: u64,
}

struct VerificationKey {
    algorithm: Algorithm,
    id: Option<String>,
    key: DecodingKey,
}

impl fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerificationKey")
            .field("algorithm", &self.algorithm)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JwtError {
    /// The token cannot be parsed, or requires an unknown extension.
    #[error("not a token that can be read")]
    Malformed,
    /// No key of the issuer verifies its signature.
    #[error("signed by no key of the issuer")]
    Signature,
    /// The token names another issuer.
    #[error("from another issuer")]
    Issuer,
    /// The token is meant for another audience.
    #[error("for another audience")]
    Audience,
    /// The token has no expiry time, or has expired.
    #[error("expired, or without a time at which it expires")]
    Expired,
    /// The token is not valid yet.
    #[error("not valid yet")]
    NotYetValid,
    /// The token has no subject.
    #[error("without a subject")]
    Subject,
}

/// Whether a bearer token has the form of a JSON web token: three parts separated by dots.
pub(super) fn has_jwt_form(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl Issuer {
    /// Loads the keys that the table names.
    pub(super) fn load(table: &JwtTable) -> Result<Issuer, Vec<Problem>> {
        let (mut keys, mut problems) = (Vec::new(), Vec::new());
        for (index, path) in table.keys.iter().enumerate() {
            match read(path) {
                Ok(found) => keys.extend(found),
                Err(detail) => {
                    let text = format!("jwt.keys: {}: {detail}", path.display());
                    problems.push(Problem::new(format!("jwt.keys.{index}"), text));
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Issuer {
            keys,
            name: table.issuer.clone(),
            audience: table.audience.clone(),
            claim: table.claim.clone().unwrap_or_else(|| "sub".to_owned()),
            leeway_s: table.leeway.map_or(JWT_LEEWAY_S, |leeway| leeway.ms / 1_000),
        })
    }

    /// The subject of a token that is valid at `now`, in seconds since 1970.
    pub(super) fn subject(&self, token: &str, now: u64) -> Result<String, JwtError> {
        let claims = self.claims(token)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(&self.name) {
            return Err(JwtError::Issuer);
        }
        let for_this_audience = match claims.get("aud") {
            Some(Value::String(one)) => *one == self.audience,
            Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(&self.audience)),
            _ => false,
        };
        if !for_this_audience {
            return Err(JwtError::Audience);
        }
        let expires = seconds(claims.get("exp")).ok_or(JwtError::Expired)?;
        if expires.saturating_add(self.leeway_s) <= now {
            return Err(JwtError::Expired);
        }
        if let Some(begins) = claims.get("nbf") {
            let begins = seconds(Some(begins)).ok_or(JwtError::Malformed)?;
            if begins > now.saturating_add(self.leeway_s) {
                return Err(JwtError::NotYetValid);
            }
        }
        text(&self.claim).filter(|subject| !subject.is_empty()).map(str::to_owned).ok_or(JwtError::Subject)
    }

    // The claims of a token with a valid signature of one of the keys.
    fn claims(&self, token: &str) -> Result<Map<String, Value>, JwtError> {
        if token.len() > JWT_BYTES_MAX {
            return Err(JwtError::Malformed);
        }
        let header = token.split('.').next().and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let header: Map<String, Value> =
            header.and_then(|json| serde_json::from_slice(&json).ok()).ok_or(JwtError::Malformed)?;
        // A token with `crit` must be refused by verifiers that do not know the listed extensions, and this one knows
        // none.
        if header.contains_key("crit") {
            return Err(JwtError::Malformed);
        }
        let id = header.get("kid").and_then(Value::as_str);
        for key in &self.keys {
            let is_other_key = matches!((id, &key.id), (Some(theirs), Some(ours)) if theirs != ours);
            if is_other_key {
                continue;
            }
            let mut validation = Validation::new(key.algorithm);
            // Times, issuer and audience are checked above, so that the log names the failed check.
            validation.required_spec_claims.clear();
            validation.validate_exp = false;
            validation.validate_aud = false;
            if let Ok(token) = jsonwebtoken::decode::<Map<String, Value>>(token, &key.key, &validation) {
                return Ok(token.claims);
            }
        }
        Err(JwtError::Signature)
    }
}

// A NumericDate, which may have a fraction.
fn seconds(date: Option<&Value>) -> Option<u64> {
    let date = date?;
    let whole = || {
        let date = date.as_f64().filter(|date| (0.0..1e15).contains(date))?;
        format!("{date:.0}").parse().ok()
    };
    date.as_u64().or_else(whole)
}

fn read(path: &Path) -> Result<Vec<VerificationKey>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let keys = if bytes.trim_ascii_start().starts_with(b"{") { key_set(&bytes)? } else { pem(&bytes)? };
    if keys.is_empty() {
        return Err("contains no public key that is Ed25519, P-256, or RSA of 2,048 bits or more".to_owned());
    }
    Ok(keys)
}

fn pem(bytes: &[u8]) -> Result<Vec<VerificationKey>, String> {
    let keys: Result<Vec<SubjectPublicKeyInfoDer<'_>>, _> = SubjectPublicKeyInfoDer::pem_slice_iter(bytes).collect();
    let keys = keys.map_err(|error| format!("not PEM: {error}"))?;
    let other = "a key in it is neither Ed25519 nor P-256 nor RSA of 2,048 bits or more";
    keys.iter().map(|der| public_key(der).ok_or_else(|| other.to_owned())).collect()
}

fn public_key(der: &[u8]) -> Option<VerificationKey> {
    let Ok(([], info)) = SubjectPublicKeyInfo::from_der(der) else { return None };
    let key = &info.subject_public_key.data;
    let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
    let (algorithm, key) = match info.parsed().ok()? {
        PublicKey::RSA(rsa) if rsa.key_size() >= 8 * RSA_MODULUS_BYTES_MIN => {
            (Algorithm::RS256, DecodingKey::from_rsa_der(key))
        }
        PublicKey::EC(point) if curve == Some(OID_EC_P256) && point.data().len() == P256_POINT_BYTES => {
            (Algorithm::ES256, DecodingKey::from_ec_der(key))
        }
        PublicKey::Unknown(bytes) if info.algorithm.algorithm == OID_SIG_ED25519 && bytes.len() == 32 => {
            (Algorithm::EdDSA, DecodingKey::from_ed_der(key))
        }
        _ => return None,
    };
    Some(VerificationKey { algorithm, id: None, key })
}

// Of a key set, only usable keys count (RFC 7517, section 5): others serve other purposes.
fn key_set(bytes: &[u8]) -> Result<Vec<VerificationKey>, String> {
    let set: Value = serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"))?;
    let keys = set.get("keys").and_then(Value::as_array).ok_or("not a key set: it has no list `keys`")?;
    Ok(keys.iter().filter_map(key_from_jwk).collect())
}

fn key_from_jwk(value: &Value) -> Option<VerificationKey> {
    let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            let bytes = URL_SAFE_NO_PAD.decode(&rsa.n).ok()?;
            (bytes.len() >= RSA_MODULUS_BYTES_MIN).then_some(Algorithm::RS256)?
        }
        AlgorithmParameters::EllipticCurve(ec) => (ec.curve == EllipticCurve::P256).then_some(Algorithm::ES256)?,
        AlgorithmParameters::OctetKeyPair(pair) => {
            (pair.curve == EllipticCurve::Ed25519).then_some(Algorithm::EdDSA)?
        }
        // A shared secret identifies no single issuer.
        AlgorithmParameters::OctetKey(_) => return None,
    };
    let named = jwk.common.key_algorithm.map(|named| named.to_string());
    let for_signatures = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
    let algorithm_matches = named.is_none_or(|named| named == format!("{algorithm:?}"));
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    (for_signatures && algorithm_matches).then_some(VerificationKey { algorithm, id: jwk.common.key_id, key })
}

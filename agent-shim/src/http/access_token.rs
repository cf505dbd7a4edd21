//! Access tokens of an authorization server: JSON web tokens (RFC 7519) that it signed for this server. A token for another
//! audience is refused, even of the same issuer: it was not meant to give access here.

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value};
use std::path::Path;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Most keys of an issuer: a token without a key id is tried with each.
const KEYS_MAX: usize = 16;

/// Seconds by which the clock of the issuer may differ.
const LEEWAY_S: u64 = 60;

/// Claims without which a token is refused.
const REQUIRED_CLAIMS: [&str; 3] = ["exp", "iss", "aud"];

/// The authorization server that clients get tokens from.
pub(super) struct TokenIssuer {
    name: String,
    keys: Vec<VerificationKey>,
}

/// A public key, used with its own algorithm, whatever a token names.
struct VerificationKey {
    algorithm: Algorithm,
    id: Option<String>,
    key: DecodingKey,
}

impl TokenIssuer {
    /// The issuer of that name, whose keys the JSON web key set in the file has.
    pub(super) fn load(name: &str, path: &Path) -> anyhow::Result<TokenIssuer> {
        let context = || format!("--http-issuer-keys {}", path.display());
        let text = std::fs::read(path).with_context(context)?;
        let set: Value = serde_json::from_slice(&text).with_context(context)?;
        let keys =
            set["keys"].as_array().into_iter().flatten().filter_map(key_from_jwk).take(KEYS_MAX).collect::<Vec<_>>();
        ensure!(!keys.is_empty(), "{}: no key for EdDSA (Ed25519), ES256 or RS256", context());
        Ok(TokenIssuer { name: name.to_owned(), keys })
    }

    /// Checks a token that has to be for `audience`. The error says what is wrong.
    pub(super) fn check(&self, token: &str, audience: &str) -> Result<(), &'static str> {
        let malformed = "the token is wrong or was replaced";
        if token.len() > TOKEN_BYTES_MAX {
            return Err(malformed);
        }
        let header = token.split('.').next().and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let header: Map<String, Value> = header.and_then(|json| serde_json::from_slice(&json).ok()).ok_or(malformed)?;
        // Names extensions that a verifier has to know, and this one knows none.
        if header.contains_key("crit") {
            return Err(malformed);
        }
        let id = header.get("kid").and_then(Value::as_str);
        let mut found = Err("the token is signed by no key of the issuer");
        for key in self.keys.iter().filter(|key| id.is_none() || key.id.is_none() || id == key.id.as_deref()) {
            found = match jsonwebtoken::decode::<Map<String, Value>>(token, &key.key, &self.validation(key, audience)) {
                // The library compares a number, and ignores anything else.
                Ok(token) if token.claims.get("nbf").is_some_and(|from| !from.is_number()) => Err(malformed),
                Ok(_) => return Ok(()),
                Err(error) => match error.kind() {
                    ErrorKind::InvalidSignature | ErrorKind::InvalidAlgorithm => continue,
                    ErrorKind::InvalidAudience => Err("the token is for another audience"),
                    ErrorKind::InvalidIssuer => Err("the token is from another issuer"),
                    ErrorKind::ExpiredSignature => Err("the token has expired"),
                    ErrorKind::ImmatureSignature => Err("the token is not valid yet"),
                    ErrorKind::MissingRequiredClaim(_) => Err("the token lacks its issuer, audience or expiry time"),
                    _ => Err(malformed),
                },
            };
        }
        found
    }

    fn validation(&self, key: &VerificationKey, audience: &str) -> Validation {
        let mut validation = Validation::new(key.algorithm);
        validation.set_required_spec_claims(&REQUIRED_CLAIMS);
        validation.set_issuer(&[&self.name]);
        validation.set_audience(&[audience]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_S;
        validation
    }
}

// `None` for a key that serves another purpose, or is a shared secret, which identifies no issuer.
fn key_from_jwk(value: &Value) -> Option<VerificationKey> {
    let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return None,
    };
    let is_for_signatures = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
    let is_for_algorithm = jwk.common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_for_signatures && is_for_algorithm)?;
    Some(VerificationKey { algorithm, id: jwk.common.key_id, key })
}

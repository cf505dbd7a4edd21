//! The `[jwt]` table: issuer and keys of accepted JSON web tokens.

use super::Problem;
use crate::config::units::Duration;
use proctor_core::bounds::JWT_LEEWAY_MS_MAX;
use serde::Deserialize;
use std::path::PathBuf;

/// JSON web tokens. Accepted algorithms are EdDSA (Ed25519), ES256 and RS256, each only with keys of its own type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtTable {
    /// Files with public keys: PEM with one key each, or a JSON key set.
    #[serde(default)]
    pub keys: Vec<PathBuf>,
    /// Required claim `iss`.
    #[serde(default)]
    pub issuer: String,
    /// Required member of claim `aud`.
    #[serde(default)]
    pub audience: String,
    /// The claim that identifies the caller; default `sub`.
    pub claim: Option<String>,
    /// Tolerated clock difference; default 30 s.
    pub leeway: Option<Duration>,
}

impl JwtTable {
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |condition: bool, key: &str, text: &str| {
            if condition {
                problems.push(Problem::new(format!("jwt.{key}"), format!("jwt.{key}: {text}")));
            }
        };
        wrong(self.keys.is_empty(), "keys", "is missing; name a file with a public key of the issuer");
        wrong(self.issuer.is_empty(), "issuer", "is missing; set it to claim `iss` of the accepted tokens");
        wrong(self.audience.is_empty(), "audience", "is missing; tokens issued for another audience must be rejected");
        wrong(self.claim.as_deref() == Some(""), "claim", "is empty; leave it out for `sub`");
        let too_long = self.leeway.is_some_and(|leeway| leeway.ms > JWT_LEEWAY_MS_MAX);
        wrong(too_long, "leeway", "must be at most 5m; set the clocks instead");
        problems
    }
}

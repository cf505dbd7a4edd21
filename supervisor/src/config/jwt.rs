//! Whose JSON web tokens count. Must not know how one is verified.

use super::Problem;
use crate::config::units::Duration;
use serde::Deserialize;
use std::path::PathBuf;

/// How far the clocks of whoever draws tokens may be from ours, in milliseconds.
const LEEWAY_MS_MAX: u64 = 5 * 60 * 1_000;

/// JSON web tokens. Algorithms are EdDSA (Ed25519), ES256 and RS256, each with keys of its own kind alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtTable {
    /// Files with public keys: PEM with one key each, or JSON with a key set.
    #[serde(default)]
    pub keys: Vec<PathBuf>,
    /// Claim `iss` of every token.
    #[serde(default)]
    pub issuer: String,
    /// One of the words of claim `aud` of every token.
    #[serde(default)]
    pub audience: String,
    /// The claim that says who calls; default `sub`.
    pub claim: Option<String>,
    /// How far clocks may be apart; default 30 s.
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
        wrong(self.keys.is_empty(), "keys", "is missing; name a file with a public key of the issuer's");
        wrong(self.issuer.is_empty(), "issuer", "is missing; it is claim `iss` of the tokens that count");
        wrong(
            self.audience.is_empty(),
            "audience",
            "is missing; tokens that are for somebody else must not count here",
        );
        wrong(self.claim.as_deref() == Some(""), "claim", "is empty; leave it out for `sub`");
        let too_long = self.leeway.is_some_and(|leeway| leeway.ms > LEEWAY_MS_MAX);
        wrong(too_long, "leeway", "must be at most 5m; set the clocks instead");
        problems
    }
}

//! A text in the audit log that is somebody else's: a name that a caller gave, a reason. Must not know what it says.

use proctor_core::bounds::clip;
use proctor_core::redact::{SECRET_BYTES_MAX, redact};
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// Most bytes of one: a sentence, and four times a name of ours. What a caller can say decides how much of the log is one line.
const BYTES_MAX: usize = 256;

/// What was said, without secrets of a known form and no longer than the log has room for. Each is redacted by itself, because
/// what stands beside it in a line is no part of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UntrustedText(String);

impl From<&str> for UntrustedText {
    fn from(said: &str) -> UntrustedText {
        // A secret that is cut where redaction ends is told by the cut, so that no half of one comes through.
        if said.len() > SECRET_BYTES_MAX {
            return UntrustedText::from(clip(said.to_owned(), SECRET_BYTES_MAX));
        }
        UntrustedText(clip(redact(said).into_owned(), BYTES_MAX))
    }
}

impl From<String> for UntrustedText {
    fn from(said: String) -> UntrustedText {
        UntrustedText::from(said.as_str())
    }
}

impl Deref for UntrustedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_no_more_than_its_kind_however_it_is_cut() {
        let token = format!("proctor_{}", "0f9a".repeat(16));
        assert_eq!(&*UntrustedText::from(token.as_str()), "[redacted: proctor]");
        for before in [BYTES_MAX - 40, SECRET_BYTES_MAX - 40] {
            let text = UntrustedText::from(format!("{}{token}", "x".repeat(before)));
            assert!(text.len() <= BYTES_MAX && !text.contains("0f9a0f9a"), "{}", &*text);
        }
        let (name, key) = ("1".repeat(BYTES_MAX), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(&*UntrustedText::from(name.as_str()), name);
        assert_eq!(&*UntrustedText::from(key), "[redacted: private key]");
    }
}

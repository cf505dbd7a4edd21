//! Caller-controlled text in the audit log, such as a name or a reason.

use proctor_core::bounds::{AUDIT_TEXT_BYTES_MAX, SECRET_BYTES_MAX, clip};
use proctor_core::redact::redact;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// Text with known kinds of secrets redacted, clipped to a bound. Each text is redacted by itself, so that neighbouring
/// fields are never taken for part of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UntrustedText(String);

impl From<&str> for UntrustedText {
    fn from(text: &str) -> UntrustedText {
        // Clip first where redaction ends, so that redaction sees the cut and leaves no half of a secret.
        if text.len() > SECRET_BYTES_MAX {
            return UntrustedText::from(clip(text.to_owned(), SECRET_BYTES_MAX));
        }
        UntrustedText(clip(redact(text).into_owned(), AUDIT_TEXT_BYTES_MAX))
    }
}

impl From<String> for UntrustedText {
    fn from(text: String) -> UntrustedText {
        UntrustedText::from(text.as_str())
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
    fn redacts_secrets_wherever_the_text_is_clipped() {
        let token = format!("proctor_{}", "0f9a".repeat(16));
        assert_eq!(&*UntrustedText::from(token.as_str()), "[redacted: proctor]");
        for before in [AUDIT_TEXT_BYTES_MAX - 40, SECRET_BYTES_MAX - 40] {
            let text = UntrustedText::from(format!("{}{token}", "x".repeat(before)));
            assert!(text.len() <= AUDIT_TEXT_BYTES_MAX && !text.contains("0f9a0f9a"), "{}", &*text);
        }
        let (name, key) = ("1".repeat(AUDIT_TEXT_BYTES_MAX), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(&*UntrustedText::from(name.as_str()), name);
        assert_eq!(&*UntrustedText::from(key), "[redacted: private key]");
    }
}

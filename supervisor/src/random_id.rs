//! Names that nobody can guess: 128 random bits.

use proctor_core::id::SessionId;

/// A fresh session name: 128 random bits.
#[must_use]
pub(crate) fn random_id() -> Option<SessionId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(SessionId::new(format!("{:032x}", u128::from_ne_bytes(bytes))))
}

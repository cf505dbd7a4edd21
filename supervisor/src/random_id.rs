//! Unguessable names: 128 random bits.

use proctor_core::id::SessionId;

/// A new session name of 128 random bits in hex; `None` if the kernel gives no random bytes.
#[must_use]
pub(crate) fn random_id() -> Option<SessionId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(SessionId::new(format!("{:032x}", u128::from_ne_bytes(bytes))))
}

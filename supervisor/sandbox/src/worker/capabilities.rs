//! Takes every capability from the calling thread and from whatever it executes, for good. Must not know when, or who the
//! thread becomes.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capability_is_in_ambient_set,
    capability_is_in_bounding_set, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits,
};
use std::io;

/// Uid 0 is an ordinary user, a change of uid moves no capability, none is kept or handed on; and it stays so.
const SECURE: CapabilitiesSecureBits = CapabilitiesSecureBits::NO_ROOT
    .union(CapabilitiesSecureBits::NO_ROOT_LOCKED)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED)
    .union(CapabilitiesSecureBits::KEEP_CAPS_LOCKED)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);

/// Empties the bounding, ambient, inheritable, permitted and effective set, and reads them back.
///
/// The bounding set and the secure bits ask for a permitted `CAP_SETPCAP`: a caller that changes its uid first keeps its
/// capabilities over the change (`PR_SET_KEEPCAPS`).
///
/// # Errors
///
/// `EPERM` when the bounding set is not empty and the thread may not lower it.
pub(super) fn drop_all() -> io::Result<()> {
    // What was kept over a change of uid is permitted, and no longer effective.
    let held = capabilities(None)?;
    set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })?;
    for capability in known().filter(|&capability| capability_is_in_bounding_set(capability) == Ok(true)) {
        remove_capability_from_bounding_set(capability)?;
    }
    if held.permitted.contains(CapabilitySet::SETPCAP) {
        set_capabilities_secure_bits(SECURE)?;
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    let left = left()?;
    if left.is_empty() { Ok(()) } else { Err(io::Error::other(format!("capabilities are left: {left:?}"))) }
}

/// The union of all five sets.
fn left() -> Result<CapabilitySet, Errno> {
    let sets = capabilities(None)?;
    let mut left = sets.effective | sets.permitted | sets.inheritable;
    for capability in known() {
        if capability_is_in_bounding_set(capability)? || capability_is_in_ambient_set(capability)? {
            left |= capability;
        }
    }
    Ok(left)
}

/// Every capability of this kernel, which may know more than this program: it refuses to look up any other.
fn known() -> impl Iterator<Item = CapabilitySet> {
    (0..u64::BITS)
        .map(|number| CapabilitySet::from_bits_retain(1 << number))
        .take_while(|&capability| capability_is_in_bounding_set(capability).is_ok())
}

//! Drops every capability of the calling thread, and of whatever it executes, for good.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
};
use std::io;

/// Uid 0 is an ordinary user, a change of uid moves no capability, none is kept or inherited; and all of that is
/// locked.
const SECURE_BITS: CapabilitiesSecureBits = CapabilitiesSecureBits::NO_ROOT
    .union(CapabilitiesSecureBits::NO_ROOT_LOCKED)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED)
    .union(CapabilitiesSecureBits::KEEP_CAPS_LOCKED)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);

/// Empties the bounding, ambient, inheritable, permitted and effective set, and reads them back.
///
/// The bounding set and the secure bits require a permitted `CAP_SETPCAP`: a caller that changes its uid first keeps
/// its capabilities over the change (`PR_SET_KEEPCAPS`).
///
/// # Errors
///
/// `EPERM` if the bounding set is not empty and the thread may not lower it.
pub(super) fn drop_all() -> io::Result<()> {
    // Capabilities kept over a change of uid are permitted, and no longer effective.
    let current = capabilities(None)?;
    set_capabilities(None, CapabilitySets { effective: current.permitted, ..current })?;
    empty_bounding_set()?;
    if current.permitted.contains(CapabilitySet::SETPCAP) {
        set_capabilities_secure_bits(SECURE_BITS)?;
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    let remaining = remaining()?;
    if remaining.is_empty() { Ok(()) } else { Err(io::Error::other(format!("capabilities remain: {remaining:?}"))) }
}

/// Empties the bounding set, so that executing a program can regain nothing. This is the slow part of [`drop_all`],
/// takes nothing from the thread itself, and may be done long before. A new user namespace fills the set again.
///
/// # Errors
///
/// `EPERM` if the set is not empty and the thread has no effective `CAP_SETPCAP`.
pub(super) fn empty_bounding_set() -> io::Result<()> {
    for (capability, is_bound) in all_capabilities() {
        if is_bound {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    Ok(())
}

/// Union of all sets. The ambient set need not be read: it is a subset of the permitted one.
fn remaining() -> Result<CapabilitySet, Errno> {
    let sets = capabilities(None)?;
    let bounding = all_capabilities().filter(|&(_, is_bound)| is_bound).map(|(capability, _)| capability);
    Ok(sets.effective | sets.permitted | sets.inheritable | bounding.collect())
}

/// Every capability of this kernel, and whether it is in the bounding set. The kernel may know more than this program,
/// and refuses to look up any other.
fn all_capabilities() -> impl Iterator<Item = (CapabilitySet, bool)> {
    (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number)).map_while(|capability| {
        let is_bound = capability_is_in_bounding_set(capability).ok()?;
        Some((capability, is_bound))
    })
}

//! Takes every capability from the calling thread and from whatever it executes, for good. Must not know when, or who the
//! thread becomes.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
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
    empty_bounding_set()?;
    if held.permitted.contains(CapabilitySet::SETPCAP) {
        set_capabilities_secure_bits(SECURE)?;
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    let left = left()?;
    if left.is_empty() { Ok(()) } else { Err(io::Error::other(format!("capabilities are left: {left:?}"))) }
}

/// Leaves nothing that executing a program could bring back. It is the dear part of [`drop_all`], takes nothing away from
/// the thread itself, and may be done long before. A new user namespace fills the set again.
///
/// # Errors
///
/// `EPERM` when there is something in it and the thread has no effective `CAP_SETPCAP`.
pub(super) fn empty_bounding_set() -> io::Result<()> {
    for (capability, is_bound) in known() {
        if is_bound {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    Ok(())
}

/// The union of all sets. The ambient set need not be asked for: it never holds what the permitted set does not.
fn left() -> Result<CapabilitySet, Errno> {
    let sets = capabilities(None)?;
    let bounding = known().filter(|&(_, is_bound)| is_bound).map(|(capability, _)| capability);
    Ok(sets.effective | sets.permitted | sets.inheritable | bounding.collect())
}

/// Every capability of this kernel, which may know more than this program and refuses to look up any other; and whether
/// it is in the bounding set.
fn known() -> impl Iterator<Item = (CapabilitySet, bool)> {
    (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number)).map_while(|capability| {
        let is_bound = capability_is_in_bounding_set(capability).ok()?;
        Some((capability, is_bound))
    })
}

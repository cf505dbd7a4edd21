//! Shortened hashes, for keys and comparisons that need no full length.

/// The first `N` bytes of a hash, at most 32.
#[must_use]
pub(crate) fn hash_prefix<const N: usize>(hash: &blake3::Hash) -> [u8; N] {
    const { assert!(N <= blake3::OUT_LEN, "a hash has 32 bytes") };
    std::array::from_fn(|at| hash.as_bytes()[at])
}

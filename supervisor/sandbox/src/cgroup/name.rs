//! The name of a leaf, which tells whose it is: `proctor-<pid>-<hexadecimal digits>`. The digits are the maker's pid
//! namespace and then 64 random bits. Must not make or remove anything.

use rustix::process::Pid;
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::MetadataExt;

/// Hexadecimal digits of the random part.
const RANDOM_DIGITS: usize = 16;

/// Whose leaf a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Maker {
    pub(super) pid: Pid,
    /// Number of the pid namespace in which `pid` means anything.
    pub(super) namespace: u64,
}

/// A name that no other leaf on this host has.
pub(super) fn of_new_leaf() -> String {
    // Nobody takes a leaf of namespace 0 for his own, so without a number it is never swept.
    let namespace = own_namespace().unwrap_or(0);
    let random = RandomState::new().build_hasher().finish();
    format!("proctor-{}-{namespace:08x}{random:016x}", std::process::id())
}

/// The number of this process's pid namespace. No two namespaces have the same one at the same time.
pub(super) fn own_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|namespace| namespace.ino())
}

/// Reads the maker out of a name; `None` unless it is exactly a leaf's.
pub(super) fn maker(name: &str) -> Option<Maker> {
    let (pid, digits) = name.strip_prefix("proctor-")?.split_once('-')?;
    let (namespace, random) = digits.split_at_checked(digits.len().checked_sub(RANDOM_DIGITS)?)?;
    let is_lower_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_leaf = pid.bytes().all(|byte| byte.is_ascii_digit()) && is_lower_hex(namespace) && is_lower_hex(random);
    if !is_leaf || namespace.len() < 8 {
        return None;
    }
    let pid = pid.parse::<i32>().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)?;
    Some(Maker { pid, namespace: u64::from_str_radix(namespace, 16).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_tells_its_maker_and_nothing_else_does() {
        let own = Maker { pid: rustix::process::getpid(), namespace: own_namespace().unwrap() };
        assert_eq!(maker(&of_new_leaf()), Some(own));
        for other in [
            "proctor",
            "proctor-12",
            "proctor-12-",
            "proctor-12-0123456789abcdef",
            "proctor-x-f00000000123456789abcdef",
            "proctor--f00000000123456789abcdef",
            "proctor-0-f00000000123456789abcdef",
            "proctor-+1-f00000000123456789abcdef",
            "proctor-12-F00000000123456789ABCDEF",
            "proctor-12-f00000000123456789abcdef.service",
            "proctor-12-ä00000000123456789abcdef",
        ] {
            assert_eq!(maker(other), None, "{other}");
        }
    }
}

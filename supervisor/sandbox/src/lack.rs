//! Errors that say nothing about what was asked for: the host was short of something, or failed, and the same may succeed a
//! moment later. Must not know what was tried.
//!
//! The kernel's ENOSPC is not among them: it is also how it says that a namespace must not be made. The worker tells these
//! two apart, and says EUSERS, as kernels before 4.9 did, where a limit of namespaces is only reached for the moment.

use std::io;

/// ENOTSUPP, which the C library does not know: what the kernel says when a filter finds no room in the memory for compiled
/// ones, `net.core.bpf_jit_limit`.
const ENOTSUPP: i32 = 524;

/// What the host is short of, in words that hold no path; `None` when `error` says something about what was tried.
#[must_use]
pub fn lack(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE => Some("the supervisor has no file descriptor left"),
        libc::ENFILE => Some("the host has no file descriptor left"),
        libc::ENOMEM | libc::ENOBUFS => Some("the host has no memory left"),
        libc::EAGAIN => Some("the host has no room for another process or group"),
        libc::EIO => Some("the host could not read or write one of its disks"),
        libc::EUSERS => Some("the host has no room for another namespace (sysctl user.max_*_namespaces)"),
        ENOTSUPP => Some("the host has no room for another filter (sysctl net.core.bpf_jit_limit)"),
        _ => None,
    }
}

/// Whether `error` says that this host cannot do what was tried, today or tomorrow: that it is refused or unknown to the
/// kernel, or words of our own. Whatever else fails, fails for a reason of the moment.
pub(crate) fn is_for_good(error: &io::Error) -> bool {
    let Some(errno) = error.raw_os_error() else { return true };
    FOR_GOOD.contains(&errno)
}

/// Errnos by which the kernel refuses for good.
const FOR_GOOD: [i32; 16] = [
    libc::EPERM,
    libc::EACCES,
    libc::EROFS,
    libc::ENOENT,
    libc::ENOTDIR,
    libc::ELOOP,
    libc::ENOSYS,
    libc::EINVAL,
    libc::EOPNOTSUPP,
    libc::ENODEV,
    libc::ENXIO,
    libc::ENOTTY,
    libc::EAFNOSUPPORT,
    libc::EPROTONOSUPPORT,
    libc::ENOPROTOOPT,
    libc::ESTALE,
];

/// What was found; `None` where there is nothing to find, and an error where the host was short of something.
pub fn unless_lacking<T>(found: Result<T, impl Into<io::Error>>) -> io::Result<Option<T>> {
    match found.map_err(Into::into) {
        Ok(found) => Ok(Some(found)),
        Err(error) if lack(&error).is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_nobodys_fault_is_a_lack() {
        let short = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::EAGAIN, libc::EIO];
        for short in short.into_iter().chain([libc::EUSERS, ENOTSUPP]) {
            let error = io::Error::from_raw_os_error(short);
            assert!(lack(&error).is_some() && !is_for_good(&error), "{short}");
        }
        for said in [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::EPERM, libc::EINVAL, libc::ENOSYS, libc::ENOSPC] {
            assert_eq!(lack(&io::Error::from_raw_os_error(said)), None, "{said}");
        }
        assert_eq!(lack(&io::Error::other("another directory has taken its place")), None);
    }

    /// A limit that is reached, a file system that is full, a wait that was broken off: nobody's word about a layer.
    #[test]
    fn no_errno_of_the_moment_says_that_a_host_lacks_a_layer() {
        for moment in [libc::ENOSPC, libc::EDQUOT, libc::EINTR, libc::EBUSY, libc::ETIMEDOUT, libc::ENOLCK] {
            assert!(!is_for_good(&io::Error::from_raw_os_error(moment)), "{moment}");
        }
        assert!(is_for_good(&io::Error::from_raw_os_error(libc::ENOSYS)));
        assert!(is_for_good(&io::Error::other("no filter was compiled")));
    }
}

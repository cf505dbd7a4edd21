//! Errors that say nothing about what was asked for: the host was short of something, or failed, and the same may succeed a
//! moment later. Must not know what was tried.
//!
//! The kernel's ENOSPC is not among them: it is also how it says that a namespace must not be made.

use std::io;

/// What the host is short of, in words that hold no path; `None` when `error` says something about what was tried.
#[must_use]
pub fn lack(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE => Some("the supervisor has no file descriptor left"),
        libc::ENFILE => Some("the host has no file descriptor left"),
        libc::ENOMEM | libc::ENOBUFS => Some("the host has no memory left"),
        libc::EAGAIN => Some("the host has no room for another process or group"),
        libc::EIO => Some("the host could not read or write one of its disks"),
        _ => None,
    }
}

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
        for short in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::EAGAIN, libc::EIO] {
            assert!(lack(&io::Error::from_raw_os_error(short)).is_some(), "{short}");
        }
        for said in [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::EPERM, libc::EINVAL, libc::ENOSYS, libc::ENOSPC] {
            assert_eq!(lack(&io::Error::from_raw_os_error(said)), None, "{said}");
        }
        assert_eq!(lack(&io::Error::other("another directory has taken its place")), None);
    }
}

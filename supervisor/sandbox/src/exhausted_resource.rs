//! Errors that say nothing about the failed operation: the host was short of a resource, or failed, and the same
//! operation may succeed a moment later.
//!
//! ENOSPC is not among them: the kernel also returns it when a namespace must not be made. The worker distinguishes the
//! two and reports EUSERS, as kernels before 4.9 did, when a limit of namespaces is reached only for the moment.

use std::io;

/// ENOTSUPP, which the C library does not define: the kernel's error when the memory for compiled filters
/// (`net.core.bpf_jit_limit`) is used up.
const ENOTSUPP: i32 = 524;

/// The resource that the host is short of, as a sentence without a path; `None` if `error` concerns the operation
/// itself.
#[must_use]
pub fn exhausted_resource(error: &io::Error) -> Option<&'static str> {
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

/// Whether `error` means that this host can never do the operation: the kernel refuses it or does not know it, or the
/// error is one of our own. Every other error is transient.
pub(crate) fn is_permanent(error: &io::Error) -> bool {
    let Some(errno) = error.raw_os_error() else { return true };
    PERMANENT_ERRNOS.contains(&errno)
}

/// Errnos with which the kernel refuses an operation permanently.
const PERMANENT_ERRNOS: [i32; 16] = [
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

/// Turns an error into `None`, except one that says the host was short of a resource.
pub fn ok_unless_exhausted<T>(result: Result<T, impl Into<io::Error>>) -> io::Result<Option<T>> {
    match result.map_err(Into::into) {
        Ok(value) => Ok(Some(value)),
        Err(error) if exhausted_resource(&error).is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_only_errors_of_exhausted_or_failed_hosts() {
        let errnos = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::EAGAIN, libc::EIO];
        for errno in errnos.into_iter().chain([libc::EUSERS, ENOTSUPP]) {
            let error = io::Error::from_raw_os_error(errno);
            assert!(exhausted_resource(&error).is_some() && !is_permanent(&error), "{errno}");
        }
        for errno in [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::EPERM, libc::EINVAL, libc::ENOSYS, libc::ENOSPC]
        {
            assert_eq!(exhausted_resource(&io::Error::from_raw_os_error(errno)), None, "{errno}");
        }
        assert_eq!(exhausted_resource(&io::Error::other("another directory has taken its place")), None);
    }

    /// A limit that is reached, a full file system, an interrupted wait: none of them proves that a layer is missing.
    #[test]
    fn transient_errnos_are_not_permanent() {
        for errno in [libc::ENOSPC, libc::EDQUOT, libc::EINTR, libc::EBUSY, libc::ETIMEDOUT, libc::ENOLCK] {
            assert!(!is_permanent(&io::Error::from_raw_os_error(errno)), "{errno}");
        }
        assert!(is_permanent(&io::Error::from_raw_os_error(libc::ENOSYS)));
        assert!(is_permanent(&io::Error::other("no filter was compiled")));
    }
}

//! What may be done through a mount: the system call that no library has. Must not know which mounts there are.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Attributes to add to a mount (`mount_setattr(2)`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    add: u64,
    userns: u64,
    flags: libc::c_int,
}

const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

impl Attributes {
    /// Directories of the host to look at: no writing, no devices, no set-user-id programs.
    pub(super) const LOOK: Attributes = Attributes::all(RDONLY | NOSUID | NODEV);
    /// Directories that belong to the run: no devices, no set-user-id programs.
    pub(super) const OWN: Attributes = Attributes::all(NOSUID | NODEV);
    /// Single devices, which can be written all the same; what cannot are their permissions and times.
    pub(super) const DEVICE: Attributes = Attributes::all(RDONLY | NOSUID | NOEXEC);
    /// One mount that is not written any more, without what is mounted in it.
    pub(super) const SEALED: Attributes = Attributes { add: RDONLY | NOSUID | NODEV, userns: 0, flags: 0 };

    const fn all(add: u64) -> Attributes {
        Attributes { add, userns: 0, flags: libc::AT_RECURSIVE }
    }

    /// Owners are translated by the user namespace `map`.
    pub(super) fn idmapped(map: &OwnedFd) -> Attributes {
        let userns = u64::from(map.as_raw_fd().unsigned_abs());
        Attributes { add: libc::MOUNT_ATTR_IDMAP, userns, flags: libc::AT_RECURSIVE }
    }

    /// Adds them to the mount that `mount` is the root of, and makes it private.
    pub(super) fn set(self, mount: impl AsFd) -> io::Result<()> {
        // A copy of a shared mount would share what is mounted in it with the host.
        let propagation = libc::MS_PRIVATE;
        let attr = libc::mount_attr { attr_set: self.add, attr_clr: 0, propagation, userns_fd: self.userns };
        let fd = mount.as_fd().as_raw_fd();
        let flags = libc::AT_EMPTY_PATH | self.flags;
        // SAFETY: the path is empty and ends with a NUL, and the attributes are as large as the kernel is told.
        let set = unsafe {
            libc::syscall(libc::SYS_mount_setattr, fd, c"".as_ptr(), flags, &raw const attr, size_of_val(&attr))
        };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

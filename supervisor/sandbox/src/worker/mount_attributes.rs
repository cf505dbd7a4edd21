//! Attributes of mounts, set by a system call that no library wraps.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Attributes to add to a mount (`mount_setattr(2)`).
#[derive(Debug, Clone, Copy)]
pub(super) struct MountAttributes {
    attributes: u64,
    userns: u64,
    flags: libc::c_int,
}

const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

impl MountAttributes {
    /// Directories of the host: no writing, no devices, no set-user-id programs.
    pub(super) const READ_ONLY_TREE: MountAttributes = MountAttributes::recursive(RDONLY | NOSUID | NODEV);
    /// Directories of the run: no devices, no set-user-id programs.
    pub(super) const RUN_TREE: MountAttributes = MountAttributes::recursive(NOSUID | NODEV);
    /// Single devices. A device can be written even if its mount is read-only; its permissions and times cannot.
    pub(super) const DEVICE: MountAttributes = MountAttributes::recursive(RDONLY | NOSUID | NOEXEC);
    /// One read-only mount, without the mounts inside it.
    pub(super) const READ_ONLY_MOUNT: MountAttributes =
        MountAttributes { attributes: RDONLY | NOSUID | NODEV, userns: 0, flags: 0 };

    const fn recursive(attributes: u64) -> MountAttributes {
        MountAttributes { attributes, userns: 0, flags: libc::AT_RECURSIVE }
    }

    /// Maps owners by the user namespace `map`.
    pub(super) fn idmapped(map: &OwnedFd) -> MountAttributes {
        let userns = u64::from(map.as_raw_fd().unsigned_abs());
        MountAttributes { attributes: libc::MOUNT_ATTR_IDMAP, userns, flags: libc::AT_RECURSIVE }
    }

    /// Adds the attributes to the mount with the root `mount`, and makes it private.
    pub(super) fn set(self, mount: impl AsFd) -> io::Result<()> {
        // A clone of a shared mount would share what is mounted in it with the host.
        let propagation = libc::MS_PRIVATE;
        let attr = libc::mount_attr { attr_set: self.attributes, attr_clr: 0, propagation, userns_fd: self.userns };
        let fd = mount.as_fd().as_raw_fd();
        let flags = libc::AT_EMPTY_PATH | self.flags;
        // SAFETY: the path is empty and ends with a NUL, and the attributes are as large as the kernel is told.
        let set = unsafe {
            libc::syscall(libc::SYS_mount_setattr, fd, c"".as_ptr(), flags, &raw const attr, size_of_val(&attr))
        };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

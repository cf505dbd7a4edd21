//! Which permission bits of a file apply to a user, by the file's mode.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Permission class of a user in relation to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionClass {
    /// The file's owner.
    Owner,
    /// The file's group.
    Group,
    /// Everyone else.
    Others,
}

impl PermissionClass {
    /// Class of a user without supplementary groups. The first class that matches decides alone.
    #[must_use]
    pub fn for_user(metadata: &Metadata, uid: u32, gid: u32) -> PermissionClass {
        match (metadata.uid() == uid, metadata.gid() == gid) {
            (true, _) => PermissionClass::Owner,
            (false, true) => PermissionClass::Group,
            (false, false) => PermissionClass::Others,
        }
    }

    /// Permission bits of this class in `mode`: read 4, write 2, execute or search 1.
    #[must_use]
    pub fn bits(self, mode: u32) -> u32 {
        let shift = match self {
            PermissionClass::Owner => 6,
            PermissionClass::Group => 3,
            PermissionClass::Others => 0,
        };
        mode >> shift & 0o7
    }

    /// Letter of this class for `chmod`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            PermissionClass::Owner => 'u',
            PermissionClass::Group => 'g',
            PermissionClass::Others => 'o',
        }
    }
}

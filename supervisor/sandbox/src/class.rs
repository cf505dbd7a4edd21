//! Which of a file's permissions a user has, by its mode. Must not know why somebody asks.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Class of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The file's owner.
    Owner,
    /// The file's group.
    Group,
    /// Everybody else.
    Others,
}

impl Class {
    /// The first class that a user without supplementary groups is in, which alone decides.
    #[must_use]
    pub fn of(found: &Metadata, uid: u32, gid: u32) -> Class {
        match (found.uid() == uid, found.gid() == gid) {
            (true, _) => Class::Owner,
            (false, true) => Class::Group,
            (false, false) => Class::Others,
        }
    }

    /// Its three bits of `mode`: read 4, write 2, execute or search 1.
    #[must_use]
    pub fn bits(self, mode: u32) -> u32 {
        let shift = match self {
            Class::Owner => 6,
            Class::Group => 3,
            Class::Others => 0,
        };
        mode >> shift & 0o7
    }

    /// Its letter for `chmod`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Class::Owner => 'u',
            Class::Group => 'g',
            Class::Others => 'o',
        }
    }
}

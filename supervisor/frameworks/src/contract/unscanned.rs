//! What a look at a workspace left out, why, and which frameworks' tests may be there. Must not know how one looks.

use crate::FRAMEWORKS;

/// Most places that a tree keeps by name; of further ones only that they are there.
pub(crate) const UNSCANNED_MAX: usize = 1_024;

/// A file or directory of a workspace that is not in its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnscannedPath {
    /// Path relative to the workspace, empty for the root; what is no UTF-8 in it is replaced.
    pub path: String,
    /// Why.
    pub reason: UnscannedReason,
    /// The frameworks whose tests may be there.
    pub frameworks: FrameworkSet,
}

/// Why something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnscannedReason {
    /// More files and directories than a look takes in.
    TooMany,
    /// Names and settings of more bytes than a look takes in.
    TooLarge,
    /// Too many directories above it.
    TooDeep,
    /// A path longer than the kernel opens.
    PathTooLong,
    /// A name that no request and no command line could carry.
    NotUtf8,
    /// A settings file that is too large to be read.
    SettingsTooLarge,
    /// A directory that could not be read.
    Unreadable,
}

/// A set of frameworks, by their place in [`FRAMEWORKS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameworkSet(u32);

impl UnscannedReason {
    pub(crate) fn text(self) -> &'static str {
        match self {
            UnscannedReason::TooMany => "the workspace has more files and directories than are looked at",
            UnscannedReason::TooLarge => "the names and settings in the workspace have more bytes than are looked at",
            UnscannedReason::TooDeep => "it is too many directories deep",
            UnscannedReason::PathTooLong => "its path is longer than programs can open",
            UnscannedReason::NotUtf8 => "the name is not UTF-8",
            UnscannedReason::SettingsTooLarge => "the file is too large to be read",
            UnscannedReason::Unreadable => "it could not be read",
        }
    }

    pub(crate) fn remedy(self) -> &'static str {
        match self {
            UnscannedReason::NotUtf8 => "rename it",
            UnscannedReason::SettingsTooLarge => "make it smaller",
            _ => "name the directory to test (--file), or the command that runs the tests (`command` in .proctor.yaml)",
        }
    }
}

impl FrameworkSet {
    /// What may be anything.
    pub const ALL: FrameworkSet = FrameworkSet(u32::MAX);

    /// The frameworks to which a file of this name says something: those whose source it is, and all for a settings file, which
    /// may make a project.
    #[must_use]
    pub fn for_path(path: &str) -> FrameworkSet {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let mut found = 0;
        for (place, framework) in FRAMEWORKS.iter().enumerate() {
            if framework.markers().contains(&name) {
                return FrameworkSet::ALL;
            }
            if framework.extensions().contains(&extension) || framework.is_marker_path(path) {
                found |= 1 << place;
            }
        }
        FrameworkSet(found)
    }

    /// Whether it is no framework at all.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both sets.
    #[must_use]
    pub fn union(self, other: FrameworkSet) -> FrameworkSet {
        FrameworkSet(self.0 | other.0)
    }

    pub(crate) fn contains(self, name: &str) -> bool {
        let place = FRAMEWORKS.iter().position(|framework| framework.name() == name);
        place.is_none_or(|place| self.0 & (1 << place) != 0)
    }
}

//! Paths that the scan of a workspace left out, why, and which frameworks may have tests there.

use crate::FRAMEWORKS;

/// Most unscanned paths that a tree keeps by name; further ones are only counted.
pub(crate) const UNSCANNED_MAX: usize = 1_024;

/// A file or directory of a workspace that is not in its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnscannedPath {
    /// Path relative to the workspace, empty for the root; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Why the scan left it out.
    pub reason: UnscannedReason,
    /// The frameworks that may have tests there.
    pub frameworks: FrameworkSet,
    /// Whether settings of a checker may be there.
    pub settings: bool,
}

/// Why the scan left a path out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnscannedReason {
    /// The workspace has more files and directories than the scan reads.
    TooMany,
    /// The names and settings in the workspace have more bytes than the scan reads.
    TooLarge,
    /// The path has too many directories.
    TooDeep,
    /// The path is longer than the kernel opens.
    PathTooLong,
    /// The name is not UTF-8, so no request and no command line can carry it.
    NotUtf8,
    /// A settings file that is too large to read.
    SettingsTooLarge,
    /// A directory that could not be read.
    Unreadable,
}

/// A set of frameworks: bit `n` is row `n` of [`FRAMEWORKS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameworkSet(u32);

impl UnscannedReason {
    pub(crate) fn text(self) -> &'static str {
        match self {
            UnscannedReason::TooMany => "the workspace has more files and directories than the scan reads",
            UnscannedReason::TooLarge => "the names and settings in the workspace have more bytes than the scan reads",
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
    /// No framework.
    pub const NONE: FrameworkSet = FrameworkSet(0);

    /// All frameworks.
    pub const ALL: FrameworkSet = FrameworkSet(u32::MAX);

    /// The frameworks that the file at `path` may concern: those with its extension, and all for a settings file, which may
    /// make a project.
    #[must_use]
    pub fn for_path(path: &str) -> FrameworkSet {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let mut found = 0;
        for (row, framework) in FRAMEWORKS.iter().enumerate() {
            if framework.manifest().markers.contains(&name) {
                return FrameworkSet::ALL;
            }
            if framework.manifest().extensions.contains(&extension) || framework.is_marker_path(path) {
                found |= 1 << row;
            }
        }
        FrameworkSet(found)
    }

    /// Whether the set has no framework.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(self, other: FrameworkSet) -> FrameworkSet {
        FrameworkSet(self.0 | other.0)
    }

    pub(crate) fn contains(self, name: &str) -> bool {
        let row = FRAMEWORKS.iter().position(|framework| framework.name() == name);
        row.is_none_or(|row| self.0 & (1 << row) != 0)
    }
}

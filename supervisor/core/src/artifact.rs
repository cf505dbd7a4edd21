//! Files that a run left for its caller: screenshots, traces, videos.

pub use crate::bounds::ARTIFACTS_MAX;
use crate::test_case::TestId;
use serde::{Deserialize, Serialize};

/// Name of the directory whose files are for the caller: they are kept with the run and read by nothing else.
pub const ARTIFACTS_DIRECTORY: &str = "kept";

/// One file. The contents of a run's files are stored one after the other, in the order of the report's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Name by which a caller requests the file: `/`-separated, unique within the run, without control characters. The
    /// run chooses it; it is never a path of the host.
    pub name: String,
    /// Kind of file.
    pub kind: ArtifactKind,
    /// Size in bytes.
    pub bytes: u64,
    /// The test that left the file, if the runner reported it.
    pub test: Option<TestId>,
}

/// Kinds of files that a person distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// A picture of a page.
    Screenshot,
    /// A recording of a test, for the runner's own viewer.
    Trace,
    /// A video of a page.
    Video,
    /// Any other file.
    #[default]
    Other,
}

impl ArtifactKind {
    /// Guesses the kind from the file name.
    #[must_use]
    pub fn from_file_name(name: &str) -> ArtifactKind {
        const SUFFIXES: [(&str, ArtifactKind); 5] = [
            (".png", ArtifactKind::Screenshot),
            (".jpeg", ArtifactKind::Screenshot),
            (".webm", ArtifactKind::Video),
            ("/trace.zip", ArtifactKind::Trace),
            (".trace", ArtifactKind::Trace),
        ];
        SUFFIXES.iter().find(|(suffix, _)| name.ends_with(suffix)).map_or(ArtifactKind::Other, |(_, kind)| *kind)
    }

    /// The name in JSON and texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ArtifactKind::Screenshot => "screenshot",
            ArtifactKind::Trace => "trace",
            ArtifactKind::Video => "video",
            ArtifactKind::Other => "other",
        }
    }
}

/// Offset and length in bytes of a file's content within the stored contents of all files.
#[must_use]
pub fn content_range(artifacts: &[Artifact], name: &str) -> Option<(u64, u64)> {
    let index = artifacts.iter().position(|artifact| artifact.name == name)?;
    let offset = artifacts[..index].iter().map(|artifact| artifact.bytes).sum();
    Some((offset, artifacts[index].bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locates_each_content_behind_the_previous_one() {
        let artifact = |name: &str, bytes| Artifact { name: name.into(), kind: ArtifactKind::Other, bytes, test: None };
        let artifacts = [artifact("a", 3), artifact("b", 0), artifact("c", 5)];
        let ranges = ["a", "b", "c", "d"].map(|name| content_range(&artifacts, name));
        assert_eq!(ArtifactKind::from_file_name("0/a/trace.zip").name(), "trace");
        assert_eq!(ranges, [Some((0, 3)), Some((3, 0)), Some((3, 5)), None]);
    }
}

//! Files that a run left for its caller: screenshots, traces, videos. Must not know where they are kept.

use crate::test_case::TestId;
use serde::{Deserialize, Serialize};

/// Directory among those in which a run leaves files, whose files are for its caller: they are kept with the run, and nobody else
/// reads them.
pub const KEPT: &str = "kept";

/// Most of which a runner is heard to say which test left them; more than are kept.
pub const ARTIFACTS_MAX: usize = 4_096;

/// One file. The contents of a run's files lie one behind the other, in the order of the report's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// What it is asked for by: `/`-separated, unique within the run, without control characters. It is the run's own choice:
    /// never a path of the host.
    pub name: String,
    /// What it is.
    pub kind: ArtifactKind,
    /// Its size.
    pub bytes: u64,
    /// The test that left it, if the runner told.
    pub test: Option<TestId>,
}

/// What a file is, as far as a person cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// A picture of a page.
    Screenshot,
    /// A recording of what a test did, for the runner's own viewer.
    Trace,
    /// A film of a page.
    Video,
    /// Anything else.
    #[default]
    Other,
}

impl ArtifactKind {
    /// What a file of this name is, when nobody says.
    #[must_use]
    pub fn of_name(name: &str) -> ArtifactKind {
        const ENDINGS: [(&str, ArtifactKind); 5] = [
            (".png", ArtifactKind::Screenshot),
            (".jpeg", ArtifactKind::Screenshot),
            (".webm", ArtifactKind::Video),
            ("/trace.zip", ArtifactKind::Trace),
            (".trace", ArtifactKind::Trace),
        ];
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map_or(ArtifactKind::Other, |(_, kind)| *kind)
    }

    /// Its word in JSON and texts.
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

/// The place of an artefact's content within those of all, in bytes: where it begins and how long it is.
#[must_use]
pub fn place(artifacts: &[Artifact], name: &str) -> Option<(u64, u64)> {
    let at = artifacts.iter().position(|artifact| artifact.name == name)?;
    let begin = artifacts[..at].iter().map(|artifact| artifact.bytes).sum();
    Some((begin, artifacts[at].bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_lie_one_behind_the_other() {
        let artifact = |name: &str, bytes| Artifact { name: name.into(), kind: ArtifactKind::Other, bytes, test: None };
        let artifacts = [artifact("a", 3), artifact("b", 0), artifact("c", 5)];
        let places = ["a", "b", "c", "d"].map(|name| place(&artifacts, name));
        assert_eq!(ArtifactKind::of_name("0/a/trace.zip").name(), "trace");
        assert_eq!(places, [Some((0, 3)), Some((3, 0)), Some((3, 5)), None]);
    }
}

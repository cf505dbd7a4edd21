//! What Cargo says while it builds: which binaries there are, which packages have documentation, what does not compile. Must
//! not know tests.

use super::HELD_MAX;
use crate::parsing::workspace_paths::{is_within, join};
use crate::runners::rust::build::Builds;
use crate::runners::rust::event::CargoLine;
use crate::runners::rust::failure::Here;
use crate::runners::rust::names::{Binary, package_of};
use proctor_core::event::RunnerEvent;
use std::collections::{BTreeMap, HashMap};

/// What was built, in all steps so far.
#[derive(Debug, Default)]
pub(super) struct Building {
    /// Test binaries by their file.
    binaries: HashMap<String, String>,
    /// Packages with documentation, by directory from the workspace.
    documented: BTreeMap<String, String>,
    builds: Builds,
    /// Whether the current step is done with building, and whether that failed.
    pub(super) is_over: bool,
    pub(super) has_failed: bool,
    /// Lines that could not be read.
    pub(super) unreadable: u64,
}

impl Building {
    /// Begins a step.
    pub(super) fn begin(&mut self) {
        (self.is_over, self.has_failed) = (false, false);
    }

    /// Takes in a line of Cargo's.
    pub(super) fn line(&mut self, line: &str, here: Here<'_>) {
        match serde_json::from_str(line) {
            Ok(CargoLine::CompilerArtifact(artifact)) => {
                let package = package_of(&artifact.package_id);
                let kind = artifact.target.kind.first().map(String::as_str).unwrap_or_default();
                let binary = Binary::of(kind, &artifact.target.name);
                let manifest = here.paths.relative(&artifact.manifest_path);
                if let (Binary::Lib, Some(manifest)) = (&binary, manifest) {
                    let dir = manifest.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
                    self.documented.insert(dir, package.to_owned());
                }
                if let Some(file) =
                    artifact.executable.filter(|_| artifact.profile.test && self.binaries.len() < HELD_MAX)
                {
                    self.binaries.insert(file, binary.id(package));
                }
            }
            Ok(CargoLine::CompilerMessage(message)) => {
                self.builds.message(&message, here);
            }
            Ok(CargoLine::BuildFinished { success }) => (self.is_over, self.has_failed) = (true, !success),
            Ok(CargoLine::Other) => {}
            Err(_) => self.unreadable += 1,
        }
    }

    /// The name of the binary that is this file.
    pub(super) fn binary(&self, file: &str) -> Option<String> {
        self.binaries.get(file).cloned()
    }

    /// The name of the doctests among which one of this name is, told of in `dir`: those of the package in whose directory
    /// its file is.
    pub(super) fn documented_by(&self, dir: &str, name: &str) -> String {
        let file = join(dir, name.split(" - ").next().unwrap_or_default());
        let owners = self.documented.iter().filter(|(dir, _)| is_within(&file, dir));
        let owner = owners.max_by_key(|(dir, _)| dir.len()).map(|(_, package)| package.as_str());
        Binary::Doctests.id(owner.unwrap_or_default())
    }

    /// Tells what did not compile, and says how much that is.
    pub(super) fn tell(&mut self, events: &mut Vec<RunnerEvent>) -> u64 {
        self.builds.tell(events)
    }
}

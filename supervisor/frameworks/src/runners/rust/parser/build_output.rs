//! Reads Cargo's build output: test binaries, packages with documentation, compile errors.

use super::HELD_MAX;
use crate::parsing::workspace_paths::{is_within, join};
use crate::runners::rust::binary_names::{Binary, package_name};
use crate::runners::rust::build_errors::CompileErrors;
use crate::runners::rust::event::CargoLine;
use crate::runners::rust::failure::PathContext;
use proctor_core::event::RunnerEvent;
use std::collections::{BTreeMap, HashMap};

/// Build output of all steps so far.
#[derive(Debug, Default)]
pub(super) struct BuildOutput {
    /// NameSelection of test binaries by their file.
    binaries: HashMap<String, String>,
    /// Packages with documentation, by directory relative to the workspace.
    documented: BTreeMap<String, String>,
    errors: CompileErrors,
    /// Whether the current step has finished building, and whether the build failed.
    pub(super) is_finished: bool,
    pub(super) has_failed: bool,
    /// Lines that could not be parsed.
    pub(super) unreadable: u64,
}

impl BuildOutput {
    /// Starts a step.
    pub(super) fn begin(&mut self) {
        (self.is_finished, self.has_failed) = (false, false);
    }

    /// Parses a line of Cargo's.
    pub(super) fn line(&mut self, line: &str, here: PathContext<'_>) {
        match serde_json::from_str(line) {
            Ok(CargoLine::CompilerArtifact(artifact)) => {
                let package = package_name(&artifact.package_id);
                let kind = artifact.target.kind.first().map(String::as_str).unwrap_or_default();
                let binary = Binary::from_target(kind, &artifact.target.name);
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
                self.errors.record(&message, here);
            }
            Ok(CargoLine::BuildFinished { success }) => (self.is_finished, self.has_failed) = (true, !success),
            Ok(CargoLine::Other) => {}
            Err(_) => self.unreadable += 1,
        }
    }

    /// The name of the binary with this file.
    pub(super) fn binary(&self, file: &str) -> Option<String> {
        self.binaries.get(file).cloned()
    }

    /// The binary name of the doctests that contain doctest `name`, reported in `dir`: those of the package whose directory
    /// contains its file.
    pub(super) fn documented_by(&self, dir: &str, name: &str) -> String {
        let file = join(dir, name.split(" - ").next().unwrap_or_default());
        let owners = self.documented.iter().filter(|(dir, _)| is_within(&file, dir));
        let owner = owners.max_by_key(|(dir, _)| dir.len()).map(|(_, package)| package.as_str());
        Binary::Doctests.id(owner.unwrap_or_default())
    }

    /// Emits a collector for each target that did not compile, and returns their number.
    pub(super) fn emit_collectors(&mut self, events: &mut Vec<RunnerEvent>) -> u64 {
        self.errors.emit_collectors(events)
    }
}

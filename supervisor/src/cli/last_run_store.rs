//! Stores the last report, failures and coverage of a workspace between commands: one directory per workspace below the
//! user's state directory.

use super::CommandError;
use super::xdg_dirs::user_dir;
use crate::reports;
use crate::runs::OutputFiles;
use crate::sessions::SessionMemory;
use crate::workspace::Workspace;
use proctor_core::artifact::Artifact;
use proctor_core::report::Report;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// File with the memory of the last session.
const MEMORY: &str = "memory.json";

/// File with the last report.
const REPORT: &str = "report.json";

/// File with the number of tests of the last complete run.
const TOTAL: &str = "total.json";

/// File with the plan of what to improve, for people.
const PLAN: &str = "optimization-plan.md";

/// File with the concatenated artifacts of the last report.
const ARTIFACTS: &str = "artifacts";

/// Chunk size for copying artifacts, in bytes.
const CHUNK_BYTES: usize = 1024 * 1024;

/// The number of tests of a complete run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Total {
    pub(super) framework: String,
    pub(super) tests: u64,
}

/// The stored results of one workspace.
pub(super) struct LastRunStore {
    /// `None` for a user without a home directory: nothing is stored.
    dir: Option<PathBuf>,
}

impl LastRunStore {
    /// The directory of `workspace`, named by a hash of its path.
    pub(super) fn for_workspace(workspace: &Workspace) -> LastRunStore {
        let hash = blake3::hash(workspace.root().as_os_str().as_bytes()).to_hex();
        LastRunStore { dir: user_dir("XDG_STATE_HOME", ".local/state").map(|dir| dir.join(&hash[..32])) }
    }

    /// The memory of the last session.
    pub(super) fn memory(&self) -> Result<Option<SessionMemory>, CommandError> {
        self.read(MEMORY)
    }

    /// The last report.
    pub(super) fn report(&self) -> Result<Option<Report>, CommandError> {
        self.read(REPORT)
    }

    /// The number of tests of the last complete run, by this framework if one is given.
    pub(super) fn total(&self, framework: Option<&str>) -> Option<u64> {
        let total: Total = self.read(TOTAL).ok()??;
        framework.is_none_or(|framework| framework == total.framework).then_some(total.tests)
    }

    /// Stores the number for the next run. Without it, only the progress line lacks a total.
    pub(super) fn write_total(&self, total: &Total) {
        if let Some(Err(failure)) = self.dir.as_ref().map(|dir| write_file(&dir.join(TOTAL), total)) {
            tracing::debug!(reason = failure.text, "the number of tests is not stored");
        }
    }

    /// Stores the plan of what to improve. A failure does not fail the command: the next run writes another.
    pub(super) fn write_plan(&self, plan: impl FnOnce() -> Result<Vec<u8>, CommandError>) {
        let Some(dir) = &self.dir else { return };
        let written = plan().and_then(|plan| replace_file(&dir.join(PLAN), &plan));
        if let Err(failure) = written {
            tracing::debug!(reason = failure.text, "the plan is not stored");
        }
    }

    /// Whether a report is stored.
    pub(super) fn has_report(&self) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.join(REPORT).is_file())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, CommandError> {
        self.dir.as_ref().map_or(Ok(None), |dir| read_file(&dir.join(name)))
    }

    /// Reads one artifact of the last report: `bytes` bytes from offset `begin` of the file that holds the report's
    /// artifacts one after the other. Fails if that file is not as long as `all` artifacts together: another run has
    /// replaced it.
    pub(super) fn artifact(&self, all: &[Artifact], (begin, bytes): (u64, u64)) -> Result<Vec<u8>, CommandError> {
        let dir = self.dir.as_ref().ok_or_else(|| CommandError::host("nothing is stored for this workspace"))?;
        let path = dir.join(ARTIFACTS);
        let file = fs::File::open(&path).map_err(|error| io_failure(&path, &error))?;
        let len = file.metadata().map_err(|error| io_failure(&path, &error))?.len();
        if len != all.iter().map(|artifact| artifact.bytes).sum::<u64>() {
            return Err(CommandError::host("another run has just replaced the artifacts: try again"));
        }
        let mut content = vec![0; usize::try_from(bytes).map_err(|error| io_failure(&path, &error))?];
        file.read_exact_at(&mut content, begin).map_err(|error| io_failure(&path, &error))?;
        Ok(content)
    }

    /// Stores the memory of a session that ran no tests: the last report stays.
    pub(super) fn write_memory(&self, memory: &SessionMemory) -> Result<(), CommandError> {
        let Some(dir) = &self.dir else { return Err(no_directory()) };
        fs::create_dir_all(dir).map_err(|error| io_failure(dir, &error))?;
        write_file(&dir.join(MEMORY), memory)
    }

    /// Stores everything for the next command, including the artifacts of the run.
    pub(super) fn write(&self, memory: &SessionMemory, report: &Report, run: &OutputFiles) -> Result<(), CommandError> {
        let Some(dir) = &self.dir else { return Err(no_directory()) };
        fs::create_dir_all(dir).map_err(|error| io_failure(dir, &error))?;
        write_artifacts(&dir.join(ARTIFACTS), report, run)?;
        write_file(&dir.join(MEMORY), memory)?;
        write_file(&dir.join(REPORT), &reports::json_document(report))
    }
}

// One file for all artifacts: names chosen by the run never become paths.
fn write_artifacts(path: &Path, report: &Report, run: &OutputFiles) -> Result<(), CommandError> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let len: u64 = report.artifacts.iter().map(|artifact| artifact.bytes).sum();
    let write = || {
        let mut file = fs::File::create(&temporary)?;
        let mut at = 0;
        while at < len {
            let chunk = run.read_artifacts(at, CHUNK_BYTES)?;
            if chunk.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            file.write_all(&chunk)?;
            at += chunk.len() as u64;
        }
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        _ = fs::remove_file(&temporary);
        io_failure(path, &error)
    })
}

fn no_directory() -> CommandError {
    CommandError::host("neither XDG_STATE_HOME nor HOME is set to an absolute path")
}

fn io_failure(path: &Path, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::host(format!("{}: {error}", path.display()))
}

fn read_file<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, CommandError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_failure(path, &error)),
    };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            // Another version wrote the file. It is only a cache: the next run replaces it.
            tracing::warn!(path = %path.display(), %error, "a stored file cannot be read and is ignored");
            Ok(None)
        }
    }
}

fn write_file<T: Serialize>(path: &Path, value: &T) -> Result<(), CommandError> {
    let bytes = serde_json::to_vec(value).map_err(|error| io_failure(path, &error))?;
    replace_file(path, &bytes)
}

// Writes to a temporary file and renames it, so that readers see the old or the new content.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path)).map_err(|error| {
        _ = fs::remove_file(&temporary);
        io_failure(path, &error)
    })
}

//! What commands remember of a workspace between them: the last report, the failures, the coverage. One directory per
//! workspace under the user's state directory. Must not know what the files mean to anybody.

use super::Failure;
use super::xdg_dirs::user_dir;
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

/// The file with the last report.
const REPORT: &str = "report.json";

/// The file with the size of the last run of everything.
const TOTAL: &str = "total.json";

/// The file with the contents of the last report's artefacts, one behind the other.
const ARTIFACTS: &str = "artifacts";

/// Bytes of them that are copied at a time.
const PART: usize = 1024 * 1024;

/// How many tests a run of everything had.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Total {
    /// The run's framework.
    pub(super) framework: String,
    /// Its tests.
    pub(super) tests: u64,
}

/// The directory of one workspace.
pub(super) struct Remembered {
    /// `None` for a user without a home, who remembers nothing.
    dir: Option<PathBuf>,
}

impl Remembered {
    /// The directory of `workspace`, named by a hash of its path.
    pub(super) fn of(workspace: &Workspace) -> Remembered {
        let hash = blake3::hash(workspace.root().as_os_str().as_bytes()).to_hex();
        Remembered { dir: user_dir("XDG_STATE_HOME", ".local/state").map(|dir| dir.join(&hash[..32])) }
    }

    /// What the session here knew.
    pub(super) fn memory(&self) -> Result<Option<SessionMemory>, Failure> {
        self.read("memory.json")
    }

    /// The last report here.
    pub(super) fn report(&self) -> Result<Option<Report>, Failure> {
        self.read(REPORT)
    }

    /// How many tests the last run of everything here had, by this framework if one is named.
    pub(super) fn total(&self, framework: Option<&str>) -> Option<u64> {
        let total: Total = self.read(TOTAL).ok()??;
        framework.is_none_or(|framework| framework == total.framework).then_some(total.tests)
    }

    /// Keeps that for the next run. Without it, only a line of progress knows less.
    pub(super) fn keep_total(&self, total: &Total) {
        if let Some(Err(failure)) = self.dir.as_ref().map(|dir| write(&dir.join(TOTAL), total)) {
            tracing::debug!(reason = failure.text, "the number of tests is not remembered");
        }
    }

    /// Whether a run here has left a report.
    pub(super) fn has_report(&self) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.join(REPORT).is_file())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        self.dir.as_ref().map_or(Ok(None), |dir| read(&dir.join(name)))
    }

    /// The bytes of one of `all` artefacts of the last report here: where it begins among them, and how long it is.
    pub(super) fn artifact(&self, all: &[Artifact], (begin, bytes): (u64, u64)) -> Result<Vec<u8>, Failure> {
        let dir = self.dir.as_ref().ok_or_else(|| Failure::host("nothing is remembered here"))?;
        let path = dir.join(ARTIFACTS);
        let file = fs::File::open(&path).map_err(|error| failed(&path, &error))?;
        let len = file.metadata().map_err(|error| failed(&path, &error))?.len();
        if len != all.iter().map(|artifact| artifact.bytes).sum::<u64>() {
            return Err(Failure::host("another run has just replaced the artefacts: try again"));
        }
        let mut content = vec![0; usize::try_from(bytes).map_err(|error| failed(&path, &error))?];
        file.read_exact_at(&mut content, begin).map_err(|error| failed(&path, &error))?;
        Ok(content)
    }

    /// Keeps everything for the next command: also the contents of the report's artefacts, which `run` reads.
    pub(super) fn keep(&self, memory: &SessionMemory, report: &Report, run: &OutputFiles) -> Result<(), Failure> {
        let Some(dir) = &self.dir else {
            return Err(Failure::host("neither XDG_STATE_HOME nor HOME is set to an absolute path"));
        };
        fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
        keep_artifacts(&dir.join(ARTIFACTS), report, run)?;
        write(&dir.join("memory.json"), memory)?;
        write(&dir.join(REPORT), report)
    }
}

// One file for all: what the run calls them shall not become a path.
fn keep_artifacts(path: &Path, report: &Report, run: &OutputFiles) -> Result<(), Failure> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let len: u64 = report.artifacts.iter().map(|artifact| artifact.bytes).sum();
    let write = || {
        let mut file = fs::File::create(&beside)?;
        let mut at = 0;
        while at < len {
            let part = run.read_artifacts(at, PART)?;
            if part.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            file.write_all(&part)?;
            at += part.len() as u64;
        }
        fs::rename(&beside, path)
    };
    write().map_err(|error| {
        _ = fs::remove_file(&beside);
        failed(path, &error)
    })
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::host(format!("{}: {error}", path.display()))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            // Another version wrote it. It is only a memory: the next run writes a new one.
            tracing::warn!(path = %path.display(), %error, "a remembered file cannot be read and is passed over");
            Ok(None)
        }
    }
}

// Written beside and renamed over, so that a reader sees the old or the new and never half of one.
fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Failure> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let bytes = serde_json::to_vec(value).map_err(|error| failed(path, &error))?;
    fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path)).map_err(|error| {
        _ = fs::remove_file(&beside);
        failed(path, &error)
    })
}

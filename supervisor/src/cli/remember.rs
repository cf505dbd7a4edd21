//! What commands remember of a workspace between them: the last report, the failures, the coverage. One directory per
//! workspace under the user's state directory. Must not know what the files mean to anybody.

use super::Failure;
use super::home::user_dir;
use crate::session::Memory;
use crate::workspace::Workspace;
use proctor_core::report::Report;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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
    pub(super) fn memory(&self) -> Result<Option<Memory>, Failure> {
        self.read("memory.json")
    }

    /// The last report here.
    pub(super) fn report(&self) -> Result<Option<Report>, Failure> {
        self.read("report.json")
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        self.dir.as_ref().map_or(Ok(None), |dir| read(&dir.join(name)))
    }

    /// Keeps both for the next command.
    pub(super) fn keep(&self, memory: &Memory, report: &Report) -> Result<(), Failure> {
        let Some(dir) = &self.dir else {
            return Err(Failure::host("neither XDG_STATE_HOME nor HOME is set to an absolute path"));
        };
        fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
        write(&dir.join("memory.json"), memory)?;
        write(&dir.join("report.json"), report)
    }
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

//! What supervisor and worker say to each other, and the plan that the worker is given. Must not know how messages
//! travel (`channel`).

use crate::plan::Row;
use crate::spec::{CommandSpec, RunSpec};
use proctor_core::isolation::Layer;
use proctor_core::outcome::Exit;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// The first message; its one descriptor holds a packed [`Plan`].
    Plan,
    /// What is in force suffices: run the commands.
    Go,
    /// SIGTERM to everything, no further commands.
    Terminate,
}

/// From the worker: first from the launcher, then from init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// The launcher forked init; the descriptor is init's pidfd.
    InitForked,
    /// Every row was carried out; the descriptor is the scratch directory.
    Ready { applied: Vec<Layer>, missing: Vec<MissingLayer> },
    /// A row without which there is no run has failed. Nothing follows.
    Refused(MissingLayer),
    /// The worker cannot go on. Nothing follows.
    Failed { step: String, reason: String },
    /// A command is about to be executed; the descriptors are the reading ends of its stdout and stderr.
    CommandStarted { index: usize },
    /// A command and everything that it left behind is dead. The times are those of all commands so far.
    CommandExited { index: usize, exit: Exit, cpu: CpuTimes },
    /// There is no further command. Init exits.
    Done,
}

/// Processor time of everything that init has reaped, microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct CpuTimes {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
}

/// A layer that could not be put on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MissingLayer {
    pub(crate) layer: Layer,
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

/// Everything that the worker needs to know. It decides nothing itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The worker's parent, by which it notices that it is an orphan.
    pub(crate) supervisor_pid: i32,
    pub(crate) rows: Vec<Row>,
    pub(crate) commands: Vec<CommandSpec>,
    /// Paths that a private directory hides and that are bound back over it. Missing ones are passed over.
    pub(crate) keep: Vec<PathBuf>,
    /// The one of them that must not be missing.
    pub(crate) workspace: PathBuf,
    pub(crate) scratch_dirs: Vec<String>,
    pub(crate) scratch_files: Vec<PlannedFile>,
    pub(crate) tmp_bytes_max: u64,
    pub(crate) tmp_inodes_max: u64,
}

/// A scratch file; its bytes follow the plan in the order of the list.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PlannedFile {
    pub(crate) path: String,
    pub(crate) len: usize,
    pub(crate) executable: bool,
}

/// Largest plan that a worker accepts: 64 MiB of scratch files and as much of arguments and environments.
const PLAN_BYTES_MAX: u64 = 128 * 1024 * 1024;

impl Plan {
    /// Puts the plan and the scratch files of `spec` into an anonymous file: the length of the JSON text, the text, the
    /// files. A socket message could not hold them.
    pub(crate) fn pack(&self, spec: &RunSpec) -> io::Result<OwnedFd> {
        let text = serde_json::to_vec(self)?;
        let mut file = File::from(memfd_create("plan", MemfdFlags::CLOEXEC)?);
        let mut head = u64::try_from(text.len()).map_err(io::Error::other)?.to_le_bytes().to_vec();
        head.extend_from_slice(&text);
        file.write_all(&head)?;
        for scratch in &spec.scratch_files {
            file.write_all(&scratch.bytes)?;
        }
        file.rewind()?;
        Ok(file.into())
    }

    /// Reads what [`Plan::pack`] wrote: the plan and the bytes of all scratch files.
    pub(crate) fn unpack(packed: OwnedFd) -> io::Result<(Plan, Vec<u8>)> {
        let mut bytes = Vec::new();
        File::from(packed).take(PLAN_BYTES_MAX).read_to_end(&mut bytes)?;
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (len, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(io::Error::other)?;
        let (text, blob) = rest.split_at_checked(len).ok_or_else(short)?;
        Ok((serde_json::from_slice(text)?, blob.to_vec()))
    }
}

//! What supervisor and worker say to each other, and the plans that the worker is given. Must not know how messages
//! travel (`channel`).

use crate::hold::Id;
use crate::plan::Row;
use crate::spec::{CommandSpec, RunSpec};
use crate::unstarted::Unstarted;
use crate::user_limits::UserLimits;
use proctor_core::isolation::Layer;
use proctor_core::outcome::Exit;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// From the supervisor to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// The first message; its one descriptor holds a packed [`RoomPlan`].
    Room,
    /// Fork an init for one run. The descriptors are init's end of its own control socket and, where there is one, the
    /// group in the v2 hierarchy that it shall be born in.
    Fork,
}

/// From the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromLauncher {
    /// Every row of the launcher was carried out.
    Ready,
    /// Init was forked; the descriptor is its pidfd.
    Forked { pid: u32 },
    /// A row without which there is no run has failed. Nothing follows.
    Refused(MissingLayer),
    /// The launcher cannot go on. Nothing follows.
    Failed(Failure),
}

/// From the supervisor to an init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    /// Go into the leaf through its doors, which are the descriptors, and put on the layers.
    Begin(Allotment),
    /// What is in force suffices: run the commands. The one descriptor holds a packed [`RunPlan`].
    Run,
    /// SIGTERM to everything, no further commands.
    Terminate,
}

/// From an init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromInit {
    /// Every row was carried out; the descriptors are the scratch directory and the mount namespace.
    Ready { applied: Vec<Layer>, missing: Vec<MissingLayer> },
    /// A row without which there is no run has failed. Nothing follows.
    Refused(MissingLayer),
    /// Init cannot go on. Nothing follows.
    Failed(Failure),
    /// A command is about to be executed; the descriptors are the reading ends of its stdout and stderr, and of the
    /// run's report if it has one.
    CommandStarted { index: usize },
    /// A command and everything that it left behind is dead. The times are those of all commands so far. After the last
    /// one nothing follows: init is alone and waits for its end.
    CommandExited { index: usize, exit: Exit, unstarted: Option<Unstarted>, cpu: CpuTimes, is_last: bool },
}

/// Why a worker cannot go on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: String,
    pub(crate) reason: String,
    /// The kernel's number for it, by which the supervisor tells what the host is short of.
    pub(crate) errno: Option<i32>,
}

impl Failure {
    pub(crate) fn of(step: &str, source: &io::Error) -> Failure {
        Failure { step: step.to_owned(), reason: source.to_string(), errno: source.raw_os_error() }
    }
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

/// What a launcher needs to know of all runs of its room. It decides nothing itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RoomPlan {
    /// Whether the supervisor is privileged over the host's namespaces.
    pub(crate) privileged: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) user_limits: UserLimits,
    pub(crate) identity: Identity,
    pub(crate) workspace: PathBuf,
    /// Its device and inode.
    pub(crate) workspace_id: Id,
    /// Visible at the same path and not writable. Missing ones are passed over.
    pub(crate) read_only: Vec<PathBuf>,
    /// Visible at the same path and writable. Missing ones are passed over.
    pub(crate) writable: Vec<PathBuf>,
    /// Those of all paths that a private directory hides.
    pub(crate) keep: Vec<PathBuf>,
    /// Whether name servers of the host are of use.
    pub(crate) has_network: bool,
}

/// Who a run is on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Whether that is somebody else than the supervisor.
    pub(crate) is_other: bool,
    /// Whose files are shown as the run's own, user and group.
    pub(crate) files_of: Option<(u32, u32)>,
}

/// What one init needs to know before there is a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Allotment {
    pub(crate) tmp_bytes_max: u64,
    pub(crate) tmp_inodes_max: u64,
    /// Most open files of each process.
    pub(crate) files_max: u64,
    /// Whether its leaf is one group in the v2 hierarchy and holds all limits.
    pub(crate) is_in_v2: bool,
}

/// What one init is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunPlan {
    pub(crate) commands: Vec<CommandSpec>,
    pub(crate) scratch_dirs: Vec<String>,
    pub(crate) links: Vec<(String, PathBuf)>,
    pub(crate) scratch_files: Vec<PlannedFile>,
    /// Whether there is a FIFO beside the streams.
    pub(crate) report: bool,
}

/// A scratch file; its bytes follow the plan in the order of the list.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PlannedFile {
    pub(crate) path: String,
    pub(crate) len: usize,
    pub(crate) executable: bool,
}

impl RunPlan {
    pub(crate) fn of(spec: &RunSpec) -> RunPlan {
        let planned = spec.scratch_files.iter().map(|file| PlannedFile {
            path: file.path.clone(),
            len: file.bytes.len(),
            executable: file.executable,
        });
        RunPlan {
            commands: spec.commands.clone(),
            scratch_dirs: spec.scratch_dirs.clone(),
            links: spec.jail.links.clone(),
            scratch_files: planned.collect(),
            report: spec.report,
        }
    }
}

/// Largest packed plan that a worker accepts: 64 MiB of scratch files and as much of arguments and environments.
const PLAN_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Puts `plan` and what follows it into an anonymous file: the length of the JSON text, the text, the rest. A socket
/// message could not hold them.
pub(crate) fn pack<'a>(plan: &impl Serialize, rest: impl Iterator<Item = &'a [u8]>) -> io::Result<OwnedFd> {
    let text = serde_json::to_vec(plan)?;
    let mut file = File::from(memfd_create("plan", MemfdFlags::CLOEXEC)?);
    let mut head = u64::try_from(text.len()).map_err(io::Error::other)?.to_le_bytes().to_vec();
    head.extend_from_slice(&text);
    file.write_all(&head)?;
    for bytes in rest {
        file.write_all(bytes)?;
    }
    file.rewind()?;
    Ok(file.into())
}

/// Reads what [`pack`] wrote: the plan and what followed it.
pub(crate) fn unpack<P: DeserializeOwned>(packed: Option<OwnedFd>) -> io::Result<(P, Vec<u8>)> {
    let packed = packed.ok_or_else(|| io::Error::other("no plan came along"))?;
    let mut bytes = Vec::new();
    File::from(packed).take(PLAN_BYTES_MAX).read_to_end(&mut bytes)?;
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (len, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(io::Error::other)?;
    let (text, blob) = rest.split_at_checked(len).ok_or_else(short)?;
    Ok((serde_json::from_slice(text)?, blob.to_vec()))
}

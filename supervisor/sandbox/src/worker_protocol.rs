//! Messages between supervisor and worker, and the plans that the worker executes.

use crate::exec_failure::ExecFailure;
use crate::layer_plan::PlanRow;
use crate::spec::{CommandSpec, RunSpec, StackRequest};
use crate::user_limits::UserLimits;
use crate::workspace_fd::DirId;
use proctor_core::isolation::Layer;
use proctor_core::outcome::Exit;
use proctor_core::request::ReplacedFile;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Message from the supervisor to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// The first message; its one descriptor holds a packed [`ZygotePlan`].
    Plan,
    /// Fork an init for one run. The descriptors are init's end of its own control socket and, if there is one, the
    /// group of the v2 hierarchy that init is born in.
    Fork,
}

/// Message from the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromLauncher {
    /// Every launcher row of the plan was carried out.
    Ready,
    /// Init was forked; the descriptor is its pidfd.
    Forked { pid: u32 },
    /// A required row has failed. The last message.
    Refused(MissingLayer),
    /// The launcher cannot go on. The last message.
    Failed(Failure),
}

/// Message from the supervisor to an init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    /// Enter the leaf through its join files, which are the descriptors, and install the layers.
    Begin(InitLimits),
    /// What is in force suffices: run the commands. The one descriptor holds a packed [`RunPlan`]. Sent again, if at all, when the last
    /// command has ended.
    Run,
    /// Ask the processes of the current command for their stacks, as the plan says, and start no further command.
    PrintStacks,
    /// Send SIGTERM to everything and start no further command.
    Terminate,
}

/// Message from an init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromInit {
    /// Every init row was carried out; the descriptors are the scratch directory and the mount namespace.
    Ready { applied: Vec<Layer>, missing: Vec<MissingLayer> },
    /// A required row has failed. The last message.
    Refused(MissingLayer),
    /// Init cannot go on. The last message.
    Failed(Failure),
    /// A command is about to be executed; the descriptors are the reading ends of its stdout and stderr, and of the
    /// report if the run has one.
    CommandStarted { index: usize },
    /// The program that prints the stacks was started; the descriptor is the reading end of its stdout.
    PrinterStarted,
    /// A command and all its descendants are dead. `cpu` is the sum over all commands so far. After the last command
    /// nothing follows: init is alone and waits for another plan, or to be killed.
    CommandExited { index: usize, exit: Exit, failure: Option<ExecFailure>, cpu: CpuTimes, is_last: bool },
}

/// Why a worker cannot go on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: String,
    pub(crate) reason: String,
    /// Errno of the kernel, from which the supervisor recognises an exhausted resource.
    pub(crate) errno: Option<i32>,
}

impl Failure {
    pub(crate) fn new(step: &str, source: &io::Error) -> Failure {
        Failure { step: step.to_owned(), reason: source.to_string(), errno: source.raw_os_error() }
    }
}

/// Processor time of all processes that init has reaped, microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct CpuTimes {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
}

/// A layer that could not be installed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MissingLayer {
    pub(crate) layer: Layer,
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

/// What a launcher needs to know about all runs of its zygote.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ZygotePlan {
    /// Whether the supervisor is privileged over the host's namespaces.
    pub(crate) privileged: bool,
    pub(crate) rows: Vec<PlanRow>,
    pub(crate) user_limits: UserLimits,
    pub(crate) identity: Identity,
    pub(crate) workspace: PathBuf,
    /// Device and inode of the workspace.
    pub(crate) workspace_id: DirId,
    /// Paths that are visible inside at the same path and read-only. Missing ones are ignored.
    pub(crate) read_only: Vec<PathBuf>,
    /// Paths that are visible inside at the same path and writable. Missing ones are ignored.
    pub(crate) writable: Vec<PathBuf>,
    /// A file of the workspace that has other content inside.
    pub(crate) replaced_file: Option<ReplacedFile>,
    /// Those of all paths that a private directory would hide.
    pub(crate) kept_paths: Vec<PathBuf>,
    /// Whether the run has the host's network and needs its name servers.
    pub(crate) has_network: bool,
}

/// User and group of a run on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Whether they differ from the supervisor's.
    pub(crate) is_other: bool,
    /// User and group whose files are shown as the run's own.
    pub(crate) owner_shown_as_run: Option<(u32, u32)>,
}

/// Limits that an init enforces itself, known before there is a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct InitLimits {
    pub(crate) tmp_bytes_max: u64,
    pub(crate) tmp_inodes_max: u64,
    /// Most open files of each process.
    pub(crate) files_max: u64,
    /// Whether the leaf is one group of the v2 hierarchy that holds all limits.
    pub(crate) is_in_v2: bool,
}

/// The commands and files of one run. When its last command has ended, an init takes another plan.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunPlan {
    pub(crate) commands: Vec<CommandSpec>,
    pub(crate) stack_requests: Vec<Option<StackRequest>>,
    pub(crate) scratch_dirs: Vec<String>,
    pub(crate) links: Vec<(String, PathBuf)>,
    pub(crate) scratch_files: Vec<PlannedFile>,
    /// Whether the run has a FIFO besides its streams.
    pub(crate) report: bool,
    /// What its commands may do less than those of a run.
    pub(crate) confinement: Option<Confinement>,
}

/// What commands may do that are executed alone, when the run is over: they change nothing of what the run left, and find none of its
/// temporary files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// The one directory that they may change.
    pub(crate) writable: PathBuf,
    /// Directories that they may read although the run could leave files around them.
    pub(crate) readable: Vec<PathBuf>,
}

/// A scratch file; the bytes of all files follow the plan in the order of the list.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PlannedFile {
    pub(crate) path: String,
    pub(crate) len: usize,
    pub(crate) executable: bool,
}

impl RunPlan {
    pub(crate) fn new(spec: &RunSpec, confinement: Option<&Confinement>) -> RunPlan {
        let planned = spec.scratch_files.iter().map(|file| PlannedFile {
            path: file.path.clone(),
            len: file.bytes.len(),
            executable: file.executable,
        });
        RunPlan {
            commands: spec.commands.clone(),
            stack_requests: spec.stack_requests.clone(),
            scratch_dirs: spec.scratch_dirs.clone(),
            links: spec.jail.links.clone(),
            scratch_files: planned.collect(),
            report: spec.report,
            confinement: confinement.cloned(),
        }
    }
}

/// Largest packed plan that a worker accepts: 64 MiB of scratch files and as much of arguments and environments.
const PLAN_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Writes `plan` and `rest` into an anonymous file: the length of the JSON text, the text, the rest. They would not fit
/// into a socket message.
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

/// Reads what [`pack`] wrote: the plan and the bytes after it.
pub(crate) fn unpack<P: DeserializeOwned>(packed: Option<OwnedFd>) -> io::Result<(P, Vec<u8>)> {
    let packed = packed.ok_or_else(|| io::Error::other("the message carried no plan"))?;
    let mut bytes = Vec::new();
    File::from(packed).take(PLAN_BYTES_MAX).read_to_end(&mut bytes)?;
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (len, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(io::Error::other)?;
    let (text, blob) = rest.split_at_checked(len).ok_or_else(short)?;
    Ok((serde_json::from_slice(text)?, blob.to_vec()))
}

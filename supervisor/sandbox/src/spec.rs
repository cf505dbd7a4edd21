//! The sandbox's interface: the specification of a run, its events and its ending. Tests put a fake behind [`Sandbox`].

use proctor_core::event::Stream;
use proctor_core::hung_test::StackSignal;
use proctor_core::isolation::{Isolation, Layer, Network};
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::{Exit, KillReason, LimitHit};
use proctor_core::report::Resources;
use proctor_core::request::ReplacedFile;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Scratch directory of a run, inside its private `/tmp`; it is gone when the run is.
///
/// It is a mount of its own that the run can neither write nor rename, so that no test changes a helper file that a
/// later command of the run starts.
pub const SCRATCH: &str = "/tmp/proctor";

/// Directories below [`SCRATCH`] that every run has and may write. Their bytes count as `/tmp`.
pub const SCRATCH_WRITABLE: [&str; 4] = ["artifacts", "cache", "home", "work"];

/// FIFO for a command's report, if the run has [`RunSpec::report`]. It is read while the run goes on.
pub const REPORT: &str = "/tmp/proctor/report";

/// Name of a file below [`RunSpec::artifacts`] in which a run with [`RunSpec::alone`] lists commands for later.
///
/// It has texts in UTF-8, each with a first letter that says what it is, and a NUL character at its end: `P` the program, `D` the working
/// directory, `V` a variable, `A` an argument; and for each command `C`, the milliseconds that it is thought to take, a blank, and its
/// first argument, which is before the others.
pub const ALONE_COMMANDS: &str = "alone";

/// Variable of such a command with the path of a file that it may write. If it exits with 0, the file is returned as an artifact beside
/// the list, as `alone-` and a number.
pub const ALONE_RECORD: &str = "PROCTOR_ALONE_FILE";

/// One run: commands that are executed one after the other in the same sandbox until one is killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpec {
    /// The isolated environment of the commands.
    pub jail: Jail,
    /// At least one, at most [`COMMANDS_MAX`]. A command runs even if an earlier one failed.
    pub commands: Vec<CommandSpec>,
    /// For each command how its processes are asked for their stacks at the deadline, before SIGTERM. A command without
    /// an entry is not asked.
    pub stack_requests: Vec<Option<StackRequest>>,
    /// Files that are written below [`SCRATCH`] before the first command. The run may change only those below one of
    /// [`SCRATCH_WRITABLE`].
    pub scratch_files: Vec<ScratchFile>,
    /// Directories that are created empty before the first command, relative to [`SCRATCH`] and each below one of
    /// [`SCRATCH_WRITABLE`].
    pub scratch_dirs: Vec<String>,
    /// Directory below one of [`SCRATCH_WRITABLE`] whose regular files are returned after the last command; empty for
    /// none.
    pub artifacts: String,
    /// Whether the commands have a FIFO at [`REPORT`] besides their two streams.
    pub report: bool,
    /// Whether commands that the run lists in files named [`ALONE_COMMANDS`] are executed, each alone, after the last command, if this one
    /// was not killed and nothing in the workspace has changed since the run started. They change no file but in a directory of their own,
    /// find no temporary file of the run, and take at most a quarter of its time and 2 s, or a tenth of its time. No event shows them.
    pub alone: bool,
    /// Limits of the run.
    pub limits: Limits,
    /// Limits that must be in force, or the run is refused.
    pub required_limits: Vec<LimitKind>,
}

/// The environment that all runs of a session share, so that a worker can be prepared before there is a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Jail {
    /// Tenant that owns the runs. A worker prepared for one owner never serves another.
    pub owner: String,
    /// Session that the runs belong to; two sessions never share a network namespace. Empty for a single run: nothing
    /// is prepared for a next one.
    pub session: String,
    /// Workspace, an absolute path without symlinks. It has the same path inside and is writable.
    pub workspace: PathBuf,
    /// Device and inode of the workspace as the caller has checked it: the run is refused if another directory has
    /// taken its place. `None` takes the directory that exists when the run starts.
    pub workspace_id: Option<(u64, u64)>,
    /// Further absolute paths that are visible inside at the same path and read-only (toolchains). Missing ones are
    /// ignored.
    pub read_only: Vec<PathBuf>,
    /// Further absolute paths that are visible inside at the same path and writable (build caches). Missing ones are
    /// ignored.
    pub writable: Vec<PathBuf>,
    /// Expected device and inode of the first writable path: a worker prepared with another directory there is not
    /// used.
    pub writable_id: Option<(u64, u64)>,
    /// Symlinks that each run has below [`SCRATCH`]: their paths relative to it, and the absolute directories that they
    /// point to. A missing directory is created if the run may create it.
    pub links: Vec<(String, PathBuf)>,
    /// A file of the workspace that has other content inside, read-only; the workspace on the host keeps its own. It must
    /// exist and no part of its path may be a link.
    pub replaced_file: Option<Arc<ReplacedFile>>,
    /// User and group of the run on this host.
    pub run_as: RunAs,
    /// Whether the run gets a network.
    pub network: Network,
    /// Layers that must be in force, or the run is refused.
    pub required_layers: Vec<Layer>,
    /// Layers that the run does without: for an operator whose tests cannot live with one, and for the test that an
    /// attack succeeds without it.
    pub left_off: Vec<Layer>,
}

impl Jail {
    /// `workspace` alone, as the supervisor's user, without a network, with every layer that the host has.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>) -> Jail {
        Jail {
            owner: String::new(),
            session: String::new(),
            workspace: workspace.into(),
            workspace_id: None,
            read_only: Vec::new(),
            writable: Vec::new(),
            writable_id: None,
            links: Vec::new(),
            replaced_file: None,
            run_as: RunAs::Supervisor,
            network: Network::None,
            required_layers: Vec::new(),
            left_off: Vec::new(),
        }
    }
}

/// User and group of a run on this host, as far as files and signals are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunAs {
    /// The supervisor's own user.
    Supervisor,
    /// The tenant's own user, who owns the workspace and the writable paths. Requires a privileged supervisor.
    User {
        /// User id on the host, the same inside.
        uid: u32,
        /// Group id on the host, the same inside; the run has no other group.
        gid: u32,
    },
    /// A user who owns nothing on this host. An idmapped mount shows the workspace and the writable paths, which belong
    /// to `owner_uid`, as the run's own. Requires a privileged supervisor and a file system with idmapped mounts.
    Nobody {
        /// User id of the workspace's owner on the host.
        owner_uid: u32,
        /// Group id of the workspace's owner on the host.
        owner_gid: u32,
    },
}

/// Most commands of one run: a rerun has one per package, and an agent that broke more packages reruns the whole suite.
pub const COMMANDS_MAX: usize = 256;

/// One command of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// Working directory, absolute.
    pub dir: PathBuf,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
}

/// How the processes of a command are asked for their stacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StackRequest {
    /// A signal to those that handle it; they print to their own streams, and may end.
    Signal(StackSignal),
    /// A program that is started beside them, in the same namespaces and cgroup, and prints their stacks to a pipe of its
    /// own: [`SandboxEvent::Stacks`]. Its stderr is discarded. SIGTERM and the grace period wait for its end, at most 4 s and
    /// no longer than the grace period is. It ends with the run.
    Program(CommandSpec),
}

/// A file that proctor provides to the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchFile {
    /// Path relative to [`SCRATCH`], without `..`.
    pub path: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Whether the file may be executed.
    pub executable: bool,
}

/// Events of a run, in order.
#[derive(Debug)]
pub enum SandboxEvent<'a> {
    /// Every layer and limit is in force and the first command is about to start.
    Started {
        /// What is in force, read back from the kernel.
        isolation: Isolation,
    },
    /// A command was started.
    CommandStarted {
        /// Index of the command in [`RunSpec::commands`].
        index: usize,
    },
    /// Output of the running command.
    Output {
        /// The stream it was written to.
        stream: Stream,
        /// At most 64 KiB.
        bytes: &'a [u8],
    },
    /// Bytes written to [`REPORT`].
    Report {
        /// At most 64 KiB.
        bytes: &'a [u8],
    },
    /// A command ended, its streams are read to their ends and none of its processes is alive.
    CommandExited {
        /// Index of the command in [`RunSpec::commands`].
        index: usize,
        /// How it ended.
        exit: Exit,
    },
    /// What the leaf uses, once a second.
    Usage {
        /// Memory in use, in bytes; `None` without a memory controller.
        memory_bytes: Option<u64>,
        /// Processor time since the run began, in milliseconds; `None` where it is not counted.
        cpu_ms: Option<u64>,
        /// Processes alive, at most 4,096; `None` without a group of the run's own.
        processes: Option<u32>,
    },
    /// A part of a file that the run left below [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY),
    /// sent when every process is dead. Each file is sent from its first byte to its last; an empty file has one empty
    /// part.
    ArtifactChunk {
        /// `/`-separated path relative to [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY), without
        /// control characters.
        path: &'a str,
        /// Whether these are the first bytes of the file.
        is_first: bool,
        /// At most 64 KiB.
        bytes: &'a [u8],
    },
    /// Proctor has decided to end the run; sent before the first signal.
    Killing {
        /// Why.
        reason: KillReason,
    },
    /// The processes of the command are about to be asked for their stacks, after [`SandboxEvent::Killing`].
    StacksRequested {
        /// Whether they are asked by a signal, of which a process may end.
        by_signal: bool,
    },
    /// What the program of [`StackRequest::Program`] prints. A process of the run may have written it: it is data of the
    /// run.
    Stacks {
        /// At most 64 KiB, and [`STACK_DUMP_BYTES_MAX`](proctor_core::bounds::STACK_DUMP_BYTES_MAX) in one run.
        bytes: &'a [u8],
    },
}

/// How a run ended. No process, cgroup or file of the run is left when this is returned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ending {
    /// Exit of each started command, in order. A killed run has fewer exits than commands.
    pub exits: Vec<Exit>,
    /// Why proctor killed the run; `None` if it did not.
    pub killed: Option<KillReason>,
    /// Whether the worker died before it reported how its command ended, without being killed by proctor.
    pub worker_lost: bool,
    /// Sentences about what the host could not do for the run and why commands could not be started; they hold no host
    /// path.
    pub notes: Vec<String>,
    /// Limits that the run reached, read from the leaf's counters.
    pub limit_hits: Vec<LimitHit>,
    /// Resources that the run used. The caller fills in `queue_wait_s`.
    pub resources: Resources,
    /// Files of [`RunSpec::artifacts`]: at most [`ARTIFACTS_MAX`] files and [`ARTIFACT_BYTES_MAX`] bytes in total.
    pub artifacts: Vec<Artifact>,
    /// Artefacts left out because of these bounds.
    pub artifacts_left_out: u64,
    /// Files below [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY) that were not sent: beyond
    /// [`STREAMED_ARTIFACTS_MAX`] or [`STREAMED_ARTIFACT_BYTES_MAX`], nested too deep, or with control characters in
    /// their names.
    pub streamed_artifacts_left_out: u64,
}

/// Most files sent as [`SandboxEvent::ArtifactChunk`]: four for each of 256 failing tests.
pub const STREAMED_ARTIFACTS_MAX: u64 = 1_024;

/// Most bytes sent as [`SandboxEvent::ArtifactChunk`], all files together: some ten traces of long tests. The
/// supervisor stores as much on its disk for each run that its session remembers.
pub const STREAMED_ARTIFACT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Most artifact files returned: one coverage profile per package of the largest repositories.
pub const ARTIFACTS_MAX: usize = 4_096;

/// Most artefact bytes returned, all files together: the supervisor holds them in memory.
pub const ARTIFACT_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// A file that a run left in its artefact directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// `/`-separated path relative to the artefact directory.
    pub path: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// The environment that runs commands. One real implementation, and fakes in the tests of its callers.
pub trait Sandbox: Send + Sync + 'static {
    /// Runs `spec` to its end on the calling thread, which is blocked for as long as the run lasts.
    ///
    /// `sink` is called on the same thread. When this returns, no process, cgroup or file of the run is left, and its
    /// mounts cannot be reached any more.
    ///
    /// # Errors
    /// No command was started.
    fn run(
        &self,
        spec: &RunSpec,
        kill: &crate::KillSwitch,
        sink: &mut dyn FnMut(SandboxEvent<'_>),
    ) -> Result<Ending, crate::SandboxError>;

    /// Counts of the workers; `None` if none are counted.
    fn worker_counts(&self) -> Option<&crate::WorkerCounts> {
        None
    }

    /// What this host can enforce, row by row. A sandbox without a host returns an empty report.
    fn probe(&self) -> crate::HostReport {
        crate::HostReport::default()
    }

    /// Starts a worker without a run that installs every layer for an empty directory, and ends it: tests whether this
    /// host can run anything. Takes milliseconds, or as long as a setup may take on a faulty host.
    fn try_worker(&self) -> Result<(), crate::SandboxError> {
        Ok(())
    }

    /// Number of workers that are still alive after their kill because the kernel holds them. Removes the cgroups of
    /// those that have died since the last call.
    fn unkillable_workers(&self) -> u64 {
        0
    }

    /// Ends the workers that are prepared for `session`, which is closed.
    fn retire(&self, _session: &str) {}

    /// Ends everything that is prepared and undoes the supervisor's cgroup delegation, for a clean shutdown. A later
    /// run prepares its own worker.
    fn close(&self) {}
}

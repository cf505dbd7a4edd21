//! What goes into a sandbox and what comes out: the one seam of the operating system, behind which tests may put a
//! fake. Must not know how a run is isolated.

use proctor_core::event::Stream;
use proctor_core::isolation::{Isolation, Layer, Network};
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::{Exit, KillReason, LimitHit};
use proctor_core::report::Resources;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a run finds its scratch directory: inside its private `/tmp`, gone with it. It is a mount of its own that the run
/// cannot write, so that no test changes a helper that a later command of the run starts; nor can it be renamed.
pub const SCRATCH: &str = "/tmp/proctor";

/// Directories below [`SCRATCH`] that every run finds and may write; they count as `/tmp`.
pub const SCRATCH_WRITABLE: [&str; 4] = ["artifacts", "cache", "home", "work"];

/// Where a command whose run has [`RunSpec::report`] finds a FIFO that is read as the run goes on.
pub const REPORT: &str = "/tmp/proctor/report";

/// One run: commands that are executed one after the other in the same sandbox, until one is killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpec {
    /// Where they run.
    pub jail: Jail,
    /// At least one, at most [`COMMANDS_MAX`]. A later command runs although an earlier one failed.
    pub commands: Vec<CommandSpec>,
    /// Files that are written below [`SCRATCH`] before the first command. The run may write those below one of
    /// [`SCRATCH_WRITABLE`] and no others.
    pub scratch_files: Vec<ScratchFile>,
    /// Directories that are created empty before the first command, relative to [`SCRATCH`], each below one of
    /// [`SCRATCH_WRITABLE`].
    pub scratch_dirs: Vec<String>,
    /// Directory, below one of [`SCRATCH_WRITABLE`], whose regular files are handed back after the last command; empty for none.
    pub artifacts: String,
    /// Whether the commands find a FIFO at [`REPORT`], for what they say beside their two streams.
    pub report: bool,
    /// Bounds of the run.
    pub limits: Limits,
    /// Limits without which the run must not start.
    pub required_limits: Vec<LimitKind>,
}

/// What is the same for all runs of a session, so that a worker can be prepared before there is a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Jail {
    /// Whose runs these are: the tenant's name. What is prepared for one owner never serves another.
    pub owner: String,
    /// Which of the owner's sessions runs them, so that two of them never meet in one network namespace. Empty for none: then
    /// no run follows this one, and nothing is prepared for it.
    pub session: String,
    /// The workspace, an absolute path without symlinks. It has the same path inside, and is writable.
    pub workspace: PathBuf,
    /// Device and inode of the workspace, for a caller who has looked at it before: another directory that took its place
    /// is refused. `None` takes the one that is there when the run begins.
    pub workspace_id: Option<(u64, u64)>,
    /// Further absolute paths that are visible inside at the same place and cannot be written (toolchains). Missing ones are
    /// passed over.
    pub read_only: Vec<PathBuf>,
    /// Further absolute paths that are visible inside at the same place and can be written (build caches). Missing ones
    /// are passed over.
    pub writable: Vec<PathBuf>,
    /// Device and inode of the first of them, if it matters: a worker that was prepared with another directory there is passed over.
    pub writable_id: Option<(u64, u64)>,
    /// Links that each run finds below [`SCRATCH`]: paths relative to it, and the absolute paths of directories that they lead
    /// to, which are made where they are not there and the run may.
    pub links: Vec<(String, PathBuf)>,
    /// Who the run is on this host.
    pub run_as: RunAs,
    /// Whether the run gets a network.
    pub network: Network,
    /// Layers without which the run must not start.
    pub required_layers: Vec<Layer>,
    /// Layers that the run shall not have. For an operator whose tests cannot live with one, and for the proof that an
    /// attack succeeds without it.
    pub left_off: Vec<Layer>,
}

impl Jail {
    /// Nothing but `workspace`, as the supervisor's own user, without a network, with whatever layers the host has.
    #[must_use]
    pub fn at(workspace: impl Into<PathBuf>) -> Jail {
        Jail {
            owner: String::new(),
            session: String::new(),
            workspace: workspace.into(),
            workspace_id: None,
            read_only: Vec::new(),
            writable: Vec::new(),
            writable_id: None,
            links: Vec::new(),
            run_as: RunAs::Supervisor,
            network: Network::None,
            required_layers: Vec::new(),
            left_off: Vec::new(),
        }
    }
}

/// Who a run is on this host, as far as files and signals are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunAs {
    /// The user who runs the supervisor.
    Supervisor,
    /// A user of the tenant's own, to whom the workspace and the writable paths belong. Takes a privileged supervisor.
    User {
        /// User id on the host, the same inside.
        uid: u32,
        /// Group id on the host, the same inside; the run has no other group.
        gid: u32,
    },
    /// A user who owns nothing on this host. The workspace and the writable paths, which belong to the user `owner`, are
    /// shown as the run's own by an idmapped mount. Takes a privileged supervisor and a file system that can do that.
    Nobody {
        /// User id of the owner of the workspace on the host.
        owner_uid: u32,
        /// Group id of the owner of the workspace on the host.
        owner_gid: u32,
    },
}

/// Most commands of one run: a rerun has one per package, and an agent that broke more will run the whole suite.
pub const COMMANDS_MAX: usize = 256;

/// One command.
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

/// A file that proctor brings along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchFile {
    /// Path relative to [`SCRATCH`], without `..`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// What happens while a run goes on, in order.
#[derive(Debug)]
pub enum SandboxEvent<'a> {
    /// Everything is in force and the first command is about to run.
    Started {
        /// What is in force, read back from the kernel.
        isolation: Isolation,
    },
    /// A command was started.
    CommandStarted {
        /// Its place in [`RunSpec::commands`].
        index: usize,
    },
    /// The running command wrote.
    Output {
        /// On which stream.
        stream: Stream,
        /// What, at most 64 KiB.
        bytes: &'a [u8],
    },
    /// Something was written to [`REPORT`].
    Report {
        /// What, at most 64 KiB.
        bytes: &'a [u8],
    },
    /// A command ended, its streams are at their ends and nothing of it is alive.
    CommandExited {
        /// Its place in [`RunSpec::commands`].
        index: usize,
        /// How.
        exit: Exit,
    },
    /// Memory in use by the leaf, told about once a second.
    Usage {
        /// Bytes; `None` without a memory controller.
        memory_bytes: Option<u64>,
    },
    /// A part of a file that the run left below [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY), told when everything is dead; each file from its first byte to its
    /// last, an empty one with one empty part.
    Kept {
        /// Path relative to [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY), `/`-separated, without control characters.
        path: &'a str,
        /// Whether these are its first bytes.
        begins: bool,
        /// What, at most 64 KiB.
        bytes: &'a [u8],
    },
    /// Proctor has decided to end the run; told before the first signal is sent.
    Killing {
        /// Why.
        reason: KillReason,
    },
}

/// How a run ended. Nothing of it is left when this is returned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ending {
    /// How each started command ended, in order. A killed run has fewer than the spec.
    pub exits: Vec<Exit>,
    /// Why proctor killed the run, if it did.
    pub killed: Option<KillReason>,
    /// Whether the worker ended without saying how its command ended, and proctor had not killed it.
    pub worker_lost: bool,
    /// Sentences about what the host could not do for the run, and why commands could not be started, without host paths.
    pub notes: Vec<String>,
    /// Limits that were touched, read from the leaf's counters.
    pub limit_hits: Vec<LimitHit>,
    /// What the run used. `queue_wait_s` is the caller's to fill in.
    pub resources: Resources,
    /// The files of [`RunSpec::artifacts`], at most [`ARTIFACTS_MAX`] files and [`ARTIFACT_BYTES_MAX`] bytes together.
    pub artifacts: Vec<Artifact>,
    /// Artefacts left out because of these bounds.
    pub artifacts_left_out: u64,
    /// Files below [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY) that were not told: more than [`KEPT_MAX`] or [`KEPT_BYTES_MAX`], too deep, or with control
    /// characters in their names.
    pub kept_left_out: u64,
}

/// Most files told: four for each of 256 failing tests.
pub const KEPT_MAX: u64 = 1_024;

/// Most bytes told, all files together: some ten traces of long tests, and no more on the supervisor's disk for each run that
/// its session remembers.
pub const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Most artefact files handed back: one coverage profile per package of the largest repositories.
pub const ARTIFACTS_MAX: usize = 4_096;

/// Most artefact bytes handed back, all files together: the supervisor holds them in its memory.
pub const ARTIFACT_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// A file that a run left in its artefact directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Path relative to the artefact directory, `/`-separated.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The environment that runs tests. One real implementation, and fakes in tests of what is above it.
pub trait Sandbox: Send + Sync + 'static {
    /// Runs `spec` to its end on the calling thread, which it may block for as long as the run lasts.
    ///
    /// `sink` is called on the same thread. When this returns, no process, cgroup or file of the run is left, and its mounts
    /// are out of everybody's reach.
    /// An error means that no command was started.
    fn run(
        &self,
        spec: &RunSpec,
        kill: &crate::KillSwitch,
        sink: &mut dyn FnMut(SandboxEvent<'_>),
    ) -> Result<Ending, crate::SandboxError>;

    /// What this host can enforce, row by row. A sandbox that has no host has nothing to say.
    fn probe(&self) -> crate::HostReport {
        crate::HostReport::default()
    }

    /// Has a worker of no run put on every layer in an empty directory, and ends it: whether this host can run anything. Takes
    /// milliseconds, and as long as a set-up may take on a host in trouble.
    fn try_worker(&self) -> Result<(), crate::SandboxError> {
        Ok(())
    }

    /// Workers that are alive after their kill, since the kernel does not let go of them. Removes what those have left that
    /// have died since the last time.
    fn undead(&self) -> u64 {
        0
    }

    /// Lets go of what is prepared for the next run of `session`: it is closed.
    fn retire(&self, _session: &str) {}

    /// Lets go of everything that is prepared, and of where the supervisor has settled: the clean end. A run after this
    /// prepares for itself alone.
    fn close(&self) {}
}

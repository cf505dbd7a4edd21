//! Go's standard library, compiled once for all workspaces of a tenant.
//!
//! Since Go 1.20 the standard library is compiled into GOCACHE on demand, which takes half a minute of CPU time.
//! Workspaces must not share that cache: an entry of Go's cache (inputs to output) cannot be verified, so one workspace
//! could poison another.
//!
//! Proctor therefore compiles the library in a separate sandbox without any tenant data. Runs see the result read-only,
//! and the GOCACHE of each workspace starts with links to it. Each toolchain has its own library.

use crate::host::environment::HOME;
use crate::host::state_dir::own_dir;
use crate::host::trash::{OPEN_DIR, move_to_trash, open_trash, rename_into, sibling};
use proctor_core::isolation::Network;
use proctor_core::limits::Limits;
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{CommandSpec, Jail, KillSwitch, RunAs, RunSpec, Sandbox, SandboxError, ScratchFile};
use rustix::fs::{CWD, Mode, RenameFlags, openat, readlinkat, renameat_with};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Prefix of its name in the cache directory.
const PREFIX: &str = "go-library-";

/// Go's cache in a workspace's cache directory.
const GO_BUILD: &str = "go-build";

/// Link in a workspace's cache that names the library that its other links lead to.
const ORIGIN: &str = "library";

/// The compiler needs this much memory; runs with a lower limit do not compile the library.
const MEMORY_BYTES_MIN: u64 = 1 << 30;

/// Wall time of the compilation, whatever the run's own limit is.
const WALL_MS_MAX: u64 = 300_000;

/// Packages that most tests import; they are compiled with all their dependencies.
const PACKAGES: [&str; 14] = [
    "bufio",
    "encoding/json",
    "flag",
    "log/slog",
    "math/rand",
    "net/http/httptest",
    "os/exec",
    "os/signal",
    "os/user",
    "regexp",
    "testing/fstest",
    "testing/iotest",
    "text/tabwriter",
    "text/template",
];

/// Modification time of the files, in the year 2100. Go removes entries not used for five days by that time, but
/// removal is proctor's decision.
const MODIFIED_AT: Duration = Duration::from_secs(4_102_444_800);

/// Whether an entry of the cache directory is a library.
pub(super) fn is_name(name: &CStr) -> bool {
    name.to_bytes().starts_with(PREFIX.as_bytes())
}

/// Go's library for one toolchain and one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoLibrary {
    go: PathBuf,
    tenant_cache: PathBuf,
    name: String,
}

impl GoLibrary {
    /// The library for the toolchain of the program `go`, in the cache directory of a tenant. `None` if the program
    /// cannot be inspected.
    #[must_use]
    pub fn for_toolchain(tenant_cache: &Path, go: PathBuf) -> Option<GoLibrary> {
        let real = go.canonicalize().ok()?;
        let found = real.metadata().ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(real.as_os_str().as_bytes()).update(b"\0");
        for number in [found.dev(), found.ino(), found.size(), found.mtime().unsigned_abs()] {
            hasher.update(&number.to_le_bytes());
        }
        PACKAGES.iter().for_each(|package| _ = hasher.update(package.as_bytes()).update(b"\0"));
        let name = format!("{PREFIX}{}", &hasher.finalize().to_hex()[..16]);
        Some(GoLibrary { go, tenant_cache: tenant_cache.to_owned(), name })
    }

    /// Path of the compiled library, whether or not it exists.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.tenant_cache.join(&self.name)
    }

    /// Whether it has been compiled.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.dir().is_dir()
    }

    /// Whether the run starts this toolchain and has the memory to compile the library.
    #[must_use]
    pub fn is_needed_by(&self, spec: &RunSpec) -> bool {
        spec.limits.memory_bytes_max >= MEMORY_BYTES_MIN
            && spec.commands.iter().any(|command| command.program == self.go)
    }

    /// Compiles the library in a sandbox like that of `like`, within the same limits, but without a workspace or a
    /// tenant's cache. `id` makes the attempt unique. Returns whether the library exists afterwards. A failed
    /// compilation leaves an empty library, so that later runs do not repeat it; the run itself reports the compiler's
    /// error.
    pub fn compile(
        &self,
        sandbox: &dyn Sandbox,
        like: &RunSpec,
        env: BTreeMap<String, String>,
        (id, kill): (&str, &KillSwitch),
    ) -> Result<bool, SandboxError> {
        let stage = format!("stage-{id}");
        let created = own_dir(&self.tenant_cache, &[&stage], super::run_cache::owner(like.jail.run_as));
        let Some(dir) = created.inspect_err(log_failure).ok() else { return Ok(false) };
        let ending = sandbox.run(&self.spec(like, env, &dir), kill, &mut |_| {});
        match ending.as_ref().map(|ending| (ending.killed, ending.worker_lost, &ending.exits)) {
            Ok((None, false, exits)) if exits.iter().all(|exit| *exit == Exit::Code(0)) => {
                _ = self.install(&dir.join(GO_BUILD)).inspect_err(log_failure);
            }
            Ok((None | Some(KillReason::Deadline | KillReason::OutOfMemory), false, _)) => {
                tracing::warn!("Go's library does not compile: the runs of each workspace compile what they need");
                _ = fs::create_dir(self.dir()).inspect_err(log_failure);
            }
            _ => {}
        }
        _ = move_to_trash(&self.tenant_cache, &stage).inspect_err(log_failure);
        ending.map(|_| self.exists())
    }

    fn spec(&self, like: &RunSpec, mut env: BTreeMap<String, String>, dir: &Path) -> RunSpec {
        let source = format!("{}/library", proctor_sandbox::SCRATCH);
        let imports: String = PACKAGES.iter().map(|package| format!("import _ {package:?}\n")).collect();
        let file = |name: &str, text: String| ScratchFile {
            path: format!("library/{name}"),
            bytes: text.into_bytes(),
            executable: false,
        };
        let own = [("GOCACHE", dir.join(GO_BUILD).to_string_lossy().into_owned())];
        let fixed = [("GOENV", "off"), ("GOFLAGS", "-modcacherw"), ("GOPROXY", "off"), ("GOTOOLCHAIN", "local")];
        env.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let command = |more: &[&str]| CommandSpec {
            program: self.go.clone(),
            args: ["test", "-count=1"].iter().chain(more).map(|word| (*word).to_owned()).collect(),
            dir: PathBuf::from(&source),
            env: env.clone().into_iter().collect(),
        };
        RunSpec {
            jail: Jail {
                session: String::new(),
                workspace: dir.to_owned(),
                workspace_id: None,
                writable: Vec::new(),
                writable_id: None,
                links: Vec::new(),
                network: Network::None,
                ..like.jail.clone()
            },
            stack_requests: Vec::new(),
            commands: vec![command(&["."]), command(&["-covermode=atomic", "-coverpkg=./...", "."])],
            scratch_files: vec![
                file("go.mod", "module library\n\ngo 1.21\n".to_owned()),
                file("library.go", "package library\n".to_owned()),
                file(
                    "library_test.go",
                    format!("package library\n\nimport \"testing\"\n{imports}\nfunc Test(*testing.T) {{}}\n"),
                ),
            ],
            scratch_dirs: vec![HOME.to_owned()],
            artifacts: String::new(),
            report: false,
            alone: false,
            limits: Limits { wall_ms_max: WALL_MS_MAX, ..like.limits },
            required_limits: like.required_limits.clone(),
        }
    }

    fn install(&self, compiled: &Path) -> io::Result<()> {
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + MODIFIED_AT);
        for (_, file) in entries(compiled)? {
            File::open(file)?.set_times(times)?;
        }
        match renameat_with(CWD, compiled, CWD, self.dir(), RenameFlags::NOREPLACE) {
            // Another run compiled it at the same time.
            Err(Errno::EXIST) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Seeds Go's cache in a workspace's cache directory with links to the library. A cache whose links lead to a
    /// removed library is thrown away.
    pub fn link_into(&self, cache: &Path, run_as: RunAs, id: &str) -> io::Result<()> {
        let cache = openat(CWD, cache, OPEN_DIR, Mode::empty())?;
        match openat(&cache, GO_BUILD, OPEN_DIR, Mode::empty()) {
            Ok(own) => {
                let origin = readlinkat(&own, ORIGIN, Vec::new());
                let is_this_library = |target: &[u8]| target == self.dir().as_os_str().as_bytes() && self.exists();
                if origin.is_err() || origin.is_ok_and(|target| is_this_library(target.to_bytes())) {
                    return self.mark_used();
                }
                rename_into(&cache, c"go-build", &open_trash(CWD, &sibling(&self.tenant_cache, ".trash"))?, &mut 0)?;
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        if !self.exists() {
            return Ok(());
        }
        // Built outside the reach of runs, then moved there in one step.
        let seed = self.tenant_cache.join(format!("seed-{id}"));
        self.link(&seed, super::run_cache::owner(run_as))?;
        match renameat_with(CWD, &seed, &cache, GO_BUILD, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => fs::remove_dir_all(&seed)?,
            other => other?,
        }
        self.mark_used()
    }

    fn mark_used(&self) -> io::Result<()> {
        if self.exists() { super::mark_used(&self.dir()).map(drop) } else { Ok(()) }
    }

    fn link(&self, seed: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
        let create_dir = |dir: &Path| {
            fs::create_dir(dir)?;
            owner.map_or(Ok(()), |(uid, gid)| lchown(dir, Some(uid), Some(gid)))
        };
        create_dir(seed)?;
        (0..=u8::MAX).try_for_each(|byte| create_dir(&seed.join(format!("{byte:02x}"))))?;
        for (name, file) in entries(&self.dir())? {
            symlink(file, seed.join(name))?;
        }
        symlink(self.dir(), seed.join(ORIGIN))
    }
}

/// The files of a Go cache with their relative paths; all are in one of 256 directories.
fn entries(cache: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut entries = Vec::new();
    for dir in (0..=u8::MAX).map(|byte| format!("{byte:02x}")) {
        let Ok(files) = fs::read_dir(cache.join(&dir)) else { continue };
        for file in files {
            let file = file?;
            if file.file_type()?.is_file() {
                entries.push((Path::new(&dir).join(file.file_name()), file.path()));
            }
        }
    }
    Ok(entries)
}

fn log_failure(error: &io::Error) {
    tracing::warn!(%error, "Go's library is not shared by the workspaces of a tenant: each compiles its own");
}

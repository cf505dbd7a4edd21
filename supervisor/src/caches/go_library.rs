//! Go's standard library, compiled once for all workspaces of a tenant. Go has compiled what a build needs of it into GOCACHE
//! since 1.20, which takes half a minute of a processor; and what one workspace's runs leave in theirs is no other's to read,
//! since an entry of Go's cache (what was compiled → what came of it) cannot be checked.
//!
//! So proctor compiles it in a sandbox of its own, in which nothing of any tenant's is. Runs see the result read-only, and the
//! GOCACHE of each workspace begins with links to it. Another toolchain is another library. Must not know how a run is driven.

use crate::host::environment::HOME;
use crate::host::state_dir::own_dir;
use crate::host::trash::{OPEN_DIR, open_trash, sibling, throw, throw_out};
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

/// Beginning of its name in the cache directory.
const PREFIX: &str = "go-library-";

/// Go's cache in a workspace's directory.
const GO_BUILD: &str = "go-build";

/// Link in a workspace's cache that says which library its other links lead to.
const ORIGIN: &str = "library";

/// Memory of a run in whose turn the library is compiled: the compiler needs as much.
const MEMORY_BYTES_MIN: u64 = 1 << 30;

/// Wall time of the compilation, whatever the run itself may have.
const WALL_MS_MAX: u64 = 300_000;

/// Packages that are compiled, with all that they need: those that most tests do.
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

/// Go removes what has not been used for five days by the time of change. What is removed here is proctor's to decide, so the
/// files are of the year 2100.
const FOR_GOOD: Duration = Duration::from_secs(4_102_444_800);

/// Whether an entry of the cache directory is a library.
pub(super) fn is_name(name: &CStr) -> bool {
    name.to_bytes().starts_with(PREFIX.as_bytes())
}

/// Go's library for one toolchain and one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoLibrary {
    go: PathBuf,
    tenants: PathBuf,
    name: String,
}

impl GoLibrary {
    /// Of the toolchain of the program `go`, in the cache directory of a tenant. `None` when the program cannot be looked at.
    #[must_use]
    pub fn of(tenants: &Path, go: PathBuf) -> Option<GoLibrary> {
        let real = go.canonicalize().ok()?;
        let found = real.metadata().ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(real.as_os_str().as_bytes()).update(b"\0");
        for number in [found.dev(), found.ino(), found.size(), found.mtime().unsigned_abs()] {
            hasher.update(&number.to_le_bytes());
        }
        PACKAGES.iter().for_each(|package| _ = hasher.update(package.as_bytes()).update(b"\0"));
        let name = format!("{PREFIX}{}", &hasher.finalize().to_hex()[..16]);
        Some(GoLibrary { go, tenants: tenants.to_owned(), name })
    }

    /// Where it is, or would be.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.tenants.join(&self.name)
    }

    /// Whether it is compiled.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.dir().is_dir()
    }

    /// Whether the run starts its toolchain, and has the memory to compile it.
    #[must_use]
    pub fn serves(&self, spec: &RunSpec) -> bool {
        spec.limits.memory_bytes_max >= MEMORY_BYTES_MIN
            && spec.commands.iter().any(|command| command.program == self.go)
    }

    /// Compiles it in the sandbox of `like`, with no workspace and no cache of any tenant's, within the same limits. `id` tells
    /// the attempt from all others. Whether it is there then. What keeps Go from compiling leaves an empty one, so that no later
    /// run waits for the same; the run itself has more to say of it.
    pub fn compile(
        &self,
        sandbox: &dyn Sandbox,
        like: &RunSpec,
        env: BTreeMap<String, String>,
        (id, kill): (&str, &KillSwitch),
    ) -> Result<bool, SandboxError> {
        let stage = format!("stage-{id}");
        let made = own_dir(&self.tenants, &[&stage], super::run_cache::owner(like.jail.run_as));
        let Some(dir) = made.inspect_err(failed).ok() else { return Ok(false) };
        let ending = sandbox.run(&self.spec(like, env, &dir), kill, &mut |_| {});
        match ending.as_ref().map(|ending| (ending.killed, ending.worker_lost, &ending.exits)) {
            Ok((None, false, exits)) if exits.iter().all(|exit| *exit == Exit::Code(0)) => {
                _ = self.keep(&dir.join(GO_BUILD)).inspect_err(failed);
            }
            Ok((None | Some(KillReason::Deadline | KillReason::OutOfMemory), false, _)) => {
                tracing::warn!("Go's library does not compile: each workspace's runs compile what they need of it");
                _ = fs::create_dir(self.dir()).inspect_err(failed);
            }
            _ => {}
        }
        _ = throw_out(&self.tenants, &stage).inspect_err(failed);
        ending.map(|_| self.is_there())
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
            limits: Limits { wall_ms_max: WALL_MS_MAX, ..like.limits },
            required_limits: like.required_limits.clone(),
        }
    }

    fn keep(&self, compiled: &Path) -> io::Result<()> {
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + FOR_GOOD);
        for (_, file) in entries(compiled)? {
            File::open(file)?.set_times(times)?;
        }
        match renameat_with(CWD, compiled, CWD, self.dir(), RenameFlags::NOREPLACE) {
            // Two runs have compiled it at the same time.
            Err(Errno::EXIST) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Has Go's cache in a workspace's directory begin with links to what is compiled; one whose links lead to a library that is
    /// not there any more begins anew.
    pub fn link_into(&self, cache: &Path, run_as: RunAs, id: &str) -> io::Result<()> {
        let cache = openat(CWD, cache, OPEN_DIR, Mode::empty())?;
        match openat(&cache, GO_BUILD, OPEN_DIR, Mode::empty()) {
            Ok(own) => {
                let leads_to = readlinkat(&own, ORIGIN, Vec::new());
                let leads_here = |target: &[u8]| target == self.dir().as_os_str().as_bytes() && self.is_there();
                if leads_to.is_err() || leads_to.is_ok_and(|target| leads_here(target.to_bytes())) {
                    return self.mark_used();
                }
                throw(&cache, c"go-build", &open_trash(CWD, &sibling(&self.tenants, ".trash"))?, &mut 0)?;
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        if !self.is_there() {
            return Ok(());
        }
        // Made where no run writes, and moved there in one step.
        let seed = self.tenants.join(format!("seed-{id}"));
        self.link(&seed, super::run_cache::owner(run_as))?;
        match renameat_with(CWD, &seed, &cache, GO_BUILD, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => fs::remove_dir_all(&seed)?,
            other => other?,
        }
        self.mark_used()
    }

    fn mark_used(&self) -> io::Result<()> {
        if self.is_there() { super::mark_used(&self.dir()).map(drop) } else { Ok(()) }
    }

    fn link(&self, seed: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
        let make = |dir: &Path| {
            fs::create_dir(dir)?;
            owner.map_or(Ok(()), |(uid, gid)| lchown(dir, Some(uid), Some(gid)))
        };
        make(seed)?;
        (0..=u8::MAX).try_for_each(|byte| make(&seed.join(format!("{byte:02x}"))))?;
        for (name, file) in entries(&self.dir())? {
            symlink(file, seed.join(name))?;
        }
        symlink(self.dir(), seed.join(ORIGIN))
    }
}

/// The files of a cache of Go's, with their names in it: all are in one of 256 directories.
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

fn failed(error: &io::Error) {
    tracing::warn!(%error, "Go's library is not compiled for all workspaces of a tenant: each compiles its own");
}

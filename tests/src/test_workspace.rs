//! An isolated workspace per test: a copy of a fixture, and directories for everything that a user's programs write. All
//! tests of a build share compiled libraries; otherwise every run would compile Go's library anew.

use crate::process::{self, ProcessOutput, command, program, source_root, wait_for_exit, wait_until};
use crate::supervisor_process::TENANTS;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Once, OnceLock};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Paths below a directory with mode and content (the target of a symlink); directories and symlinks included.
pub type FileTree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// Reads everything below `dir`.
#[must_use]
pub fn tree(dir: &Path) -> FileTree {
    fn add(dir: &Path, root: &Path, tree: &mut FileTree) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (path, metadata) = (entry.path(), entry.path().symlink_metadata().unwrap());
            let content = if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if metadata.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            tree.insert(path.strip_prefix(root).unwrap().to_owned(), (metadata.mode(), content));
            if metadata.is_dir() {
                add(&path, root, tree);
            }
        }
    }
    let mut found = FileTree::new();
    add(dir, dir, &mut found);
    found
}

/// Copies a directory and makes the files of the copy writable.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            // Keeps execute permission (programs in Go's cache) and adds write permission (Go's modules are read-only).
            let mode = entry.metadata().unwrap().mode() | 0o600;
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// Writes a file and waits until a run that begins now does not count it as written during the run.
pub fn write_before_run(workspace: &Path, file: &str, content: &str) {
    let path = workspace.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    wait_until("the file is older than the next run", || {
        SystemTime::now().duration_since(written).is_ok_and(|age| age > Duration::from_millis(40))
    });
}

/// Frameworks whose fixtures need packages in `node_modules`.
const JAVASCRIPT_FRAMEWORKS: [&str; 5] = ["jest", "mocha", "node", "playwright", "vitest"];

/// Gives a JavaScript project a link to the installed packages.
pub fn link_node_packages(workspace: &Path) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| process::ensure_installed("node-packages"));
    symlink(process::tools().join("node/lib/node_modules"), workspace.join("node_modules")).unwrap();
}

/// Copies a fixture such as `go/pass` to a new directory. JavaScript fixtures get a link to the installed packages.
pub fn copy_fixture(fixture: &str, to: &Path) {
    copy(&source_root().join("fixtures").join(fixture), to);
    if JAVASCRIPT_FRAMEWORKS.iter().any(|framework| fixture.split('/').next() == Some(framework)) {
        link_node_packages(to);
    }
    if fixture.starts_with("cypress/") {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::ensure_installed("node-packages"));
        let (packages, own) = (process::tools().join("node/lib/node_modules"), to.join("node_modules"));
        fs::create_dir_all(own.join(".bin")).unwrap();
        fs::copy(source_root().join("tests/stand-ins/cypress.cjs"), own.join(".bin/cypress")).unwrap();
        ["minimatch", "mocha"].iter().for_each(|name| symlink(packages.join(name), own.join(name)).unwrap());
    }
    // Generated here, since 10,000 equal flow files do not belong into the repository.
    if fixture == "maestro/many" {
        let (flow, flows) = (fs::read(to.join("flow.yaml")).unwrap(), to.join(".maestro"));
        fs::create_dir(&flows).unwrap();
        (0..10_000).for_each(|number| fs::write(flows.join(format!("flow-{number}.yaml")), &flow).unwrap());
    }
    if fixture.starts_with("maven/") {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::ensure_installed("maven"));
    }
    if fixture.starts_with("gradle/") {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::ensure_installed("gradle"));
    }
    if fixture.starts_with("rspec/") {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::ensure_installed("rspec"));
    }
    if fixture.starts_with("phpunit/") {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::ensure_installed("phpunit"));
    }
    // The lock file has the versions of this host's gems.
    if fixture == "rspec/bundled" {
        let mut bundle = command(&find_on_path("bundle"));
        bundle.args(["lock", "--local"]);
        bundle.env("PATH", process::search_path()).env("HOME", to).current_dir(to);
        let locked = wait_for_exit(bundle.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(locked.status, 0, "{locked:?}");
        _ = fs::remove_dir_all(to.join(".bundle"));
    }
}

/// Gives a directory tree to a user and the group of the same id. Does nothing for an ordinary user, whose runs have the
/// user's own id.
pub fn chown_tree(path: &Path, uid: u32) {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    lchown(path, Some(uid), Some(uid)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| chown_tree(&entry.unwrap().path(), uid));
    }
}

/// The directories of one test. Dropping it removes them.
pub struct TestWorkspace {
    temp_dir: TempDir,
    /// The workspace directory.
    pub path: PathBuf,
    /// PATH of the programs under test.
    pub search_path: OsString,
}

impl TestWorkspace {
    /// A workspace with a copy of `fixture`.
    #[must_use]
    pub fn with_fixture(fixture: &str) -> TestWorkspace {
        let workspace = TestWorkspace::empty();
        copy_fixture(fixture, &workspace.path);
        workspace
    }

    /// An empty workspace.
    #[must_use]
    pub fn empty() -> TestWorkspace {
        warm_go_cache();
        TestWorkspace::without_warm_cache()
    }

    fn without_warm_cache() -> TestWorkspace {
        let temp_dir = tempfile::Builder::new().prefix("proctor-test-").tempdir().unwrap();
        for name in ["workspace", "tmp", "state", "home"] {
            fs::create_dir(temp_dir.path().join(name)).unwrap();
        }
        let path = temp_dir.path().join("workspace").canonicalize().unwrap();
        TestWorkspace { temp_dir, path, search_path: process::search_path() }
    }

    /// Directory of everything that belongs to the test. Its path identifies the test's processes.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.temp_dir.path()
    }

    /// TMPDIR of the programs under test, which must leave it empty.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.temp_dir.path().join("tmp")
    }

    /// One of proctor's programs, with the environment of a user of this workspace.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = command(&program(name));
        let dir = |name: &str| self.temp_dir.path().join(name);
        command
            .env("PATH", &self.search_path)
            .env("HOME", dir("home"))
            .env("TMPDIR", dir("tmp"))
            .env("XDG_STATE_HOME", dir("state"))
            .env("XDG_CACHE_HOME", cache_home())
            .env("GOMODCACHE", go_modules())
            .env("RUSTUP_HOME", process::rustup_home())
            .env("MAVEN_OPTS", process::maven_opts())
            .env("NO_COLOR", "1")
            .env("LANG", "C.UTF-8")
            .current_dir(&self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `proctor` with these arguments to its end.
    #[must_use]
    pub fn proctor(&self, arguments: &[&str]) -> ProcessOutput {
        wait_for_exit(self.command("proctor").args(arguments).spawn().unwrap())
    }

    /// Writes a file of the workspace, with its parent directories.
    pub fn write(&self, file: &str, content: &str) {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn shared_cache() -> PathBuf {
    let build = program("proctor");
    build.parent().unwrap().parent().unwrap().join("test-cache")
}

/// XDG_CACHE_HOME of the programs under test: below the build directory, shared by all tests.
#[must_use]
pub fn cache_home() -> PathBuf {
    shared_cache().join("user")
}

/// Cache directory of the user that runs the tests.
fn user_cache() -> PathBuf {
    cache_home().join("proctor/own")
}

/// Per-workspace caches whose directory name matches `matches`.
#[must_use]
pub fn caches_matching(matches: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    entries(user_cache()).flat_map(entries).filter(|path| matches(&name(path))).collect()
}

/// GOCACHE for Go commands that run without proctor. It starts as a copy of Go's compiled library.
#[must_use]
pub fn go_build_cache() -> PathBuf {
    shared_cache().join("go-build")
}

/// A state directory for one supervisor at a time. It keeps the tenants' build caches for later supervisors.
pub struct StateDir {
    dir: PathBuf,
    // Closing the file releases the lock.
    _lock: fs::File,
}

impl StateDir {
    /// Locks the first free state directory and fills its caches with the compiled Go library.
    #[must_use]
    pub fn acquire() -> StateDir {
        warm_go_cache();
        let states = shared_cache().join("states");
        fs::create_dir_all(&states).unwrap();
        let free = |number: u32| {
            let lock = fs::File::create(states.join(format!("{number}.lock"))).unwrap();
            lock.try_lock().is_ok().then(|| StateDir { dir: states.join(number.to_string()), _lock: lock })
        };
        let state = (0..).find_map(free).unwrap();
        let (version_file, go) = (state.dir.join("library.version"), go_version());
        if fs::read_to_string(&version_file).is_ok_and(|known| known == go) {
            return state;
        }
        for tenant in TENANTS {
            let cache = state.dir.join("tenants").join(tenant).join("cache");
            _ = fs::remove_dir_all(&cache);
            link_library(&compiled_go_library(), &cache);
            // Compiled libraries that all workspaces share belong to the supervisor.
            fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(version_file, go).unwrap();
        state
    }

    /// Path of the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Go's compiled library, the initial content of every cache. No run writes here, so copying needs no lock.
fn compiled_go_library() -> PathBuf {
    shared_cache().join("library")
}

/// Copies a directory to a new path and keeps the file times: Go removes old cache entries.
fn copy_library(from: &Path, to: &Path) {
    copy_with("-a", from, to);
}

/// Makes a directory of links to the files of another one. Runs see the files of a library read-only.
fn link_library(from: &Path, to: &Path) {
    copy_with("-al", from, to);
}

fn copy_with(option: &str, from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let status = command(&find_on_path("cp")).arg(option).args([from, to]).status().unwrap();
    assert!(status.success(), "{} could not be copied", from.display());
}

/// Makes `to`, which must not exist, a GOCACHE with Go's compiled library. A workspace has been made before.
pub fn copy_go_library(to: &Path) {
    let libraries = fs::read_dir(compiled_go_library()).unwrap().map(|entry| entry.unwrap().path());
    // That of the toolchain in use is the one used last.
    let library = libraries.max_by_key(|dir| dir.metadata().unwrap().modified().unwrap()).unwrap();
    copy_library(&library, to);
}

fn go_version() -> String {
    let program = find_on_path("go").canonicalize().unwrap();
    fs::read_to_string(program.ancestors().nth(2).unwrap().join("VERSION")).unwrap()
}

/// GOMODCACHE of the host.
#[must_use]
pub fn go_modules() -> &'static Path {
    static MODULES: OnceLock<PathBuf> = OnceLock::new();
    MODULES.get_or_init(|| {
        let mut go = command(&find_on_path("go"));
        let output = go.envs(std::env::vars_os()).args(["env", "GOMODCACHE"]).output().unwrap();
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

/// Finds a program on PATH.
#[must_use]
pub fn find_on_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on PATH: `.ci/tools {name}` installs it"))
}

/// Compiles Go's library into the shared cache, once per Go version for all suites.
fn warm_go_cache() {
    static WARM: OnceLock<()> = OnceLock::new();
    WARM.get_or_init(|| {
        let shared = shared_cache();
        fs::create_dir_all(&shared).unwrap();
        let lock = fs::File::create(shared.join("lock")).unwrap();
        lock.lock().unwrap();
        let (version_file, go) = (shared.join("library.version"), go_version());
        if fs::read_to_string(&version_file).is_ok_and(|known| known == go) {
            return;
        }
        let workspace = TestWorkspace::without_warm_cache();
        copy_fixture("go/pass", &workspace.path);
        let output = wait_for_exit(workspace.command("proctor").args(["run", "--output", "json"]).spawn().unwrap());
        assert_eq!(output.status, 0, "{output:?}");
        for old in [compiled_go_library(), go_build_cache()] {
            _ = fs::remove_dir_all(old);
        }
        for entry in fs::read_dir(user_cache()).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("go-library-") {
                copy_library(&entry.path(), &compiled_go_library().join(name));
            }
        }
        copy_go_library(&go_build_cache());
        fs::write(version_file, go).unwrap();
    });
}

/// Directories in which a project's own commands may write, each beside a build file of this name.
const BUILD_OUTPUTS: [(&str, &str); 4] =
    [("pom.xml", "target"), ("build.gradle", "build"), ("build.gradle", ".gradle"), (".proctor.yaml", "out")];

/// Files of a workspace without build outputs.
fn source_files(workspace: &Path) -> FileTree {
    let mut all = tree(workspace);
    let beside = |path: &PathBuf| {
        let markers = BUILD_OUTPUTS.iter().filter(|(build_file, _)| path.ends_with(build_file));
        markers.map(|(_, output)| path.with_file_name(output)).collect::<Vec<_>>()
    };
    let outputs: Vec<PathBuf> = all.keys().flat_map(beside).collect();
    all.retain(|path, _| !outputs.iter().any(|output| path.starts_with(output)));
    all
}

/// The workspace's files before a run, to be compared afterwards.
pub struct Baseline {
    workspace: FileTree,
}

impl Baseline {
    /// Records the current files.
    #[must_use]
    pub fn capture(workspace: &TestWorkspace) -> Baseline {
        Baseline { workspace: source_files(&workspace.path) }
    }

    /// Waits until no process of `pid` in `workspace` is alive; fails when cgroups, files or mounts are left.
    pub fn assert_nothing_is_left(&self, workspace: &TestWorkspace, pid: u32) {
        let mark = workspace.root().to_str().unwrap();
        wait_until("no process of the run is alive", || {
            process::processes_matching(mark).is_empty()
                && process::processes_matching(&format!("proctor-{pid}-")).is_empty()
        });
        assert_eq!(process::supervisor_cgroups(pid), [""; 0].map(PathBuf::from), "cgroups are left");
        self.assert_files(workspace);
        wait_until("no mount is left", || process::proctor_mounts(mark).is_empty());
    }

    /// Fails when the workspace has changed or TMPDIR is not empty.
    pub fn assert_files(&self, workspace: &TestWorkspace) {
        assert_eq!(
            tree(&workspace.tmp()).keys().collect::<Vec<_>>(),
            [""; 0].map(Path::new).each_ref(),
            "temporary files"
        );
        let (now, before) = (source_files(&workspace.path), &self.workspace);
        assert!(now == *before, "the workspace has changed: {:?} to {:?}", before.keys(), now.keys());
    }
}

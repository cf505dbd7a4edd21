//! A workspace of its own for a test: a copy of a fixture, and directories for everything that a user's programs write. What
//! was compiled once is shared by all tests of this build, or every run would compile Go's library anew. Must not know
//! how runs are asked for.

use crate::process::{self, ProcessOutput, command, program, source_root, wait_for_exit};
use crate::supervisor_process::TENANTS;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Once, OnceLock};
use tempfile::TempDir;

/// Files by path below a directory, each with its mode and content; directories and links too.
pub type FileTree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// What is below `dir`.
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

/// Copies a directory; the copy can be written.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            // Go's cache has programs, and its modules cannot be written.
            let mode = entry.metadata().unwrap().mode() | 0o600;
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// Frameworks whose fixtures find what they need in `node_modules`.
const JAVASCRIPT_FRAMEWORKS: [&str; 5] = ["jest", "mocha", "node", "playwright", "vitest"];

/// Copies a fixture, `go/pass`, to a new directory. The packages of one in JavaScript are a link to where runs read them.
pub fn copy_fixture(fixture: &str, to: &Path) {
    copy(&source_root().join("fixtures").join(fixture), to);
    if JAVASCRIPT_FRAMEWORKS.iter().any(|framework| fixture.split('/').next() == Some(framework)) {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::ensure_installed("node-packages"));
        symlink(process::tools().join("node/lib/node_modules"), to.join("node_modules")).unwrap();
    }
    if fixture.starts_with("cypress/") {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::ensure_installed("node-packages"));
        let (packages, own) = (process::tools().join("node/lib/node_modules"), to.join("node_modules"));
        fs::create_dir_all(own.join(".bin")).unwrap();
        fs::copy(source_root().join("tests/stand-ins/cypress.cjs"), own.join(".bin/cypress")).unwrap();
        ["minimatch", "mocha"].iter().for_each(|name| symlink(packages.join(name), own.join(name)).unwrap());
    }
    // A flow is a file, and ten thousand of them are nothing that a person would keep.
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
        let mut bundle = command(&on_path("bundle"));
        bundle.args(["lock", "--local"]);
        bundle.env("PATH", process::search_path()).env("HOME", to).current_dir(to);
        let locked = wait_for_exit(bundle.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(locked.status, 0, "{locked:?}");
        _ = fs::remove_dir_all(to.join(".bundle"));
    }
}

/// Gives a directory and all that is in it to a user and the group of the same number. An ordinary user, whose runs are
/// its own, has nothing to give.
pub fn give(path: &Path, uid: u32) {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    lchown(path, Some(uid), Some(uid)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), uid));
    }
}

/// Directories of one test.
pub struct TestWorkspace {
    dir: TempDir,
    /// The workspace.
    pub workspace: PathBuf,
}

impl TestWorkspace {
    /// A workspace with a copy of `fixture` as its workspace.
    #[must_use]
    pub fn with_fixture(fixture: &str) -> TestWorkspace {
        let workspace = TestWorkspace::empty();
        copy_fixture(fixture, &workspace.workspace);
        workspace
    }

    /// A workspace whose workspace is empty.
    #[must_use]
    pub fn empty() -> TestWorkspace {
        warm_go_cache();
        TestWorkspace::without_warm_cache()
    }

    fn without_warm_cache() -> TestWorkspace {
        let dir = tempfile::Builder::new().prefix("proctor-test-").tempdir().unwrap();
        for name in ["workspace", "tmp", "state", "home"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let workspace = dir.path().join("workspace").canonicalize().unwrap();
        TestWorkspace { dir, workspace }
    }

    /// The directory that holds everything of the test: a mark by which its processes can be told.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Directory for temporary files. Whoever leaves something in it has not cleared up.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// A program of ours as a user of this workspace starts it.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = command(&program(name));
        let dir = |name: &str| self.dir.path().join(name);
        command
            .env("PATH", process::search_path())
            .env("HOME", dir("home"))
            .env("TMPDIR", dir("tmp"))
            .env("XDG_STATE_HOME", dir("state"))
            .env("XDG_CACHE_HOME", cache_home())
            .env("GOMODCACHE", go_modules())
            .env("RUSTUP_HOME", process::rustup_home())
            .env("MAVEN_OPTS", process::maven_opts())
            .env("NO_COLOR", "1")
            .env("LANG", "C.UTF-8")
            .current_dir(&self.workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts `proctor` with these arguments and waits for its end.
    #[must_use]
    pub fn proctor(&self, arguments: &[&str]) -> ProcessOutput {
        wait_for_exit(self.command("proctor").args(arguments).spawn().unwrap())
    }

    /// Writes a file of the workspace.
    pub fn write(&self, file: &str, content: &str) {
        let path = self.workspace.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn shared_cache() -> PathBuf {
    let build = program("proctor");
    build.parent().unwrap().parent().unwrap().join("test-cache")
}

/// Value of XDG_CACHE_HOME for the programs under test: below the build directory, the same for all tests.
#[must_use]
pub fn cache_home() -> PathBuf {
    shared_cache().join("user")
}

/// The cache directory there of whoever runs the tests.
fn own_cache() -> PathBuf {
    cache_home().join("proctor/own")
}

/// The caches there called so, one for each workspace that has one.
#[must_use]
pub fn caches_matching(is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let below = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    below(own_cache()).flat_map(below).filter(|path| is_meant(&name(path))).collect()
}

/// A cache of Go's for what runs without proctor.
#[must_use]
pub fn go_build_cache() -> PathBuf {
    shared_cache().join("go-build")
}

/// A state directory for one supervisor at a time. It keeps the build caches of tenants for those that come later.
pub struct StateDir {
    dir: PathBuf,
    // Free for others when it is closed.
    _held: fs::File,
}

impl StateDir {
    /// The first one that nobody has, with what is compiled for all in its caches.
    #[must_use]
    pub fn acquire() -> StateDir {
        warm_go_cache();
        let states = shared_cache().join("states");
        fs::create_dir_all(&states).unwrap();
        let free = |number: u32| {
            let held = fs::File::create(states.join(format!("{number}.lock"))).unwrap();
            held.try_lock().is_ok().then(|| StateDir { dir: states.join(number.to_string()), _held: held })
        };
        let state = (0..).find_map(free).unwrap();
        let (warm, go) = (state.dir.join("library.version"), version_of_go());
        if fs::read_to_string(&warm).is_ok_and(|known| known == go) {
            return state;
        }
        for tenant in TENANTS {
            let cache = state.dir.join("tenants").join(tenant).join("cache");
            _ = fs::remove_dir_all(&cache);
            copy_library(&compiled_go_library(), &cache);
            // Belongs to the supervisor, as what is compiled for all workspaces does.
            fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(warm, go).unwrap();
        state
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// What is in everybody's cache at the start: Go's library. No run writes here, so it can be copied at any time.
fn compiled_go_library() -> PathBuf {
    shared_cache().join("library")
}

/// Copies a directory that is not there yet with its times: Go removes what is old.
fn copy_library(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let status = command(&on_path("cp")).arg("-a").args([from, to]).status().unwrap();
    assert!(status.success(), "{} could not be copied", from.display());
}

fn version_of_go() -> String {
    let program = on_path("go").canonicalize().unwrap();
    fs::read_to_string(program.ancestors().nth(2).unwrap().join("VERSION")).unwrap()
}

/// The directory of the host's Go modules.
#[must_use]
pub fn go_modules() -> &'static Path {
    static MODULES: OnceLock<PathBuf> = OnceLock::new();
    MODULES.get_or_init(|| {
        let mut go = command(&on_path("go"));
        let output = go.envs(std::env::vars_os()).args(["env", "GOMODCACHE"]).output().unwrap();
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

/// A program on PATH.
#[must_use]
pub fn on_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on PATH: `.ci/tools {name}` installs it"))
}

/// Compiles Go's library into the shared caches, once for all suites and all times.
fn warm_go_cache() {
    static WARM: OnceLock<()> = OnceLock::new();
    WARM.get_or_init(|| {
        let shared = shared_cache();
        fs::create_dir_all(&shared).unwrap();
        let lock = fs::File::create(shared.join("lock")).unwrap();
        lock.lock().unwrap();
        let (warm, go) = (shared.join("library.version"), version_of_go());
        if fs::read_to_string(&warm).is_ok_and(|known| known == go) {
            return;
        }
        let workspace = TestWorkspace::without_warm_cache();
        copy_fixture("go/pass", &workspace.workspace);
        let said = wait_for_exit(workspace.command("proctor").args(["run", "--output", "json"]).spawn().unwrap());
        assert_eq!(said.status, 0, "{said:?}");
        _ = fs::remove_dir_all(compiled_go_library());
        for entry in fs::read_dir(own_cache()).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("go-library-") {
                copy_library(&entry.path(), &compiled_go_library().join(name));
            }
        }
        fs::write(warm, go).unwrap();
    });
}

/// Files beside which a project's own commands write, and where: there and nowhere else.
const BUILD_OUTPUTS: [(&str, &str); 4] =
    [("pom.xml", "target"), ("build.gradle", "build"), ("build.gradle", ".gradle"), (".proctor.yaml", "out")];

/// What is in a workspace beside what its own commands write.
fn source_files(workspace: &Path) -> FileTree {
    let mut all = tree(workspace);
    let beside = |path: &PathBuf| {
        let marks = BUILD_OUTPUTS.iter().filter(|(mark, _)| path.ends_with(mark));
        marks.map(|(_, built)| path.with_file_name(built)).collect::<Vec<_>>()
    };
    let built: Vec<PathBuf> = all.keys().flat_map(beside).collect();
    all.retain(|path, _| !built.iter().any(|target| path.starts_with(target)));
    all
}

/// What a test asserts about what is left: taken before, compared after.
pub struct Baseline {
    workspace: FileTree,
}

impl Baseline {
    /// How things are now.
    #[must_use]
    pub fn capture(workspace: &TestWorkspace) -> Baseline {
        Baseline { workspace: source_files(&workspace.workspace) }
    }

    /// Waits until nothing of what `pid` did in `workspace` is alive, and fails when it has left anything.
    pub fn assert_nothing_is_left(&self, workspace: &TestWorkspace, pid: u32) {
        let mark = workspace.root().to_str().unwrap();
        process::wait_until("no process of the run is alive", || {
            process::processes_matching(mark).is_empty()
                && process::processes_matching(&format!("proctor-{pid}-")).is_empty()
        });
        assert_eq!(process::supervisor_cgroups(pid), [""; 0].map(PathBuf::from), "cgroups are left");
        self.assert_files(workspace);
        process::wait_until("no mount is left", || process::proctor_mounts(mark).is_empty());
    }

    /// Fails when the workspace or the temporary files have changed.
    pub fn assert_files(&self, workspace: &TestWorkspace) {
        assert_eq!(
            tree(&workspace.tmp()).keys().collect::<Vec<_>>(),
            [""; 0].map(Path::new).each_ref(),
            "temporary files"
        );
        let (now, before) = (source_files(&workspace.workspace), &self.workspace);
        assert!(now == *before, "the workspace has changed: {:?} to {:?}", before.keys(), now.keys());
    }
}

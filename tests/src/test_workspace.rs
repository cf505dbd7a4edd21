//! A place of its own for a test: a copy of a fixture, and directories for everything that a user's programs write. What
//! was compiled once is shared by all tests of this build, or every run would compile Go's library anew. Must not know
//! how runs are asked for.

use crate::process::{self, Said, command, end_of, program, sources};
use crate::supervisor_process::TENANTS;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Once, OnceLock};
use tempfile::TempDir;

/// Files by path below a directory, each with its mode and content; directories and links too.
pub type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// What is below `dir`.
#[must_use]
pub fn tree(dir: &Path) -> Tree {
    fn add(dir: &Path, root: &Path, tree: &mut Tree) {
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
    let mut found = Tree::new();
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
const OF_NODE: [&str; 5] = ["jest", "mocha", "node", "playwright", "vitest"];

/// Copies a fixture, `go/pass`, to a new directory. The packages of one in JavaScript are a link to where runs read them.
pub fn copy_fixture(fixture: &str, to: &Path) {
    copy(&sources().join("fixtures").join(fixture), to);
    if OF_NODE.iter().any(|framework| fixture.split('/').next() == Some(framework)) {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::installed("node-packages"));
        symlink(process::tools().join("node/lib/node_modules"), to.join("node_modules")).unwrap();
    }
    if fixture.starts_with("cypress/") {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::installed("node-packages"));
        let (packages, own) = (process::tools().join("node/lib/node_modules"), to.join("node_modules"));
        fs::create_dir_all(own.join(".bin")).unwrap();
        fs::copy(sources().join("tests/stand-ins/cypress.cjs"), own.join(".bin/cypress")).unwrap();
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
        INSTALLED.call_once(|| process::installed("maven"));
    }
    if fixture.starts_with("gradle/") {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| process::installed("gradle"));
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
pub struct Place {
    dir: TempDir,
    /// The workspace.
    pub workspace: PathBuf,
}

impl Place {
    /// A place with a copy of `fixture` as its workspace.
    #[must_use]
    pub fn with(fixture: &str) -> Place {
        let place = Place::empty();
        copy_fixture(fixture, &place.workspace);
        place
    }

    /// A place whose workspace is empty.
    #[must_use]
    pub fn empty() -> Place {
        warm();
        Place::cold()
    }

    fn cold() -> Place {
        let dir = tempfile::Builder::new().prefix("proctor-test-").tempdir().unwrap();
        for name in ["workspace", "tmp", "state", "home"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let workspace = dir.path().join("workspace").canonicalize().unwrap();
        Place { dir, workspace }
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

    /// A program of ours as a user of this place starts it.
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
    pub fn proctor(&self, arguments: &[&str]) -> Said {
        end_of(self.command("proctor").args(arguments).spawn().unwrap())
    }

    /// Writes a file of the workspace.
    pub fn write(&self, file: &str, content: &str) {
        let path = self.workspace.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn shared() -> PathBuf {
    let build = program("proctor");
    build.parent().unwrap().parent().unwrap().join("test-cache")
}

/// Value of XDG_CACHE_HOME for the programs under test: below the build directory, the same for all tests.
#[must_use]
pub fn cache_home() -> PathBuf {
    shared().join("user")
}

/// The cache directory there of whoever runs the tests.
fn own_cache() -> PathBuf {
    cache_home().join("proctor/own")
}

/// The caches there called so, one for each workspace that has one.
#[must_use]
pub fn caches_named(is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let below = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    below(own_cache()).flat_map(below).filter(|path| is_meant(&name(path))).collect()
}

/// A cache of Go's for what runs without proctor.
#[must_use]
pub fn go_build() -> PathBuf {
    shared().join("go-build")
}

/// A state directory for one supervisor at a time. It keeps the build caches of tenants for those that come later.
pub struct State {
    dir: PathBuf,
    // Free for others when it is closed.
    _held: fs::File,
}

impl State {
    /// The first one that nobody has, with what is compiled for all in its caches.
    #[must_use]
    pub fn take() -> State {
        warm();
        let states = shared().join("states");
        fs::create_dir_all(&states).unwrap();
        let free = |number: u32| {
            let held = fs::File::create(states.join(format!("{number}.lock"))).unwrap();
            held.try_lock().is_ok().then(|| State { dir: states.join(number.to_string()), _held: held })
        };
        let state = (0..).find_map(free).unwrap();
        let (warm, go) = (state.dir.join("library.version"), version_of_go());
        if fs::read_to_string(&warm).is_ok_and(|known| known == go) {
            return state;
        }
        for tenant in TENANTS {
            let cache = state.dir.join("tenants").join(tenant).join("cache");
            _ = fs::remove_dir_all(&cache);
            copy_library(&compiled(), &cache);
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
fn compiled() -> PathBuf {
    shared().join("library")
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
fn warm() {
    static WARM: OnceLock<()> = OnceLock::new();
    WARM.get_or_init(|| {
        let shared = shared();
        fs::create_dir_all(&shared).unwrap();
        let lock = fs::File::create(shared.join("lock")).unwrap();
        lock.lock().unwrap();
        let (warm, go) = (shared.join("library.version"), version_of_go());
        if fs::read_to_string(&warm).is_ok_and(|known| known == go) {
            return;
        }
        let place = Place::cold();
        copy_fixture("go/pass", &place.workspace);
        let said = end_of(place.command("proctor").args(["run", "--output", "json"]).spawn().unwrap());
        assert_eq!(said.status, 0, "{said:?}");
        _ = fs::remove_dir_all(compiled());
        for entry in fs::read_dir(own_cache()).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("go-library-") {
                copy_library(&entry.path(), &compiled().join(name));
            }
        }
        fs::write(warm, go).unwrap();
    });
}

/// Files beside which a project's own commands write, and where: there and nowhere else.
const BUILT: [(&str, &str); 4] =
    [("pom.xml", "target"), ("build.gradle", "build"), ("build.gradle", ".gradle"), (".proctor.yaml", "out")];

/// What is in a workspace beside what its own commands write.
fn sources_of(workspace: &Path) -> Tree {
    let mut all = tree(workspace);
    let beside = |path: &PathBuf| {
        let marks = BUILT.iter().filter(|(mark, _)| path.ends_with(mark));
        marks.map(|(_, built)| path.with_file_name(built)).collect::<Vec<_>>()
    };
    let built: Vec<PathBuf> = all.keys().flat_map(beside).collect();
    all.retain(|path, _| !built.iter().any(|target| path.starts_with(target)));
    all
}

/// What a test asserts about what is left: taken before, compared after.
pub struct Before {
    workspace: Tree,
}

impl Before {
    /// How things are now.
    #[must_use]
    pub fn of(place: &Place) -> Before {
        Before { workspace: sources_of(&place.workspace) }
    }

    /// Waits until nothing of what `pid` did in `place` is alive, and fails when it has left anything.
    pub fn assert_nothing_is_left(&self, place: &Place, pid: u32) {
        let mark = place.root().to_str().unwrap();
        process::eventually("no process of the run is alive", || {
            process::processes_of(mark).is_empty() && process::processes_of(&format!("proctor-{pid}-")).is_empty()
        });
        assert_eq!(process::cgroups_of(pid), [""; 0].map(PathBuf::from), "cgroups are left");
        self.assert_files(place);
        process::eventually("no mount is left", || process::mounts_of(mark).is_empty());
    }

    /// Fails when the workspace or the temporary files have changed.
    pub fn assert_files(&self, place: &Place) {
        assert_eq!(tree(&place.tmp()).keys().collect::<Vec<_>>(), [""; 0].map(Path::new).each_ref(), "temporary files");
        let (now, before) = (sources_of(&place.workspace), &self.workspace);
        assert!(now == *before, "the workspace has changed: {:?} to {:?}", before.keys(), now.keys());
    }
}

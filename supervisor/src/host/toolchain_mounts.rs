//! Computes the directories that a run must see for the host's toolchains to work, from PATH and the targets of its
//! links. Exposes installations, never the home around them.

use crate::host::read_access::ReadAccess;
use proctor_core::bounds::TOOLCHAIN_MOUNTS_MAX;
use proctor_frameworks::TOOLCHAINS;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Most links followed in one directory: `/usr/bin` of a full distribution has a thousand.
const LINKS_MAX: usize = 4_096;

/// Most links followed in a row; the kernel's own bound.
const HOPS_MAX: usize = 40;

/// Directories that the sandbox provides itself.
const SYSTEM: [&str; 12] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc", "/proc", "/sys", "/dev"];

/// Names of program directories whose parent is the installation.
const PROGRAM_DIRS: [&str; 3] = ["bin", "sbin", "shims"];

/// Directories of a home that hold only what version managers for several languages installed. Those of one language are in
/// its [`Toolchain`](proctor_frameworks::Toolchain).
const VERSION_MANAGERS: [&str; 3] = [".asdf", ".local/share/mise/installs", ".local/share/mise/shims"];

/// Libraries of programs in `~/.local/bin`, in any language.
const LOCAL_LIBRARIES: &str = ".local/lib";

/// Each of these marks its directory as a home, whatever its name.
const HOME_MARKERS: [&str; 17] = [
    ".aws",
    ".bash_history",
    ".bashrc",
    ".config",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".profile",
    ".pypirc",
    ".ssh",
    "auth.json",
    "credentials",
    "credentials.json",
    "credentials.toml",
];

/// Decides which directories may be mounted.
#[derive(Debug, Clone, Default)]
pub struct MountPolicy {
    /// The home of the user that started proctor. `/root` and directories in `/home` count as homes too.
    pub home: Option<PathBuf>,
    /// Directories of which only the programs are mounted: Cargo's home, Go's workspace.
    pub only_programs: Vec<PathBuf>,
    /// Paths that no mount may contain or be in: tenants' roots, the supervisor's state.
    pub private: Vec<PathBuf>,
}

/// Paths in the order in which they were found, none inside another.
#[derive(Debug, Default)]
pub struct MountSet {
    paths: Vec<PathBuf>,
    omitted: usize,
}

impl MountSet {
    /// Adds an existing path, unless it is covered already.
    pub fn add(&mut self, path: PathBuf) {
        if is_system(&path) || self.covers(&path) || !path.exists() {
            return;
        }
        self.paths.retain(|mount| !mount.starts_with(&path));
        if self.paths.len() < TOOLCHAIN_MOUNTS_MAX {
            self.paths.push(path);
        } else {
            self.omitted += 1;
        }
    }

    fn covers(&self, path: &Path) -> bool {
        self.paths.iter().any(|mount| path.starts_with(mount))
    }

    /// The collected paths. Logs how many were left out.
    #[must_use]
    pub fn into_paths(self) -> Vec<PathBuf> {
        if self.omitted > 0 {
            tracing::warn!(
                omitted = self.omitted,
                "PATH leads to more than {TOOLCHAIN_MOUNTS_MAX} directories: runs see only the first"
            );
        }
        self.paths
    }
}

/// Whether `path` is provided or withheld by the sandbox itself.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

impl MountPolicy {
    /// Whether `path` may be mounted: it is not, and does not contain, a home or a private path.
    #[must_use]
    pub fn may_mount(&self, path: &Path) -> bool {
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let homes = self.home.iter().map(PathBuf::as_path).chain([Path::new("/root"), Path::new("/home")]);
        let holds =
            homes.chain(self.private.iter().map(PathBuf::as_path)).any(|private_path| private_path.starts_with(path));
        let is_home = path.parent() == Some(Path::new("/home"));
        path.is_absolute() && plain && !holds && !is_home && !HOME_MARKERS.iter().any(|name| path.join(name).exists())
    }

    /// Adds what the programs in a PATH directory need.
    pub fn add_directory(&self, dir: &Path, mounts: &mut MountSet) {
        let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        for dir in BTreeSet::from([dir, real.as_path()]) {
            let mountable = || self.home_of(dir).is_none() || is_program_dir(dir) || holds_only_programs(dir);
            match self.installation(dir) {
                Some(installation) => mounts.add(installation),
                None if self.may_mount(dir) && mountable() => mounts.add(dir.to_owned()),
                None => {}
            }
            if let Some(home) = self.home_of(dir).filter(|home| dir == home.join(".local/bin")) {
                let libraries = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.local_bin_libraries);
                let libraries = [&LOCAL_LIBRARIES].into_iter().chain(libraries);
                libraries.for_each(|part| mounts.add(home.join(part)));
            }
        }
        let links = fs::read_dir(&real).into_iter().flatten().flatten();
        let links = links.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        let mut links: Vec<PathBuf> = links.take(LINKS_MAX).map(|entry| entry.path()).collect();
        // Directory order depends on the file system; the result must be the same every time.
        links.sort_unstable();
        for link in links {
            link_targets(&link).iter().for_each(|target| self.add_program(target, mounts));
        }
    }

    fn add_program(&self, program: &Path, mounts: &mut MountSet) {
        if is_system(program) || mounts.covers(program) {
            return;
        }
        match program.parent().and_then(|dir| self.installation(dir)) {
            Some(installation) => mounts.add(installation),
            None if is_program(program) && self.may_mount(program) => mounts.add(program.to_owned()),
            None => {}
        }
    }

    /// Adds what the interpreter of an environment in the workspace needs. The workspace's owner made the link, so it adds only
    /// installations of the language that `reader` could read anyway.
    pub fn add_interpreter(&self, workspace: &Path, reader: ReadAccess, mounts: &mut MountSet) {
        let environments = TOOLCHAINS.iter().filter_map(|toolchain| toolchain.environments);
        let links = environments.flat_map(|found| found.interpreters.iter().map(move |link| (found, link)));
        for (environments, link) in links {
            for target in link_targets(&workspace.join(link)) {
                if is_system(&target) || mounts.covers(&target) || target.starts_with(workspace) {
                    continue;
                }
                // The user cannot read this link, so its target must not be exposed either.
                if !target.parent().is_some_and(|dir| reader.may_list(dir)) {
                    break;
                }
                let installation = target.parent().and_then(|dir| self.installation(dir));
                let in_own_home = |found: &PathBuf| self.home.as_ref().is_some_and(|home| found.starts_with(home));
                let is_language = |found: &PathBuf| {
                    has_marker(found, environments.installation_marker)
                        && !has_marker(found, environments.environment_marker)
                };
                let is_private =
                    |found: &PathBuf| self.private.iter().any(|private_path| found.starts_with(private_path));
                let readable = installation.filter(|found| {
                    let is_known = self.home_of(found).is_some_and(|home| known_installation(home, found).is_some());
                    let common = self.home_of(found).is_none() && is_language(found);
                    !is_private(found) && ((is_known && in_own_home(found)) || common) && reader.may_list(found)
                });
                readable.into_iter().for_each(|installation| mounts.add(installation));
            }
        }
    }

    // The installation that `dir` is a part of.
    fn installation(&self, dir: &Path) -> Option<PathBuf> {
        let home = self.home_of(dir);
        if let Some(found) = home.and_then(|home| known_installation(home, dir)) {
            return self.may_mount(&found).then_some(found);
        }
        let parent = dir.parent().filter(|_| is_program_dir(dir))?;
        let is_installation_root = match home {
            Some(home) => parent != home.join(".local") && is_installation(parent),
            // `/opt/bin` is no part of an installation: other entries of /opt are unrelated.
            None => parent.components().count() > 2,
        };
        let only_programs = self.only_programs.iter().any(|other| other == parent);
        (is_installation_root && !only_programs && self.may_mount(parent)).then(|| parent.to_owned())
    }

    // The home that contains `path`.
    fn home_of<'a>(&'a self, path: &'a Path) -> Option<&'a Path> {
        let below_home = || path.ancestors().find(|above| above.parent() == Some(Path::new("/home")));
        let known = [self.home.as_deref(), Some(Path::new("/root"))];
        known.into_iter().flatten().find(|home| path.starts_with(home)).or_else(below_home)
    }
}

fn known_installation(home: &Path, path: &Path) -> Option<PathBuf> {
    let of_toolchains = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.home_dirs);
    let names = VERSION_MANAGERS.iter().chain(of_toolchains);
    names.map(|name| home.join(name)).find(|found| path.starts_with(found))
}

fn is_installation(dir: &Path) -> bool {
    let mut markers = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.installation_markers);
    markers.any(|marker| has_marker(dir, marker))
}

fn is_program_dir(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| PROGRAM_DIRS.iter().any(|other| name == *other))
}

/// Whether `path` is an executable file, also through a link.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

// A directory of scripts, whatever its name.
fn holds_only_programs(dir: &Path) -> bool {
    fs::read_dir(dir).into_iter().flatten().flatten().all(|entry| is_program(&entry.path()))
}

/// Whether `dir` has the path `marker`, the last part of which may end in `*`.
fn has_marker(dir: &Path, marker: &str) -> bool {
    let Some(start) = marker.strip_suffix('*') else { return dir.join(marker).exists() };
    let (parent, start) = start.rsplit_once('/').unwrap_or(("", start));
    let mut names = fs::read_dir(dir.join(parent)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with(start))
}

// The targets of a chain of links, each as named and with resolved parents.
fn link_targets(link: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut current = link.to_owned();
    for _ in 0..HOPS_MAX {
        let (Ok(target), Some(dir)) = (fs::read_link(&current), current.parent()) else { break };
        let named = dir.join(target);
        let (Some(dir), Some(name)) = (named.parent(), named.file_name()) else { break };
        let Ok(real) = dir.canonicalize() else { break };
        current = real.join(name);
        if !named.components().any(|part| part == Component::ParentDir) {
            found.push(named);
        }
        found.push(current.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct TestHost {
        dir: tempfile::TempDir,
    }

    impl TestHost {
        /// A host with these programs; `a -> b` is a link, and a name with a trailing `=` is not executable.
        fn with(files: &[&str]) -> TestHost {
            let host = TestHost { dir: tempfile::tempdir().unwrap() };
            for file in files {
                let (file, target) = file.split_once(" -> ").map_or((*file, None), |(link, to)| (link, Some(to)));
                let path = host.at(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                match target {
                    Some(target) if target.starts_with("./") => symlink(target, path).unwrap(),
                    Some(target) => symlink(host.at(target), path).unwrap(),
                    None => {
                        let mode = if file.ends_with('=') { 0o600 } else { 0o755 };
                        let path = path.to_str().unwrap().trim_end_matches('=');
                        fs::write(path, "").unwrap();
                        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
                    }
                }
            }
            host
        }

        fn at(&self, path: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join(path)
        }

        fn policy(&self) -> MountPolicy {
            MountPolicy {
                home: Some(self.at("home/me")),
                only_programs: vec![self.at("home/me/.cargo"), self.at("home/me/go"), self.at("srv/cargo")],
                private: vec![self.at("srv/tenants"), self.at("var/proctor")],
            }
        }

        fn mounts(&self, path: &[&str]) -> Vec<PathBuf> {
            let mut mounts = MountSet::default();
            path.iter().for_each(|dir| self.policy().add_directory(&self.at(dir), &mut mounts));
            mounts.into_paths()
        }

        fn mounts_for_workspace(&self, workspace: &str, reader: ReadAccess) -> Vec<PathBuf> {
            let mut mounts = MountSet::default();
            self.policy().add_interpreter(&self.at(workspace), reader, &mut mounts);
            mounts.into_paths()
        }

        fn assert(&self, path: &[&str], expected: &[&str]) {
            let expected: Vec<PathBuf> = expected.iter().map(|path| self.at(path)).collect();
            assert_eq!(self.mounts(path), expected, "{path:?}");
        }
    }

    #[test]
    fn mounts_an_installation_without_its_surroundings() {
        let host = TestHost::with(&[
            "opt/go/bin/go",
            "opt/go/pkg/tool/x",
            "opt/bin/tool",
            "opt/secret/key",
            "home/me/work/bin/run",
            "home/me/work/.env",
            "home/me/bin/own",
            "home/me/scripts/deploy",
            "home/me/notes/run",
            "home/me/notes/passwords=",
            "home/me/sdk/go1.22/bin/go",
            "home/me/sdk/go1.22/pkg/tool/x",
            "home/me/shop/.venv/bin/python",
            "home/me/shop/.venv/pyvenv.cfg",
            "srv/cargo/bin/cargo",
            "srv/cargo/registry/x",
            "srv/jenkins/bin/x",
            "srv/jenkins/.ssh/id",
            "srv/bin/x",
        ]);
        host.assert(&["opt/go/bin"], &["opt/go"]);
        host.assert(&["home/me/work/bin"], &["home/me/work/bin"]);
        host.assert(&["home/me/bin"], &["home/me/bin"]);
        host.assert(&["home/me/scripts", "home/me/notes"], &["home/me/scripts"]);
        host.assert(&["home/me/sdk/go1.22/bin"], &["home/me/sdk/go1.22"]);
        host.assert(&["home/me/shop/.venv/bin"], &["home/me/shop/.venv"]);
        host.assert(&["srv/cargo/bin"], &["srv/cargo/bin"]);
        host.assert(&["srv/jenkins/bin"], &["srv/jenkins/bin"]);
        // A directory beside a tenant's root exposes only its programs.
        host.assert(&["srv/bin"], &["srv/bin"]);
        // Neither a home, nor a directory that contains one, nor a missing directory.
        host.assert(&["home/me", "home", "", "no/such/bin"], &[]);
        assert_eq!(host.policy().installation(Path::new("/opt/bin")), None);
        assert_eq!(host.policy().installation(Path::new("/opt/go/bin")), Some("/opt/go".into()));
        assert_eq!(host.policy().installation(Path::new("/root/bin")), None);
        assert!(!host.policy().may_mount(Path::new("/home/somebody")));
        assert!(!host.policy().may_mount(Path::new("/opt/../root")));
    }

    #[test]
    fn system_directories_need_no_mount() {
        let host = TestHost::with(&[]);
        let mut mounts = MountSet::default();
        for dir in ["/bin", "/sbin", "/usr/games", "/etc/alternatives"] {
            if !Path::new(dir).exists() {
                continue;
            }
            let links = mounts.paths.len();
            host.policy().add_directory(Path::new(dir), &mut mounts);
            let added = &mounts.paths[links..];
            assert!(!added.iter().any(|path| is_system(path)), "{dir}: {added:?}");
        }
    }

    #[test]
    fn follows_links_to_installations() {
        let host = TestHost::with(&[
            "opt/jdk-21/bin/java",
            "opt/jdk -> opt/jdk-21",
            "alternatives/java -> opt/jdk/bin/java",
            "local/bin/java -> alternatives/java",
            "home/me/.local/bin/black -> home/me/.local/share/pipx/venvs/black/bin/black",
            "home/me/.local/share/pipx/venvs/black/bin/black",
            "home/me/.local/bin/mine -> home/me/src/mine/target/debug/mine",
            "home/me/src/mine/target/debug/mine",
            "home/me/src/mine/target/debug/.env",
            "home/me/.local/bin/key -> home/me/.ssh/id",
            "home/me/.local/bin/gone -> nowhere/at/all",
            "home/me/.local/bin/circle -> home/me/.local/bin/circle",
        ]);
        host.assert(&["local/bin"], &["local", "alternatives/java", "opt/jdk", "opt/jdk-21"]);
        host.assert(
            &["home/me/.local/bin"],
            &["home/me/.local/bin", "home/me/.local/share/pipx/venvs", "home/me/src/mine/target/debug/mine"],
        );
    }

    #[test]
    fn finds_toolchains_in_a_home() {
        let host = TestHost::with(&[
            "home/me/.sdkman/candidates/java/21-tem/bin/java",
            "home/me/.sdkman/candidates/java/current -> ./21-tem",
            "home/me/.nvm/versions/node/v22.1.0/bin/node",
            "home/me/.nvm/nvm.sh",
            "home/me/.pyenv/shims/python3",
            "home/me/.pyenv/bin/pyenv",
            "home/me/.volta/bin/node",
            "home/me/.local/share/mise/shims/go",
            "home/me/.local/share/mise/installs/go/1/bin/go",
            "home/me/.cargo/bin/cargo",
            "home/me/go/bin/gotestsum",
            "home/me/go/pkg/mod/x",
        ]);
        host.assert(&["home/me/.sdkman/candidates/java/current/bin"], &["home/me/.sdkman/candidates"]);
        host.assert(&["home/me/.nvm/versions/node/v22.1.0/bin"], &["home/me/.nvm/versions"]);
        host.assert(&["home/me/.pyenv/shims", "home/me/.pyenv/bin"], &["home/me/.pyenv"]);
        host.assert(&["home/me/.cargo/bin", "home/me/go/bin"], &["home/me/.cargo/bin", "home/me/go/bin"]);
        host.assert(&["home/me/.volta/bin"], &["home/me/.volta"]);
    }

    /// Files of a developer's home beside the toolchains: none may be below a mounted path.
    #[test]
    fn never_mounts_credentials() {
        const SECRET: [&str; 22] = [
            ".aws/credentials",
            ".bash_history",
            ".cargo/config.toml",
            ".cargo/credentials.toml",
            ".config/gh/hosts.yml",
            ".config/pip/pip.conf",
            ".deno/credentials.json",
            ".docker/config.json",
            ".fly/config.yml",
            ".gem/credentials",
            ".git-credentials",
            ".gnupg/secring.gpg",
            ".kube/config",
            ".local/share/keyrings/login.keyring",
            ".local/share/uv/credentials/credentials.toml",
            ".local/state/proctor/memory.json",
            ".m2/settings.xml",
            ".netrc",
            ".npmrc",
            ".python_history",
            ".ssh/id_ed25519",
            "go/src/private/token",
        ];
        const PROGRAMS: [&str; 22] = [
            "bin/mine",
            ".asdf/shims/ruby",
            ".bun/bin/bun",
            ".cargo/bin/cargo",
            ".config/composer/vendor/bin/phpunit",
            ".deno/bin/deno",
            ".docker/bin/docker",
            ".fly/bin/fly",
            ".gem/bin/rake",
            ".local/bin/uv",
            ".local/share/mise/shims/node",
            ".local/share/pnpm/pnpm",
            ".local/share/uv/python/cpython-3.13/bin/python3",
            ".nvm/versions/node/v22/bin/node",
            ".pyenv/shims/python",
            ".rustup/toolchains/stable/bin/rustc",
            ".sdkman/candidates/maven/current/bin/mvn",
            ".ssh/bin/odd",
            "go/bin/gopls",
            "sdk/go1.22/bin/go",
            "sdk/go1.22/pkg/tool/x",
            "miniconda3/bin/conda",
        ];
        let links = ["home/me/.local/bin/a -> home/me/.ssh/id_ed25519", "home/me/bin/b -> home/me/.npmrc"];
        let secrets = SECRET.iter().map(|name| format!("home/me/{name}="));
        let programs = PROGRAMS.iter().map(|name| format!("home/me/{name}"));
        let files: Vec<String> = secrets.chain(programs).chain(links.map(str::to_owned)).collect();
        let host = TestHost::with(&files.iter().map(String::as_str).collect::<Vec<_>>());
        // A careless PATH: every directory with a program, the home, and the roots of tools.
        let dirs = PROGRAMS.iter().map(|program| Path::new(program).parent().unwrap().to_str().unwrap().to_owned());
        let careless =
            ["", ".cargo", ".local", ".local/share", ".config", ".ssh", ".aws", ".docker", "go"].map(str::to_owned);
        let path: Vec<String> = dirs.chain(careless).map(|dir| format!("home/me/{dir}")).collect();
        let mounts = host.mounts(&path.iter().map(String::as_str).collect::<Vec<_>>());
        for program in PROGRAMS.iter().filter(|program| !program.starts_with(".ssh")) {
            let program = host.at(&format!("home/me/{program}"));
            assert!(mounts.iter().any(|path| program.starts_with(path)), "{} in {mounts:?}", program.display());
        }
        for secret in SECRET {
            let secret = host.at(&format!("home/me/{secret}"));
            assert!(!mounts.iter().any(|path| secret.starts_with(path)), "{} in {mounts:?}", secret.display());
        }
    }

    #[test]
    fn a_virtual_environment_mounts_its_interpreter_only() {
        let host = TestHost::with(&[
            "ws/.venv/bin/python -> home/me/.pyenv/versions/3.12/bin/python3",
            "home/me/.pyenv/versions/3.12/bin/python3",
            "own/.venv/bin/python -> ./python3",
            "own/.venv/bin/python3 -> opt/python/bin/python3",
            "opt/python/bin/python3",
            "opt/python/lib/python3.13/os.py",
            "bad/.venv/bin/python -> srv/tenants/other/bin/python",
            "srv/tenants/other/bin/python",
            "srv/tenants/other/lib/python3.13/os.py",
            "bad/venv/bin/python -> opt/app/bin/server",
            "opt/app/bin/server",
            "worse/.venv/bin/python -> home/me/shop/.venv/bin/python",
            "home/me/shop/.venv/bin/python",
            "home/me/shop/.venv/pyvenv.cfg",
        ]);
        let mounts = |workspace: &str| host.mounts_for_workspace(workspace, ReadAccess::Supervisor);
        assert_eq!(mounts("ws"), [host.at("home/me/.pyenv")]);
        assert_eq!(mounts("own"), [host.at("opt/python")]);
        assert_eq!(mounts("bad"), [""; 0].map(PathBuf::from));
        assert_eq!(mounts("worse"), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn a_virtual_environment_mounts_nothing_that_its_user_cannot_read() {
        let host = TestHost::with(&[
            "ws/.venv/bin/python -> srv/private/conda/bin/python",
            "srv/private/conda/bin/python",
            "srv/private/conda/lib/python3.13/os.py",
            "ws/venv/bin/python -> srv/private/link",
            "srv/private/link -> opt/python/bin/python3",
            "opt/python/bin/python3",
            "opt/python/lib/python3.13/os.py",
            "own/.venv/bin/python -> opt/python/bin/python3",
            "pyenv/.venv/bin/python -> home/me/.pyenv/versions/3.12/bin/python3",
            "home/me/.pyenv/versions/3.12/bin/python3",
        ]);
        let close = |path: &str| fs::set_permissions(host.at(path), fs::Permissions::from_mode(0o700)).unwrap();
        close("srv/private");
        close("home/me");
        fs::set_permissions(host.at(""), fs::Permissions::from_mode(0o755)).unwrap();
        let tenant = ReadAccess::User { uid: 40_001, gid: 40_001 };
        let nothing: [PathBuf; 0] = [];
        assert_eq!(host.mounts_for_workspace("ws", tenant), nothing);
        assert_eq!(host.mounts_for_workspace("pyenv", tenant), nothing);
        assert_eq!(host.mounts_for_workspace("own", tenant), [host.at("opt/python")]);
        // A user's private supervisor reads with that user's own rights.
        let both = [host.at("srv/private/conda"), host.at("opt/python")];
        assert_eq!(host.mounts_for_workspace("ws", ReadAccess::Supervisor), both);
        // The operator's own PATH does not depend on the tenant's rights.
        let mut mounts = MountSet::default();
        host.policy().add_directory(&host.at("home/me/.pyenv/versions/3.12/bin"), &mut mounts);
        host.policy().add_interpreter(&host.at("pyenv"), tenant, &mut mounts);
        assert_eq!(mounts.into_paths(), [host.at("home/me/.pyenv")]);
    }

    #[test]
    fn the_number_of_mounts_is_bounded() {
        let dirs: Vec<String> = (0..TOOLCHAIN_MOUNTS_MAX + 9).map(|number| format!("opt/tool{number}/bin")).collect();
        let files: Vec<String> = dirs.iter().map(|dir| format!("{dir}/x")).collect();
        let host = TestHost::with(&files.iter().map(String::as_str).collect::<Vec<_>>());
        let mounts = host.mounts(&dirs.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((mounts.len(), &mounts[0]), (TOOLCHAIN_MOUNTS_MAX, &host.at("opt/tool0")));
    }
}

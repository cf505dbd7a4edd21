//! Which directories a run must see, beside the system's own, for the toolchains of this host to work: computed from PATH
//! and from where its links lead. Shows an installation, never the home around it. Must not know how anything is shown,
//! nor what is run.

use crate::host::read_access::Reader;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Most paths shown. Each is a mount of every run.
pub const SHOWN_MAX: usize = 64;

/// Most links of one directory that are followed: `/usr/bin` of a full distribution has a thousand.
const LINKS_MAX: usize = 4_096;

/// Most links followed one after the other; the kernel's own bound.
const HOPS_MAX: usize = 40;

/// What a run sees anyway, or what is the sandbox's to choose from.
const SYSTEM: [&str; 12] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc", "/proc", "/sys", "/dev"];

/// Names of directories whose parent is the installation that they are a part of.
const OF_PROGRAMS: [&str; 3] = ["bin", "sbin", "shims"];

/// Directories of a home that hold installed toolchains and nothing else: no settings, no credentials, no history.
const INSTALLATIONS: [&str; 19] = [
    ".asdf",
    ".fnm",
    ".jdks",
    ".local/pipx/venvs",
    ".local/share/fnm",
    ".local/share/mise/installs",
    ".local/share/mise/shims",
    ".local/share/pipx/venvs",
    ".local/share/pnpm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".nodenv",
    ".nvm/versions",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman/candidates",
    ".volta",
    "miniconda3",
];

/// Where programs in `~/.local/bin` have what they are made of.
const OF_LOCAL_BIN: [&str; 6] = [
    ".local/lib",
    ".local/pipx/venvs",
    ".local/share/pipx/venvs",
    ".local/share/pnpm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
];

/// One of these below a directory says that it is an installation: a Python environment, conda, Go, a JDK, Node, Ruby.
const SIGNS: [&str; 8] =
    ["pyvenv.cfg", "conda-meta", "pkg/tool", "lib/modules", "jre/lib", "lib/node_modules", "include/node", "lib/ruby"];

/// One of these in a directory says that somebody lives there, whatever it is called.
const SECRETS: [&str; 17] = [
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

/// Where a workspace has the interpreter of its Python environment.
pub(crate) const ENVIRONMENTS: [&str; 2] = [".venv/bin/python", "venv/bin/python"];

/// What decides which directories are an installation's own.
#[derive(Debug, Clone, Default)]
pub struct MountPolicy {
    /// The home of whoever started proctor. Root's, and those below `/home`, are homes too.
    pub home: Option<PathBuf>,
    /// Directories of which only the programs are shown: Cargo's home, Go's workspace.
    pub only_programs: Vec<PathBuf>,
    /// Places that nothing shown may hold: tenants' roots, the supervisor's state.
    pub private: Vec<PathBuf>,
}

/// Paths in the order in which they were found, none below another.
#[derive(Debug, Default)]
pub struct MountSet {
    paths: Vec<PathBuf>,
    left_out: usize,
}

impl MountSet {
    /// Adds a path that is there, unless it is seen anyway.
    pub fn add(&mut self, path: PathBuf) {
        if is_system(&path) || self.covers(&path) || !path.exists() {
            return;
        }
        self.paths.retain(|shown| !shown.starts_with(&path));
        if self.paths.len() < SHOWN_MAX {
            self.paths.push(path);
        } else {
            self.left_out += 1;
        }
    }

    fn covers(&self, path: &Path) -> bool {
        self.paths.iter().any(|shown| path.starts_with(shown))
    }

    /// The paths.
    #[must_use]
    pub fn into_paths(self) -> Vec<PathBuf> {
        if self.left_out > 0 {
            tracing::warn!(left_out = self.left_out, "PATH leads to more than {SHOWN_MAX} places: runs see the first");
        }
        self.paths
    }
}

/// Whether runs see `path` without being shown it, or must not be shown it.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

impl MountPolicy {
    /// Whether `path` may be shown at all: it holds no home and nothing private.
    #[must_use]
    pub fn may_show(&self, path: &Path) -> bool {
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let homes = self.home.iter().map(PathBuf::as_path).chain([Path::new("/root"), Path::new("/home")]);
        let holds = homes.chain(self.private.iter().map(PathBuf::as_path)).any(|place| place.starts_with(path));
        let is_home = path.parent() == Some(Path::new("/home"));
        path.is_absolute() && plain && !holds && !is_home && !SECRETS.iter().any(|name| path.join(name).exists())
    }

    /// Adds what the programs of a directory on PATH need.
    pub fn add_directory(&self, dir: &Path, shown: &mut MountSet) {
        let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        for dir in BTreeSet::from([dir, real.as_path()]) {
            let of_programs = || self.home_of(dir).is_none() || is_of_programs(dir) || holds_only_programs(dir);
            match self.installation(dir) {
                Some(installation) => shown.add(installation),
                None if self.may_show(dir) && of_programs() => shown.add(dir.to_owned()),
                None => {}
            }
            if let Some(home) = self.home_of(dir).filter(|home| dir == home.join(".local/bin")) {
                OF_LOCAL_BIN.iter().for_each(|part| shown.add(home.join(part)));
            }
        }
        let links = fs::read_dir(&real).into_iter().flatten().flatten();
        let links = links.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        let mut links: Vec<PathBuf> = links.take(LINKS_MAX).map(|entry| entry.path()).collect();
        // The order of a directory is the file system's; what is shown must be the same every time.
        links.sort_unstable();
        for link in links {
            hops(&link).iter().for_each(|target| self.add_program(target, shown));
        }
    }

    fn add_program(&self, program: &Path, shown: &mut MountSet) {
        if is_system(program) || shown.covers(program) {
            return;
        }
        match program.parent().and_then(|dir| self.installation(dir)) {
            Some(installation) => shown.add(installation),
            None if is_program(program) && self.may_show(program) => shown.add(program.to_owned()),
            None => {}
        }
    }

    /// What the interpreter of a Python environment in a workspace needs. The workspace's owner has made the link, so it shows
    /// only Python installations that `reader` could read anyway, beside what PATH shows already.
    pub fn add_interpreter(&self, workspace: &Path, reader: Reader, shown: &mut MountSet) {
        for link in ENVIRONMENTS {
            for target in hops(&workspace.join(link)) {
                if is_system(&target) || shown.covers(&target) || target.starts_with(workspace) {
                    continue;
                }
                // What a link that the user cannot read leads to is none of its business either.
                if !target.parent().is_some_and(|dir| reader.may_list(dir)) {
                    break;
                }
                let installation = target.parent().and_then(|dir| self.installation(dir));
                let is_ours = |found: &PathBuf| self.home.as_ref().is_some_and(|home| found.starts_with(home));
                let is_python = |found: &PathBuf| has_python(found) && !found.join("pyvenv.cfg").exists();
                let is_private = |found: &PathBuf| self.private.iter().any(|place| found.starts_with(place));
                let own = installation.filter(|found| {
                    let known = self.home_of(found).is_some_and(|home| in_installations(home, found).is_some());
                    let common = self.home_of(found).is_none() && is_python(found);
                    !is_private(found) && ((known && is_ours(found)) || common) && reader.may_list(found)
                });
                own.into_iter().for_each(|installation| shown.add(installation));
            }
        }
    }

    // The installation of which `dir` is a part, if it has one of its own.
    fn installation(&self, dir: &Path) -> Option<PathBuf> {
        let home = self.home_of(dir);
        if let Some(found) = home.and_then(|home| in_installations(home, dir)) {
            return self.may_show(&found).then_some(found);
        }
        let around = dir.parent().filter(|_| is_of_programs(dir))?;
        let own = match home {
            Some(home) => around != home.join(".local") && is_installation(around),
            // `/opt/bin` is a part of nothing: what else is in /opt is somebody else's.
            None => around.components().count() > 2,
        };
        let only_programs = self.only_programs.iter().any(|other| other == around);
        (own && !only_programs && self.may_show(around)).then(|| around.to_owned())
    }

    // The home that `path` is in.
    fn home_of<'a>(&'a self, path: &'a Path) -> Option<&'a Path> {
        let below_home = || path.ancestors().find(|above| above.parent() == Some(Path::new("/home")));
        let known = [self.home.as_deref(), Some(Path::new("/root"))];
        known.into_iter().flatten().find(|home| path.starts_with(home)).or_else(below_home)
    }
}

fn in_installations(home: &Path, path: &Path) -> Option<PathBuf> {
    INSTALLATIONS.iter().map(|name| home.join(name)).find(|found| path.starts_with(found))
}

fn is_installation(dir: &Path) -> bool {
    SIGNS.iter().any(|sign| dir.join(sign).exists()) || has_python(dir)
}

fn is_of_programs(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| OF_PROGRAMS.iter().any(|other| name == *other))
}

/// Whether `path` is a file that somebody may execute, also through a link.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

// A directory of somebody's scripts, whatever it is called.
fn holds_only_programs(dir: &Path) -> bool {
    fs::read_dir(dir).into_iter().flatten().flatten().all(|entry| is_program(&entry.path()))
}

fn has_python(dir: &Path) -> bool {
    let mut names = fs::read_dir(dir.join("lib")).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("python3"))
}

// Everywhere that a link leads, one after the other, each as it is named and without the links on the way there.
fn hops(link: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut here = link.to_owned();
    for _ in 0..HOPS_MAX {
        let (Ok(target), Some(dir)) = (fs::read_link(&here), here.parent()) else { break };
        let named = dir.join(target);
        let (Some(dir), Some(name)) = (named.parent(), named.file_name()) else { break };
        let Ok(real) = dir.canonicalize() else { break };
        here = real.join(name);
        if !named.components().any(|part| part == Component::ParentDir) {
            found.push(named);
        }
        found.push(here.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Host {
        dir: tempfile::TempDir,
    }

    impl Host {
        /// A host whose directories have these programs; a name with an arrow is a link, one with a `=` no program.
        fn with(files: &[&str]) -> Host {
            let host = Host { dir: tempfile::tempdir().unwrap() };
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

        fn rules(&self) -> MountPolicy {
            MountPolicy {
                home: Some(self.at("home/me")),
                only_programs: vec![self.at("home/me/.cargo"), self.at("home/me/go"), self.at("srv/cargo")],
                private: vec![self.at("srv/tenants"), self.at("var/proctor")],
            }
        }

        fn shown(&self, path: &[&str]) -> Vec<PathBuf> {
            let mut shown = MountSet::default();
            path.iter().for_each(|dir| self.rules().add_directory(&self.at(dir), &mut shown));
            shown.into_paths()
        }

        fn shown_beside(&self, workspace: &str, reader: Reader) -> Vec<PathBuf> {
            let mut shown = MountSet::default();
            self.rules().add_interpreter(&self.at(workspace), reader, &mut shown);
            shown.into_paths()
        }

        fn assert(&self, path: &[&str], expected: &[&str]) {
            let expected: Vec<PathBuf> = expected.iter().map(|path| self.at(path)).collect();
            assert_eq!(self.shown(path), expected, "{path:?}");
        }
    }

    #[test]
    fn an_installation_is_shown_and_not_what_is_around_it() {
        let host = Host::with(&[
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
        // What holds a tenant's root shows no more than its programs.
        host.assert(&["srv/bin"], &["srv/bin"]);
        // Neither a home nor what holds one, nor what is not there.
        host.assert(&["home/me", "home", "", "no/such/bin"], &[]);
        assert_eq!(host.rules().installation(Path::new("/opt/bin")), None);
        assert_eq!(host.rules().installation(Path::new("/opt/go/bin")), Some("/opt/go".into()));
        assert_eq!(host.rules().installation(Path::new("/root/bin")), None);
        assert!(!host.rules().may_show(Path::new("/home/somebody")));
        assert!(!host.rules().may_show(Path::new("/opt/../root")));
    }

    #[test]
    fn what_the_system_has_needs_nothing() {
        let host = Host::with(&[]);
        let mut shown = MountSet::default();
        for dir in ["/bin", "/sbin", "/usr/games", "/etc/alternatives"] {
            if !Path::new(dir).exists() {
                continue;
            }
            let links = shown.paths.len();
            host.rules().add_directory(Path::new(dir), &mut shown);
            let added = &shown.paths[links..];
            assert!(!added.iter().any(|path| is_system(path)), "{dir}: {added:?}");
        }
    }

    #[test]
    fn links_are_followed_to_the_installation_at_their_end() {
        let host = Host::with(&[
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
    fn toolchains_of_a_home_are_found() {
        let host = Host::with(&[
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

    /// What a developer's home has beside toolchains: none of it is below anything shown.
    #[test]
    fn credentials_are_never_shown() {
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
        let host = Host::with(&files.iter().map(String::as_str).collect::<Vec<_>>());
        // As a careless PATH could be: every directory with a program, the home, the roots of tools.
        let dirs = PROGRAMS.iter().map(|program| Path::new(program).parent().unwrap().to_str().unwrap().to_owned());
        let careless =
            ["", ".cargo", ".local", ".local/share", ".config", ".ssh", ".aws", ".docker", "go"].map(str::to_owned);
        let path: Vec<String> = dirs.chain(careless).map(|dir| format!("home/me/{dir}")).collect();
        let shown = host.shown(&path.iter().map(String::as_str).collect::<Vec<_>>());
        for program in PROGRAMS.iter().filter(|program| !program.starts_with(".ssh")) {
            let program = host.at(&format!("home/me/{program}"));
            assert!(shown.iter().any(|path| program.starts_with(path)), "{} in {shown:?}", program.display());
        }
        for secret in SECRET {
            let secret = host.at(&format!("home/me/{secret}"));
            assert!(!shown.iter().any(|path| secret.starts_with(path)), "{} in {shown:?}", secret.display());
        }
    }

    #[test]
    fn a_workspaces_environment_shows_its_interpreter_and_nothing_that_its_owner_chose() {
        let host = Host::with(&[
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
        let shown = |workspace: &str| host.shown_beside(workspace, Reader::Supervisor);
        assert_eq!(shown("ws"), [host.at("home/me/.pyenv")]);
        assert_eq!(shown("own"), [host.at("opt/python")]);
        assert_eq!(shown("bad"), [""; 0].map(PathBuf::from));
        assert_eq!(shown("worse"), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn a_workspaces_environment_shows_nothing_that_its_user_could_not_read() {
        let host = Host::with(&[
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
        let tenant = Reader::User { uid: 40_001, gid: 40_001 };
        let nothing: [PathBuf; 0] = [];
        assert_eq!(host.shown_beside("ws", tenant), nothing);
        assert_eq!(host.shown_beside("pyenv", tenant), nothing);
        assert_eq!(host.shown_beside("own", tenant), [host.at("opt/python")]);
        // Whoever runs proctor for itself reads with its own rights.
        let both = [host.at("srv/private/conda"), host.at("opt/python")];
        assert_eq!(host.shown_beside("ws", Reader::Supervisor), both);
        // What the operator's own PATH leads to needs no rights of the tenant's.
        let mut shown = MountSet::default();
        host.rules().add_directory(&host.at("home/me/.pyenv/versions/3.12/bin"), &mut shown);
        host.rules().add_interpreter(&host.at("pyenv"), tenant, &mut shown);
        assert_eq!(shown.into_paths(), [host.at("home/me/.pyenv")]);
    }

    #[test]
    fn there_is_a_bound() {
        let dirs: Vec<String> = (0..SHOWN_MAX + 9).map(|number| format!("opt/tool{number}/bin")).collect();
        let files: Vec<String> = dirs.iter().map(|dir| format!("{dir}/x")).collect();
        let host = Host::with(&files.iter().map(String::as_str).collect::<Vec<_>>());
        let shown = host.shown(&dirs.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((shown.len(), &shown[0]), (SHOWN_MAX, &host.at("opt/tool0")));
    }
}

//! Locates programs on PATH and builds the environment of runs: an allow-list, never the supervisor's own environment.

use crate::caches;
use crate::host::environment::{HOME, home, installations};
use crate::host::read_access::ReadAccess;
use crate::host::resolved_path::ResolvedPath;
use crate::host::toolchain_mounts::{MountPolicy, MountSet, is_program, is_system};
use proctor_core::isolation::Network;
use proctor_frameworks::{DownloadAccess, HostDownloads, HostPath, RunCondition, TOOLCHAINS};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The toolchains that this host offers to runs, read once from the supervisor's environment.
#[derive(Debug, Clone, Default)]
pub struct Toolchain {
    path: Vec<PathBuf>,
    env: BTreeMap<String, String>,
    /// Paths that all runs read.
    read_only: Vec<PathBuf>,
    /// The same paths with their resolved forms.
    resolved_paths: Vec<ResolvedPath>,
    /// Downloads of the host's user that exist, with their directories.
    downloads: Vec<(&'static HostDownloads, PathBuf)>,
    policy: MountPolicy,
    /// Current paths that no read-only path may contain or be in: tenants' roots and the like.
    private: Option<watch::Receiver<Vec<PathBuf>>>,
}

/// The host file's settings about toolchains.
#[derive(Debug, Clone)]
pub struct ToolchainConfig {
    /// Further directories that runs read.
    pub toolchains: Vec<PathBuf>,
    /// Paths that no read-only path may expose. They change as tenants are added and removed.
    pub private: watch::Receiver<Vec<PathBuf>>,
}

impl ToolchainConfig {
    /// For a supervisor without a host file.
    #[must_use]
    pub fn empty() -> ToolchainConfig {
        ToolchainConfig { toolchains: Vec::new(), private: watch::channel(Vec::new()).1 }
    }
}

/// The cache locations of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheDirs {
    /// Variables that name them.
    pub env: BTreeMap<String, String>,
    /// Links to them, as in [`Jail::links`](proctor_sandbox::Jail).
    pub links: Vec<(String, PathBuf)>,
}

/// Variables passed through unchanged, besides those of the toolchains: language and time zone change how tests print and sort.
const PASSED_THROUGH: [&str; 6] = ["LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME"];

impl Toolchain {
    /// Reads PATH and toolchain locations from a process environment and inspects the file system.
    #[must_use]
    pub fn from_env(var: impl Fn(&str) -> Option<OsString>, config: ToolchainConfig) -> Toolchain {
        let text = |name: &str| var(name).and_then(|value| value.into_string().ok()).filter(|text| !text.is_empty());
        let dir = |name: &str| text(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let home = dir("HOME");
        let in_home = |below: &str| home.as_ref().filter(|_| !below.is_empty()).map(|home| home.join(below));
        let locate = |location: &HostPath| match *location {
            HostPath::Variable(name, below) => Some(join(dir(name)?, below)),
            HostPath::ListVariable(name, below) => Some(join(text(name)?.split(':').next()?.into(), below)),
            HostPath::Option(name, prefix) => path_in_options(&text(name)?, prefix),
            HostPath::Home(below) => in_home(below),
        };
        let only_programs =
            TOOLCHAINS.iter().filter_map(|toolchain| toolchain.user_dir.iter().find_map(locate)).collect();
        let located = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.downloads);
        let located = located.filter_map(|downloads| Some((downloads, downloads.locations.iter().find_map(locate)?)));
        let downloads: Vec<(&HostDownloads, PathBuf)> = located.filter(|(_, dir)| dir.is_dir()).collect();
        let policy = MountPolicy { home: home.clone(), only_programs, private: config.private.borrow().clone() };

        let mut mounts = MountSet::default();
        let passed_through = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.passed_through);
        let mut env: BTreeMap<String, String> = (PASSED_THROUGH.iter().chain(passed_through))
            .filter_map(|name| Some(((*name).to_owned(), text(name)?)))
            .collect();
        let path: Vec<PathBuf> = var("PATH").map(|list| std::env::split_paths(&list).collect()).unwrap_or_default();
        path.iter().filter(|dir| dir.is_absolute()).for_each(|dir| policy.add_directory(dir, &mut mounts));
        for (name, below) in installations() {
            let installed = dir(name).or_else(|| in_home(below)).filter(|dir| dir.is_dir() && policy.may_mount(dir));
            if let Some(installed) = installed {
                env.insert(name.to_owned(), installed.to_string_lossy().into_owned());
                mounts.add(installed);
            }
        }
        let readable = downloads.iter().flat_map(|(downloads, dir)| match downloads.parts {
            [] => vec![dir.clone()],
            parts => parts.iter().map(|part| dir.join(part)).collect(),
        });
        readable.chain(config.toolchains).for_each(|dir| mounts.add(dir));
        let read_only = mounts.into_paths();
        tracing::debug!(?read_only, "what runs see of this host's toolchains");
        Toolchain {
            path,
            env,
            resolved_paths: read_only.iter().map(|path| ResolvedPath::new(path)).collect(),
            read_only,
            downloads,
            policy,
            private: Some(config.private),
        }
    }

    /// The absolute path of `program`: itself if absolute, else the first executable of that name on PATH. Only paths
    /// that the run sees are checked, so that the answer reveals nothing else about the host. A caller that passes an
    /// absolute path from a request must first remove links and `..`.
    #[must_use]
    pub fn find(&self, program: &str, is_visible: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let executable = |path: &PathBuf| path.is_absolute() && is_visible(path) && is_program(path);
        if program.contains('/') {
            return Some(PathBuf::from(program)).filter(executable);
        }
        self.path.iter().map(|dir| dir.join(program)).find(executable)
    }

    /// The environment of every run, before plan and request add to it.
    #[must_use]
    pub fn base_env(&self, home: &str) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        let path = std::env::join_paths(self.path.iter().filter(|dir| dir.is_absolute())).unwrap_or_default();
        env.insert("PATH".to_owned(), path.to_string_lossy().into_owned());
        env.insert("HOME".to_owned(), home.to_owned());
        env.insert("TMPDIR".to_owned(), "/tmp".to_owned());
        env.insert("TERM".to_owned(), "dumb".to_owned());
        for variable in TOOLCHAINS.iter().flat_map(|toolchain| toolchain.variables) {
            if matches!(variable.when, RunCondition::Installed(name) if env.contains_key(name)) {
                env.insert(variable.name.to_owned(), variable.value.to_owned());
            }
        }
        env
    }

    /// The cache locations in the directory `cache_dir`, or below the scratch directory if `None`, and the download
    /// sources of tools. Downloads of the host's user are read and never written. Tool settings never outlive a run: a
    /// tool that keeps them beside its caches gets a new directory for both.
    #[must_use]
    pub fn caches(&self, cache_dir: Option<&Path>, network: Network) -> CacheDirs {
        let cache = caches::cache_dir_of_run(cache_dir);
        let has_own = |below| cache_dir.is_some_and(|cache_dir| is_filled(cache_dir, below));
        let below = |name: &str| cache.join(name).to_string_lossy().into_owned();
        let is_offline = network == Network::None;
        let mut env = BTreeMap::new();
        let mut set = |name: &str, value: String| _ = env.insert(name.to_owned(), value);
        for (name, dir) in TOOLCHAINS.iter().flat_map(|toolchain| toolchain.caches) {
            set(name, below(dir));
        }
        for variable in TOOLCHAINS.iter().flat_map(|toolchain| toolchain.variables) {
            if variable.when == RunCondition::Always || variable.when == RunCondition::Offline && is_offline {
                set(variable.name, variable.value.to_owned());
            }
        }
        // Without a network a run uses the downloads of the host's user, until the workspace has its own.
        let mut links = Vec::new();
        for tool_home in TOOLCHAINS.iter().flat_map(|toolchain| toolchain.homes) {
            let dir = tool_home.dir;
            set(tool_home.variable, format!("{}/{dir}", home()));
            let host = self.downloads.iter().find_map(|(downloads, host)| match downloads.access {
                DownloadAccess::Home { variable, needed, own } if variable == tool_home.variable => {
                    (is_offline && !has_own(own) && host.join(needed).is_dir()).then_some(host)
                }
                _ => None,
            });
            for part in tool_home.kept {
                let own = cache.join(dir.trim_start_matches('.')).join(part);
                let target = host.map(|host| host.join(part)).filter(|dir| dir.is_dir()).unwrap_or(own);
                links.push((format!("{HOME}/{dir}/{part}"), target));
            }
        }
        for downloads in TOOLCHAINS.iter().flat_map(|toolchain| toolchain.downloads) {
            let host = self.downloads.iter().find(|(known, _)| std::ptr::eq(*known, downloads)).map(|(_, dir)| dir);
            match downloads.access {
                DownloadAccess::InPlace | DownloadAccess::Home { .. } => {}
                DownloadAccess::Source { variable, online, offline } => {
                    let host = host.map(|dir| format!("file://{}", dir.display()));
                    let further = if is_offline { offline } else { online }.to_owned();
                    set(variable, host.into_iter().chain([further]).collect::<Vec<_>>().join(","));
                }
                DownloadAccess::Options { variables, value, own } => {
                    let host = host.filter(|_| is_offline && !has_own(own));
                    let path = host.map_or_else(|| below(own), |dir| dir.display().to_string());
                    let value = value.replace("{home}", &home()).replace("{downloads}", &path);
                    variables.iter().for_each(|variable| set(variable, value.clone()));
                }
            }
        }
        CacheDirs { env, links }
    }

    /// A directory that all runs read and that contains `path` or lies in it.
    #[must_use]
    pub fn exposing_dir(&self, path: &ResolvedPath) -> Option<&Path> {
        self.resolved_paths.iter().find(|mount| mount.overlaps(path)).map(ResolvedPath::named)
    }

    /// Host paths that a run of `reader` in `workspace` reads, at most [`TOOLCHAIN_MOUNTS_MAX`](proctor_core::bounds::TOOLCHAIN_MOUNTS_MAX).
    /// Paths inside the workspace are left out, as the run sees them anyway.
    #[must_use]
    pub fn read_only(&self, workspace: &Path, reader: ReadAccess) -> Vec<PathBuf> {
        let mut mounts = MountSet::default();
        self.read_only.iter().for_each(|path| mounts.add(path.clone()));
        self.policy.add_interpreter(workspace, reader, &mut mounts);
        let mut paths = mounts.into_paths();
        let private = self.private.as_ref().map(watch::Receiver::borrow);
        let private = private.as_deref().map_or(&[][..], Vec::as_slice);
        let holds = |path: &PathBuf| {
            private.iter().any(|private_path| path.starts_with(private_path) || private_path.starts_with(path))
        };
        // PATH was checked at start; a link of the workspace may lead to a tenant that was added since.
        paths.retain(|path| !path.starts_with(workspace) && (self.read_only.contains(path) || !holds(path)));
        paths
    }
}

/// The link to a Python interpreter in the workspace's virtual environment, if a run cannot see its target or the
/// target does not exist.
#[must_use]
pub fn invisible_interpreter(workspace: &Path, read_only: &[PathBuf]) -> Option<&'static str> {
    let is_invisible = |link: &&str| {
        let path = workspace.join(link);
        let target_is_visible = || path.canonicalize().is_ok_and(|real| is_visible(&real, workspace, read_only));
        path.is_symlink() && !target_is_visible()
    };
    let environments = TOOLCHAINS.iter().filter_map(|toolchain| toolchain.environments);
    environments.flat_map(|environments| environments.interpreters.iter().copied()).find(is_invisible)
}

/// Whether the cache has the directory `below`. Runs write there freely, so links are not followed: a link would reveal
/// whether other host paths exist.
fn is_filled(cache: &Path, below: &str) -> bool {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let found = openat(CWD, cache, how, Mode::empty());
    found.and_then(|cache| openat2(cache, below, how, Mode::empty(), inside)).is_ok()
}

/// The absolute path that follows `prefix` in a list of options.
fn path_in_options(options: &str, prefix: &str) -> Option<PathBuf> {
    let path = options.split_whitespace().find_map(|option| option.strip_prefix(prefix))?;
    Some(PathBuf::from(path)).filter(|dir| dir.is_absolute())
}

/// `dir` itself for an empty `below`.
fn join(dir: PathBuf, below: &str) -> PathBuf {
    if below.is_empty() { dir } else { dir.join(below) }
}

/// Whether a run in `workspace` that reads `read_only` sees this path.
#[must_use]
pub fn is_visible(path: &Path, workspace: &Path, read_only: &[PathBuf]) -> bool {
    is_system(path) || path.starts_with(workspace) || read_only.iter().any(|mount| path.starts_with(mount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_sandbox::SCRATCH;
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    #[test]
    fn environment_of_the_supervisor_does_not_leak() {
        let var = |name: &str| match name {
            "PATH" => Some("/usr/bin:relative:/bin".into()),
            "AWS_SECRET_ACCESS_KEY" | "HOME" => Some("/home/secret".into()),
            "LANG" => Some("C.UTF-8".into()),
            _ => None,
        };
        let toolchain = Toolchain::from_env(var, ToolchainConfig::empty());
        let env = toolchain.base_env("/tmp/home");
        assert_eq!(env["PATH"], "/usr/bin:/bin");
        assert_eq!(env["HOME"], "/tmp/home");
        assert_eq!(env["LANG"], "C.UTF-8");
        assert!(!env.contains_key("AWS_SECRET_ACCESS_KEY"));
    }

    #[test]
    fn finds_programs_on_path_only() {
        let toolchain =
            Toolchain::from_env(|name| (name == "PATH").then(|| "/usr/bin:/bin".into()), ToolchainConfig::empty());
        let find = |program: &str| toolchain.find(program, |_| true);
        assert!(find("sh").is_some());
        assert!(find("/bin/sh").is_some());
        assert_eq!(find("no-such-program"), None);
        assert_eq!(find("./sh"), None);
        assert_eq!(toolchain.find("sh", |_| false), None, "an invisible program is not found");
        assert!(is_visible(Path::new("/bin/sh"), Path::new("/ws"), &[]));
        assert!(is_visible(Path::new("/ws/x"), Path::new("/ws"), &[]));
        assert!(is_visible(Path::new("/opt/go/bin/go"), Path::new("/ws"), &["/opt/go".into()]));
        assert!(!is_visible(Path::new("/opt/gone/x"), Path::new("/ws"), &["/opt/go".into()]));
    }

    /// A host whose user has Go's and Cargo's downloads at home.
    fn host() -> (tempfile::TempDir, Toolchain) {
        let dir = tempfile::tempdir().unwrap();
        for part in [
            "go/pkg/mod/cache/download",
            ".cargo/registry",
            ".cargo/bin",
            ".local/share/pnpm/store",
            ".rustup",
            ".yarn/berry/cache",
            "ws/tools/bin",
        ] {
            std::fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        std::fs::write(dir.path().join(".cargo/credentials.toml"), "").unwrap();
        let path = format!("{0}/.cargo/bin:{0}/ws/tools/bin:/usr/bin", dir.path().display());
        let var = |name: &str| match name {
            "HOME" => Some(dir.path().into()),
            "PATH" => Some(path.clone().into()),
            _ => None,
        };
        let toolchain =
            Toolchain::from_env(var, ToolchainConfig { toolchains: vec!["/opt".into()], ..ToolchainConfig::empty() });
        (dir, toolchain)
    }

    #[test]
    fn runs_read_toolchains_and_downloads() {
        let (dir, toolchain) = host();
        let mut expected: BTreeSet<PathBuf> = [
            ".cargo/bin",
            "ws/tools/bin",
            ".rustup",
            ".cargo/registry",
            "go/pkg/mod/cache/download",
            ".yarn/berry/cache",
            ".local/share/pnpm/store",
        ]
        .map(|part| dir.path().join(part))
        .into();
        expected.extend(Path::new("/opt").exists().then(|| "/opt".into()));
        let read_only = |workspace: &Path| -> BTreeSet<PathBuf> {
            toolchain.read_only(workspace, ReadAccess::Supervisor).into_iter().collect()
        };
        assert_eq!(read_only(Path::new("/ws")), expected);
        expected.remove(&dir.path().join("ws/tools/bin"));
        assert_eq!(read_only(&dir.path().join("ws")), expected, "no part of a workspace is mounted read-only");
        let env = toolchain.base_env("/h");
        assert_eq!(env["RUSTUP_HOME"], dir.path().join(".rustup").to_str().unwrap());
        assert_eq!(env["RUSTUP_AUTO_INSTALL"], "0", "rustup installs nothing");
        assert_eq!(Toolchain::default().base_env("/h").get("RUSTUP_AUTO_INSTALL"), None);
    }

    #[test]
    fn caches_belong_to_the_tenant_and_host_downloads_are_read_only() {
        let (dir, toolchain) = host();
        let cache = dir.path().join("cache");
        let at = |path: &str| dir.path().join(path).to_str().unwrap().to_owned();
        let crates = |network| {
            let links = toolchain.caches(Some(&cache), network).links;
            links.iter().find(|(path, _)| path == "home/.cargo/registry").unwrap().1.to_str().unwrap().to_owned()
        };
        let env = toolchain.caches(Some(&cache), Network::None).env;
        assert_eq!(env["GOMODCACHE"], at("cache/go-mod"));
        assert_eq!(env["GOPROXY"], format!("file://{},off", at("go/pkg/mod/cache/download")));
        assert_eq!(env["CARGO_NET_OFFLINE"], "true");
        assert_eq!(crates(Network::None), at(".cargo/registry"));
        let env = toolchain.caches(Some(&cache), Network::Host).env;
        assert!(env["GOPROXY"].ends_with(",https://proxy.golang.org,direct"), "{}", env["GOPROXY"]);
        assert_eq!(env.get("CARGO_NET_OFFLINE"), None);
        assert_eq!(crates(Network::Host), at("cache/cargo/registry"));
        std::fs::create_dir_all(cache.join("cargo/registry/cache")).unwrap();
        assert_eq!(crates(Network::None), at("cache/cargo/registry"));
        // A link of the tenant must not reveal whether a path outside its cache exists.
        std::fs::create_dir_all(dir.path().join(".cargo/registry/cache")).unwrap();
        std::fs::remove_dir_all(cache.join("cargo")).unwrap();
        symlink(dir.path().join(".cargo"), cache.join("cargo")).unwrap();
        assert_eq!(crates(Network::None), at(".cargo/registry"));
        assert_eq!(Toolchain::default().caches(Some(&cache), Network::None).env["GOPROXY"], "off");
    }

    /// Every tool with its own directory in a run, and the files in which it looks for settings. None of these may be
    /// in a directory that outlives the run.
    #[test]
    fn no_tool_reads_settings_from_a_directory_that_outlives_runs() {
        let cache = Path::new("/cache");
        let CacheDirs { env, links } = Toolchain::default().caches(Some(cache), Network::None);
        let base = Toolchain::default().base_env("/tmp/proctor/home");
        let of = |name: &str| env.get(name).or_else(|| base.get(name)).unwrap().clone();
        let java = env["MAVEN_OPTS"].split(' ').find_map(|option| option.strip_prefix("-Duser.home=")).unwrap();
        let settings = [
            (of("CARGO_HOME"), &["config.toml", "config", "credentials.toml", "env", "bin/rustc"][..]),
            (of("GRADLE_USER_HOME"), &["gradle.properties", "init.gradle", "init.gradle.kts", "init.d/x.gradle"]),
            (java.to_owned(), &[".m2/settings.xml", ".m2/toolchains.xml", ".m2/extensions.xml", ".gradle/init.gradle"]),
            (
                of("HOME"),
                &[".config/go/env", ".npmrc", ".yarnrc", ".yarnrc.yml", ".config/pip/pip.conf", ".pip/pip.conf"],
            ),
            (of("HOME"), &[".config/uv/uv.toml", ".mavenrc", ".gitconfig", ".cargo/config.toml", ".pydistutils.cfg"]),
        ];
        for (home, files) in settings {
            for file in files {
                let mut path = Path::new(&home).join(file);
                for (link, target) in &links {
                    if let Ok(below) = path.strip_prefix(Path::new(SCRATCH).join(link)) {
                        path = target.join(below);
                    }
                }
                assert!(path.starts_with(SCRATCH), "{}", path.display());
            }
        }
        let caches = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.caches).map(|(name, _)| *name);
        let homes = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.homes).map(|home| home.variable);
        let named: Vec<&str> = caches.chain(homes).collect();
        for (name, value) in &env {
            let is_known = named.contains(&name.as_str()) || !value.contains("/cache") || name.ends_with("_OPTS");
            assert!(is_known, "{name}={value}: say where its tool looks for settings");
        }
    }

    #[test]
    fn finds_an_environment_whose_interpreter_is_invisible() {
        let dir = tempfile::tempdir().unwrap();
        let (workspace, python) = (dir.path().join("ws"), dir.path().join("conda/python"));
        std::fs::create_dir_all(workspace.join("venv/bin")).unwrap();
        std::fs::create_dir(dir.path().join("conda")).unwrap();
        assert_eq!(invisible_interpreter(&workspace, &[]), None, "no environment");
        symlink(&python, workspace.join("venv/bin/python")).unwrap();
        let mounts = [dir.path().join("conda")];
        assert_eq!(invisible_interpreter(&workspace, &mounts), Some("venv/bin/python"), "a dangling link");
        std::fs::write(&python, "").unwrap();
        assert_eq!(invisible_interpreter(&workspace, &mounts), None);
        assert_eq!(invisible_interpreter(&workspace, &[]), Some("venv/bin/python"));
    }

    #[test]
    fn maven_uses_the_hosts_repository_until_the_tenant_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (repository, cache) = (dir.path().join("m2"), dir.path().join("cache"));
        std::fs::create_dir_all(&repository).unwrap();
        let path = format!("-Dmaven.repo.local={}", repository.display());
        let var = |name: &str| (name == "MAVEN_OPTS").then(|| format!("-Xmx1g {path}").into());
        let toolchain = Toolchain::from_env(var, ToolchainConfig::empty());
        assert!(toolchain.read_only(Path::new("/ws"), ReadAccess::Supervisor).contains(&repository));
        let options = |network| toolchain.caches(Some(&cache), network).env["MAVEN_OPTS"].clone();
        let home = "-Duser.home=/tmp/proctor/home";
        let own = format!("{home} -Dmaven.repo.local={}/m2/repository", cache.display());
        assert_eq!(options(Network::None), format!("{home} {path}"));
        assert_eq!(options(Network::Host), own);
        std::fs::create_dir_all(cache.join("m2/repository")).unwrap();
        assert_eq!(options(Network::None), own);
    }
}

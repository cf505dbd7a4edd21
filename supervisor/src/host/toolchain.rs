//! Where programs are, and the environment that a run gets: an allow-list, never what the supervisor itself has. Must
//! not know requests or plans.

use crate::caches;
use crate::host::environment::{CACHES, HOME, HOMES, INSTALLED, home};
use crate::host::read_access::Reader;
use crate::host::resolved_path::ResolvedPath;
use crate::host::toolchain_mounts::{ENVIRONMENTS, MountPolicy, MountSet, is_program, is_system};
use proctor_core::isolation::Network;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// What this host offers to runs, read once from the supervisor's own environment.
#[derive(Debug, Clone, Default)]
pub struct Toolchain {
    path: Vec<PathBuf>,
    env: BTreeMap<String, String>,
    /// Paths that runs read, wherever they are.
    read_only: Vec<PathBuf>,
    /// The same, and where their links lead.
    places: Vec<ResolvedPath>,
    /// Where modules that the host's user has downloaded are, in the form of a module proxy.
    go_downloads: Option<PathBuf>,
    /// Cargo's home with the crates that the host's user has downloaded.
    cargo_home: Option<PathBuf>,
    /// Maven's local repository with the artefacts that the host's user has downloaded.
    maven_repository: Option<PathBuf>,
    rules: MountPolicy,
    /// Places that nothing shown may hold, as they are now.
    private: Option<watch::Receiver<Vec<PathBuf>>>,
}

/// What a host file says about toolchains.
#[derive(Debug, Clone)]
pub struct ToolchainConfig {
    /// Further directories that runs read.
    pub toolchains: Vec<PathBuf>,
    /// Places that nothing shown to all runs may hold: tenants come and go.
    pub private: watch::Receiver<Vec<PathBuf>>,
}

impl ToolchainConfig {
    /// Of a supervisor that has no host file.
    #[must_use]
    pub fn nothing() -> ToolchainConfig {
        ToolchainConfig { toolchains: Vec::new(), private: watch::channel(Vec::new()).1 }
    }
}

/// Where tools find caches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheDirs {
    /// Variables that name them.
    pub env: BTreeMap<String, String>,
    /// Links to them, as in [`Jail::links`](proctor_sandbox::Jail).
    pub links: Vec<(String, PathBuf)>,
}

/// Where Go asks for modules that the host has not, with a network.
const GO_PROXIES: &str = "https://proxy.golang.org,direct";

/// Variables that are handed on as they are: language and time zone change how tests print and sort, and the toolchain that
/// the host's user has picked comes before the project's.
const HANDED_ON: [&str; 7] = ["LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "RUSTUP_TOOLCHAIN"];

impl Toolchain {
    /// Reads PATH and the toolchains' places from a process environment, and looks at what is there.
    #[must_use]
    pub fn from_env(var: impl Fn(&str) -> Option<OsString>, offer: ToolchainConfig) -> Toolchain {
        let text = |name: &str| var(name).and_then(|value| value.into_string().ok()).filter(|text| !text.is_empty());
        let dir = |name: &str| text(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let home = dir("HOME");
        let in_home = |below: &str| home.as_ref().filter(|_| !below.is_empty()).map(|home| home.join(below));
        let cargo_home = dir("CARGO_HOME").or_else(|| in_home(".cargo"));
        let go_path =
            text("GOPATH").and_then(|list| list.split(':').next().map(PathBuf::from)).or_else(|| in_home("go"));
        let go_modules = dir("GOMODCACHE").or_else(|| go_path.as_ref().map(|go| go.join("pkg/mod")));
        let go_downloads = go_modules.map(|modules| modules.join("cache/download")).filter(|dir| dir.is_dir());
        // Maven has no variable for it, so people who move it say so in one of these.
        let moved = ["MAVEN_OPTS", "MAVEN_ARGS"].iter().find_map(|name| maven_repository_in(&text(name)?));
        let maven_repository = moved.or_else(|| in_home(".m2/repository")).filter(|dir| dir.is_dir());
        let only_programs = cargo_home.iter().chain(&go_path).cloned().collect();
        // Where Yarn leaves packages in archives it leaves them here, and pnpm may have all projects link to its store.
        let yarn_cache = dir("YARN_GLOBAL_FOLDER").or_else(|| in_home(".yarn/berry")).map(|dir| dir.join("cache"));
        let data = dir("PNPM_HOME").or_else(|| Some(dir("XDG_DATA_HOME")?.join("pnpm")));
        let pnpm_store = data.or_else(|| in_home(".local/share/pnpm")).map(|data| data.join("store"));
        let packages = [yarn_cache, pnpm_store].into_iter().flatten().filter(|dir| dir.is_dir());
        let rules = MountPolicy { home: home.clone(), only_programs, private: offer.private.borrow().clone() };

        let mut shown = MountSet::default();
        let mut env: BTreeMap<String, String> =
            HANDED_ON.iter().filter_map(|name| Some(((*name).to_owned(), text(name)?))).collect();
        let path: Vec<PathBuf> = var("PATH").map(|list| std::env::split_paths(&list).collect()).unwrap_or_default();
        path.iter().filter(|dir| dir.is_absolute()).for_each(|dir| rules.add_directory(dir, &mut shown));
        for (name, below) in INSTALLED {
            let installed = dir(name).or_else(|| in_home(below)).filter(|dir| dir.is_dir() && rules.may_show(dir));
            if let Some(installed) = installed {
                env.insert(name.to_owned(), installed.to_string_lossy().into_owned());
                shown.add(installed);
            }
        }
        let crates = ["registry", "git"].iter().filter_map(|part| Some(cargo_home.as_ref()?.join(part)));
        let downloads = go_downloads.iter().chain(&maven_repository).cloned();
        crates.chain(downloads).chain(packages).chain(offer.toolchains).for_each(|dir| shown.add(dir));
        let cargo_home = cargo_home.filter(|home| home.join("registry").is_dir());
        let read_only = shown.into_paths();
        tracing::debug!(?read_only, "what runs see of this host's toolchains");
        Toolchain {
            path,
            env,
            places: read_only.iter().map(|path| ResolvedPath::of(path)).collect(),
            read_only,
            go_downloads,
            cargo_home,
            maven_repository,
            rules,
            private: Some(offer.private),
        }
    }

    /// The absolute path of `program`: itself if absolute, else the first executable of that name on PATH. Only what a
    /// run sees is looked at, so that the answer says nothing about what else there is. An absolute path of somebody's choice
    /// has to be one without links and `..`, which lead elsewhere.
    #[must_use]
    pub fn find(&self, program: &str, is_seen: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let executable = |path: &PathBuf| path.is_absolute() && is_seen(path) && is_program(path);
        if program.contains('/') {
            return Some(PathBuf::from(program)).filter(executable);
        }
        self.path.iter().map(|dir| dir.join(program)).find(executable)
    }

    /// The environment of every run, before what the plan and the request add.
    #[must_use]
    pub fn base_env(&self, home: &str) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        let path = std::env::join_paths(self.path.iter().filter(|dir| dir.is_absolute())).unwrap_or_default();
        env.insert("PATH".to_owned(), path.to_string_lossy().into_owned());
        env.insert("HOME".to_owned(), home.to_owned());
        env.insert("TMPDIR".to_owned(), "/tmp".to_owned());
        env.insert("TERM".to_owned(), "dumb".to_owned());
        if env.contains_key("RUSTUP_HOME") {
            // A run only reads what rustup has installed. A component that is not there is passed over, as most are for an
            // editor, and a toolchain is named instead of looked for without a network.
            env.insert("RUSTUP_AUTO_INSTALL".to_owned(), "0".to_owned());
        }
        env
    }

    /// Where tools keep what outlives a run, in the directory `kept` if there is one, and where they look for what they lack.
    /// What the host's user has downloaded is read and never written. Settings of tools are never kept: where a tool has them
    /// beside its caches, the run has a new directory for both.
    #[must_use]
    pub fn caches(&self, kept: Option<&Path>, network: Network) -> CacheDirs {
        let cache = caches::of_run(kept);
        let is_filled = |below| kept.is_some_and(|kept| is_filled(kept, below));
        let below = |name: &str| cache.join(name).to_string_lossy().into_owned();
        let mut env: BTreeMap<String, String> =
            CACHES.iter().map(|(name, dir)| ((*name).to_owned(), below(dir))).collect();
        let mut set = |name: &str, value: String| _ = env.insert(name.to_owned(), value);
        let beyond = if network == Network::Host { GO_PROXIES } else { "off" };
        let host = self.go_downloads.iter().map(|dir| format!("file://{},", dir.display()));
        set("GOPROXY", host.chain([beyond.to_owned()]).collect());
        // What a cache holds must be its owner's to remove.
        set("GOFLAGS", "-modcacherw".to_owned());
        if network == Network::None {
            set("CARGO_NET_OFFLINE", "true".to_owned());
        }
        // Without a network the crates of the host's user will do, until the workspace has its own.
        let filled = is_filled("cargo/registry/cache");
        let host = self.cargo_home.as_ref().filter(|_| network == Network::None && !filled);
        let mut links = Vec::new();
        for (name, dir, parts) in HOMES {
            set(name, format!("{}/{dir}", home()));
            for part in parts {
                let own = cache.join(dir.trim_start_matches('.')).join(part);
                let of_host = host.filter(|_| name == "CARGO_HOME").map(|host| host.join(part));
                let kept = of_host.filter(|dir| dir.is_dir()).unwrap_or(own);
                links.push((format!("{HOME}/{dir}/{part}"), kept));
            }
        }
        // A JVM asks the user database, which does not know a run's HOME. As for Cargo, without a network the host's
        // repository will do until the workspace has its own; Maven only reads it then, as does Gradle (`mavenLocal`).
        let filled = is_filled("m2/repository");
        let host = self.maven_repository.as_ref().filter(|_| network == Network::None && !filled);
        let repository = host.map_or_else(|| below("m2/repository"), |dir| dir.display().to_string());
        let options = format!("-Duser.home={} -Dmaven.repo.local={repository}", home());
        set("GRADLE_OPTS", options.clone());
        set("MAVEN_OPTS", options);
        CacheDirs { env, links }
    }

    /// A directory that all runs read and that holds `place`, or is in it.
    #[must_use]
    pub fn shows(&self, place: &ResolvedPath) -> Option<&Path> {
        self.places.iter().find(|shown| shown.meets(place)).map(ResolvedPath::named)
    }

    /// Paths of this host that a run of `reader`'s in `workspace` reads, at most [`crate::host::toolchain_mounts::SHOWN_MAX`]. What is in the
    /// workspace is there anyway.
    #[must_use]
    pub fn read_only(&self, workspace: &Path, reader: Reader) -> Vec<PathBuf> {
        let mut shown = MountSet::default();
        self.read_only.iter().for_each(|path| shown.add(path.clone()));
        self.rules.add_interpreter(workspace, reader, &mut shown);
        let mut paths = shown.into_paths();
        let private = self.private.as_ref().map(watch::Receiver::borrow);
        let private = private.as_deref().map_or(&[][..], Vec::as_slice);
        let holds = |path: &PathBuf| private.iter().any(|place| path.starts_with(place) || place.starts_with(path));
        // What PATH leads to was looked at before; a workspace's own links may lead to a tenant that has come since.
        paths.retain(|path| !path.starts_with(workspace) && (self.read_only.contains(path) || !holds(path)));
        paths
    }
}

/// Where the workspace has an environment of Python's whose interpreter a run does not see: the link that leads nowhere there.
/// Says the same of one that leads to nothing at all.
#[must_use]
pub fn unseen_environment(workspace: &Path, read_only: &[PathBuf]) -> Option<&'static str> {
    let leads_nowhere = |link: &&str| {
        let path = workspace.join(link);
        let leads_to = || path.canonicalize().is_ok_and(|real| is_seen(&real, workspace, read_only));
        path.is_symlink() && !leads_to()
    };
    ENVIRONMENTS.into_iter().find(leads_nowhere)
}

/// Whether a tenant has the directory `below` in its cache. Runs write there as they like, and a link of theirs would have us
/// say what is elsewhere on the host.
fn is_filled(cache: &Path, below: &str) -> bool {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let found = openat(CWD, cache, how, Mode::empty());
    found.and_then(|cache| openat2(cache, below, how, Mode::empty(), inside)).is_ok()
}

/// Where options for Maven say that its local repository is.
fn maven_repository_in(options: &str) -> Option<PathBuf> {
    let place = options.split_whitespace().find_map(|option| option.strip_prefix("-Dmaven.repo.local="))?;
    Some(PathBuf::from(place)).filter(|dir| dir.is_absolute())
}

/// Whether a run in `workspace` that reads `read_only` sees this path.
#[must_use]
pub fn is_seen(path: &Path, workspace: &Path, read_only: &[PathBuf]) -> bool {
    is_system(path) || path.starts_with(workspace) || read_only.iter().any(|shown| path.starts_with(shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_sandbox::SCRATCH;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_of_the_supervisors_environment_leaks() {
        let var = |name: &str| match name {
            "PATH" => Some("/usr/bin:relative:/bin".into()),
            "AWS_SECRET_ACCESS_KEY" | "HOME" => Some("/home/secret".into()),
            "LANG" => Some("C.UTF-8".into()),
            _ => None,
        };
        let toolchain = Toolchain::from_env(var, ToolchainConfig::nothing());
        let env = toolchain.base_env("/tmp/home");
        assert_eq!(env["PATH"], "/usr/bin:/bin");
        assert_eq!(env["HOME"], "/tmp/home");
        assert_eq!(env["LANG"], "C.UTF-8");
        assert!(!env.contains_key("AWS_SECRET_ACCESS_KEY"));
    }

    #[test]
    fn programs_are_found_on_path_and_nowhere_else() {
        let toolchain =
            Toolchain::from_env(|name| (name == "PATH").then(|| "/usr/bin:/bin".into()), ToolchainConfig::nothing());
        let find = |program: &str| toolchain.find(program, |_| true);
        assert!(find("sh").is_some());
        assert!(find("/bin/sh").is_some());
        assert_eq!(find("no-such-program"), None);
        assert_eq!(find("./sh"), None);
        assert_eq!(toolchain.find("sh", |_| false), None, "what is not seen is not there");
        assert!(is_seen(Path::new("/bin/sh"), Path::new("/ws"), &[]));
        assert!(is_seen(Path::new("/ws/x"), Path::new("/ws"), &[]));
        assert!(is_seen(Path::new("/opt/go/bin/go"), Path::new("/ws"), &["/opt/go".into()]));
        assert!(!is_seen(Path::new("/opt/gone/x"), Path::new("/ws"), &["/opt/go".into()]));
    }

    /// A host with Go's and Cargo's downloads in its user's home.
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
            Toolchain::from_env(var, ToolchainConfig { toolchains: vec!["/opt".into()], ..ToolchainConfig::nothing() });
        (dir, toolchain)
    }

    #[test]
    fn runs_read_toolchains_and_downloads() {
        let (dir, toolchain) = host();
        let mut expected: Vec<PathBuf> = [
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
        assert_eq!(toolchain.read_only(Path::new("/ws"), Reader::Supervisor), expected);
        expected.remove(1);
        assert_eq!(
            toolchain.read_only(&dir.path().join("ws"), Reader::Supervisor),
            expected,
            "a workspace is not sealed in parts"
        );
        let env = toolchain.base_env("/h");
        assert_eq!(env["RUSTUP_HOME"], dir.path().join(".rustup").to_str().unwrap());
        assert_eq!(env["RUSTUP_AUTO_INSTALL"], "0", "what rustup has is only read");
        assert_eq!(Toolchain::default().base_env("/h").get("RUSTUP_AUTO_INSTALL"), None);
    }

    #[test]
    fn what_outlives_a_run_is_the_tenants_and_what_the_host_has_is_read() {
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
        // What a link of the tenant's leads to is not its own, and whether it is there is not for it to know.
        std::fs::create_dir_all(dir.path().join(".cargo/registry/cache")).unwrap();
        std::fs::remove_dir_all(cache.join("cargo")).unwrap();
        symlink(dir.path().join(".cargo"), cache.join("cargo")).unwrap();
        assert_eq!(crates(Network::None), at(".cargo/registry"));
        assert_eq!(Toolchain::default().caches(Some(&cache), Network::None).env["GOPROXY"], "off");
    }

    /// Every tool that runs are given a place for, with the files in which it looks for settings, below what its variable names.
    /// None of them is in a directory that outlives the run.
    #[test]
    fn no_tool_looks_for_settings_in_what_outlives_a_run() {
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
        let named: Vec<&str> = CACHES.iter().map(|(name, _)| *name).chain(HOMES.map(|(name, ..)| name)).collect();
        for (name, value) in &env {
            let is_known = named.contains(&name.as_str()) || !value.contains("/cache") || name.ends_with("_OPTS");
            assert!(is_known, "{name}={value}: say where its tool looks for settings");
        }
    }

    #[test]
    fn an_environment_whose_interpreter_is_not_seen_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (workspace, python) = (dir.path().join("ws"), dir.path().join("conda/python"));
        std::fs::create_dir_all(workspace.join("venv/bin")).unwrap();
        std::fs::create_dir(dir.path().join("conda")).unwrap();
        assert_eq!(unseen_environment(&workspace, &[]), None, "there is none");
        symlink(&python, workspace.join("venv/bin/python")).unwrap();
        let shown = [dir.path().join("conda")];
        assert_eq!(unseen_environment(&workspace, &shown), Some("venv/bin/python"), "it leads to nothing");
        std::fs::write(&python, "").unwrap();
        assert_eq!(unseen_environment(&workspace, &shown), None);
        assert_eq!(unseen_environment(&workspace, &[]), Some("venv/bin/python"));
    }

    #[test]
    fn mavens_artefacts_are_the_hosts_until_the_tenant_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (repository, cache) = (dir.path().join("m2"), dir.path().join("cache"));
        std::fs::create_dir_all(&repository).unwrap();
        let place = format!("-Dmaven.repo.local={}", repository.display());
        let var = |name: &str| (name == "MAVEN_OPTS").then(|| format!("-Xmx1g {place}").into());
        let toolchain = Toolchain::from_env(var, ToolchainConfig::nothing());
        assert!(toolchain.read_only(Path::new("/ws"), Reader::Supervisor).contains(&repository));
        let options = |network| toolchain.caches(Some(&cache), network).env["MAVEN_OPTS"].clone();
        let home = "-Duser.home=/tmp/proctor/home";
        let own = format!("{home} -Dmaven.repo.local={}/m2/repository", cache.display());
        assert_eq!(options(Network::None), format!("{home} {place}"));
        assert_eq!(options(Network::Host), own);
        std::fs::create_dir_all(cache.join("m2/repository")).unwrap();
        assert_eq!(options(Network::None), own);
    }
}

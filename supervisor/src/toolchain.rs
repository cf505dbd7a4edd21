//! Where programs are, and the environment that a run gets: an allow-list, never what the supervisor itself has. Must
//! not know requests or plans.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What this host offers to runs, read once from the supervisor's own environment.
#[derive(Debug, Clone, Default)]
pub struct Toolchain {
    path: Vec<PathBuf>,
    env: BTreeMap<String, String>,
    /// Directories that toolchains keep in a home, by the variable that names each: runs have another HOME.
    homes: BTreeMap<&'static str, PathBuf>,
}

/// Variables that are handed on as they are: language and time zone change how tests print and sort.
const HANDED_ON: [&str; 6] = ["LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME"];

/// Variables that decide what runs or where it writes. A request cannot set them.
const RESERVED: [&str; 29] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "SHELL",
    "ENV",
    "BASH_ENV",
    "GOFLAGS",
    "GOENV",
    "GOTOOLCHAIN",
    "GOCACHE",
    "GOMODCACHE",
    "GOPROXY",
    "GOROOT",
    "GOPATH",
    "GOWORK",
    "GOTMPDIR",
    "GOSUMDB",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "JAVA_TOOL_OPTIONS",
    "MAVEN_OPTS",
    "IFS",
];

/// The same for families of variables.
const RESERVED_PREFIXES: [&str; 6] = ["LD_", "CARGO_", "NEXTEST_", "npm_config_", "PROCTOR_", "GIT_"];

impl Toolchain {
    /// Reads PATH and the caches' places from a process environment.
    #[must_use]
    pub fn from_env(var: impl Fn(&str) -> Option<OsString>) -> Toolchain {
        let text = |name: &str| var(name).and_then(|value| value.into_string().ok()).filter(|text| !text.is_empty());
        let env = HANDED_ON.iter().filter_map(|name| Some(((*name).to_owned(), text(name)?))).collect();
        let home = text("HOME").map(PathBuf::from);
        let in_home = |below: &str| home.as_ref().map(|home| home.join(below));
        let go_path = text("GOPATH").and_then(|list| list.split(':').next().map(PathBuf::from));
        let go_modules = text("GOMODCACHE").map(PathBuf::from);
        let go_modules = go_modules.or_else(|| go_path.or_else(|| in_home("go")).map(|go| go.join("pkg/mod")));
        let rustup = text("RUSTUP_HOME").map(PathBuf::from).or_else(|| in_home(".rustup"));
        let homes = [("GOMODCACHE", go_modules), ("RUSTUP_HOME", rustup)];
        let homes = homes.into_iter().filter_map(|(name, dir)| Some((name, dir?))).collect();
        let path = var("PATH").map(|list| std::env::split_paths(&list).collect()).unwrap_or_default();
        Toolchain { path, env, homes }
    }

    /// The absolute path of `program`: itself if absolute, else the first executable of that name on PATH.
    #[must_use]
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let executable = |path: &Path| {
            path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        if program.contains('/') {
            return Some(PathBuf::from(program)).filter(|path| path.is_absolute() && executable(path));
        }
        self.path.iter().map(|dir| dir.join(program)).find(|path| path.is_absolute() && executable(path))
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
        env.extend(self.homes.iter().map(|(name, dir)| ((*name).to_owned(), dir.to_string_lossy().into_owned())));
        env
    }

    /// Directories of this host that a run reads, wherever they are.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.path.iter().map(PathBuf::as_path).chain(self.homes.values().map(PathBuf::as_path))
    }
}

/// Whether a request may set `name`, and if not, why.
pub fn check_variable(name: &str) -> Result<(), String> {
    let mut chars = name.chars();
    let well_formed = chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|other| other.is_ascii_alphanumeric() || other == '_');
    if !well_formed {
        return Err(format!("{name:?} is not a variable's name ([A-Za-z_][A-Za-z0-9_]*)"));
    }
    if RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(format!("{name} decides what runs and cannot be set by a request"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_supervisors_environment_leaks() {
        let toolchain = Toolchain::from_env(|name| match name {
            "PATH" => Some("/usr/bin:relative:/bin".into()),
            "AWS_SECRET_ACCESS_KEY" | "HOME" => Some("/home/secret".into()),
            "LANG" => Some("C.UTF-8".into()),
            _ => None,
        });
        let env = toolchain.base_env("/tmp/home");
        assert_eq!(env["PATH"], "/usr/bin:/bin");
        assert_eq!(env["HOME"], "/tmp/home");
        assert_eq!(env["LANG"], "C.UTF-8");
        assert_eq!(env["GOMODCACHE"], "/home/secret/go/pkg/mod");
        assert!(!env.contains_key("AWS_SECRET_ACCESS_KEY"));
    }

    #[test]
    fn programs_are_found_on_path_and_nowhere_else() {
        let toolchain = Toolchain::from_env(|name| (name == "PATH").then(|| "/usr/bin:/bin".into()));
        assert!(toolchain.find("sh").is_some());
        assert!(toolchain.find("/bin/sh").is_some());
        assert_eq!(toolchain.find("no-such-program"), None);
        assert_eq!(toolchain.find("./sh"), None);
    }

    #[test]
    fn a_request_cannot_set_what_decides_what_runs() {
        for refused in ["LD_PRELOAD", "GOFLAGS", "PATH", "CARGO_HOME", "A-B", "", "1A"] {
            assert!(check_variable(refused).is_err(), "{refused}");
        }
        assert!(check_variable("DATABASE_URL").is_ok());
    }
}

//! Environment variables that proctor sets for runs or protects: locations of installed toolchains and caches, and the
//! check of variables that a request or a project file sets.

use proctor_core::bounds::{ENV_BYTES_MAX, ENV_VARIABLES_MAX};
use proctor_sandbox::SCRATCH;
use std::collections::BTreeMap;

/// Installation directories of toolchains: variable, and default path below the host user's home. Runs have another
/// HOME, so they need the variable.
pub(crate) const INSTALLED: [(&str, &str); 9] = [
    ("ASDF_DATA_DIR", ".asdf"),
    ("CYPRESS_CACHE_FOLDER", ".cache/Cypress"),
    ("GEM_HOME", ""),
    ("JAVA_HOME", ""),
    ("NODENV_ROOT", ".nodenv"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("RUSTUP_HOME", ".rustup"),
    ("VOLTA_HOME", ".volta"),
];

/// Tool caches: variable, and path below the directory that outlives runs. No tool looks for settings in its cache.
pub(crate) const CACHES: [(&str, &str); 6] = [
    ("GOCACHE", "go-build"),
    ("GOMODCACHE", "go-mod"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("npm_config_cache", "npm"),
];

/// Tools that keep settings and caches in one home directory: variable, directory, and entries to keep. Each run gets
/// an empty directory below its HOME, in which only the listed entries are links to what outlives the run.
pub(crate) const HOMES: [(&str, &str, &[&str]); 2] =
    [("CARGO_HOME", ".cargo", &["registry", "git"]), ("GRADLE_USER_HOME", ".gradle", &["caches", "wrapper", "jdks"])];

/// A run's HOME, below its scratch directory.
pub const HOME: &str = "home";

/// Absolute path of a run's HOME.
#[must_use]
pub fn home() -> String {
    format!("{SCRATCH}/{HOME}")
}

/// Variables that decide what runs, how its result is judged or where it writes. Neither a request nor a project file
/// may set them.
const RESERVED: [&str; 59] = [
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
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    "PYTEST_PLUGINS",
    "PYTHONBREAKPOINT",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONINSPECT",
    // It removes assertions.
    "PYTHONOPTIMIZE",
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "NODE_OPTIONS",
    "NODE_PATH",
    "RUSTC",
    "RUSTC_BOOTSTRAP",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "JAVACMD",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MOCHA_OPTIONS",
    // A runner that sees it acts as a child of another runner and runs nothing.
    "NODE_TEST_CONTEXT",
    // GoogleTest and Catch2 take a filter and a shard from Bazel's variables.
    "BAZEL_TEST",
    "TESTBRIDGE_TEST_ONLY",
    "IFS",
    "MAESTRO_OPTS",
    "ELECTRON_RUN_AS_NODE",
    "GEM_PATH",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "RUBYLIB",
    "RUBYOPT",
    "SPEC_OPTS",
];

/// Reserved families of variables: options of tools such as filters, retries, and which files are tests.
const RESERVED_PREFIXES: [&str; 14] = [
    "BOOST_TEST_",
    "BUNDLE_",
    "CARGO_",
    "CMAKE_",
    "CTEST_",
    "CYPRESS_",
    "GIT_",
    "GRADLE_",
    "GTEST_",
    "LD_",
    "MAVEN_",
    "NEXTEST_",
    "PROCTOR_",
    "RUST_TEST_",
];

/// npm reads its variables in any case.
const RESERVED_IN_ANY_CASE: &str = "npm_config_";

/// Checks the environment variables of a request or a project file.
pub fn check_env(env: &BTreeMap<String, String>) -> Result<(), String> {
    if env.len() > ENV_VARIABLES_MAX {
        return Err(format!("at most {ENV_VARIABLES_MAX} variables, got {}", env.len()));
    }
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ENV_BYTES_MAX {
        return Err(format!("at most {ENV_BYTES_MAX} bytes together, got {bytes}"));
    }
    for (name, value) in env {
        check_variable(name)?;
        if value.contains('\0') {
            return Err(format!("{name} contains a NUL byte"));
        }
    }
    Ok(())
}

/// Checks whether a request or a project file may set `name`; the error says why not.
pub fn check_variable(name: &str) -> Result<(), String> {
    let mut chars = name.chars();
    let well_formed = chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|other| other.is_ascii_alphanumeric() || other == '_');
    if !well_formed {
        return Err(format!("{name:?} is not a variable's name ([A-Za-z_][A-Za-z0-9_]*)"));
    }
    let is_in = |table: &[(&str, &str)]| table.iter().any(|(reserved, _)| *reserved == name);
    let in_any_case = name.get(..RESERVED_IN_ANY_CASE.len());
    if RESERVED.contains(&name)
        || is_in(&INSTALLED)
        || is_in(&CACHES)
        || HOMES.iter().any(|(reserved, ..)| *reserved == name)
        || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || in_any_case.is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_IN_ANY_CASE))
    {
        return Err(format!("{name} decides what runs and cannot be set"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_reserved_variables() {
        for refused in [
            "GOCACHE",
            "PIP_CACHE_DIR",
            "RUSTUP_HOME",
            "LD_PRELOAD",
            "MAVEN_ARGS",
            "GRADLE_OPTS",
            "GOFLAGS",
            "PATH",
            "CARGO_HOME",
            "PYTHONOPTIMIZE",
            "MOCHA_OPTIONS",
            "NODE_TEST_CONTEXT",
            "BAZEL_TEST",
            "TESTBRIDGE_TEST_ONLY",
            "BOOST_TEST_RESULT_CODE",
            "CYPRESS_SPEC_PATTERN",
            "SPEC_OPTS",
            "BUNDLE_WITHOUT",
            "PHPRC",
            "RUST_TEST_THREADS",
            "npm_config_ignore_scripts",
            "NPM_CONFIG_SCRIPT_SHELL",
            "Npm_Config_prefix",
            "A-B",
            "",
            "1A",
        ] {
            assert!(check_variable(refused).is_err(), "{refused}");
        }
        for allowed in ["DATABASE_URL", "NODE_ENV", "RUST_LOG", "PYTHONHASHSEED", "npm_config"] {
            assert!(check_variable(allowed).is_ok(), "{allowed}");
        }
        let mut distinct = RESERVED.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), RESERVED.len(), "a name is listed twice");
    }
}

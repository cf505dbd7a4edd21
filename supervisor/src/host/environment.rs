//! Environment variables that proctor sets for runs or protects: locations of installed toolchains and caches, and the
//! check of variables that a request or a project file sets.

use proctor_core::bounds::{ENV_BYTES_MAX, ENV_VARIABLES_MAX};
use proctor_frameworks::{ReservedVariables, TOOLCHAINS, reserves_variable};
use proctor_sandbox::SCRATCH;
use std::collections::BTreeMap;

/// Installation directories of version managers for several languages: variable, and default path below the host user's home.
/// Those of one language are in its [`Toolchain`](proctor_frameworks::Toolchain).
const VERSION_MANAGERS: [(&str, &str); 1] = [("ASDF_DATA_DIR", ".asdf")];

/// All installation directories that runs need a variable for, since they have another HOME.
pub(crate) fn installations() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_toolchains = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.installations.iter().copied());
    VERSION_MANAGERS.into_iter().chain(of_toolchains)
}

/// A run's HOME, below its scratch directory.
pub const HOME: &str = "home";

/// Absolute path of a run's HOME.
#[must_use]
pub fn home() -> String {
    format!("{SCRATCH}/{HOME}")
}

/// Variables of the system that decide what runs or where it writes. Neither a request nor a project file may set them, nor
/// those that [`reserves_variable`] names.
const RESERVED: ReservedVariables = ReservedVariables {
    names: &["BASH_ENV", "ENV", "GNUMAKEFLAGS", "HOME", "IFS", "MAKEFLAGS", "PATH", "SHELL", "TMPDIR"],
    prefixes: &["GIT_", "LD_", "PROCTOR_"],
    prefixes_in_any_case: &[],
};

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
    let is_version_manager = VERSION_MANAGERS.iter().any(|(variable, _)| *variable == name);
    if RESERVED.contains(name) || is_version_manager || reserves_variable(name) {
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
    }
}

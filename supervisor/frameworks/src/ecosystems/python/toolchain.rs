//! What Python needs from the host and from a run.

use crate::contract::{Environments, IgnoredDirs, Probe, ReservedVariables, Toolchain};

/// Interpreters of virtual environments within a project.
pub(super) const INTERPRETERS: &[&str] = &[".venv/bin/python", "venv/bin/python"];

/// Python.
pub(crate) static PYTHON: Toolchain = Toolchain {
    name: "python",
    probe: Some(Probe {
        program: "python3",
        argument: "--version",
        remedy: "install Python 3.9 or newer (Debian: apt-get install python3)",
    }),
    installations: &[("PYENV_ROOT", ".pyenv")],
    home_dirs: &[
        ".local/pipx/venvs",
        ".local/share/pipx/venvs",
        ".local/share/uv/python",
        ".local/share/uv/tools",
        ".pyenv",
        "miniconda3",
    ],
    local_bin_libraries: &[
        ".local/pipx/venvs",
        ".local/share/pipx/venvs",
        ".local/share/uv/python",
        ".local/share/uv/tools",
    ],
    // A virtual environment, conda, any other installation.
    installation_markers: &["pyvenv.cfg", "conda-meta", "lib/python3*"],
    environments: Some(Environments {
        interpreters: INTERPRETERS,
        installation_marker: "lib/python3*",
        environment_marker: "pyvenv.cfg",
    }),
    caches: &[("PIP_CACHE_DIR", "pip"), ("UV_CACHE_DIR", "uv")],
    reserved: ReservedVariables {
        names: &[
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
        ],
        ..ReservedVariables::NONE
    },
    ignored_dirs: IgnoredDirs {
        always: &["__pycache__", ".venv"],
        tagged: &[".hypothesis", ".mypy_cache", ".nox", ".ruff_cache", ".tox"],
        tagged_with: &["pyvenv.cfg"],
    },
    ..Toolchain::DEFAULT
};

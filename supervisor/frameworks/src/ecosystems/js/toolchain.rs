//! What Node.js and its package managers need from the host and from a run.

use crate::contract::{DownloadAccess, HostDownloads, HostPath, IgnoredDirs, Probe, ReservedVariables, Toolchain};

/// Node.js, with npm, pnpm and Yarn.
pub(crate) static NODE: Toolchain = Toolchain {
    name: "node",
    probe: Some(Probe {
        program: "node",
        argument: "--version",
        remedy: "install Node.js 20 or newer (Debian: apt-get install nodejs)",
    }),
    installations: &[("NODENV_ROOT", ".nodenv"), ("VOLTA_HOME", ".volta")],
    home_dirs: &[".fnm", ".local/share/fnm", ".local/share/pnpm", ".nodenv", ".nvm/versions", ".volta"],
    local_bin_libraries: &[".local/share/pnpm"],
    installation_markers: &["lib/node_modules", "include/node"],
    downloads: &[
        // Yarn's cache holds packages as archives.
        HostDownloads {
            locations: &[HostPath::Variable("YARN_GLOBAL_FOLDER", "cache"), HostPath::Home(".yarn/berry/cache")],
            parts: &[],
            access: DownloadAccess::InPlace,
        },
        // pnpm links all projects to its store.
        HostDownloads {
            locations: &[
                HostPath::Variable("PNPM_HOME", "store"),
                HostPath::Variable("XDG_DATA_HOME", "pnpm/store"),
                HostPath::Home(".local/share/pnpm/store"),
            ],
            parts: &[],
            access: DownloadAccess::InPlace,
        },
    ],
    caches: &[("YARN_CACHE_FOLDER", "yarn"), ("npm_config_cache", "npm")],
    reserved: ReservedVariables {
        names: &["NODE_OPTIONS", "NODE_PATH"],
        prefixes_in_any_case: &["npm_config_"],
        ..ReservedVariables::NONE
    },
    ignored_dirs: IgnoredDirs { always: &["node_modules"], ..IgnoredDirs::NONE },
    ..Toolchain::DEFAULT
};

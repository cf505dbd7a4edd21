//! What Cargo and rustup need from the host and from a run.

use crate::contract::{
    DownloadAccess, HostDownloads, HostPath, IgnoredDirs, Probe, ReservedVariables, RunCondition, RunVariable,
    ToolHome, Toolchain,
};

/// Rust.
pub(crate) static RUST: Toolchain = Toolchain {
    name: "rust",
    probe: Some(Probe {
        program: "cargo",
        argument: "--version",
        remedy: "install Rust with rustup and put cargo on the supervisor's PATH",
    }),
    installations: &[("RUSTUP_HOME", ".rustup")],
    home_dirs: &[".rustup"],
    user_dir: &[HostPath::Variable("CARGO_HOME", ""), HostPath::Home(".cargo")],
    downloads: &[HostDownloads {
        locations: &[HostPath::Variable("CARGO_HOME", ""), HostPath::Home(".cargo")],
        parts: &["registry", "git"],
        access: DownloadAccess::Home { variable: "CARGO_HOME", needed: "registry", own: "cargo/registry/cache" },
    }],
    homes: &[ToolHome { variable: "CARGO_HOME", dir: ".cargo", kept: &["registry", "git"] }],
    variables: &[
        RunVariable { name: "CARGO_NET_OFFLINE", value: "true", when: RunCondition::Offline },
        // Runs only read what rustup has installed. With automatic installation off, missing components are skipped, and a
        // missing toolchain is an error instead of a download.
        RunVariable { name: "RUSTUP_AUTO_INSTALL", value: "0", when: RunCondition::Installed("RUSTUP_HOME") },
    ],
    // The toolchain chosen by the host's user overrides the project's.
    passed_through: &["RUSTUP_TOOLCHAIN"],
    reserved: ReservedVariables {
        names: &[
            "RUSTC",
            "RUSTC_BOOTSTRAP",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_WRAPPER",
            "RUSTDOC",
            "RUSTDOCFLAGS",
            "RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
        ],
        prefixes: &["CARGO_", "RUST_TEST_"],
        ..ReservedVariables::NONE
    },
    ignored_dirs: IgnoredDirs { tagged: &["target"], tagged_with: &[".rustc_info.json"], ..IgnoredDirs::NONE },
    ..Toolchain::DEFAULT
};

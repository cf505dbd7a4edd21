//! Patterns of every language and of the operating system, tried after those of the run's own language.

use super::Pattern;
use crate::analysis::kind::Kind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(Kind::MissingDependency, "^not downloaded, and the run has no network: {remedy}", "{remedy}"),
    Pattern::new(
        Kind::MissingDependency,
        "the run has no network: run it once with --network host{rest}",
        "run it once with --network host{rest}",
    ),
    Pattern::new(
        Kind::MissingEnvironmentVariable,
        "environment variable {name} is not set",
        "set {name} for the run: `env` in the request, `--env {name}=...`, or `environment` in .proctor.yaml",
    ),
    Pattern::new(
        Kind::MissingEnvironmentVariable,
        "required environment variable {name}",
        "set {name} for the run: `env` in the request, `--env {name}=...`, or `environment` in .proctor.yaml",
    ),
    Pattern::new(
        Kind::AddressInUse,
        "address already in use",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(Kind::NetworkRefused, "no such host", ""),
    Pattern::new(Kind::NetworkRefused, "network is unreachable", ""),
    Pattern::new(Kind::NetworkRefused, "dial tcp: lookup {host}", ""),
    Pattern::new(Kind::NetworkRefused, "Could not resolve host", ""),
    Pattern::new(Kind::NetworkRefused, "Temporary failure in name resolution", ""),
    Pattern::new(
        Kind::ConnectionRefused,
        "connection refused",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(Kind::PermissionDenied, "read-only file system", ""),
    Pattern::new(Kind::PermissionDenied, "permission denied", ""),
    Pattern::new(Kind::DiskFull, "No space left on device", ""),
    Pattern::new(Kind::DiskFull, "no space left on device", ""),
    Pattern::new(Kind::OutOfMemory, "cannot allocate memory", ""),
    Pattern::new(Kind::FileNotFound, "open {path}: no such file or directory", "{path} does not exist in the sandbox"),
    Pattern::new(Kind::FileNotFound, "No such file or directory", "the file does not exist in the sandbox"),
    Pattern::new(Kind::FileNotFound, "no such file or directory", "the file does not exist in the sandbox"),
    Pattern::new(
        Kind::MissingEnvironmentVariable,
        "{name} is not set",
        "if {name} is an environment variable, set it for the run: `env` in the request or `--env {name}=...`",
    ),
];

//! Patterns of every language and of the operating system, tried after those of the run's own language.

use super::Pattern;
use crate::analysis::failure_kind::FailureKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(FailureKind::MissingDependency, "^not downloaded, and the run has no network: {remedy}", "{remedy}"),
    Pattern::new(
        FailureKind::MissingDependency,
        "the run has no network: run it once with --network host{rest}",
        "run it once with --network host{rest}",
    ),
    Pattern::new(
        FailureKind::MissingEnvironmentVariable,
        "environment variable {name} is not set",
        "set {name} for the run: `env` in the request, `--env {name}=...`, or `environment` in .proctor.yaml",
    ),
    Pattern::new(
        FailureKind::MissingEnvironmentVariable,
        "required environment variable {name}",
        "set {name} for the run: `env` in the request, `--env {name}=...`, or `environment` in .proctor.yaml",
    ),
    Pattern::new(
        FailureKind::AddressInUse,
        "address already in use",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(
        FailureKind::AddressInUse,
        "Address already in use",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(FailureKind::NetworkRefused, "Name or service not known", ""),
    Pattern::new(FailureKind::NetworkRefused, "Network is unreachable", ""),
    Pattern::new(
        FailureKind::ConnectionRefused,
        "Connection refused",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(FailureKind::PermissionDenied, "Read-only file system", ""),
    Pattern::new(FailureKind::PermissionDenied, "Permission denied", ""),
    Pattern::new(FailureKind::OutOfMemory, "Cannot allocate memory", ""),
    Pattern::new(FailureKind::NetworkRefused, "no such host", ""),
    Pattern::new(FailureKind::NetworkRefused, "network is unreachable", ""),
    Pattern::new(FailureKind::NetworkRefused, "dial tcp: lookup {host}", ""),
    Pattern::new(FailureKind::NetworkRefused, "Could not resolve host", ""),
    Pattern::new(FailureKind::NetworkRefused, "Temporary failure in name resolution", ""),
    Pattern::new(
        FailureKind::ConnectionRefused,
        "connection refused",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(FailureKind::PermissionDenied, "read-only file system", ""),
    Pattern::new(FailureKind::PermissionDenied, "permission denied", ""),
    Pattern::new(FailureKind::DiskFull, "No space left on device", ""),
    Pattern::new(FailureKind::DiskFull, "no space left on device", ""),
    Pattern::new(FailureKind::OutOfMemory, "cannot allocate memory", ""),
    Pattern::new(FailureKind::FileNotFound, "open {path}: no such file or directory", "the run finds no file {path}"),
    Pattern::new(FailureKind::FileNotFound, "No such file or directory", "the run does not find the file"),
    Pattern::new(FailureKind::FileNotFound, "no such file or directory", "the run does not find the file"),
    Pattern::new(
        FailureKind::MissingEnvironmentVariable,
        "{name} is not set",
        "if {name} is an environment variable, set it for the run: `env` in the request or `--env {name}=...`",
    ),
];

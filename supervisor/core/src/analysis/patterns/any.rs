//! Patterns of every language and of the operating system, tried after those of the run's own language.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

/// How proctor's own remedy for a missing download begins. What follows it may be the text of a test, so that the suggestions are whole.
pub(in crate::analysis) const NOT_DOWNLOADED: &str =
    "not downloaded, and the run has no network: run it once with --network host";

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        PatternKind::MissingDependency,
        "^not downloaded, and the run has no network: run it once with --network host, or `cargo fetch` as the host's user",
        "run it once with --network host, or `cargo fetch` as the host's user",
    ),
    Pattern::new(
        PatternKind::MissingDependency,
        "^not downloaded, and the run has no network: run it once with --network host, or `go mod download` as the host's user",
        "run it once with --network host, or `go mod download` as the host's user",
    ),
    Pattern::new(
        PatternKind::MissingDependency,
        "^not downloaded, and the run has no network: run it once with --network host, or `mvn dependency:go-offline` as the host's user",
        "run it once with --network host, or `mvn dependency:go-offline` as the host's user",
    ),
    Pattern::new(
        PatternKind::MissingDependency,
        "^not downloaded, and the run has no network: run it once with --network host",
        "run it once with --network host",
    ),
    Pattern::new(
        PatternKind::MissingEnvironmentVariable,
        "environment variable {name} is not set",
        "set {name} for the run: `env` in the request, `--env {name}=...`, or `environment` in .proctor.yaml",
    ),
    Pattern::new(
        PatternKind::MissingEnvironmentVariable,
        "required environment variable {name}",
        "set {name} for the run: `env` in the request, `--env {name}=...`, or `environment` in .proctor.yaml",
    ),
    Pattern::new(
        PatternKind::AddressInUse,
        "address already in use",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(
        PatternKind::AddressInUse,
        "Address already in use",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(PatternKind::NetworkRefused, "Name or service not known", ""),
    Pattern::new(PatternKind::NetworkRefused, "Network is unreachable", ""),
    Pattern::new(
        PatternKind::ConnectionRefused,
        "Connection refused",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(PatternKind::PermissionDenied, "Read-only file system", ""),
    Pattern::new(PatternKind::PermissionDenied, "Permission denied", ""),
    Pattern::new(PatternKind::OutOfMemory, "Cannot allocate memory", ""),
    Pattern::new(PatternKind::NetworkRefused, "no such host", ""),
    Pattern::new(PatternKind::NetworkRefused, "network is unreachable", ""),
    Pattern::new(PatternKind::NetworkRefused, "dial tcp: lookup {host}", ""),
    Pattern::new(PatternKind::NetworkRefused, "Could not resolve host", ""),
    Pattern::new(PatternKind::NetworkRefused, "Temporary failure in name resolution", ""),
    Pattern::new(
        PatternKind::ConnectionRefused,
        "connection refused",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(PatternKind::PermissionDenied, "read-only file system", ""),
    Pattern::new(PatternKind::PermissionDenied, "permission denied", ""),
    Pattern::new(PatternKind::DiskFull, "No space left on device", ""),
    Pattern::new(PatternKind::DiskFull, "no space left on device", ""),
    Pattern::new(PatternKind::OutOfMemory, "cannot allocate memory", ""),
    Pattern::new(PatternKind::FileNotFound, "open {path}: no such file or directory", "the run finds no file {path}"),
    Pattern::new(PatternKind::FileNotFound, "No such file or directory", "the run does not find the file"),
    Pattern::new(PatternKind::FileNotFound, "no such file or directory", "the run does not find the file"),
    Pattern::new(
        PatternKind::MissingEnvironmentVariable,
        "{name} is not set",
        "if {name} is an environment variable, set it for the run: `env` in the request or `--env {name}=...`",
    ),
];

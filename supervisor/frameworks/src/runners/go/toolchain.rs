//! What Go needs from the host and from a run.

use super::testing_overlay;
use crate::contract::{
    DownloadAccess, HostDownloads, HostPath, Probe, ReservedVariables, RunCondition, RunVariable, Toolchain,
};

/// Go.
pub(crate) static GO: Toolchain = Toolchain {
    name: "go",
    probe: Some(Probe {
        program: "go",
        argument: "version",
        remedy: "install Go 1.21 or newer and put its bin directory on the supervisor's PATH",
    }),
    installation_markers: &["pkg/tool"],
    sources: testing_overlay::SOURCES,
    user_dir: &[HostPath::ListVariable("GOPATH", ""), HostPath::Home("go")],
    // Modules that the host's user has downloaded serve as a module proxy.
    downloads: &[HostDownloads {
        locations: &[
            HostPath::Variable("GOMODCACHE", "cache/download"),
            HostPath::ListVariable("GOPATH", "pkg/mod/cache/download"),
            HostPath::Home("go/pkg/mod/cache/download"),
        ],
        parts: &[],
        access: DownloadAccess::Source {
            variable: "GOPROXY",
            online: "https://proxy.golang.org,direct",
            offline: "off",
        },
    }],
    caches: &[("GOCACHE", "go-build"), ("GOMODCACHE", "go-mod")],
    // The owner of a cache must be able to remove its contents.
    variables: &[RunVariable { name: "GOFLAGS", value: "-modcacherw", when: RunCondition::Always }],
    reserved: ReservedVariables {
        names: &["GOENV", "GOFLAGS", "GOPATH", "GOPROXY", "GOROOT", "GOSUMDB", "GOTMPDIR", "GOTOOLCHAIN", "GOWORK"],
        ..ReservedVariables::NONE
    },
    ..Toolchain::DEFAULT
};

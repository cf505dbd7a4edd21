//! What a JVM, and the repository that its build tools share, need from the host and from a run.

use crate::contract::{DownloadAccess, HostDownloads, HostPath, IgnoredDirs, Probe, ReservedVariables, Toolchain};

/// A JVM with Maven's local repository.
pub(crate) static JVM: Toolchain = Toolchain {
    name: "java",
    probe: Some(Probe {
        program: "java",
        argument: "-version",
        remedy: "install a JDK 17 or newer (Debian: apt-get install default-jdk)",
    }),
    installations: &[("JAVA_HOME", "")],
    home_dirs: &[".jdks", ".sdkman/candidates"],
    installation_markers: &["lib/modules", "jre/lib"],
    downloads: &[HostDownloads {
        // Maven has no variable for its repository; users who move it set an option in one of these.
        locations: &[
            HostPath::Option("MAVEN_OPTS", "-Dmaven.repo.local="),
            HostPath::Option("MAVEN_ARGS", "-Dmaven.repo.local="),
            HostPath::Home(".m2/repository"),
        ],
        parts: &[],
        // A JVM takes the home from the user database, which does not know a run's HOME. Without a network Maven only reads the
        // repository, as does Gradle (`mavenLocal`).
        access: DownloadAccess::Options {
            variables: &["GRADLE_OPTS", "MAVEN_OPTS"],
            value: "-Duser.home={home} -Dmaven.repo.local={downloads}",
            own: "m2/repository",
        },
    }],
    reserved: ReservedVariables {
        names: &["JAVACMD", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"],
        ..ReservedVariables::NONE
    },
    ignored_dirs: IgnoredDirs { always: &[".kotlin"], ..IgnoredDirs::NONE },
    ..Toolchain::DEFAULT
};

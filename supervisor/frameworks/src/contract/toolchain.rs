//! What a tool of frameworks needs from the host and from a run, as data: installations, downloads, caches, variables.

/// The tools of one language, or a tool that several frameworks share.
#[derive(Debug, Clone, Copy)]
pub struct Toolchain {
    /// Its name, unique among toolchains.
    pub name: &'static str,
    /// How `proctor doctor` checks it.
    pub probe: Option<Probe>,
    /// Installation directories that a run finds through a variable, since its HOME is another one: variable, and default path
    /// below the host user's home, empty for none.
    pub installations: &'static [(&'static str, &'static str)],
    /// Files of the installation that the probe's program is of, from which plans make changed copies
    /// ([`ToolchainSources`](crate::ToolchainSources)).
    pub sources: &'static [&'static str],
    /// Directories of a home that hold only installed toolchains: no settings, credentials or history.
    pub home_dirs: &'static [&'static str],
    /// Directories of a home with the libraries of programs in `~/.local/bin`.
    pub local_bin_libraries: &'static [&'static str],
    /// Paths that mark the directory they are in as an installation. The last part may end in `*`.
    pub installation_markers: &'static [&'static str],
    /// The host user's directory for the tool, of which runs see only the programs; the first candidate that is set.
    pub user_dir: &'static [HostPath],
    /// Interpreters that a project may bring along.
    pub environments: Option<Environments>,
    /// Downloads of the host's user that runs read.
    pub downloads: &'static [HostDownloads],
    /// Caches: variable, and path below the directory that outlives runs. The tool looks for no settings in them.
    pub caches: &'static [(&'static str, &'static str)],
    /// Home directories of the tool, in which it keeps settings beside caches.
    pub homes: &'static [ToolHome],
    /// Variables that every run gets.
    pub variables: &'static [RunVariable],
    /// Variables of the supervisor's environment that runs get unchanged.
    pub passed_through: &'static [&'static str],
    /// Variables that a request may not set, besides those of `installations`, `caches` and `homes`.
    pub reserved: ReservedVariables,
    /// Directories that a scan of the workspace ignores.
    pub ignored_dirs: IgnoredDirs,
}

/// A program whose version shows that a toolchain works.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Name of the program.
    pub program: &'static str,
    /// The argument that prints its version.
    pub argument: &'static str,
    /// How to install it.
    pub remedy: &'static str,
}

/// A place on the host that belongs to the host's user.
#[derive(Debug, Clone, Copy)]
pub enum HostPath {
    /// A path below the absolute directory in a variable.
    Variable(&'static str, &'static str),
    /// A path below the first entry of the list in a variable.
    ListVariable(&'static str, &'static str),
    /// The value of an option with this prefix, in a variable with options.
    Option(&'static str, &'static str),
    /// A path below the home.
    Home(&'static str),
}

/// Interpreters in environments that a project has beside its files, often links to an installation.
#[derive(Debug, Clone, Copy)]
pub struct Environments {
    /// Paths of the interpreters, relative to the workspace.
    pub interpreters: &'static [&'static str],
    /// Marks an installation of the language, as in [`Toolchain::installation_markers`].
    pub installation_marker: &'static str,
    /// Marks another environment, which is no installation.
    pub environment_marker: &'static str,
}

/// Downloads of the host's user. Runs read and never write them.
#[derive(Debug, Clone, Copy)]
pub struct HostDownloads {
    /// Candidate directories; the first that is set counts, and only if it exists.
    pub locations: &'static [HostPath],
    /// The parts that runs read, relative to the directory; empty for all of it.
    pub parts: &'static [&'static str],
    /// How a run finds them.
    pub access: DownloadAccess,
}

/// How a run finds the downloads of the host's user.
#[derive(Debug, Clone, Copy)]
pub enum DownloadAccess {
    /// The tool finds them by itself.
    InPlace,
    /// As a `file://` source before the network, in a variable with sources separated by commas.
    Source {
        /// The variable.
        variable: &'static str,
        /// The further sources of a run with a network.
        online: &'static str,
        /// The same of a run without one.
        offline: &'static str,
    },
    /// Linked into the run's home directory of the tool, in a run without a network.
    Home {
        /// The variable of the [`ToolHome`].
        variable: &'static str,
        /// The part of the downloads without which they are not used.
        needed: &'static str,
        /// A directory below the workspace's cache; once it exists, the workspace has downloads of its own.
        own: &'static str,
    },
    /// By a path in options of variables, in a run without a network. Else the path is `own`, below the workspace's cache.
    Options {
        /// The variables.
        variables: &'static [&'static str],
        /// Their value: `{home}` stands for the run's home, `{downloads}` for the path.
        value: &'static str,
        /// The workspace's own downloads below its cache; once they exist, they are used.
        own: &'static str,
    },
}

/// A home directory of a tool that keeps settings and caches in one. Each run gets an empty directory below its HOME, in which
/// only the kept entries are links to what outlives the run.
#[derive(Debug, Clone, Copy)]
pub struct ToolHome {
    /// The variable with its path.
    pub variable: &'static str,
    /// The directory below HOME.
    pub dir: &'static str,
    /// Names of the kept entries.
    pub kept: &'static [&'static str],
}

/// A variable that runs get.
#[derive(Debug, Clone, Copy)]
pub struct RunVariable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
    /// Which runs get it.
    pub when: RunCondition,
}

/// Which runs get a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunCondition {
    /// All runs.
    Always,
    /// Runs without a network.
    Offline,
    /// Runs on a host with the installation of this variable.
    Installed(&'static str),
}

/// Variables that decide what runs, how its result is judged or where it writes. A request may not set them.
#[derive(Debug, Clone, Copy)]
pub struct ReservedVariables {
    /// Names.
    pub names: &'static [&'static str],
    /// Beginnings of names: options of a tool such as filters, retries, and which files are tests.
    pub prefixes: &'static [&'static str],
    /// Beginnings of names that the tool reads in upper and lower case.
    pub prefixes_in_any_case: &'static [&'static str],
}

/// Directories that a scan of the workspace ignores: scanning them is expensive and reveals no edit, and a run that fills them
/// must not look like an edit.
#[derive(Debug, Clone, Copy)]
pub struct IgnoredDirs {
    /// Names that are always ignored. Names that a project might choose itself are not listed.
    pub always: &'static [&'static str],
    /// Names that are ignored if the directory has a `CACHEDIR.TAG`.
    pub tagged: &'static [&'static str],
    /// Entries that make a directory with a `CACHEDIR.TAG` ignored, whatever its name.
    pub tagged_with: &'static [&'static str],
}

impl ReservedVariables {
    /// No variables.
    pub(crate) const NONE: ReservedVariables =
        ReservedVariables { names: &[], prefixes: &[], prefixes_in_any_case: &[] };

    /// Whether `name` is one of them.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        let has_prefix_in_any_case =
            |prefix: &&str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        self.names.contains(&name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
            || self.prefixes_in_any_case.iter().any(has_prefix_in_any_case)
    }
}

impl IgnoredDirs {
    /// No directories.
    pub(crate) const NONE: IgnoredDirs = IgnoredDirs { always: &[], tagged: &[], tagged_with: &[] };
}

impl Toolchain {
    /// A toolchain that needs nothing.
    pub(crate) const DEFAULT: Toolchain = Toolchain {
        name: "",
        probe: None,
        installations: &[],
        sources: &[],
        home_dirs: &[],
        local_bin_libraries: &[],
        installation_markers: &[],
        user_dir: &[],
        environments: None,
        downloads: &[],
        caches: &[],
        homes: &[],
        variables: &[],
        passed_through: &[],
        reserved: ReservedVariables::NONE,
        ignored_dirs: IgnoredDirs::NONE,
    };

    /// Whether a request may not set `name`, since it belongs to this toolchain.
    #[must_use]
    pub fn reserves(&self, name: &str) -> bool {
        self.reserved.contains(name)
            || self.installations.iter().chain(self.caches).any(|(variable, _)| *variable == name)
            || self.homes.iter().any(|home| home.variable == name)
    }
}

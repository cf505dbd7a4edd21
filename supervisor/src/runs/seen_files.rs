//! What a run saw of its workspace and host: recorded after a run whose tests can be selected by later changes.

use super::context::{Context, ScanPermit, ScanPermits};
use crate::hash_prefix::hash_prefix;
use crate::workspace::{Workspace, metadata_hash};
use proctor_core::report::Report;
use proctor_core::selection::{Ecosystem, SeenFiles, Snapshot};
use proctor_core::timestamp::Timestamp;
use proctor_sandbox::CommandSpec;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Most programs of one run that are remembered: those of a framework's steps are a few.
const PROGRAMS_MAX: usize = 32;

/// Most directories of libraries beside one program: one for each version of Python in an environment.
const LIBRARIES_MAX: usize = 8;

/// Records what a run saw, once it has ended.
pub(super) struct SeenFilesRecorder {
    pub(super) context: Arc<Context>,
    pub(super) scan_permits: ScanPermits,
    pub(super) runtime: Handle,
    pub(super) workspace: Workspace,
    /// The snapshot of the session, whose files need not be read again.
    pub(super) earlier: Option<Arc<Snapshot>>,
    /// When the workspace was scanned for a selection that the run executes.
    pub(super) selected_at: Option<Timestamp>,
    /// The hash of its programs before the run.
    pub(super) tools: BTreeMap<String, u64>,
}

impl SeenFilesRecorder {
    /// What the run of `report` saw; `None` if its tests cannot be selected anyway, or the workspace cannot be scanned.
    pub(super) fn record(self, report: &Report) -> Option<SeenFiles> {
        Ecosystem::of_framework(&report.framework)?;
        let mut permit = self.runtime.block_on(ScanPermit::acquire(&self.scan_permits, &self.context.scan_permits));
        let scan = loop {
            match self.workspace.scan_within(&mut || permit.try_enlarge()) {
                Ok(Some(scan)) => break scan,
                Ok(None) => permit = self.runtime.block_on(permit.enlarge()),
                Err(error) => {
                    tracing::warn!(%error, "the files that a run saw are not known");
                    return None;
                }
            }
        };
        let began_at = self.context.clock.for_file_times(self.selected_at.unwrap_or(report.started_at));
        let snapshot = self.workspace.snapshot(&scan, self.earlier.as_deref(), Some(began_at));
        Some(SeenFiles { snapshot: Arc::new(snapshot), tools: self.tools })
    }
}

/// The programs of these commands, each with a hash of what it is now; none for a framework whose tests cannot be selected.
pub fn tools_of(framework: &str, commands: &[CommandSpec]) -> BTreeMap<String, u64> {
    let mut tools = BTreeMap::new();
    let Some(ecosystem) = Ecosystem::of_framework(framework) else { return tools };
    for command in commands {
        let beside: Vec<PathBuf> = match ecosystem {
            Ecosystem::JavaScript => command.dir.ancestors().map(|dir| dir.join(PACKAGES)).collect(),
            // What it installs is not beside rustup's programs.
            Ecosystem::Rust => {
                command.env.iter().filter(|(name, _)| name == RUSTUP).map(|(_, dir)| dir.into()).collect()
            }
            Ecosystem::Go | Ecosystem::Python => Vec::new(),
        };
        for dir in beside.into_iter().filter(|dir| dir.is_dir()) {
            tools.entry(dir.to_string_lossy().into_owned()).or_insert_with(|| tool_hash(&dir));
        }
        if tools.len() < PROGRAMS_MAX {
            let program = command.program.to_string_lossy().into_owned();
            tools.entry(program).or_insert_with(|| tool_hash(&command.program));
        }
    }
    tools
}

/// The name of a program that is not what it was.
pub(super) fn changed_tool(before: &BTreeMap<String, u64>) -> Option<String> {
    let changed = before.iter().find(|(program, hash)| tool_hash(Path::new(program)) != **hash);
    changed.map(|(program, _)| name_of(program))
}

/// The name of a program that an earlier run did not have.
pub fn other_tool(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Option<String> {
    now.keys().find(|program| !before.contains_key(*program)).map(|program| name_of(program))
}

fn name_of(program: &str) -> String {
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

/// Directory of the packages that a JavaScript project has installed.
const PACKAGES: &str = "node_modules";

/// Files in it that npm, pnpm and Yarn write whenever they install something.
const INSTALLED: [&str; 5] =
    [".package-lock.json", ".modules.yaml", ".pnpm/lock.yaml", ".yarn-integrity", ".yarn-state.yml"];

/// Variable that names rustup's directory.
const RUSTUP: &str = "RUSTUP_HOME";

/// Most toolchains that are looked at.
const TOOLCHAINS_MAX: usize = 100;

// A hash of the program, of what its environment has installed, and of the toolchain's version. A library that is edited in place is
// not seen.
fn tool_hash(program: &Path) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts_of(program) {
        hasher.update(part.as_os_str().as_encoded_bytes());
        let hash = fs::metadata(&part).map_or(0, |found| metadata_hash(&found));
        hasher.update(&hash.to_le_bytes());
    }
    u64::from_le_bytes(hash_prefix(&hasher.finalize()))
}

/// The files and directories that change with a program or with installed packages.
fn parts_of(program: &Path) -> Vec<PathBuf> {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let below = |names: &[&str]| names.iter().map(|name| real.join(name)).collect();
    if program.ends_with(PACKAGES) {
        // What tests leave there is no package.
        return below(&INSTALLED);
    }
    if real.is_dir() {
        return parts_of_rustup(&real);
    }
    let mut parts = vec![program.to_owned(), real.clone()];
    for dir in [program, &real].into_iter().filter_map(|program| Some(program.parent()?.parent()?.to_owned())) {
        parts.extend([dir.join("VERSION"), dir.join("pyvenv.cfg")]);
        parts.extend(libraries(&dir.join("lib")));
    }
    parts
}

/// What rustup writes whenever it installs, updates or chooses a toolchain.
fn parts_of_rustup(dir: &Path) -> Vec<PathBuf> {
    let entries = |name: &str| {
        let found = fs::read_dir(dir.join(name)).into_iter().flatten().flatten().take(TOOLCHAINS_MAX);
        found.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let manifests =
        entries("toolchains").into_iter().map(|path| path.join("lib/rustlib/multirust-channel-manifest.toml"));
    let mut parts: Vec<PathBuf> = entries("update-hashes").into_iter().chain(manifests).collect();
    parts.sort();
    parts.push(dir.join("settings.toml"));
    parts
}

fn libraries(lib: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(lib).into_iter().flatten().flatten();
    let of_python = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python"));
    let mut found: Vec<PathBuf> = of_python
        .take(LIBRARIES_MAX)
        .flat_map(|entry| ["site-packages", "dist-packages"].map(|name| entry.path().join(name)))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_library_or_another_program_changes_the_tools() {
        let dir = tempfile::tempdir().unwrap();
        let libraries = dir.path().join("lib/python3.13/site-packages");
        fs::create_dir_all(&libraries).unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        let program = dir.path().join("bin/python");
        fs::write(&program, "").unwrap();
        let command = CommandSpec { program, args: Vec::new(), dir: dir.path().to_owned(), env: Vec::new() };
        let before = tools_of("pytest", &[command.clone(), command.clone()]);
        assert_eq!((before.len(), changed_tool(&before)), (1, None));
        fs::create_dir(libraries.join("attrs-25.1.dist-info")).unwrap();
        assert_eq!(changed_tool(&before), Some("python".to_owned()));
        let other = tools_of("pytest", &[CommandSpec { program: "/bin/sh".into(), ..command.clone() }]);
        assert_eq!(other_tool(&before, &other), Some("sh".to_owned()));
        assert_eq!(other_tool(&before, &before), None);
        assert!(tools_of("gradle", &[command]).is_empty());
    }

    #[test]
    fn a_toolchain_that_rustup_installs_changes_the_tools() {
        let rustup = tempfile::tempdir().unwrap();
        let hash = rustup.path().join("update-hashes/stable");
        fs::create_dir(rustup.path().join("update-hashes")).unwrap();
        fs::write(&hash, "1").unwrap();
        let env = vec![(RUSTUP.to_owned(), rustup.path().to_str().unwrap().to_owned())];
        let command = CommandSpec { program: "/bin/sh".into(), args: Vec::new(), dir: "/".into(), env };
        let before = tools_of("cargo", &[command]);
        assert_eq!((before.len(), changed_tool(&before)), (2, None));
        fs::write(&hash, "another").unwrap();
        assert!(changed_tool(&before).is_some());
    }

    #[test]
    fn installed_packages_of_javascript_change_the_tools() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("packages/shop");
        fs::create_dir_all(&project).unwrap();
        fs::create_dir(dir.path().join("node_modules")).unwrap();
        let command = CommandSpec { program: "/bin/sh".into(), args: Vec::new(), dir: project, env: Vec::new() };
        let before = tools_of("jest", &[command]);
        assert_eq!((before.len(), changed_tool(&before)), (2, None));
        fs::write(dir.path().join("node_modules/.package-lock.json"), "{}").unwrap();
        assert_eq!(changed_tool(&before), Some("node_modules".to_owned()));
    }
}

//! The trait that every checker implements, and what it exchanges with the choice and the parser.

use crate::contract::{FileTree, InjectedFile, PlanRequest, ReservedVariables, Step, Toolchain};
use crate::parsing::workspace_paths::is_within;
use proctor_core::check::{CheckKind, CheckerStatus, Finding};

/// What a checker declares about itself, as data.
#[derive(Debug, Clone, Copy)]
pub struct CheckerManifest {
    /// Name in requests and reports: `ruff`.
    pub name: &'static str,
    /// What it looks for.
    pub kind: CheckKind,
    /// What selects it, for documentation and for the error of a workspace without it.
    pub selected_by: &'static str,
    /// Names of files whose content selection reads.
    pub markers: &'static [&'static str],
    /// Names of files that decide what it finds in others, in lists: at most one `*` in each, and a directory before
    /// `/` where the name alone is not its own.
    pub settings: &'static [&'static [&'static str]],
    /// Extensions of the files that it checks, without the dot.
    pub extensions: &'static [&'static str],
    /// Variables that a request may not set: they decide what is checked, by which rules, or whether it fails.
    pub reserved: ReservedVariables,
    /// The tools that it needs beside itself.
    pub toolchains: &'static [&'static Toolchain],
    /// How to install it, as a sentence of what to do.
    pub remedy: &'static str,
    /// What leaves out files that were named, as the beginning of a sentence that goes on with them; empty if its output
    /// does not show which files it read.
    pub leaves_out: &'static str,
    /// A smallest project that selects it, for tests: path and content of each file.
    pub sample: &'static [(&'static str, &'static str)],
}

impl CheckerManifest {
    /// A checker that needs and reserves nothing.
    pub(crate) const DEFAULT: CheckerManifest = CheckerManifest {
        name: "",
        kind: CheckKind::Lint,
        selected_by: "",
        markers: &[],
        settings: &[],
        extensions: &[],
        reserved: ReservedVariables::NONE,
        toolchains: &[],
        remedy: "",
        leaves_out: "",
        sample: &[],
    };
}

/// A linter or type checker.
pub trait Checker: Send + Sync {
    /// What it declares about itself.
    fn manifest(&self) -> &'static CheckerManifest;

    /// The projects whose own settings select it, sorted by directory.
    fn detect(&self, tree: &FileTree) -> Vec<CheckProject>;

    /// The projects when the request names it: also those that would use its defaults.
    fn detect_explicit(&self, tree: &FileTree) -> Vec<CheckProject> {
        self.detect(tree)
    }

    /// The checker that runs in a project if this one is not installed.
    fn substitute(&self) -> Option<&'static dyn Checker> {
        None
    }

    /// The commands that check `run.files` in one project, or all of it. Usually one; of several, each reads some of the
    /// files.
    fn plan(&self, tree: &FileTree, run: &CheckerRun<'_>, request: &PlanRequest<'_>) -> Vec<CheckerCommand>;

    /// Findings and end of one command, which exited by itself.
    fn read(&self, output: &CheckerOutput<'_>) -> (Vec<Finding>, CheckerStatus);

    /// The files and directories of `output.files` of which this command read nothing.
    fn unread(&self, _output: &CheckerOutput<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// A project of a checker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckProject {
    /// Directory relative to the workspace, `/`-separated, empty for the root.
    pub dir: String,
    /// The settings file that selects the checker, relative to `dir`; empty where none does.
    pub config: String,
}

/// One project to check.
#[derive(Debug, Clone, Copy)]
pub struct CheckerRun<'a> {
    /// The project.
    pub project: &'a CheckProject,
    /// Files and directories of the request within the project, relative to its directory; empty for all.
    pub files: &'a [String],
}

/// One command of a checker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckerCommand {
    /// The command. If none of its programs exists, the checker is missing.
    pub step: Step,
    /// Empty directories that it needs below the scratch directory.
    pub dirs: Vec<String>,
    /// Files that it needs below the scratch directory.
    pub files: Vec<InjectedFile>,
}

/// What one command printed, and how it ended.
#[derive(Debug, Clone, Copy)]
pub struct CheckerOutput<'a> {
    /// Its standard output.
    pub stdout: &'a [u8],
    /// Its standard error.
    pub stderr: &'a [u8],
    /// Its exit status.
    pub status: i32,
    /// Files and directories that it was asked for, relative to where it ran; empty for all.
    pub files: &'a [String],
    /// Where it ran, relative to the workspace.
    pub dir: &'a str,
    /// Absolute path of the workspace as the command saw it.
    pub workspace: &'a str,
}

impl CheckProject {
    pub(crate) fn new(dir: impl Into<String>, config: impl Into<String>) -> CheckProject {
        CheckProject { dir: dir.into(), config: config.into() }
    }

    /// Whether a file or directory of the workspace is within the project.
    pub(crate) fn has(&self, path: &str) -> bool {
        is_within(path, &self.dir)
    }
}

impl CheckerRun<'_> {
    /// The files and directories to check, as arguments that no tool reads as options; `.` for all.
    pub(crate) fn paths(&self) -> Vec<String> {
        if self.files.is_empty() {
            vec![".".to_owned()]
        } else {
            self.files.iter().map(|file| format!("./{file}")).collect()
        }
    }
}

impl CheckerCommand {
    /// A command that needs no files of proctor's own.
    pub(crate) fn of(step: Step) -> CheckerCommand {
        CheckerCommand { step, dirs: Vec::new(), files: Vec::new() }
    }
}

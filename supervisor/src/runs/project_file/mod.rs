//! The project file: settings that the owners of a workspace have fixed for every run in it. A request overrides it,
//! and the tenant's policy bounds both.
//!
//! `keys` declares every key, `schema` describes them for editors, `template` writes a first file.

mod keys;
mod schema;
mod template;
#[cfg(test)]
mod tests;
mod yaml_error;

pub use keys::ProjectFile;
pub use schema::{SCHEMA_FILE, schema};
pub use template::template;

use crate::host::environment::check_env;
use keys::{
    Command, EnvName, EnvValue, Globs, Nested, ParsedGlobs, QuarantinedTest, RelativePath, RetryCount, SandboxTable,
    TimeLimit,
};
use proctor_core::isolation::Network;
use proctor_core::limits::Limits;
use proctor_core::request::{CUSTOM_FRAMEWORK, RunRequest, Selection};
use proctor_frameworks::{FileTree, FrameworkChoice, TestScope};
use yaml_error::parse;

/// Paths relative to the workspace. The first that exists is used; the second keeps everything below the key `testing`.
pub const PATHS: [&str; 2] = [".proctor.yaml", ".agenticorp/testing.yaml"];

/// Common misspellings of these paths, with the right name.
const MISNAMED: [(&str, &str); 2] = [(".proctor.yml", PATHS[0]), (".agenticorp/testing.yml", PATHS[1])];

/// The project file is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {text}")]
pub struct ProjectFileError {
    /// Path of the file, relative to the workspace.
    pub path: &'static str,
    /// What is wrong, with line and key.
    pub text: String,
}

impl ProjectFile {
    /// Reads the project file of a workspace; the default if it has none.
    pub fn from_tree(tree: &FileTree) -> Result<ProjectFile, ProjectFileError> {
        let file = match PATHS.into_iter().find(|path| tree.contains(path)) {
            Some(path) => ProjectFile::read(path, tree)?,
            None => ProjectFile::default(),
        };
        let misnamed = MISNAMED.iter().filter(|(name, _)| tree.contains(name));
        let notes = misnamed.map(|(name, right)| format!("{name} is not read: the project file is called {right}"));
        Ok(ProjectFile { notes: notes.collect(), ..file })
    }

    fn read(path: &'static str, tree: &FileTree) -> Result<ProjectFile, ProjectFileError> {
        let wrong = |text: String| ProjectFileError { path, text };
        let unreadable = || wrong("cannot be read: it must be a regular text file of at most 1 MiB, not a link".into());
        let content = tree.content(path).ok_or_else(unreadable)?;
        let read = match path {
            ".proctor.yaml" => parse(content),
            _ => parse::<Nested>(content).map(|nested| nested.testing),
        };
        read.and_then(|file| file.check(content)).map_err(wrong)
    }

    /// Fills in what `request` leaves open. Also returns notes about settings that do not apply.
    pub fn complete(&self, request: &RunRequest, may_use_network: bool) -> (RunRequest, Vec<String>) {
        let mut notes = self.notes.clone();
        let mut request = request.clone();
        // Settings of tests say nothing about linters and type checkers, which need no network.
        let is_of_tests = request.check.is_none();
        if is_of_tests && request.command.is_empty() && request.framework.is_none() {
            request.framework = self.framework.as_ref().map(|framework| framework.0.clone());
            match (&self.command, &request.framework) {
                (Some(Command(command)), None) => request.command = command.words(),
                (Some(_), Some(framework)) => {
                    notes.push(format!(
                        "the project file's command is not used: {framework}, which it names, has its own"
                    ));
                }
                (None, _) => {}
            }
            if self.report.is_some() && request.command.is_empty() {
                notes.push(
                    "the project file's report is not read: it applies only to the project file's own command"
                        .to_owned(),
                );
            }
        }
        if is_of_tests && request.command.is_empty() {
            request.parallel = request.parallel.or(self.parallel.as_ref().map(|parallel| parallel.0));
        }
        // A request that repeats its tests has said how often they run. The session has made exact tests of a rerun of failures,
        // which the first run has retried already.
        let may_retry = request.repetition.is_once()
            && is_of_tests
            && request.command.is_empty()
            && !request.fresh
            && !matches!(request.selection, Selection::LastFailed { .. } | Selection::Exactly(_));
        if let Some(RetryCount(retries)) = self.retries.as_ref().filter(|_| may_retry) {
            request.repetition.retry_failed = *retries;
        }
        for (EnvName(name), EnvValue(value)) in &self.environment {
            request.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        if is_of_tests && self.sandbox.allow_network == Some(true) {
            match request.network {
                Some(Network::Host) => {}
                Some(Network::None) => notes.push(
                    "the project file asks for the host's network, which this run did not request (--network host)"
                        .to_owned(),
                ),
                None if may_use_network => request.network = Some(Network::Host),
                None => notes.push(
                    "the project file asks for the host's network, which is not allowed for this tenant".to_owned(),
                ),
            }
        }
        (request, notes)
    }

    /// Wall time in milliseconds of a run of `chosen`, or of a command, if the file sets one for it. `default_ms` applies to
    /// those of several frameworks for which the file sets none.
    pub fn wall_ms(&self, chosen: Option<&FrameworkChoice>, default_ms: u64) -> Option<u64> {
        let of = |name: &str| {
            let own = self.timeouts.iter().find(|(owner, _)| owner.0 == name).map(|(_, limit)| limit);
            own.or(self.timeout.as_ref()).map(|TimeLimit(duration)| duration.ms)
        };
        let names = chosen.map_or_else(|| vec![CUSTOM_FRAMEWORK], FrameworkChoice::names);
        let set: Vec<Option<u64>> = names.into_iter().map(of).collect();
        if set.iter().all(Option::is_none) {
            return None;
        }
        set.into_iter().map(|ms| ms.unwrap_or(default_ms)).max()
    }

    /// The tests that a run of everything includes. Also returns a note, if the request selects tests itself.
    pub fn scope(&self, selection: &Selection) -> (TestScope, Option<String>) {
        let globs = |Globs(ParsedGlobs(globs)): &Globs| globs.clone();
        let scope = TestScope { patterns: globs(&self.patterns), exclude: globs(&self.exclude) };
        if selection.is_whole() {
            let note = scope.note();
            return (scope, note);
        }
        let is_new_choice = matches!(selection, Selection::Matching { .. }) && !scope.is_everything();
        let note = "the project file's patterns and exclude do not apply: the request selects tests itself";
        (TestScope::default(), is_new_choice.then(|| note.to_owned()))
    }

    /// Names of tests that are known as flaky, as the file has them. Their failures are failures nevertheless.
    pub fn quarantine(&self) -> impl Iterator<Item = String> {
        self.quarantine.0.iter().map(|QuarantinedTest(name)| name.clone())
    }

    /// A note for the run of a command, which is run as it is.
    pub fn unused_scope(&self) -> Option<String> {
        let is_unused = !self.scope(&Selection::All).0.is_everything();
        is_unused.then(|| "the project file's patterns and exclude do not apply: a command runs as it is".to_owned())
    }

    /// The file that the project's command writes its results to, relative to the workspace; `None` if the request has
    /// a command of its own.
    pub fn report(&self, request: &RunRequest) -> Option<&str> {
        self.report.as_ref().filter(|_| request.command.is_empty()).map(|RelativePath(path)| path.as_str())
    }

    /// `ceiling`, lowered by the file's limits.
    pub fn narrow(&self, ceiling: Limits) -> Limits {
        let Limits { memory_bytes_max, cpu_millis_max, .. } = ceiling;
        let SandboxTable { max_memory, max_cpu, .. } = &self.sandbox;
        Limits {
            memory_bytes_max: max_memory.as_ref().map_or(memory_bytes_max, |size| size.0.bytes.min(memory_bytes_max)),
            cpu_millis_max: max_cpu.as_ref().map_or(cpu_millis_max, |cpus| cpus.0.millis.min(cpu_millis_max)),
            ..ceiling
        }
    }

    /// Checks that need the whole file.
    fn check(self, content: &str) -> Result<ProjectFile, String> {
        const KEY: &str = "environment";
        let environment = self.environment.iter().map(|(EnvName(name), EnvValue(value))| (name.clone(), value.clone()));
        let is_key =
            |line: &str| line.trim_start().strip_prefix(KEY).is_some_and(|rest| rest.trim_start().starts_with(':'));
        let line = || content.lines().position(is_key).map_or(1, |at| at + 1);
        check_env(&environment.collect()).map_err(|error| format!("line {}, {KEY}: {error}", line()))?;
        Ok(self)
    }
}

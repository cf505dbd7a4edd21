//! The project file: what the people of a workspace have settled for every run in it. A request comes before it, and the
//! tenant's policy stands above both. Must not know how a run is planned.

use crate::prepare::{PrepareError, check_env};
use crate::toolchain::check_variable;
use crate::units::{Bytes, Cpus, Duration};
use proctor_core::bound::PARALLEL_MAX;
use proctor_core::isolation::Network;
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::request::RunRequest;
use proctor_frameworks::FileTree;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where it is, relative to the workspace. The first that is there counts; the second keeps everything below `testing`.
pub const PATHS: [&str; 2] = [".proctor.yaml", ".agenticorp/testing.yaml"];

/// What it may say. Every key may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectFile {
    framework: Option<String>,
    command: Option<CommandLine>,
    timeout: Option<Duration>,
    parallel: Option<Parallel>,
    environment: BTreeMap<Variable, String>,
    sandbox: SandboxTable,
    report: Option<Inside>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SandboxTable {
    allow_network: Option<bool>,
    max_memory: Option<Bytes>,
    max_cpu: Option<Cpus>,
}

/// One line for the shell, or a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a line for the shell, or a list of words")]
enum CommandLine {
    Line(String),
    Words(Vec<String>),
}

/// A value that is looked at where it stands, so that what is wrong with it is told with its line.
macro_rules! checked {
    ($name:ident, $of:ty, $check:expr) => {
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        struct $name($of);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = <$of>::deserialize(deserializer)?;
                let check: fn(&$of) -> Result<(), String> = $check;
                check(&value).map_err(D::Error::custom)?;
                Ok($name(value))
            }
        }
    };
}

checked!(Parallel, u32, |parallel| match parallel {
    1..=PARALLEL_MAX => Ok(()),
    _ => Err(format!("must be 1 to {PARALLEL_MAX}")),
});
checked!(Variable, String, |name| check_variable(name));
checked!(Inside, String, |path| {
    let stays = !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| part != "..");
    if stays && !path.contains('\0') { Ok(()) } else { Err("must be a path below the workspace".to_owned()) }
});

/// The file with everything below one key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Nested {
    testing: ProjectFile,
}

impl ProjectFile {
    /// The project file of a workspace; one that says nothing where there is none.
    pub fn of(tree: &FileTree) -> Result<ProjectFile, PrepareError> {
        let Some(path) = PATHS.into_iter().find(|path| tree.contains(path)) else { return Ok(ProjectFile::default()) };
        let wrong = |text: String| PrepareError::ProjectFile { path, text };
        let content =
            tree.content(path).ok_or_else(|| wrong("it cannot be read, or is larger than 1 MiB".to_owned()))?;
        let read = match path {
            ".proctor.yaml" => parse(content),
            _ => parse::<Nested>(content).map(|nested| nested.testing),
        };
        read.and_then(ProjectFile::check).map_err(wrong)
    }

    /// `request` with what it leaves open filled in, and sentences about what could not be.
    pub fn complete(&self, request: &RunRequest, may_use_network: bool) -> (RunRequest, Vec<String>) {
        let mut notes = Vec::new();
        let mut request = request.clone();
        if request.command.is_empty() && request.framework.is_none() {
            request.framework.clone_from(&self.framework);
            match (&self.command, &self.framework) {
                (Some(command), None) => request.command = command.words(),
                (Some(_), Some(framework)) => {
                    notes.push(format!(
                        "the project file's command is not used: {framework}, which it names, has its own"
                    ));
                }
                (None, _) => {}
            }
        }
        if request.command.is_empty() {
            request.parallel = request.parallel.or(self.parallel.as_ref().map(|parallel| parallel.0));
        }
        request.limits.wall_ms = request.limits.wall_ms.or(self.timeout.map(|timeout| timeout.ms));
        for (Variable(name), value) in &self.environment {
            request.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        if request.network.is_none() && self.sandbox.allow_network == Some(true) {
            if may_use_network {
                request.network = Some(Network::Host);
            } else {
                notes.push(
                    "the project file asks for the host's network, which is not allowed for this tenant".to_owned(),
                );
            }
        }
        (request, notes)
    }

    /// The file that the project's command leaves its results in, relative to the workspace. A request's own command has
    /// nothing to do with it.
    pub fn report(&self, request: &RunRequest) -> Option<&str> {
        self.report.as_ref().filter(|_| request.command.is_empty()).map(|Inside(path)| path.as_str())
    }

    /// `ceiling`, or less.
    pub fn narrow(&self, ceiling: Limits) -> Limits {
        Limits {
            memory_bytes_max: self.sandbox.max_memory.map_or(u64::MAX, |size| size.bytes).min(ceiling.memory_bytes_max),
            cpu_millis_max: self.sandbox.max_cpu.map_or(u32::MAX, |cpus| cpus.millis).min(ceiling.cpu_millis_max),
            ..ceiling
        }
    }

    fn check(self) -> Result<ProjectFile, String> {
        let asked = LimitRequest {
            memory_bytes: self.sandbox.max_memory.map(|size| size.bytes),
            cpu_millis: self.sandbox.max_cpu.map(|cpus| cpus.millis),
            ..LimitRequest::default()
        };
        asked.check().map_err(|error| format!("sandbox: {error}"))?;
        let environment = self.environment.iter().map(|(Variable(name), value)| (name.clone(), value.clone()));
        check_env(&environment.collect()).map_err(|error| format!("environment: {error}"))?;
        match &self.command {
            Some(command) if command.words().iter().any(|word| word.contains('\0')) => {
                Err("command: contains a NUL byte".to_owned())
            }
            Some(command) if command.is_empty() => Err("command: is empty".to_owned()),
            _ => Ok(self),
        }
    }
}

fn parse<T: for<'de> Deserialize<'de> + Default>(content: &str) -> Result<T, String> {
    if content.trim().is_empty() {
        return Ok(T::default());
    }
    serde_saphyr::from_str(content).map_err(|error| {
        let text = error.without_snippet().to_string();
        let Some(line) = error.location().map(|location| location.line()) else { return text };
        let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
        let index = usize::try_from(line).unwrap_or(1).saturating_sub(1);
        let key = content.lines().nth(index).and_then(|line| line.split_once(':')).map(|(key, _)| key.trim());
        let key = key.map(|key| format!(", {key}")).unwrap_or_default();
        format!("line {line}{key}: {text}")
    })
}

impl CommandLine {
    fn is_empty(&self) -> bool {
        match self {
            CommandLine::Line(line) => line.trim().is_empty(),
            CommandLine::Words(words) => words.first().is_none_or(String::is_empty),
        }
    }

    fn words(&self) -> Vec<String> {
        match self {
            CommandLine::Line(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
            CommandLine::Words(words) => words.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::request::Selection;

    fn file(path: &str, content: &str) -> Result<ProjectFile, String> {
        let mut tree = FileTree::default();
        tree.add_with_content(path, content);
        ProjectFile::of(&tree).map_err(|error| error.to_string())
    }

    fn read(content: &str) -> ProjectFile {
        file(PATHS[0], content).unwrap()
    }

    /// The example that people copy.
    fn example() -> &'static str {
        let readme = include_str!("../../README.md");
        readme.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0
    }

    #[test]
    fn the_example_of_the_readme_says_what_it_seems_to_say() {
        let file = read(example());
        let (request, notes) = file.complete(&RunRequest::default(), false);
        assert_eq!(request.command, ["/bin/sh", "-c", "make check"]);
        assert_eq!((request.limits.wall_ms, request.env["CGO_ENABLED"].as_str()), (Some(120_000), "0"));
        assert_eq!(file.report(&RunRequest::default()), Some("build/junit.xml"));
        assert_eq!(
            (file.narrow(Limits::CEILING).memory_bytes_max, file.narrow(Limits::CEILING).cpu_millis_max),
            (1_000_000_000, 1_500)
        );
        assert_eq!((request.network, notes), (None, Vec::new()));
    }

    #[test]
    fn a_request_comes_first_and_the_policy_stands_above() {
        let file = read(
            "framework: go\nparallel: 4\ntimeout: 10s\nenvironment: {A: file, B: file}\nsandbox: {allow_network: true, max_memory: 64GiB}",
        );
        let asked = RunRequest {
            framework: Some("jest".into()),
            parallel: Some(2),
            env: [("A".to_owned(), "request".to_owned())].into(),
            ..RunRequest::default()
        };
        let (request, notes) = file.complete(&asked, true);
        assert_eq!((request.framework.as_deref(), request.parallel), (Some("jest"), Some(2)));
        assert_eq!((request.env["A"].as_str(), request.env["B"].as_str()), ("request", "file"));
        assert_eq!((request.network, notes.len(), request.selection), (Some(Network::Host), 0, Selection::All));
        let (request, notes) = file.complete(&RunRequest::default(), false);
        assert_eq!((request.framework.as_deref(), request.parallel, request.network), (Some("go"), Some(4), None));
        assert!(notes[0].contains("not allowed for this tenant"), "{notes:?}");
        assert_eq!(file.narrow(Limits::DEFAULT), Limits::DEFAULT, "more than the ceiling is no more");
        let own = RunRequest { command: vec!["true".into()], ..RunRequest::default() };
        assert_eq!(read("command: [a, b c]\nreport: r.xml").complete(&own, false).0.command, ["true"]);
        assert_eq!(read("command: [a, b c]\nreport: r.xml").report(&own), None);
        let (request, notes) = read("command: make check\nframework: go").complete(&RunRequest::default(), false);
        assert_eq!((request.command.len(), request.framework.as_deref(), notes.len()), (0, Some("go"), 1));
    }

    #[test]
    fn the_other_place_keeps_it_below_a_key() {
        let nested = file(PATHS[1], "testing:\n  framework: go\n  timeout: 300s\n").unwrap();
        assert_eq!(nested, read("framework: go\ntimeout: 300s"));
        for empty in ["", "\n", "# nothing\n", "{}"] {
            assert_eq!(file(PATHS[0], empty).unwrap(), ProjectFile::default(), "{empty:?}");
        }
        let mut both = FileTree::default();
        both.add_with_content(PATHS[0], "framework: go");
        both.add_with_content(PATHS[1], "nonsense");
        assert_eq!(ProjectFile::of(&both).unwrap().framework.as_deref(), Some("go"));
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_key() {
        for (content, line, words) in [
            ("framework: go\ntimeuot: 3s\n", "2", &["timeuot"][..]),
            ("framework: go\ntimeout: soon\n", "2", &["soon", "300s"]),
            ("parallel: 0\n", "1", &["1 to 256"]),
            ("sandbox:\n  max_cpu: none\n", "2", &["none"]),
            ("environment:\n  OK: x\n  LD_PRELOAD: /x.so\n", "3", &["LD_PRELOAD"]),
            ("report: ../../etc/passwd\n", "1", &["below the workspace"]),
            ("patterns:\n - 'Test*'\n", "1", &["patterns"]),
            ("command: {}\n", "1", &["a list of words"]),
            ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "1", &[]),
            ("framework: [\n", "", &[]),
        ] {
            let told = file(PATHS[0], content).unwrap_err();
            assert!(told.starts_with(".proctor.yaml: "), "{told}");
            assert!(words.iter().all(|word| told.contains(word)) && told.contains(&format!("line {line}")), "{told}");
            assert!(!told.contains('\n'), "one line: {told:?}");
        }
        for (content, words) in [
            ("sandbox: {max_memory: 1KB}", "memory"),
            ("command: ' '", "command: is empty"),
            ("environment: {A: \"\\0\"}", "environment: A contains a NUL byte"),
        ] {
            let told = file(PATHS[0], content).unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }
}

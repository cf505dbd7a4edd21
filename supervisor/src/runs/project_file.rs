//! The project file: settings that the owners of a workspace have fixed for every run in it. A request overrides it,
//! and the tenant's policy bounds both.

use crate::config::units::{Bytes, Cpus, Duration};
use crate::host::environment::{check_env, check_variable};
use proctor_core::bounds::{PARALLEL_MAX, QUARANTINE_NAMES_MAX, REQUEST_TEST_BYTES_MAX};
use proctor_core::isolation::Network;
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::request::{ALL_FRAMEWORKS, RunRequest};
use proctor_frameworks::detection::DetectError;
use proctor_frameworks::{FRAMEWORKS, FileTree};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_saphyr::{MessageFormatter, UserMessageFormatter};
use std::collections::BTreeMap;

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

/// The keys of the file. Every key is optional; one that is present has a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectFile {
    #[serde(deserialize_with = "non_null")]
    framework: Option<FrameworkName>,
    #[serde(deserialize_with = "non_null")]
    command: Option<Command>,
    #[serde(deserialize_with = "non_null")]
    timeout: Option<Duration>,
    #[serde(deserialize_with = "non_null")]
    parallel: Option<ParallelCount>,
    environment: BTreeMap<EnvName, EnvValue>,
    sandbox: SandboxTable,
    #[serde(deserialize_with = "non_null")]
    report: Option<RelativePath>,
    quarantine: QuarantineNames,
    /// Notes about misnamed files.
    #[serde(skip)]
    notes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SandboxTable {
    #[serde(deserialize_with = "non_null")]
    allow_network: Option<bool>,
    #[serde(deserialize_with = "non_null")]
    max_memory: Option<MemoryLimit>,
    #[serde(deserialize_with = "non_null")]
    max_cpu: Option<CpuLimit>,
}

/// Rejects a key without a value, which somebody forgot to fill in.
fn non_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// One line for the shell, or a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a line for the shell, or a list of words")]
enum CommandLine {
    Line(String),
    Words(Vec<String>),
}

/// Declares a value that is validated while it is parsed, so that an error has the line of the value.
macro_rules! checked {
    ($(#[$derives:meta])? $name:ident, $of:ty, $check:expr) => {
        #[derive(Debug, Clone, PartialEq, Eq)]
        $(#[$derives])?
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

checked!(ParallelCount, u32, |parallel| match parallel {
    1..=PARALLEL_MAX => Ok(()),
    _ => Err(format!("must be 1 to {PARALLEL_MAX}")),
});
checked!(
    #[derive(PartialOrd, Ord, Serialize)]
    EnvName,
    String,
    |name| check_variable(name)
);
checked!(EnvValue, String, |text| if text.contains('\0') { Err("contains a NUL byte".to_owned()) } else { Ok(()) });
checked!(FrameworkName, String, |name| {
    let known: Vec<&'static str> = FRAMEWORKS.iter().map(|framework| framework.name()).collect();
    if name == ALL_FRAMEWORKS || known.contains(&name.as_str()) {
        return Ok(());
    }
    Err(DetectError::Unknown { requested: name.clone(), known }.to_string())
});
checked!(Command, CommandLine, |command| match command {
    _ if command.is_empty() => Err("is empty".to_owned()),
    _ if command.words().iter().any(|word| word.contains('\0')) => Err("contains a NUL byte".to_owned()),
    _ => Ok(()),
});
checked!(MemoryLimit, Bytes, |size| {
    let requested = LimitRequest { memory_bytes: Some(size.bytes), ..LimitRequest::default() };
    requested.check().map_err(|error| error.to_string())
});
checked!(CpuLimit, Cpus, |cpus| {
    let requested = LimitRequest { cpu_millis: Some(cpus.millis), ..LimitRequest::default() };
    requested.check().map_err(|error| error.to_string())
});
checked!(RelativePath, String, |path| {
    let stays = !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| part != "..");
    if stays && !path.contains('\0') { Ok(()) } else { Err("must be a path below the workspace".to_owned()) }
});

checked!(
    #[derive(Default)]
    QuarantineNames,
    Vec<String>,
    |names| match names {
        _ if names.len() > QUARANTINE_NAMES_MAX => Err(format!("has more than {QUARANTINE_NAMES_MAX} names")),
        _ if names.iter().any(|name| name.trim().is_empty()) => Err("has an empty name".to_owned()),
        _ if names.iter().any(|name| name.len() > REQUEST_TEST_BYTES_MAX) =>
            Err(format!("has a name of more than {REQUEST_TEST_BYTES_MAX} bytes")),
        _ => Ok(()),
    }
);

/// The file with everything below one key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Nested {
    testing: ProjectFile,
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
        if request.command.is_empty() && request.framework.is_none() {
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
        if request.command.is_empty() {
            request.parallel = request.parallel.or(self.parallel.as_ref().map(|parallel| parallel.0));
        }
        request.limits.wall_ms = request.limits.wall_ms.or(self.timeout.map(|timeout| timeout.ms));
        for (EnvName(name), EnvValue(value)) in &self.environment {
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

    /// The file that the project's command writes its results to, relative to the workspace; `None` if the request has
    /// a command of its own.
    pub fn report(&self, request: &RunRequest) -> Option<&str> {
        self.report.as_ref().filter(|_| request.command.is_empty()).map(|RelativePath(path)| path.as_str())
    }

    /// Names of tests whose failures are marked in reports. They are failures nevertheless.
    pub fn quarantine(&self) -> &[String] {
        &self.quarantine.0
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

fn parse<T: for<'de> Deserialize<'de> + Default>(content: &str) -> Result<T, String> {
    if content.trim().is_empty() {
        return Ok(T::default());
    }
    serde_saphyr::from_str(content).map_err(|error| {
        let text = plain_text(error.without_snippet());
        let Some(line) = error.location().map(|location| location.line()) else { return text };
        let index = usize::try_from(line).unwrap_or(1).saturating_sub(1);
        let key = content
            .lines()
            .nth(index)
            .and_then(|line| line.split_once(':'))
            .map(|(key, _)| key.trim_matches([' ', '{']));
        let key = key.map(|key| format!(", {key}")).unwrap_or_default();
        format!("line {line}{key}: {text}")
    })
}

/// The error in words for the author of the file; some of the library's texts address its callers.
fn plain_text(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as Yaml;
    let fixed = match error {
        Yaml::DuplicateMappingKey { key: Some(key), .. } => return format!("{key} appears a second time"),
        Yaml::DuplicateMappingKey { key: None, .. } => "appears a second time",
        Yaml::MultipleDocuments { .. } => "a second document begins here: the file is one",
        Yaml::RecursiveReferencesRequireWeakTypes { .. } => "refers to itself",
        Yaml::NullIntoString { .. } => "has no value",
        Yaml::Unexpected { expected: "mapping start", .. } => "expected keys with values",
        Yaml::Unexpected { expected: "string scalar", .. } => "expected a text",
        Yaml::InvalidScalar { ty: "u32", .. } => "expected a whole number",
        Yaml::InvalidScalar { ty: "boolean", .. } => "expected true or false",
        Yaml::SerdeInvalidType { expected, .. } => return format!("expected {expected}"),
        _ => return UserMessageFormatter.format_message(error).into_owned(),
    };
    fixed.to_owned()
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
        ProjectFile::from_tree(&tree).map_err(|error| error.to_string())
    }

    fn read(content: &str) -> ProjectFile {
        file(PATHS[0], content).unwrap()
    }

    /// The example in the README.
    fn example() -> &'static str {
        let readme = include_str!("../../README.md");
        readme.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0
    }

    #[test]
    fn parses_the_example_of_the_readme() {
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
    fn a_request_overrides_the_file_and_the_policy_bounds_both() {
        let file = read(
            "framework: go\nparallel: 4\ntimeout: 10s\nenvironment: {A: file, B: file}\nsandbox: {allow_network: true, max_memory: 64GiB}",
        );
        let requested = RunRequest {
            framework: Some("jest".into()),
            parallel: Some(2),
            env: [("A".to_owned(), "request".to_owned())].into(),
            ..RunRequest::default()
        };
        let (request, notes) = file.complete(&requested, true);
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
    fn the_second_path_nests_everything_below_testing() {
        let nested = file(PATHS[1], "testing:\n  framework: go\n  timeout: 300s\n").unwrap();
        assert_eq!(nested, read("framework: go\ntimeout: 300s"));
        for empty in ["", "\n", "# nothing\n", "{}"] {
            assert_eq!(file(PATHS[0], empty).unwrap(), ProjectFile::default(), "{empty:?}");
        }
        let mut both = FileTree::default();
        both.add_with_content(PATHS[0], "framework: go");
        both.add_with_content(PATHS[1], "nonsense");
        assert_eq!(ProjectFile::from_tree(&both).unwrap().framework, Some(FrameworkName("go".to_owned())));
    }

    #[test]
    fn errors_name_file_line_and_key() {
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
            let message = file(PATHS[0], content).unwrap_err();
            assert!(message.starts_with(".proctor.yaml: "), "{message}");
            assert!(
                words.iter().all(|word| message.contains(word)) && message.contains(&format!("line {line}")),
                "{message}"
            );
            assert!(!message.contains('\n'), "one line: {message:?}");
        }
    }

    #[test]
    fn errors_of_the_yaml_library_are_rephrased() {
        let long = format!("framework: go\nenvironment:\n  A: {}\n", "x".repeat(40_000));
        for (content, message) in [
            ("\nsandbox: {max_memory: 10}\n", "line 2, sandbox: memory must be at least 4 MiB, got 10 B"),
            ("\ncommand: []\n", "line 2, command: is empty"),
            ("command: ' '", "line 1, command: is empty"),
            ("command: [a, \"\\0\"]", "line 1, command: contains a NUL byte"),
            ("command:\n", "line 1, command: expected a line for the shell, or a list of words"),
            ("environment: {A: \"\\0\"}", "line 1, environment: contains a NUL byte"),
            (&long, "line 2, environment: at most 32768 bytes together, got 40001"),
            ("framework:\n", "line 1, framework: has no value"),
            ("timeout: ~\n", "line 1, timeout: expected a number with a unit"),
            ("parallel: many\n", "line 1, parallel: expected a whole number"),
            ("sandbox:\n  allow_network: perhaps\n", "line 2, allow_network: expected true or false"),
            ("environment:\nframework: go\n", "line 1, environment: expected keys with values"),
            ("framework: [go]\n", "line 1, framework: expected a text"),
            ("environment:\n  A: x\n  A: y\n", "line 3, A: A appears a second time"),
            (
                "framework: go\n---\nframework: go\n",
                "line 3, framework: a second document begins here: the file is one",
            ),
            ("command: &a [x, *a]\n", "line 1, command: refers to itself"),
        ] {
            assert_eq!(file(PATHS[0], content).unwrap_err(), format!(".proctor.yaml: {message}"), "{content}");
        }
        let message = file(PATHS[1], "testing:\n  framework: nope\n").unwrap_err();
        let wanted = ".agenticorp/testing.yaml: line 2, framework: unknown framework `nope`: known are go, pytest";
        assert!(message.starts_with(wanted), "{message}");
        assert!(file(PATHS[0], "framework: all\n").is_ok());
    }

    #[test]
    fn notes_misnamed_files_and_settings_that_do_not_apply() {
        let noted = |path: &str| file(path, "framework: go").unwrap().complete(&RunRequest::default(), false);
        let (request, notes) = noted(".proctor.yml");
        assert_eq!(request, RunRequest::default());
        assert_eq!(notes, [".proctor.yml is not read: the project file is called .proctor.yaml"]);
        assert_eq!(noted(".agenticorp/testing.yml").1.len(), 1);
        assert_eq!(noted("other.yml").1.len(), 0);
        let (_, notes) = read("framework: go\nreport: r.xml").complete(&RunRequest::default(), false);
        assert_eq!(notes, ["the project file's report is not read: it applies only to the project file's own command"]);
        let mut tree = FileTree::default();
        tree.add(PATHS[0]);
        let message = ProjectFile::from_tree(&tree).unwrap_err().to_string();
        assert!(message.starts_with(".proctor.yaml: cannot be read: it must be a regular text file"), "{message}");
    }
}

//! The keys of the project file, one field each, and the types of their values. The documentation of a field is its
//! description in the JSON schema.

use crate::config::units::{Bytes, Cpus, Duration};
use crate::host::environment::check_variable;
use proctor_core::bounds::{PARALLEL_MAX, QUARANTINE_NAMES_MAX, RETRY_FAILED_MAX};
use proctor_core::limits::LimitRequest;
use proctor_core::request::{ALL_FRAMEWORKS, CUSTOM_FRAMEWORK};
use proctor_core::test_name::{TestName, TestNameError};
use proctor_frameworks::detection::DetectError;
use proctor_frameworks::{FRAMEWORKS, SCOPE_CHARS_MAX, SCOPE_ENTRIES_MAX, ScopeGlobs};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Settings of proctor for every run in this workspace. A request overrides them, and the tenant's policy bounds both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "proctor project file")]
pub struct ProjectFile {
    /// The framework to run if several are detected, or `all`.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "FrameworkName")]
    pub(super) framework: Option<FrameworkName>,
    /// A command in the framework's place: a line for the shell, or a list of words. Its exit status decides.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "Command")]
    pub(super) command: Option<Command>,
    /// A JUnit file that the command writes, relative to the workspace. A run that leaves it unchanged has not passed.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "RelativePath")]
    pub(super) report: Option<RelativePath>,
    /// Wall time of a run until SIGTERM: `300s`, `5m`.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "TimeLimit")]
    pub(super) timeout: Option<TimeLimit>,
    /// Wall time of a run by framework, in place of `timeout`. Several frameworks together have the longest of theirs.
    #[schemars(schema_with = "timeouts_schema")]
    pub(super) timeouts: BTreeMap<TimeoutOwner, TimeLimit>,
    /// Number of tests that run at the same time, if the framework has such a setting.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "ParallelCount")]
    pub(super) parallel: Option<ParallelCount>,
    /// Only these tests, where a run does not select tests itself: globs for names (`Test*`), or for files (`tests/unit/**`,
    /// `test_*.py`).
    pub(super) patterns: Globs,
    /// Not these tests, where a run does not select tests itself: globs as in `patterns`.
    pub(super) exclude: Globs,
    /// Variables of every run. Variables that decide what runs are refused.
    #[schemars(with = "BTreeMap<String, EnvValue>")]
    pub(super) environment: BTreeMap<EnvName, EnvValue>,
    /// Limits that the project sets itself, below those of the tenant.
    pub(super) sandbox: SandboxTable,
    /// How often a failed test runs again in the same run, to show whether it is flaky. It remains failed.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "RetryCount")]
    pub(super) retries: Option<RetryCount>,
    /// Tests known as flaky, by the names that a listing prints. A note and `quarantined` in the JSON report name those that failed.
    pub(super) quarantine: QuarantineNames,
    /// Notes about misnamed files.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

/// Limits that the project sets itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SandboxTable {
    /// Whether runs ask for the host's network, which the tenant's policy must allow.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "bool")]
    pub(super) allow_network: Option<bool>,
    /// Most memory of a run: `1GB`, `512MiB`.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "MemoryLimit")]
    pub(super) max_memory: Option<MemoryLimit>,
    /// Most processors of a run: `2`, `0.5`.
    #[serde(deserialize_with = "non_null")]
    #[schemars(with = "CpuLimit")]
    pub(super) max_cpu: Option<CpuLimit>,
}

/// Rejects a key without a value, which somebody forgot to fill in.
fn non_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// One line for the shell, or a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a line for the shell, or a list of words")]
pub(super) enum CommandLine {
    Line(String),
    Words(Vec<String>),
}

/// Declares a value that is validated while it is parsed, so that an error has the line of the value.
macro_rules! checked {
    ($(#[$derives:meta])? $name:ident, $of:ty, $check:expr, $schema:tt) => {
        #[derive(Debug, Clone, PartialEq, Eq)]
        $(#[$derives])?
        pub(super) struct $name(pub(super) $of);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = <$of>::deserialize(deserializer)?;
                let check: fn(&$of) -> Result<(), String> = $check;
                check(&value).map_err(D::Error::custom)?;
                Ok($name(value))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

checked!(
    ParallelCount,
    u32,
    |parallel| match parallel {
        1..=PARALLEL_MAX => Ok(()),
        _ => Err(format!("must be 1 to {PARALLEL_MAX}")),
    },
    { "type": "integer", "minimum": 1, "maximum": PARALLEL_MAX }
);
checked!(
    RetryCount,
    u32,
    |retries| if *retries <= RETRY_FAILED_MAX { Ok(()) } else { Err(format!("must be 0 to {RETRY_FAILED_MAX}")) },
    { "type": "integer", "minimum": 0, "maximum": RETRY_FAILED_MAX }
);
checked!(
    #[derive(PartialOrd, Ord, Serialize)]
    EnvName,
    String,
    |name| check_variable(name),
    { "type": "string" }
);
checked!(
    EnvValue,
    String,
    |text| if text.contains('\0') { Err("contains a NUL byte".to_owned()) } else { Ok(()) },
    { "type": ["string", "number", "boolean"] }
);
checked!(
    FrameworkName,
    String,
    |name| if name == ALL_FRAMEWORKS { Ok(()) } else { check_framework(name) },
    { "enum": framework_names().chain([ALL_FRAMEWORKS]).collect::<Vec<_>>() }
);
checked!(
    #[derive(PartialOrd, Ord)]
    TimeoutOwner,
    String,
    |name| if name == CUSTOM_FRAMEWORK { Ok(()) } else { check_framework(name) },
    { "enum": framework_names().chain([CUSTOM_FRAMEWORK]).collect::<Vec<_>>() }
);
checked!(
    TimeLimit,
    Duration,
    |_| Ok(()),
    { "type": ["string", "number"], "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|h)?$", "examples": ["300s", "5m"] }
);
checked!(
    Command,
    CommandLine,
    |command| match command {
        _ if command.is_empty() => Err("is empty".to_owned()),
        _ if command.words().iter().any(|word| word.contains('\0')) => Err("contains a NUL byte".to_owned()),
        _ => Ok(()),
    },
    {
        "oneOf": [
            { "type": "string", "pattern": r"\S" },
            { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        ]
    }
);
checked!(
    MemoryLimit,
    Bytes,
    |size| {
        let requested = LimitRequest { memory_bytes: Some(size.bytes), ..LimitRequest::default() };
        requested.check().map_err(|error| error.to_string())
    },
    {
        "type": ["string", "integer"],
        "pattern": r"^[0-9]+(\.[0-9]+)? ?(B|KiB|MiB|GiB|TiB|KB|kB|MB|GB|TB)?$",
        "examples": ["1GB", "512MiB"],
    }
);
checked!(
    CpuLimit,
    Cpus,
    |cpus| {
        let requested = LimitRequest { cpu_millis: Some(cpus.millis), ..LimitRequest::default() };
        requested.check().map_err(|error| error.to_string())
    },
    { "type": ["number", "string"], "minimum": 0.01 }
);
checked!(
    RelativePath,
    String,
    |path| {
        let stays = !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| part != "..");
        if stays && !path.contains('\0') { Ok(()) } else { Err("must be a path below the workspace".to_owned()) }
    },
    { "type": "string", "pattern": "^[^/]" }
);
checked!(
    Glob,
    String,
    |entry| ScopeGlobs::parse(std::slice::from_ref(entry)).map(|_| ()).map_err(|error| error.to_string()),
    { "type": "string", "minLength": 1, "maxLength": SCOPE_CHARS_MAX }
);
checked!(
    QuarantinedTest,
    String,
    |name| TestName::parse_all(std::slice::from_ref(name)).map(|_| ()).map_err(|error| without_field(&error)),
    { "type": "string", "minLength": 1 }
);
checked!(
    #[derive(Default)]
    Globs,
    ParsedGlobs,
    |_| Ok(()),
    {
        "type": "array",
        "items": { "type": "string", "minLength": 1, "maxLength": SCOPE_CHARS_MAX },
        "maxItems": SCOPE_ENTRIES_MAX,
    }
);
checked!(
    #[derive(Default)]
    QuarantineNames,
    Vec<QuarantinedTest>,
    |names| {
        let names: Vec<String> = names.iter().map(|QuarantinedTest(name)| name.clone()).collect();
        match TestName::parse_all(&names) {
            Ok(_) if names.len() > QUARANTINE_NAMES_MAX => Err(format!("has more than {QUARANTINE_NAMES_MAX} names")),
            Ok(_) => Ok(()),
            Err(error) => Err(without_field(&error)),
        }
    },
    { "type": "array", "items": { "type": "string", "minLength": 1 }, "maxItems": QUARANTINE_NAMES_MAX }
);

// The error of a name without the field of a request, which it begins with, and without the advice for that field.
fn without_field(error: &TestNameError) -> String {
    match error {
        TestNameError::Empty => "has an empty name".to_owned(),
        error => error.to_string().trim_start_matches("tests: ").to_owned(),
    }
}

fn framework_names() -> impl Iterator<Item = &'static str> {
    FRAMEWORKS.iter().map(|framework| framework.name())
}

fn check_framework(name: &str) -> Result<(), String> {
    let known: Vec<&'static str> = framework_names().collect();
    if known.contains(&name) {
        return Ok(());
    }
    Err(DetectError::Unknown { requested: name.to_owned(), known }.to_string())
}

/// A table whose keys are the names of [`TimeoutOwner`].
fn timeouts_schema(generator: &mut SchemaGenerator) -> Schema {
    let names = TimeoutOwner::json_schema(generator);
    json_schema!({
        "type": "object",
        "propertyNames": names,
        "additionalProperties": TimeLimit::json_schema(generator),
    })
}

/// A list of globs, parsed entry by entry, so that an error has the line of the entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ParsedGlobs(pub(super) ScopeGlobs);

impl<'de> Deserialize<'de> for ParsedGlobs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries: Vec<String> =
            Vec::<Glob>::deserialize(deserializer)?.into_iter().map(|Glob(entry)| entry).collect();
        ScopeGlobs::parse(&entries).map(ParsedGlobs).map_err(D::Error::custom)
    }
}

/// The file with everything below one key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Nested {
    pub(super) testing: ProjectFile,
}

impl CommandLine {
    fn is_empty(&self) -> bool {
        match self {
            CommandLine::Line(line) => line.trim().is_empty(),
            CommandLine::Words(words) => words.first().is_none_or(String::is_empty),
        }
    }

    pub(super) fn words(&self) -> Vec<String> {
        match self {
            CommandLine::Line(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
            CommandLine::Words(words) => words.clone(),
        }
    }
}

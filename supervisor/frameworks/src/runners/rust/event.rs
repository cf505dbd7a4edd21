//! JSON lines of the two kinds that share one stream: Cargo's about building, and libtest's about tests.

use serde::Deserialize;

/// A line of Cargo's (The Cargo Book, "External tools", JSON messages).
#[derive(Debug, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub(super) enum CargoLine {
    CompilerArtifact(Artifact),
    CompilerMessage(Box<CompilerMessage>),
    BuildFinished {
        success: bool,
    },
    #[serde(other)]
    Other,
}

/// A built or up-to-date target.
#[derive(Debug, Deserialize)]
pub(super) struct Artifact {
    pub(super) package_id: String,
    #[serde(default)]
    pub(super) manifest_path: String,
    pub(super) target: CargoTarget,
    pub(super) profile: Profile,
    pub(super) executable: Option<String>,
}

/// A target of a package.
#[derive(Debug, Deserialize)]
pub(super) struct CargoTarget {
    pub(super) kind: Vec<String>,
    pub(super) name: String,
}

/// The profile it was built with.
#[derive(Debug, Deserialize)]
pub(super) struct Profile {
    pub(super) test: bool,
}

/// A compiler message about a target.
#[derive(Debug, Deserialize)]
pub(super) struct CompilerMessage {
    pub(super) package_id: String,
    pub(super) target: CargoTarget,
    pub(super) message: Diagnostic,
}

/// A message of the compiler (The rustc book, "JSON Output").
#[derive(Debug, Deserialize)]
pub(super) struct Diagnostic {
    pub(super) level: String,
    pub(super) message: String,
    #[serde(default)]
    pub(super) spans: Vec<Span>,
    /// Notes and hints about it.
    #[serde(default)]
    pub(super) children: Vec<Note>,
    pub(super) rendered: Option<String>,
}

/// What the compiler adds to a message.
#[derive(Debug, Deserialize)]
pub(super) struct Note {
    pub(super) message: String,
}

/// A place in a source file.
#[derive(Debug, Deserialize)]
pub(super) struct Span {
    pub(super) file_name: String,
    pub(super) line_start: u32,
    #[serde(default)]
    pub(super) is_primary: bool,
    /// What the compiler writes below the source line.
    pub(super) label: Option<String>,
    pub(super) expansion: Option<Box<Expansion>>,
}

/// The macro expansion that a span comes from.
#[derive(Debug, Deserialize)]
pub(super) struct Expansion {
    pub(super) span: Span,
}

/// A line of libtest's (`--format json`), or of nextest's in the same form.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum HarnessLine {
    Suite(SuiteLine),
    Test(Box<TestLine>),
    #[serde(other)]
    Other,
}

/// Start or end of a binary's suite.
#[derive(Debug, Deserialize)]
pub(super) struct SuiteLine {
    pub(super) event: String,
    /// Number of tests, at the start.
    #[serde(default)]
    pub(super) test_count: u64,
    /// Number of ignored tests, at the end.
    #[serde(default)]
    pub(super) ignored: u64,
    /// The binary, in nextest's lines.
    #[serde(default)]
    pub(super) nextest: Option<super::nextest::SuiteOrigin>,
}

/// An event of a test.
#[derive(Debug, Deserialize)]
pub(super) struct TestLine {
    pub(super) event: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) exec_time: Option<f64>,
    #[serde(default)]
    pub(super) stdout: Option<String>,
    #[serde(default)]
    pub(super) message: Option<String>,
}

//! The two forms of JSON that come on one stream: what Cargo says about building, and what libtest says about tests. Must
//! not know what follows from it.

use serde::Deserialize;

/// A line of Cargo's (The Cargo Book, "External tools", JSON messages).
#[derive(Debug, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub(super) enum CargoLine {
    CompilerArtifact(Artifact),
    CompilerMessage(Box<Message>),
    BuildFinished {
        success: bool,
    },
    #[serde(other)]
    Other,
}

/// Something that was built, or was still there.
#[derive(Debug, Deserialize)]
pub(super) struct Artifact {
    pub(super) package_id: String,
    #[serde(default)]
    pub(super) manifest_path: String,
    pub(super) target: Target,
    pub(super) profile: Profile,
    pub(super) executable: Option<String>,
}

/// A target of a package.
#[derive(Debug, Deserialize)]
pub(super) struct Target {
    pub(super) kind: Vec<String>,
    pub(super) name: String,
}

/// How it was built.
#[derive(Debug, Deserialize)]
pub(super) struct Profile {
    pub(super) test: bool,
}

/// What the compiler says about a target.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) package_id: String,
    pub(super) target: Target,
    pub(super) message: Diagnostic,
}

/// A message of the compiler (The rustc book, "JSON Output").
#[derive(Debug, Deserialize)]
pub(super) struct Diagnostic {
    pub(super) level: String,
    pub(super) message: String,
    #[serde(default)]
    pub(super) spans: Vec<Span>,
    pub(super) rendered: Option<String>,
}

/// A place in a source file.
#[derive(Debug, Deserialize)]
pub(super) struct Span {
    pub(super) file_name: String,
    pub(super) line_start: u32,
    #[serde(default)]
    pub(super) is_primary: bool,
    pub(super) expansion: Option<Box<Expansion>>,
}

/// The macro that a place came out of.
#[derive(Debug, Deserialize)]
pub(super) struct Expansion {
    pub(super) span: Span,
}

/// A line of libtest's (`--format json`), or of nextest's in the same form.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum HarnessLine {
    Suite(Suite),
    Test(Box<Test>),
    #[serde(other)]
    Other,
}

/// A binary's tests as a whole.
#[derive(Debug, Deserialize)]
pub(super) struct Suite {
    pub(super) event: String,
    /// How many tests it has, when it begins.
    #[serde(default)]
    pub(super) test_count: u64,
    /// How many of its tests are ignored, when it ends.
    #[serde(default)]
    pub(super) ignored: u64,
    /// Whose it is, where nextest speaks.
    #[serde(default)]
    pub(super) nextest: Option<super::nextest::Origin>,
}

/// A test.
#[derive(Debug, Deserialize)]
pub(super) struct Test {
    pub(super) event: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) exec_time: Option<f64>,
    #[serde(default)]
    pub(super) stdout: Option<String>,
    #[serde(default)]
    pub(super) message: Option<String>,
}

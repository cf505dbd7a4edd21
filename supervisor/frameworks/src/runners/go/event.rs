//! One line of `go test -json` (<https://pkg.go.dev/cmd/test2json>, and "go help buildjson" for build events), borrowed from
//! the stream.

use proctor_core::bounds::{NAME_BYTES_MAX, clip};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An event. `output` stays escaped: nearly all of it belongs to passing tests and is never read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TestEvent<'a> {
    #[serde(borrow)]
    pub(super) action: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) package: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) test: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) elapsed: Option<f64>,
    #[serde(borrow, default)]
    pub(super) import_path: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) failed_build: Cow<'a, str>,
    /// Since Go 1.27.
    #[serde(borrow, default)]
    pub(super) output_type: Cow<'a, str>,
}

impl<'a> TestEvent<'a> {
    /// Parses a line; `None` when it is no event. Names are clipped here, because everything downstream keeps them.
    pub(super) fn parse(line: &'a str) -> Option<TestEvent<'a>> {
        let mut event: TestEvent<'a> = serde_json::from_str(line).ok()?;
        for name in [&mut event.package, &mut event.test, &mut event.import_path, &mut event.failed_build] {
            if name.len() > NAME_BYTES_MAX {
                *name = Cow::Owned(clip(std::mem::take(name).into_owned(), NAME_BYTES_MAX));
            }
        }
        Some(event)
    }

    /// The output, still escaped and with its quotes; empty when the event has none.
    pub(super) fn raw_output(&self) -> &'a str {
        self.output.map(RawValue::get).unwrap_or_default()
    }
}

/// The text of a JSON string literal; of a clipped literal, as much as can be read.
pub(super) fn unescape(literal: &str) -> String {
    if let Ok(text) = serde_json::from_str(literal) {
        return text;
    }
    // The cut may be within an escape (`\u00` of `\u001b`), so the last few bytes may have to go too.
    (0..ESCAPE_BYTES_MAX)
        .filter_map(|back| literal.get(..literal.len().checked_sub(back)?))
        .find_map(|prefix| serde_json::from_str(&format!("{prefix}\"")).ok())
        .unwrap_or_default()
}

/// Longest escape of JSON, in bytes: a surrogate pair.
const ESCAPE_BYTES_MAX: usize = 12;

/// Kind of an output line. What a test logs cannot forge it: the go tool derives it from marker bytes, and the `testing`
/// package escapes such bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputKind {
    /// Plain output, or not marked.
    Plain,
    /// `=== RUN`, `--- FAIL` and the like.
    Frame,
    /// First line of a failure.
    Error,
    /// A further line of a failure.
    ErrorContinued,
}

impl OutputKind {
    /// Parses the event's `OutputType`.
    pub(super) fn parse(name: &str) -> OutputKind {
        match name {
            "frame" => OutputKind::Frame,
            "error" => OutputKind::Error,
            "error-continue" => OutputKind::ErrorContinued,
            _ => OutputKind::Plain,
        }
    }
}

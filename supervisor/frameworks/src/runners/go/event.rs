//! One line of `go test -json` (<https://pkg.go.dev/cmd/test2json>, and "go help buildjson" for build events), borrowed from
//! the stream. Must not know what follows from it.

use proctor_core::bounds::{NAME_BYTES_MAX, clip};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An event. `output` stays escaped: nearly all of it belongs to passing tests and is never looked at.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Event<'a> {
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

impl<'a> Event<'a> {
    /// Reads a line; `None` when it is no event. Names are clipped here, because everything behind holds on to them.
    pub(super) fn read(line: &'a str) -> Option<Event<'a>> {
        let mut event: Event<'a> = serde_json::from_str(line).ok()?;
        for name in [&mut event.package, &mut event.test, &mut event.import_path, &mut event.failed_build] {
            if name.len() > NAME_BYTES_MAX {
                *name = Cow::Owned(clip(std::mem::take(name).into_owned(), NAME_BYTES_MAX));
            }
        }
        Some(event)
    }

    /// The output, still escaped and with its quotes; empty when there is none.
    pub(super) fn raw_output(&self) -> &'a str {
        self.output.map(RawValue::get).unwrap_or_default()
    }
}

/// The text of a JSON string literal. One that was clipped has lost its end: as much as can be read is.
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

/// Longest escape of JSON: a surrogate pair.
const ESCAPE_BYTES_MAX: usize = 12;

/// What kind of output a line is. Test code cannot forge it: the go tool reads it from markers that printing escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputKind {
    /// Not said, or plain output.
    Plain,
    /// `=== RUN`, `--- FAIL` and the like.
    Frame,
    /// First line of a failure.
    Error,
    /// A further line of a failure.
    ErrorContinued,
}

impl OutputKind {
    /// From the event's `OutputType`.
    pub(super) fn of(name: &str) -> OutputKind {
        match name {
            "frame" => OutputKind::Frame,
            "error" => OutputKind::Error,
            "error-continue" => OutputKind::ErrorContinued,
            _ => OutputKind::Plain,
        }
    }
}

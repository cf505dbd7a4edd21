//! What the parsers of all checkers share: places of findings, and reasons why an output is not trusted.

use super::CheckerOutput;
use crate::parsing::output_tail::strip_ansi;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::check::{CheckKind, CheckerStatus, Finding, Range, Severity, counted};
use proctor_core::human_units::first_names;
use serde::de::DeserializeOwned;

/// Longest reason taken from a checker's own output, in bytes: some lines.
const REASON_BYTES_MAX: usize = 2 * 1024;

/// Most lines of it.
const REASON_LINES_MAX: usize = 8;

impl CheckerOutput<'_> {
    /// A finding without rule and place in a file that the checker named; `None` if the file is outside of the
    /// workspace.
    pub(crate) fn finding(&self, checker: &str, kind: CheckKind, file: &str, message: &str) -> Option<Finding> {
        Some(Finding {
            file: self.file(file)?,
            range: Range::default(),
            checker: checker.to_owned(),
            kind,
            rule: String::new(),
            severity: Severity::Error,
            message: self.scrub(message.trim()),
            fix: None,
            url: String::new(),
        })
    }

    /// The path of a file that the checker named, absolute or relative to where it ran, relative to the workspace.
    /// `None` if it is outside.
    pub(crate) fn file(&self, path: &str) -> Option<String> {
        let root = self.workspace.trim_end_matches('/');
        let (dir, path) = match path.strip_prefix(root).and_then(|path| path.strip_prefix('/')) {
            Some(below) => ("", below),
            None if path.starts_with('/') => return None,
            None => (self.dir, path),
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in dir.split('/').chain(path.split('/')) {
            match part {
                "" | "." => {}
                ".." => _ = parts.pop()?,
                name if name.chars().any(char::is_control) => return None,
                name => parts.push(name),
            }
        }
        (!parts.is_empty()).then(|| parts.join("/"))
    }

    /// The text with every path below the workspace made relative, and without terminal control sequences.
    pub(crate) fn scrub(&self, text: &str) -> String {
        WorkspacePaths::new(self.workspace).scrub(&strip_ansi(text))
    }

    /// Standard output as one JSON document. Settings and plugins of a project may print lines before it.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, CheckerStatus> {
        if self.stdout.trim_ascii().is_empty() {
            return Err(self.failed());
        }
        let begins = |at: &usize| self.stdout.get(*at).is_some_and(|byte| b"[{".contains(byte));
        let lines = self.stdout.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(end, _)| end + 1);
        let last = lines.rev().find(begins).and_then(|at| serde_json::from_slice(self.stdout.get(at..)?).ok());
        match (serde_json::from_slice(self.stdout), last) {
            (Ok(document), _) | (Err(_), Some(document)) => Ok(document),
            (Err(error), None) => Err(self.failed_because(&format!("its output is not whole ({error})"))),
        }
    }

    /// Its standard error, without paths of the host.
    pub(crate) fn error_text(&self) -> String {
        self.scrub(&String::from_utf8_lossy(self.stderr))
    }

    /// The status of a checker that gave up: its exit status, and the beginning of what it wrote.
    pub(crate) fn failed(&self) -> CheckerStatus {
        let said = [self.error_text(), self.scrub(&String::from_utf8_lossy(self.stdout))]
            .into_iter()
            .find_map(|text| beginning(&text));
        let reason = match said {
            Some(said) => format!("it exited with {}: {said}", self.status),
            None => format!("it exited with {} and printed nothing", self.status),
        };
        CheckerStatus::Failed { reason }
    }

    /// The status of a checker whose output does not show that it checked everything.
    pub(crate) fn failed_because(&self, why: &str) -> CheckerStatus {
        let said = beginning(&self.error_text()).map(|said| format!(": {said}")).unwrap_or_default();
        CheckerStatus::Failed { reason: format!("it exited with {}, but {why}{said}", self.status) }
    }

    /// `status`, or that only a part was checked if the checker else ran to its end.
    pub(crate) fn partial_if(&self, is_partial: bool, reason: &str, status: CheckerStatus) -> CheckerStatus {
        match status {
            CheckerStatus::Complete if is_partial => CheckerStatus::Partial { reason: reason.to_owned() },
            status => status,
        }
    }

    /// `status`, or that settings leave out something that was named, for a checker that only counts the files that it
    /// read. A named directory has at least one file.
    pub(crate) fn partial_if_left_out(&self, read: u64, status: CheckerStatus) -> CheckerStatus {
        let named = self.files.len();
        let reason = format!(
            "its settings leave out some of what was named, since it read {} of {named}: {}",
            counted(read, "file"),
            listed(self.files)
        );
        self.partial_if(read < named as u64, &reason, status)
    }

    /// The status of a checker that exits with `clean` if it finds nothing that fails a check and with `found` if it
    /// does. A status of `found` without any finding is a failure: something else made the check fail.
    pub(crate) fn ended(&self, findings: &[Finding], clean: i32, found: i32) -> CheckerStatus {
        match self.status {
            status if status == clean => CheckerStatus::Complete,
            status if status == found && !findings.is_empty() => CheckerStatus::Complete,
            status if status == found => self.failed_because("it reported no finding in the workspace"),
            _ => self.failed(),
        }
    }
}

/// Why a checker is partial where it checks no more of a file with an error of syntax.
pub(crate) const SYNTAX_REASON: &str = "of files with errors of syntax, only these are reported";

/// The first lines of a text in one line; `None` if it has none.
pub(crate) fn beginning(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric));
    let lines: Vec<&str> = lines.take(REASON_LINES_MAX).collect();
    let joined = proctor_core::bounds::clip(lines.join("; "), REASON_BYTES_MAX);
    (!joined.is_empty()).then_some(joined)
}

/// Most files that a sentence names.
const NAMED_MAX: usize = 8;

/// The first of these names, and how many more they are.
pub(super) fn listed(names: &[String]) -> String {
    first_names(names, NAMED_MAX)
}

/// A number of a checker's output as a line or column; 0 if it is none.
pub(crate) fn position(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(0)
}

//! The identity of a finding, which survives that its lines move.

use super::Finding;
use std::collections::BTreeMap;

/// Identity of a finding: a hash of its checker, kind, rule, file, its message without positions, and its number among
/// the findings of the file that share all of these, in the order of the file.
///
/// An edit above a finding does not change it. Of several equal findings in one file, the last counts as the new one,
/// wherever it was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct FindingId([u8; 16]);

/// Words before a number that is a position: `on line 12`.
const POSITION_WORDS: [&str; 5] = ["line", "lines", "column", "columns", "col"];

impl FindingId {
    /// The identities of findings, in their order. They must be sorted by file and range.
    #[must_use]
    pub fn of_all(findings: &[Finding]) -> Vec<FindingId> {
        let mut seen: BTreeMap<[u8; 16], u64> = BTreeMap::new();
        let identify = |finding| {
            let shared = hash(finding, 0);
            let number = seen.entry(shared).or_default();
            *number += 1;
            FindingId(if *number == 1 { shared } else { hash(finding, *number) })
        };
        findings.iter().map(identify).collect()
    }

    /// The identity in hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn hash(finding: &Finding, number: u64) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    let message = without_positions(&finding.message);
    for text in [&finding.checker, finding.kind.name(), &finding.rule, &finding.file, &message] {
        hasher.update(text.as_bytes()).update(b"\0");
    }
    hasher.update(&number.to_le_bytes());
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}

/// The message with `#` for each number that is a position: behind `:` or `line`, or the pair of `(12,3)`.
fn without_positions(message: &str) -> String {
    let mut masked = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        masked.push_str(before);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        masked.push_str(if is_position(&masked, after) { "#" } else { number });
        rest = after;
    }
    masked.push_str(rest);
    masked
}

/// Whether the number between these two texts is a position.
fn is_position(before: &str, after: &str) -> bool {
    let closes = |rest: &str| rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with(')');
    let is_first =
        before.ends_with('(') && after.strip_prefix(',').is_some_and(|rest| closes(rest) && !rest.starts_with(')'));
    let is_of_pair = is_first || before.ends_with("(#,") && after.starts_with(')');
    let word = before.trim_end_matches(' ').rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    let is_named = before.ends_with(' ') && POSITION_WORDS.contains(&word.to_ascii_lowercase().as_str());
    before.ends_with(':') || is_of_pair || is_named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_positions_and_no_other_numbers() {
        for (message, masked) in [
            ("`x` is already defined in a.py:12:3", "`x` is already defined in a.py:#:#"),
            ("redefinition from line 12, Column 4", "redefinition from line #, Column #"),
            ("declared at src/a.ts(10,26)", "declared at src/a.ts(#,#)"),
            ("expected 2 arguments, found 3 (E0061)", "expected 2 arguments, found 3 (E0061)"),
            ("f(1, 2) of x1", "f(1, 2) of x1"),
            ("", ""),
        ] {
            assert_eq!(without_positions(message), masked);
        }
    }
}

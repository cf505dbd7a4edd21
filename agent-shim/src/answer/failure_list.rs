//! The failures that one answer shows: the first ones explained, others by name and place only, which takes a fraction of
//! the room. What is shown is always the beginning of the list, so that its length is the cursor of the rest.

use super::budget::Detail;
use super::failure::{FailureEntry, FailureKind};
use proctor_proto::printable::line;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The failures of a run, in their order.
pub(crate) struct FailureList {
    entries: Vec<FailureEntry>,
    /// For each entry the first one that failed alike, by its index.
    first_alike: Vec<usize>,
}

/// The failures that an answer shows.
#[derive(Debug, PartialEq)]
pub(crate) struct Selection {
    pub(crate) explained: Vec<FailureEntry>,
    pub(crate) named: Vec<NamedFailures>,
    /// Number of failures shown, without tests that were running when the run was cut off.
    pub(crate) shown: usize,
    /// Number of entries of any kind that are not shown.
    pub(crate) left_out: usize,
}

/// Failures of one file, by name and line only.
#[derive(Debug, PartialEq)]
pub(crate) struct NamedFailures {
    kind: FailureKind,
    file: Option<String>,
    /// Empty for a build or collection error.
    package: String,
    names: Vec<String>,
    /// A line for each name, or none at all.
    lines: Vec<u32>,
}

impl FailureList {
    pub(crate) fn new(entries: Vec<FailureEntry>) -> FailureList {
        FailureList { first_alike: first_alike(&entries), entries }
    }

    pub(crate) fn entries(&self) -> &[FailureEntry] {
        &self.entries
    }

    /// The first `detail.items` failures, of which at most `detail.explained` have a message.
    pub(crate) fn select(&self, detail: &Detail) -> Selection {
        let count = self.entries.len().min(detail.items);
        let mut explained: Vec<FailureEntry> = Vec::new();
        let mut named: Vec<NamedFailures> = Vec::new();
        // Where the first of those alike is among the explained ones, and where the failures of each file are named.
        let mut positions: HashMap<usize, usize> = HashMap::new();
        let mut groups: HashMap<GroupKey<'_>, usize> = HashMap::new();
        for (index, entry) in self.entries[..count].iter().enumerate() {
            let first = if detail.folds_failures { self.first_alike[index] } else { index };
            match positions.get(&first) {
                Some(position) => explained[*position].alike.push(entry.name.clone()),
                None if first == index && explained.len() < detail.explained => {
                    positions.insert(index, explained.len());
                    explained.push(entry.clipped(detail));
                }
                None => match groups.entry(group_key(entry)) {
                    Entry::Occupied(group) => named[*group.get()].push(entry),
                    Entry::Vacant(vacant) => {
                        vacant.insert(named.len());
                        named.push(NamedFailures::new(entry));
                    }
                },
            }
        }
        let shown = self.entries[..count].iter().filter(|entry| entry.kind != FailureKind::Running).count();
        Selection { explained, named, shown, left_out: self.entries.len() - count }
    }
}

/// Kind, file and package, which the failures of a group share, and whether their lines are known.
type GroupKey<'a> = (FailureKind, Option<&'a str>, &'a str, bool);

fn group_key(entry: &FailureEntry) -> GroupKey<'_> {
    (entry.kind, entry.file.as_deref(), entry.short_name().0, entry.line.is_some())
}

// Numbers in messages are not compared: they differ between the cases of one test. What has neither message nor place is
// alike to nothing.
fn first_alike(entries: &[FailureEntry]) -> Vec<usize> {
    let mut first = HashMap::new();
    let alike = entries.iter().enumerate().map(|(index, entry)| {
        let place = entry.place();
        if entry.message.trim().is_empty() && place.is_none() {
            return index;
        }
        let key = (entry.kind, place, without_numbers(&entry.message), &entry.expected, &entry.actual);
        match first.entry(key) {
            Entry::Occupied(earlier) => *earlier.get(),
            Entry::Vacant(vacant) => *vacant.insert(index),
        }
    });
    alike.collect()
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|character| !character.is_ascii_digit()).collect()
}

impl NamedFailures {
    fn new(entry: &FailureEntry) -> NamedFailures {
        NamedFailures {
            kind: entry.kind,
            file: entry.file.clone(),
            package: entry.short_name().0.to_owned(),
            names: vec![entry.short_name().1.to_owned()],
            lines: entry.line.into_iter().collect(),
        }
    }

    fn push(&mut self, entry: &FailureEntry) {
        self.names.push(entry.short_name().1.to_owned());
        self.lines.extend(entry.line);
    }

    fn to_json(&self) -> Value {
        json!({
            "kind": self.kind.name(),
            "file": self.file,
            "package": Some(&self.package).filter(|package| !package.is_empty()),
            "names": self.names,
            "lines": (!self.lines.is_empty()).then_some(&self.lines),
        })
    }

    // The file and the package, then a line for each failure: the number of its line, and its name.
    fn text(&self) -> String {
        let file = self.file.as_deref().filter(|file| *file != self.package);
        let heading: Vec<_> = file.into_iter().chain([self.package.as_str()]).filter(|part| !part.is_empty()).collect();
        let heading = if heading.is_empty() { String::new() } else { format!("{}:\n", line(&heading.join(", "))) };
        let lines = self.lines.iter().map(|number| format!("{number} ")).chain(std::iter::repeat(String::new()));
        let remark = self.kind.remark();
        let names = self.names.iter().zip(lines);
        heading + &names.map(|(name, at)| format!(" {at}{}{remark}\n", line(name))).collect::<String>()
    }
}

/// The named failures as text; empty without any. They have no numbers: an explained failure may stand for several.
pub(crate) fn named_text(named: &[NamedFailures]) -> String {
    if named.is_empty() {
        return String::new();
    }
    let count: usize = named.iter().map(|group| group.names.len()).sum();
    let groups: String = named.iter().map(NamedFailures::text).collect();
    format!("{count} more by line and name:\n{groups}\n")
}

/// The named failures as structured content.
pub(crate) fn named_json(named: &[NamedFailures]) -> Value {
    if named.is_empty() { Value::Null } else { named.iter().map(NamedFailures::to_json).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{budget, failure};
    use proctor_proto::v1::{Report, TestCase, TestOutcome};

    fn test(name: &str, message: &str) -> TestCase {
        TestCase {
            nodeid: format!("a/{name}"),
            package: "a".into(),
            name: name.into(),
            outcome: TestOutcome::Failed.into(),
            file: Some("a_test.go".into()),
            line: Some(7),
            message: Some(message.into()),
            ..TestCase::default()
        }
    }

    fn list(tests: Vec<TestCase>) -> FailureList {
        FailureList::new(failure::entries(&Report { tests, ..Report::default() }))
    }

    const FOLDED: Detail = Detail { folds_failures: true, ..budget::FULL };

    #[test]
    fn folds_failures_that_differ_only_in_numbers() {
        let cases = (0..20).map(|n| test(&format!("T/{n}"), &format!("case {n} is wrong")));
        let all = list(cases.chain([test("U", "another")]).collect());
        let shown = all.select(&FOLDED);
        assert_eq!((shown.explained.len(), shown.explained[0].alike.len(), shown.left_out), (2, 19, 0));
        let shown = all.select(&Detail { items: 5, ..FOLDED });
        assert_eq!((shown.explained.len(), shown.explained[0].alike.len(), shown.left_out), (1, 4, 16));
        let shown = all.select(&Detail { items: 5, ..budget::FULL });
        assert_eq!((shown.explained.len(), shown.shown, shown.left_out), (5, 5, 16));
    }

    #[test]
    fn does_not_fold_failures_with_other_values_or_without_message_and_place() {
        let expected = |value: &str| TestCase { expected: Some(value.into()), ..test("T", "not equal") };
        let bare = TestCase { file: None, line: None, message: None, ..test("T", "") };
        let silent = TestCase { message: None, ..test("T", "") };
        for (tests, entries) in [
            (vec![expected("3"), expected("4")], 2),
            (vec![expected("3"), expected("3")], 1),
            (vec![bare.clone(), bare], 2),
            (vec![silent.clone(), silent], 1),
        ] {
            assert_eq!(list(tests).select(&FOLDED).explained.len(), entries);
        }
    }

    #[test]
    fn names_by_file_what_it_does_not_explain() {
        let other = TestCase { file: Some("b_test.go".into()), ..test("V", "x") };
        let all = list(vec![test("T", "x"), test("U", "y"), TestCase { line: Some(9), ..test("W", "z") }, other]);
        let shown = all.select(&Detail { explained: 1, ..budget::FULL });
        assert_eq!((shown.explained.len(), shown.shown, shown.left_out), (1, 4, 0));
        assert_eq!(
            named_text(&shown.named),
            "3 more by line and name:\na_test.go, a:\n 7 U\n 9 W\nb_test.go, a:\n 7 V\n\n"
        );
        assert_eq!(
            named_json(&shown.named)[0],
            json!({"kind": null, "file": "a_test.go", "package": "a", "names": ["U", "W"], "lines": [7, 9]})
        );
    }
}

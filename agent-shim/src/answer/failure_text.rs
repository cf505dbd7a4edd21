//! Failures as text, in the form of `last_test_failures`: the name, then three-space indented place, message and values.

use super::failure::FailureEntry;
use proctor_proto::printable::{block, line};

/// The numbered list of `entries`; each ends with an empty line.
pub(crate) fn list(entries: &[FailureEntry]) -> String {
    (1..).zip(entries).map(|(number, entry)| one(number, entry)).collect()
}

fn one(number: usize, entry: &FailureEntry) -> String {
    let mut text = format!("{number}. {}{}\n", line(&entry.name), entry.kind.remark());
    let mut indent = |content: &str| {
        for line in block(content).lines() {
            text.push_str(&format!("   {}", line.trim_end()));
            text.push('\n');
        }
    };
    entry.place().iter().for_each(|place| indent(&line(place)));
    indent(&entry.message);
    if entry.actual.is_some() || entry.expected.is_some() {
        indent("--- diff ---");
        entry.actual.iter().for_each(|actual| indent(&format!("got: {actual}")));
        entry.expected.iter().for_each(|expected| indent(&format!("want: {expected}")));
    }
    entry.stack.iter().for_each(|frame| indent(frame.trim_start()));
    indent(&entry.output);
    if !entry.alike.is_empty() {
        let names: Vec<_> = entry.alike.iter().map(|name| line(name)).collect();
        indent(&format!("alike: {}", names.join(", ")));
    }
    text.push('\n');
    text
}

//! A parser's notes for a person: each sentence once, and a bounded number of them.

use std::ops::Deref;

/// Most sentences of one parser: enough for some flaky tests, too few for thousands.
const NOTES_MAX: usize = 32;

/// The sentences, in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Notes(Vec<String>);

impl Notes {
    pub(crate) fn add(&mut self, note: String) {
        if self.0.len() < NOTES_MAX && !self.0.contains(&note) {
            self.0.push(note);
        }
    }
}

impl Extend<String> for Notes {
    fn extend<T: IntoIterator<Item = String>>(&mut self, notes: T) {
        notes.into_iter().for_each(|note| self.add(note));
    }
}

impl IntoIterator for Notes {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Deref for Notes {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_each_sentence_once_and_a_bounded_number() {
        let mut notes = Notes::default();
        notes.extend(["b", "a", "b"].map(str::to_owned));
        assert_eq!(notes[..], ["b", "a"]);
        notes.extend((0..1_000).map(|number| number.to_string()));
        assert_eq!((notes.len(), notes[NOTES_MAX - 1].as_str()), (NOTES_MAX, "29"));
    }
}

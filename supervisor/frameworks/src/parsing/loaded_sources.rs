//! The sources that the processes of one run loaded, with the lines of each that can be executed.

use super::growing_spans::GrowingSpans;
use proctor_core::bounds::{COVERAGE_BYTES_MAX, COVERED_FILES_MAX};
use proctor_core::coverage::{LineSpan, LoadedSource};
use std::collections::BTreeMap;

/// Sources by path, each once, at most [`COVERED_FILES_MAX`], with as many spans as a coverage index can hold. Beyond, sources are
/// loaded and not measured.
#[derive(Debug, Default)]
pub(crate) struct LoadedSources {
    by_path: BTreeMap<String, Option<GrowingSpans>>,
    spans: usize,
}

impl LoadedSources {
    /// Adds what one process loaded; `None` for a file that it did not measure. Processes that load different parts of a file add to
    /// its lines.
    pub(crate) fn add(&mut self, path: &str, executable: Option<&[LineSpan]>) {
        if !self.by_path.contains_key(path) {
            if self.by_path.len() >= COVERED_FILES_MAX {
                return;
            }
            self.by_path.insert(path.to_owned(), None);
        }
        let executable =
            executable.filter(|spans| self.spans + spans.len() <= COVERAGE_BYTES_MAX / size_of::<LineSpan>());
        if let (Some(known), Some(more)) = (self.by_path.get_mut(path), executable) {
            let known = known.get_or_insert_default();
            let before = known.len();
            known.add(more);
            self.spans = (self.spans + known.len()).saturating_sub(before);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<LoadedSource> {
        let source = |(path, executable): (String, Option<GrowingSpans>)| LoadedSource {
            path,
            executable: executable.map(GrowingSpans::into_united),
            text: None,
        };
        self.by_path.into_iter().map(source).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unites_the_lines_of_all_processes() {
        let span = |first, last| LineSpan { first, last };
        let mut sources = LoadedSources::default();
        sources.add("a.py", Some(&[span(1, 2)]));
        sources.add("a.py", Some(&[span(1, 2)]));
        sources.add("a.py", Some(&[span(3, 3), span(9, 9)]));
        sources.add("b.py", None);
        sources.add("c.py", None);
        sources.add("c.py", Some(&[]));
        let found = sources.into_vec().into_iter().map(|source| (source.path, source.executable));
        let found: Vec<_> = found.collect();
        let expected = [("a.py", Some(vec![span(1, 3), span(9, 9)])), ("b.py", None), ("c.py", Some(vec![]))];
        assert_eq!(found, expected.map(|(path, executable)| (path.to_owned(), executable)));
    }
}

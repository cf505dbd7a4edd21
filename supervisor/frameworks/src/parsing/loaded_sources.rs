//! The sources that the processes of one run loaded, with the lines of each that can be executed.

use proctor_core::bounds::{COVERAGE_BYTES_MAX, COVERED_FILES_MAX, SPANS_PER_FILE_MAX};
use proctor_core::coverage::{LineSpan, LoadedSource, united};
use std::collections::BTreeMap;

/// Sources by path, each once, at most [`COVERED_FILES_MAX`], with as many spans as a coverage index can hold. Beyond, sources are
/// loaded and not measured.
#[derive(Debug, Default)]
pub(crate) struct LoadedSources {
    by_path: BTreeMap<String, Option<Vec<LineSpan>>>,
    spans: usize,
}

impl LoadedSources {
    /// Adds what one process loaded; `None` for a file that it did not measure. Processes that load different parts of a file add to
    /// its lines.
    pub(crate) fn add(&mut self, path: &str, executable: Option<&[LineSpan]>) {
        let known = self.by_path.get(path).and_then(Option::as_deref);
        let executable = executable.filter(|spans| known.is_none_or(|known| known != *spans));
        let executable =
            executable.filter(|spans| self.spans + spans.len() <= COVERAGE_BYTES_MAX / size_of::<LineSpan>());
        self.spans += executable.map_or(0, <[LineSpan]>::len);
        if let Some(known) = self.by_path.get_mut(path) {
            match (known.as_mut(), executable) {
                (Some(known), Some(more)) => {
                    *known = united(known.iter().chain(more).copied().collect());
                    known.truncate(SPANS_PER_FILE_MAX);
                }
                (None, Some(first)) => *known = Some(united(first.to_vec())),
                _ => {}
            }
        } else if self.by_path.len() < COVERED_FILES_MAX {
            self.by_path.insert(path.to_owned(), executable.map(|spans| united(spans.to_vec())));
        }
    }

    pub(crate) fn into_vec(self) -> Vec<LoadedSource> {
        let source = |(path, executable)| LoadedSource { path, executable, text: None };
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

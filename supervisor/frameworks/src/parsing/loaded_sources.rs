//! The sources that the processes of one run loaded, with the lines of each that can be executed.

use proctor_core::bounds::{COVERAGE_BYTES_MAX, COVERED_FILES_MAX, SPANS_PER_FILE_MAX};
use proctor_core::coverage::{LineSpan, LoadedSource, united};
use std::collections::BTreeMap;

/// Sources by path, each once, at most [`COVERED_FILES_MAX`], with as many spans as a coverage index can hold. Beyond, sources are
/// loaded and not measured.
#[derive(Debug, Default)]
pub(crate) struct LoadedSources {
    by_path: BTreeMap<String, Option<ExecutableLines>>,
    spans: usize,
}

/// Lines of one source.
#[derive(Debug, Default)]
struct ExecutableLines {
    spans: Vec<LineSpan>,
    /// How many of them are sorted and disjoint. The others are united with them once they are as many, so that a source of many
    /// processes is not sorted for each.
    united: usize,
}

impl ExecutableLines {
    fn add(&mut self, more: &[LineSpan]) {
        if self.spans[..self.united] == *more {
            return;
        }
        self.spans.extend(more);
        if self.spans.len() > 2 * self.united {
            self.unite();
        }
    }

    fn unite(&mut self) {
        self.spans = united(std::mem::take(&mut self.spans));
        self.spans.truncate(SPANS_PER_FILE_MAX);
        self.united = self.spans.len();
    }
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
            let before = known.spans.len();
            known.add(more);
            self.spans += known.spans.len().saturating_sub(before);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<LoadedSource> {
        let source = |(path, executable): (String, Option<ExecutableLines>)| {
            let executable = executable.map(|mut lines| {
                lines.unite();
                lines.spans
            });
            LoadedSource { path, executable, text: None }
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

    #[test]
    fn a_source_of_many_small_records_is_united_seldom() {
        let span = |line| LineSpan { first: line, last: line };
        let all: Vec<LineSpan> = (0..20_000).map(|line| span(4 * line + 1)).collect();
        let mut sources = LoadedSources::default();
        sources.add("a.py", Some(&all));
        for line in 0..20_000 {
            sources.add("a.py", Some(&[span(4 * line + 3)]));
        }
        let lines = &sources.by_path["a.py"];
        assert_eq!(lines.as_ref().unwrap().united, 20_000, "not for each record");
        let found = sources.into_vec().remove(0).executable.unwrap();
        assert_eq!((found.len(), found[1]), (40_000, span(3)));
    }
}

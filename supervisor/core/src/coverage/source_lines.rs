//! The lines of each source that can be executed, and the texts of it that tests were measured with.

use super::line_spans::{contains_line, spans_from_text, spans_to_text};
use super::{CoverageIndex, LineSpan, file_memory_bytes};
use crate::bounds::{COVERAGE_BYTES_MAX, COVERED_FILES_MAX, EARLIER_TEXTS_MAX, SPANS_PER_FILE_MAX};
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A source that a run loaded, as an adapter reads it from a runner's measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedSource {
    /// Path relative to the workspace.
    pub path: String,
    /// Lines that can be executed, sorted and disjoint; `None` if the runner loaded the file without measuring it.
    pub executable: Option<Vec<LineSpan>>,
    /// Hash of the text that the run loaded; `None` while it is not known, as for a file that was written during the run.
    pub text: Option<u64>,
}

/// What the index knows of one source besides its executed lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLines {
    /// Lines that can be executed, of the newest of `texts`.
    #[serde(with = "spans_as_text")]
    executable: Vec<LineSpan>,
    /// Hash of the text by the start of the first run that loaded it, oldest first, at most [`EARLIER_TEXTS_MAX`].
    texts: Vec<(Timestamp, u64)>,
    /// Hash of the text of which every test is known that executes a line of it.
    complete: Option<u64>,
}

impl SourceLines {
    /// Lines that can be executed of the text with hash `text`; `None` if the newest measurement is of another text.
    #[must_use]
    pub fn executable(&self, text: u64) -> Option<&[LineSpan]> {
        (self.newest_text() == Some(text)).then_some(self.executable.as_slice())
    }

    /// Lines that can be executed, and the hash of the text that has them.
    #[must_use]
    pub fn newest(&self) -> Option<(&[LineSpan], u64)> {
        Some((self.executable.as_slice(), self.newest_text()?))
    }

    /// Hash of the text that a run loaded which began at `began_at`.
    #[must_use]
    pub fn text_at(&self, began_at: Timestamp) -> Option<u64> {
        self.texts.iter().rev().find(|(at, _)| *at <= began_at).map(|(_, text)| *text)
    }

    /// Whether every test is known that executes a line of the text with hash `text`.
    #[must_use]
    pub fn is_complete(&self, text: u64) -> bool {
        self.complete == Some(text)
    }

    fn after(self, mut executable: Vec<LineSpan>, text: u64, is_complete: bool, began_at: Timestamp) -> SourceLines {
        executable.truncate(SPANS_PER_FILE_MAX);
        let mut texts = self.texts;
        if texts.last().is_none_or(|(_, newest)| *newest != text) {
            texts.push((began_at, text));
        }
        texts.drain(..texts.len().saturating_sub(EARLIER_TEXTS_MAX));
        SourceLines { executable, texts, complete: if is_complete { Some(text) } else { self.complete } }
    }

    fn newest_text(&self) -> Option<u64> {
        self.texts.last().map(|(_, text)| *text)
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(self.executable.as_slice()) + size_of_val(self.texts.as_slice())
    }
}

impl CoverageIndex {
    /// Adds the sources that a run loaded which began at `began_at`. `is_complete`: whether no other test reaches what
    /// changed since the tests were measured before. Of a source whose text or lines the run does not know, only remains that
    /// tests load it.
    ///
    /// Returns a sentence if the bound of the index left something out.
    pub fn add_sources(
        &mut self,
        sources: Vec<LoadedSource>,
        is_complete: bool,
        began_at: Timestamp,
    ) -> Option<String> {
        let mut bytes_left = COVERAGE_BYTES_MAX.saturating_sub(self.memory_bytes());
        let mut left_out = 0_usize;
        for LoadedSource { path, executable, text } in sources {
            let before = self.sources.remove(&path);
            bytes_left += before.as_ref().map_or(0, |lines| file_memory_bytes(&path) + lines.memory_bytes());
            let lines = match (text, executable) {
                (Some(text), Some(executable)) => {
                    before.unwrap_or_default().after(executable, text, is_complete, began_at)
                }
                // That it was loaded is all that is known.
                _ => SourceLines::default(),
            };
            let bytes = file_memory_bytes(&path) + lines.memory_bytes();
            if bytes > bytes_left || self.sources.len() >= COVERED_FILES_MAX {
                left_out += 1;
                self.misses_sources = true;
                continue;
            }
            bytes_left -= bytes;
            self.sources.insert(path, lines);
        }
        (left_out > 0).then(|| format!("coverage index full: the executable lines of {left_out} files left out"))
    }

    /// Whether some test may load the source `file`: unless the index knows every loaded source, and this is none of them.
    #[must_use]
    pub fn may_be_loaded(&self, file: &str) -> bool {
        let misses_sources = self.misses_sources || self.sources.is_empty();
        self.has_measured() && (misses_sources || self.sources.contains_key(file) || self.files.contains_key(file))
    }

    /// What is known of the source `file` besides its executed lines.
    #[must_use]
    pub fn source(&self, file: &str) -> Option<&SourceLines> {
        self.sources.get(file)
    }

    /// Lines of `file` that tests executed, by the start of the run that measured them, sorted and disjoint. Leaves out the lines of
    /// tests that `is_left_out` names by package and name.
    #[must_use]
    pub fn executed_by_time(
        &self,
        file: &str,
        is_left_out: impl Fn(&str, &str) -> bool,
    ) -> BTreeMap<Timestamp, Vec<LineSpan>> {
        let mut executed: BTreeMap<Timestamp, Vec<LineSpan>> = BTreeMap::new();
        let Some(lines) = self.files.get(file) else { return executed };
        let time_of = |id: u32| {
            let unit = self.units.get(id as usize)?.as_ref()?;
            unit.tests.iter().any(|test| !is_left_out(&unit.package, test)).then_some(unit.measured_at)
        };
        let times_of: BTreeMap<u32, Timestamp> = lines.any().iter().filter_map(|id| Some((id, time_of(id)?))).collect();
        let times = lines.combinations().iter().map(|sets| {
            let mut times: Vec<Timestamp> = sets.iter().filter_map(|id| times_of.get(&id).copied()).collect();
            times.sort_unstable();
            times.dedup();
            times
        });
        let times: Vec<Vec<Timestamp>> = times.collect();
        for (span, combination) in lines.runs() {
            for time in &times[combination] {
                let spans = executed.entry(*time).or_default();
                match spans.last_mut() {
                    Some(last) if last.last.checked_add(1) == Some(span.first) => last.last = span.last,
                    _ => spans.push(span),
                }
            }
        }
        executed
    }

    /// Lines of `spans` that no test executed, of `file` as it was measured.
    #[must_use]
    pub fn not_executed(&self, file: &str, spans: &[LineSpan]) -> Vec<u32> {
        let executed: Vec<LineSpan> =
            self.files.get(file).map(|lines| lines.runs().map(|(span, _)| span).collect()).unwrap_or_default();
        let lines = spans.iter().flat_map(|span| span.first..=span.last);
        lines.filter(|line| !contains_line(&executed, *line)).collect()
    }

    pub(super) fn sources_memory_bytes(&self) -> usize {
        self.sources.iter().map(|(file, lines)| file_memory_bytes(file) + lines.memory_bytes()).sum()
    }
}

/// Spans are stored as text, `3-5,8`: as objects they would take ten times the space.
mod spans_as_text {
    use super::{LineSpan, spans_from_text, spans_to_text};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(spans: &[LineSpan], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&spans_to_text(spans))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<LineSpan>, D::Error> {
        let text = String::deserialize(deserializer)?;
        spans_from_text(&text).ok_or_else(|| serde::de::Error::custom("spans of lines are `3-5,8`, in order"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::{Attribution, Calibration, CoverageMeasurement};

    fn span(first: u32, last: u32) -> LineSpan {
        LineSpan { first, last }
    }

    fn measured(test: &str, first: u32, last: u32) -> CoverageMeasurement {
        CoverageMeasurement {
            package: "p".to_owned(),
            tests: vec![test.to_owned()],
            complete: true,
            attribution: Attribution::Test,
            started_processes: false,
            kept: Vec::new(),
            calibration: Calibration::None,
            files: vec![("a.py".to_owned(), vec![span(first, last)])],
        }
    }

    fn loaded(executable: &[(u32, u32)], text: Option<u64>) -> LoadedSource {
        let executable = executable.iter().map(|(first, last)| span(*first, *last)).collect();
        LoadedSource { path: "a.py".to_owned(), executable: Some(executable), text }
    }

    #[test]
    fn a_newer_measurement_replaces_the_executable_lines() {
        let mut index = CoverageIndex::default();
        assert_eq!(index.add_sources(vec![loaded(&[(1, 3)], Some(7))], true, Timestamp(1)), None);
        index.add_sources(vec![loaded(&[(1, 5)], Some(8))], false, Timestamp(2));
        let lines = index.source("a.py").unwrap();
        assert_eq!(lines.executable(8).unwrap(), [span(1, 5)]);
        assert_eq!(lines.executable(7), None, "the newest measurement is of another text");
        assert_eq!((lines.text_at(Timestamp(1)), lines.text_at(Timestamp(2))), (Some(7), Some(8)));
        assert!(lines.is_complete(7) && !lines.is_complete(8), "a part of the tests says nothing about the others");
    }

    #[test]
    fn forgets_the_lines_of_a_source_that_was_written_during_a_run_or_not_measured_in_it() {
        for unknown in [loaded(&[(1, 3)], None), LoadedSource { executable: None, ..loaded(&[], Some(7)) }] {
            let mut index = CoverageIndex::default();
            index.add_sources(vec![loaded(&[(1, 3)], Some(7))], true, Timestamp(1));
            index.add_sources(vec![unknown], true, Timestamp(2));
            assert_eq!(index.source("a.py"), Some(&SourceLines::default()));
        }
    }

    #[test]
    fn a_run_of_all_tests_forgets_sources_that_it_did_not_load() {
        let mut index = CoverageIndex::default();
        index.ingest(vec![measured("A", 1, 1)], true, Timestamp(1));
        index.add_sources(vec![loaded(&[(1, 3)], Some(7))], true, Timestamp(1));
        index.ingest(vec![measured("A", 1, 1)], true, Timestamp(2));
        assert_eq!(index.source("a.py"), None);
    }

    #[test]
    fn lists_executed_lines_by_run_without_the_tests_left_out() {
        let mut index = CoverageIndex::default();
        index.ingest(vec![measured("A", 1, 4), measured("B", 3, 6)], true, Timestamp(1));
        index.ingest(vec![measured("B", 8, 9)], false, Timestamp(2));
        let all = index.executed_by_time("a.py", |_, _| false);
        assert_eq!(all, BTreeMap::from([(Timestamp(1), vec![span(1, 4)]), (Timestamp(2), vec![span(8, 9)])]));
        let without_a = index.executed_by_time("a.py", |package, test| (package, test) == ("p", "A"));
        assert_eq!(without_a, BTreeMap::from([(Timestamp(2), vec![span(8, 9)])]));
        assert_eq!(index.not_executed("a.py", &[span(3, 6), span(9, 10)]), [5, 6, 10]);
    }

    #[test]
    fn keeps_a_bounded_number_of_texts_and_is_stored_with_the_index() {
        let mut index = CoverageIndex::default();
        for run in 0..10 {
            index.add_sources(vec![loaded(&[(2, 4), (9, 9)], Some(run))], true, Timestamp(run));
        }
        assert_eq!(index.source("a.py").unwrap().texts.len(), EARLIER_TEXTS_MAX);
        let stored = serde_json::to_string(&index).unwrap();
        assert!(stored.contains("\"2-4,9\""), "{stored}");
        let restored: CoverageIndex = serde_json::from_str(&stored).unwrap();
        assert_eq!(restored.source("a.py"), index.source("a.py"));
        let old: CoverageIndex = serde_json::from_str(r#"{"units":[],"files":{},"has_measured":true}"#).unwrap();
        assert!(old.has_measured() && old.source("a.py").is_none(), "an index of an earlier version");
        assert!(serde_json::from_str::<CoverageIndex>(&stored.replace("2-4,9", "4-2")).is_err());
    }

    #[test]
    fn many_runs_of_one_text_are_one_text() {
        let mut index = CoverageIndex::default();
        for run in 1..10 {
            index.add_sources(vec![loaded(&[(2, 4)], Some(7))], run == 1, Timestamp(run));
        }
        index.add_sources(vec![loaded(&[(2, 4)], Some(8))], false, Timestamp(10));
        let lines = index.source("a.py").unwrap();
        let texts = [0, 1, 9, 10, 11].map(|at| lines.text_at(Timestamp(at)));
        assert_eq!(texts, [None, Some(7), Some(7), Some(8), Some(8)]);
    }

    #[test]
    fn knows_that_a_file_is_loaded_by_no_test_only_if_it_knows_all_that_are() {
        let mut index = CoverageIndex::default();
        assert!(!index.may_be_loaded("b.py"), "nothing was measured");
        index.ingest(vec![measured("A", 1, 1)], true, Timestamp(1));
        assert!(index.may_be_loaded("b.py"), "an index of an earlier version has no sources");
        index.add_sources(vec![loaded(&[(1, 3)], Some(7))], true, Timestamp(1));
        assert!(index.may_be_loaded("a.py") && !index.may_be_loaded("b.py"));
    }

    #[test]
    fn counts_the_memory_of_sources() {
        let mut index = CoverageIndex::default();
        index.add_sources(vec![loaded(&[(2, 4), (9, 9)], Some(1))], true, Timestamp(1));
        let spans = 2 * size_of::<LineSpan>() + size_of::<(Timestamp, u64)>();
        assert_eq!(index.memory_bytes(), file_memory_bytes("a.py") + spans);
    }
}

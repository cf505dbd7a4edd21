//! Which changed lines of the product no test executed: the diff coverage of a run.
//!
//! A line counts if it is new or changed since an earlier state and can be executed, as the runner itself says. It is reported
//! only if every test is known that may execute the text as it is now; otherwise the file is named as not known. Lines that
//! tests executed in earlier runs are moved along the edits since then.

mod code_lines;
mod rust_source;
mod source_language;

pub(crate) use rust_source::{declared_function, test_modules};
pub use source_language::SourceLanguage;

use crate::bounds::{
    UNTESTED_BYTES_MAX, UNTESTED_FILES_MAX, UNTESTED_SOURCE_BYTES_MAX, UNTESTED_SOURCES_MAX, UNTESTED_SPANS_MAX, clip,
};
use crate::coverage::{CoverageIndex, LineSpan, LoadedSource, RunCoverage, common_lines, count_lines, united};
use crate::redact::redacted;
use crate::selection::{Baseline, FileText, LineMap};
use code_lines::code_lines;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most removed files that a new one is compared with, to see whether it was renamed.
const RENAMES_MAX: usize = 50;

/// The changed lines that no test executed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UntestedLines {
    /// The earlier state, in words.
    pub since: String,
    /// Changed lines that can be executed, without those of `not_loaded` and `not_known`.
    pub changed_lines: u64,
    /// Those of them that a test executed.
    pub executed_lines: u64,
    /// The others, by file and line, at most [`UNTESTED_SPANS_MAX`].
    pub spans: Vec<UntestedSpan>,
    /// Further spans.
    pub spans_left_out: u64,
    /// Changed files that no test loaded.
    pub not_loaded: FileNames,
    /// Changed files of which the run does not tell: some of the tests that may execute their changed lines did not run since, or a file was
    /// written during the run, is no UTF-8, or did not fit.
    pub not_known: FileNames,
    /// Whether tests started other processes, whose lines are not measured.
    pub has_processes: bool,
}

/// Consecutive changed lines that no test executed. Lines between them that cannot be executed are included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntestedSpan {
    /// File, relative to the workspace.
    pub file: String,
    /// First line, from 1.
    pub first: u32,
    /// Last line.
    pub last: u32,
    /// Their text, at most [`UNTESTED_SOURCE_BYTES_MAX`].
    pub source: String,
}

/// Files by name, at most [`UNTESTED_FILES_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileNames {
    /// The first names.
    pub files: Vec<String>,
    /// Number of further files.
    pub left_out: u64,
}

impl FileNames {
    fn push(&mut self, file: &str) {
        if self.files.len() < UNTESTED_FILES_MAX {
            self.files.push(file.to_owned());
        } else {
            self.left_out += 1;
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn memory_bytes(&self) -> usize {
        self.files.iter().map(|file| size_of::<String>() + file.len()).sum()
    }
}

impl UntestedLines {
    /// Whether a changed line that can be executed was not executed.
    #[must_use]
    pub fn has_untested(&self) -> bool {
        self.changed_lines > self.executed_lines || !self.not_loaded.is_empty()
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let span = |span: &UntestedSpan| size_of::<UntestedSpan>() + span.file.len() + span.source.len();
        self.since.len()
            + self.spans.iter().map(span).sum::<usize>()
            + self.not_loaded.memory_bytes()
            + self.not_known.memory_bytes()
    }
}

/// A changed source of the product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSource {
    /// Path relative to the workspace.
    pub path: String,
    /// Its earlier text; `None` for a new file.
    pub old: Option<FileText>,
    /// Its text now.
    pub new: FileText,
    /// The same as text.
    pub source: String,
}

impl ChangedSource {
    /// Lines that are new or changed; `None` if its texts cannot be compared by line.
    #[must_use]
    pub fn changed_lines(&self) -> Option<Vec<LineSpan>> {
        match &self.old {
            Some(old) => LineMap::new_lines(old, &self.new),
            None => Some(whole(&self.new)).filter(|lines| !lines.is_empty()),
        }
    }
}

/// The changed sources of the product, as they are read. Their texts are bounded together.
#[derive(Debug)]
pub struct ChangedSources {
    changed: Vec<ChangedSource>,
    removed: Vec<(String, FileText)>,
    not_read: Vec<String>,
    bytes_left: usize,
}

impl Default for ChangedSources {
    fn default() -> ChangedSources {
        let (changed, removed, not_read) = Default::default();
        ChangedSources { changed, removed, not_read, bytes_left: UNTESTED_BYTES_MAX }
    }
}

impl ChangedSources {
    /// Adds a file that was removed, with the text that it had.
    pub fn add_removed(&mut self, path: String, old: FileText) {
        if self.removed.len() < RENAMES_MAX {
            self.removed.push((path, old));
        }
    }

    /// Adds a new or changed file. `read` returns its text now, and the same as text; `None` if it is no text or too large.
    pub fn add(&mut self, path: String, old: Option<FileText>, read: impl FnOnce() -> Option<(FileText, String)>) {
        let may_read = self.changed.len() < UNTESTED_SOURCES_MAX && self.bytes_left > 0;
        match may_read.then(read).flatten() {
            Some((new, source)) if source.len() <= self.bytes_left => {
                self.bytes_left -= source.len();
                self.changed.push(ChangedSource { path, old, new, source });
            }
            _ => self.not_read.push(path),
        }
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.not_read.is_empty()
    }

    /// The sources that were read, those that were renamed with their earlier text, and the paths of the others.
    #[must_use]
    pub fn finish(self) -> (Vec<ChangedSource>, Vec<String>) {
        (with_old_names(self.changed, &self.removed), self.not_read)
    }
}

/// Gives each new file the text of the removed one that it was renamed from: the one with most lines in common, at least half of
/// its own. `removed` are such files with their paths.
fn with_old_names(changed: Vec<ChangedSource>, removed: &[(String, FileText)]) -> Vec<ChangedSource> {
    let removed: Vec<(Option<SourceLanguage>, &FileText, Vec<u32>)> =
        removed.iter().map(|(path, text)| (SourceLanguage::of_path(path), text, text.sorted_lines())).collect();
    let with_old_name = |source: ChangedSource| {
        if source.old.is_some() || removed.is_empty() {
            return source;
        }
        let (language, own) = (SourceLanguage::of_path(&source.path), source.new.sorted_lines());
        // A file with less than half as many lines cannot have half of them.
        let candidates = removed.iter().filter(|(of, _, lines)| *of == language && 2 * own.len() >= lines.len());
        let similar = candidates.map(|(_, text, lines)| (lines_in_common(&own, lines), *text, lines.len()));
        let similar = similar.filter(|(common, _, lines)| *common > 0 && 2 * common >= *lines);
        let old = similar.max_by_key(|(common, _, _)| *common).map(|(_, text, _)| text.clone());
        ChangedSource { old, ..source }
    };
    changed.into_iter().map(with_old_name).collect()
}

/// Number of lines of one sorted list that the other has as well.
fn lines_in_common(own: &[u32], others: &[u32]) -> usize {
    let (mut others, mut common) = (others.iter().peekable(), 0);
    for hash in own {
        while others.next_if(|other| *other < hash).is_some() {}
        common += usize::from(others.next_if_eq(&hash).is_some());
    }
    common
}

/// How much a run tells about the tests that it did not execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunExtent {
    /// It executed all tests.
    AllTests,
    /// It executed all tests that changes may affect.
    AffectedTests,
    /// It executed some tests, or was cut off.
    SomeTests,
}

/// What the changed lines are compared with.
pub struct UntestedInput<'a> {
    /// The earlier state, in words.
    pub since: String,
    /// The changed sources of the product.
    pub changed: Vec<ChangedSource>,
    /// Paths of changed sources that were not read.
    pub not_read: Vec<String>,
    /// What the run measured.
    pub measured: &'a RunCoverage,
    /// Which tests it executed.
    pub extent: RunExtent,
    /// The index before the run.
    pub index: &'a CoverageIndex,
    /// The baseline before the run, which has the texts of earlier measurements.
    pub baseline: Option<&'a Baseline>,
}

/// What is known of one changed file.
enum Finding {
    /// Nothing in it that can be executed changed, or all of it was executed, or these lines were not.
    Lines {
        changed: u64,
        untested: Vec<LineSpan>,
    },
    NotLoaded,
    NotKnown,
}

/// Compares the changed lines with what tests executed. The run is not in the index yet.
#[must_use]
pub fn untested_lines(input: UntestedInput<'_>) -> UntestedLines {
    let run = RunLines::new(&input);
    let has_processes = input.measured.has_processes();
    let mut found = UntestedLines { since: input.since.clone(), has_processes, ..UntestedLines::default() };
    for path in &input.not_read {
        found.not_known.push(path);
    }
    for source in &input.changed {
        match run.find(source) {
            Finding::NotLoaded => found.not_loaded.push(&source.path),
            Finding::NotKnown => found.not_known.push(&source.path),
            Finding::Lines { changed, untested } => {
                found.changed_lines += changed;
                found.executed_lines += changed - count_lines(&untested);
                let spans = joined_spans(source, &untested);
                let shown = spans.len().min(UNTESTED_SPANS_MAX - found.spans.len());
                found.spans.extend(spans[..shown].iter().map(|span| with_source(source, *span)));
                found.spans_left_out += (spans.len() - shown) as u64;
            }
        }
    }
    found
}

struct RunLines<'a> {
    input: &'a UntestedInput<'a>,
    loaded: HashMap<&'a str, &'a LoadedSource>,
    executed: HashMap<&'a str, Vec<LineSpan>>,
    /// Tests of which the run replaces the lines, by package.
    measured_again: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Directories of the loaded sources: Go builds a package as a whole.
    loaded_dirs: BTreeSet<&'a str>,
}

impl<'a> RunLines<'a> {
    fn new(input: &'a UntestedInput<'a>) -> RunLines<'a> {
        let mut measured_again: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let changed: BTreeSet<&str> = input.changed.iter().map(|source| source.path.as_str()).collect();
        let mut executed: HashMap<&str, Vec<LineSpan>> = HashMap::new();
        for set in &input.measured.tests {
            if set.complete {
                measured_again.entry(&set.package).or_default().extend(set.tests.iter().map(String::as_str));
            }
            for (file, spans) in set.files.iter().filter(|(file, _)| changed.contains(file.as_str())) {
                executed.entry(file).or_default().extend(spans);
            }
        }
        executed.values_mut().for_each(|spans| *spans = united(std::mem::take(spans)));
        let loaded: HashMap<&str, &LoadedSource> =
            input.measured.sources.iter().map(|source| (source.path.as_str(), source)).collect();
        let loaded_dirs = loaded.keys().map(|path| directory(path)).collect();
        RunLines { input, loaded, executed, measured_again, loaded_dirs }
    }

    fn find(&self, source: &ChangedSource) -> Finding {
        let nothing = Finding::Lines { changed: 0, untested: Vec::new() };
        let code = code_lines(&source.path, &source.source);
        let changed = match source.changed_lines() {
            Some(changed) => common_lines(&changed, &code),
            None if source.source.is_empty() => return nothing,
            None => return Finding::NotKnown,
        };
        if changed.is_empty() {
            return nothing;
        }
        let text = source.new.content_number();
        let (loaded, known) = (self.loaded.get(source.path.as_str()), self.input.index.source(&source.path));
        let known = known.filter(|_| self.input.extent != RunExtent::AllTests);
        if loaded.is_none() && known.is_none() {
            return match (self.input.extent, SourceLanguage::of_path(&source.path)) {
                (RunExtent::SomeTests, Some(language)) if language.has_code(&source.source) => Finding::NotKnown,
                (RunExtent::SomeTests, _) => nothing,
                (RunExtent::AffectedTests, Some(_)) if self.input.index.may_be_loaded(&source.path) => {
                    Finding::NotKnown
                }
                // A package that is loaded lists all of its code: this file has none, or is not built on this host.
                (_, Some(SourceLanguage::Go)) if self.loaded_dirs.contains(directory(&source.path)) => nothing,
                (_, Some(language)) if language.has_code(&source.source) => Finding::NotLoaded,
                _ => nothing,
            };
        }
        let executable = match loaded {
            Some(loaded) => loaded.executable.as_deref().filter(|_| loaded.text == Some(text)),
            None => known.and_then(|known| known.executable(text)),
        };
        let Some(executable) = executable else { return Finding::NotKnown };
        let changed = common_lines(&changed, executable);
        let (by_others, has_unknown) = self.executed_by_others(source);
        let own = self.executed.get(source.path.as_str()).into_iter().flatten().copied();
        let executed = united(by_others.into_iter().chain(own).collect());
        let untested = without(&changed, &executed);
        let is_complete =
            self.input.extent != RunExtent::SomeTests || known.is_some_and(|known| known.is_complete(text));
        if !untested.is_empty() && (has_unknown || !is_complete) {
            return Finding::NotKnown;
        }
        Finding::Lines { changed: count_lines(&changed), untested }
    }

    /// Lines of the text now that tests executed which this run did not measure again, and whether there are tests of which it is
    /// not known where their lines are now.
    fn executed_by_others(&self, source: &ChangedSource) -> (Vec<LineSpan>, bool) {
        if self.input.extent == RunExtent::AllTests {
            return (Vec::new(), false);
        }
        let is_measured_again =
            |package: &str, test: &str| self.measured_again.get(package).is_some_and(|tests| tests.contains(test));
        let (mut executed, mut has_unknown) = (Vec::new(), false);
        let known = self.input.index.source(&source.path);
        for (began_at, spans) in self.input.index.executed_by_time(&source.path, is_measured_again) {
            let text = known.and_then(|known| known.text_at(began_at));
            match text.and_then(|text| moved(self.input.baseline, &source.path, &spans, (text, &source.new))) {
                Some(moved) => executed.extend(moved),
                None => has_unknown = true,
            }
        }
        (executed, has_unknown)
    }
}

/// Where lines of the text with the number `old` are in the text `new`, if they did not change. `None` if the old text is not
/// remembered.
fn moved(
    baseline: Option<&Baseline>,
    file: &str,
    spans: &[LineSpan],
    (old, new): (u64, &FileText),
) -> Option<Vec<LineSpan>> {
    if old == new.content_number() {
        return Some(spans.to_vec());
    }
    let old = baseline?.text_with(file, old)?;
    let map = LineMap::new(old, new);
    if map.knows_lines() {
        return Some(map.moved(spans));
    }
    let differs_in_endings = LineMap::new_lines(old, new).is_some_and(|lines| lines.is_empty());
    differs_in_endings.then(|| spans.to_vec())
}

/// What of a range of lines can be executed, and was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeLines {
    /// Number of its lines that can be executed.
    pub executable: u64,
    /// Those of them that no test executed when it was last measured.
    pub not_executed: Vec<LineSpan>,
}

/// What of `range` of a file's text `now`, also as `source`, can be executed, and was not. `None` if the index does not tell: nothing of
/// the file was measured, or it was edited since in a way that cannot be followed.
#[must_use]
pub fn range_lines(
    baseline: Option<&Baseline>,
    index: &CoverageIndex,
    file: &str,
    range: LineSpan,
    (now, source): (&FileText, &str),
) -> Option<RangeLines> {
    let known = index.source(file)?;
    let (executable, text) = known.newest()?;
    let executable = moved(baseline, file, executable, (text, now))?;
    let mut executed = Vec::new();
    for (began_at, spans) in index.executed_by_time(file, |_, _| false) {
        executed.extend(moved(baseline, file, &spans, (known.text_at(began_at)?, now))?);
    }
    let executable = common_lines(&common_lines(&executable, &[range]), &code_lines(file, source));
    let not_executed = without(&executable, &united(executed));
    Some(RangeLines { executable: count_lines(&executable), not_executed })
}

fn whole(text: &FileText) -> Vec<LineSpan> {
    let last = u32::try_from(text.lines()).unwrap_or(u32::MAX);
    if last > 0 { vec![LineSpan { first: 1, last }] } else { Vec::new() }
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The lines of `spans` that `removed` does not have.
fn without(spans: &[LineSpan], removed: &[LineSpan]) -> Vec<LineSpan> {
    let mut left = Vec::new();
    for span in spans {
        let mut from = span.first;
        let begin = removed.partition_point(|one| one.last < span.first);
        for one in removed[begin..].iter().take_while(|one| one.first <= span.last) {
            if one.first > from {
                left.push(LineSpan { first: from, last: one.first - 1 });
            }
            from = one.last.saturating_add(1);
        }
        if from <= span.last {
            left.push(LineSpan { first: from, last: span.last });
        }
    }
    left
}

/// Untested lines with nothing but blank lines, comments and brackets between them are one span.
fn joined_spans(source: &ChangedSource, untested: &[LineSpan]) -> Vec<LineSpan> {
    let code = code_lines(&source.path, &source.source);
    // The first line of code behind a line.
    let next_code = |line: u32| {
        let behind = code.get(code.partition_point(|span| span.last <= line))?;
        Some(behind.first.max(line + 1))
    };
    let mut spans: Vec<LineSpan> = Vec::new();
    for span in untested {
        match spans.last_mut() {
            Some(last) if next_code(last.last).is_some_and(|line| line >= span.first) => last.last = span.last,
            _ => spans.push(*span),
        }
    }
    spans
}

fn with_source(source: &ChangedSource, LineSpan { first, last }: LineSpan) -> UntestedSpan {
    // Each line has at least one byte with its end.
    let count = ((last - first) as usize + 1).min(UNTESTED_SOURCE_BYTES_MAX);
    let lines: Vec<&str> = source.source.lines().skip((first as usize).saturating_sub(1)).take(count).collect();
    let text = clip(redacted(lines.join("\n")), UNTESTED_SOURCE_BYTES_MAX);
    UntestedSpan { file: source.path.clone(), first, last, source: text }
}

#[cfg(test)]
mod tests;

//! The records of one file of measured lines: what they say, and the lines by test that they have. The first lines of
//! `proctor_records.py` say what a record is.

use crate::parsing::loaded_sources::LoadedSources;
use crate::parsing::workspace_paths::{join, leaves_workspace};
use proctor_core::bounds::{
    COVERAGE_BYTES_MAX, COVERAGE_MEASURED_BYTES_MAX, COVERED_FILES_MAX, PATH_BYTES_MAX, SPANS_PER_FILE_MAX,
};
use proctor_core::coverage::{LineSpan, LoadedFiles, spans_from_text};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Bits of a word that hold the line.
const LINE_BITS: u32 = 17;

/// Flag of a module's or class's own line.
pub(super) const OWN_LINE: u32 = 1 << LINE_BITS;

/// Most files that words can name.
const FILES_MAX: usize = 1 << (u32::BITS - FILE_SHIFT);

/// Place of the file's number in a word.
pub(super) const FILE_SHIFT: u32 = LINE_BITS + 1;

const _: () = assert!(FILES_MAX <= COVERED_FILES_MAX && (OWN_LINE as usize) / 2 <= SPANS_PER_FILE_MAX);

/// Longest text of the executable lines of one file: a span has at most twelve digits and two signs.
pub(super) const SPANS_BYTES_MAX: usize = 14 * SPANS_PER_FILE_MAX;

/// Most words that one file of records gives to test files: a record may name many of them.
const PACKAGE_WORDS_MAX: usize = COVERAGE_MEASURED_BYTES_MAX / 8;

/// Most spans of executable lines in one file of records: as many as a coverage index can hold.
const EXECUTABLE_SPANS_MAX: usize = COVERAGE_BYTES_MAX / size_of::<LineSpan>();

/// One record of a file, without its words.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Record {
    /// The file with the next number, relative to the workspace.
    File { path: String },
    /// Lines of a file that can be executed, `3-5,8`. A file may have several such records.
    Lines { of: u32, spans: String },
    /// Where the runner was started, relative to the workspace.
    Dir { path: String },
    /// Lines of a test.
    Test {
        package: String,
        name: String,
        uses: Vec<u32>,
        processes: bool,
        #[serde(default)]
        seconds: Option<f64>,
        n: u32,
    },
    /// Lines that the tests of these test files share; of all files if there is no list.
    Packages { of: Option<Vec<String>>, n: u32 },
    /// Lines of a fixture.
    Fixture { of: u32, n: u32 },
    /// Lines that were executed below functions that keep values.
    Kept { n: u32 },
    /// Numbers of the files that other files may import.
    Imported { files: BTreeSet<u32> },
    /// Numbers of the files that a test file of JavaScript loaded, and of those that Node itself loaded beside its tests. Without such
    /// a record it is not known what it loads.
    Loads { package: String, files: Vec<u32>, natively: Vec<u32> },
    /// Numbers of the files that a test file depends on which shares its modules with others: what it loaded, whichever test file was
    /// the first to do so.
    Depends { package: String, files: Vec<u32> },
    /// Numbers of the files that the runner loaded for itself.
    Runner { files: Vec<u32> },
    /// The test of this file ran alone.
    Alone,
    /// So many tests of this file were chosen to run alone, of those that took at most `seconds`. If fewer have, one failed or had no
    /// time.
    Sampled { tests: usize, seconds: f64 },
    /// A sentence for the report.
    Note { text: String },
}

/// Lines of one test.
#[derive(Debug)]
pub(super) struct TestLines {
    pub(super) package: String,
    pub(super) name: String,
    pub(super) fixtures: Vec<u32>,
    pub(super) started_processes: bool,
    /// What it took, if it may run once more: it passed, and changed nothing outside of its process that Python reports.
    pub(super) seconds: Option<f64>,
    pub(super) words: Vec<u32>,
}

/// The content of one file.
#[derive(Debug, Default)]
pub(super) struct ProcessLines {
    pub(super) dir: String,
    /// Lines that can be executed, by the number of their file.
    pub(super) executable: BTreeMap<u32, Vec<LineSpan>>,
    /// Number of these spans.
    pub(super) executable_spans: usize,
    /// By number; `None` for a path that cannot be one of the workspace.
    pub(super) files: Vec<Option<String>>,
    pub(super) tests: Vec<TestLines>,
    /// Lines that all tests share.
    pub(super) everywhere: Vec<u32>,
    /// Lines that the tests of a test file share.
    pub(super) packages: BTreeMap<String, Vec<u32>>,
    pub(super) fixtures: BTreeMap<u32, Vec<u32>>,
    /// Lines that were executed below functions that keep values.
    pub(super) kept: Vec<u32>,
    /// `None` if the process ended early.
    pub(super) imported: Option<BTreeSet<u32>>,
    /// By test file, the numbers of the files that it loaded.
    pub(super) loads: Vec<(String, Vec<u32>)>,
    pub(super) natively: Vec<u32>,
    /// By test file, the numbers of the files that it depends on, where test files share their modules.
    pub(super) depends: BTreeMap<String, BTreeSet<u32>>,
    pub(super) by_runner: Option<Vec<u32>>,
    pub(super) is_alone: bool,
    /// How many tests were chosen to run alone, and the most seconds that they took.
    pub(super) sampled: Option<(usize, f64)>,
    /// Number of words in `packages`.
    package_words: usize,
    pub(super) notes: BTreeSet<String>,
}

impl ProcessLines {
    /// Reads a file up to its first damaged record, which a note mentions.
    pub(super) fn parse(content: &[u8], finished: &BTreeMap<String, BTreeSet<String>>) -> ProcessLines {
        let mut process = ProcessLines::default();
        let mut rest = content;
        while !rest.is_empty() {
            let Some(after) = process.read_record(rest, finished) else {
                process.notes.insert(
                    "a file of measured lines is damaged or cut off: the lines behind that place are left out"
                        .to_owned(),
                );
                break;
            };
            rest = after;
        }
        process
    }

    /// Reads one record and returns what is behind it.
    fn read_record<'c>(
        &mut self,
        content: &'c [u8],
        finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> Option<&'c [u8]> {
        let end = memchr::memchr(b'\n', content)?;
        let (line, rest) = (&content[..end], &content[end + 1..]);
        let record: Record = serde_json::from_slice(line).ok()?;
        let (Record::Test { n, .. } | Record::Packages { n, .. } | Record::Fixture { n, .. } | Record::Kept { n }) =
            record
        else {
            self.add(record, finished, Vec::new());
            return Some(rest);
        };
        let (words, rest) = rest.split_at_checked(usize::try_from(n).ok()?.checked_mul(4)?)?;
        let word = |chunk: &[u8]| chunk.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        self.add(record, finished, words.chunks_exact(4).map(word).collect());
        Some(rest)
    }

    fn add(&mut self, record: Record, finished: &BTreeMap<String, BTreeSet<String>>, mut words: Vec<u32>) {
        match record {
            Record::File { path } => {
                let is_sound = !path.is_empty() && path.len() <= PATH_BYTES_MAX && !leaves_workspace(&path);
                // No word can name a file beyond.
                if self.files.len() < FILES_MAX {
                    self.files.push(is_sound.then_some(path));
                }
            }
            Record::Lines { of, spans } => {
                let spans = Some(spans).filter(|spans| spans.len() <= SPANS_BYTES_MAX);
                let spans = spans.and_then(|spans| spans_from_text(&spans));
                let fits = |spans: &Vec<LineSpan>| self.executable_spans + spans.len() <= EXECUTABLE_SPANS_MAX;
                if let Some(spans) = spans.filter(fits) {
                    self.executable_spans += spans.len();
                    self.executable.entry(of).or_default().extend(spans);
                }
            }
            Record::Dir { path } => self.dir = path,
            Record::Test { package, name, mut uses, processes, seconds, .. } => {
                uses.sort_unstable();
                uses.dedup();
                self.add_imports(&words);
                sort(&mut words);
                let package = join(&self.dir, &package);
                if finished.get(&package).is_some_and(|names| names.contains(&name)) {
                    let test =
                        TestLines { package, name, fixtures: uses, started_processes: processes, seconds, words };
                    self.tests.push(test);
                }
            }
            Record::Packages { of: None, .. } => self.everywhere.append(&mut words),
            Record::Packages { of: Some(packages), .. } => {
                let packages: BTreeSet<String> = packages.iter().map(|package| join(&self.dir, package)).collect();
                for package in packages.into_iter().filter(|package| finished.contains_key(package)) {
                    self.package_words += words.len();
                    if self.package_words > PACKAGE_WORDS_MAX {
                        self.notes.insert("lines that test files share are left out: they are too many".to_owned());
                        return;
                    }
                    self.packages.entry(package).or_default().extend(&words);
                }
            }
            Record::Fixture { of, .. } => {
                self.add_imports(&words);
                self.fixtures.entry(of).or_default().append(&mut words);
            }
            Record::Kept { .. } => self.kept.append(&mut words),
            Record::Imported { files } => self.imported = Some(files),
            Record::Depends { package, files } => {
                self.depends.entry(join(&self.dir, &package)).or_default().extend(files);
            }
            Record::Loads { package, files, mut natively } => {
                self.loads.push((join(&self.dir, &package), files));
                self.natively.append(&mut natively);
            }
            Record::Runner { files } => self.by_runner = Some(files),
            Record::Alone => self.is_alone = true,
            Record::Sampled { tests, seconds } => self.sampled = Some((tests, seconds)),
            Record::Note { text } => _ = self.notes.insert(text),
        }
    }

    // Lines of an import are those of the test that was the first to need it, and any other that imports the same module needs them, too.
    fn add_imports(&mut self, words: &[u32]) {
        self.everywhere.extend(words.iter().filter(|word| **word & OWN_LINE != 0));
    }

    /// Adds the files that the process loaded.
    pub(super) fn add_sources(&self, sources: &mut LoadedSources) {
        // What the runner loads for itself no test has loaded.
        let files = self.files.iter().filter(|_| self.by_runner.is_none());
        for (number, path) in (0..).zip(files) {
            if let Some(path) = path {
                sources.add(path, self.executable.get(&number).map(Vec::as_slice));
            }
        }
    }

    pub(super) fn names(&self, numbers: &[u32]) -> Option<Vec<&str>> {
        numbers.iter().map(|number| self.files.get(*number as usize)?.as_deref()).collect()
    }

    /// Adds what the test files loaded. Returns those of which this process does not say it, as where its
    /// measurement ended early, or where a number has no file.
    pub(super) fn add_loaded(
        &self,
        loaded: &mut LoadedFiles,
        finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> BTreeSet<String> {
        let mut unknown: BTreeSet<String> = self.tests.iter().map(|test| test.package.clone()).collect();
        // Test files that share their modules: one has loaded, and kept, what another uses.
        if self.loads.iter().any(|(package, _)| self.loads.first().is_some_and(|(first, _)| first != package)) {
            unknown.extend(self.loads.iter().map(|(package, _)| package.clone()));
            return unknown;
        }
        // A file of which no test ran, as where all are skipped, may fail to load after an edit.
        let is_test_file = |package: &str| finished.contains_key(package) || self.tests.is_empty();
        // Another test file may have put what a test executes in its way, as a plug-in.
        let mut shared = self.depends.clone();
        for test in &self.tests {
            if let Some(files) = shared.get_mut(&test.package) {
                files.extend(test.words.iter().map(|word| word >> FILE_SHIFT));
            }
        }
        let shared = shared.into_iter().map(|(package, files)| (package, files.into_iter().collect::<Vec<u32>>()));
        for (package, numbers) in self.loads.iter().cloned().chain(shared).filter(|(package, _)| is_test_file(package))
        {
            if let Some(files) = self.names(&numbers) {
                loaded.add(&package, files);
                unknown.remove(&package);
            }
        }
        unknown
    }

    /// The names of the measured tests by package.
    pub(super) fn packages(&self) -> BTreeMap<&str, Vec<String>> {
        let mut packages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for test in &self.tests {
            packages.entry(&test.package).or_default().push(test.name.clone());
        }
        packages
    }

    /// Lines that all tests of a package share, by package.
    pub(super) fn shared(&mut self, finished: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, Vec<u32>> {
        sort(&mut self.everywhere);
        let packages: BTreeSet<String> = self.tests.iter().map(|test| test.package.clone()).collect();
        let mut shared = std::mem::take(&mut self.packages);
        let mut common = Vec::new();
        for words in self.everywhere.chunk_by(|one, next| one >> FILE_SHIFT == next >> FILE_SHIFT) {
            let number = words.first().map_or(0, |word| word >> FILE_SHIFT);
            let file = self.files.get(number as usize).cloned().flatten();
            let is_own = self.imported.as_ref().is_some_and(|imported| !imported.contains(&number));
            match file.filter(|file| is_own && finished.contains_key(file)) {
                Some(package) => shared.entry(package).or_default().extend(words),
                None => common.extend(words),
            }
        }
        for package in packages {
            let needed = self.needed_by(&package);
            let is_needed = |word: &&u32| needed.as_ref().is_none_or(|files| files.contains(&(**word >> FILE_SHIFT)));
            shared.entry(package).or_default().extend(common.iter().filter(is_needed));
        }
        shared.values_mut().for_each(sort);
        shared
    }

    /// Numbers of the files that a test file depends on, and all do; `None` if that is not known.
    fn needed_by(&self, package: &str) -> Option<BTreeSet<u32>> {
        let of_all = self.by_runner.as_ref()?;
        let own = self.depends.get(package)?;
        Some(own.iter().chain(of_all).copied().collect())
    }

    /// Lines by file that were executed below functions that keep values.
    pub(super) fn kept_lines(&mut self) -> Vec<(String, Vec<LineSpan>)> {
        sort(&mut self.kept);
        self.lines(&self.kept)
    }

    /// Lines by file: a word can name no more files, nor a file more spans, than an index holds.
    pub(super) fn lines(&self, words: &[u32]) -> Vec<(String, Vec<LineSpan>)> {
        let mut lines = Vec::new();
        for words in words.chunk_by(|one, next| one >> FILE_SHIFT == next >> FILE_SHIFT) {
            let number = words.first().map_or(0, |word| word >> FILE_SHIFT);
            let Some(file) = self.files.get(number as usize).and_then(Option::as_ref) else { continue };
            let spans = spans(words);
            if !spans.is_empty() {
                lines.push((file.clone(), spans));
            }
        }
        lines
    }
}

/// Sorts words, each once.
pub(super) fn sort(words: &mut Vec<u32>) {
    words.sort_unstable();
    words.dedup();
}

/// Lines of words of one file; those of functions and of modules are sorted apart. Python calls a line 0 that has no source.
fn spans(words: &[u32]) -> Vec<LineSpan> {
    let mut lines: Vec<u32> = words.iter().map(|word| word & (OWN_LINE - 1)).filter(|line| *line > 0).collect();
    lines.sort_unstable();
    let mut spans: Vec<LineSpan> = Vec::new();
    for line in lines {
        match spans.last_mut() {
            Some(span) if line <= span.last + 1 => span.last = line,
            _ => spans.push(LineSpan { first: line, last: line }),
        }
    }
    spans
}

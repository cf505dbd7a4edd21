//! The lines of each test, as proctor's own measurements write them: one file for each set of modules that tests share, which is
//! a process of Python or a test file of Jest. The first lines of `proctor_coverage.py` say what a record is.
//!
//! The lines that ran outside of any test, and a module's own lines where a test imported it, belong to all tests of the file.
//! A test file's own among them belong to the tests of this file alone, unless another file may import it.
//! Lines of a fixture of a class, module or session belong to the tests that used it. Lines that a test executed when it ran alone, and
//! not beside others, belong to all tests of the process: one of them executed it for the others.

mod alone_tests;

use crate::contract::{ARTIFACTS, CoverageHarvest, Plan, PlanRequest};
use crate::parsing::bounded_measurements::BoundedMeasurements;
use crate::parsing::loaded_sources::LoadedSources;
use crate::parsing::workspace_paths::{join, leaves_workspace};
use alone_tests::AloneTests;
use proctor_core::bounds::{COVERAGE_BYTES_MAX, COVERED_FILES_MAX, PATH_BYTES_MAX, SPANS_PER_FILE_MAX};
use proctor_core::coverage::{Attribution, Calibration, CoverageMeasurement, LineSpan, LoadedFiles, spans_from_text};
use proctor_core::request::CoverageMode;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Bits of a word that hold the line.
const LINE_BITS: u32 = 17;

/// Flag of a module's or class's own line.
const OWN_LINE: u32 = 1 << LINE_BITS;

/// Most files that words can name.
const FILES_MAX: usize = 1 << (u32::BITS - FILE_SHIFT);

/// Place of the file's number in a word.
const FILE_SHIFT: u32 = LINE_BITS + 1;

/// Longest text of the executable lines of one file: a span has at most twelve digits and two signs.
const SPANS_BYTES_MAX: usize = 14 * SPANS_PER_FILE_MAX;

/// Most spans of executable lines in one file of records: as many as a coverage index can hold.
const EXECUTABLE_SPANS_MAX: usize = COVERAGE_BYTES_MAX / size_of::<LineSpan>();

/// Most tests named in a note.
const NAMED_MAX: usize = 5;

/// Directory below [`ARTIFACTS`] for the files of one framework.
fn directory(framework: &str) -> String {
    format!("{framework}-lines")
}

/// Asks the framework's runner for the lines of each test if the request does.
pub(crate) fn plan_measurement(plan: &mut Plan, framework: &str, request: &PlanRequest<'_>) {
    if request.coverage != CoverageMode::Auto {
        return;
    }
    let directory = format!("{ARTIFACTS}/{}", directory(framework));
    let env = [
        ("PROCTOR_COVERAGE", format!("{}/{directory}", request.scratch)),
        ("PROCTOR_WORKSPACE", request.workspace.to_owned()),
    ];
    for step in &mut plan.steps {
        step.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    }
    plan.dirs.push(directory);
    plan.artifacts = true;
}

/// Fewest tests that have to run alone for a process to be calibrated, unless it has fewer.
const SAMPLED_TESTS_MIN: usize = 5;

/// Most tests that run alone: as many as `proctor_sample.py` chooses.
const SAMPLED_TESTS_MAX: usize = 30;

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
    Test { package: String, name: String, uses: Vec<u32>, processes: bool, n: u32 },
    /// Lines that the tests of these test files share; of all files if there is no list.
    Packages { of: Option<Vec<String>>, n: u32 },
    /// Lines of a fixture.
    Fixture { of: u32, n: u32 },
    /// Numbers of the files that other files may import.
    Imported { files: BTreeSet<u32> },
    /// Numbers of the files that a test file of JavaScript loaded, and of those that Node itself loaded beside its tests. Without such
    /// a record it is not known what it loads.
    Loads { package: String, files: Vec<u32>, natively: Vec<u32> },
    /// Numbers of the files that the runner loaded for itself.
    Runner { files: Vec<u32> },
    /// The test of this file ran alone.
    Alone,
    /// So many tests of this file were chosen to run alone. If fewer have, one failed or had no time.
    Sampled { tests: usize },
    /// A sentence for the report.
    Note { text: String },
}

/// Lines of one test.
#[derive(Debug)]
struct TestLines {
    package: String,
    name: String,
    fixtures: Vec<u32>,
    started_processes: bool,
    words: Vec<u32>,
}

/// The content of one file.
#[derive(Debug, Default)]
struct ProcessLines {
    dir: String,
    /// Lines that can be executed, by the number of their file.
    executable: BTreeMap<u32, Vec<LineSpan>>,
    /// Number of these spans.
    executable_spans: usize,
    /// By number; `None` for a path that cannot be one of the workspace.
    files: Vec<Option<String>>,
    tests: Vec<TestLines>,
    /// Lines that all tests share.
    everywhere: Vec<u32>,
    /// Lines that the tests of a test file share.
    packages: BTreeMap<String, Vec<u32>>,
    fixtures: BTreeMap<u32, Vec<u32>>,
    /// `None` if the process ended early.
    imported: Option<BTreeSet<u32>>,
    /// By test file, the numbers of the files that it loaded.
    loads: Vec<(String, Vec<u32>)>,
    natively: Vec<u32>,
    by_runner: Option<Vec<u32>>,
    is_alone: bool,
    sampled: Option<usize>,
    notes: BTreeSet<String>,
}

impl ProcessLines {
    /// Reads a file up to its first damaged record, which a note mentions.
    fn parse(content: &[u8], finished: &BTreeMap<String, BTreeSet<String>>) -> ProcessLines {
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
        let (Record::Test { n, .. } | Record::Packages { n, .. } | Record::Fixture { n, .. }) = record else {
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
            Record::Test { package, name, mut uses, processes, .. } => {
                uses.sort_unstable();
                uses.dedup();
                // Lines of an import are the test's, and in the way of any other that imports the same module later.
                self.everywhere.extend(words.iter().filter(|word| **word & OWN_LINE != 0));
                sort(&mut words);
                let package = join(&self.dir, &package);
                if finished.get(&package).is_some_and(|names| names.contains(&name)) {
                    let test = TestLines { package, name, fixtures: uses, started_processes: processes, words };
                    self.tests.push(test);
                }
            }
            Record::Packages { of: None, .. } => self.everywhere.append(&mut words),
            Record::Packages { of: Some(packages), .. } => {
                for package in packages {
                    let package = join(&self.dir, &package);
                    if finished.contains_key(&package) {
                        self.packages.entry(package).or_default().extend(&words);
                    }
                }
            }
            Record::Fixture { of, .. } => self.fixtures.entry(of).or_default().append(&mut words),
            Record::Imported { files } => self.imported = Some(files),
            Record::Loads { package, files, mut natively } => {
                self.loads.push((join(&self.dir, &package), files));
                self.natively.append(&mut natively);
            }
            Record::Runner { files } => self.by_runner = Some(files),
            Record::Alone => self.is_alone = true,
            Record::Sampled { tests } => self.sampled = Some(tests),
            Record::Note { text } => _ = self.notes.insert(text),
        }
    }

    /// Adds the files that the process loaded.
    fn add_sources(&self, sources: &mut LoadedSources) {
        // What the runner loads for itself no test has loaded.
        let files = self.files.iter().filter(|_| self.by_runner.is_none());
        for (number, path) in (0..).zip(files) {
            if let Some(path) = path {
                sources.add(path, self.executable.get(&number).map(Vec::as_slice));
            }
        }
    }

    fn names(&self, numbers: &[u32]) -> Option<Vec<&str>> {
        numbers.iter().map(|number| self.files.get(*number as usize)?.as_deref()).collect()
    }

    /// Adds what the test files loaded, of which tests finished. Returns those of which this process does not say it, as where its
    /// measurement ended early, or where a number has no file.
    fn add_loaded(&self, loaded: &mut LoadedFiles, finished: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
        let mut unknown: BTreeSet<String> = self.tests.iter().map(|test| test.package.clone()).collect();
        // Test files that share their modules: one has loaded, and kept, what another uses.
        if self.loads.iter().any(|(package, _)| self.loads.first().is_some_and(|(first, _)| first != package)) {
            unknown.extend(self.loads.iter().map(|(package, _)| package.clone()));
            return unknown;
        }
        for (package, numbers) in self.loads.iter().filter(|(package, _)| finished.contains_key(package)) {
            if let Some(files) = self.names(numbers) {
                loaded.add(package, files);
                unknown.remove(package);
            }
        }
        unknown
    }

    /// The names of the measured tests by package.
    fn packages(&self) -> BTreeMap<&str, Vec<String>> {
        let mut packages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for test in &self.tests {
            packages.entry(&test.package).or_default().push(test.name.clone());
        }
        packages
    }

    /// Lines that all tests of a package share, by package.
    fn shared(&mut self, finished: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, Vec<u32>> {
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
        packages.into_iter().for_each(|package| shared.entry(package).or_default().extend(&common));
        shared.values_mut().for_each(sort);
        shared
    }

    /// Lines by file.
    fn lines(&self, words: &[u32]) -> Vec<(String, Vec<LineSpan>)> {
        let mut lines = Vec::new();
        for words in words.chunk_by(|one, next| one >> FILE_SHIFT == next >> FILE_SHIFT) {
            let number = words.first().map_or(0, |word| word >> FILE_SHIFT);
            let Some(file) = self.files.get(number as usize).and_then(Option::as_ref) else { continue };
            let spans = spans(words);
            if !spans.is_empty() {
                lines.push((file.clone(), spans));
            }
        }
        lines.truncate(COVERED_FILES_MAX);
        lines
    }
}

/// Sorts words, each once.
fn sort(words: &mut Vec<u32>) {
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
    spans.truncate(SPANS_PER_FILE_MAX);
    spans
}

/// The lines of one framework's tests. `finished` has the names of the finished tests by package.
pub(crate) fn ingest(
    framework: &str,
    artifacts: &[(String, Vec<u8>)],
    finished: &BTreeMap<String, BTreeSet<String>>,
) -> CoverageHarvest {
    let directory = directory(framework);
    let mut harvest = BoundedMeasurements::default();
    let mut notes = BTreeSet::new();
    let mut with_processes = BTreeSet::new();
    let (mut sources, mut loaded) = (LoadedSources::default(), LoadedFiles::default());
    // A test file may run in several processes, as in two of Jest's projects.
    let mut unknown = BTreeSet::new();
    let (mut by_runner, mut natively): (Option<BTreeSet<String>>, BTreeSet<String>) = (None, BTreeSet::new());
    let (mut processes, mut alone) = (Vec::new(), AloneTests::default());
    for (path, content) in artifacts {
        let is_own = path.strip_prefix(&directory).is_some_and(|rest| rest.starts_with('/'));
        if !is_own {
            continue;
        }
        let mut process = ProcessLines::parse(content, finished);
        if process.is_alone {
            alone.add(process);
            continue;
        }
        process.add_sources(&mut sources);
        unknown.append(&mut process.add_loaded(&mut loaded, finished));
        let owned = |files: Vec<&str>| files.into_iter().map(str::to_owned).collect::<Vec<_>>();
        if let Some(files) = process.by_runner.as_ref().and_then(|files| process.names(files)) {
            by_runner.get_or_insert_default().extend(owned(files));
        }
        match process.names(&process.natively) {
            Some(files) => natively.extend(owned(files)),
            None => unknown.extend(process.loads.iter().map(|(package, _)| package.clone())),
        }
        let started = process.tests.iter().filter(|test| test.started_processes);
        with_processes.extend(started.map(|test| format!("{} of {}", test.name, test.package)));
        notes.append(&mut process.notes);
        processes.push(process);
    }
    processes.into_iter().for_each(|process| add_process(process, &mut alone, finished, &mut harvest));
    // Without all lines it is not known what earlier tests executed for later ones.
    if harvest.note().is_some() {
        harvest.measured.iter_mut().for_each(|set| set.calibration = Calibration::None);
    }
    if !with_processes.is_empty() {
        let named: Vec<&str> = with_processes.iter().take(NAMED_MAX).map(String::as_str).collect();
        let (count, named) = (with_processes.len(), named.join(", "));
        notes.insert(format!("{count} test(s) started processes, of which no line is measured: {named}"));
    }
    notes.extend(harvest.note());
    unknown.iter().for_each(|test_file| loaded.forget(test_file));
    if let Some(files) = by_runner {
        loaded.add_runner(files.iter().chain(&natively).map(String::as_str));
    }
    // Without all lines it is not known which of the loaded functions were executed.
    if harvest.note().is_some() {
        loaded = LoadedFiles::default();
    }
    let notes = notes.into_iter().collect();
    CoverageHarvest { measured: harvest.measured, sources: sources.into_vec(), loaded, notes }
}

fn add_process(
    mut process: ProcessLines,
    alone: &mut AloneTests,
    finished: &BTreeMap<String, BTreeSet<String>>,
    harvest: &mut BoundedMeasurements,
) {
    let set = |package: &str, tests, files| CoverageMeasurement {
        package: package.to_owned(),
        tests,
        complete: true,
        attribution: Attribution::File,
        started_processes: false,
        calibration: Calibration::None,
        files,
    };
    let shared = process.shared(finished);
    let mut fixtures = std::mem::take(&mut process.fixtures);
    fixtures.values_mut().for_each(sort);
    let sample = alone.sample(&process, &shared, &fixtures);
    for test in &process.tests {
        harvest.push(CoverageMeasurement {
            attribution: Attribution::Test,
            started_processes: test.started_processes || sample.has_processes,
            calibration: sample.calibration(&test.package, &test.name),
            ..set(&test.package, vec![test.name.clone()], process.lines(&test.words))
        });
    }
    let packages = process.packages();
    for (package, words) in shared {
        if let Some(tests) = packages.get(package.as_str()) {
            harvest.push(set(&package, tests.clone(), process.lines(&words)));
        }
    }
    if !sample.hidden.is_empty() {
        for (package, tests) in &packages {
            harvest.push(set(package, tests.clone(), sample.hidden.clone()));
        }
    }
    let mut users: BTreeMap<(u32, &str), Vec<String>> = BTreeMap::new();
    for test in &process.tests {
        for fixture in test.fixtures.iter().filter(|fixture| fixtures.contains_key(fixture)) {
            users.entry((*fixture, &test.package)).or_default().push(test.name.clone());
        }
    }
    for ((fixture, package), tests) in users {
        let words = fixtures.get(&fixture).map_or(&[][..], Vec::as_slice);
        harvest.push(set(package, tests, process.lines(words)));
    }
}

#[cfg(test)]
mod tests;

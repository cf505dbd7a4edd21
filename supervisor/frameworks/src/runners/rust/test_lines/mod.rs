//! Measures which lines each Rust test executes: rustc's own instrumentation, and a recorder in the programs.
//!
//! `rustc_wrapper.sh` stands before rustc for the packages of the workspace and links `recorder.c` into their programs.
//! `program_map` and `execution_records` read what the recorder leaves, `coverage_mapping` the part that LLVM wrote,
//! `processes` finds the tests that a process belongs to, and this file makes sets of tests with their lines of it.

mod byte_reader;
mod coverage_mapping;
mod execution_records;
mod processes;
mod program_map;

use super::binary_names::Binary;
use super::manifest::own_wrapper;
use crate::contract::{ARTIFACTS, CoverageHarvest, FileTree, InjectedFile, Plan, PlanRequest, Project};
use crate::parsing::bounded_measurements::BoundedMeasurements;
use crate::parsing::loaded_sources::LoadedSources;
use crate::parsing::workspace_paths::{WorkspacePaths, leaves_workspace};
use execution_records::{ExecutionRecord, RecordKind, parse_records};
use processes::{Owner, ProcessTree};
use proctor_core::coverage::{Attribution, Calibration, CoverageMeasurement, LoadedFiles};
use proctor_core::human_units::first_names;
use program_map::{FileLines, MapBudget, MapError, ProgramMap, ProgramTarget, TargetKind};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The recorder, compiled for this host.
const RECORDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rust_recorder.o"));

/// The script that stands before rustc, with placeholders for paths.
const WRAPPER: &str = include_str!("rustc_wrapper.sh");

/// Most work of finding the executed lines of all records of a run, in lines and counters: a second of a processor.
const WORK_MAX: usize = 400_000_000;

/// What a test in a set of tests counts as, in lines.
const WORK_OF_TEST: usize = 100;

/// Note if the work was more.
const TOO_MUCH: &str = "the tests executed more than is read";

/// Most programs or tests named in a note.
const NAMED_MAX: usize = 5;

/// Directory below [`ARTIFACTS`] for the files of one framework.
fn directory(framework: &str) -> String {
    format!("{framework}-lines")
}

/// Whether the lines of each test of the Cargo workspace in `dir` are measured.
pub(super) fn is_measured(tree: &FileTree, dir: &str, request: &PlanRequest<'_>) -> bool {
    request.is_measured && !own_wrapper(tree, dir)
}

/// The script and the recorder of a run. Cargo keeps what it builds apart by the script's path, so this path changes when
/// either does.
fn injected_files(request: &PlanRequest<'_>) -> [InjectedFile; 2] {
    let mut hasher = DefaultHasher::new();
    (WRAPPER, RECORDER).hash(&mut hasher);
    let version = hasher.finish();
    let recorder = format!("rust-recorder-{version:016x}.o");
    let script = WRAPPER.replace("#scratch#", request.scratch).replace("#recorder#", &recorder);
    [
        InjectedFile { path: format!("rustc-{version:016x}"), bytes: script.into_bytes(), executable: true },
        InjectedFile { path: recorder, bytes: RECORDER.to_vec(), executable: false },
    ]
}

/// Has the plan's steps measure lines, unless a project has a wrapper of its own in the place of proctor's.
pub(super) fn plan_measurement(plan: &mut Plan, framework: &str, tree: &FileTree, request: &PlanRequest<'_>) {
    if !request.is_measured {
        return;
    }
    let files = injected_files(request);
    let directory = format!("{ARTIFACTS}/{}", directory(framework));
    let mut has_measured = false;
    for step in &mut plan.steps {
        if !is_measured(tree, &step.dir, request) {
            let project = if step.dir.is_empty() { "the project" } else { &step.dir };
            let note = format!("coverage is not measured: {project} sets a `rustc-workspace-wrapper` of its own");
            if !plan.notes.contains(&note) {
                plan.notes.push(note);
            }
            continue;
        }
        has_measured = true;
        let config = format!("--config=build.rustc-workspace-wrapper=\"{}/{}\"", request.scratch, files[0].path);
        let options = step.args.iter().position(|argument| argument == super::cargo::COLOUR);
        step.args.insert(options.map_or(step.args.len(), |at| at + 1), config);
        step.env.insert("PROCTOR_COVERAGE".to_owned(), format!("{}/{directory}", request.scratch));
        // What has no recorder, as a procedural macro or a documentation test, must not leave a file in the workspace.
        step.env.insert("LLVM_PROFILE_FILE".to_owned(), "/dev/null".to_owned());
    }
    if has_measured {
        plan.files.extend(files);
        plan.dirs.push(directory);
        plan.artifacts = true;
    }
}

/// What one program left.
struct Program<'a> {
    map: ProgramMap,
    /// The name of its tests' package in results, of a program with tests that finished.
    package: Option<String>,
    records: Vec<ExecutionRecord<'a>>,
}

/// Finished tests by package.
type Finished = BTreeMap<String, BTreeSet<String>>;

/// The lines of one framework's tests. `finished` has the names of the finished tests by package.
pub(super) fn ingest(
    framework: &str,
    projects: &[Project],
    workspace: &str,
    artifacts: &[(String, Vec<u8>)],
    finished: &Finished,
) -> CoverageHarvest {
    let directory = directory(framework);
    let own: BTreeMap<&str, &[u8]> = artifacts
        .iter()
        .filter_map(|(path, content)| Some((path.strip_prefix(&directory)?.strip_prefix('/')?, content.as_slice())))
        .collect();
    if own.is_empty() {
        return CoverageHarvest::default();
    }
    let mut harvest = Harvest::new(finished);
    let paths = WorkspacePaths::new(workspace);
    let relative = |path: &str| paths.relative(path).filter(|path| !leaves_workspace(path));
    let (mut programs, mut budget) = (Vec::new(), MapBudget::default());
    for (name, content) in &own {
        let Some(program) = name.strip_suffix(".map") else { continue };
        let records = own.get(format!("{program}.records").as_str()).copied().unwrap_or_default();
        let (records, is_whole) = parse_records(records);
        let map = ProgramMap::parse(content, relative, &mut budget).unwrap_or_else(|why| {
            harvest.unread.insert(why.to_string());
            ProgramMap::default()
        });
        let target = map.target.clone();
        let package = target.and_then(|target| package_of(&target, &records, finished));
        if !is_whole {
            let of = package.as_deref().unwrap_or("a program");
            harvest.unread.insert(format!("the records of {of} are cut off or damaged"));
        }
        for (path, spans) in map.executable() {
            harvest.sources.add(&path, Some(&spans.into_united()));
        }
        programs.push(Program { map, package, records });
    }
    let lacks_map = |name: &str| {
        name.strip_suffix(".records").is_some_and(|program| !own.contains_key(format!("{program}.map").as_str()))
    };
    if own.keys().any(|name| lacks_map(name)) {
        harvest.unread.insert(MapError::Missing.to_string());
    }
    harvest.add_programs(&programs);
    harvest.into_coverage(projects, &programs)
}

/// The package of a program in results: among the finished, that of its target.
fn package_of(target: &ProgramTarget, records: &[ExecutionRecord<'_>], finished: &Finished) -> Option<String> {
    let is_target = |name: &str| {
        let Some((package, binary)) = Binary::parse(name) else { return false };
        let is_crate = |name: &str| name.replace('-', "_") == target.crate_name;
        package == target.package
            && match binary {
                Binary::Lib => target.kind == TargetKind::Lib,
                Binary::Bin(name) | Binary::Example(name) => target.kind == TargetKind::Bin && is_crate(&name),
                Binary::Test(name) | Binary::Bench(name) => target.kind == TargetKind::Test && is_crate(&name),
                Binary::Doctests => false,
            }
    };
    let known = |tests: &BTreeSet<String>| {
        let names = records.iter().filter_map(|record| match &record.kind {
            RecordKind::Test(name) | RecordKind::OnlyTest(name) => Some(name),
            RecordKind::Outside => None,
        });
        names.filter(|name| tests.contains(*name)).count()
    };
    // A program and an example of the same name differ in their tests.
    let candidates = finished.iter().filter(|(name, _)| is_target(name));
    candidates.max_by_key(|(_, tests)| known(tests)).map(|(name, _)| name.clone())
}

/// Collects the sets of tests.
struct Harvest<'a> {
    finished: &'a Finished,
    measured: BoundedMeasurements,
    sources: LoadedSources,
    /// Why something could not be read.
    unread: BTreeSet<String>,
    /// Tests that started processes.
    with_processes: BTreeSet<String>,
    /// Packages with tests that ran at the same time.
    overlapping: BTreeSet<String>,
    /// Tests of which something is known.
    known: BTreeSet<(String, String)>,
    work_left: usize,
}

/// A record, with the map of its program.
type Execution<'p> = (&'p ProgramMap, &'p ExecutionRecord<'p>);

/// What the same tests executed.
#[derive(Default)]
struct Executions<'p> {
    records: Vec<Execution<'p>>,
    /// Whether child processes ended meanwhile.
    have_processes: bool,
}

/// A test: its package and its name.
type Test<'p> = (&'p str, &'p str);

impl<'a> Harvest<'a> {
    fn new(finished: &'a Finished) -> Harvest<'a> {
        Harvest {
            finished,
            measured: BoundedMeasurements::default(),
            sources: LoadedSources::default(),
            unread: BTreeSet::new(),
            with_processes: BTreeSet::new(),
            overlapping: BTreeSet::new(),
            known: BTreeSet::new(),
            work_left: WORK_MAX,
        }
    }

    /// Adds what the processes of all programs executed.
    fn add_programs(&mut self, programs: &[Program<'_>]) {
        let tree = ProcessTree::new(programs, self.finished);
        let mut by_owner: BTreeMap<Owner<'_>, Executions<'_>> = BTreeMap::new();
        let mut alone: BTreeSet<Test<'_>> = BTreeSet::new();
        let mut with_processes: BTreeSet<Test<'_>> = BTreeSet::new();
        for (program, record) in
            programs.iter().flat_map(|program| program.records.iter().map(move |record| (program, record)))
        {
            let owner = tree.owner(program, record);
            match &owner {
                Owner::Test(test) => {
                    alone.insert(*test);
                    with_processes.extend(record.reaped_child.then_some(*test));
                }
                Owner::Tests(tests) if tests.is_empty() || !self.take_work(WORK_OF_TEST * tests.len()) => continue,
                _ => {}
            }
            let known = by_owner.entry(owner).or_default();
            known.have_processes |= record.reaped_child;
            known.records.push((&program.map, record));
        }
        let mut sets: BTreeMap<BTreeSet<Test<'_>>, Executions<'_>> = BTreeMap::new();
        for (owner, found) in by_owner {
            let tests = tree.tests_of(&owner);
            if !tests.is_empty() && self.take_work(WORK_OF_TEST * tests.len()) {
                let known = sets.entry(tests).or_default();
                known.have_processes |= found.have_processes;
                known.records.extend(found.records);
            }
        }
        self.overlapping.extend(tree.overlapping().map(str::to_owned));
        // One set after the other, so that only one has all its lines in memory.
        for (tests, Executions { records, have_processes }) in sets {
            if let Some(lines) = self.lines_of(&records) {
                self.push(&tests, lines, &alone, have_processes);
            }
        }
        self.with_processes =
            with_processes.into_iter().map(|(package, name)| format!("{name} of {package}")).collect();
    }

    /// Whether this much work was left.
    fn take_work(&mut self, work: usize) -> bool {
        let left = self.work_left.checked_sub(work);
        match left {
            Some(left) => self.work_left = left,
            None => _ = self.unread.insert(TOO_MUCH.to_owned()),
        }
        left.is_some()
    }

    /// The lines that were executed in these records; `None` if they are more than is read.
    fn lines_of(&mut self, records: &[Execution<'_>]) -> Option<FileLines> {
        let mut lines = FileLines::new();
        for (map, record) in records {
            let Some(counts) = record.counts() else {
                self.unread.insert("the counters of a test are damaged".to_owned());
                continue;
            };
            if map.add_executed(&counts, &mut self.work_left, &mut lines).is_none() {
                self.unread.insert(TOO_MUCH.to_owned());
                return None;
            }
        }
        Some(lines)
    }

    /// Adds one set of tests, by package.
    fn push(&mut self, tests: &BTreeSet<Test<'_>>, lines: FileLines, alone: &BTreeSet<Test<'_>>, have_processes: bool) {
        let files: Vec<_> = lines.into_iter().map(|(path, spans)| (path, spans.into_united())).collect();
        let is_alone = tests.len() == 1 && tests.is_subset(alone);
        // Lines that nothing executed outside of tests need no set.
        if files.is_empty() && !is_alone && !have_processes {
            return;
        }
        let mut by_package: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (package, name) in tests {
            by_package.entry(package).or_default().push((*name).to_owned());
        }
        for (package, names) in by_package {
            self.known.extend(names.iter().map(|name| (package.to_owned(), name.clone())));
            self.measured.push(CoverageMeasurement {
                package: package.to_owned(),
                tests: names,
                complete: true,
                attribution: if is_alone { Attribution::Test } else { Attribution::Package },
                started_processes: have_processes,
                kept: Vec::new(),
                calibration: Calibration::None,
                files: files.clone(),
            });
        }
    }

    fn into_coverage(mut self, projects: &[Project], programs: &[Program<'_>]) -> CoverageHarvest {
        let mut notes: Vec<String> = self.unread.iter().map(|why| format!("coverage is not complete: {why}")).collect();
        let named = |what: &BTreeSet<String>| first_names(what, NAMED_MAX);
        if !self.overlapping.is_empty() {
            notes.push(format!(
                "coverage of {} is known by package, not by test: its tests ran at the same time",
                named(&self.overlapping)
            ));
        }
        if !self.with_processes.is_empty() {
            notes.push(format!(
                "{} test(s) started processes, of which only lines of the workspace's own programs are measured: {}",
                self.with_processes.len(),
                named(&self.with_processes)
            ));
        }
        let packages: BTreeSet<&str> = programs
            .iter()
            .filter_map(|program| Some(program.map.target.as_ref()?.package.as_str()))
            .chain(projects.iter().map(|project| project.name.as_str()))
            .collect();
        let of_these = |name: &str| Binary::parse(name).is_some_and(|(package, _)| packages.contains(package));
        let is_doctests = |name: &str| matches!(Binary::parse(name), Some((_, Binary::Doctests)));
        let (mut without, mut doctests) = (BTreeSet::new(), false);
        for (package, _) in self.finished.iter().filter(|(package, tests)| !tests.is_empty() && of_these(package)) {
            if is_doctests(package) {
                doctests = true;
            } else if !self.known.iter().any(|(known, _)| known == package) {
                without.insert(package.clone());
            }
        }
        if doctests {
            notes.push("coverage of documentation tests is not measured".to_owned());
        }
        if !without.is_empty() {
            notes.push(format!(
                "no coverage of {}: the test program ended early, or was built without instrumentation",
                named(&without)
            ));
        }
        notes.extend(self.measured.note());
        // Which tests lack lines is not known.
        let is_whole = self.unread.is_empty();
        self.measured.measured.iter_mut().for_each(|set| set.complete &= is_whole);
        CoverageHarvest {
            measured: self.measured.measured,
            sources: self.sources.into_vec(),
            loaded: LoadedFiles::default(),
            notes,
        }
    }
}

#[cfg(test)]
mod tests;

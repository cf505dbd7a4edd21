//! The lines of each test, as proctor's own measurements write them: one file for each set of modules that tests share, which is
//! a process of Python or a test file of Jest.
//!
//! The lines that ran outside of any test, and a module's own lines where a test imported it, belong to all tests of the file.
//! A test file's own among them belong to the tests of this file alone, unless another file may import it. Where it is known which files a
//! test file depends on, the lines of others do not belong to its tests.
//! Lines of a fixture of a class, module or session belong to the tests that used it.
//!
//! Some tests also ran alone. What one of them executed only there, an earlier test executed for it beside the others, and perhaps for
//! others: it belongs to all that did not run alone. These may also need what any test executed below a function that keeps values.

mod alone_tests;
mod process_lines;

use crate::contract::{ARTIFACTS, CoverageHarvest, Plan, PlanRequest};
use crate::parsing::bounded_measurements::BoundedMeasurements;
use crate::parsing::loaded_sources::LoadedSources;
use alone_tests::AloneTests;
use process_lines::{ProcessLines, sort};
use proctor_core::coverage::{Attribution, Calibration, CoverageMeasurement, LoadedFiles};
use std::collections::{BTreeMap, BTreeSet};

/// Most tests named in a note.
const NAMED_MAX: usize = 5;

/// Directory below [`ARTIFACTS`] for the files of one framework.
fn directory(framework: &str) -> String {
    format!("{framework}-lines")
}

/// Asks the framework's runner for the lines of each test if the request does.
pub(crate) fn plan_measurement(plan: &mut Plan, framework: &str, request: &PlanRequest<'_>) {
    if !request.is_measured {
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
        kept: Vec::new(),
        calibration: Calibration::None,
        files,
    };
    let shared = process.shared(finished);
    let mut fixtures = std::mem::take(&mut process.fixtures);
    fixtures.values_mut().for_each(sort);
    let mut sample = alone.sample(&process, &shared, &fixtures);
    for test in &process.tests {
        harvest.push(CoverageMeasurement {
            attribution: Attribution::Test,
            started_processes: test.started_processes,
            calibration: sample.calibration(test),
            ..set(&test.package, vec![test.name.clone()], sample.add_alone(test, process.lines(&test.words)))
        });
    }
    let kept = if sample.is_calibrated() { process.kept_lines() } else { Vec::new() };
    let packages = process.packages();
    for (package, words) in shared {
        if let Some(tests) = packages.get(package.as_str()) {
            harvest.push(set(&package, tests.clone(), process.lines(&words)));
        }
    }
    for (package, tests) in &packages {
        // Forged names of packages cost no more than what fits.
        if harvest.note().is_some() {
            break;
        }
        let (others, is_shown) = (sample.others(package, tests), !sample.hidden.is_empty() || !kept.is_empty());
        if is_shown && !others.is_empty() {
            harvest.push(CoverageMeasurement { kept: kept.clone(), ..set(package, others, sample.hidden.clone()) });
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

//! Measures coverage: flags, a wrapper that keeps each test binary's own profile, and the profiles' parser. A binary that
//! recorded its tests (`testing_overlay`) also leaves the lines of each (`test_sets`).
//!
//! The go tool merges the profiles of all test binaries into one that does not say which binary executed a line. The wrapper
//! is started in the place of each test binary, in the package's directory. It records that directory and the `-run`
//! expression, and puts a symlink at the profile's path, so that the binary writes a file that is kept. Then it execs the
//! binary: signals and exit status are the binary's own.

use super::run_expression::{Extent, RunExpression};
use super::test_sets::{ProcessRecords, TestSets};
use crate::contract::Project;
use crate::contract::{CoverageHarvest, InjectedFile, Step};
use crate::parsing::loaded_sources::LoadedSources;
use crate::parsing::workspace_paths::WorkspacePaths;
use crate::parsing::workspace_paths::{join, leaves_workspace};
use proctor_core::bounds::{COVERED_FILES_MAX, PATH_BYTES_MAX, SPANS_PER_FILE_MAX};
use proctor_core::coverage::{LineSpan, LoadedSource};
use proctor_core::human_units::first_names;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Directory below scratch in which every test binary gets a directory of its own.
pub(super) const UNITS: &str = "artifacts/go";

/// Path of the wrapper below scratch.
const WRAPPER: &str = "go-test-exec";

/// Variable of a measured step, which no test gets. Where it is, another one has the time at which the run is ended, which no test needs.
pub(super) const MEASURES: &str = "PROCTOR_COVERAGE";

/// Variable of a measured step with the directory in which the go tool links programs, which no test gets: there they can be given another
/// name.
pub(super) const TEMPORARY: &str = "GOTMPDIR";

/// Most packages named in a note.
const NAMED_MAX: usize = 10;

/// The go tool's flags of a measured run.
pub(super) fn flags(scratch: &str) -> [String; 4] {
    // The go tool splits the value of -exec at blanks, unless it is quoted.
    [
        "-covermode=atomic".to_owned(),
        format!("-coverprofile={scratch}/work/go-merged-profile"),
        "-coverpkg=./...".to_owned(),
        format!("-exec='{scratch}/{WRAPPER}'"),
    ]
}

/// Whether a step measures coverage.
pub(super) fn is_measured(step: &Step) -> bool {
    step.args.iter().any(|argument| argument.starts_with("-coverpkg="))
}

/// The same step without coverage.
pub(super) fn without_coverage(step: &Step) -> Step {
    let mut plain = step.clone();
    let flags = ["-cover", "-exec=", "-overlay="];
    plain.args.retain(|argument| !flags.iter().any(|flag| argument.starts_with(flag)));
    for name in [MEASURES, TEMPORARY] {
        plain.env.remove(name);
    }
    plain
}

/// The wrapper script. If it cannot create its directory, the measurement is lost and nothing else.
///
/// It records the directory and, on the next line, the `-run` expression if there is one. It works in a subshell, so that
/// its variables do not change the tests' environment variables of the same name.
pub(super) fn wrapper(scratch: &str, records: bool) -> InjectedFile {
    // The binary writes it.
    let records = if records { " && : >\"$unit/tests\"" } else { "" };
    let script = format!(
        "#!/bin/sh
(
	profile= run=
	for argument; do
		case $argument in
		-test.coverprofile=*) profile=${{argument#*=}} ;;
		-test.run=*) run=${{argument#*=}} ;;
		esac
	done
	[ \"$profile\" ] || exit
	unit='{scratch}/{UNITS}'/$$
	while [ -e \"$unit\" ]; do unit=$unit+; done
	mkdir \"$unit\" && {{ pwd && printf %s \"$run\"; }} >\"$unit/origin\"{records} && ln -s \"$unit/profile\" \"$profile\"
) 2>/dev/null
unset {MEASURES} PROCTOR_DEADLINE {TEMPORARY}
exec \"$@\"
"
    );
    InjectedFile { path: WRAPPER.to_owned(), bytes: script.into_bytes(), executable: true }
}

/// Files that one test binary left; empty where a file is missing.
#[derive(Debug, Default)]
struct BinaryArtifacts<'a> {
    /// The directory the binary ran in, and on the next line its `-run` expression, if any.
    origin: &'a [u8],
    profile: &'a [u8],
    /// Records of its tests; `None` if the run records none.
    tests: Option<&'a [u8]>,
    /// Records of each that ran alone, too.
    alone: Vec<&'a [u8]>,
}

/// Parses the profiles. `artifacts` are `…/<unit>/origin`, `…/<unit>/profile`, `…/<unit>/tests` and `…/<unit>/alone-<number>`.
pub(super) fn ingest(
    projects: &[Project],
    workspace: &str,
    artifacts: &[(String, Vec<u8>)],
    finished: &BTreeMap<String, BTreeSet<String>>,
) -> CoverageHarvest {
    let paths = WorkspacePaths::new(workspace);
    let mut units: BTreeMap<&str, BinaryArtifacts<'_>> = BTreeMap::new();
    for (path, bytes) in artifacts {
        let (unit, name) = path.rsplit_once('/').unwrap_or(("", path));
        let unit = units.entry(unit).or_default();
        match name {
            "origin" => unit.origin = bytes,
            "profile" => unit.profile = bytes,
            "tests" => unit.tests = Some(bytes),
            _ if name.starts_with("alone-") => unit.alone.push(bytes),
            _ => {}
        }
    }
    let mut sets = TestSets::new(projects);
    let mut blocks = Blocks::default();
    let mut measured: BTreeSet<String> = BTreeSet::new();
    for BinaryArtifacts { origin, profile, tests, alone } in units.into_values() {
        let end = memchr::memchr(b'\n', origin).unwrap_or(origin.len());
        let (dir, run) = (&origin[..end], origin.get(end + 1..).unwrap_or_default());
        let Some(package) = package_at(projects, &paths, dir) else { continue };
        let Some(finished) = finished.get(&package) else { continue };
        let has_all_tests = run.is_empty();
        let finished = split_by_extent(finished, run);
        // Without finished tests the package's lines cannot be attributed.
        if finished.iter().all(Vec::is_empty) {
            continue;
        }
        let Some(files) = parse_profile(profile, projects, &mut blocks) else { continue };
        measured.insert(package.clone());
        let records = tests.map(|tests| ProcessRecords { tests, alone: &alone, has_all_tests });
        sets.add(&package, finished, &files, records);
    }
    let mut harvest = CoverageHarvest { sources: blocks.into_sources(projects), ..sets.into_harvest() };
    // Other frameworks' packages may have finished in the same run.
    let is_of_these_projects = |package: &str| {
        projects
            .iter()
            .filter_map(|module| package.strip_prefix(&module.name))
            .any(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let missing: Vec<&str> = finished
        .iter()
        .filter(|(package, tests)| !tests.is_empty() && !measured.contains(*package) && is_of_these_projects(package))
        .map(|(package, _)| package.as_str())
        .collect();
    if !missing.is_empty() {
        let named = first_names(missing, NAMED_MAX);
        harvest.notes.push(format!("no coverage of {named}: the test process ended early, or ran without coverage"));
    }
    harvest
}

/// The top-level tests that a process with this `-run` expression ran: first those that it completed with all their
/// subtests, then the others.
fn split_by_extent(finished: &BTreeSet<String>, run: &[u8]) -> [Vec<String>; 2] {
    let expression = RunExpression::parse(&String::from_utf8_lossy(run));
    let names: BTreeSet<&str> = finished.iter().map(|test| test.split('/').next().unwrap_or(test)).collect();
    let (mut whole, mut part) = (Vec::new(), Vec::new());
    for name in names {
        match expression.extent(name) {
            Some(Extent::Whole) if finished.contains(name) => whole.push(name.to_owned()),
            Some(_) => part.push(name.to_owned()),
            // Another process of this run ran it: a long list of failures becomes several commands.
            None => {}
        }
    }
    [whole, part]
}

/// The import path of the package in the directory that the wrapper recorded as an absolute path.
fn package_at(projects: &[Project], paths: &WorkspacePaths, dir: &[u8]) -> Option<String> {
    let dir = std::str::from_utf8(dir).ok()?;
    let dir = paths.relative(&format!("{dir}/"))?;
    let module = crate::contract::innermost_project(projects, &dir)?;
    let below = dir.strip_prefix(&module.dir)?.trim_start_matches('/');
    Some(if below.is_empty() { module.name.clone() } else { format!("{}/{below}", module.name) })
}

/// Lines of all blocks by file, as profiles name it. The profiles of all binaries list the same blocks of a file, which are
/// read from the first of them.
#[derive(Debug, Default)]
struct Blocks {
    /// With the number of the profile that lists them.
    files: HashMap<Vec<u8>, (usize, Vec<LineSpan>)>,
    profiles: usize,
}

impl Blocks {
    /// The blocks to add to if an earlier profile did not have this file.
    fn of_new_file(&mut self, name: &[u8]) -> Option<&mut Vec<LineSpan>> {
        if !self.files.contains_key(name) {
            if self.files.len() >= COVERED_FILES_MAX {
                return None;
            }
            self.files.insert(name.to_owned(), (self.profiles, Vec::new()));
        }
        let (profile, spans) = self.files.get_mut(name)?;
        (*profile == self.profiles).then_some(spans)
    }

    fn into_sources(self, projects: &[Project]) -> Vec<LoadedSource> {
        let mut sources = LoadedSources::default();
        for (name, (_, spans)) in self.files {
            if let Some(path) = std::str::from_utf8(&name).ok().and_then(|name| file_of(projects, name)) {
                sources.add(&path, Some(&merged(spans)));
            }
        }
        sources.into_vec()
    }
}

/// Lines with a count above 0, by file; `None` if it is no profile (<https://pkg.go.dev/golang.org/x/tools/cover>). Adds the
/// lines of all counts to `blocks`.
fn parse_profile(profile: &[u8], projects: &[Project], blocks: &mut Blocks) -> Option<Vec<(String, Vec<LineSpan>)>> {
    let mut lines = profile.split(|byte| *byte == b'\n');
    if !lines.next()?.starts_with(b"mode: ") {
        return None;
    }
    blocks.profiles += 1;
    let mut files: HashMap<&[u8], Vec<LineSpan>> = HashMap::new();
    let (mut current, mut spans): (&[u8], Vec<LineSpan>) = (b"", Vec::new());
    let mut of_current: Option<&mut Vec<LineSpan>> = None;
    for line in lines {
        // Most lines: blocks of a file that is known, without a count.
        let is_executed = !line.ends_with(b" 0");
        let is_of_current = line.strip_prefix(current).is_some_and(|rest| rest.starts_with(b":"));
        if !is_executed && is_of_current && of_current.is_none() {
            continue;
        }
        let Some((name, span)) = parse_block(line) else { continue };
        // Blocks come file by file, so the maps are looked up once per file.
        if name != current {
            files.entry(current).or_default().append(&mut spans);
            current = name;
            of_current = blocks.of_new_file(name);
        }
        if is_executed {
            push_merged(&mut spans, span);
        }
        if let Some(all) = &mut of_current {
            push_merged(all, span);
        }
    }
    files.entry(current).or_default().append(&mut spans);
    let mut relative: BTreeMap<String, Vec<LineSpan>> = BTreeMap::new();
    for (name, spans) in files {
        if let Some(path) = std::str::from_utf8(name).ok().and_then(|name| file_of(projects, name))
            && !spans.is_empty()
            && relative.len() < COVERED_FILES_MAX
        {
            relative.entry(path).or_default().extend(spans);
        }
    }
    Some(relative.into_iter().map(|(path, spans)| (path, merged(spans))).collect())
}

/// Parses `example.com/m/a.go:5.24,7.2 1 2`: the file and the lines.
fn parse_block(line: &[u8]) -> Option<(&[u8], LineSpan)> {
    let blank = memchr::memrchr(b' ', line)?;
    let colon = memchr::memrchr(b':', &line[..blank])?;
    let range = &line[colon + 1..blank];
    let comma = memchr::memchr(b',', range)?;
    let (first, last) = (leading_number(range)?, leading_number(&range[comma + 1..])?);
    (first >= 1 && last >= first).then_some((&line[..colon], LineSpan { first, last }))
}

/// The number at the beginning; 0 without digits.
fn leading_number(bytes: &[u8]) -> Option<u32> {
    bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .try_fold(0_u32, |sum, digit| sum.checked_mul(10)?.checked_add(u32::from(digit - b'0')))
}

/// Appends a span and merges it with the last one where they touch. Blocks mostly come in order, so lists stay short unsorted.
fn push_merged(spans: &mut Vec<LineSpan>, span: LineSpan) {
    match spans.last_mut() {
        Some(last) if span.first >= last.first && span.first <= last.last.saturating_add(1) => {
            last.last = last.last.max(span.last);
        }
        _ => spans.push(span),
    }
}

/// The spans in order, each line once.
pub(super) fn merged(mut spans: Vec<LineSpan>) -> Vec<LineSpan> {
    spans.sort_unstable_by_key(|span| (span.first, span.last));
    let mut out = Vec::with_capacity(spans.len());
    for span in spans {
        push_merged(&mut out, span);
    }
    out.truncate(SPANS_PER_FILE_MAX);
    out
}

/// The path of a profile's file (import path and file name); the longest module path wins. `None` outside of the workspace.
pub(super) fn file_of(projects: &[Project], name: &str) -> Option<String> {
    projects
        .iter()
        .filter_map(|project| Some((project, name.strip_prefix(project.name.as_str())?.strip_prefix('/')?)))
        .max_by_key(|(project, _)| project.name.len())
        .filter(|(_, file)| !leaves_workspace(file))
        .map(|(project, file)| join(&project.dir, file))
        .filter(|path| path.len() <= PATH_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::coverage::{Attribution, Calibration, CoverageMeasurement};

    fn project(dir: &str, name: &str) -> Project {
        Project { dir: dir.to_owned(), name: name.to_owned() }
    }

    fn finished(entries: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        let names = |tests: &[&str]| tests.iter().map(|test| (*test).to_owned()).collect();
        entries.iter().map(|(package, tests)| ((*package).to_owned(), names(tests))).collect()
    }

    #[test]
    fn the_wrapper_makes_a_file_for_records() {
        let makes = |records| {
            let script = String::from_utf8(wrapper("/s", records).bytes).unwrap();
            script.contains(": >\"$unit/tests\"")
        };
        assert!(makes(true) && !makes(false));
    }

    #[test]
    fn attributes_profiles_to_the_package_that_executed_them() {
        let projects = [project("", "m"), project("sub", "m/sub")];
        let profile = "mode: atomic\nm/a/a.go:5.24,7.2 1 2\nm/a/a.go:7.2,9.3 1 1\nm/a/a.go:20.1,21.2 3 0\n\
                       m/sub/b.go:3.1,3.9 1 12\nother.org/x/c.go:1.1,2.2 1 1\nnot a block\n";
        let artifacts = [
            ("17/origin".to_owned(), b"/workspace/a\n".to_vec()),
            ("17/profile".to_owned(), profile.as_bytes().to_vec()),
            ("18/origin".to_owned(), b"/workspace/sub\n".to_vec()),
            ("19/origin".to_owned(), b"/elsewhere\n".to_vec()),
            ("19/profile".to_owned(), profile.as_bytes().to_vec()),
        ];
        let finished = finished(&[("m/a", &["TestA", "TestA/x", "TestB"]), ("m/sub", &["TestS"]), ("m/none", &[])]);
        let harvest = ingest(&projects, "/workspace", &artifacts, &finished);
        let span = |first, last| LineSpan { first, last };
        assert_eq!(
            harvest.measured,
            [CoverageMeasurement {
                package: "m/a".to_owned(),
                tests: vec!["TestA".to_owned(), "TestB".to_owned()],
                complete: true,
                attribution: Attribution::Package,
                started_processes: false,
                kept: Vec::new(),
                calibration: Calibration::None,
                files: vec![("a/a.go".to_owned(), vec![span(5, 9)]), ("sub/b.go".to_owned(), vec![span(3, 3)])],
            }]
        );
        assert_eq!(harvest.notes, ["no coverage of m/sub: the test process ended early, or ran without coverage"]);
        let source =
            |path: &str, executable| LoadedSource { path: path.to_owned(), executable: Some(executable), text: None };
        let executable = [source("a/a.go", vec![span(5, 9), span(20, 21)]), source("sub/b.go", vec![span(3, 3)])];
        assert_eq!(harvest.sources, executable, "blocks without a count can be executed, too");
    }

    #[test]
    fn a_test_is_complete_only_with_all_its_subtests() {
        let projects = [project("", "m")];
        let measure = |run: &str, tests: &[&str]| {
            let artifacts = [
                ("1/origin".to_owned(), format!("/w\n{run}").into_bytes()),
                ("1/profile".to_owned(), b"mode: atomic\nm/a.go:1.1,2.2 1 1\n".to_vec()),
            ];
            let harvest = ingest(&projects, "/w", &artifacts, &finished(&[("m", tests)]));
            let sets = harvest.measured.iter().map(|set| format!("{}:{}", set.complete, set.tests.join(",")));
            sets.collect::<Vec<_>>().join(" ")
        };
        let all = ["TestA", "TestA/x", "TestA/y", "TestB"];
        assert_eq!(measure("", &all), "true:TestA,TestB", "a whole run");
        assert_eq!(measure("TestA", &all[..3]), "true:TestA", "a filter on the top level");
        assert_eq!(measure("TestA/x", &all[..2]), "false:TestA", "a filter with a subtest");
        assert_eq!(measure("TestA/x|TestB", &["TestA", "TestA/x", "TestB"]), "true:TestB false:TestA");
        assert_eq!(measure("^TestA$/^x$", &all[..2]), "false:TestA", "exactly a subtest");
        assert_eq!(measure("^TestA$", &all[..3]), "true:TestA", "exactly a test");
        assert_eq!(measure("^TestA$/^x$", &["TestA", "TestA/x", "TestB"]), "false:TestA", "another process ran TestB");
        assert_eq!(measure("", &["TestA/x", "TestB"]), "true:TestB false:TestA", "TestA itself did not finish");
    }

    #[test]
    fn a_broken_profile_measures_nothing() {
        let projects = [project("", "m")];
        let finished = finished(&[("m", &["TestA"])]);
        for profile in [&b""[..], b"mode", b"\xff\xfe\n", b"{}\n"] {
            let artifacts = [("1/origin".to_owned(), b"/w\n".to_vec()), ("1/profile".to_owned(), profile.to_vec())];
            let harvest = ingest(&projects, "/w", &artifacts, &finished);
            assert!(harvest.measured.is_empty());
            assert_eq!(harvest.notes.len(), 1);
        }
    }

    #[test]
    fn skips_hostile_numbers() {
        for line in ["f.go:0.1,2.2 1 1", "f.go:9.1,2.2 1 1", "f.go:99999999999.1,99999999999.2 1 1", "f.go: 1", " ", ""]
        {
            assert_eq!(parse_block(line.as_bytes()), None, "{line}");
        }
        assert!(parse_block(b"C:/f.go:1.1,2.2 1 18446744073709551616").is_some());
    }

    #[test]
    fn merges_touching_spans() {
        let span = |first, last| LineSpan { first, last };
        assert_eq!(merged(vec![span(8, 9), span(1, 2), span(3, 5), span(4, 4)]), [span(1, 5), span(8, 9)]);
    }
}

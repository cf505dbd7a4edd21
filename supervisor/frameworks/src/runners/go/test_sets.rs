//! Sets of tests with the lines that they executed: one for each test that ran alone, one for tests that ran at the same time,
//! one for all tests of a process. Where its records cannot be used, all tests of a package share the lines of its profile.

use super::coverage::{file_of, merged};
use super::test_records::{ALL_RECORDS_BYTES_MAX, NamedLines, RecordsError, TestRecords};
use crate::contract::{CoverageHarvest, Project};
use crate::parsing::bounded_measurements::BoundedMeasurements;
use proctor_core::bounds::COVERED_FILES_MAX;
use proctor_core::coverage::{Attribution, Calibration, CoverageMeasurement, LineSpan};
use proctor_core::human_units::first_names;
use std::collections::{BTreeMap, BTreeSet};

/// Most names in the sets of one process whose tests ran at the same time. Beyond it these are one set.
const SHARED_NAMES_MAX: usize = 65_536;

/// Most packages or tests named in a note.
const NAMED_MAX: usize = 5;

/// Executed lines by file, relative to the workspace.
type Files = Vec<(String, Vec<LineSpan>)>;

/// Collects the sets of all test processes.
pub(super) struct TestSets<'a> {
    projects: &'a [Project],
    harvest: BoundedMeasurements,
    /// Packages by why their records are not used.
    by_package: BTreeMap<String, BTreeSet<String>>,
    /// Finished tests of which nothing was recorded.
    unrecorded: BTreeSet<String>,
    /// Number of tests that ran at the same time as another one.
    overlapping: usize,
    /// What is left of [`ALL_RECORDS_BYTES_MAX`].
    bytes_left: usize,
}

/// What a test process recorded.
pub(super) struct ProcessRecords<'a> {
    /// Of its tests.
    pub(super) tests: &'a [u8],
    /// Of each test that ran alone, too.
    pub(super) alone: &'a [&'a [u8]],
    /// Whether it ran all tests of its package. Beside other ones, a test may execute something else.
    pub(super) has_all_tests: bool,
}

impl<'a> TestSets<'a> {
    pub(super) fn new(projects: &'a [Project]) -> TestSets<'a> {
        TestSets {
            projects,
            harvest: BoundedMeasurements::default(),
            by_package: BTreeMap::new(),
            unrecorded: BTreeSet::new(),
            overlapping: 0,
            bytes_left: ALL_RECORDS_BYTES_MAX,
        }
    }

    /// Adds a process of `package`: its finished tests, those first that ran with all their subtests; its whole profile; and
    /// its records, `None` if the run has none.
    pub(super) fn add(
        &mut self,
        package: &str,
        finished: [Vec<String>; 2],
        files: &Files,
        records: Option<ProcessRecords<'_>>,
    ) {
        let [whole, part] = &finished;
        let all: BTreeSet<&str> = whole.iter().chain(part).map(String::as_str).collect();
        let part: BTreeSet<&str> = part.iter().map(String::as_str).collect();
        let push =
            |harvest: &mut BoundedMeasurements, tests: &BTreeSet<&str>, (attribution, calibration), files: &Files| {
                let (partly, wholly): (Vec<&str>, Vec<&str>) = tests.iter().partition(|test| part.contains(**test));
                for (tests, complete) in
                    [(wholly, true), (partly, false)].into_iter().filter(|(tests, _)| !tests.is_empty())
                {
                    harvest.push(CoverageMeasurement {
                        package: package.to_owned(),
                        tests: tests.into_iter().map(str::to_owned).collect(),
                        complete,
                        attribution,
                        started_processes: false,
                        kept: Vec::new(),
                        calibration,
                        files: files.clone(),
                    });
                }
            };
        let by_package = (Attribution::Package, Calibration::None);
        let Some(ProcessRecords { tests, alone, has_all_tests }) = records else {
            push(&mut self.harvest, &all, by_package, files);
            return;
        };
        let bytes = alone.iter().map(|content| content.len()).sum::<usize>() + tests.len();
        let is_within = self.bytes_left >= bytes;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        let parsed = if is_within { TestRecords::parse(tests, alone) } else { Err(RecordsError::TooLarge) };
        let read = parsed.and_then(|records| {
            let sets = self.sets(&records, &all)?;
            Ok((records, sets))
        });
        let (records, sets) = match read {
            Ok(read) => read,
            Err(why) => {
                self.by_package.entry(why.to_string()).or_default().insert(package.to_owned());
                push(&mut self.harvest, &all, by_package, files);
                return;
            }
        };
        for (tests, (attribution, files)) in &sets {
            // Each test has a set of its own, which says what is known of it.
            let ran_alone = has_all_tests && tests.len() == 1 && ran_alone(&records, tests);
            let calibration = if ran_alone { Calibration::Alone } else { Calibration::None };
            push(&mut self.harvest, tests, (*attribution, calibration), files);
        }
        let unrecorded: BTreeSet<&str> = all.difference(&records.started).copied().collect();
        self.unrecorded.extend(unrecorded.iter().map(|test| format!("{test} of {package}")));
        push(&mut self.harvest, &unrecorded, by_package, files);
    }

    /// Sets of those of `finished` that started, with a set of each alone. The lines that ran while no test did are of all.
    fn sets<'r>(
        &mut self,
        records: &TestRecords<'r>,
        finished: &BTreeSet<&'r str>,
    ) -> Result<BTreeMap<BTreeSet<&'r str>, (Attribution, Files)>, RecordsError> {
        let started: BTreeSet<&str> = finished.intersection(&records.started).copied().collect();
        // Tests that a test runs by itself (`testing.RunTests`) are not among the finished.
        let lines: Vec<(BTreeSet<&str>, NamedLines<'_>)> = records
            .lines()?
            .into_iter()
            .filter(|(running, _)| running.is_empty() || !running.is_disjoint(&started))
            .map(|(running, lines)| (running.intersection(&started).copied().collect(), lines))
            .collect();
        let together = || lines.iter().map(|(running, _)| running).filter(|running| running.len() > 1);
        let overlapping: BTreeSet<&str> = together().flatten().copied().collect();
        let has_too_many_names = together().map(BTreeSet::len).sum::<usize>() > SHARED_NAMES_MAX;
        self.overlapping += overlapping.len();
        let mut named: BTreeMap<BTreeSet<&str>, NamedLines<'_>> =
            started.iter().map(|test| (BTreeSet::from([*test]), NamedLines::new())).collect();
        for (running, lines) in lines {
            let tests = match running.len() {
                0 => started.clone(),
                1 => running,
                _ if has_too_many_names => overlapping.clone(),
                _ => running,
            };
            let known = named.entry(tests).or_default();
            lines.into_iter().for_each(|(file, spans)| known.entry(file).or_default().extend(spans));
        }
        named.remove(&BTreeSet::new());
        let with_files = named.into_iter().map(|(tests, lines)| {
            let is_alone = tests.len() == 1 && tests.is_disjoint(&overlapping);
            let attribution = if is_alone { Attribution::Test } else { Attribution::Package };
            (tests, (attribution, self.files(lines)))
        });
        Ok(with_files.collect())
    }

    fn files(&self, lines: NamedLines<'_>) -> Files {
        let mut files: BTreeMap<String, Vec<LineSpan>> = BTreeMap::new();
        for (name, spans) in lines {
            if let Some(path) = file_of(self.projects, name).filter(|_| files.len() < COVERED_FILES_MAX) {
                files.entry(path).or_default().extend(spans);
            }
        }
        files.into_iter().map(|(path, spans)| (path, merged(spans))).collect()
    }

    pub(super) fn into_harvest(self) -> CoverageHarvest {
        let mut notes: Vec<String> = self
            .by_package
            .iter()
            .map(|(why, packages)| {
                format!("coverage of {} is known by package, not by test: {why}", first_names(packages, NAMED_MAX))
            })
            .collect();
        if !self.unrecorded.is_empty() {
            let tests = first_names(&self.unrecorded, NAMED_MAX);
            notes.push(format!("{tests}: coverage is known by package, not by test: the records do not name them"));
        }
        if self.overlapping > 0 {
            notes.push(format!(
                "{} test(s) ran at the same time as others of their package (t.Parallel): each has the lines that ran meanwhile",
                self.overlapping
            ));
        }
        notes.extend(self.harvest.note());
        CoverageHarvest { measured: self.harvest.measured, notes, ..CoverageHarvest::default() }
    }
}

/// Whether the only test of a set ran in a process of its own, so that it needs nothing that others execute before it.
fn ran_alone(records: &TestRecords<'_>, set: &BTreeSet<&str>) -> bool {
    records.started.len() == 1 || set.is_subset(&records.alone)
}

#[cfg(test)]
mod tests {
    use super::super::test_records::sample::{Interval, alone, records, table};
    use super::*;

    const INTERVALS: &[Interval<'_>] = &[
        (&[], &[(1, 0, &[1])]),
        (&["TestA"], &[(1, 0, &[2])]),
        (&["TestB"], &[(1, 0, &[3])]),
        (&["TestB", "TestC"], &[(1, 0, &[4])]),
        (&["TestLost"], &[(1, 0, &[5])]),
        (&["TestA", "TestNested"], &[(1, 1, &[1])]),
    ];

    fn content(started: &[&str], intervals: &[Interval<'_>]) -> Vec<u8> {
        records(started, intervals, &[table("m/a.go", &[&[10, 20, 30, 40, 50], &[60]])])
    }

    /// `package tests attribution complete: lines` of each set, and the notes.
    fn sets(whole: &[&str], part: &[&str], records: Option<&[u8]>) -> (Vec<String>, Vec<String>) {
        let records = records.map(|tests| ProcessRecords { tests, alone: &[], has_all_tests: true });
        let projects = [Project { dir: String::new(), name: "m".to_owned() }];
        let mut sets = TestSets::new(&projects);
        let names = |tests: &[&str]| tests.iter().map(|test| (*test).to_owned()).collect();
        let profile = vec![("a.go".to_owned(), vec![LineSpan { first: 1, last: 99 }])];
        sets.add("m", [names(whole), names(part)], &profile, records);
        let harvest = sets.into_harvest();
        let row = |set: &CoverageMeasurement| {
            let lines: Vec<String> =
                set.files.iter().flat_map(|(_, spans)| spans).map(|span| span.first.to_string()).collect();
            let complete = if set.complete { "" } else { " partly" };
            format!("{}{complete} by {:?}: {}", set.tests.join(" "), set.attribution, lines.join(" "))
        };
        (harvest.measured.iter().map(row).collect(), harvest.notes)
    }

    #[test]
    fn a_line_belongs_to_the_tests_that_ran_meanwhile() {
        let content = content(&["TestA", "TestB", "TestC", "TestLost", "TestNested"], INTERVALS);
        let (found, notes) = sets(&["TestA", "TestB", "TestC"], &[], Some(&content));
        let expected = [
            "TestA by Test: 20 60",
            "TestA TestB TestC by Package: 10",
            "TestB by Package: 30",
            "TestB TestC by Package: 40",
            "TestC by Package: ",
        ];
        assert_eq!(found, expected, "TestLost and TestNested are not among the finished");
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("2 test(s) ran at the same time"), "{notes:?}");
    }

    #[test]
    fn tests_that_ran_with_some_of_their_subtests_are_apart() {
        let content = content(&["TestA", "TestB"], &INTERVALS[..3]);
        let (found, notes) = sets(&["TestB"], &["TestA"], Some(&content));
        let expected =
            ["TestA partly by Test: 20", "TestB by Package: 10", "TestA partly by Package: 10", "TestB by Test: 30"];
        assert_eq!((found, notes), (expected.map(str::to_owned).to_vec(), Vec::new()));
    }

    #[test]
    fn a_finished_test_without_records_has_the_lines_of_its_package() {
        let content = content(&["TestA"], &INTERVALS[..2]);
        let (found, notes) = sets(&["TestA", "TestB"], &[], Some(&content));
        // The only test of a process executes all that its process does.
        assert_eq!(found, ["TestA by Test: 10 20", "TestB by Package: 1"].map(str::to_owned));
        assert_eq!(notes, ["TestB of m: coverage is known by package, not by test: the records do not name them"]);
    }

    #[test]
    fn without_sound_records_all_tests_share_the_lines_of_the_profile() {
        let by_package = vec!["TestA TestB by Package: 1".to_owned()];
        assert_eq!(sets(&["TestA", "TestB"], &[], None), (by_package.clone(), Vec::new()));
        let whole = content(&["TestA", "TestB"], INTERVALS);
        for (records, why) in [
            (&b""[..], "the test process recorded nothing"),
            (&whole[..whole.len() - 1], "its records are damaged or cut off"),
            (b"proctor-go-tests 1\nC", "its tests clear the counters"),
        ] {
            let (found, notes) = sets(&["TestA", "TestB"], &[], Some(records));
            assert_eq!(found, by_package);
            assert_eq!(notes, [format!("coverage of m is known by package, not by test: {why}")]);
        }
    }

    #[test]
    fn says_which_tests_ran_alone() {
        let calibrations = |records: &[u8], alone: &[u8], tests: &[&str], has_all_tests| {
            let projects = [Project { dir: String::new(), name: "m".to_owned() }];
            let mut sets = TestSets::new(&projects);
            let tests = tests.iter().map(|test| (*test).to_owned()).collect();
            let alone = [alone];
            let records = ProcessRecords { tests: records, alone: &alone, has_all_tests };
            sets.add("m", [tests, Vec::new()], &Vec::new(), Some(records));
            let of_one =
                |set: CoverageMeasurement| (set.tests.len() == 1).then_some((set.tests.concat(), set.calibration));
            sets.into_harvest().measured.into_iter().filter_map(of_one).collect::<Vec<_>>()
        };
        let tests = ["TestA", "TestB", "TestC"];
        let of_a = alone("TestA", INTERVALS);
        let of = |a, b, c| tests.map(str::to_owned).into_iter().zip([a, b, c]).collect::<Vec<_>>();
        let none = of(Calibration::None, Calibration::None, Calibration::None);
        let known = of(Calibration::Alone, Calibration::None, Calibration::None);
        assert_eq!(calibrations(&content(&tests, INTERVALS), &of_a, &tests, true), known);
        assert_eq!(calibrations(&content(&tests, INTERVALS), &of_a, &tests, false), none, "not beside all others");
        assert_eq!(calibrations(&content(&tests, INTERVALS), b"", &tests, true), none);
        assert_eq!(calibrations(&content(&tests, INTERVALS), &of_a[..of_a.len() - 1], &tests, true), none, "damaged");
        let only = [("TestA".to_owned(), Calibration::Alone)];
        assert_eq!(calibrations(&content(&["TestA"], &INTERVALS[..2]), b"", &["TestA"], true), only, "the only test");
    }

    #[test]
    fn files_outside_of_the_workspace_have_no_lines() {
        for file in ["m/../../etc/passwd", "/etc/passwd", "other/a.go", "m", ""] {
            let content = records(&["TestA"], &INTERVALS[1..2], &[table(file, &[&[10, 20]])]);
            let (found, _) = sets(&["TestA"], &[], Some(&content));
            assert_eq!(found, ["TestA by Test: "], "{file}");
        }
    }

    #[test]
    fn many_overlaps_become_one_set() {
        let names: Vec<String> = (0..300).map(|number| format!("Test{number:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let executed: [(usize, usize, &[usize]); 1] = [(1, 0, &[1])];
        let intervals: Vec<Interval<'_>> = (2..300).map(|last| (&names[..last], &executed[..])).collect();
        let shared = |intervals: &[Interval<'_>]| {
            let (found, _) = sets(&names, &[], Some(&content(&names, intervals)));
            found.iter().filter(|row| row.contains("Test000 Test001")).count()
        };
        assert_eq!(shared(&intervals[..100]), 100);
        // 44,849 names.
        assert_eq!(shared(&intervals), 298);
        let shifted: Vec<Interval<'_>> = (2..300).map(|first| (&names[first - 2..], &executed[..])).collect();
        let (found, _) = sets(&names, &[], Some(&content(&names, &[intervals, shifted].concat())));
        let shared = found.iter().filter(|row| row.contains("Test000 Test001 "));
        assert_eq!(shared.count(), 1, "89,698 names");
    }
}

//! Finds the tests that a process belongs to. A process of a test program runs tests itself, unless a test started it; one of
//! another program belongs to the test that started it.
//!
//! A process is a test's if its parent runs that test when it begins. Of one whose parent left no records, as that of a shell,
//! only is known which tests ran when it began.

use super::execution_records::{ExecutionRecord, RecordKind};
use super::{Finished, Program, Test};
use std::collections::{BTreeSet, HashMap};

/// Most processes between a process and the test that it belongs to.
const DEPTH_MAX: usize = 16;

/// Most tests that a process is given which belongs to one of them.
const CANDIDATES_MAX: usize = 256;

/// Whose lines a record has. The tests of a process or a package may be many: [`ProcessTree::tests_of`] finds them once for all records
/// of the same owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner<'p> {
    Test(Test<'p>),
    Tests(BTreeSet<Test<'p>>),
    Process(ProcessKey),
    Package(&'p str),
}

/// A process, as its records name it: the id may be given again within a run.
type ProcessKey = (u32, u64);

/// When a test began and ended.
type Interval<'p> = (u64, u64, Test<'p>);

/// A process that left records.
#[derive(Debug, Default)]
struct Process<'p> {
    parent: u32,
    ended: u64,
    /// Its package, if it is of a program with tests.
    package: Option<&'p str>,
    /// Its tests in the order in which they began.
    tests: Vec<Interval<'p>>,
    overlaps: bool,
}

/// All processes that left records.
#[derive(Debug)]
pub(super) struct ProcessTree<'p> {
    processes: HashMap<ProcessKey, Process<'p>>,
    /// Starts of the processes of each id.
    starts: HashMap<u32, BTreeSet<u64>>,
    /// Tests in the order in which they began, of processes that no test started.
    intervals: Vec<Interval<'p>>,
    finished: &'p Finished,
}

impl<'p> ProcessTree<'p> {
    pub(super) fn new(programs: &'p [Program<'_>], finished: &'p Finished) -> ProcessTree<'p> {
        let mut tree =
            ProcessTree { processes: HashMap::new(), starts: HashMap::new(), intervals: Vec::new(), finished };
        for program in programs {
            for record in &program.records {
                tree.starts.entry(record.process).or_default().insert(record.process_began);
                let process = tree.processes.entry(key(record)).or_default();
                (process.parent, process.package) = (record.parent, program.package.as_deref());
                process.ended = process.ended.max(record.ended);
                process.overlaps |= record.overlaps;
                if let RecordKind::Test(name) | RecordKind::OnlyTest(name) = &record.kind
                    && !record.ignored
                    && let Some(package) = process.package
                {
                    process.tests.push((record.began, record.ended, (package, name)));
                }
            }
        }
        tree.processes.values_mut().for_each(|process| process.tests.sort_unstable());
        let from_outside = tree.processes.iter().filter(|(key, process)| tree.parent(**key, process.parent).is_none());
        let mut intervals: Vec<Interval<'p>> = from_outside.flat_map(|(_, process)| process.tests.clone()).collect();
        intervals.sort_unstable();
        ProcessTree { intervals, ..tree }
    }

    /// The process with this id that ran when its child began.
    fn parent(&self, child: ProcessKey, parent: u32) -> Option<(ProcessKey, &Process<'p>)> {
        let began = *self.starts.get(&parent)?.range(..=child.1).next_back()?;
        let key = (parent, began);
        let process = self.processes.get(&key).filter(|process| process.ended >= child.1 && key != child)?;
        Some((key, process))
    }

    /// Whose lines a record of a program has.
    pub(super) fn owner(&self, program: &Program<'_>, record: &'p ExecutionRecord<'_>) -> Owner<'p> {
        let Some(process) = self.processes.get(&key(record)) else { return Owner::Tests(BTreeSet::new()) };
        if let Some(owner) = self.owner_of_child(key(record), process) {
            return owner;
        }
        let Some(package) = process.package else { return self.owner_at(record.process_began) };
        match &record.kind {
            _ if record.ignored => Owner::Tests(BTreeSet::new()),
            _ if process.overlaps => Owner::Process(key(record)),
            RecordKind::Test(name) | RecordKind::OnlyTest(name) => {
                let test = (package, name.as_str());
                if self.is_finished(&test) { Owner::Test(test) } else { Owner::Tests(BTreeSet::new()) }
            }
            RecordKind::Outside if !process.tests.is_empty() => Owner::Process(key(record)),
            // A program that does not say which test it runs: started by a test, or with a harness of its own.
            RecordKind::Outside => match self.owner_at(record.process_began) {
                Owner::Tests(tests) if tests.is_empty() && program.map.target.is_some() => Owner::Package(package),
                owner => owner,
            },
        }
    }

    /// The tests of an owner.
    pub(super) fn tests_of(&self, owner: &Owner<'p>) -> BTreeSet<Test<'p>> {
        match owner {
            Owner::Test(test) => BTreeSet::from([*test]),
            Owner::Tests(tests) => tests.clone(),
            Owner::Process(key) => {
                let tests = self.processes.get(key).into_iter().flat_map(|process| &process.tests);
                tests.map(|(_, _, test)| *test).filter(|test| self.is_finished(test)).collect()
            }
            Owner::Package(package) => {
                let finished = self.finished.get_key_value(*package);
                finished
                    .into_iter()
                    .flat_map(|(package, names)| names.iter().map(|name| (&**package, &**name)))
                    .collect()
            }
        }
    }

    fn is_finished(&self, (package, name): &Test<'p>) -> bool {
        self.finished.get(*package).is_some_and(|tests| tests.contains(*name))
    }

    /// The test whose process, or a child of it, started this one.
    fn owner_of_child(&self, key: ProcessKey, process: &Process<'p>) -> Option<Owner<'p>> {
        let (mut child, (mut above, mut parent)) = (key, self.parent(key, process.parent)?);
        for _ in 0..DEPTH_MAX {
            let Some((next, next_parent)) = self.parent(above, parent.parent) else { break };
            (child, above, parent) = (above, next, next_parent);
        }
        Some(match parent.package {
            Some(_) => self.owner_of(running_at(&parent.tests, child.1), parent.overlaps),
            None => self.owner_at(above.1),
        })
    }

    /// The tests that ran at this time.
    fn owner_at(&self, time: u64) -> Owner<'p> {
        self.owner_of(running_at(&self.intervals, time), false)
    }

    fn owner_of(&self, mut tests: BTreeSet<Test<'p>>, overlaps: bool) -> Owner<'p> {
        tests.retain(|test| self.is_finished(test));
        match tests.first() {
            Some(test) if tests.len() == 1 && !overlaps => Owner::Test(*test),
            _ => Owner::Tests(tests),
        }
    }

    /// Packages with tests that ran at the same time in one process.
    pub(super) fn overlapping(&self) -> impl Iterator<Item = &'p str> + '_ {
        self.processes.values().filter(|process| process.overlaps).filter_map(|process| process.package)
    }
}

/// The tests of these that ran at this time.
fn running_at<'p>(intervals: &[Interval<'p>], time: u64) -> BTreeSet<Test<'p>> {
    let behind = intervals.partition_point(|(began, ..)| *began <= time);
    let before = intervals[..behind].iter().rev().take(CANDIDATES_MAX);
    before.filter(|(_, ended, _)| time < *ended).map(|(_, _, test)| *test).collect()
}

fn key(record: &ExecutionRecord<'_>) -> ProcessKey {
    (record.process, record.process_began)
}

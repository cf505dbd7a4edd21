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

/// Whose lines a record has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner<'p> {
    /// One test's.
    Test(Test<'p>),
    /// Those of each of these tests.
    Tests(BTreeSet<Test<'p>>),
}

/// A process, as its records name it: the id may be given again within a run.
type ProcessKey = (u32, u64);

/// A process that left records.
#[derive(Debug, Default)]
struct Process<'p> {
    parent: u32,
    ended: u64,
    /// Its package, if it is of a program with tests.
    package: Option<&'p str>,
    /// When each of its tests ran.
    tests: Vec<(u64, u64, &'p str)>,
    overlaps: bool,
}

/// All processes that left records.
#[derive(Debug)]
pub(super) struct ProcessTree<'p> {
    processes: HashMap<ProcessKey, Process<'p>>,
    /// Starts of the processes of each id.
    starts: HashMap<u32, BTreeSet<u64>>,
    /// Tests in the order in which they began, of processes that no test started.
    intervals: Vec<(u64, u64, Test<'p>)>,
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
                {
                    process.tests.push((record.began, record.ended, name));
                }
            }
        }
        let mut intervals: Vec<(u64, u64, Test<'p>)> = Vec::new();
        for (key, process) in &tree.processes {
            if let Some(package) = process.package.filter(|_| tree.parent(*key, process.parent).is_none()) {
                intervals.extend(process.tests.iter().map(|(began, ended, name)| (*began, *ended, (package, *name))));
            }
        }
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
        let Some(package) = process.package else { return self.running_at(record.process_began) };
        let of_process = || {
            let finished = self.finished.get(package);
            let is_finished = |name: &&str| finished.is_some_and(|tests| tests.contains(*name));
            process.tests.iter().map(|(_, _, name)| *name).filter(is_finished).map(|name| (package, name)).collect()
        };
        match &record.kind {
            _ if record.ignored => Owner::Tests(BTreeSet::new()),
            _ if process.overlaps => Owner::Tests(of_process()),
            RecordKind::Test(name) | RecordKind::OnlyTest(name) => {
                let is_finished = self.finished.get(package).is_some_and(|tests| tests.contains(name));
                if is_finished { Owner::Test((package, name)) } else { Owner::Tests(BTreeSet::new()) }
            }
            RecordKind::Outside if !process.tests.is_empty() => Owner::Tests(of_process()),
            // A program that does not say which test it runs: started by a test, or with a harness of its own.
            RecordKind::Outside => match self.running_at(record.process_began) {
                Owner::Tests(tests) if tests.is_empty() && program.map.target.is_some() => {
                    let names = self.finished.get(package).into_iter().flatten();
                    Owner::Tests(names.map(|name| (package, name.as_str())).collect())
                }
                owner => owner,
            },
        }
    }

    /// The test whose process, or a child of it, started this one.
    fn owner_of_child(&self, key: ProcessKey, process: &Process<'p>) -> Option<Owner<'p>> {
        let (mut child, (mut above, mut parent)) = (key, self.parent(key, process.parent)?);
        for _ in 0..DEPTH_MAX {
            let Some((next, next_parent)) = self.parent(above, parent.parent) else { break };
            (child, above, parent) = (above, next, next_parent);
        }
        let Some(package) = parent.package else { return Some(self.running_at(above.1)) };
        let running: BTreeSet<Test<'p>> = parent
            .tests
            .iter()
            .filter(|(began, ended, _)| (*began..*ended).contains(&child.1))
            .map(|(_, _, name)| (package, *name))
            .collect();
        Some(self.owner_of(running, parent.overlaps))
    }

    /// The tests that ran at this time.
    fn running_at(&self, time: u64) -> Owner<'p> {
        let behind = self.intervals.partition_point(|(began, ..)| *began <= time);
        let before = self.intervals[..behind].iter().rev().take(CANDIDATES_MAX);
        self.owner_of(before.filter(|(_, ended, _)| time < *ended).map(|(_, _, test)| *test).collect(), false)
    }

    fn owner_of(&self, mut tests: BTreeSet<Test<'p>>, overlaps: bool) -> Owner<'p> {
        tests.retain(|(package, name)| self.finished.get(*package).is_some_and(|tests| tests.contains(*name)));
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

fn key(record: &ExecutionRecord<'_>) -> ProcessKey {
    (record.process, record.process_began)
}

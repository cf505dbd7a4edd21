//! Compares the coverage index with a simple model that keeps every line of every test in a set.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proctor_core::coverage::{Attribution, Calibration, CoverageIndex, CoverageMeasurement, LineSpan};
use proctor_core::timestamp::Timestamp;
use std::collections::BTreeSet;

const FILES: [&str; 3] = ["a", "b", "c"];
const LINES: u32 = 16;

/// Package, test, file, line.
type Model = BTreeSet<(String, String, String, u32)>;

fuzz_target!(|bytes: &[u8]| {
    let (mut index, mut model) = (CoverageIndex::default(), Model::new());
    // One byte holds the number of sets of a run and whether the run was complete; four bytes follow for each set.
    let mut rest = bytes;
    let mut time = 0;
    while let Some((head, tail)) = rest.split_first() {
        let count = usize::from(head % 4);
        let sets: Vec<CoverageMeasurement> = tail.chunks_exact(4).take(count).map(parse_set).collect();
        rest = tail.get(4 * count..).unwrap_or_default();
        let complete = head & 0x80 != 0;
        ingest(&mut model, &sets, complete);
        time += 1;
        assert!(index.ingest(sets, complete, Timestamp(time)).is_empty());
        compare(&index, &model);
    }
    assert_eq!(index.has_measured(), !model.is_empty() || index.has_measured());
});

fn parse_set(bytes: &[u8]) -> CoverageMeasurement {
    let tests = (0..4).filter(|bit| bytes[1] >> bit & 1 == 1).map(|bit| format!("T{bit}"));
    let first = 1 + u32::from(bytes[2]) % LINES;
    let last = first + u32::from(bytes[3] % 4);
    CoverageMeasurement {
        package: format!("p{}", bytes[0] % 2),
        tests: tests.collect(),
        complete: bytes[1] & 0x80 != 0,
        attribution: Attribution::Package,
        started_processes: false,
        kept: Vec::new(),
        calibration: Calibration::None,
        files: vec![(FILES[usize::from(bytes[0] >> 1) % FILES.len()].to_owned(), vec![LineSpan { first, last }])],
    }
}

fn ingest(model: &mut Model, sets: &[CoverageMeasurement], complete: bool) {
    if sets.is_empty() {
        return;
    }
    if complete {
        model.clear();
    }
    for set in sets.iter().filter(|set| set.complete) {
        model.retain(|(package, test, _, _)| *package != set.package || !set.tests.contains(test));
    }
    for set in sets {
        for (test, (file, spans)) in set.tests.iter().flat_map(|test| set.files.iter().map(move |file| (test, file))) {
            for line in spans.iter().flat_map(|span| span.first..=span.last) {
                model.insert((set.package.clone(), test.clone(), file.clone(), line));
            }
        }
    }
}

fn compare(index: &CoverageIndex, model: &Model) {
    for file in FILES {
        for line in (0..LINES + 4).map(Some).chain([None]) {
            let expected: BTreeSet<(&str, &str)> = model
                .iter()
                .filter(|(_, _, model_file, model_line)| {
                    model_file == file && line.is_none_or(|line| line == *model_line)
                })
                .map(|(package, test, _, _)| (package.as_str(), test.as_str()))
                .collect();
            let covering = index.covering(file, line);
            let actual: BTreeSet<(&str, &str)> =
                covering.tests.iter().map(|test| (test.package.as_str(), test.name.as_str())).collect();
            assert_eq!(actual, expected, "{file} {line:?}");
            assert_eq!(covering.measured_at.is_some(), !expected.is_empty());
        }
    }
}

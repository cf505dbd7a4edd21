//! Records as a test process writes them, and as a hostile one does.

use super::sample::{Interval, alone, records, table};
use super::*;
use proptest::prelude::*;

fn sample() -> Vec<u8> {
    let intervals: &[Interval<'_>] = &[
        (&[], &[(1, 0, &[1])]),
        (&["TestA"], &[(1, 0, &[2]), (2, 0, &[1])]),
        (&["TestA", "TestB"], &[(1, 1, &[1, 1])]),
        (&["TestA"], &[(1, 0, &[1]), (4_294_967_294, 0, &[1])]),
    ];
    records(&["TestA", "TestB"], intervals, &[table("m/a.go", &[&[5, 7], &[300, 301]]), table("m/b/b.go", &[&[3]])])
}

fn rendered(content: &[u8]) -> Result<Vec<String>, RecordsError> {
    rendered_with(content, &[])
}

fn rendered_with(content: &[u8], alone: &[&[u8]]) -> Result<Vec<String>, RecordsError> {
    let records = TestRecords::parse(content, alone)?;
    let mut rows = Vec::new();
    for (running, files) in records.lines()? {
        let running: Vec<&str> = running.into_iter().collect();
        for (file, spans) in files {
            let lines: Vec<String> = spans.iter().map(|span| span.first.to_string()).collect();
            rows.push(format!("{}: {file} {}", running.join(" "), lines.join(" ")));
        }
    }
    rows.sort();
    Ok(rows)
}

#[test]
fn reads_the_lines_of_the_tests_that_ran_meanwhile() {
    let expected = [": m/a.go 5", "TestA TestB: m/a.go 300 301", "TestA: m/a.go 5 7", "TestA: m/b/b.go 3"];
    assert_eq!(rendered(&sample()).unwrap(), expected);
    let started: Vec<String> =
        TestRecords::parse(&sample(), &[]).unwrap().started.iter().map(|&test| test.into()).collect();
    assert_eq!(started, ["TestA", "TestB"]);
}

#[test]
fn what_a_test_executed_alone_belongs_to_it() {
    let intervals: &[Interval<'_>] = &[(&["TestA"], &[(1, 0, &[2])]), (&["TestB"], &[(1, 1, &[1])])];
    let content = records(&["TestA", "TestB"], intervals, &[table("m/a.go", &[&[1, 2], &[10, 11, 12]])]);
    let of_b: &[Interval<'_>] = &[(&[], &[(1, 0, &[1])]), (&["TestB"], &[(1, 1, &[1, 2])])];
    let of_a: &[Interval<'_>] = &[(&["TestA"], &[(1, 0, &[1])])];
    let (lost, of_a, of_b) = (alone("TestLost", of_b), alone("TestA", of_a), alone("TestB", of_b));
    let without = ["TestA: m/a.go 2", "TestB: m/a.go 10"];
    let all = [lost.as_slice(), &of_a, &of_b];
    let mut with_alone = ["TestA: m/a.go 1 2", "TestB: m/a.go 1 10 12"];
    assert_eq!(rendered_with(&content, &all).unwrap(), with_alone);
    let ran_alone = |alone: &[&[u8]]| TestRecords::parse(&content, alone).map(|records| records.alone.len());
    // Of A it is known that it does something else beside the others.
    assert_eq!(TestRecords::parse(&content, &all).unwrap().alone, BTreeSet::from(["TestB"]));
    assert_eq!([ran_alone(&all[..2]), ran_alone(&all[2..])], [Ok(0), Ok(1)]);
    with_alone[0] = without[0];
    assert_eq!(rendered_with(&content, &all[2..]).unwrap(), with_alone);
    for cut in 0..of_b.len() {
        assert_eq!(rendered_with(&content, &[&of_b[..cut]]).unwrap(), without, "cut at {cut}");
    }
}

#[test]
fn says_why_records_measure_nothing() {
    let says = |content: &[u8]| rendered(content).unwrap_err();
    let marked = |mark: &str| format!("{MAGIC}\n{mark}").into_bytes();
    assert_eq!(says(b""), RecordsError::Missing);
    assert_eq!(says(b"proctor-go-tests 2\nE"), RecordsError::Damaged);
    assert_eq!(says(&marked("F")), RecordsError::TooLarge);
    assert_eq!(says(&marked("C")), RecordsError::Cleared);
    assert_eq!(says(&vec![b'x'; RECORDS_BYTES_MAX + 1]), RecordsError::TooLarge);
    assert_eq!(says(&[sample(), vec![b'x']].concat()), RecordsError::Damaged, "bytes behind the end");
    for cut in 0..sample().len() {
        assert!(rendered(&sample()[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn rejects_counters_and_functions_that_the_tables_lack() {
    let with = |executed: (usize, usize, &[usize])| {
        rendered(&records(&["T"], &[(&["T"], &[executed])], &[table("m/a.go", &[&[5, 7]])]))
    };
    assert_eq!(with((1, 0, &[1, 1])).unwrap(), ["T: m/a.go 5 7"]);
    assert_eq!(with((1, 0, &[3])), Err(RecordsError::Damaged), "a counter");
    assert_eq!(with((1, 1, &[1])), Err(RecordsError::Damaged), "a function");
    assert_eq!(with((2, 0, &[1])).unwrap(), [""; 0], "a package without a table");
    assert_eq!(with((1, 0, &[usize::MAX >> 31, usize::MAX >> 32])), Err(RecordsError::Damaged), "an overflow");
}

#[test]
fn functions_that_share_their_blocks_cost_bounded_work() {
    // Each of many functions claims the same large body.
    let lines: Vec<u32> = (1..=u32::try_from(BLOCKS_MAX).unwrap() / 8).collect();
    let functions: Vec<&[u32]> = vec![&lines; 2];
    let mut forged = table("m/a.go", &functions);
    let first: [u8; 4] = forged[TABLE_HEAD..TABLE_HEAD + 4].try_into().unwrap();
    forged[TABLE_HEAD + 4..TABLE_HEAD + 8].copy_from_slice(&first);
    let executed: [(usize, usize, &[usize]); 2] = [(1, 0, &[1]), (1, 1, &[1])];
    assert!(rendered(&records(&["T"], &[(&["T"], &executed)], &[forged.clone()])).is_ok());
    let tables: Vec<Vec<u8>> = vec![forged; 5];
    let all: Vec<(usize, usize, &[usize])> =
        (1..=5).flat_map(|package| [(package, 0, &[1][..]), (package, 1, &[1][..])]).collect();
    let error = rendered(&records(&["T"], &[(&["T"], &all)], &tables)).unwrap_err();
    assert!(matches!(error, RecordsError::Damaged | RecordsError::TooLarge), "{error}");
}

#[test]
fn many_small_records_take_bounded_memory() {
    let mut intervals = format!("{MAGIC}\n").into_bytes();
    for number in 0..=ITEMS_MAX / 3 {
        // One test, the first block of one function, the ends of both lists.
        intervals.extend([b'I', 1, 6]);
        intervals.extend(format!("{number:06x}").bytes());
        intervals.extend([1, 1, 1, 0, 0]);
    }
    intervals.push(b'E');
    assert!(intervals.len() < RECORDS_BYTES_MAX);
    assert_eq!(rendered(&intervals), Err(RecordsError::TooLarge), "intervals");
    let texts = [vec![0; TABLE_HEAD], vec![0xff, 0xff, 0x7f], vec![0; 0x1f_ffff]].concat();
    let length = u32::try_from(texts.len()).unwrap();
    let length =
        [length | 0x80, length >> 7 | 0x80, length >> 14 | 0x80, length >> 21].map(|part| part.to_le_bytes()[0]);
    let table = [format!("{MAGIC}\nM").as_bytes(), &length, &texts, b"E"].concat();
    assert_eq!(rendered(&table), Err(RecordsError::TooLarge), "texts of a table");
    let nothing = format!("{MAGIC}\nI\u{1}\u{1}x\0E");
    assert_eq!(rendered(nothing.as_bytes()), Err(RecordsError::Damaged), "an interval that executed nothing");
}

proptest! {
    #[test]
    fn reads_any_bytes_without_a_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut content = sample();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        _ = rendered(&content);
    }

    #[test]
    fn reads_any_records_of_tests_alone_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut alone = alone("TestB", &[(&["TestB"], &[(1, 1, &[1])])]);
        for (at, byte) in changes {
            let at = at.index(alone.len());
            alone[at] = byte;
        }
        prop_assert!(TestRecords::parse(&sample(), &[&alone]).is_ok());
    }
}

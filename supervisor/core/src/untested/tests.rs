//! Changed lines against what runs measured, from texts alone.

use super::*;
use crate::coverage::{Attribution, Calibration, CoverageMeasurement, spans_from_text, spans_to_text};
use crate::selection::ContentHash;
use crate::timestamp::Timestamp;

/// A text of one letter for each line; a blank line for a blank.
fn text(path: &str, lines: &str) -> (FileText, String) {
    let source: String = lines.chars().map(|c| format!("{}\n", c.to_string().trim())).collect();
    (file_text(path, &source), source)
}

fn file_text(path: &str, source: &str) -> FileText {
    let mut content = [0; 16];
    source.bytes().zip(1_u8..).for_each(|(byte, at)| content[usize::from(at) % 8] ^= byte.wrapping_mul(at));
    FileText::of_source(path, source.as_bytes(), ContentHash(content))
}

fn changed(path: &str, old: Option<&str>, new: &str) -> ChangedSource {
    let (text_now, source) = text(path, new);
    ChangedSource { path: path.to_owned(), old: old.map(|old| text(path, old).0), new: text_now, source }
}

fn executed(test: &str, path: &str, lines: &str) -> CoverageMeasurement {
    CoverageMeasurement {
        package: "p".to_owned(),
        tests: vec![test.to_owned()],
        complete: true,
        attribution: Attribution::Test,
        started_processes: false,
        kept: Vec::new(),
        calibration: Calibration::None,
        files: vec![(path.to_owned(), spans_from_text(lines).unwrap())],
    }
}

fn loaded(source: &ChangedSource, executable: &str) -> LoadedSource {
    let text = Some(source.new.content_number());
    LoadedSource { path: source.path.clone(), executable: spans_from_text(executable), text }
}

/// `changed/executed uncovered lines, not loaded, not known`.
fn row(found: &UntestedLines) -> String {
    let spans: Vec<LineSpan> = found.spans.iter().map(|span| LineSpan { first: span.first, last: span.last }).collect();
    let files = |names: &FileNames| names.files.join(" ");
    let UntestedLines { executed_lines, changed_lines, not_loaded, not_known, .. } = found;
    format!("{executed_lines}/{changed_lines} [{}] {} | {}", spans_to_text(&spans), files(not_loaded), files(not_known))
}

fn find(
    changed: Vec<ChangedSource>,
    measured: &RunCoverage,
    extent: RunExtent,
    index: &CoverageIndex,
) -> UntestedLines {
    let not_read = Vec::new();
    untested_lines(UntestedInput {
        since: "commit".to_owned(),
        changed,
        not_read,
        measured,
        extent,
        index,
        baseline: None,
    })
}

fn whole_run(source: &ChangedSource, executable: &str, lines: &str) -> UntestedLines {
    let tests = vec![executed("A", &source.path, lines)];
    let measured = RunCoverage { tests, sources: vec![loaded(source, executable)], ..RunCoverage::default() };
    find(vec![source.clone()], &measured, RunExtent::AllTests, &CoverageIndex::default())
}

#[test]
fn counts_changed_lines_that_can_be_executed() {
    // Lines 3 to 6 are new; 4 cannot be executed; 3 was.
    let source = changed("a.py", Some("abef"), "abxyzwef");
    let found = whole_run(&source, "1-3,5-8", "1-3,7");
    assert_eq!(row(&found), "1/3 [5-6]  | ");
    assert_eq!(found.spans[0].source, "z\nw");
    assert_eq!(row(&whole_run(&source, "1-3,5-8", "1-8")), "3/3 []  | ");
    assert_eq!(row(&whole_run(&source, "1-2,7-8", "")), "0/0 []  | ", "no changed line can be executed");
    assert_eq!(row(&whole_run(&changed("a.py", None, "ab"), "1-2", "2")), "1/2 [1]  | ", "a new file");
    assert_eq!(row(&whole_run(&changed("a.py", Some("abc"), "ac"), "1-2", "")), "0/0 []  | ", "only lines removed");
}

#[test]
fn joins_lines_that_only_blank_lines_and_comments_divide() {
    let source = changed("a.py", Some("a"), "ax #y#z");
    let found = whole_run(&source, "1-2,5,7", "1");
    assert_eq!(row(&found), "0/3 [2-7]  | ");
    assert_eq!(row(&whole_run(&source, "1-2,5,7", "1,5")), "1/3 [2,7]  | ");
}

#[test]
fn a_comment_or_another_line_ending_is_no_change() {
    assert_eq!(row(&whole_run(&changed("a.py", Some("ab"), "a#b"), "1,3", "")), "0/0 []  | ");
    assert_eq!(row(&whole_run(&changed("a.go", Some("ab"), "a b"), "1-3", "")), "0/0 []  | ");
    let crlf = "a\r\nb\r\n";
    let old = Some(text("a.py", "ab").0);
    let source = ChangedSource { path: "a.py".to_owned(), old, new: file_text("a.py", crlf), source: crlf.to_owned() };
    assert_eq!(row(&whole_run(&source, "1-2", "")), "0/0 []  | ");
}

#[test]
fn a_source_that_no_test_loaded_is_named_only_after_all_tests() {
    let source = changed("b.py", None, "ab");
    let measured =
        RunCoverage { tests: vec![executed("A", "a.py", "1")], sources: Vec::new(), ..RunCoverage::default() };
    let index = CoverageIndex::default();
    let row_of = |source: &ChangedSource, extent| row(&find(vec![source.clone()], &measured, extent, &index));
    assert_eq!(row_of(&source, RunExtent::AllTests), "0/0 [] b.py | ");
    assert_eq!(row_of(&source, RunExtent::AffectedTests), "0/0 [] b.py | ");
    assert_eq!(row_of(&source, RunExtent::SomeTests), "0/0 []  | b.py");
    assert_eq!(row_of(&changed("b.py", None, "##"), RunExtent::AllTests), "0/0 []  | ", "nothing but comments");
    assert_eq!(row_of(&changed("b.ts", None, "ab"), RunExtent::AllTests), "0/0 []  | ", "no code, as far as is known");
}

#[test]
fn a_go_file_without_code_in_a_loaded_package_is_not_missing() {
    let source = |path: &str| ChangedSource { source: "func A() {}\n".to_owned(), ..changed(path, None, "f") };
    let other = changed("a/other.go", None, "f");
    let measured = RunCoverage {
        tests: vec![executed("A", "a/other.go", "1")],
        sources: vec![loaded(&other, "1")],
        ..RunCoverage::default()
    };
    let row_of = |path: &str| row(&find(vec![source(path)], &measured, RunExtent::AllTests, &CoverageIndex::default()));
    assert_eq!(row_of("a/types.go"), "0/0 []  | ");
    assert_eq!(row_of("b/main.go"), "0/0 [] b/main.go | ");
}

#[test]
fn a_run_of_some_tests_tells_nothing_of_another_text() {
    let (old, now) = (changed("a.py", None, "abc"), changed("a.py", None, "axc"));
    let mut index = CoverageIndex::default();
    index.ingest(vec![executed("A", "a.py", "1"), executed("B", "a.py", "2")], true, Timestamp(1));
    index.add_sources(vec![loaded(&old, "1-3")], true, Timestamp(1));
    let measured = |lines: &str, source: &ChangedSource| RunCoverage {
        tests: vec![executed("A", "a.py", lines)],
        sources: vec![loaded(source, "1-3")],
        ..RunCoverage::default()
    };
    let row_of = |source: &ChangedSource, lines: &str| {
        row(&find(vec![source.clone()], &measured(lines, source), RunExtent::SomeTests, &index))
    };
    assert_eq!(row_of(&now, "1"), "0/0 []  | a.py", "B may execute the changed line");
    assert_eq!(row_of(&now, "1-3"), "3/3 []  | ", "what was executed is known");
    assert_eq!(row_of(&old, "1"), "2/3 [3]  | ", "all tests were measured with this text");
    assert_eq!(row_of(&old, "3"), "2/3 [1]  | ", "A executes other lines now");
}

#[test]
fn a_source_written_during_the_run_or_since_is_not_known() {
    let source = changed("a.py", Some("a"), "ab");
    for text in [None, Some(7)] {
        let sources = vec![LoadedSource { text, ..loaded(&source, "1-2") }];
        let measured = RunCoverage { tests: vec![executed("A", "a.py", "1")], sources, ..RunCoverage::default() };
        let found = find(vec![source.clone()], &measured, RunExtent::AllTests, &CoverageIndex::default());
        assert_eq!(row(&found), "0/0 []  | a.py");
    }
}

#[test]
fn lines_of_tests_that_were_not_affected_count_where_the_text_is_the_same() {
    let now = changed("a.py", None, "abc");
    let mut index = CoverageIndex::default();
    index.ingest(vec![executed("A", "a.py", "1"), executed("B", "a.py", "2")], true, Timestamp(1));
    index.add_sources(vec![loaded(&now, "1-3")], true, Timestamp(1));
    let measured = RunCoverage {
        tests: vec![executed("A", "a.py", "1")],
        sources: vec![loaded(&now, "1-3")],
        ..RunCoverage::default()
    };
    assert_eq!(row(&find(vec![now.clone()], &measured, RunExtent::AffectedTests, &index)), "2/3 [3]  | ");
    // B was measured with a text that nobody remembers.
    index.add_sources(vec![loaded(&changed("a.py", None, "bc"), "1-2")], true, Timestamp(1));
    assert_eq!(row(&find(vec![now], &measured, RunExtent::AffectedTests, &index)), "0/0 []  | a.py");
}

#[test]
fn a_renamed_file_has_the_text_that_it_had() {
    let removed = [("old.py".to_owned(), text("old.py", "abcd").0), ("old.go".to_owned(), text("old.go", "abcde").0)];
    let with_old_name = |source| with_old_names(vec![source], &removed).remove(0);
    let source = with_old_name(changed("new.py", None, "abcde"));
    assert_eq!(row(&whole_run(&source, "1-5", "")), "0/1 [5]  | ");
    assert_eq!(with_old_name(changed("new.py", None, "axyz")).old, None, "another file");
    let kept = changed("a.py", Some("a"), "abcd");
    assert_eq!(with_old_name(kept.clone()), kept);
}

#[test]
fn sources_that_are_too_large_together_or_no_text_are_not_known() {
    let mut sources = ChangedSources::default();
    assert!(sources.is_empty());
    let large = "a\n".repeat(UNTESTED_BYTES_MAX / 4);
    for path in ["a.py", "b.py", "c.py", "d.py"] {
        sources.add(path.to_owned(), None, || (path != "b.py").then(|| (text(path, "a").0, large.clone())));
    }
    sources.add("e.py".to_owned(), None, || panic!("nothing more is read"));
    sources.add_removed("f.py".to_owned(), text("f.py", "ab").0);
    let (changed, not_read) = sources.finish();
    let changed: Vec<&str> = changed.iter().map(|source| source.path.as_str()).collect();
    assert_eq!((changed, not_read), (vec!["a.py", "c.py"], ["b.py", "d.py", "e.py"].map(str::to_owned).to_vec()));
}

#[test]
fn lists_are_bounded_and_the_rest_is_counted() {
    let lines = format!("a{}", "xb".repeat(30));
    let source = changed("a.py", Some(&"b".repeat(30)), &lines);
    let evens: Vec<String> = (1..31).map(|at| (2 * at).to_string()).collect();
    let found = whole_run(&source, &evens.join(","), "");
    assert_eq!((found.spans.len(), found.spans_left_out), (UNTESTED_SPANS_MAX, 30 - UNTESTED_SPANS_MAX as u64));
    let measured =
        RunCoverage { tests: vec![executed("A", "a.py", "1")], sources: Vec::new(), ..RunCoverage::default() };
    let new = (0..30).map(|at| changed(&format!("f{at}.py"), None, "a")).collect();
    let found = find(new, &measured, RunExtent::AllTests, &CoverageIndex::default());
    assert_eq!(
        (found.not_loaded.files.len(), found.not_loaded.left_out),
        (UNTESTED_FILES_MAX, 30 - UNTESTED_FILES_MAX as u64)
    );
    assert!(found.has_untested() && found.memory_bytes() > 0);
}

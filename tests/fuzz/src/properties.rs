//! What holds for every run of every runner, whatever it wrote. Must not know what an input was made of.

use crate::input::Run;
use crate::reading::{Read, read};
use proctor_core::bounds::MESSAGE_BYTES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::TestId;
use std::collections::BTreeSet;

/// How many bytes of records a byte of input may become, and how many any input may.
const BYTES_PER_BYTE_MAX: usize = 64;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most sentences about one run.
const NOTES_MAX: usize = 64;

/// Bytes without one of which nothing is green: how a runner, or a reporter of ours in it, says that it is done with all or
/// with a package. JSON can spell them otherwise, so an input with such escapes proves nothing.
const ENDS: &[(&str, &[&[u8]])] = &[
    ("go", &[b"pass", b"skip"]),
    ("pytest", &[b"end"]),
    ("unittest", &[b"end"]),
    ("jest", &[b"end"]),
    ("mocha", &[b"end"]),
    ("node", &[b"end"]),
    ("vitest", &[b"end"]),
    ("cargo", &[b"proctor-ended", b"test result"]),
    ("nextest", &[b"suite"]),
    ("ctest", &[b"tests passed"]),
    ("maven", &[b"end \nsuccess"]),
    ("playwright", &[b"end"]),
    ("script", &[]),
    ("cypress", &[b"end"]),
    ("gradle", &[b"end"]),
    ("maestro", &[b"testsuite"]),
    ("rspec", &[b"end"]),
    ("phpunit", &[b"end"]),
];

/// Frameworks of which a test may begin and never end: nextest tells the beginning of ignored tests that a filter left out.
const LEFT_OPEN: &[&str] = &["nextest"];

/// Checks a run of the framework called `name`.
pub fn hold(name: &str, bytes: &[u8]) {
    let run = Run::of(bytes);
    let whole = read(name, &run, |piece| piece.len());
    within_bounds(&whole, bytes.len());
    nothing_is_left_open(name, &whole);
    // Where pieces are cut is the input's own choice.
    let at = bytes.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    assert_eq!(whole, read(name, &run, |piece| at % (piece.len() + 1)), "cut into pieces it reads otherwise");
    no_green_without_its_end(name, bytes, &whole);
    no_green_by_cutting(name, &run, &whole, at);
}

fn within_bounds(read: &Read, input: usize) {
    let mut sum = 0;
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    for event in &read.events {
        sum += match event {
            RunnerEvent::TestStarted(id) => {
                assert_eq!(*id, id.clone().bounded(), "a test that began has no bound");
                id.package.len() + id.name.len()
            }
            RunnerEvent::TestFinished(test) => {
                assert_eq!(**test, test.as_ref().clone().bounded(), "a test that ended has no bound");
                let texts = [&test.file, &test.message, &test.expected, &test.actual, &test.stack, &test.output];
                assert!(test.line != Some(0) && (test.line.is_none() || test.file.is_some()), "{test:?}");
                assert!(test.duration_s.is_none_or(|seconds| seconds.is_finite() && seconds >= 0.0), "{test:?}");
                test.nodeid.len() + test.name.len() + test.package.len() + texts.into_iter().map(length).sum::<usize>()
            }
            RunnerEvent::Collector(told) => {
                assert_eq!(**told, told.as_ref().clone().bounded(), "an error has no bound");
                told.nodeid.len() + length(&told.file) + told.message.len() + told.output.len()
            }
        };
    }
    assert!(sum <= BYTES_PER_BYTE_MAX * input + BYTES_MAX, "{input} bytes became {sum}");
    let notes = &read.verdict.evidence.notes;
    assert!(
        notes.len() <= NOTES_MAX && notes.iter().all(|note| note.len() <= MESSAGE_BYTES_MAX),
        "notes have no bound"
    );
}

fn nothing_is_left_open(name: &str, read: &Read) {
    let ended = |event: &RunnerEvent| match event {
        RunnerEvent::TestFinished(test) => Some(test.id()),
        RunnerEvent::TestStarted(_) | RunnerEvent::Collector(_) => None,
    };
    let ended: BTreeSet<TestId> = read.events.iter().filter_map(ended).collect();
    let running: BTreeSet<TestId> = read.running.iter().cloned().map(TestId::bounded).collect();
    assert!(read.killed || read.left.is_empty(), "{:?} still run after a run that ended by itself", read.left);
    if LEFT_OPEN.contains(&name) {
        return;
    }
    for event in &read.events {
        if let RunnerEvent::TestStarted(id) = event {
            assert!(ended.contains(id) || running.contains(id), "{id:?} began, and nothing came of it");
        }
    }
}

fn no_green_without_its_end(name: &str, bytes: &[u8], read: &Read) {
    let has = |words: &[u8]| bytes.windows(words.len()).any(|window| window == words);
    let Some((_, ends)) = ENDS.iter().find(|(known, _)| *known == name) else { return };
    if !has(b"\\u") && !ends.iter().any(|end| has(end)) {
        assert!(!read.is_green(), "green without its end: {:?}", read.verdict);
    }
}

/// A run that failed, as its runner's status says, is not green because its last words are missing.
fn no_green_by_cutting(name: &str, run: &Run<'_>, whole: &Read, at: usize) {
    let length = run.last_piece();
    let failed = whole.verdict.evidence.exit_code.is_some_and(|code| code != 0) && !whole.is_green();
    let blamed = whole.events.iter().any(|event| match event {
        RunnerEvent::TestFinished(test) => test.outcome.is_failure(),
        RunnerEvent::Collector(_) => true,
        RunnerEvent::TestStarted(_) => false,
    });
    if length == 0 || whole.is_green() || !(failed || blamed) {
        return;
    }
    let mut cut = run.cut(at % length);
    if let Some(last) = cut.steps.last_mut().filter(|last| last.exit == Exit::Code(0)) {
        last.exit = Exit::Code(1);
    }
    let read = read(name, &cut, |piece| piece.len());
    assert!(!read.is_green(), "green because its end is missing: {:?}", read.verdict);
}

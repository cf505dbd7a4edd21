//! Properties that every run of every runner must have, whatever it printed.

use crate::input::Run;
use crate::replay::{Replay, replay};
use crate::subject::framework;
use proctor_core::bounds::MESSAGE_BYTES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::TestId;
use std::collections::BTreeSet;

/// Largest number of bytes of records: per byte of input, and in addition for every input.
const BYTES_PER_BYTE_MAX: usize = 64;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Largest number of notes on one run.
const NOTES_MAX: usize = 64;

/// Checks all properties for a run of the framework called `name`.
pub fn check(name: &str, bytes: &[u8]) {
    let run = Run::parse(bytes);
    let whole = replay(name, &run, |piece| piece.len());
    assert_bounds(&whole, bytes.len());
    assert_every_test_ends(name, &whole);
    // The input determines where pieces are split.
    let at = bytes.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    assert_eq!(whole, replay(name, &run, |piece| at % (piece.len() + 1)), "the result depends on the split");
    assert_no_green_without_completion(name, bytes, &whole);
    assert_no_green_by_truncation(name, &run, &whole, at);
}

fn assert_bounds(replay: &Replay, input: usize) {
    let mut sum = 0;
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    for event in &replay.events {
        sum += match event {
            RunnerEvent::TestStarted(id) => {
                assert_eq!(*id, id.clone().bounded(), "a started test exceeds its bounds");
                id.package.len() + id.name.len()
            }
            RunnerEvent::TestFinished(test) => {
                assert_eq!(**test, test.as_ref().clone().bounded(), "a finished test exceeds its bounds");
                let texts = [&test.file, &test.message, &test.expected, &test.actual, &test.stack, &test.output];
                assert!(test.line != Some(0) && (test.line.is_none() || test.file.is_some()), "{test:?}");
                assert!(test.duration_s.is_none_or(|seconds| seconds.is_finite() && seconds >= 0.0), "{test:?}");
                test.nodeid.len() + test.name.len() + test.package.len() + texts.into_iter().map(length).sum::<usize>()
            }
            RunnerEvent::Collector(collector) => {
                assert_eq!(**collector, collector.as_ref().clone().bounded(), "an error exceeds its bounds");
                collector.nodeid.len() + length(&collector.file) + collector.message.len() + collector.output.len()
            }
        };
    }
    assert!(sum <= BYTES_PER_BYTE_MAX * input + BYTES_MAX, "{input} bytes became {sum}");
    let notes = &replay.verdict.evidence.notes;
    assert!(
        notes.len() <= NOTES_MAX && notes.iter().all(|note| note.len() <= MESSAGE_BYTES_MAX),
        "notes exceed their bounds"
    );
}

fn assert_every_test_ends(name: &str, replay: &Replay) {
    let ended = |event: &RunnerEvent| match event {
        RunnerEvent::TestFinished(test) => Some(test.id()),
        RunnerEvent::TestStarted(_) | RunnerEvent::Collector(_) => None,
    };
    let ended: BTreeSet<TestId> = replay.events.iter().filter_map(ended).collect();
    let running: BTreeSet<TestId> = replay.running.iter().cloned().map(TestId::bounded).collect();
    let unfinished = &replay.unfinished;
    assert!(replay.killed || unfinished.is_empty(), "{unfinished:?} still running after the run ended by itself");
    if framework(name).is_some_and(|framework| !framework.manifest().finishes_started_tests) {
        return;
    }
    for event in &replay.events {
        if let RunnerEvent::TestStarted(id) = event {
            assert!(
                ended.contains(id) || running.contains(id),
                "{id:?} began, but neither ended nor is reported as running"
            );
        }
    }
}

/// Without one of the framework's proof markers no run is green. JSON escapes can encode them differently, so inputs with escapes
/// are not checked.
fn assert_no_green_without_completion(name: &str, bytes: &[u8], replay: &Replay) {
    let has = |marker: &[u8]| bytes.windows(marker.len()).any(|window| window == marker);
    let markers = framework(name).map_or(&[][..], |framework| framework.manifest().proof_markers);
    if !markers.is_empty() && !has(b"\\u") && !markers.iter().any(|marker| has(marker)) {
        assert!(!replay.is_green(), "green without a completion marker: {:?}", replay.verdict);
    }
}

/// A run that failed by its runner's status must not become green when its last bytes are missing.
fn assert_no_green_by_truncation(name: &str, run: &Run<'_>, whole: &Replay, at: usize) {
    let length = run.last_piece_length();
    let failed = whole.verdict.evidence.exit_code.is_some_and(|code| code != 0) && !whole.is_green();
    let has_failure_event = whole.events.iter().any(|event| match event {
        RunnerEvent::TestFinished(test) => test.outcome.is_failure(),
        RunnerEvent::Collector(_) => true,
        RunnerEvent::TestStarted(_) => false,
    });
    if length == 0 || whole.is_green() || !(failed || has_failure_event) {
        return;
    }
    let mut cut = run.cut(at % length);
    if let Some(last) = cut.steps.last_mut().filter(|last| last.exit == Exit::Code(0)) {
        last.exit = Exit::Code(1);
    }
    let replay = replay(name, &cut, |piece| piece.len());
    assert!(!replay.is_green(), "green because the end is missing: {:?}", replay.verdict);
}

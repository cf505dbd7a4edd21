//! Runs the adapters on recorded runs of their runners. A framework has a file with a table of its recordings and with the tests that
//! only it needs; the tests in this file hold for every recording of every framework. `goldens/FRAMEWORK/README.md` says how the
//! recordings were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod ctest;
mod go;
mod gradle;
mod javascript;
mod jvm;
mod maestro;
mod maven;
mod noise;
mod phpunit;
mod proof;
mod python;
mod recording;
mod render;
mod rspec;
mod rust;
#[path = "../support/want.rs"]
mod want;

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::{FRAMEWORKS, Step};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use recording::{Channel, Recordings, Replay, Run};
use std::collections::BTreeSet;

static ALL: &[&Recordings] = &[
    &go::GO,
    &python::PYTEST,
    &python::UNITTEST,
    &javascript::JEST,
    &javascript::MOCHA,
    &javascript::NODE,
    &javascript::VITEST,
    &javascript::PLAYWRIGHT,
    &javascript::CYPRESS,
    &javascript::SCRIPT,
    &rust::CARGO,
    &rust::CARGO_BACKTRACE,
    &rust::NEXTEST,
    &ctest::CTEST,
    &ctest::CTEST_BUILD,
    &maven::MAVEN,
    &gradle::GRADLE,
    &maestro::MAESTRO,
    &maestro::MAESTRO_TWO,
    &maestro::MAESTRO_SHARDS,
    &rspec::RSPEC,
    &phpunit::PHPUNIT,
];

/// Number of random inputs for each recording.
const CASES: u32 = 16;

/// Every recording, with its framework and name as `go-pass`.
fn recordings() -> impl Iterator<Item = (&'static Recordings, String, Run)> {
    ALL.iter().flat_map(|of| of.all().map(|(name, run)| (*of, format!("{}-{name}", of.framework.name()), run)))
}

/// A recording and its replay.
struct Recorded {
    of: &'static Recordings,
    name: String,
    run: Run,
    replay: Replay,
}

/// Checks `property` for random inputs of each recording.
fn check<T: std::fmt::Debug>(
    inputs: &impl Strategy<Value = T>,
    property: impl Fn(&Recorded, T) -> Result<(), TestCaseError>,
) {
    let config = Config { source_file: Some(file!()), ..Config::with_cases(CASES) };
    for (of, name, run) in recordings() {
        let recorded = Recorded { of, name, replay: of.replay(&run), run };
        let checked = TestRunner::new(config.clone()).run(inputs, |input| property(&recorded, input));
        assert!(checked.is_ok(), "{}: {}", recorded.name, checked.unwrap_err());
    }
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for (of, name, run) in recordings().filter(|(.., run)| !run.is_killed) {
        let replay = of.replay(&run);
        let text = if run.is_listing { render::listing(&replay) } else { (of.render)(&replay) };
        insta::assert_snapshot!(name, text);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "recordings are files")]
fn every_recording_is_in_a_table() {
    for framework in FRAMEWORKS {
        let of_framework = ALL.iter().filter(|of| of.framework.name() == framework.name());
        let names: BTreeSet<&str> = of_framework.flat_map(|of| of.all().map(|(name, _)| name)).collect();
        let files = std::fs::read_dir(recording::directory(*framework)).unwrap();
        for file in files.map(|file| file.unwrap().file_name().into_string().unwrap()) {
            let name = file.rsplit_once('.').unwrap().0.trim_end_matches("-again");
            let is_text = file.ends_with(".md") || file.ends_with(".txt");
            assert!(is_text || names.contains(name), "no test reads {file} of {}", framework.name());
        }
    }
}

#[test]
fn a_recording_is_all_that_its_plan_asks_for() {
    for (of, name, run) in recordings().filter(|(.., run)| !run.is_killed) {
        let replay = of.replay(&run);
        // Nextest's lists of the ignored tests of its runs were not recorded.
        let is_unrecorded = |step: &Step| name.starts_with("nextest-") && step.args[1] == "list";
        let unrecorded = replay.follow_ups.iter().filter(|step| is_unrecorded(step)).count();
        assert_eq!(replay.steps_left, unrecorded, "{name}: {:?}", replay.follow_ups);
        let is_report = |(channel, _): &(Channel, Vec<u8>)| matches!(channel, Channel::Report);
        assert_eq!(replay.plans_report, run.steps[0].channels.iter().any(is_report), "{name}");
        assert!(replay.running.is_empty(), "{name}: {:?}", replay.running);
    }
}

#[test]
fn no_event_contains_the_workspace_path() {
    for (of, name, run) in recordings() {
        for event in of.replay(&run).events {
            assert!(!format!("{event:?}").contains("/workspace"), "{name}: {event:?}");
        }
    }
}

#[test]
fn a_listing_finishes_no_test() {
    for (of, name, run) in recordings().filter(|(.., run)| run.is_listing) {
        let replay = of.replay(&run);
        assert!(replay.finished().next().is_none() && replay.started().next().is_some(), "{name}: {:?}", replay.events);
    }
}

#[test]
fn a_killed_run_keeps_finished_tests_and_names_the_running_one() {
    for of in ALL {
        for killed in of.killed {
            let replay = of.replay(&of.load(killed.name, -9).killed());
            let finished: Vec<_> = replay.finished().map(|test| (test.outcome, test.nodeid.as_str())).collect();
            let name = of.framework.name();
            assert_eq!(finished, [(TestOutcome::Passed, killed.passed)], "{name}");
            let running: Vec<_> = replay.running.iter().map(|id| (id.package.as_str(), id.name.as_str())).collect();
            assert_eq!(running, [killed.running], "{name}");
            let errors = replay.events.iter().filter(|event| matches!(event, RunnerEvent::Collector(_))).count();
            assert_eq!((replay.is_unproven(), replay.steps_left, errors), (true, 0, 0), "{name}");
        }
    }
}

#[test]
fn cutting_the_channels_into_pieces_changes_nothing() {
    check(&prop::collection::vec(any::<Index>(), 0..20), |Recorded { of, run, replay, .. }, cuts| {
        let positions = |bytes: usize| {
            let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes + 1)).collect();
            positions.sort_unstable();
            positions
        };
        let tree = (of.workspace)(of.framework);
        prop_assert_eq!(replay, &of.replay_in_pieces(&tree, run, &positions));
        Ok(())
    });
}

#[test]
fn a_run_killed_half_way_is_unproven_and_invents_nothing() {
    check(&any::<Index>(), |Recorded { of, name, run, replay }, at| {
        let mut half = run.clone();
        for (_, bytes) in &mut half.steps.last_mut().unwrap().channels {
            bytes.truncate(at.index(bytes.len() / 2 + 1));
        }
        let half = of.replay(&half.killed());
        prop_assert!(half.is_unproven(), "{} is proven", name);
        let outcomes: Vec<_> = replay.finished().map(|test| (test.id(), test.outcome)).collect();
        for test in half.finished() {
            prop_assert!(outcomes.contains(&(test.id(), test.outcome)), "{}: {:?}", name, test);
        }
        let finished: BTreeSet<_> = half.finished().map(|test| test.id()).collect();
        if of.framework.manifest().finishes_started_tests && !run.is_listing {
            for id in half.started() {
                prop_assert!(finished.contains(id) || half.running.contains(id), "{}: {:?}", name, id);
            }
        }
        // A second step runs tests that the first one finished.
        let is_over = |id| run.steps.len() == 1 && finished.contains(id);
        prop_assert!(!half.running.iter().any(is_over), "{}: {:?}", name, half.running);
        Ok(())
    });
}

#[test]
fn a_run_without_its_end_is_unproven() {
    let is_unproven = |of: &Recordings, run: &Run, end: usize| {
        let replay = of.replay(&run.with_last(&run.last()[..end]));
        // A runner that says that it has no tests proves nothing else.
        replay.is_unproven() || replay.nothing_selected
    };
    for (of, name, run) in recordings().filter(|(.., run)| !run.is_killed && !run.is_listing) {
        let (unproven, mut green) = ((of.unproven_bytes)(run.last()), run.clone());
        green.steps.last_mut().unwrap().exit = Exit::Code(0);
        let mut line_end = 0;
        for line in run.last()[..unproven].split_inclusive(|byte| *byte == b'\n') {
            for run in [&run, &green] {
                assert!(is_unproven(of, run, line_end), "{name} without the lines after {line_end} bytes");
            }
            line_end += line.len();
        }
        for at in (0..unproven).rev().take(32) {
            assert!(is_unproven(of, &run, at), "{name} without what follows byte {at}");
        }
    }
}

#[test]
fn no_bytes_in_a_recording_make_the_parser_panic() {
    check(
        &(prop::collection::vec(any::<u8>(), 0..200), any::<Index>()),
        |Recorded { of, name, run, .. }, (noise, at)| {
            let mut noisy = run.clone();
            for (_, bytes) in noisy.steps.iter_mut().flat_map(|step| &mut step.channels) {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, noise.iter().copied());
            }
            noisy.steps.truncate(1);
            let replay = of.replay(&noisy);
            prop_assert!(run.is_killed || replay.running.is_empty(), "{}: {:?}", name, replay.running);
            Ok(())
        },
    );
}

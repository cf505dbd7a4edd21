//! Proof of each adapter: its recorded run `pass` does not pass once its proof is removed.

use crate::ALL;
use crate::recording::{Output, Recordings, Run};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::{Exit, Outcome};
use proctor_core::report::Summary;
use proctor_core::verdict::{Facts, judge};
use proctor_frameworks::FRAMEWORKS;

/// Replacements in the end record of a reporter: absent, without its counts, with other counts, with tests left.
pub(crate) const REPORTERS: &[(&str, &str)] = &[
    (r#"{"event":"end","#, r#"{"event":"note","text":"x","#),
    (r#","left":0}"#, "}"),
    (r#""end","tests":"#, r#""end","tests":1"#),
    (r#""left":0"#, r#""left":1"#),
];

/// The outcome of a run whose steps all exit with 0.
fn outcome(of: &Recordings, run: &Run) -> Outcome {
    let (mut run, mut replay) = (run.clone(), of.replay(run));
    while replay.steps_left > 0 {
        run.steps.push(Output { channels: Vec::new(), exit: Exit::Code(0) });
        replay = of.replay(&run);
    }
    let (mut summary, mut collection_errors) = (Summary::default(), 0);
    for event in &replay.events {
        match event {
            RunnerEvent::TestStarted(_) => {}
            RunnerEvent::TestFinished(test) => summary.count(test.outcome),
            RunnerEvent::Collector(_) => collection_errors += 1,
        }
    }
    let commands = of.silent_steps + run.steps.len();
    let facts = Facts {
        commands,
        exits: vec![Exit::Code(0); commands],
        summary,
        collection_errors,
        structured: replay.summary.structured,
        proof: replay.summary.proof,
        runner_missing: replay.summary.runner_missing,
        running: replay.running,
        unreached: replay.summary.unreached,
        notes: replay.summary.notes,
        ..Facts::default()
    };
    judge(facts).outcome
}

/// The run with `text` replaced in everything that it wrote, and whether it was there.
fn replace(run: &Run, text: &str, instead: &str) -> (Run, bool) {
    let (mut run, mut is_there) = (run.clone(), false);
    let channels = run.steps.iter_mut().flat_map(|step| &mut step.channels);
    for (_, bytes) in channels {
        let whole = String::from_utf8_lossy(bytes);
        is_there |= whole.contains(text);
        *bytes = whole.replace(text, instead).into_bytes();
    }
    (run, is_there)
}

#[test]
fn no_run_passes_without_the_proof_of_its_adapter() {
    for of in ALL.iter().filter(|of| !of.proof.is_empty()) {
        let (name, run) = (of.framework.name(), of.completed_run("pass"));
        assert_eq!(outcome(of, &run), Outcome::Passed, "{name}");
        for (text, instead) in of.proof {
            let (without, is_there) = replace(&run, text, instead);
            let outcome = outcome(of, &without);
            assert!(is_there && outcome != Outcome::Passed, "{name} without {text:?}: {outcome:?}");
        }
    }
}

#[test]
fn every_adapter_has_a_proof_and_documents_it() {
    let readme = include_str!("../../README.md");
    for framework in FRAMEWORKS {
        let (name, proof) = (framework.name(), framework.manifest().proof);
        let is_removed = |of: &&Recordings| of.framework.name() == name && !of.proof.is_empty();
        assert!(ALL.iter().any(is_removed), "no recording of {name} shows its proof");
        let row = readme.lines().find(|line| line.eq_ignore_ascii_case(&format!("| `{name}` | {proof} |")));
        assert!(row.is_some(), "README's table of proofs lacks {name}: {proof}");
    }
}

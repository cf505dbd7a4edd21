//! Proof of each adapter: a recorded run that passes does not pass once its proof is removed. Each adapter needs a row.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::{Exit, Outcome};
use proctor_core::report::Summary;
use proctor_core::request::Selection;
use proctor_core::verdict::{Facts, judge};
use proctor_frameworks::{FRAMEWORKS, FileTree, Framework, PlanRequest};
use support::want::want;

/// Stream or file that a runner writes to.
#[derive(Clone, Copy)]
enum Channel {
    Stdout,
    Report,
    /// A file that the runner leaves, by its path.
    File(&'static str),
}

use Channel::{File, Report, Stdout};

/// A recorded run that passes.
struct Recording {
    framework: &'static str,
    /// The project's files; empty for the manifest's sample.
    files: &'static [(&'static str, &'static str)],
    /// The step that the streams belong to.
    step: usize,
    output: &'static [(Channel, &'static str)],
    /// Replacements that remove the proof: a text of the recording, and the text in its place.
    without: &'static [(&'static str, &'static str)],
}

macro_rules! golden {
    ($path:literal) => {
        include_str!(concat!("../goldens/", $path))
    };
}

const fn javascript(framework: &'static str, output: &'static [(Channel, &'static str)]) -> Recording {
    Recording { framework, files: &[], step: 0, output, without: REPORTERS }
}

/// Replacements in a reporter's end record: absent, without its counts, with other counts, with tests left.
const REPORTERS: &[(&str, &str)] = &[
    (r#"{"event":"end","#, r#"{"event":"note","text":"x","#),
    (r#","left":0}"#, "}"),
    (r#""end","tests":"#, r#""end","tests":1"#),
    (r#""left":0"#, r#""left":1"#),
];

/// The same replacements in Python's JSON format.
const PYTHON: &[(&str, &str)] = &[
    (r#"{"event": "end","#, r#"{"event": "note", "text": "x","#),
    (r#", "left": 0}"#, "}"),
    (r#""end", "tests": "#, r#""end", "tests": 1"#),
    (r#""left": 0"#, r#""left": 1"#),
];

const RECORDINGS: &[Recording] = &[
    Recording {
        framework: "go",
        files: &[],
        step: 0,
        output: &[(Stdout, golden!("go/pass.jsonl"))],
        without: &[
            (r#""Output":"PASS\n"}"#, r#""Output":"DONE\n"}"#),
            (r#""Action":"pass","Package":"example.com/pass/calc","E"#, ""),
        ],
    },
    Recording {
        framework: "pytest",
        files: &[],
        step: 0,
        output: &[(Report, golden!("pytest/pass.jsonl"))],
        without: PYTHON,
    },
    Recording {
        framework: "unittest",
        files: &[],
        step: 0,
        output: &[(Report, golden!("unittest/pass.jsonl"))],
        without: PYTHON,
    },
    javascript("jest", &[(Report, golden!("jest/pass.jsonl"))]),
    javascript("mocha", &[(Report, golden!("mocha/pass.jsonl"))]),
    javascript("node", &[(Report, golden!("node/pass.jsonl"))]),
    javascript("vitest", &[(Report, golden!("vitest/pass.jsonl"))]),
    javascript("playwright", &[(Report, golden!("playwright/pass.jsonl"))]),
    Recording {
        without: &[("1..2\n", ""), ("1..2\n", "1..3\n")],
        ..javascript("script", &[(Stdout, "TAP version 13\nok 1 - a\nok 2 - b\n1..2\n")])
    },
    Recording {
        framework: "cargo",
        files: &[],
        step: 0,
        output: &[(Stdout, golden!("rust/cargo-pass.out"))],
        without: &[
            (r#"{ "type": "suite", "event": "ok", "passed": 3,"#, "{"),
            (r#""test_count": 3"#, r#""test_count": 4"#),
            ("test result: ok. 2 passed;", ""),
        ],
    },
    Recording {
        framework: "nextest",
        files: &[],
        step: 0,
        output: &[(Stdout, golden!("rust/nextest-pass.out"))],
        without: &[
            (
                r#"{"type":"suite","event":"ok","passed":1,"failed":0,"ignored":0,"measured":0,"filtered_out":0,"exec_time":0.018"#,
                "{",
            ),
            (r#"{"type":"suite","event":"started","#, "{"),
        ],
    },
    Recording {
        framework: "ctest",
        files: &[],
        step: 2,
        output: &[(Stdout, golden!("ctest/pass.out"))],
        without: &[("100% tests passed, 0 tests failed out of 7", ""), ("/7 Test", "/8 Test")],
    },
    Recording {
        framework: "maven",
        files: &[],
        step: 0,
        output: &[(Stdout, golden!("maven/pass.out")), (Report, golden!("maven/pass.report"))],
        without: &[
            ("\0token end \nsuccess\0", "\0"),
            ("token end", "nobody end"),
            ("ran \n4 0", "ran \n5 0"),
            (r#"tests="4""#, r#"tests="5""#),
        ],
    },
    Recording {
        framework: "gradle",
        files: &[],
        step: 0,
        output: &[(Report, golden!("gradle/pass.jsonl"))],
        without: REPORTERS,
    },
    Recording {
        framework: "maestro",
        files: &[(".maestro/search.yaml", "appId: x\n---\n- launchApp\n")],
        step: 0,
        output: &[
            (Stdout, "[Passed] search (1m 3s)\n\n1/1 Flows Passed in 1m 3s\n"),
            (
                File("maestro/report-0.xml"),
                r#"<testsuites><testsuite tests="1" failures="0"><testcase name="search" status="SUCCESS"/></testsuite></testsuites>"#,
            ),
        ],
        without: &[
            (r#"<testcase name="search" status="SUCCESS"/>"#, ""),
            (r#"tests="1""#, r#"tests="2""#),
            (r#"status="SUCCESS"/>"#, r#"status="ERROR"><failure>x</failure></testcase>"#),
        ],
    },
    Recording {
        without: &[
            (r#"{"event":"end","#, r#"{"event":"note","text":"x","#),
            (r#","left":0}"#, "}"),
            (r#""end","tests":"#, r#""end","tests":1"#),
            (r#""left":0"#, r#""left":1"#),
            ("Specs:", "Spec:"),
            ("2 found", "3 found"),
            (r#"{"event":"closed","package":"cypress/e2e/sum.cy.js"}"#, ""),
        ],
        ..javascript(
            "cypress",
            &[(Stdout, "  Specs:  2 found (shop.cy.js, sum.cy.js)\n"), (Report, golden!("cypress/pass.jsonl"))],
        )
    },
    Recording {
        framework: "rspec",
        files: &[],
        step: 0,
        output: &[(Report, golden!("rspec/pass.jsonl"))],
        without: REPORTERS,
    },
    Recording {
        framework: "phpunit",
        files: &[],
        step: 0,
        output: &[(Report, golden!("phpunit/pass.jsonl"))],
        without: REPORTERS,
    },
];

/// The outcome of the recording with `change` applied to everything the runner wrote.
fn outcome(recording: &Recording, change: impl Fn(&str) -> String) -> Outcome {
    let framework = framework(recording.framework);
    let want = PlanRequest { scratch: "/tmp/proctor", ..want(&Selection::All) };
    let mut tree = FileTree::default();
    let files = if recording.files.is_empty() { framework.manifest().sample } else { recording.files };
    files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
    let plan = framework.plan(&framework.detect_explicit(&tree), &tree, &want).unwrap();
    // ctest prints its build directory: the recording gets the planned one.
    let build = plan.steps[0].args.get(3).cloned().unwrap_or_default();
    let change = |text: &str| change(&text.replace("/cache/cmake/0123456789abcdef", &build));
    let (mut parser, mut events) = (framework.parser(&plan, &want), Vec::new());
    let (mut commands, mut step) = (plan.steps.len(), 0);
    while step < commands {
        parser.step_started(step);
        for (channel, text) in recording.output.iter().filter(|_| step == recording.step) {
            match channel {
                Stdout => parser.stdout(change(text).as_bytes(), &mut events),
                Report => parser.report(change(text).as_bytes(), &mut events),
                File(_) => {}
            }
        }
        parser.step_ended(Exit::Code(0), false, &mut events);
        commands += parser.follow_up().len();
        step += 1;
    }
    let file = |(channel, text): &(Channel, &str)| match channel {
        File(path) => Some(((*path).to_owned(), change(text).into_bytes())),
        Stdout | Report => None,
    };
    let files: Vec<(String, Vec<u8>)> = recording.output.iter().filter_map(file).collect();
    parser.files(&files, &mut events);
    let (mut summary, mut collection_errors) = (Summary::default(), 0);
    for event in &events {
        match event {
            RunnerEvent::TestStarted(_) => {}
            RunnerEvent::TestFinished(test) => summary.count(test.outcome),
            RunnerEvent::Collector(_) => collection_errors += 1,
        }
    }
    let stream = parser.summary();
    let facts = Facts {
        commands,
        exits: vec![Exit::Code(0); commands],
        summary,
        collection_errors,
        structured: stream.structured,
        proof: stream.proof,
        runner_missing: stream.runner_missing,
        running: parser.running(),
        unreached: stream.unreached,
        notes: stream.notes,
        ..Facts::default()
    };
    judge(facts).outcome
}

fn framework(name: &str) -> &'static dyn Framework {
    *FRAMEWORKS.iter().find(|framework| framework.name() == name).unwrap()
}

#[test]
fn no_run_passes_without_the_proof_of_its_adapter() {
    for recording in RECORDINGS {
        let name = recording.framework;
        assert_eq!(outcome(recording, str::to_owned), Outcome::Passed, "{name}");
        for (text, instead) in recording.without {
            let is_there = recording.output.iter().any(|(_, output)| output.contains(text));
            let outcome = outcome(recording, |output| output.replace(text, instead));
            assert!(is_there && outcome != Outcome::Passed, "{name} without {text:?}: {outcome:?}");
        }
    }
}

#[test]
fn every_adapter_has_a_recording_and_documents_its_proof() {
    let readme = include_str!("../README.md");
    for framework in FRAMEWORKS {
        let (name, proof) = (framework.name(), framework.manifest().proof);
        assert!(RECORDINGS.iter().any(|recording| recording.framework == name), "{name} has no recording");
        let row = readme.lines().find(|line| line.eq_ignore_ascii_case(&format!("| `{name}` | {proof} |")));
        assert!(row.is_some(), "README's table of proofs lacks {name}: {proof}");
    }
}

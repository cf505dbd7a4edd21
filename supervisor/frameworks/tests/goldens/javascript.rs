//! Recordings of the JavaScript adapters.

use crate::recording::{Channel, Killed, Output, Recordings, Replay, Run};
use crate::render::{self, BRIEF, Detail, Style};
use proctor_core::outcome::Exit;
use proctor_frameworks::Framework;
use proctor_frameworks::runners::cypress::Cypress;
use proctor_frameworks::runners::jest::Jest;
use proctor_frameworks::runners::mocha::Mocha;
use proctor_frameworks::runners::node_test::NodeTest;
use proctor_frameworks::runners::playwright::Playwright;
use proctor_frameworks::runners::script::Script;
use proctor_frameworks::runners::vitest::Vitest;

const STYLE: Style = Style { shows_file_alone: true, stack: Detail::Whole, output: Detail::Omitted, ..BRIEF };

fn render(replay: &Replay) -> String {
    format!("{}{:?}\n", STYLE.render(&replay.events), replay.summary)
}

const fn javascript(framework: &'static dyn Framework) -> Recordings {
    Recordings { render, ..Recordings::of(framework) }
}

/// Cypress prints its number of specs.
fn print_specs(output: &mut Output) {
    let [(Channel::Report, report)] = &output.channels[..] else { return };
    let is_opened = |line: &&[u8]| line.starts_with(br#"{"event":"opened""#);
    let specs = report.split(|byte| *byte == b'\n').filter(is_opened).count();
    output.channels.insert(0, (Channel::Stdout, format!("  Specs:  {specs} found (...)\n").into_bytes()));
}

pub(crate) static CYPRESS: Recordings = Recordings {
    complete: |_, output| print_specs(output),
    proof: &[
        (r#"{"event":"end","#, r#"{"event":"note","text":"x","#),
        (r#","left":0}"#, "}"),
        (r#""end","tests":"#, r#""end","tests":1"#),
        (r#""left":0"#, r#""left":1"#),
        ("Specs:", "Spec:"),
        ("2 found", "3 found"),
        (r#"{"event":"closed","package":"cypress/e2e/sum.cy.js"}"#, ""),
    ],
    runs: &[(0, "crash pass skip"), (1, "collection flaky"), (2, "unicode"), (3, "error fail")],
    killed: &[Killed {
        name: "hang-killed",
        passed: "cypress/e2e/hang.cy.js > ends",
        running: ("cypress/e2e/hang.cy.js", "hangs"),
    }],
    ..javascript(&Cypress)
};

pub(crate) static JEST: Recordings = Recordings {
    runs: &[
        (-6, "crash"),
        (0, "pass skip"),
        (
            1,
            "collection collection-jest24 error error-jest24 fail fail-jest24 fail-jest26 fail-jest28 typescript unicode",
        ),
    ],
    killed: &[Killed { name: "hang-killed", passed: "hang.test.js > ends", running: ("hang.test.js", "hangs") }],
    ..javascript(&Jest)
};

pub(crate) static MOCHA: Recordings = Recordings {
    runs: &[(0, "crash pass skip"), (2, "unicode"), (3, "error"), (6, "fail fail-mocha6")],
    killed: &[Killed {
        name: "hang-killed",
        passed: "test/hang.spec.js > ends",
        running: ("test/hang.spec.js", "hangs"),
    }],
    ..javascript(&Mocha)
};

pub(crate) static NODE: Recordings = Recordings {
    runs: &[
        (0, "pass skip skip-node22 vanishes-node18"),
        (
            1,
            "collection collection-node18 collection-node22 crash error error-node22 fail fail-node18 fail-node20 fail-node22 fail-node26 unicode",
        ),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "test/hang.test.js > ends",
        running: ("test/hang.test.js", "hangs"),
    }],
    ..javascript(&NodeTest)
};

pub(crate) static PLAYWRIGHT: Recordings = Recordings {
    runs: &[(0, "pass skip"), (1, "collection crash error fail flaky setup unicode")],
    killed: &[Killed { name: "hang-killed", passed: "hang.spec.js > ends", running: ("hang.spec.js", "hangs") }],
    ..javascript(&Playwright)
};

pub(crate) static VITEST: Recordings = Recordings {
    runs: &[
        (0, "pass skip skip-vitest1"),
        (1, "collection crash crash-vitest2 error error-vitest1 fail fail-vitest1 unhandled unicode"),
    ],
    killed: &[
        Killed { name: "hang-killed", passed: "hang.test.js > ends", running: ("hang.test.js", "hangs") },
        Killed { name: "hang-killed-vitest1", passed: "hang.test.js > ends", running: ("hang.test.js", "hangs") },
    ],
    ..javascript(&Vitest)
};

/// A command that prints TAP. Its status is the proof of one that prints none.
pub(crate) static SCRIPT: Recordings = Recordings {
    channels: &[("out", Channel::Stdout)],
    unproven_bytes: |_| 0,
    render: render::whole,
    runs: &[(0, "pass")],
    proof: &[("1..2\n", ""), ("1..2\n", "1..3\n")],
    ..Recordings::of(&Script)
};

#[test]
fn a_line_that_a_kill_cut_is_no_test() {
    let stdout = b"TAP version 13\n1..12\nok 1 - a\nok 1";
    let replay = SCRIPT.replay(&Run::new(&[(Channel::Stdout, stdout)], Exit::Code(0)).killed());
    assert_eq!(replay.finished().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["a"]);
}

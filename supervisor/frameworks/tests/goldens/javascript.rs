//! Recordings of the JavaScript adapters.

use crate::recording::{Channel, Killed, Output, Recordings, Replay};
use crate::render::{BRIEF, Detail, Style};
use proctor_frameworks::Framework;
use proctor_frameworks::runners::cypress::Cypress;
use proctor_frameworks::runners::jest::Jest;
use proctor_frameworks::runners::mocha::Mocha;
use proctor_frameworks::runners::node_test::NodeTest;
use proctor_frameworks::runners::playwright::Playwright;
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
    runs: &[
        ("collection", 1),
        ("crash", 0),
        ("error", 3),
        ("fail", 3),
        ("flaky", 1),
        ("pass", 0),
        ("skip", 0),
        ("unicode", 2),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "cypress/e2e/hang.cy.js > ends",
        running: ("cypress/e2e/hang.cy.js", "hangs"),
    }],
    ..javascript(&Cypress)
};

pub(crate) static JEST: Recordings = Recordings {
    runs: &[
        ("collection", 1),
        ("collection-jest24", 1),
        ("crash", -6),
        ("error", 1),
        ("error-jest24", 1),
        ("fail", 1),
        ("fail-jest24", 1),
        ("fail-jest26", 1),
        ("fail-jest28", 1),
        ("pass", 0),
        ("skip", 0),
        ("typescript", 1),
        ("unicode", 1),
    ],
    killed: &[Killed { name: "hang-killed", passed: "hang.test.js > ends", running: ("hang.test.js", "hangs") }],
    ..javascript(&Jest)
};

pub(crate) static MOCHA: Recordings = Recordings {
    runs: &[("crash", 0), ("error", 3), ("fail", 6), ("fail-mocha6", 6), ("pass", 0), ("skip", 0), ("unicode", 2)],
    killed: &[Killed {
        name: "hang-killed",
        passed: "test/hang.spec.js > ends",
        running: ("test/hang.spec.js", "hangs"),
    }],
    ..javascript(&Mocha)
};

pub(crate) static NODE: Recordings = Recordings {
    runs: &[
        ("collection", 1),
        ("collection-node18", 1),
        ("collection-node22", 1),
        ("crash", 1),
        ("error", 1),
        ("error-node22", 1),
        ("fail", 1),
        ("fail-node18", 1),
        ("fail-node20", 1),
        ("fail-node22", 1),
        ("fail-node26", 1),
        ("pass", 0),
        ("skip", 0),
        ("skip-node22", 0),
        ("unicode", 1),
        ("vanishes-node18", 0),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "test/hang.test.js > ends",
        running: ("test/hang.test.js", "hangs"),
    }],
    ..javascript(&NodeTest)
};

pub(crate) static PLAYWRIGHT: Recordings = Recordings {
    runs: &[
        ("collection", 1),
        ("crash", 1),
        ("error", 1),
        ("fail", 1),
        ("flaky", 1),
        ("pass", 0),
        ("setup", 1),
        ("skip", 0),
        ("unicode", 1),
    ],
    killed: &[Killed { name: "hang-killed", passed: "hang.spec.js > ends", running: ("hang.spec.js", "hangs") }],
    ..javascript(&Playwright)
};

pub(crate) static VITEST: Recordings = Recordings {
    runs: &[
        ("collection", 1),
        ("crash", 1),
        ("crash-vitest2", 1),
        ("error", 1),
        ("error-vitest1", 1),
        ("fail", 1),
        ("fail-vitest1", 1),
        ("pass", 0),
        ("skip", 0),
        ("skip-vitest1", 0),
        ("unhandled", 1),
        ("unicode", 1),
    ],
    killed: &[
        Killed { name: "hang-killed", passed: "hang.test.js > ends", running: ("hang.test.js", "hangs") },
        Killed { name: "hang-killed-vitest1", passed: "hang.test.js > ends", running: ("hang.test.js", "hangs") },
    ],
    ..javascript(&Vitest)
};

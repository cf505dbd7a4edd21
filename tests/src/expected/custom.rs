//! What has to come of commands that tell their results in a form that many runners share.

use crate::row::{Ask, Case, Row};

const FIXTURE: &str = "custom/scripts";

const PASSED: Row = Row { framework: "custom", fixture: FIXTURE, ..Row::PASSED };
const FAILED: Row = Row { framework: "custom", fixture: FIXTURE, ..Row::FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "junit",
        ask: Ask { command: &["sh", "junit.sh"], ..Ask::ALL },
        tests: &[
            Case::passed("calc::adds"),
            Case::failed("calc::divides").at("calc.sh", 7).says("expected: <2> but was: <3>").wants("2", "3"),
            Case::skipped("calc::later").says("not today"),
        ],
        ..FAILED
    },
    Row {
        name: "junit_cut_off",
        ask: Ask { command: &["sh", "cut.sh"], ..Ask::ALL },
        raw_exit_code: Some(0),
        partial: true,
        tests: &[Case::passed("calc::adds")],
        ..FAILED
    },
    Row {
        name: "tap",
        ask: Ask { command: &["sh", "tap.sh"], ..Ask::ALL },
        tests: &[
            Case::passed("adds"),
            Case::passed("texts/same"),
            Case::failed("texts/other").at("text.sh", 3).says("texts differ").wants("one", "two"),
            Case::parent("texts"),
            Case::skipped("moon").says("too cloudy"),
            Case { outcome: "xfailed", ..Case::failed("later") }.says("not written yet"),
        ],
        ..FAILED
    },
    Row {
        name: "words",
        ask: Ask { command: &["sh", "words.sh"], ..Ask::ALL },
        structured: false,
        tests: &[Case::passed("adds"), Case::failed("divides"), Case::skipped("moon")],
        ..FAILED
    },
    Row {
        name: "words_of_a_command_that_exits_with_0",
        ask: Ask { command: &["sh", "words.sh", "0"], ..Ask::ALL },
        structured: false,
        tests: &[Case::passed("adds"), Case::skipped("moon")],
        ..PASSED
    },
    Row {
        name: "projectfile",
        fixture: "custom/projectfile",
        tests: &[
            Case::passed("calc::adds"),
            Case::failed("calc::divides").at("calc.sh", 7).says("expected: <2> but was: <3>").wants("2", "3"),
        ],
        ..FAILED
    },
];

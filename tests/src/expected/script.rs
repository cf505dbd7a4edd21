//! Expected results of test scripts that start no supported runner.

use crate::expectation::{Case, Row};

const PASSED: Row = Row { framework: "script", ..Row::PASSED };
const FAILED: Row = Row { framework: "script", ..Row::FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row { name: "pass", fixture: "script/pass", tests: &[Case::passed("adds")], ..PASSED },
    Row {
        name: "fail",
        fixture: "script/fail",
        tests: &[
            Case::passed("is at least 2"),
            Case::failed("Größe").with_message("zu groß"),
            Case::skipped("moon").with_message("too cloudy"),
            Case::passed("whole"),
        ],
        ..FAILED
    },
];

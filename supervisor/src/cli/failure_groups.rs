//! The failures of a run at a terminal, one block for each cause: the first failure in full, the names of the others.

use super::terminal_report::{FAILURES_SHOWN, collector_block, dim, failure_block};
use proctor_core::analysis::{Analysis, ErrorPattern};
use proctor_core::report::Report;
use proctor_core::test_case::{Collector, TestCase};
use proctor_proto::printable::{cut, line};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Names shown of the other failures of a cause.
const OTHERS_SHOWN: usize = 3;

/// Columns shown of such a name.
const NAME_COLUMNS: usize = 200;

/// Renders the failures by cause, the cause to look at first first, and consequences of other failures last.
pub(super) fn failure_groups(text: &mut String, report: &Report, analysis: &Analysis) {
    let failures = Failures::new(report);
    let root = analysis.root_cause.as_ref().and_then(|cause| cause.evidence.as_ref());
    let mut patterns: Vec<&ErrorPattern> = analysis.error_patterns.iter().collect();
    patterns.sort_by_key(|pattern| (pattern.is_consequence, Some(&pattern.evidence) != root));
    let mut shown = 0;
    let mut is_consequence = false;
    for pattern in patterns.iter().take(FAILURES_SHOWN) {
        if pattern.is_consequence && !is_consequence {
            text.push_str("These follow from the failures above:\n\n");
        }
        is_consequence = pattern.is_consequence;
        failures.block(text, &pattern.evidence.test);
        others(text, pattern);
        text.push('\n');
        shown += pattern.frequency;
    }
    let more = analysis.total.saturating_sub(shown);
    if more > 0 {
        let _ = writeln!(text, "… and {more} more: `proctor failures --limit 500`\n");
    }
}

/// Names of the failures that have the same cause as the one above.
fn others(text: &mut String, pattern: &ErrorPattern) {
    let others = pattern.frequency.saturating_sub(1);
    if others == 0 {
        return;
    }
    let _ = writeln!(text, "  {}", dim(&format!("the same ({}) in {others} more:", pattern.kind.title())));
    let names = pattern.test_names.iter().filter(|name| **name != pattern.evidence.test).take(OTHERS_SHOWN);
    let mut left = others;
    for name in names {
        let _ = writeln!(text, "    {}", cut(&line(name), NAME_COLUMNS));
        left -= 1;
    }
    if left > 0 {
        let _ = writeln!(text, "    … and {left} more");
    }
}

/// The failures of a report by name.
struct Failures<'a> {
    tests: HashMap<&'a str, &'a TestCase>,
    collectors: HashMap<&'a str, &'a Collector>,
}

impl<'a> Failures<'a> {
    fn new(report: &'a Report) -> Failures<'a> {
        let failed = report.tests.iter().rev().filter(|test| test.outcome.is_failure());
        Failures {
            tests: failed.map(|test| (test.nodeid.as_str(), test)).collect(),
            collectors: report.collectors.iter().rev().map(|one| (one.nodeid.as_str(), one)).collect(),
        }
    }

    fn block(&self, text: &mut String, name: &str) {
        match (self.collectors.get(name), self.tests.get(name)) {
            (Some(collector), _) => collector_block(text, collector),
            (None, Some(test)) => failure_block(text, test),
            (None, None) => {
                let _ = writeln!(text, "✗ {}", line(name));
            }
        }
    }
}

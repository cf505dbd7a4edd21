//! Compares the number of specs that Cypress found with the number of specs that ended.
//!
//! Cypress prints `Specs: 2 found (...)` before the first spec and `Running: a.cy.js (1 of 2)` before each
//! (`packages/server/lib/util/print-run.ts`). Tests run in a browser and print there only through tasks of the project. The
//! greatest number counts, so output of tests cannot make a run green.

use crate::contract::{Parser, StreamSummary};
use crate::formats::reporter_protocol::ReporterParser;
use crate::parsing::line_splitter::LineSplitter;
use crate::parsing::output_tail::strip_ansi;
use proctor_core::artifact::ArtifactKind;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::TestId;
use regex::Regex;
use std::sync::LazyLock;

static FOUND: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^[\s\u{2502}|]*(?:Specs:\s+(\d{1,9}) found\b|Running:\s.*\(\d+ of (\d{1,9})\)\s*$)").ok()
});

/// Parser of a run or a listing: the reporter protocol's, plus the count of specs.
pub(super) struct SpecCountParser {
    reported: ReporterParser,
    lines: LineSplitter,
    /// Number of specs that the current `cypress run` found: the greatest that it printed.
    found: u64,
}

impl SpecCountParser {
    pub(super) fn new(reported: ReporterParser) -> SpecCountParser {
        SpecCountParser { reported, lines: LineSplitter::default(), found: 0 }
    }

    fn parse_line(&mut self, line: &[u8]) {
        let line = strip_ansi(&String::from_utf8_lossy(line));
        let captures = FOUND.as_ref().and_then(|found| found.captures(&line));
        let number = captures.and_then(|found| found.get(1).or(found.get(2))?.as_str().parse().ok());
        self.found = self.found.max(number.unwrap_or(0));
    }

    fn count_specs(&mut self, feed: impl FnOnce(&mut LineSplitter, &mut dyn FnMut(&[u8]))) {
        let mut lines = std::mem::take(&mut self.lines);
        feed(&mut lines, &mut |line| self.parse_line(line));
        self.lines = lines;
    }
}

impl Parser for SpecCountParser {
    fn step_started(&mut self, step: usize) {
        self.found = 0;
        self.reported.step_started(step);
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.count_specs(|lines, line| lines.feed(bytes, line));
        self.reported.stdout(bytes, events);
    }

    fn stderr(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.reported.stderr(bytes, events);
    }

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.reported.report(bytes, events);
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        self.count_specs(|lines, line| lines.finish(line));
        self.reported.step_ended(exit, killed, events);
        let (found, ended) = (self.found, self.reported.closed_files());
        if !killed && found != ended {
            self.reported.invalidate_proof(format!("Cypress found {found} spec(s), and {ended} ended"));
        }
    }

    fn nothing_selected(&self) -> bool {
        self.reported.nothing_selected()
    }

    fn artifact_source(&self, path: &str) -> Option<(ArtifactKind, TestId)> {
        self.reported.artifact_source(path)
    }

    fn flaky(&self) -> u64 {
        self.reported.flaky()
    }

    fn running(&self) -> Vec<TestId> {
        self.reported.running()
    }

    fn summary(&self) -> StreamSummary {
        self.reported.summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Plan, PlanRequest};
    use crate::runners::cypress::PROFILE;
    use proctor_core::request::Selection;

    fn found(printed: &str) -> u64 {
        let reported = ReporterParser::new(PROFILE, &Plan::default(), &PlanRequest::plain(&Selection::All));
        let mut count = SpecCountParser::new(reported);
        count.stdout(printed.as_bytes(), &mut Vec::new());
        count.found
    }

    #[test]
    fn reads_the_number_of_specs_in_both_formats() {
        let line = "  \u{2502} Specs:          2 found (a.cy.js, b.cy.js)                \u{2502}\n";
        for (printed, number) in [
            (line, 2),
            ("  Specs: 12 found (a.cy.js)\n", 12),
            ("  Running:  a (1 of 2).cy.js                              (1 of 3) \n", 3),
            ("\u{1b}[90m  Running:\u{1b}[39m  a.cy.js      \u{1b}[90m(2 of 4)\u{1b}[39m\n", 4),
            ("  Running:  a.cy.js\n", 0),
            ("  1 of 3 failed (33%)\n", 0),
            ("  Specs: 3 found (a)\n  Specs: 1 found (a)\n", 3),
        ] {
            assert_eq!(found(printed), number, "{printed}");
        }
    }
}

//! What is printed: the survivors first, as the list of the next tests to write, then what became of the others.

use super::baseline::Baseline;
use super::campaign::MutantResult;
use super::candidates::{Candidate, Candidates};
use super::verdict::Verdict;
use crate::cli::{CANCELLED, HOST};
use crate::workspace::Workspace;
use proctor_core::bounds::clip;
use proctor_core::test_case::TestId;
use proctor_proto::printable::line;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Exit status if a mutant survived.
const SURVIVORS: u8 = 1;

/// Most bytes of a source line that are shown.
const LINE_BYTES_MAX: usize = 120;

/// Most names of tests behind a survivor.
const NAMES_MAX: usize = 3;

/// Most mutants that are listed for a person, of those that only count.
const LISTED_MAX: usize = 20;

/// A mutant and its result.
pub(super) struct Judged {
    pub(super) candidate: Candidate,
    pub(super) result: MutantResult,
}

/// All results.
pub(super) struct MutationReport {
    framework: String,
    judged: Vec<Judged>,
    /// Mutants that were not run because of a signal.
    unfinished: usize,
    left_out: usize,
    without_tests: usize,
    passed: usize,
    suite_s: f64,
    scope: String,
    is_confirmed: bool,
    notes: Vec<String>,
}

impl MutationReport {
    /// Puts the results together. Reads the mutated files again: a result of a file that was edited meanwhile says nothing.
    pub(super) fn new(
        workspace: &Workspace,
        baseline: &Baseline,
        candidates: Candidates,
        results: Vec<Option<MutantResult>>,
        is_confirmed: bool,
    ) -> MutationReport {
        let total = results.len();
        let texts: BTreeMap<&str, &str> =
            candidates.chosen.iter().map(|candidate| (candidate.file.as_str(), &*candidate.text)).collect();
        let is_edited =
            |(file, text): (&str, &str)| workspace.source_text(file).is_none_or(|(_, source)| source != text);
        let edited: BTreeSet<String> =
            texts.into_iter().filter(|entry| is_edited(*entry)).map(|(file, _)| file.to_owned()).collect();
        let judge = |(candidate, result): (Candidate, Option<MutantResult>)| {
            let mut result = result.filter(|result| result.verdict != Verdict::NotRun("cancelled".to_owned()))?;
            if edited.contains(&candidate.file) {
                result.verdict = Verdict::NotRun("the file was edited meanwhile".to_owned());
            }
            Some(Judged { candidate, result })
        };
        let judged: Vec<Judged> = candidates.chosen.into_iter().zip(results).filter_map(judge).collect();
        MutationReport {
            framework: baseline.framework.clone(),
            unfinished: total - judged.len(),
            judged,
            left_out: candidates.left_out,
            without_tests: candidates.without_tests,
            passed: baseline.passed,
            suite_s: baseline.suite_s,
            scope: candidates.scope,
            is_confirmed,
            notes: baseline.notes.clone(),
        }
    }

    /// Exit status: 130 if it was cancelled, 1 if a mutant survived, 5 if some could not be run, else 0.
    pub(super) fn exit_status(&self) -> u8 {
        let has_not_run = self.judged.iter().any(|judged| matches!(judged.result.verdict, Verdict::NotRun(_)));
        match self.score() {
            _ if self.unfinished > 0 => CANCELLED,
            Some(_) if self.survived() > 0 => SURVIVORS,
            _ if has_not_run => HOST,
            _ => 0,
        }
    }

    fn survived(&self) -> usize {
        self.judged.iter().filter(|judged| judged.result.verdict == Verdict::Survived).count()
    }

    fn noticed(&self) -> usize {
        self.judged.iter().filter(|judged| judged.result.verdict.is_noticed() == Some(true)).count()
    }

    /// Noticed mutants in a hundred of those that count; `None` if none counts.
    fn score(&self) -> Option<f64> {
        let counted = self.noticed() + self.survived();
        (counted > 0).then(|| 100.0 * self.noticed() as f64 / counted as f64)
    }

    fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for judged in &self.judged {
            *counts.entry(judged.result.verdict.name()).or_default() += 1;
        }
        counts
    }

    fn median_s(&self) -> f64 {
        let mut seconds: Vec<f64> = self.judged.iter().map(|judged| judged.result.duration_s).collect();
        seconds.sort_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
    }

    /// The report for a person.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let survivors = self.judged.iter().filter(|judged| judged.result.verdict == Verdict::Survived);
        for judged in survivors {
            let _ = writeln!(text, "{}", survivor(judged));
        }
        let misses: Vec<&Judged> = self.judged.iter().filter(|judged| judged.result.by_suite_only).collect();
        for judged in &misses {
            let _ = writeln!(text, "noticed only by tests that do not execute the line: {}", changed(judged));
        }
        let not_run = |judged: &&Judged| matches!(judged.result.verdict, Verdict::NotRun(_));
        for judged in self.judged.iter().filter(not_run).take(LISTED_MAX) {
            if let Verdict::NotRun(why) = &judged.result.verdict {
                let _ = writeln!(text, "not run: {}: {}", changed(judged), line(why));
            }
        }
        if !text.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {}", line(note));
        }
        let counts = self.counts().into_iter().map(|(name, count)| format!("{count} {}", name.replace('_', " ")));
        let counts: Vec<String> = counts.collect();
        let score = self.score().map_or_else(|| "no mutant counts".to_owned(), |score| format!("score {score:.0} %"));
        let _ = writeln!(
            text,
            "{score}: {} mutants of {} ({}): {}",
            self.judged.len(),
            self.scope,
            self.framework,
            counts.join(", ")
        );
        let _ = writeln!(
            text,
            "each took {:.1} s (median), the whole suite {:.1} s ({} tests)",
            self.median_s(),
            self.suite_s,
            self.passed
        );
        if self.left_out > 0 {
            let _ = writeln!(
                text,
                "{} further mutants were left out, evenly over the lines: --max runs more",
                self.left_out
            );
        }
        if self.without_tests > 0 {
            let _ = writeln!(text, "{} mutants are on lines that only failing tests execute", self.without_tests);
        }
        if self.unfinished > 0 {
            let _ = writeln!(text, "cancelled: {} mutants were not run", self.unfinished);
        }
        text
    }

    /// The report for a program.
    pub(super) fn document(&self) -> serde_json::Value {
        let mutant = |judged: &Judged| {
            let (before, after) = judged.candidate.mutant.lines(&judged.candidate.text);
            let (killed_by, why) = match &judged.result.verdict {
                Verdict::Killed { by } => (by.iter().map(TestId::full_name).collect(), None),
                Verdict::NotRun(why) => (Vec::new(), Some(why)),
                _ => (Vec::new(), None),
            };
            let tests: Vec<String> = judged.candidate.tests.iter().take(NAMES_MAX).map(TestId::full_name).collect();
            json!({
                "file": judged.candidate.file, "line": judged.candidate.mutant.line,
                "operator": judged.candidate.mutant.operator.name(), "before": before, "after": after,
                "verdict": judged.result.verdict.name(), "killed_by": killed_by, "reason": why,
                "tests": judged.result.tests, "some_tests": tests,
                "noticed_by_suite_only": judged.result.by_suite_only, "duration_s": judged.result.duration_s,
            })
        };
        let is_survivor = |judged: &&Judged| judged.result.verdict == Verdict::Survived;
        json!({
            "framework": self.framework, "scope": self.scope, "score": self.score(), "counts": self.counts(),
            "survivors": self.judged.iter().filter(is_survivor).map(mutant).collect::<Vec<_>>(),
            "mutants": self.judged.iter().map(mutant).collect::<Vec<_>>(),
            "left_out": self.left_out, "without_sound_tests": self.without_tests, "unfinished": self.unfinished,
            "confirmed": self.is_confirmed, "suite_s": self.suite_s, "suite_tests": self.passed,
            "median_s": self.median_s(), "notes": self.notes,
        })
    }
}

/// ``file:line: `a < b` became `a <= b` ``.
fn changed(judged: &Judged) -> String {
    let Candidate { file, mutant, text, .. } = &judged.candidate;
    let (before, after) = mutant.lines(text);
    let [before, after] = [before, after].map(|shown| clip(shown, LINE_BYTES_MAX));
    format!("{}:{}: `{}` became `{}`", line(file), mutant.line, line(&before), line(&after))
}

fn survivor(judged: &Judged) -> String {
    let tests = &judged.candidate.tests;
    let names: Vec<String> = tests.iter().take(NAMES_MAX).map(|test| line(&test.full_name()).into_owned()).collect();
    let more = if tests.len() > NAMES_MAX { ", ..." } else { "" };
    format!("{}, executed by {} test(s) and none failed: {}{more}", changed(judged), tests.len(), names.join(", "))
}

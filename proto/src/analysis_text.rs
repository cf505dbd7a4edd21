//! The text form of a failure analysis, the same for agents and people.

use crate::printable::{block, line};
use crate::text::outcome_name;
use crate::v1::{AnalyzeFailuresResponse, ChangedFiles, Confidence, ErrorPattern, FailurePlace, Suspect, Suspects};
use std::fmt::Write as _;

/// Name of a confidence.
#[must_use]
pub fn confidence_name(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Unspecified => "unknown",
        Confidence::Possible => "possible",
        Confidence::Likely => "likely",
        Confidence::Certain => "certain",
    }
}

/// `file:line`, or the file if the line is unknown; empty without a file.
#[must_use]
pub fn location(place: &FailurePlace) -> String {
    let Some(file) = &place.file else { return String::new() };
    place.line.map_or_else(|| line(file).into_owned(), |number| format!("{}:{number}", line(file)))
}

/// The analysis as text: the root cause first, then suggestions, patterns and files.
#[must_use]
pub fn analysis(answer: &AnalyzeFailuresResponse) -> String {
    let outcome = outcome_name(answer.outcome());
    let mut text =
        format!("{outcome}: {} failure(s), {} pattern(s) ({})\n", answer.total, patterns(answer), answer.framework);
    if let Some(cause) = &answer.root_cause {
        let _ = writeln!(text, "look first ({}): {}", confidence_name(cause.confidence()), line(&cause.statement));
        write_evidence(&mut text, cause.evidence.as_ref());
    }
    for cause in &answer.further_causes {
        let _ = writeln!(text, "also ({}): {}", confidence_name(cause.confidence()), line(&cause.statement));
        write_evidence(&mut text, cause.evidence.as_ref());
    }
    if let Some(suspects) = &answer.suspects {
        write_suspects(&mut text, suspects);
    }
    answer.notes.iter().for_each(|note| {
        let _ = writeln!(text, "note: {}", line(note));
    });
    if !answer.suggestions.is_empty() {
        text.push_str("suggestions:\n");
    }
    for suggestion in &answer.suggestions {
        let at = suggestion.evidence.as_ref().map(location).filter(|at| !at.is_empty());
        let at = at.map(|at| format!("{at}: ")).unwrap_or_default();
        let _ = writeln!(text, "- {at}{} ({})", line(&suggestion.text), confidence_name(suggestion.confidence()));
    }
    if !answer.error_patterns.is_empty() {
        text.push_str("patterns:\n");
    }
    answer.error_patterns.iter().for_each(|pattern| write_pattern(&mut text, pattern));
    if answer.patterns_left_out > 0 {
        let _ = writeln!(text, "({} more patterns)", answer.patterns_left_out);
    }
    if !answer.affected_files.is_empty() {
        text.push_str("files:\n");
    }
    for file in &answer.affected_files {
        let state = match (file.is_missing, file.is_edited) {
            (true, _) => ", not in the workspace now",
            (false, true) => ", edited since the run began",
            (false, false) => "",
        };
        let _ = writeln!(text, "- {} ({} failure(s){state})", line(&file.path), file.failures);
    }
    if let Some(changed) = &answer.changed_files {
        write_changed_files(&mut text, changed);
    }
    if !answer.failed_tests.is_empty() {
        text.push_str("failed tests:\n");
    }
    for failed in &answer.failed_tests {
        let Some(place) = &failed.place else { continue };
        let at = Some(location(place)).filter(|at| !at.is_empty()).map(|at| format!(" at {at}")).unwrap_or_default();
        let _ = writeln!(text, "- {}{at} ({})", line(&place.test), failed.r#type);
    }
    text
}

/// `file:line`, or `file:first-last`.
#[must_use]
pub fn suspect_lines(suspect: &Suspect) -> String {
    let path = line(&suspect.path);
    if suspect.first_line == suspect.last_line {
        return format!("{path}:{}", suspect.first_line);
    }
    format!("{path}:{}-{}", suspect.first_line, suspect.last_line)
}

fn write_suspects(text: &mut String, suspects: &Suspects) {
    let _ = writeln!(
        text,
        "suspect lines ({} failed and {} passed tests were measured, {}):",
        suspects.failed_tests, suspects.passed_tests, suspects.measure
    );
    for suspect in &suspects.lines {
        let mut of = format!("executed by {} failed and {} passed", suspect.failed, suspect.passed);
        if suspect.in_stacks > 0 {
            let _ = write!(of, ", innermost in {} stack(s)", suspect.in_stacks);
        }
        if suspect.is_edited {
            of.push_str(", edited since the run began");
        }
        let function =
            if suspect.function.is_empty() { String::new() } else { format!(" {}", line(&suspect.function)) };
        let source = if suspect.source.is_empty() { String::new() } else { format!(": {}", line(&suspect.source)) };
        let _ = writeln!(text, "- {}{function} ({of}){source}", suspect_lines(suspect));
    }
}

fn write_changed_files(text: &mut String, changed: &ChangedFiles) {
    let _ = writeln!(text, "changed since {}:", line(&changed.since));
    for file in &changed.files {
        let mut why = Vec::new();
        why.extend((file.in_stacks > 0).then(|| format!("in {} stack(s)", file.in_stacks)));
        why.extend(file.is_covered.then(|| "executed by a failing test".to_owned()));
        why.extend(file.is_imported.then(|| "named in an import of a failing test's file".to_owned()));
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join(", ")) };
        let _ = writeln!(text, "- {} ({}{why})", line(&file.path), file.change);
    }
    if changed.files.is_empty() && changed.notes.is_empty() {
        text.push_str("  no file\n");
    }
    if changed.left_out > 0 {
        let _ = writeln!(text, "({} more changed files)", changed.left_out);
    }
    changed.notes.iter().for_each(|note| {
        let _ = writeln!(text, "note: {}", line(note));
    });
}

fn patterns(answer: &AnalyzeFailuresResponse) -> u64 {
    answer.error_patterns.len() as u64 + answer.patterns_left_out
}

fn write_evidence(text: &mut String, evidence: Option<&FailurePlace>) {
    let Some(evidence) = evidence else { return };
    let at = Some(location(evidence)).filter(|at| !at.is_empty()).map(|at| format!(" at {at}")).unwrap_or_default();
    let _ = writeln!(text, "  seen in {}{at}", line(&evidence.test));
}

fn write_pattern(text: &mut String, pattern: &ErrorPattern) {
    let at = pattern.evidence.as_ref().map(location).filter(|at| !at.is_empty());
    let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
    let follows = if pattern.is_consequence { ", follows from another failure" } else { "" };
    let _ = writeln!(
        text,
        "- {} x {}{at} ({}{follows})",
        pattern.frequency,
        pattern.r#type,
        confidence_name(pattern.confidence())
    );
    block(&pattern.message).lines().for_each(|message| {
        let _ = writeln!(text, "    {message}");
    });
    let names: Vec<_> = pattern.test_names.iter().map(|name| line(name)).collect();
    let more = pattern.frequency.saturating_sub(names.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let _ = writeln!(text, "    in {}{more}", names.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{AffectedFile, Outcome, RootCause, Suggestion};

    #[test]
    fn the_root_cause_comes_first_and_hostile_names_stay_on_their_line() {
        let place = FailurePlace { test: "test_a\nforged".into(), file: Some("shop.py".into()), line: Some(5) };
        let pattern = ErrorPattern {
            r#type: "null_dereference".into(),
            message: "AttributeError: x\nsecond line".into(),
            frequency: 5,
            test_names: vec!["a".into(), "b".into(), "c".into(), "d".into()],
            evidence: Some(place.clone()),
            confidence: Confidence::Likely.into(),
            ..Default::default()
        };
        let answer = AnalyzeFailuresResponse {
            framework: "pytest".into(),
            outcome: Outcome::Failed.into(),
            total: 5,
            root_cause: Some(RootCause {
                statement: "all 5 failures agree".into(),
                confidence: Confidence::Likely.into(),
                evidence: Some(place.clone()),
                ..Default::default()
            }),
            suggestions: vec![Suggestion {
                text: "check it".into(),
                confidence: Confidence::Likely.into(),
                evidence: Some(place),
            }],
            error_patterns: vec![pattern],
            further_causes: vec![RootCause {
                statement: "1 of 5 failures could not reach a host".into(),
                confidence: Confidence::Possible.into(),
                ..Default::default()
            }],
            affected_files: vec![
                AffectedFile { path: "shop.py".into(), failures: 5, is_edited: true, ..Default::default() },
                AffectedFile { path: "gone.py".into(), failures: 1, is_missing: true, ..Default::default() },
            ],
            ..Default::default()
        };
        let text = analysis(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "failed: 5 failure(s), 1 pattern(s) (pytest)");
        assert_eq!(lines[1], "look first (likely): all 5 failures agree");
        assert!(lines[2].starts_with("  seen in test_a") && lines[2].ends_with("forged at shop.py:5"), "{text}");
        assert_eq!(lines[3], "also (possible): 1 of 5 failures could not reach a host");
        assert_eq!(&lines[4..6], ["suggestions:", "- shop.py:5: check it (likely)"]);
        assert_eq!(lines[7], "- 5 x null_dereference at shop.py:5 (likely)");
        assert_eq!(
            &lines[8..],
            [
                "    AttributeError: x",
                "    second line",
                "    in a, b, c, d and 1 more",
                "files:",
                "- shop.py (5 failure(s), edited since the run began)",
                "- gone.py (1 failure(s), not in the workspace now)",
            ]
        );
    }

    #[test]
    fn suspect_lines_say_by_which_tests() {
        let suspects = Suspects {
            measure: "op2".into(),
            failed_tests: 2,
            passed_tests: 9,
            lines: vec![
                Suspect {
                    path: "shop.py".into(),
                    first_line: 3,
                    last_line: 4,
                    function: "price".into(),
                    source: "return x\nforged".into(),
                    failed: 2,
                    passed: 1,
                    in_stacks: 2,
                    ..Default::default()
                },
                Suspect {
                    path: "b.py".into(),
                    first_line: 1,
                    last_line: 1,
                    failed: 1,
                    is_edited: true,
                    ..Default::default()
                },
            ],
        };
        let text = analysis(&AnalyzeFailuresResponse { suspects: Some(suspects), ..Default::default() });
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines[0], "suspect lines (2 failed and 9 passed tests were measured, op2):");
        let first = "- shop.py:3-4 price (executed by 2 failed and 1 passed, innermost in 2 stack(s)): return x";
        assert!(lines[1].starts_with(first) && lines[1].ends_with("forged"), "{text}");
        assert_eq!(lines[2..], ["- b.py:1 (executed by 1 failed and 0 passed, edited since the run began)"]);
    }
}

//! Conversion of a failure analysis to its wire form.

use super::convert;
use proctor_core::analysis::{
    Analysis, ChangedFile, ChangedFiles, Confidence, ErrorPattern, FailureLocation, RootCause, Suggestion, Suspect,
    Suspects,
};
use proctor_core::report::Report;
use proctor_core::test_case::TestId;
use proctor_proto::{text, v1};

/// The analysis of the run `run_id`, with a note of how its `report` differs from the runs before it.
#[must_use]
pub fn analysis(run_id: String, mut analysis: Analysis, report: &Report) -> v1::AnalyzeFailuresResponse {
    analysis.notes.extend(changes_note(report));
    v1::AnalyzeFailuresResponse {
        run_id,
        framework: analysis.framework,
        outcome: convert::outcome(analysis.outcome).into(),
        total: analysis.total,
        analyzed: analysis.analyzed,
        root_cause: analysis.root_cause.map(root_cause),
        further_causes: analysis.further_causes.into_iter().map(root_cause).collect(),
        changed_files: analysis.changed_files.map(changed_files),
        suspects: analysis.suspects.map(suspects),
        notes: analysis.notes,
        error_patterns: analysis.error_patterns.into_iter().map(error_pattern).collect(),
        patterns_left_out: analysis.patterns_left_out,
        suggestions: analysis.suggestions.into_iter().map(suggestion).collect(),
        affected_files: analysis
            .affected_files
            .into_iter()
            .map(|file| v1::AffectedFile {
                path: file.path,
                failures: file.failures,
                is_place: file.is_place,
                is_edited: file.is_edited,
                is_missing: file.is_missing,
            })
            .collect(),
        failed_tests: analysis
            .failed_tests
            .into_iter()
            .map(|failed| v1::FailedTest { place: Some(place(failed.location)), r#type: failed.kind.name().to_owned() })
            .collect(),
    }
}

/// How a run differs from the runs before it, in words; `None` if it was compared with none.
#[must_use]
pub fn changes_note(report: &Report) -> Option<String> {
    let since = report.since_last_run.as_ref().map(convert::since_last_run);
    let green = report.since_last_green.as_ref().map(convert::since_last_green);
    text::changes(since.as_ref(), green.as_ref()).map(|changes| text::changes_note(&changes))
}

fn changed_files(changed: ChangedFiles) -> v1::ChangedFiles {
    let file = |file: ChangedFile| v1::ChangedFile {
        path: file.path,
        change: file.change.name().to_owned(),
        in_stacks: file.in_stacks,
        is_covered: file.is_covered,
        is_imported: file.is_imported,
    };
    v1::ChangedFiles {
        since: changed.since,
        files: changed.files.into_iter().map(file).collect(),
        left_out: changed.left_out,
        notes: changed.notes,
    }
}

fn suspects(suspects: Suspects) -> v1::Suspects {
    let suspect = |one: Suspect| v1::Suspect {
        path: one.path,
        first_line: one.first_line,
        last_line: one.last_line,
        function: one.function.unwrap_or_default(),
        source: one.source.unwrap_or_default(),
        failed: one.failed,
        passed: one.passed,
        failed_tests: one.failed_tests.iter().map(TestId::full_name).collect(),
        passed_tests: one.passed_tests.iter().map(TestId::full_name).collect(),
        in_stacks: one.in_stacks,
        is_edited: one.is_edited,
    };
    v1::Suspects {
        measure: suspects.measure.name().to_owned(),
        failed_tests: suspects.failed_tests,
        passed_tests: suspects.passed_tests,
        lines: suspects.lines.into_iter().map(suspect).collect(),
    }
}

fn root_cause(cause: RootCause) -> v1::RootCause {
    v1::RootCause {
        r#type: cause.kind.map_or_else(String::new, |kind| kind.name().to_owned()),
        statement: cause.statement,
        confidence: confidence(cause.confidence).into(),
        evidence: cause.evidence.map(place),
        failures: cause.failures,
        suggestion: cause.suggestion.unwrap_or_default(),
        is_sandbox: cause.is_sandbox,
    }
}

fn error_pattern(pattern: ErrorPattern) -> v1::ErrorPattern {
    v1::ErrorPattern {
        r#type: pattern.kind.name().to_owned(),
        message: pattern.message,
        frequency: pattern.frequency,
        test_names: pattern.test_names,
        evidence: Some(place(pattern.evidence)),
        confidence: confidence(pattern.confidence).into(),
        suggestion: pattern.suggestion.unwrap_or_default(),
        is_consequence: pattern.is_consequence,
    }
}

fn suggestion(suggestion: Suggestion) -> v1::Suggestion {
    v1::Suggestion {
        text: suggestion.text,
        confidence: confidence(suggestion.confidence).into(),
        evidence: suggestion.evidence.map(place),
    }
}

fn place(place: FailureLocation) -> v1::FailurePlace {
    v1::FailurePlace { test: place.test, file: place.file, line: place.line }
}

fn confidence(confidence: Confidence) -> v1::Confidence {
    match confidence {
        Confidence::Possible => v1::Confidence::Possible,
        Confidence::Likely => v1::Confidence::Likely,
        Confidence::Certain => v1::Confidence::Certain,
    }
}

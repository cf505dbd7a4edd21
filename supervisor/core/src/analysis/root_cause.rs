//! Where to look first: the sandbox, then what did not build or load, then the failure that most others agree with, then a function
//! that most stacks have in common.

use super::analyzed_failure::AnalyzedFailure;
use super::clusters::Cluster;
use super::failure_kind::FailureKind;
use super::sandbox_causes::{self, Suspect};
use super::{Confidence, FailureLocation, RootCause};
use crate::report::Report;
use crate::test_case::CollectorKind;
use std::collections::{HashMap, HashSet};

/// Most bytes of a message within a sentence.
const MESSAGE_BYTES: usize = 300;

/// Fewest failures that a function in common says something about.
const COMMON_FUNCTION_MIN: usize = 3;

/// What was found.
pub(super) struct Causes {
    /// The causes, the first to look at first.
    pub(super) found: Vec<RootCause>,
    pub(super) notes: Vec<String>,
}

pub(super) fn causes(report: &Report, failed: &[AnalyzedFailure<'_>], clusters: &[Cluster]) -> Causes {
    let suspects: Vec<Suspect<'_>> = clusters
        .iter()
        .flat_map(|cluster| cluster.members.iter().map(|at| (&cluster.class, failed[*at])))
        .filter(|(class, _)| {
            matches!(
                class.kind,
                FailureKind::NetworkRefused | FailureKind::PermissionDenied | FailureKind::MissingDependency
            )
        })
        .map(|(class, failed)| Suspect {
            kind: class.kind,
            confidence: class.confidence,
            message: failed.message,
            place: failed.location(),
        })
        .collect();
    let mut found = sandbox_causes::causes(report, &suspects, failed.len());
    let mut notes = Vec::new();
    let own: Vec<&Cluster> = clusters.iter().filter(|cluster| !cluster.is_consequence).collect();
    let of_code = not_built(report, failed, &own).or_else(|| agreement(failed, &own, clusters));
    match of_code.or_else(|| common_function(failed)) {
        Some(cause) => found.push(cause),
        None if failed.is_empty() && found.is_empty() => notes.push(without_failures(report)),
        None if !failed.is_empty() => notes.push(format!(
            "the {} failures have {} different messages or places: the run shows no cause that most of them have in common",
            failed.len(),
            own.len()
        )),
        None => {}
    }
    if report.evidence.unreached {
        notes.push("tests that had not begun did not run, and may fail too".to_owned());
    }
    Causes { found, notes }
}

fn without_failures(report: &Report) -> String {
    if report.outcome == crate::outcome::Outcome::Passed {
        "the run passed: there is nothing to analyse".to_owned()
    } else {
        format!("the run ended as {} and names no failure: its output may say more", report.outcome.name())
    }
}

// Packages that others need come first: what was not built because of them follows from them.
fn not_built(report: &Report, failed: &[AnalyzedFailure<'_>], own: &[&Cluster]) -> Option<RootCause> {
    let builds = |cluster: &&&Cluster| failed[cluster.members[0]].collector == Some(CollectorKind::Build);
    let mut built = own.iter().filter(builds);
    let first = built.next()?;
    let more: usize = own.iter().filter(builds).map(|cluster| cluster.members.len()).sum();
    let one = failed[first.members[0]];
    let same_file = own.iter().filter(builds).all(|cluster| failed[cluster.members[0]].file == one.file);
    // Several errors in different files: the compiler names no first one.
    if more > first.members.len() && !same_file {
        return None;
    }
    let dependents = report.evidence.not_built.len();
    let follows = match dependents {
        0 => String::new(),
        1 => format!("; {}, which depends on it, was not built either", report.evidence.not_built[0]),
        count => format!("; {count} packages that depend on it were not built either"),
    };
    Some(RootCause {
        kind: Some(first.class.kind),
        statement: format!("{} does not build: {}{follows}", subject(&one.location()), message(&one)),
        confidence: Confidence::Certain,
        evidence: Some(one.location()),
        failures: (more + dependents) as u64,
        suggestion: first.class.suggestion.clone(),
        is_sandbox: false,
    })
}

// The file, since that is what to open; the package if no file is known.
fn subject(place: &FailureLocation) -> String {
    place.file_and_line().unwrap_or_else(|| place.test.clone())
}

fn message(failed: &AnalyzedFailure<'_>) -> String {
    let mut lines = failed.message.lines();
    // Go lists the packages of a cycle before it says that they are one.
    let text = lines.clone().find(|line| line.contains("import cycle not allowed"));
    let text = text.or_else(|| lines.find(|line| !line.trim().is_empty())).unwrap_or("without a message").trim();
    match text.len() > MESSAGE_BYTES {
        true => format!("{}…", &text[..text.floor_char_boundary(MESSAGE_BYTES)]),
        false => text.to_owned(),
    }
}

// One place and kind that most failures have. What fails to load or in a fixture fails everywhere with the same words at one place.
fn agreement(failed: &[AnalyzedFailure<'_>], own: &[&Cluster], all: &[Cluster]) -> Option<RootCause> {
    let mut at_place = HashMap::new();
    let key = |cluster: &Cluster| {
        let first = failed[cluster.members[0]];
        // Failures without a place agree only if they have the same message.
        let by_message = first.file.is_none().then_some(first.message);
        (cluster.class.kind, first.file, first.line, by_message)
    };
    own.iter().for_each(|cluster| *at_place.entry(key(cluster)).or_insert(0_usize) += cluster.members.len());
    let first = own.iter().max_by_key(|cluster| (at_place[&key(cluster)], std::cmp::Reverse(cluster.members[0])))?;
    let count = at_place[&key(first)];
    let consequences: usize =
        all.iter().filter(|cluster| cluster.is_consequence).map(|cluster| cluster.members.len()).sum();
    let others: usize = own.iter().map(|cluster| cluster.members.len()).sum::<usize>() - count;
    if count <= others {
        return None;
    }
    let one = failed[first.members[0]];
    let place = one.location();
    let at = place.file_and_line().map(|at| format!(" at {at}")).unwrap_or_default();
    let title = first.class.kind.title();
    let message = message(&one);
    let is_one_message = count == first.members.len();
    let agree = if is_one_message { "agree" } else { "agree in kind and place" };
    let how_many = match (count, others) {
        (1, 0) if failed.len() == 1 => "the only failure is".to_owned(),
        (1, 0) => "the failure from which the others follow is".to_owned(),
        (2, 0) if consequences == 0 => format!("both failures {agree}:"),
        (_, 0) if consequences == 0 => format!("all {count} failures {agree}:"),
        (_, 0) => format!("{count} failures, from which the others follow, {agree}:"),
        _ => format!("{count} of {} failures {agree}:", failed.len()),
    };
    let says = if is_one_message { "" } else { "; the first says" };
    let follows = match consequences {
        0 => String::new(),
        1 => "; 1 other failure follows from it".to_owned(),
        count => format!("; {count} other failures follow from it"),
    };
    let follows = if others == 0 && count == 1 { follows } else { String::new() };
    let is_loading = one.collector == Some(CollectorKind::Collection) && others == 0 && count > 1;
    let loaded = if is_loading { ", where each of them is loaded" } else { "" };
    Some(RootCause {
        kind: Some(first.class.kind),
        statement: format!("{how_many} {title}{at}{loaded}{says}: {message}{follows}"),
        confidence: if others == 0 { first.class.confidence } else { Confidence::Possible },
        evidence: Some(place),
        failures: (count + if others == 0 { consequences } else { 0 }) as u64,
        suggestion: first.class.suggestion.clone().or_else(|| outside(first)),
        is_sandbox: false,
    })
}

fn outside(cluster: &Cluster) -> Option<String> {
    let path = cluster.class.subject.as_deref().filter(|_| cluster.class.kind == FailureKind::FileNotFound)?;
    path.trim_matches(['\'', '"']).starts_with('/').then(|| format!("{path} does not exist in the sandbox"))
}

// The function in which most stacks pass through the same file, if their innermost frames differ.
fn common_function(failed: &[AnalyzedFailure<'_>]) -> Option<RootCause> {
    let mut stacks = 0;
    let mut counts: HashMap<(&str, &str), (usize, usize, u32)> = HashMap::new();
    for (at, one) in failed.iter().enumerate() {
        let frames = one.frames();
        stacks += usize::from(!frames.is_empty());
        let mut seen = HashSet::new();
        for frame in frames {
            if let Some(function) = frame.function.filter(|function| seen.insert((frame.file, *function))) {
                counts.entry((frame.file, function)).or_insert((0, at, frame.line)).0 += 1;
            }
        }
    }
    let best = counts.into_iter().max_by_key(|((file, function), (count, at, _))| {
        (*count, std::cmp::Reverse(*at), std::cmp::Reverse((*file, *function)))
    });
    let ((file, function), (count, at, line)) = best?;
    if stacks < COMMON_FUNCTION_MIN || count * 2 <= failed.len() {
        return None;
    }
    Some(RootCause {
        kind: None,
        statement: format!("{count} of {} failures pass through {function} in {file}", failed.len()),
        confidence: Confidence::Possible,
        evidence: Some(FailureLocation {
            test: failed[at].name.to_owned(),
            file: Some(file.to_owned()),
            line: Some(line),
        }),
        failures: count as u64,
        suggestion: None,
        is_sandbox: false,
    })
}

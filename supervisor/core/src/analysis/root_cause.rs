//! Where to look first: what the sandbox surely caused, then what did not build, then the failure that most others agree with, then a
//! function that most stacks have in common, then what the sandbox possibly caused.

use super::analyzed_failure::AnalyzedFailure;
use super::clusters::Cluster;
use super::pattern_kind::PatternKind;
use super::sandbox_causes;
use super::{Confidence, FailureLocation, RootCause, WorkspaceFacts};
use crate::report::Report;
use crate::test_case::CollectorKind;
use std::collections::{HashMap, HashSet};

/// Most bytes of a message within a sentence.
const MESSAGE_BYTES: usize = 300;

/// Fewest failures that a function in common says something about.
const COMMON_FUNCTION_MIN: usize = 3;

/// The failures that statements speak of.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureCount {
    /// Failures that were analysed.
    pub(super) analyzed: usize,
    /// All failures of the run, those included that the report left out.
    pub(super) total: u64,
}

impl FailureCount {
    /// `analysed ` if the report left failures out, of which nothing can be said.
    fn restriction(self) -> &'static str {
        if self.total > self.analyzed as u64 { "analysed " } else { "" }
    }

    /// `2 of 7 failures`, or `2 of the 7 analysed failures`.
    pub(super) fn part(self, count: usize) -> String {
        let the = if self.restriction().is_empty() { "" } else { "the " };
        format!("{count} of {the}{} {}failures", self.analyzed, self.restriction())
    }
}

/// What was found.
pub(super) struct Causes {
    /// The cause to look at first.
    pub(super) found: Option<RootCause>,
    /// Other causes, the one to look at first first.
    pub(super) further: Vec<RootCause>,
    pub(super) notes: Vec<String>,
}

impl Causes {
    /// All causes, the one to look at first first.
    pub(super) fn all(&self) -> impl Iterator<Item = &RootCause> {
        self.found.iter().chain(&self.further)
    }
}

pub(super) fn causes(
    report: &Report,
    failed: &[AnalyzedFailure<'_>],
    clusters: &[Cluster],
    facts: &WorkspaceFacts,
    count: FailureCount,
) -> Causes {
    let own: Vec<&Cluster> = clusters.iter().filter(|cluster| !cluster.is_consequence).collect();
    let is_build = |cluster: &Cluster| failed[cluster.members[0]].collector == Some(CollectorKind::Build);
    let (built, loaded): (Vec<&Cluster>, Vec<&Cluster>) = own.iter().partition(|cluster| is_build(cluster));
    let not_built = not_built(report, failed, &built);
    let agreement = match not_built {
        Some(_) => agreement(failed, &loaded, clusters, count).filter(|cause| cause.failures > 1),
        None => agreement(failed, &own, clusters, count),
    };
    let of_code: Vec<RootCause> =
        not_built.into_iter().chain(agreement).chain(common_function(failed, &own, count)).collect();
    let mut notes = Vec::new();
    if of_code.is_empty() && !failed.is_empty() {
        notes.push(format!(
            "the {} {}failures have {} different messages or places: these show no cause that most of them have in common",
            failed.len(),
            count.restriction(),
            own.len()
        ));
    }
    let of_sandbox = sandbox_causes::causes(report, failed, clusters, facts, count);
    let (found, further) = in_order(of_sandbox, of_code, failed.len());
    if failed.is_empty() && found.is_none() {
        notes.push(without_failures(report));
    }
    if report.evidence.unreached {
        notes.push("further tests possibly did not run, and may fail too".to_owned());
    }
    Causes { found, further, notes }
}

// The root cause and the further ones. What the sandbox caused comes first, unless it is only possible or explains fewer failures than
// another cause. What only possibly explains a few of the failures is no root.
fn in_order(sandbox: Vec<RootCause>, of_code: Vec<RootCause>, failures: usize) -> (Option<RootCause>, Vec<RootCause>) {
    let behind = of_code.first().map_or(0, |cause| cause.failures);
    let leads = |cause: &RootCause| match cause.confidence {
        Confidence::Certain => true,
        Confidence::Likely => cause.failures >= behind,
        Confidence::Possible => false,
    };
    let (leading, following): (Vec<RootCause>, Vec<RootCause>) = sandbox.into_iter().partition(leads);
    let mut causes: Vec<RootCause> = leading.into_iter().chain(of_code).chain(following).collect();
    let is_root = |cause: &RootCause| cause.confidence > Confidence::Possible || cause.failures * 2 > failures as u64;
    let root = causes.first().is_some_and(is_root).then(|| causes.remove(0));
    (root, causes)
}

fn without_failures(report: &Report) -> String {
    if report.outcome == crate::outcome::Outcome::Passed {
        "the run passed: there is nothing to analyse".to_owned()
    } else {
        format!("the run ended as {} and names no failure: its output may say more", report.outcome.name())
    }
}

// Packages that others need come first: what was not built because of them follows from them.
fn not_built(report: &Report, failed: &[AnalyzedFailure<'_>], built: &[&Cluster]) -> Option<RootCause> {
    let first = built.first()?;
    let more: usize = built.iter().map(|cluster| cluster.members.len()).sum();
    let one = failed[first.members[0]];
    let same_file = built.iter().all(|cluster| failed[cluster.members[0]].file == one.file);
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
        suggestion_confidence: first.class.suggestion_confidence(),
        is_sandbox: false,
    })
}

// The file, since that is what to open; the package if no file is known.
fn subject(location: &FailureLocation) -> String {
    location.file_and_line().unwrap_or_else(|| location.test.clone())
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

// Failures of one kind at one place, if they are most of `own`. What fails to load or in a fixture fails everywhere with the same words
// at one place.
fn agreement(
    failed: &[AnalyzedFailure<'_>],
    own: &[&Cluster],
    all: &[Cluster],
    count: FailureCount,
) -> Option<RootCause> {
    let key = |(at, cluster): (usize, &&Cluster)| {
        let first = failed[cluster.members[0]];
        // Failures without a place, or of no known kind, agree only if they have the same message.
        let is_alone = first.file.is_none() || cluster.class.kind == PatternKind::Unknown;
        (cluster.class.kind, first.file, first.line, is_alone.then_some(at))
    };
    let mut groups: HashMap<_, Vec<&Cluster>> = HashMap::new();
    own.iter().enumerate().for_each(|one| groups.entry(key(one)).or_default().push(one.1));
    let size = |group: &[&Cluster]| group.iter().map(|cluster| cluster.members.len()).sum::<usize>();
    let first_of = |group: &[&Cluster]| group.iter().map(|cluster| cluster.members[0]).min();
    let group = groups.into_values().max_by_key(|group| (size(group), std::cmp::Reverse(first_of(group))))?;
    let members = size(&group);
    let others = size(own) - members;
    if members <= others {
        return None;
    }
    let first = group[0];
    let one = failed[first.members[0]];
    let consequences = size(&all.iter().filter(|cluster| cluster.is_consequence).collect::<Vec<_>>());
    let follow = if others == 0 && size(own) + consequences == failed.len() { consequences } else { 0 };
    let shown = message(&one);
    let are_equal = first.members.iter().all(|at| message(&failed[*at]) == shown);
    let agree = match (group.len(), are_equal) {
        (1, true) => "agree",
        (1, false) => "agree but for values",
        _ => "agree in kind and place",
    };
    let says = if agree == "agree" { "" } else { "; the first says" };
    let (restriction, is_all) = (count.restriction(), members + follow == failed.len());
    let how_many = match (members, follow) {
        (1, 0) if is_all => format!("the only {restriction}failure is"),
        (1, 0) => return None,
        (1, _) => format!("the failure from which the other {restriction}failures follow is"),
        (2, 0) if is_all => format!("both {restriction}failures {agree}:"),
        (_, 0) if is_all => format!("all {members} {restriction}failures {agree}:"),
        (_, 0) => format!("{} {agree}:", count.part(members)),
        _ => format!("{members} failures, from which the other {restriction}failures follow, {agree}:"),
    };
    let follows = match (members, follow) {
        (1, 1) => "; 1 other failure follows from it".to_owned(),
        (1, follow) if follow > 1 => format!("; {follow} other failures follow from it"),
        _ => String::new(),
    };
    let location = one.location();
    let at = location.file_and_line().map(|at| format!(" at {at}")).unwrap_or_default();
    let is_loading = one.collector == Some(CollectorKind::Collection) && is_all && members > 1;
    let loaded = if is_loading { ", where each of them is loaded" } else { "" };
    let title = first.class.kind.title();
    let confidence = group.iter().map(|cluster| cluster.class.confidence).min().unwrap_or_default();
    Some(RootCause {
        kind: Some(first.class.kind),
        statement: format!("{how_many} {title}{at}{loaded}{says}: {shown}{follows}"),
        confidence: if others == 0 { confidence } else { Confidence::Possible },
        evidence: Some(location),
        failures: (members + follow) as u64,
        suggestion: first.class.suggestion.clone(),
        suggestion_confidence: first.class.suggestion_confidence(),
        is_sandbox: false,
    })
}

// A function that most failures pass through on their way to different places, the innermost of those that as many pass through.
fn common_function(failed: &[AnalyzedFailure<'_>], own: &[&Cluster], count: FailureCount) -> Option<RootCause> {
    let mut places = HashSet::new();
    let mut passing: HashMap<(&str, &str), Passing> = HashMap::new();
    for at in own.iter().flat_map(|cluster| cluster.members.iter().copied()) {
        let frames = failed[at].frames_with_functions();
        places.extend(frames.first().map(|frame| (frame.file, frame.line)));
        let mut seen = HashSet::new();
        for (depth, frame) in frames.iter().enumerate() {
            if let Some(function) = frame.function.filter(|function| seen.insert((frame.file, *function))) {
                let first = Passing { failures: 0, depths: 0, first: at, line: frame.line };
                let passing = passing.entry((frame.file, function)).or_insert(first);
                passing.failures += 1;
                passing.depths += depth;
            }
        }
    }
    let ((file, function), best) = passing.into_iter().max_by_key(|(name, passing)| {
        (passing.failures, std::cmp::Reverse(passing.depths), std::cmp::Reverse((passing.first, *name)))
    })?;
    if places.len() < 2 || best.failures < COMMON_FUNCTION_MIN || best.failures * 2 <= failed.len() {
        return None;
    }
    // The frames of the JVM name a file without its directory.
    let is_path = !AnalyzedFailure::is_bare_file(file);
    let evidence = FailureLocation {
        test: failed[best.first].name.to_owned(),
        file: is_path.then(|| file.to_owned()),
        line: is_path.then_some(best.line),
    };
    Some(RootCause {
        kind: None,
        statement: format!("{} pass through {function} in {file}", count.part(best.failures)),
        confidence: Confidence::Possible,
        evidence: Some(evidence),
        failures: best.failures as u64,
        suggestion: None,
        suggestion_confidence: Confidence::Possible,
        is_sandbox: false,
    })
}

/// The failures whose stacks have a function.
struct Passing {
    failures: usize,
    /// Sum of the function's distances from the innermost frames.
    depths: usize,
    /// Position of the first of the failures.
    first: usize,
    /// Line in the function, in the first of the failures.
    line: u32,
}

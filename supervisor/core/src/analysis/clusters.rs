//! Groups failures that have the same kind, the same message but for masked values, and the same location.

use super::analyzed_failure::AnalyzedFailure;
use super::classify::{Classification, Classifier};
use super::mask::MaskedMessage;
use super::pattern_kind::PatternKind;
use super::{ErrorPattern, ProjectContext, names};
use crate::bounds::{ANALYSIS_TEXT_BYTES_MAX, clip};
use std::collections::{HashMap, HashSet};

/// Failures of one kind, message and location.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) class: Classification,
    /// Positions in the list of failures, never empty.
    pub(super) members: Vec<usize>,
    /// What the pattern captured in each member: alike messages name different files.
    pub(super) subjects: Vec<Option<String>>,
    pub(super) is_consequence: bool,
}

/// What the failures of a cluster have in common: message, kind, file and line.
type ClusterKey<'a> = (MaskedMessage, PatternKind, Option<&'a str>, Option<u32>);

/// The clusters, causes before consequences, and the most frequent first.
pub(super) fn clusters(failed: &[AnalyzedFailure<'_>], project: &ProjectContext<'_>) -> Vec<Cluster> {
    let mut classifier = Classifier::new(project);
    let mut by_key: HashMap<ClusterKey<'_>, usize> = HashMap::new();
    let mut clusters: Vec<Cluster> = Vec::new();
    for (at, one) in failed.iter().enumerate() {
        let message = MaskedMessage::new(one.message);
        let is_alone = message.is_empty();
        let class = classifier.classify(one, &message);
        let key = (message, class.kind, one.file, one.line);
        match by_key.get(&key).copied().filter(|_| !is_alone) {
            Some(cluster) => clusters[cluster].join(at, class),
            None => {
                by_key.insert(key, clusters.len());
                let subjects = vec![class.subject.clone()];
                clusters.push(Cluster { class, members: vec![at], subjects, is_consequence: false });
            }
        }
    }
    mark_consequences(failed, &mut clusters);
    clusters.sort_by_key(|cluster| (cluster.is_consequence, std::cmp::Reverse(cluster.members.len())));
    clusters
}

// Failures that by their own words follow from another one, if that one is there.
fn mark_consequences(failed: &[AnalyzedFailure<'_>], clusters: &mut [Cluster]) {
    let follows =
        |cluster: &Cluster| matches!(cluster.class.kind, PatternKind::PoisonedLock | PatternKind::DependencyFailed);
    let roots: HashSet<&str> = clusters
        .iter()
        .filter(|cluster| !follows(cluster))
        .flat_map(|cluster| cluster.members.iter().map(|at| failed[*at].package))
        .collect();
    let marks: Vec<bool> = clusters
        .iter()
        .map(|cluster| {
            // The processes of tests are those of packages; ctest's prerequisites are in one package.
            let packages = cluster.members.iter().map(|at| failed[*at].package);
            follows(cluster) && packages.into_iter().all(|package| roots.contains(package))
        })
        .collect();
    clusters.iter_mut().zip(marks).for_each(|(cluster, mark)| cluster.is_consequence = mark);
}

impl Cluster {
    // A cluster is as sure as its least sure member.
    fn join(&mut self, at: usize, class: Classification) {
        self.members.push(at);
        self.subjects.push(class.subject);
        self.class.confidence = self.class.confidence.min(class.confidence);
    }

    /// The cluster as part of an answer.
    pub(super) fn pattern(&self, failed: &[AnalyzedFailure<'_>]) -> ErrorPattern {
        let first = failed[self.members[0]];
        ErrorPattern {
            kind: self.class.kind,
            message: clip(first.message.to_owned(), ANALYSIS_TEXT_BYTES_MAX),
            frequency: self.members.len() as u64,
            test_names: names(self.members.iter().map(|at| failed[*at].name)),
            evidence: first.location(),
            confidence: self.class.confidence,
            suggestion: self.class.suggestion.clone().map(|text| clip(text, ANALYSIS_TEXT_BYTES_MAX)),
            is_consequence: self.is_consequence,
        }
    }
}

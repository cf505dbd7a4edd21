//! The files of the project that have to do with the failures, ranked: the root cause's, then by the number of
//! failures.

use super::AffectedFile;
use super::analyzed_failure::AnalyzedFailure;
use super::clusters::Cluster;
use super::root_cause::Causes;
use std::collections::{HashMap, HashSet};

pub(super) fn files(failed: &[AnalyzedFailure<'_>], clusters: &[Cluster], causes: &Causes) -> Vec<AffectedFile> {
    let mut found: HashMap<&str, AffectedFile> = HashMap::new();
    let file = |path: &str| AffectedFile {
        path: path.to_owned(),
        failures: 0,
        is_place: false,
        is_edited: false,
        is_missing: false,
    };
    for cluster in clusters.iter().filter(|cluster| !cluster.is_consequence) {
        for one in cluster.members.iter().map(|at| failed[*at]) {
            let frames = one.frames();
            let of_stack = frames.iter().map(|frame| frame.file);
            let paths: HashSet<&str> = one.file.into_iter().chain(of_stack).collect();
            for path in paths {
                let entry = found.entry(path).or_insert_with(|| file(path));
                entry.failures += 1;
                entry.is_place |= one.file == Some(path);
            }
        }
    }
    let roots: Vec<&str> = causes.all().filter_map(|cause| cause.evidence.as_ref()?.file.as_deref()).collect();
    for root in &roots {
        found.entry(root).or_insert_with(|| AffectedFile { is_place: true, ..file(root) });
    }
    let mut files: Vec<AffectedFile> = found.into_values().collect();
    files.sort_by(|one, other| {
        let rank = |file: &AffectedFile| {
            let root = roots.iter().position(|root| *root == file.path).unwrap_or(usize::MAX);
            (root, !file.is_place, std::cmp::Reverse(file.failures))
        };
        rank(one).cmp(&rank(other)).then_with(|| one.path.cmp(&other.path))
    });
    files
}

//! What a session keeps of its checks, to tell new findings from old ones.

use super::{CheckReport, CheckerResult, CheckerStatus, Finding, FindingId, is_within};
use crate::bounds::{
    CHECK_FIXED_LISTED_MAX, CHECK_MEMORY_BYTES_MAX, CHECK_MEMORY_MESSAGE_BYTES_MAX, CHECK_SCOPES_MAX, clip,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// New and fixed findings since the last check of the session.
///
/// A finding is new if an earlier check covered its file with the same checker, to its end, and did not have it. It is
/// fixed if this check covered its file with the same checker, to its end, and does not have it. Other findings are
/// neither.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckComparison {
    /// Places in [`CheckReport::findings`] of those that are new.
    pub new: Vec<u32>,
    /// Number of fixed findings.
    pub fixed_total: u64,
    /// Fixed findings as they were, without their fixes, sorted by file and range; at most [`CHECK_FIXED_LISTED_MAX`].
    pub fixed: Vec<Finding>,
    /// Checkers of this check that no earlier check ran to its end, so that none of their findings could be compared.
    pub uncompared: Vec<String>,
}

/// The findings of a session's checks: for each checker those of the last check that covered a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckMemory {
    checkers: BTreeMap<String, CheckerMemory>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct CheckerMemory {
    /// What was covered, the latest first.
    scopes: Vec<Scope>,
    #[serde(with = "pairs")]
    findings: BTreeMap<FindingId, Finding>,
}

/// What one check covered with one checker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Scope {
    /// Directories of its projects, and whether the checker ran to its end in each.
    projects: Vec<(String, bool)>,
    /// The files that were asked for; empty for all.
    files: Vec<String>,
}

impl CheckMemory {
    /// What is new and what is fixed in `report`; `None` if no earlier check can be compared with it, or if it has more
    /// findings than records.
    #[must_use]
    pub fn compare(&self, report: &CheckReport) -> Option<CheckComparison> {
        if report.omitted > 0 {
            return None;
        }
        let mut comparison = CheckComparison::default();
        let ids = FindingId::of_all(&report.findings);
        for (at, (finding, id)) in report.findings.iter().zip(&ids).enumerate() {
            let earlier = self.checkers.get(&finding.checker);
            if earlier.is_some_and(|earlier| earlier.covers(&finding.file) && !earlier.findings.contains_key(id)) {
                comparison.new.extend(u32::try_from(at).ok());
            }
        }
        let present: BTreeSet<&FindingId> = ids.iter().collect();
        let mut fixed: Vec<&Finding> = Vec::new();
        let mut is_compared = false;
        for name in names(report) {
            let scope = Scope::of(report, name);
            match self.checkers.get(name) {
                Some(earlier) => {
                    is_compared = true;
                    let is_fixed =
                        |(id, finding): &(&FindingId, &Finding)| !present.contains(id) && scope.covers(&finding.file);
                    fixed.extend(earlier.findings.iter().filter(is_fixed).map(|(_, finding)| finding));
                }
                None => comparison.uncompared.push(name.to_owned()),
            }
        }
        fixed.sort_unstable();
        comparison.fixed_total = fixed.len() as u64;
        comparison.fixed = fixed.into_iter().take(CHECK_FIXED_LISTED_MAX).cloned().collect();
        is_compared.then_some(comparison)
    }

    /// Keeps the findings of `report` for the next comparison. Where a checker did not run to its end, those of the
    /// check before stay.
    pub fn record(&mut self, report: &CheckReport) {
        if report.omitted > 0 {
            return;
        }
        let ids = FindingId::of_all(&report.findings);
        for name in names(report) {
            let scope = Scope::of(report, name);
            if !scope.projects.iter().any(|(_, complete)| *complete) {
                continue;
            }
            let mut memory = self.checkers.remove(name).unwrap_or_default();
            memory.findings.retain(|_, finding| !scope.covers(&finding.file));
            let own =
                report.findings.iter().zip(&ids).filter(|(one, _)| one.checker == name && scope.covers(&one.file));
            memory.findings.extend(own.map(|(finding, id)| (*id, kept(finding))));
            memory.add_scope(scope);
            if self.memory_bytes() + memory.memory_bytes() <= CHECK_MEMORY_BYTES_MAX {
                self.checkers.insert(name.to_owned(), memory);
            }
        }
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.checkers.iter().map(|(name, memory)| name.len() + memory.memory_bytes()).sum()
    }
}

impl CheckerMemory {
    fn covers(&self, file: &str) -> bool {
        self.scopes.iter().any(|scope| scope.covers(file))
    }

    /// Adds what the latest check covered. A check of everything replaces the scopes before it.
    fn add_scope(&mut self, scope: Scope) {
        if scope.files.is_empty() && scope.projects.iter().all(|(_, complete)| *complete) {
            self.scopes.clear();
        }
        self.scopes.retain(|earlier| *earlier != scope);
        self.scopes.insert(0, scope);
        self.scopes.truncate(CHECK_SCOPES_MAX);
        let scopes = std::mem::take(&mut self.scopes);
        self.findings.retain(|_, finding| scopes.iter().any(|scope| scope.covers(&finding.file)));
        self.scopes = scopes;
    }

    fn memory_bytes(&self) -> usize {
        let findings: usize = self.findings.values().map(|one| size_of::<FindingId>() + one.memory_bytes()).sum();
        let scopes: usize = self.scopes.iter().map(Scope::memory_bytes).sum();
        size_of::<CheckerMemory>() + findings + scopes
    }
}

impl Scope {
    fn of(report: &CheckReport, checker: &str) -> Scope {
        let own = report.checkers.iter().filter(|one| one.checker == checker);
        let projects = own.map(|one| (one.dir.clone(), one.status == CheckerStatus::Complete)).collect();
        Scope { projects, files: report.files.clone() }
    }

    /// Whether the checker ran to its end in the innermost project with this file, and the file was asked for.
    fn covers(&self, file: &str) -> bool {
        let above = self.projects.iter().filter(|(dir, _)| is_within(file, dir));
        let innermost = above.clone().map(|(dir, _)| dir.len()).max();
        let is_complete =
            innermost.is_some_and(|len| above.clone().filter(|(dir, _)| dir.len() == len).all(|(_, done)| *done));
        is_complete && (self.files.is_empty() || self.files.iter().any(|asked| is_within(file, asked)))
    }

    fn memory_bytes(&self) -> usize {
        let projects: usize = self.projects.iter().map(|(dir, _)| size_of::<(String, bool)>() + dir.len()).sum();
        let files: usize = self.files.iter().map(|file| size_of::<String>() + file.len()).sum();
        size_of::<Scope>() + projects + files
    }
}

impl CheckComparison {
    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let fixed: usize = self.fixed.iter().map(Finding::memory_bytes).sum();
        let names: usize = self.uncompared.iter().map(|name| size_of::<String>() + name.len()).sum();
        self.new.len() * size_of::<u32>() + fixed + names
    }
}

/// The checkers of a report, each once.
fn names(report: &CheckReport) -> BTreeSet<&str> {
    report.checkers.iter().map(|CheckerResult { checker, .. }| checker.as_str()).collect()
}

/// What is kept of a finding: what the list of fixed ones shows.
fn kept(finding: &Finding) -> Finding {
    let message = clip(finding.message.clone(), CHECK_MEMORY_MESSAGE_BYTES_MAX);
    Finding { message, fix: None, ..finding.clone() }
}

/// The findings as a list of pairs: an identity is no text, as the keys of a JSON object must be.
mod pairs {
    use super::{BTreeMap, Finding, FindingId};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        findings: &BTreeMap<FindingId, Finding>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(findings)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<FindingId, Finding>, D::Error> {
        Ok(Vec::<(FindingId, Finding)>::deserialize(deserializer)?.into_iter().collect())
    }
}

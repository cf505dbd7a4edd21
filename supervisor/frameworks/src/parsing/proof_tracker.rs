//! The proof of a run, gathered step by step by the parsers. Must not know any runner.

use proctor_core::proof::Proof;

/// ProofTracker of the steps of a run: each step that starts has to show its own, and nothing that is lost comes back.
#[derive(Debug, Default)]
pub(crate) struct ProofTracker {
    /// Those of the steps before the current one; `None` before the first.
    earlier: Option<Proof>,
    /// That of the current step; `None` before the first.
    current: Option<Proof>,
    is_invalid: bool,
}

impl ProofTracker {
    /// Starts a step, of which nothing is shown yet.
    pub(crate) fn start_step(&mut self) {
        self.earlier = self.total();
        self.current = Some(Proof::Missing);
    }

    /// Records that the runner of the current step came to its end, and told `tests` tests by its own count, 0 if it has none.
    pub(crate) fn record(&mut self, tests: u64) {
        self.current = self.current.map(|_| Proof::Shown { tests });
    }

    /// Records that the current step has nothing to prove, because what was told says that its tests did not run.
    pub(crate) fn waive(&mut self) {
        self.record(0);
    }

    /// Records that a part of what a runner told is lost.
    pub(crate) fn invalidate(&mut self) {
        self.is_invalid = true;
    }

    /// The proof of all steps, which is missing where there was none.
    pub(crate) fn proof(&self) -> Proof {
        self.total().filter(|_| !self.is_invalid).unwrap_or_default()
    }

    fn total(&self) -> Option<Proof> {
        match (self.earlier, self.current) {
            (Some(before), Some(current)) => Some(before.and(current)),
            (before, current) => before.or(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_to_show_its_proof() {
        let mut proofs = ProofTracker::default();
        proofs.record(1);
        assert_eq!(proofs.proof(), Proof::Missing, "no step has started");
        proofs.start_step();
        assert_eq!(proofs.proof(), Proof::Missing);
        proofs.record(2);
        assert_eq!(proofs.proof(), Proof::Shown { tests: 2 });
        proofs.start_step();
        assert_eq!(proofs.proof(), Proof::Missing);
        proofs.record(3);
        assert_eq!(proofs.proof(), Proof::Shown { tests: 5 });
        proofs.invalidate();
        assert_eq!(proofs.proof(), Proof::Missing);
        let mut skipped = ProofTracker::default();
        skipped.start_step();
        skipped.start_step();
        skipped.record(1);
        assert_eq!(skipped.proof(), Proof::Missing, "the first step showed nothing");
    }
}

//! Collects the proof of a run step by step.

use proctor_core::proof::Proof;

/// The proof of a run's steps: each started step needs its own, and an invalidated proof stays invalid.
#[derive(Debug, Default)]
pub(crate) struct ProofTracker {
    /// Combined proof of the steps before the current one; `None` before the first.
    earlier: Option<Proof>,
    /// Proof of the current step; `None` before the first.
    current: Option<Proof>,
    is_invalid: bool,
}

impl ProofTracker {
    /// Starts a step, whose proof is missing at first.
    pub(crate) fn start_step(&mut self) {
        self.earlier = self.total();
        self.current = Some(Proof::Missing);
    }

    /// Records that the runner of the current step finished and counted `tests` tests, 0 if it does not count.
    pub(crate) fn record(&mut self, tests: u64) {
        self.current = self.current.map(|_| Proof::Shown { tests });
    }

    /// Records that the current step needs no proof, because the runner reported that its tests did not run.
    pub(crate) fn waive(&mut self) {
        self.record(0);
    }

    /// Records that a part of the runner's report is lost.
    pub(crate) fn invalidate(&mut self) {
        self.is_invalid = true;
    }

    /// The proof of all steps; missing if there was no step.
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
    fn each_step_needs_its_own_proof() {
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

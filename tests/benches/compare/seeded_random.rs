//! A pseudo-random generator with a fixed seed, so that every benchmark run does the same.

/// Knuth's MMIX generator.
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    pub(crate) fn new() -> SeededRandom {
        SeededRandom(0x5eed)
    }

    /// Another sequence for each number, the same every time.
    pub(crate) fn with_seed(number: usize) -> SeededRandom {
        let mut random = SeededRandom(u64::try_from(number).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.below(1);
        random
    }

    /// A number below `bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound.max(1)
    }

    /// True with a probability of `share` percent.
    pub(crate) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }
}

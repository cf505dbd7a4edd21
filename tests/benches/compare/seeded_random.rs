//! Numbers that look random and are the same every time, so that every benchmark measures the same. Must not know what for.

/// Knuth's MMIX generator.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new() -> Dice {
        Dice(0x5eed)
    }

    /// Others than those of [`Dice::new`], and the same for the same number.
    pub(crate) fn numbered(number: usize) -> Dice {
        let mut dice = Dice(u64::try_from(number).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.below(1);
        dice
    }

    /// Below `bound`, or 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound.max(1)
    }

    /// True in `share` of a hundred.
    pub(crate) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }
}

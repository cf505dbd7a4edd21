//! Samples of the resources that a run uses, over its time: a bounded number, however long it runs.

use crate::bounds::USAGE_SAMPLES_MAX;
use serde::{Deserialize, Serialize};

/// What a run used at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageSample {
    /// Milliseconds since the run's first runner started.
    pub at_ms: u64,
    /// Memory in use, in bytes; `None` without a memory controller.
    pub memory_bytes: Option<u64>,
    /// Processor time since its execution began, in milliseconds; less than in the sample before it where a new execution began.
    pub cpu_ms: Option<u64>,
    /// Processes alive, at most 4,096; `None` where they are not counted.
    pub processes: Option<u32>,
}

/// Samples of one run. When there is no room, every second one is dropped, and every second new one from then on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageSamples {
    samples: Vec<UsageSample>,
    /// Times that samples were dropped.
    halvings: u32,
    /// Samples offered.
    offered: u64,
}

impl UsageSamples {
    /// Adds a sample.
    pub fn add(&mut self, sample: UsageSample) {
        let is_kept = self.offered.is_multiple_of(1 << self.halvings.min(63));
        self.offered += 1;
        if is_kept {
            self.samples.push(sample);
        }
        if self.samples.len() > USAGE_SAMPLES_MAX {
            self.samples = halved(&self.samples);
            self.halvings += 1;
        }
    }

    /// The samples, oldest first, at most [`USAGE_SAMPLES_MAX`].
    #[must_use]
    pub fn into_vec(self) -> Vec<UsageSample> {
        self.samples
    }
}

/// The samples of two executions, one after the other, within the bound.
#[must_use]
pub fn join(first: &[UsageSample], then: &[UsageSample]) -> Vec<UsageSample> {
    let all = [first, then].concat();
    if all.len() > USAGE_SAMPLES_MAX { halved(&all) } else { all }
}

fn halved(samples: &[UsageSample]) -> Vec<UsageSample> {
    samples.iter().step_by(2).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64) -> UsageSample {
        UsageSample { at_ms, memory_bytes: Some(at_ms), cpu_ms: None, processes: Some(1) }
    }

    #[test]
    fn a_long_run_has_evenly_spaced_samples_within_the_bound() {
        for count in [1, 512, 513, 5_000] {
            let mut samples = UsageSamples::default();
            (0..count).for_each(|number| samples.add(sample(number * 1_000)));
            let kept = samples.into_vec();
            assert!(kept.len() <= USAGE_SAMPLES_MAX && kept.len() as u64 >= count.min(256), "{count}: {}", kept.len());
            let step = kept.get(1).map_or(0, |second| second.at_ms);
            let expected: Vec<u64> = (0..kept.len() as u64).map(|number| number * step).collect();
            assert_eq!(kept.iter().map(|sample| sample.at_ms).collect::<Vec<_>>(), expected, "{count}");
        }
    }

    #[test]
    fn joined_executions_keep_to_the_bound() {
        let of = |begin: u64| (begin..begin + 400).map(sample).collect::<Vec<_>>();
        let joined = join(&of(0), &of(400));
        assert_eq!((joined.len(), joined[1].at_ms, joined[399].at_ms), (400, 2, 798));
        assert_eq!(join(&of(0), &[]).len(), 400);
    }
}

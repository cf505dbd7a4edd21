//! Tests that became slower than they were: the latest time against the median of the earlier ones, measured in median
//! absolute deviations, which a few outliers do not move.

/// Earlier times needed for a judgement.
const EARLIER_MIN: usize = 5;

/// Latest times that must all be slow, so that one busy moment of the host is no regression.
const LATEST: usize = 3;

/// A regression is more than this many scaled deviations above the median.
const DEVIATIONS_MIN: f64 = 3.0;

/// Deviations of a normal distribution in one median absolute deviation.
const MAD_SCALE: f64 = 1.482_602_218_505_602;

/// A regression is more than this part of the median.
const PART_MIN: f64 = 0.30;

/// A regression is more than this many microseconds.
const EXCESS_US_MIN: f64 = 50_000.0;

/// A test that became slower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown {
    /// Median of the earlier times, microseconds.
    pub before_us: f64,
    /// Median of the latest times, microseconds.
    pub now_us: f64,
    /// Number of earlier times.
    pub earlier_runs: usize,
}

impl Slowdown {
    /// How many times as long the test takes now.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.now_us / self.before_us.max(1.0)
    }
}

/// Judges the times of one test, oldest first, in microseconds. The three latest must each exceed the median of the
/// earlier by three scaled deviations, 30 % and 50 ms. `None` with fewer than five earlier times.
#[must_use]
pub fn slowdown(times_us: &[u64]) -> Option<Slowdown> {
    let (earlier, latest) = times_us.split_at(times_us.len().checked_sub(LATEST)?);
    if earlier.len() < EARLIER_MIN {
        return None;
    }
    let mut earlier = as_floats(earlier);
    let before_us = median(&mut earlier);
    let mut deviations: Vec<f64> = earlier.iter().map(|time| (time - before_us).abs()).collect();
    let deviation = MAD_SCALE * median(&mut deviations);
    let threshold = (DEVIATIONS_MIN * deviation).max(PART_MIN * before_us).max(EXCESS_US_MIN);
    let mut latest = as_floats(latest);
    let is_slow = latest.iter().all(|time| time - before_us > threshold);
    is_slow.then(|| Slowdown { before_us, now_us: median(&mut latest), earlier_runs: earlier.len() })
}

#[expect(clippy::cast_precision_loss, reason = "times in microseconds are far below 2^52")]
fn as_floats(times_us: &[u64]) -> Vec<f64> {
    times_us.iter().map(|time| *time as f64).collect()
}

/// The median; sorts the values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        None => 0.0,
        Some(upper) if values.len() % 2 == 1 => *upper,
        Some(upper) => f64::midpoint(values[middle - 1], *upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000;

    /// Times in microseconds around `base_ms`, each off by this many percent.
    fn noisy(base_ms: u64, percents: &[i64]) -> Vec<u64> {
        let base = base_ms * MS;
        percents.iter().map(|percent| base.saturating_add_signed(base.cast_signed() * percent / 100)).collect()
    }

    #[test]
    fn a_suite_with_much_noise_and_single_outliers_raises_no_alarm() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut alarms = 0;
        for test in 0..2_000 {
            let runs = 8 + random(40);
            let noise: Vec<i64> =
                (0..runs).map(|_| if random(50) == 0 { 900 } else { random(41).cast_signed() - 20 }).collect();
            alarms += usize::from(slowdown(&noisy(100 + test, &noise)).is_some());
        }
        assert_eq!(alarms, 0);
    }

    #[test]
    fn finds_a_regression_of_half_the_time() {
        let times = [400, 410, 390, 405, 395, 600, 610, 605].map(|ms| ms * MS);
        let found = slowdown(&times).unwrap();
        assert_eq!((found.before_us, found.now_us, found.earlier_runs), (400_000.0, 605_000.0, 5));
        assert!((found.factor() - 1.5125).abs() < 1e-9);
    }

    #[test]
    fn needs_five_earlier_runs_a_large_effect_and_three_slow_runs() {
        for (times, why) in [
            (&[400, 400, 400, 400, 900, 900, 900][..], "four earlier runs"),
            (&[10, 10, 10, 10, 10, 50, 50, 50], "less than 50 ms"),
            (&[1_000, 1_000, 1_000, 1_000, 1_000, 1_290, 1_290, 1_290], "less than 30 %"),
            (&[100, 900, 150, 800, 500, 900, 1_000, 950], "within the noise of the test"),
            (&[400, 400, 400, 400, 400, 900, 400, 900], "one of the latest is as before"),
            (&[], "no times"),
        ] {
            let times: Vec<u64> = times.iter().map(|ms| ms * MS).collect();
            assert_eq!(slowdown(&times), None, "{why}");
        }
    }

    proptest! {
        // Within an eighth around any duration, no time exceeds another by 30 %.
        #[test]
        fn a_slightly_noisy_test_is_never_slow(
            base_ms in 1_u64..5_000, noise in proptest::collection::vec(-12_i64..=12, 8..60),
        ) {
            prop_assert_eq!(slowdown(&noisy(base_ms, &noise)), None);
        }

        #[test]
        fn a_regression_of_half_the_time_is_found(
            base_ms in 200_u64..5_000,
            noise in proptest::collection::vec(-5_i64..=5, 8..60),
        ) {
            let mut times = noisy(base_ms, &noise);
            let changed = times.len() - LATEST;
            times[changed..].iter_mut().for_each(|time| *time = *time * 3 / 2);
            prop_assert!(slowdown(&times).is_some());
        }
    }
}

//! The compact form in which the results of one run are stored: some three bytes a test.
//!
//! One byte of version, then for each test in the order of its number: the difference to the number before it, and the
//! time and outcome in one value, each as a LEB128 varint. Times are stored in tenths of a millisecond.

use super::TestResult;
use crate::test_case::TestOutcome;

/// First byte of every encoding.
const VERSION: u8 = 1;

/// Resolution of stored times, in microseconds: tests below it are never slow.
const UNIT_US: u64 = 100;

/// Bits of the outcome in the value that it shares with the time.
const OUTCOME_BITS: u32 = 3;

/// Encodes results. Tests are numbered by the store; `results` is sorted by number, each number once.
#[must_use]
pub fn encode(results: &[(u32, TestResult)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + results.len() * 4);
    bytes.push(VERSION);
    let mut last = 0;
    for (test, result) in results {
        debug_assert!(*test >= last);
        push_varint(&mut bytes, u64::from(test.wrapping_sub(last)));
        last = *test;
        // Zero is an unknown time.
        let time = result.duration_us.map_or(0, |us| (us / UNIT_US).saturating_add(1)).min(u64::MAX >> OUTCOME_BITS);
        push_varint(&mut bytes, time << OUTCOME_BITS | outcome_code(result.outcome));
    }
    bytes
}

/// Decodes results. Ends early at bytes that no encoder wrote: a damaged record costs its own rest only.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = (u32, TestResult)> {
    let mut rest = match bytes.split_first() {
        Some((&VERSION, rest)) => rest,
        _ => &[],
    };
    let mut test = 0_u32;
    std::iter::from_fn(move || {
        let difference = u32::try_from(take_varint(&mut rest)?).ok()?;
        test = test.checked_add(difference)?;
        let value = take_varint(&mut rest)?;
        let duration_us = (value >> OUTCOME_BITS).checked_sub(1).map(|units| units.saturating_mul(UNIT_US));
        let outcome = outcome_from_code(value & ((1 << OUTCOME_BITS) - 1))?;
        Some((test, TestResult { outcome, duration_us }))
    })
}

/// Encodes the order of a run's tests: one byte of version, then the difference of each number to the one before it, in
/// zigzag form, as a LEB128 varint: some two bytes a test.
#[must_use]
pub fn encode_order(tests: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + tests.len() * 2);
    bytes.push(VERSION);
    let mut last = 0_i64;
    for test in tests {
        let difference = i64::from(*test) - last;
        last = i64::from(*test);
        push_varint(&mut bytes, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
    }
    bytes
}

/// Decodes an order. Ends early at bytes that no encoder wrote.
pub fn decode_order(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let mut rest = match bytes.split_first() {
        Some((&VERSION, rest)) => rest,
        _ => &[],
    };
    let mut test = 0_i64;
    std::iter::from_fn(move || {
        let value = take_varint(&mut rest)?;
        let difference = (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
        test = test.checked_add(difference)?;
        u32::try_from(test).ok()
    })
}

fn outcome_code(outcome: TestOutcome) -> u64 {
    match outcome {
        TestOutcome::Passed => 0,
        TestOutcome::Failed => 1,
        TestOutcome::Skipped => 2,
        TestOutcome::Xfailed => 3,
        TestOutcome::Xpassed => 4,
        TestOutcome::Error => 5,
    }
}

fn outcome_from_code(code: u64) -> Option<TestOutcome> {
    Some(match code {
        0 => TestOutcome::Passed,
        1 => TestOutcome::Failed,
        2 => TestOutcome::Skipped,
        3 => TestOutcome::Xfailed,
        4 => TestOutcome::Xpassed,
        5 => TestOutcome::Error,
        _ => return None,
    })
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0x7f);
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OUTCOMES: [TestOutcome; 6] = [
        TestOutcome::Passed,
        TestOutcome::Failed,
        TestOutcome::Skipped,
        TestOutcome::Xfailed,
        TestOutcome::Xpassed,
        TestOutcome::Error,
    ];

    #[test]
    fn a_usual_test_takes_three_bytes() {
        let result = TestResult { outcome: TestOutcome::Passed, duration_us: Some(12_000) };
        let results: Vec<(u32, TestResult)> = (1..=2_000).map(|test| (test, result)).collect();
        assert_eq!(encode(&results).len(), 1 + 3 * 2_000);
    }

    #[test]
    fn an_unknown_version_has_no_results() {
        let mut bytes = encode(&[(1, TestResult { outcome: TestOutcome::Passed, duration_us: None })]);
        assert_eq!(decode(&bytes).count(), 1);
        bytes[0] = VERSION + 1;
        assert_eq!(decode(&bytes).count(), 0);
        assert_eq!(decode(&[]).count(), 0);
    }

    proptest! {
        #[test]
        fn an_order_is_decoded_as_it_was(tests in proptest::collection::vec(any::<u32>(), 0..50)) {
            prop_assert_eq!(decode_order(&encode_order(&tests)).collect::<Vec<_>>(), tests);
        }

        #[test]
        fn a_damaged_order_ends_early(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(decode_order(&bytes).count() <= bytes.len());
        }

        #[test]
        fn decodes_what_it_encoded(
            results in proptest::collection::btree_map(
                any::<u32>(), (proptest::sample::select(OUTCOMES.to_vec()), proptest::option::of(any::<u64>())), 0..50,
            )
        ) {
            let results: Vec<(u32, TestResult)> = results
                .into_iter()
                .map(|(test, (outcome, duration_us))| (test, TestResult { outcome, duration_us }))
                .collect();
            let decoded: Vec<(u32, TestResult)> = decode(&encode(&results)).collect();
            prop_assert_eq!(decoded.len(), results.len());
            for ((test, result), (decoded_test, decoded)) in results.into_iter().zip(decoded) {
                prop_assert_eq!((test, result.outcome), (decoded_test, decoded.outcome));
                let longest = ((u64::MAX >> OUTCOME_BITS) - 1).saturating_mul(UNIT_US);
                prop_assert_eq!(decoded.duration_us, result.duration_us.map(|us| (us - us % UNIT_US).min(longest)));
            }
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&bytes).count() <= bytes.len());
        }
    }
}

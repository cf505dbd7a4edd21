//! What running tests at the same time would give: an estimate from the times of one run, for runners that run one test after
//! the other unless they are told otherwise.

use proctor_core::report::Report;
use proctor_core::test_case::TestCase;
use proctor_frameworks::{DefaultConcurrency, FRAMEWORKS, ParallelSupport};
use proctor_proto::test_times::Subtests;
use std::collections::BTreeMap;

/// Processors that an estimate is for, at most: with more, other things than processors bound a suite.
const PROCESSORS_MAX: u32 = 8;

/// The tests of a report that have a time, without those whose time is a part of another one's.
#[must_use]
pub fn timed_tests(report: &Report) -> Vec<(&TestCase, f64)> {
    let subtests = Subtests::new(&report.framework, report.tests.iter().map(|test| test.nodeid.as_str()));
    let whole = report.tests.iter().filter(|test| !subtests.contains(&test.nodeid));
    whole.filter_map(|test| Some((test, test.duration_s?))).collect()
}

/// What `--parallel` would give.
#[derive(Debug, PartialEq)]
pub(super) struct Estimate<'a> {
    /// Number of tests, or of files, at a time.
    pub(super) at_a_time: u32,
    /// Seconds of all tests, each on the processor that is free first, the longest first.
    pub(super) seconds: f64,
    /// What takes longest, which runs on one processor, and its seconds.
    pub(super) longest: (&'a str, f64),
    /// Whether the runner divides files and not tests.
    pub(super) by_file: bool,
    /// What the project has to have for it.
    pub(super) needs: Option<&'static str>,
}

impl Estimate<'_> {
    /// The estimate for a run; `None` if its runner runs several tests at a time by itself or never does, if the times show that
    /// it did, if they are not all there, and if the run had less than two processors.
    pub(super) fn new(report: &Report) -> Option<Estimate<'_>> {
        let framework = FRAMEWORKS.iter().find(|framework| framework.name() == report.framework)?;
        let ParallelSupport::Applied(default) = framework.manifest().options.parallel else { return None };
        let (by_file, needs) = match default {
            DefaultConcurrency::Several => return None,
            DefaultConcurrency::OneTest { needs } => (false, needs),
            DefaultConcurrency::OneFile => (true, None),
        };
        if report.repetitions.is_some() || report.partial || report.truncated.tests > 0 {
            return None;
        }
        let timed = timed_tests(report);
        let all_s: f64 = timed.iter().map(|(_, seconds)| seconds).sum();
        let mut parts: Vec<(&str, f64)> = match by_file {
            false => timed.iter().map(|(test, seconds)| (test.nodeid.as_str(), *seconds)).collect(),
            true => {
                let mut files: BTreeMap<&str, f64> = BTreeMap::new();
                timed.iter().for_each(|(test, seconds)| *files.entry(&test.package).or_default() += seconds);
                files.into_iter().collect()
            }
        };
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let longest = *parts.first()?;
        let at_a_time = (report.limits.cpu_millis_max / 1_000).min(PROCESSORS_MAX);
        if all_s > report.duration_s || parts.len() < 2 || at_a_time < 2 {
            return None;
        }
        let mut free_at = vec![0.0; at_a_time as usize];
        for (_, seconds) in parts {
            if let Some(first) = free_at.iter_mut().min_by(|a: &&mut f64, b| a.total_cmp(b)) {
                *first += seconds;
            }
        }
        let seconds = free_at.into_iter().fold(0.0, f64::max);
        Some(Estimate { at_a_time, seconds, longest, by_file, needs })
    }
}

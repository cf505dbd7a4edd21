//! All bounds of the domain in one table, each with the reason for its number, and the one way to clip a string.

/// Most parallel tests that a request or a project file may ask for: the processor count of a large host.
pub const PARALLEL_MAX: u32 = 256;

/// Longest message, expected or actual value kept per test, in bytes. A screenful is 4 KiB; a diff worth reading fits
/// into four of them.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Longest captured output or stack kept per test, in bytes. The whole stream stays readable through `ReadOutput`.
pub const TEST_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Longest test, package or file name kept, in bytes. Parametrised pytest ids reach some KiB; paths end at 4,096.
pub const NAME_BYTES_MAX: usize = 4 * 1024;

/// Most test cases kept in one report. Suites of 60,000 parametrised tests exist; passing ones are dropped first.
pub const TEST_CASES_MAX: usize = 100_000;

/// Most failures kept in a session's slot. Nobody reads more; the total stays exact.
pub const FAILURES_MAX: usize = 10_000;

/// Most build and collection errors kept in one report.
pub const COLLECTORS_MAX: usize = 1_000;

/// Most running tests listed when a run is cut off.
pub const RUNNING_NAMES_MAX: usize = 64;

/// Most packages listed as not built because of a dependency.
pub const NOT_BUILT_MAX: usize = 1_000;

/// Bytes of each stream repeated at the end of a report (`stdout_tail`, `stderr_tail`).
pub const TAIL_BYTES_MAX: usize = 16 * 1024;

/// Most files in a coverage index. The Linux kernel has 80,000 files; larger indexes are of no use to a caller.
pub const COVERED_FILES_MAX: usize = 100_000;

/// Most spans (runs of covered lines) of one file. A file of 10,000 functions has about 50,000.
pub const SPANS_PER_FILE_MAX: usize = 65_536;

/// Most memory of a coverage index, in bytes: four million spans in 50,000 files. A test can write a coverage file of
/// its own with any content.
pub const COVERAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Most sets of tests that were measured together: one per package, or one per test where the language allows that.
pub const COVERAGE_UNITS_MAX: usize = 200_000;

/// Most runs waiting behind the running one of a session. An agent asks for one at a time; eight is a team of agents.
pub const QUEUED_RUNS_MAX: usize = 8;

/// Most runs waiting for their turn on a host, of all tenants together: 1,000 tenants with 100 runs each, some 11 MiB.
pub const HOST_QUEUED_RUNS_MAX: usize = 100_000;

/// Most runs in progress on a host, of all tenants together; more wait for their turn. Each has a supervisor thread, a
/// worker and some twenty descriptors, and no known host has processors for more runs than this. Without the bound a
/// tenant with tiny runs could take all threads of the host.
pub const HOST_RUNNING_RUNS_MAX: usize = 1_024;

/// Most tenants of a host. Each has user ids of its own, and a host shared by more would serve none of them.
pub const TENANTS_MAX: usize = 10_000;

/// Highest reported queue position. Nobody plans with a number beyond it, and reporting all positions would cost more
/// than choosing the next run.
pub const POSITION_MAX: u32 = 1_000;

/// Most finished runs per session with readable events; the session forgets the oldest first.
pub const FINISHED_RUNS_MAX: usize = 16;

/// Longest path that the kernel opens, in bytes: `PATH_MAX` without its final NUL.
pub const PATH_BYTES_MAX: usize = 4_095;

/// Clips `text` to at most `bytes_max` bytes on a character boundary and marks the cut with an ellipsis.
///
/// The result, including the ellipsis, is never longer than `bytes_max` (for `bytes_max` of 3 or more).
#[must_use]
pub fn clip(mut text: String, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text;
    }
    let mut end = bytes_max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push('…');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn clip_never_exceeds_its_bound_and_keeps_a_prefix(text in ".*", bytes_max in 3usize..64) {
            let clipped = clip(text.clone(), bytes_max);
            prop_assert!(clipped.len() <= bytes_max);
            prop_assert!(text.starts_with(clipped.trim_end_matches('…')));
        }
    }
}

//! The one table of bounds that callers, operators or several modules rely on, each with its unit and the reason for its
//! number; and the one way to clip a string.
//!
//! A bound stays beside its code if it is private to one file: how the file works, and no promise. Such are the capacity
//! of a mailbox (the table of tasks in `proctor`'s `lib.rs` lists them), the pause before a retry, the age of a cached
//! result, how much of a text a terminal shows, and the depth to which a parser follows its input. Elsewhere are also:
//! - the limits of a run, which are values of one type: [`Limits::DEFAULT`](crate::limits::Limits::DEFAULT) and
//!   [`Limits::CEILING`](crate::limits::Limits::CEILING);
//! - the largest message on the wire, which clients share: `MESSAGE_BYTES_MAX` in `proctor-proto`;
//! - the bounds between supervisor and worker: `spec` in `proctor-sandbox`.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const GIB: u64 = 1024 * 1024 * 1024;

/// Default and greatest number of items in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    /// Used when the request sets no limit.
    pub default: u32,
    /// Greatest number.
    pub max: u32,
}

impl PageLimits {
    /// The requested number of items within these limits; zero requests the default.
    #[must_use]
    pub fn clamp(self, requested: u32) -> usize {
        usize::try_from(if requested == 0 { self.default } else { requested.min(self.max) }).unwrap_or(usize::MAX)
    }
}

// ---------------------------------------------------------------------------------------------------------- Requests

/// Largest request, in bytes. The largest honest one names [`REQUEST_FILES_MAX`] files by absolute paths of 4 KiB.
pub const REQUEST_BYTES_MAX: usize = 8 * MIB;

/// Largest request to a service without authentication, in bytes over all its messages: the name of a service, or some
/// dozens.
pub const OPEN_REQUEST_BYTES_MAX: usize = 4 * KIB;

/// Longest time for a request to arrive: the largest request needs it at 7 Mbit/s.
pub const REQUEST_ARRIVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest `client_request_id`, in bytes: three times a UUID.
pub const CLIENT_REQUEST_ID_BYTES_MAX: usize = 128;

/// Most files in a request: more than an edit touches.
pub const REQUEST_FILES_MAX: usize = 1_000;

/// Most bytes of file names in a request. A session keeps its last request and those of its waiting runs.
pub const REQUEST_FILES_BYTES_MAX: usize = 128 * KIB;

/// Most names of checkers in a request: several times those that are known.
pub const CHECKERS_MAX: usize = 64;

/// Most names of tests in a request: twice as many failures as an answer names at most.
pub const REQUEST_TESTS_MAX: usize = 1_000;

/// Longest name of a test in a request, in bytes: that of the longest node id in a report.
pub const REQUEST_TEST_BYTES_MAX: usize = 2 * NAME_BYTES_MAX;

/// Most bytes of these names together. A session keeps its last request and those of its waiting runs.
pub const REQUEST_TESTS_BYTES_MAX: usize = 128 * KIB;

/// Longest framework name in a request, in bytes: several times the longest name that exists.
pub const FRAMEWORK_BYTES_MAX: usize = 64;

/// Longest filter accepted, in characters: longer than the names that people give to tests.
pub const FILTER_CHARS_MAX: usize = 200;

/// Most words of a custom command. A longer one belongs in a script of the project.
pub const COMMAND_WORDS_MAX: usize = 256;

/// Most bytes of a custom command, all words together. The kernel accepts no longer word, and a session keeps the
/// commands of its waiting runs.
pub const COMMAND_BYTES_MAX: usize = 128 * KIB;

/// Most environment variables that a request or a project file may set.
pub const ENV_VARIABLES_MAX: usize = 64;

/// Most bytes of these variables, names and values together: a fraction of what the kernel passes to a program.
pub const ENV_BYTES_MAX: usize = 32 * KIB;

/// Most parallel tests that a request or a project file may ask for: the processor count of a large host.
pub const PARALLEL_MAX: u32 = 256;

/// Longest wait of one GetRun call, in milliseconds. Clients and proxies give up on a silent call within minutes.
pub const GET_RUN_WAIT_MS_MAX: u64 = 600_000;

/// Least memory of a run in bytes, least processor time in thousandths of a processor, and least processes. A worker
/// cannot start its runner below these, so a smaller request is a mistake.
pub const MEMORY_BYTES_MIN: u64 = 4 * MIB as u64;
/// See [`MEMORY_BYTES_MIN`].
pub const CPU_MILLIS_MIN: u32 = 10;
/// See [`MEMORY_BYTES_MIN`].
pub const PIDS_MIN: u32 = 4;

/// Least growth of workspace and caches in bytes, for the same reason.
pub const DISK_BYTES_MIN: u64 = MIB as u64;

// ----------------------------------------------------------------------------------------------------------- Answers

/// Failures in an answer. A reader takes in some; the messages of 500 alone may be 8 MiB.
pub const FAILURES_PAGE: PageLimits = PageLimits { default: 50, max: 500 };

/// Patterns and failed tests in an analysis: more kinds of failure than a reader takes in.
pub const ANALYSIS_PAGE: PageLimits = PageLimits { default: 20, max: 500 };
/// See [`ANALYSIS_PAGE`].
pub const ANALYSIS_PATTERNS_MAX: usize = 500;

/// Names of failures in one pattern of an analysis; its frequency counts all.
pub const ANALYSIS_NAMES_MAX: usize = 50;

/// Causes in an analysis beside the root cause: each of its sources gives one or two.
pub const ANALYSIS_FURTHER_CAUSES_MAX: usize = 4;

/// Changed files of which an analysis looks up the coverage. Further ones of a larger change are ranked by stacks and imports.
pub const ANALYSIS_COVERED_FILES_MAX: usize = 200;

/// Files in an analysis. A stack of 200 frames in as many files is an exception.
pub const ANALYSIS_FILES_MAX: usize = 50;

/// Longest message and suggestion in an analysis, in bytes: with all of its patterns, some MiB.
pub const ANALYSIS_TEXT_BYTES_MAX: usize = 2 * KIB;

/// Runs, or flaky or slow tests, in an answer about the history.
pub const HISTORY_PAGE: PageLimits = PageLimits { default: 20, max: 500 };

/// Covering tests in an answer. Where more than 10,000 tests execute a file, a run of all is the better request.
pub const COVERING_TESTS_PAGE: PageLimits = PageLimits { default: 200, max: 10_000 };

/// Listed tests in an answer: all of a large suite at most, see [`TEST_CASES_MAX`].
pub const LISTED_TESTS_PAGE: PageLimits = PageLimits { default: 10_000, max: 100_000 };

/// Bytes in an answer of ReadOutput and ReadArtifact: a page for a reader, and a piece for a copy.
pub const CONTENT_PAGE: PageLimits = PageLimits { default: 64 * 1024, max: 1024 * 1024 };

/// Sessions per page of a tenant: its default number of sessions fits into one.
pub const SESSIONS_PAGE: PageLimits = PageLimits { default: 100, max: 1_000 };

/// Runs or sessions per page of an operator: a page of the most is some MiB.
pub const HOST_PAGE: PageLimits = PageLimits { default: 1_000, max: 10_000 };

/// Most bytes of names in one answer: smaller than a message by the other parts of the answer, build errors above all.
pub const ANSWER_NAMES_BYTES_MAX: usize = 48 * MIB;

/// Most tests named among the deferred failures: as many as a text shows.
pub const DEFERRED_NAMED_MAX: usize = 64;

/// Longest time to read the rest of a larger answer: the largest answer needs it at 2 Mbit/s.
pub const ANSWER_READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Longest text of a status, in bytes. It is sent twice in headers, escaped there and in the details: headers beyond
/// the peer's bound (8 KiB by default in gRPC's own libraries) break the call, or the whole connection.
pub const STATUS_TEXT_BYTES_MAX: usize = KIB;

/// Longest field name in a status, in bytes: a part of it may come from the caller.
pub const STATUS_FIELD_BYTES_MAX: usize = 128;

/// Retry delay after a used-up quota or a host shortage: runs end and sessions close within seconds.
pub const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Retry delay while the supervisor shuts down: another one takes its place within seconds.
pub const RETRY_ELSEWHERE_DELAY: Duration = Duration::from_secs(5);

// -------------------------------------------------------------------------------------------------- Results of a run

/// Longest message, expected or actual value kept per test, in bytes. A screenful is 4 KiB; a diff worth reading fits
/// into four of them.
pub const MESSAGE_BYTES_MAX: usize = 16 * KIB;

/// Longest captured output or stack kept per test, in bytes. The whole stream stays readable through `ReadOutput`.
pub const TEST_OUTPUT_BYTES_MAX: usize = 64 * KIB;

/// Longest test, package or file name kept, in bytes. Parametrised pytest ids reach some KiB; paths end at 4,096.
pub const NAME_BYTES_MAX: usize = 4 * KIB;

/// Most test cases kept in one report. Suites of 60,000 parametrised tests exist; passing ones are dropped first.
pub const TEST_CASES_MAX: usize = 100_000;

/// Most failures kept in a session's slot. Nobody reads more; the total stays exact.
pub const FAILURES_MAX: usize = 10_000;

/// Tests listed in each group of a report's comparison with earlier runs; more are counted.
pub const HISTORY_CHANGES_LISTED_MAX: usize = 50;

/// Most bytes of names in each such group, and of the flaky tests of one run: with all of them a report still fits into one
/// message, whatever the names are.
pub const HISTORY_CHANGES_BYTES_MAX: usize = 64 * KIB;

/// Most executions of the tests of one run: its deadline, which they share, usually ends them before.
pub const REPEAT_MAX: u32 = 1_000;

/// Most retries of failed tests in one run: a test that failed eleven times needs no twelfth.
pub const RETRY_FAILED_MAX: u32 = 10;

/// Flaky tests of one run that its notes describe, of at most [`NOTES_MAX`] notes.
pub const FLAKY_NOTES_MAX: usize = 10;

/// Failed tests of one execution for which the test before them is recorded.
pub const PREDECESSORS_MAX: usize = 1_000;

/// Most names in the list of tests in quarantine of a project: more are no exceptions any more.
pub const QUARANTINE_NAMES_MAX: usize = 1_000;

/// Most build and collection errors kept in one report.
pub const COLLECTORS_MAX: usize = 1_000;

/// Samples of resources in a report: 36 KiB of JSON, and one for each two pixels of a chart. One is taken each second; of a longer
/// run, every second one is dropped as often as needed.
pub const USAGE_SAMPLES_MAX: usize = 512;

/// Most running tests listed when a run is cut off.
pub const RUNNING_NAMES_MAX: usize = 64;

/// Most tests whose stack at the deadline is kept: a person or agent reads one or two, and parallel tests that hang mostly
/// hang for one reason.
pub const HUNG_TESTS_MAX: usize = 16;

/// Longest stack of a test that was running at the deadline, in bytes: some 60 frames.
pub const HUNG_STACK_BYTES_MAX: usize = 8 * KIB;

/// Bytes of each stream kept after a runner was asked for its stacks: those of some 5,000 goroutines.
pub const STACK_DUMP_BYTES_MAX: usize = 2 * 1024 * KIB;

/// Most packages listed as not built because of a dependency.
pub const NOT_BUILT_MAX: usize = 1_000;

/// Most findings with a record in the report of a check: a workspace with more has a rule to turn off. The counts stay
/// exact.
pub const CHECK_FINDINGS_MAX: usize = 5_000;

/// Most bytes of these records: with the rest of a report they fit into one message.
pub const CHECK_FINDINGS_BYTES_MAX: usize = 16 * MIB;

/// Longest message of a finding, reason of a failed checker and note of a check, in bytes. Type errors with long types
/// reach 4 KiB.
pub const CHECK_MESSAGE_BYTES_MAX: usize = 8 * KIB;

/// Longest name of a rule and its address, in bytes: several times the longest that exists.
pub const CHECK_RULE_BYTES_MAX: usize = 512;

/// Most replacements of one fix, and most bytes of their texts. A larger one is described and not repeated.
pub const CHECK_FIX_EDITS_MAX: usize = 64;
/// See [`CHECK_FIX_EDITS_MAX`].
pub const CHECK_FIX_BYTES_MAX: usize = 8 * KIB;

/// Most rules in the counts of a check: more than a reader takes in.
pub const CHECK_RULES_MAX: usize = 200;

/// Fixed findings that a check lists; more are counted.
pub const CHECK_FIXED_LISTED_MAX: usize = 500;

/// Most bytes that a session keeps of the findings of its checks: those of [`CHECK_FINDINGS_MAX`] with usual messages.
pub const CHECK_MEMORY_BYTES_MAX: usize = 4 * MIB;

/// Longest message of a kept finding, in bytes: what the list of fixed ones shows.
pub const CHECK_MEMORY_MESSAGE_BYTES_MAX: usize = 512;

/// Checks of single files after one of everything that a session keeps apart: those of some minutes of edits.
pub const CHECK_SCOPES_MAX: usize = 16;

/// Most commands of one check, one for each checker and project: a monorepo names the directories to check.
pub const CHECK_COMMANDS_MAX: usize = 64;

/// Most bytes of each stream of a checker that are read: the JSON of some 5,000 findings with their fixes. Records of all
/// findings are made before the excess is dropped, in the supervisor and outside of any quota: several times as much.
pub const CHECK_OUTPUT_BYTES_MAX: usize = 8 * MIB;

/// Bytes of each stream repeated at the end of a report (`stdout_tail`, `stderr_tail`).
pub const TAIL_BYTES_MAX: usize = 16 * KIB;

/// Most files for which a runner may report the test that left them; more than are kept.
pub const ARTIFACTS_MAX: usize = 4_096;

/// Most bytes of the tests of one report, as JSON: 100,000 tests with 150 bytes of names each take 31 MiB. The four
/// `REPORT_*_BYTES_MAX` are 56 MiB together, which leaves 8 of the 64 MiB of a message for the other parts; those have
/// bounds of their own. On the wire a report is smaller than as JSON, so it fits there too.
pub const REPORT_TESTS_BYTES_MAX: usize = 40 * MIB;

/// The same for tests that were selected for a rerun and did not report: 10,000 with 400 bytes of names each.
pub const REPORT_NOT_RUN_BYTES_MAX: usize = 4 * MIB;

/// The same for build and collection errors.
pub const REPORT_COLLECTORS_BYTES_MAX: usize = 8 * MIB;

/// The same for the list of artifacts; entries beyond it omit the test that left the artifact. Names alone take less.
pub const REPORT_ARTIFACTS_BYTES_MAX: usize = 4 * MIB;

/// Most bytes of a report in another format than JSON. A CI server reads a few MiB, a browser some 30; a message has room
/// for twice as much.
pub const REPORT_DOCUMENT_BYTES_MAX: usize = 32 * MIB;

/// The least that a caller may ask for: the frame of the HTML page and some failures fit.
pub const REPORT_DOCUMENT_BYTES_MIN: usize = 128 * KIB;

/// Most notes of one kind in a report. They are for people, who read a handful.
pub const NOTES_MAX: usize = 64;

/// Longest note, in bytes: a sentence that quotes a line of the runner's output.
pub const NOTE_BYTES_MAX: usize = 2 * KIB;

/// Most bytes of output in one event. Adjacent output is merged until a reader has seen it, so a runner that writes byte
/// by byte has as many events as one that writes pages.
pub const EVENT_OUTPUT_BYTES_MAX: u32 = 64 * 1024;

/// The least that a file of an ended run counts against its tenant's quota, in bytes: a tenant with a quota of 20 GiB
/// holds at most 20,480 of the supervisor's descriptors.
pub const RETAINED_FILE_BYTES_MIN: u64 = MIB as u64;

/// Longest secret that is recognised across a cut, in bytes: a private key of 16,384 bits in PEM has 13 KiB.
pub const SECRET_BYTES_MAX: usize = 16 * KIB;

/// Most files in a coverage index. The Linux kernel has 80,000 files; larger indexes are of no use to a caller.
pub const COVERED_FILES_MAX: usize = 100_000;

/// Most spans (runs of covered lines) of one file. A file of 10,000 functions has about 50,000.
pub const SPANS_PER_FILE_MAX: usize = 65_536;

/// Most memory of what a session knows of the files that each test file loads, in bytes: 2,000 test files of 3,000 files each.
pub const LOADED_FILES_BYTES_MAX: usize = 16 * MIB;

/// Most memory of a coverage index, in bytes: 13 million lines of 20,000 tests measured one by one take 25 MiB. A test can
/// write a coverage file of its own with any content.
pub const COVERAGE_BYTES_MAX: usize = 64 * MIB;

/// Most memory of the measurements of one run before they are in the index, in bytes: a million of a test's files.
pub const COVERAGE_MEASURED_BYTES_MAX: usize = 256 * MIB;

/// Most spans of changed lines that a report lists because no test executed them, and most names of files beside them. More
/// are a change without tests, which a reader need not see line by line.
pub const UNTESTED_SPANS_MAX: usize = 20;
/// See [`UNTESTED_SPANS_MAX`].
pub const UNTESTED_FILES_MAX: usize = 20;

/// Longest text of one such span in a report, in bytes: some ten lines.
pub const UNTESTED_SOURCE_BYTES_MAX: usize = 512;

/// Most changed sources that are compared line by line after a run: a large merge.
pub const UNTESTED_SOURCES_MAX: usize = 1_000;

/// Most bytes of these sources together. Their lines take up to ten times as much memory while they are compared.
pub const UNTESTED_BYTES_MAX: usize = 8 * MIB;

/// Most files whose text a session remembers, to see later what changed: a large repository. Beyond, all tests run.
pub const SNAPSHOT_FILES_MAX: usize = 30_000;

/// Most memory of these texts, in bytes: two million lines of source. A session keeps at most two such snapshots.
pub const SNAPSHOT_BYTES_MAX: usize = 12 * MIB;

/// Most bytes of files that are read for one snapshot. Files that were read for the one before are not read again.
pub const SNAPSHOT_READ_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Largest file whose content a run may replace, in bytes: sources that are compared by line.
pub const REPLACED_FILE_BYTES_MAX: usize = TEXT_BYTES_MAX;

/// Most mutants of one `proctor mutate`: a day of tests that take ten seconds.
pub const MUTANTS_MAX: u32 = 10_000;

/// Most mutants at a time: the run of each may use the memory of a whole suite.
pub const MUTATE_JOBS_MAX: u32 = 64;

/// Mutants of a `proctor mutate` that names no number: some minutes for most projects.
pub const MUTANTS_DEFAULT: u32 = 200;

/// Longest file that is compared by line, in bytes and lines. A longer one counts as changed entirely.
pub const TEXT_BYTES_MAX: usize = 2 * MIB;
/// See [`TEXT_BYTES_MAX`].
pub const TEXT_LINES_MAX: usize = 50_000;

/// Earlier texts that are kept of one file while tests are measured at different times.
pub const EARLIER_TEXTS_MAX: usize = 4;

/// Most bytes of source text that one selection reads to find who imports what.
pub const SELECTION_SOURCE_BYTES_MAX: usize = 64 * MIB;

/// Most memory of the names of tests whose last result a session remembers, in bytes.
pub const BASELINE_TESTS_BYTES_MAX: usize = 16 * MIB;

/// Selected tests in an answer. The counts are those of all.
pub const AFFECTED_TESTS_PAGE: PageLimits = PageLimits { default: 200, max: 10_000 };

/// Most changed lines of one file whose tests are looked up line by line. With more, the tests of the file are selected.
pub const SELECTION_LINES_MAX: usize = 400;

/// Most changed files that a selection compares line by line. With more, all tests run.
pub const SELECTION_CHANGES_MAX: usize = 500;

/// Most bytes of a `Cargo.toml` that a selection reads. With a larger one, all tests run.
pub const MANIFEST_BYTES_MAX: usize = 256 * KIB;

/// Most changed files of a kind (documentation; new or removed sources of JavaScript; any of Rust) whose names one selection
/// searches in all sources, of [`SELECTION_SOURCE_BYTES_MAX`] together. With more, all tests run.
pub const SELECTION_NAMED_FILES_MAX: usize = 200;

/// Most sets of tests that were measured together: one per package, or one per test where the language allows that.
pub const COVERAGE_UNITS_MAX: usize = 200_000;

// ----------------------------------------------------------------------------------------------- Sessions and queues

/// Default number of sessions of all tenants together. An idle session takes some kilobytes.
pub const SESSIONS_MAX: usize = 100_000;

/// Default idle time after which a session closes: longer than a night, so that its failures and coverage are there in
/// the morning.
pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// Least idle time that a host file may set. Runs are readable until then, so it has to allow for another call.
pub const SESSION_IDLE_MIN: Duration = Duration::from_secs(1);

/// Most runs waiting behind the running one of a session. An agent asks for one at a time; eight is a team of agents.
pub const QUEUED_RUNS_MAX: usize = 8;

/// Most finished runs per session with readable events; the session forgets the oldest first.
pub const FINISHED_RUNS_MAX: usize = 16;

/// How long a run without watchers continues, in milliseconds. An agent's client gives up after its own timer and asks
/// again within seconds; an abandoned run must not hold the host.
pub const DETACHED_MS_MAX: u64 = 30_000;

/// Most runs waiting for their turn on a host, of all tenants together: 1,000 tenants with 100 runs each, some 11 MiB.
pub const HOST_QUEUED_RUNS_MAX: usize = 100_000;

/// Most runs in progress on a host, of all tenants together; more wait for their turn. Each has a supervisor thread, a
/// worker and some twenty descriptors, and no known host has processors for more runs than this. Without the bound a
/// tenant with tiny runs could take all threads of the host.
pub const HOST_RUNNING_RUNS_MAX: usize = 1_024;

/// Highest reported queue position. Nobody plans with a number beyond it, and reporting all positions would cost more
/// than choosing the next run.
pub const POSITION_MAX: u32 = 1_000;

/// How long the first run that does not fit lets others pass, in milliseconds. Test runs take seconds to minutes.
/// Budget kept free costs more the more often the host drains, and the owner of a large run waits for minutes anyway.
pub const RESERVE_AFTER_MS: u64 = 30_000;

/// Most runs of higher priority that start in a row before a waiting run of a lower one. Eight runs are a team's worth,
/// and a nightly job that gets every ninth or tenth turn still ends.
pub const PASSED_OVER_MAX: u32 = 8;

// ----------------------------------------------------------------------------------------------------------- Tenants

/// Most tenants of a host. Each has user ids of its own, and a host shared by more would serve none of them.
pub const TENANTS_MAX: usize = 10_000;

/// Most tenants with a label of their own in metrics; the others are added up. A label makes some twenty series, and a
/// store of metrics should not get hundreds of thousands from each host.
pub const TENANT_LABELS_MAX: usize = 64;

/// Scrapes of metrics at a time, each on a connection of its own: a scraper has one or two. More wait in the kernel.
pub const SCRAPES_MAX: usize = 16;

/// Viewers of the page at a time, reports that are being sent included. A stream costs some tens of KiB a second; a
/// report also memory, which counts as unread bytes of its tenant, see [`UNREAD_BYTES_MAX`].
pub const VIEWERS_MAX: usize = 64;

/// Viewers of one tenant, or of all operators together. Operators have so many places of their own; all tenants share the
/// rest of [`VIEWERS_MAX`], so that a few with many viewers can keep others out, and none keeps out an operator.
pub const VIEWERS_PER_CALLER_MAX: usize = 16;

/// Short requests of the page at a time: what a browser asks for at once, some times. More are refused, so that scrapes
/// keep their places.
pub const PAGE_REQUESTS_MAX: usize = 32;

/// Longest token of a login, in bytes: some times what identity providers issue.
pub const LOGIN_TOKEN_BYTES_MAX: usize = 8 * KIB;

/// Logins of browsers at a time, each with its token: 32 MiB at most. For a new one the oldest of the caller with the
/// most ends.
pub const LOGINS_MAX: usize = 4_096;

/// Logins of one tenant, or of all operators together: a team with a few browsers each.
pub const LOGINS_PER_CALLER_MAX: usize = 256;

/// Sessions on one page of the page for people, and most runs, queued runs, outcomes and tenants that it lists: a few
/// screens.
pub const PAGE_ROWS_MAX: usize = 50;

/// Sessions that the page looks at, a fair share of each tenant and beside it all busy ones. Asking this many takes some
/// tenths of a second.
pub const OBSERVED_SESSIONS_MAX: usize = 20_000;

/// Largest report that the page sends, in bytes. A browser that scrolls through more is no help.
pub const PAGE_REPORT_BYTES_MAX: usize = 16 * MIB;

/// Default number of ended spans that wait for the collector, those being sent included: the default of OpenTelemetry.
/// Some 0.5 KiB each, 4 KiB with a caller's `tracestate`, and 40 KiB with [`TRACE_TESTS_MAX`] tests.
pub const TRACE_QUEUE_SPANS: usize = 2_048;

/// Shortest time between two messages with metrics to a collector, in milliseconds: each is read from all tasks.
pub const METRICS_INTERVAL_MIN_MS: u64 = 1_000;

/// Most spans that the host file may let wait: 100 MiB if one in eight has all the tests that it may have.
pub const TRACE_QUEUE_SPANS_MAX: usize = 16_384;

/// Most tests of a run that its spans have as events; half of the places are for those that failed. A trace shows
/// where time went; the report has all tests.
pub const TRACE_TESTS_MAX: usize = 128;

/// Most executions of a run that have spans of their own, of the [`REPEAT_MAX`] that it may have.
pub const TRACE_EXECUTIONS_MAX: usize = 16;

/// Longest text from a caller or a project in a span, in bytes: the names of most tests.
pub const TRACE_TEXT_BYTES_MAX: usize = 256;

/// Longest `tracestate` that is taken over from a caller, in bytes: what W3C Trace Context asks everybody to pass on.
pub const TRACE_STATE_BYTES_MAX: usize = 512;

/// Default number of a tenant's sessions at a time: a team of a hundred agents with ten each.
pub const TENANT_SESSIONS_MAX: usize = 1_000;

/// Default number of a tenant's waiting runs: a team of a hundred agents with a few sessions each.
pub const TENANT_QUEUED_RUNS_MAX: u32 = 1_000;

/// Default requests of a tenant per second: such a flood of one tenant takes at most half a processor.
pub const TENANT_REQUESTS_PER_S_MAX: u32 = 20_000;

/// Default number of a tenant's event streams: ten for each session that the tenant may have by default.
pub const TENANT_SUBSCRIBERS_MAX: u32 = 10_000;

/// Default bytes retained of a tenant's runs: as much as its build caches.
pub const TENANT_RETAINED_BYTES_MAX: u64 = TENANT_CACHE_BYTES_MAX;

/// Default memory within that, in bytes: the last runs of a hundred agents with 10,000 tests each.
pub const TENANT_RETAINED_MEMORY_BYTES_MAX: u64 = 2 * GIB;

/// Least that a host file may set for it, in bytes. It must cover what one run may keep, or the end of that run would
/// reject all others: the events and the report of a run may take 160 MiB each.
pub const TENANT_RETAINED_MEMORY_BYTES_MIN: u64 = 320 * MIB as u64;

/// Least of a tenant's retained bytes beyond the `log` limit of one run: [`TENANT_RETAINED_MEMORY_BYTES_MIN`], and
/// artifacts of 64 MiB; rounded up.
pub const TENANT_RETAINED_BESIDE_LOG_MIN: u64 = 512 * MIB as u64;

/// Default bytes of a tenant's history of runs: 40,000 runs of 2,000 tests.
pub const TENANT_HISTORY_BYTES_MAX: u64 = 256 * MIB as u64;

/// Least bytes of a tenant's history: some runs of as many tests as a report lists.
pub const TENANT_HISTORY_BYTES_MIN: u64 = 16 * MIB as u64;

/// Most runs in the history of one workspace: a year of one run each hour.
pub const HISTORY_RUNS_MAX: u64 = 10_000;

/// Runs that may wait to be written to the histories of all tenants: more only pile up while a disk does not answer, and
/// then their reports say that the history is unavailable. Together they take at most 256 MiB.
pub const HISTORY_QUEUED_RUNS_MAX: usize = 32;

/// Runs of one tenant among them: a quarter, so that one tenant's locked or slow database leaves room for others.
pub const HISTORY_QUEUED_RUNS_OF_TENANT_MAX: u32 = 8;

/// Most bytes of test names of one run in the history, some 100,000 names; the run's further tests are left out.
pub const HISTORY_RUN_NAMES_BYTES_MAX: usize = 8 * MIB;

/// Longest time that the end of a run waits for its comparison with the history, which takes milliseconds. A busy disk may
/// take seconds for the first record of a new database.
pub const HISTORY_WAIT: Duration = Duration::from_secs(5);

/// Latest runs whose results show which tests are flaky or slow, or how one test fared: a few weeks of work. Their
/// results are read within 50 ms for a suite of 2,000 tests.
pub const HISTORY_STATISTICS_RUNS_MAX: u64 = 500;

/// Passed results of a test, and none that failed, before it counts as one that never fails: of fewer, a test that fails in
/// one run of ten would pass all with a probability of more than 12 %.
pub const NEVER_FAILING_RESULTS_MIN: u64 = 20;

/// Default bytes of a tenant's build caches between runs, and of a user's own: those of some large projects.
pub const TENANT_CACHE_BYTES_MAX: u64 = 20 * GIB;

/// Most workspaces of one tenant with build caches, which bounds the directories of agents that make a clone for each
/// task.
pub const TENANT_CACHED_WORKSPACES_MAX: usize = 4_096;

/// The highest weight of a tenant, which is finer than anybody shares a host.
pub const TENANT_WEIGHT_MAX: u32 = 1_000;

/// Most bytes of one tenant's requests that have arrived and are not answered yet: eight of the largest.
pub const UNANSWERED_BYTES_MAX: u64 = 8 * REQUEST_BYTES_MAX as u64;

/// Most bytes of answers encoded for one tenant that it has not read: four of the largest, and eight reports of 100,000
/// tests. Reports that the page sends count too: 16 of the largest, see [`PAGE_REPORT_BYTES_MAX`].
pub const UNREAD_BYTES_MAX: u64 = 256 * MIB as u64;

/// Most large answers being encoded for one tenant at a time: more than a host has processors for, and their memory is
/// no more than one tenant may leave unread.
pub const ENCODE_PERMITS_MAX: usize = 4;

// ------------------------------------------------------------------------------------------------------- Connections

/// Most connections of one listener at a time. A shim or a service has one, so this is thousands of them, and a
/// fraction of the supervisor's descriptors.
pub const CONNECTIONS_MAX: usize = 4_096;

/// Most streams of one connection at a time: a shim has one or two, a platform service a few hundred.
pub const STREAMS_MAX: u32 = 1_024;

/// Most concurrent calls of one connection without authentication: health and reflection. A prober has one of each.
pub const OPEN_CALLS_MAX: u32 = 16;

/// How long a peer may take to send the HTTP/2 preface, a TLS handshake included. After the preface, the keepalive
/// pings the peer.
pub const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// A silent peer is pinged after this time: more often would wake idle agents for nothing.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// A peer that does not answer a ping within this time, or does not read it, is dropped.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

// -------------------------------------------------------------------------------------------------------- Host file

/// Largest host file in bytes: ten thousand tenants with a few identities each. A file is read whole, and each SIGHUP
/// waits for the one before: a file filled by mistake must not keep an operator from revoking a credential.
pub const HOST_FILE_BYTES_MAX: u64 = 4 * MIB as u64;

/// Longest path of a unix socket, in bytes: a `sockaddr_un` holds 108 including the final zero.
pub const UNIX_SOCKET_PATH_BYTES_MAX: usize = 107;

/// The lowest UID for tenants. Lower ones belong to the system.
pub const TENANT_UID_MIN: u32 = 1_000;

/// Longest JSON web token, in bytes. Issuers that include a person's groups reach a few kibibytes.
pub const JWT_BYTES_MAX: usize = 8 * KIB;

/// Default tolerance for clock differences to the issuer of JSON web tokens, in seconds: hosts with a time service.
pub const JWT_LEEWAY_S: u64 = 30;

/// Most tolerance that a host file may set, in milliseconds. A larger difference is a clock to be set.
pub const JWT_LEEWAY_MS_MAX: u64 = 5 * 60 * 1_000;

/// Least length of an RSA modulus in bytes: 2,048 bits, the least that NIST SP 800-131A accepts.
pub const RSA_MODULUS_BYTES_MIN: usize = 256;

/// Lowest output limit of a run, in bytes: below it a runner's own lines count as a flood.
pub const LOG_BYTES_MIN: u64 = 64 * KIB as u64;

/// Lowest `/tmp` size of a run, in bytes: below it proctor's own files do not fit.
pub const TMP_BYTES_MIN: u64 = MIB as u64;

/// Lowest write rate of a run, in bytes per second: below it the end of a run waits for its disk.
pub const WRITE_BYTES_PER_S_MIN: u64 = MIB as u64;

/// Default ceiling of a run's processes: the default `pid_max` of the kernel, and far below what a host has for all
/// runs.
pub const PIDS_CEILING: u32 = 32_768;

/// Default ceiling of a run's file growth, in bytes: ten times the default limit. Disk space is not part of the host's
/// budget, so this is a fixed number.
pub const DISK_BYTES_CEILING: u64 = 100 * GIB;

/// Default time that runs get to finish when the supervisor ends: most suites end within it.
pub const DRAIN_GRACE: Duration = Duration::from_secs(30);

/// Longest time that an operator may grant: a day.
pub const DRAIN_GRACE_MAX: Duration = Duration::from_secs(86_400);

/// Most paths mounted for the toolchains of a host. Each is a mount of every run.
pub const TOOLCHAIN_MOUNTS_MAX: usize = 64;

// -------------------------------------------------------------------------------------------------------- Workspaces

/// Longest path that the kernel opens, in bytes: `PATH_MAX` without its final NUL.
pub const PATH_BYTES_MAX: usize = 4_095;

/// Most files and directories in one scan; the rest is left out, and the report says so.
pub const SCAN_ENTRIES_MAX: usize = 200_000;

/// Above this number of entries, names of data files are dropped, which leaves room for files that may be tests.
pub const SCAN_ENTRIES_WITH_DATA_MAX: usize = 100_000;

/// Most dropped names of data: reading this many takes a second.
pub const SCAN_DROPPED_DATA_MAX: usize = 2_000_000;

/// Deepest directory scanned. Deeper trees are generated.
pub const SCAN_DEPTH_MAX: usize = 64;

/// Memory budget of any scan, in bytes: names and settings of some 5,000 files. Permits bound the number of scans.
pub const SCAN_BYTES_SMALL: usize = MIB;

/// Memory budget of a scan with a large permit, in bytes: [`SCAN_ENTRIES_MAX`] entries with 160 bytes of path each,
/// twice that of deep package trees. A long directory name counts for each file below it.
pub const SCAN_BYTES_LARGE: usize = 64 * MIB;

/// Largest marker file read, in bytes. A `go.mod` of 1 MiB would name 20,000 modules.
pub const MARKER_BYTES_MAX: u64 = MIB as u64;

/// The same for requirement lists (`test.txt`), which may also be data: of a larger one only the beginning is read.
pub const REQUIREMENTS_BYTES_MAX: u64 = 64 * KIB as u64;

/// Most bytes of marker files read together. A monorepo of 1,000 modules has a few MiB of them.
pub const MARKERS_BYTES_MAX: u64 = 16 * MIB as u64;

// -------------------------------------------------------------------------------------------------------------- Logs

/// Audit lines that may be queued: those of 10,000 calls a second while a disk stalls for most of a second, some 4 MiB,
/// or 16 MiB of the longest lines. Lines that find no room are counted.
pub const AUDIT_QUEUED_LINES_MAX: usize = 8_192;

/// Rate-limited audit lines of one tenant in a second, and in a burst after a second of silence: callers that poll or
/// guess by hand are logged completely.
pub const AUDIT_LINES_PER_S_MAX: u32 = 10;

/// Most bytes of one text of a caller in the audit log: a sentence, or four times one of proctor's names. Bounds the
/// length of a line that callers control.
pub const AUDIT_TEXT_BYTES_MAX: usize = 256;

/// Default size of a file of the audit log, in bytes, at which a new file is started: some 130,000 lines.
pub const AUDIT_FILE_BYTES: u64 = 64 * MIB as u64;

/// The smallest size that a host file may set: some hundred lines.
pub const AUDIT_FILE_BYTES_MIN: u64 = 64 * KIB as u64;

/// Default number of earlier files of the audit log that are kept.
pub const AUDIT_FILES_KEPT: u32 = 8;

/// Most earlier files that a host file may keep: each is renamed at every rotation.
pub const AUDIT_FILES_KEPT_MAX: u32 = 1_000;

/// Queued lines of a daemon's log, usually of 100 to 300 bytes. Lines that find no room are counted.
pub const LOG_QUEUED_LINES_MAX: usize = 4_096;

/// Most bytes of a line of the log. Longer lines come from untrusted text in them.
pub const LOG_LINE_BYTES_MAX: usize = 8 * KIB;

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

/// The line above the end of a clipped text, before and after its number. Injected reporters write it too.
const LEFT_OUT: (&str, &str) = ("[", " bytes before this are left out]\n");

/// Longest such line.
const LEFT_OUT_BYTES_MAX: usize = 64;

/// Clips `text` to the end of it that fits into `bytes_max` bytes, below a line that says how many bytes are left out. A
/// text that begins with such a line gets one line with the sum.
#[must_use]
pub fn clip_beginning(text: String, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text;
    }
    let (before, whole) = left_out(&text).unwrap_or((0, &text));
    let mut begin = whole.len().saturating_sub(bytes_max.saturating_sub(LEFT_OUT_BYTES_MAX));
    while !whole.is_char_boundary(begin) {
        begin += 1;
    }
    format!("{}{}{}{}", LEFT_OUT.0, before.saturating_add(begin as u64), LEFT_OUT.1, &whole[begin..])
}

/// Appends to an output of which the last `bytes_max` bytes are kept; it has at most twice as many, and one piece.
pub fn push_keeping_end(output: &mut String, more: &str, bytes_max: usize) {
    output.push_str(more);
    if output.len() > 2 * bytes_max {
        *output = clip_beginning(std::mem::take(output), bytes_max);
    }
}

/// The number in the line with which a clipped text begins, and the text below it.
fn left_out(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = text.strip_prefix(LEFT_OUT.0)?.split_once(LEFT_OUT.1)?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clamps_a_requested_number_to_default_and_maximum() {
        let limits = PageLimits { default: 3, max: 10 };
        assert_eq!([0, 1, 3, 10, 11, u32::MAX].map(|requested| limits.clamp(requested)), [3, 1, 3, 10, 10, 10]);
    }

    #[test]
    fn a_text_clipped_twice_says_how_much_is_left_out_in_all() {
        let once = clip_beginning("x".repeat(1_000) + "end", 500);
        assert!(once.starts_with("[567 bytes before this are left out]\nx") && once.ends_with("xend"), "{once}");
        let twice = clip_beginning(once, 400);
        assert!(twice.starts_with("[667 bytes before this are left out]\nx") && twice.ends_with("xend"), "{twice}");
        assert_eq!(clip_beginning("short".to_owned(), 5), "short");
        let mut output = String::new();
        (0..1_000).for_each(|number| push_keeping_end(&mut output, &format!("{number}\n"), 100));
        let output = clip_beginning(output, 100);
        let (left_out, end) = left_out(&output).unwrap();
        assert!(output.len() <= 100 && end.ends_with("\n998\n999\n"), "{output}");
        assert_eq!(left_out + end.len() as u64, 3_890, "of all that was appended");
    }

    proptest! {
        #[test]
        fn clip_beginning_never_exceeds_its_bound_and_keeps_a_suffix(text in ".*", bytes_max in 100usize..200) {
            let clipped = clip_beginning(text.clone(), bytes_max);
            prop_assert!(clipped.len() <= bytes_max);
            let end = left_out(&clipped).map_or(clipped.as_str(), |(_, end)| end);
            prop_assert!(text.ends_with(end));
        }

        #[test]
        fn clip_never_exceeds_its_bound_and_keeps_a_prefix(text in ".*", bytes_max in 3usize..64) {
            let clipped = clip(text.clone(), bytes_max);
            prop_assert!(clipped.len() <= bytes_max);
            prop_assert!(text.starts_with(clipped.trim_end_matches('…')));
        }
    }
}

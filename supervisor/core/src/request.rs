//! What a caller requests of a run, validated and independent of the transport.

use crate::check::CheckRequest;
use crate::filter::Filter;
use crate::isolation::Network;
use crate::limits::LimitRequest;
use crate::repetition::Repetition;
use crate::test_case::TestId;
use crate::test_name::TestName;
use crate::test_order::TestOrder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunKind {
    /// Runs tests and replaces the session's failure slot.
    Tests,
    /// Lists tests without running them, and leaves the failure slot alone.
    Listing,
    /// Runs linters and type checkers, and leaves what is known of tests alone.
    Check,
}

/// A request for a run. Two equal requests on an unchanged workspace are one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunRequest {
    /// Framework by name, `all`, or `None` for detection.
    pub framework: Option<String>,
    /// Selected tests.
    pub selection: Selection,
    /// Command that replaces the framework's own; empty for none.
    pub command: Vec<String>,
    /// Requested limits.
    pub limits: LimitRequest,
    /// Requested network access; `None` takes the tenant's default.
    pub network: Option<Network>,
    /// Whether to measure coverage.
    pub coverage: CoverageMode,
    /// Variables added to the run's environment.
    pub env: BTreeMap<String, String>,
    /// Parallel tests within one package or process, for runners with such an option.
    pub parallel: Option<u32>,
    /// Browser options, for frameworks that drive one.
    #[serde(default)]
    pub browsing: BrowserOptions,
    /// Whether the run gets empty caches instead of its workspace's; they are removed when it ends.
    #[serde(default)]
    pub fresh: bool,
    /// How often the run executes its tests.
    #[serde(default)]
    pub repetition: Repetition,
    /// The order of the tests. Left out of the stored form where it is the project's own, as before there was a choice.
    #[serde(default, skip_serializing_if = "TestOrder::is_own")]
    pub order: TestOrder,
    /// What a check is to find; `None` for tests, and in what is stored of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<RequestedCheck>>,
    /// Whether the runner stops at the first failure, where it has such an option.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_at_first_failure: bool,
    /// A source file that has other content in this run. No caller can ask for it and none of it is stored: mutation
    /// testing sets it.
    #[serde(skip)]
    pub replaced_file: Option<Arc<ReplacedFile>>,
}

/// A file of the workspace that has other content in one run. The workspace keeps its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReplacedFile {
    /// Path of an existing regular file, relative to the workspace.
    pub path: String,
    /// Its content in the run, at most [`REPLACED_FILE_BYTES_MAX`](crate::bounds::REPLACED_FILE_BYTES_MAX).
    pub text: String,
}

impl RunRequest {
    /// The state whose differences from the workspace decide what the run does or shows.
    #[must_use]
    pub fn compared_with(&self) -> Option<&EarlierState> {
        match &self.selection {
            Selection::Affected { since } => Some(since),
            _ => self.check.as_ref().and_then(|check| check.since.as_ref()),
        }
    }
}

/// A check, and the files whose findings it lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestedCheck {
    /// Checkers and files.
    pub request: CheckRequest,
    /// Only findings in files that changed since this state.
    pub since: Option<EarlierState>,
}

/// Browser options of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BrowserOptions {
    /// Whether the browser has a visible window.
    pub headed: bool,
    /// The browser; `None` takes the project's choice.
    pub browser: Option<Browser>,
}

impl BrowserOptions {
    /// Name of the first option that is set.
    #[must_use]
    pub fn requested_option(self) -> Option<&'static str> {
        if self.headed { Some("headed") } else { self.browser.map(|_| "browser") }
    }
}

/// A browser that tests can be run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Browser {
    /// Chromium and what is built from it.
    Chromium,
    /// Firefox.
    Firefox,
    /// What Safari is built from.
    Webkit,
}

impl Browser {
    /// All browsers.
    pub const ALL: [Browser; 3] = [Browser::Chromium, Browser::Firefox, Browser::Webkit];

    /// The name in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Browser::Chromium => "chromium",
            Browser::Firefox => "firefox",
            Browser::Webkit => "webkit",
        }
    }

    /// The browser with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Browser> {
        Browser::ALL.into_iter().find(|browser| browser.name() == name)
    }
}

/// The selected tests of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// All tests.
    #[default]
    All,
    /// The tests that match the runner's own filter, in the packages of these files (all packages when empty).
    Matching {
        /// The runner's own filter expression.
        filter: Option<Filter>,
        /// Files relative to the workspace.
        files: Vec<String>,
    },
    /// The tests with these names, sorted. The frameworks of the run resolve this to [`Selection::Exactly`].
    Named(Vec<TestName>),
    /// The failures of the session's last run, at most `limit` entries. The session resolves this to
    /// [`Selection::Exactly`].
    LastFailed {
        /// Most entries to rerun; `None` is all.
        limit: Option<u32>,
    },
    /// The tests that changes since an earlier state may affect. The scan of the workspace resolves this to
    /// [`Selection::Exactly`] or, where it cannot be sure, to [`Selection::All`].
    Affected {
        /// The state with which the workspace is compared.
        since: EarlierState,
    },
    /// Exactly these tests and packages.
    Exactly(Vec<RerunTarget>),
}

/// A state of a workspace with which it is compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierState {
    /// The last run.
    LastRun,
    /// The last run of all tests that passed.
    LastGreen,
    /// A git revision.
    Revision(String),
}

impl EarlierState {
    /// The state that `since` names; `None` for an empty one.
    #[must_use]
    pub fn new(since: &str) -> Option<EarlierState> {
        match since {
            "" => None,
            "last_run" => Some(EarlierState::LastRun),
            "last_green" => Some(EarlierState::LastGreen),
            revision => Some(EarlierState::Revision(revision.to_owned())),
        }
    }
}

impl Selection {
    /// Whether the selection is the whole suite, so that its coverage may replace the whole index.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self, Selection::All)
    }
}

/// Framework name in a request that selects all frameworks with a project in the workspace.
pub const ALL_FRAMEWORKS: &str = "all";

/// Framework name in a report of a command that the project or the request gave. A request cannot name it.
pub const CUSTOM_FRAMEWORK: &str = "custom";

/// A test or package to run, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RerunTarget {
    /// A whole package or file that failed to build or load.
    Package(String),
    /// One test.
    Test(TestId),
    /// Every test with this name, whatever its package.
    Name(String),
}

impl RerunTarget {
    /// The target of a test whose package is empty if it may be any.
    #[must_use]
    pub fn from_test(test: TestId) -> RerunTarget {
        if test.package.is_empty() { RerunTarget::Name(test.name) } else { RerunTarget::Test(test) }
    }

    /// The package itself, or the package of the test; `None` if it may be any.
    #[must_use]
    pub fn package(&self) -> Option<&str> {
        match self {
            RerunTarget::Package(package) => Some(package),
            RerunTarget::Test(test) => Some(&test.package),
            RerunTarget::Name(_) => None,
        }
    }
}

/// Whether a run measures coverage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageMode {
    /// Yes where the framework can, unless that makes all tests much slower.
    #[default]
    Auto,
    /// Yes where the framework can.
    On,
    /// No coverage.
    Off,
}

/// What to do while another run of the session is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IfBusy {
    /// Attach to an identical run on an unchanged workspace, else wait behind it.
    #[default]
    Queue,
    /// Attach to an identical run on an unchanged workspace, else refuse.
    Refuse,
}

/// Hash over the state of a workspace's files: equal fingerprints mean that nothing was edited in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

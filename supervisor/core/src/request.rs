//! What a caller asks of a run, checked and free of transport. Must not know how it arrived or how it will be run.

use crate::filter::Filter;
use crate::isolation::Network;
use crate::limits::LimitRequest;
use crate::test_case::TestId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunKind {
    /// It runs tests, and replaces what its session knows of failures.
    Tests,
    /// It lists tests without running them, and leaves all of that alone.
    Listing,
}

/// One request for a test run. Two equal requests on an unchanged workspace are one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunRequest {
    /// Framework by name, `all`, or `None` to detect it.
    pub framework: Option<String>,
    /// Which tests.
    pub selection: Selection,
    /// A command that replaces the framework's own; empty for none.
    pub command: Vec<String>,
    /// Bounds asked for.
    pub limits: LimitRequest,
    /// Network asked for; `None` takes the tenant's default.
    pub network: Option<Network>,
    /// Whether to measure coverage.
    pub coverage: CoverageMode,
    /// Variables added to the run's environment.
    pub env: BTreeMap<String, String>,
    /// Tests at the same time within one package or process, where the runner can be told.
    pub parallel: Option<u32>,
    /// Which browser, for frameworks that drive one.
    #[serde(default)]
    pub browsing: Browsing,
    /// Whether the run has empty caches, which are removed when it ends, in place of its workspace's.
    #[serde(default)]
    pub fresh: bool,
}

/// What a request says about browsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Browsing {
    /// Whether the browser has a window.
    pub headed: bool,
    /// Which it is; `None` leaves it to the project.
    pub browser: Option<Browser>,
}

impl Browsing {
    /// The option that is asked for; the first, if both are.
    #[must_use]
    pub fn option(self) -> Option<&'static str> {
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
    /// All of them.
    pub const ALL: [Browser; 3] = [Browser::Chromium, Browser::Firefox, Browser::Webkit];

    /// Its name in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Browser::Chromium => "chromium",
            Browser::Firefox => "firefox",
            Browser::Webkit => "webkit",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Browser> {
        Browser::ALL.into_iter().find(|browser| browser.name() == name)
    }
}

/// Which tests of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// All of them.
    #[default]
    All,
    /// Those that the runner's own filter picks, in the packages of these files (all packages when empty).
    Matching {
        /// The runner's own filter expression.
        filter: Option<Filter>,
        /// Files relative to the workspace.
        files: Vec<String>,
    },
    /// What failed in the session's last run, at most `limit` entries. The session turns it into [`Selection::Exactly`].
    LastFailed {
        /// Most entries to rerun; `None` is all.
        limit: Option<u32>,
    },
    /// Exactly these.
    Exactly(Vec<RerunTarget>),
}

impl Selection {
    /// Whether the selection is the whole suite, so that its coverage may replace everything known before.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self, Selection::All)
    }
}

/// What a request calls all frameworks that the workspace has projects of.
pub const ALL_FRAMEWORKS: &str = "all";

/// What a report calls the framework of a command that is nobody's but the project's or the request's. No request can name it.
pub const CUSTOM_FRAMEWORK: &str = "custom";

/// One thing to run again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RerunTarget {
    /// A whole package or file: what failed to build or to load.
    Package(String),
    /// One test.
    Test(TestId),
}

impl RerunTarget {
    /// The package that it is, or is in.
    #[must_use]
    pub fn package(&self) -> &str {
        match self {
            RerunTarget::Package(package) => package,
            RerunTarget::Test(test) => &test.package,
        }
    }
}

/// Whether a run measures coverage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageMode {
    /// As the framework's adapter sees fit.
    #[default]
    Auto,
    /// Not at all.
    Off,
}

/// What to do while another run of the session is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IfBusy {
    /// Attach to an identical run on an unchanged workspace, else wait behind it.
    #[default]
    Queue,
    /// Attach to an identical run on an unchanged workspace, else refuse.
    Refuse,
}

/// What the files of a workspace looked like: equal fingerprints mean that nothing was edited in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

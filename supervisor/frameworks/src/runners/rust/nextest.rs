//! Builds the command lines of cargo-nextest, and parses the names in its stream and in its lists.
//!
//! Nextest's libtest-compatible JSON is experimental and enabled by a variable. It names binaries by package and file only, so
//! a library and a program of the same name are distinguished by the suite that began last. Nextest runs no doctests.

use super::binary_names::Binary;
use super::cargo::{COLOUR, common_options, names};
use super::selection::groups;
use super::test_lines;
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Plan, PlanError, PlanRequest, ScopeGlobs, Step, TestScope};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The framework's name.
pub(super) const NAME: &str = "nextest";

/// Nextest's settings file, below a project's directory.
pub(super) const SETTINGS: &str = ".config/nextest.toml";

/// The plan of a run.
pub(super) fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut options = ["run", "--no-fail-fast", "--cargo-message-format=json", "--message-format=libtest-json-plus"]
        .map(str::to_owned)
        .to_vec();
    options.extend(request.parallel.map(|tests| format!("--test-threads={}", tests.max(1))));
    let mut plan = plan_with(projects, tree, request, &options)?;
    test_lines::plan_measurement(&mut plan, NAME, tree, request);
    Ok(plan)
}

/// The plan of a listing. Listing builds everything, and runs each binary for its names.
pub(super) fn plan_listing(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
) -> Result<Plan, PlanError> {
    let mut options = ["list", "--cargo-message-format=json", "--message-format=json"].map(str::to_owned).to_vec();
    // Of an ignored test nextest says that it is ignored, whatever the filterset says.
    options.extend(filterset(request.scope).map(|_| "--run-ignored=all".to_owned()));
    plan_with(projects, tree, request, &options)
}

fn plan_with(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    options: &[String],
) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    for group in groups(NAME, projects, tree, request.selection)? {
        let mut args = vec!["nextest".to_owned()];
        args.extend_from_slice(options);
        args.extend(common_options(&group, tree, request));
        args.extend(filterset(request.scope).map(|filterset| format!("--filterset={filterset}")));
        args.push("--".to_owned());
        args.extend(names(&group.names));
        let env = BTreeMap::from([("NEXTEST_EXPERIMENTAL_LIBTEST_JSON".to_owned(), "1".to_owned())]);
        plan.steps.push(Step { programs: vec!["cargo".to_owned()], args, dir: group.project.dir.clone(), env });
    }
    Ok(plan)
}

/// The scope's names as a filterset: the whole path of a test, its last part, or a module above it. It narrows the profile's default
/// filter further.
fn filterset(scope: &TestScope) -> Option<String> {
    let of = |globs: &ScopeGlobs| {
        // A `/` would end the expression, and no glob for names has one.
        let names = globs.name_expression()?;
        Some(format!("test(/^(.*::)?({names})(::.*)?$/)"))
    };
    match (of(&scope.patterns), of(&scope.exclude)) {
        (Some(wanted), Some(excluded)) => Some(format!("{wanted} and not {excluded}")),
        (None, Some(excluded)) => Some(format!("not {excluded}")),
        (wanted, None) => wanted,
    }
}

/// The command that lists the ignored tests among select that `run` selects. A run's stream only counts them by suite, and
/// names only select that are skipped while another test of their suite runs.
pub(super) fn list_ignored(run: &Step) -> Step {
    let options = run.args.iter().position(|arg| arg == COLOUR).unwrap_or(run.args.len());
    let list = ["nextest", "list", "--cargo-message-format=json", "--message-format=json", "--run-ignored=all"];
    let mut args: Vec<String> = list.map(str::to_owned).to_vec();
    args.extend_from_slice(&run.args[options..]);
    Step { args, ..run.clone() }
}

/// Nextest's addition to a suite's line.
#[derive(Debug, Deserialize)]
pub(super) struct SuiteOrigin {
    #[serde(rename = "crate")]
    package: String,
    test_binary: String,
    kind: String,
}

/// Most tests whose binary is remembered until they end. Nextest runs fewer at a time.
const BEGAN_MAX: usize = 4_096;

/// Maps the names in the stream to binaries.
#[derive(Debug, Default)]
pub(super) struct SuiteOrigins {
    /// The binary whose suite began last, by `crate::file`.
    latest: BTreeMap<String, String>,
    /// The binary of each test that began, by `crate::file$path::of::test`.
    began: BTreeMap<String, String>,
}

impl SuiteOrigins {
    /// Records that a suite began.
    pub(super) fn start_suite(&mut self, origin: &SuiteOrigin) {
        let SuiteOrigin { package, test_binary, kind } = origin;
        self.latest.insert(format!("{package}::{test_binary}"), Binary::from_target(kind, test_binary).id(package));
    }

    /// Binary, test and attempt (counted from 1) of a name in the stream: `crate::file$path::of::test#2`.
    pub(super) fn split<'a>(&mut self, name: &'a str, begins: bool) -> Option<(String, &'a str, u32)> {
        let attempt = |name: &'a str| {
            let (name, attempt) = name.rsplit_once('#')?;
            Some((name, attempt.parse().ok().filter(|attempt| *attempt > 1)?))
        };
        let (name, attempt) = attempt(name).unwrap_or((name, 1));
        let (file, test) = name.split_once('$')?;
        let latest = self.latest.get(file).map_or(file, String::as_str).to_owned();
        if !begins {
            return Some((self.began.remove(name).unwrap_or(latest), test, attempt));
        }
        if self.began.len() < BEGAN_MAX {
            self.began.insert(name.to_owned(), latest.clone());
        }
        Some((latest, test, attempt))
    }
}

/// A list of tests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct NextestList {
    rust_suites: BTreeMap<String, ListedSuite>,
}

#[derive(Debug, Deserialize)]
struct ListedSuite {
    testcases: BTreeMap<String, ListedTest>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ListedTest {
    #[serde(default)]
    ignored: bool,
    filter_match: FilterMatch,
}

#[derive(Debug, Deserialize)]
struct FilterMatch {
    status: String,
    #[serde(default)]
    reason: String,
}

impl NextestList {
    /// Binaries and tests that a run would run or report as ignored.
    pub(super) fn tests(self) -> impl Iterator<Item = (String, String)> {
        self.select(|test| test.filter_match.status == "matches" || test.filter_match.reason == "ignored")
    }

    /// Ignored tests of the list of a [`list_ignored`] command.
    pub(super) fn ignored(self) -> impl Iterator<Item = (String, String)> {
        self.select(|test| test.ignored && test.filter_match.status == "matches")
    }

    fn select(self, is_wanted: fn(&ListedTest) -> bool) -> impl Iterator<Item = (String, String)> {
        self.rust_suites.into_iter().flat_map(move |(binary, suite)| {
            let names = suite.testcases.into_iter().filter(move |(_, test)| is_wanted(test)).map(|(name, _)| name);
            names.map(move |name| (binary.clone(), name)).collect::<Vec<_>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_a_name_to_the_binary_of_the_suite_in_which_it_began() {
        let mut origins = SuiteOrigins::default();
        let suite = |kind: &str| SuiteOrigin { package: "p".into(), test_binary: "p".into(), kind: kind.into() };
        origins.start_suite(&suite("bin"));
        assert_eq!(origins.split("p::p$a::b", true), Some(("p::bin/p".to_owned(), "a::b", 1)));
        origins.start_suite(&suite("lib"));
        assert_eq!(origins.split("p::p$c", true), Some(("p".to_owned(), "c", 1)));
        assert_eq!(origins.split("p::p$a::b#2", false), Some(("p::bin/p".to_owned(), "a::b", 2)));
        assert_eq!(origins.split("p::it$case#b", false).map(|(_, test, _)| test), Some("case#b"));
        assert_eq!(origins.split("nothing", true), None);
    }
}

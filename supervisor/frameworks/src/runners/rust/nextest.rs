//! cargo-nextest: writes its command lines, and reads the names that its stream and its lists have. Must not know how
//! results are read.
//!
//! Its JSON for libtest's readers is called experimental and has to be asked for by a variable. There it calls binaries by
//! package and file alone, so that a library and a program of one name are told apart only by the suite that began last.
//! Nextest runs no doctests.

use super::cargo::{COLOUR, common, names};
use super::names::Binary;
use super::selection::groups;
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Plan, PlanError, PlanRequest, Step};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The framework's name.
pub(super) const NAME: &str = "nextest";

/// Its settings, below a project's directory.
pub(super) const SETTINGS: &str = ".config/nextest.toml";

/// The plan of a run.
pub(super) fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut options = ["run", "--no-fail-fast", "--cargo-message-format=json", "--message-format=libtest-json-plus"]
        .map(str::to_owned)
        .to_vec();
    options.extend(request.parallel.map(|tests| format!("--test-threads={}", tests.max(1))));
    planned(projects, tree, request, &options)
}

/// The plan of a listing. Listing builds everything, and runs each binary for its names.
pub(super) fn plan_listing(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
) -> Result<Plan, PlanError> {
    planned(
        projects,
        tree,
        request,
        &["list", "--cargo-message-format=json", "--message-format=json"].map(str::to_owned),
    )
}

fn planned(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    options: &[String],
) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    for group in groups(NAME, projects, tree, request.selection)? {
        let mut args = vec!["nextest".to_owned()];
        args.extend_from_slice(options);
        args.extend(common(&group, tree, request));
        args.push("--".to_owned());
        args.extend(names(&group.names));
        let env = BTreeMap::from([("NEXTEST_EXPERIMENTAL_LIBTEST_JSON".to_owned(), "1".to_owned())]);
        plan.steps.push(Step { programs: vec!["cargo".to_owned()], args, dir: group.project.dir.clone(), env });
    }
    Ok(plan)
}

/// The command that lists the ignored tests among those that `run` selects. The stream of a run counts them by suite, and
/// names only those that are skipped while another test of their suite runs.
pub(super) fn list_ignored(run: &Step) -> Step {
    let options = run.args.iter().position(|arg| arg == COLOUR).unwrap_or(run.args.len());
    let list = ["nextest", "list", "--cargo-message-format=json", "--message-format=json", "--run-ignored=all"];
    let mut args: Vec<String> = list.map(str::to_owned).to_vec();
    args.extend_from_slice(&run.args[options..]);
    Step { args, ..run.clone() }
}

/// What nextest adds to a suite's line.
#[derive(Debug, Deserialize)]
pub(super) struct Origin {
    #[serde(rename = "crate")]
    package: String,
    test_binary: String,
    kind: String,
}

/// Most tests whose binary is remembered until they end. Nextest runs fewer at a time.
const BEGAN_MAX: usize = 4_096;

/// Binaries by the names that the stream has for them.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// The binary whose suite began last, by `crate::file`.
    latest: BTreeMap<String, String>,
    /// The binary of each test that began, by `crate::file$path::of::test`.
    began: BTreeMap<String, String>,
}

impl Origins {
    /// A suite begins.
    pub(super) fn suite_began(&mut self, origin: &Origin) {
        let Origin { package, test_binary, kind } = origin;
        self.latest.insert(format!("{package}::{test_binary}"), Binary::of(kind, test_binary).id(package));
    }

    /// Binary, test and attempt, counted from 1, of a name in the stream: `crate::file$path::of::test#2`.
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
pub(super) struct List {
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

impl List {
    /// Binaries and tests that a run would run, or would name as ignored.
    pub(super) fn tests(self) -> impl Iterator<Item = (String, String)> {
        self.those(|test| test.filter_match.status == "matches" || test.filter_match.reason == "ignored")
    }

    /// Ignored tests of a list that [`list_ignored`] asked for.
    pub(super) fn ignored(self) -> impl Iterator<Item = (String, String)> {
        self.those(|test| test.ignored && test.filter_match.status == "matches")
    }

    fn those(self, wanted: fn(&ListedTest) -> bool) -> impl Iterator<Item = (String, String)> {
        self.rust_suites.into_iter().flat_map(move |(binary, suite)| {
            let names = suite.testcases.into_iter().filter(move |(_, test)| wanted(test)).map(|(name, _)| name);
            names.map(move |name| (binary.clone(), name)).collect::<Vec<_>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_binary_of_the_suite_in_which_it_began() {
        let mut origins = Origins::default();
        let suite = |kind: &str| Origin { package: "p".into(), test_binary: "p".into(), kind: kind.into() };
        origins.suite_began(&suite("bin"));
        assert_eq!(origins.split("p::p$a::b", true), Some(("p::bin/p".to_owned(), "a::b", 1)));
        origins.suite_began(&suite("lib"));
        assert_eq!(origins.split("p::p$c", true), Some(("p".to_owned(), "c", 1)));
        assert_eq!(origins.split("p::p$a::b#2", false), Some(("p::bin/p".to_owned(), "a::b", 2)));
        assert_eq!(origins.split("p::it$case#b", false).map(|(_, test, _)| test), Some("case#b"));
        assert_eq!(origins.split("nothing", true), None);
    }
}

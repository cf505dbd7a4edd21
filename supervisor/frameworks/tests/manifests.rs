//! The manifests agree with what the adapters do, and the READMEs with the manifests.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod want;
}

use proctor_core::request::{BrowserOptions, RunKind, Selection};
use proctor_core::test_order::TestOrder;
use proctor_frameworks::{
    EVERYTHING, FRAMEWORKS, FileTree, Framework, NameScope, ParallelSupport, Plan, PlanError, PlanRequest, ScopeGlobs,
    TOOLCHAINS, TestScope, detection,
};
use std::collections::BTreeSet;
use support::want::want;

fn sample(framework: &dyn Framework) -> FileTree {
    let mut tree = FileTree::default();
    framework.manifest().sample.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
    tree
}

/// The plan of a run of the framework's sample.
fn plan(framework: &dyn Framework, parallel: Option<u32>, browsing: BrowserOptions) -> Result<Plan, PlanError> {
    let (tree, request) = (sample(framework), PlanRequest { parallel, ..want(&Selection::All) });
    let choice = detection::choose(&tree, Some(framework.name()), &Selection::All).unwrap();
    choice.plan(RunKind::Tests, &tree, &request, browsing).map(|(plan, _)| plan)
}

#[test]
fn every_framework_detects_its_sample_and_plans_a_command() {
    for framework in FRAMEWORKS {
        let name = framework.name();
        assert_eq!(framework.detect(&sample(*framework)).len(), 1, "{name}");
        assert!(!plan(*framework, None, BrowserOptions::default()).unwrap().steps.is_empty(), "{name}");
    }
}

#[test]
fn the_option_parallel_is_applied_noted_or_refused_as_declared() {
    for framework in FRAMEWORKS {
        let name = framework.name();
        let without = plan(*framework, None, BrowserOptions::default()).unwrap();
        let with = plan(*framework, Some(3), BrowserOptions::default());
        match framework.manifest().options.parallel {
            ParallelSupport::Applied(_) => {
                // ctest builds and tests in later rounds, and Maestro divides only several flows.
                let is_later = ["ctest", "maestro"].contains(&name);
                assert!(is_later || with.unwrap().steps != without.steps, "{name} does not use the number");
            }
            ParallelSupport::NoEffect(note) => {
                let with = with.unwrap();
                assert_eq!((&with.steps, with.notes.last().map(String::as_str)), (&without.steps, Some(note)));
            }
            ParallelSupport::Refused => {
                let expected = PlanError::NotApplicable { option: "parallel", framework: name };
                assert_eq!(with.unwrap_err(), expected);
            }
            ParallelSupport::Ignored => assert_eq!(with.unwrap(), without, "{name}"),
        }
    }
}

#[test]
fn orders_are_applied_or_refused_as_declared() {
    let orders = [
        TestOrder::Reversed,
        TestOrder::Shuffled { seed: None },
        TestOrder::Shuffled { seed: Some(7) },
        TestOrder::Selected,
    ];
    let selection = Selection::All;
    for framework in FRAMEWORKS {
        let name = framework.name();
        let tree = sample(*framework);
        let choice = detection::choose(&tree, Some(name), &selection).unwrap();
        let plan_in = |order| {
            let request = PlanRequest { order, ..want(&selection) };
            choice.plan(RunKind::Tests, &tree, &request, BrowserOptions::default()).map(|(plan, _)| plan.steps)
        };
        let own = plan_in(TestOrder::Project).unwrap();
        for order in orders {
            if framework.manifest().options.orders.has(order) {
                assert_ne!(plan_in(order).unwrap(), own, "{name} ignores {order:?}");
            } else {
                let refused = PlanError::NotApplicable { option: "the order", framework: name };
                assert_eq!(plan_in(order).unwrap_err(), refused);
            }
        }
    }
}

#[test]
fn runners_with_such_an_option_stop_at_the_first_failure() {
    let options = [
        ("go", "-failfast"),
        ("jest", "--bail"),
        ("mocha", "--bail"),
        ("pytest", "--exitfirst"),
        ("vitest", "--bail=1"),
    ];
    let selection = Selection::All;
    for framework in FRAMEWORKS {
        let (name, tree) = (framework.name(), sample(*framework));
        let choice = detection::choose(&tree, Some(name), &selection).unwrap();
        let steps = |stop_at_first_failure| {
            let request = PlanRequest { stop_at_first_failure, ..want(&selection) };
            choice.plan(RunKind::Tests, &tree, &request, BrowserOptions::default()).unwrap().0.steps
        };
        let (without, with) = (steps(false), steps(true));
        match options.iter().find(|(known, _)| *known == name) {
            Some((_, option)) => {
                let has = |step: &proctor_frameworks::Step| step.args.iter().any(|argument| argument == option);
                assert!(with.iter().all(has) && !without.iter().any(has), "{name}: {with:?}");
            }
            None => assert_eq!(with, without, "{name}"),
        }
    }
}

#[test]
fn patterns_and_exclude_are_applied_or_refused_as_declared() {
    let globs = |entry: &str| ScopeGlobs::parse(&[entry.to_owned()]).unwrap();
    for framework in FRAMEWORKS {
        let name = framework.name();
        let plan_of = |scope: &TestScope, kind| {
            let mut tree = sample(*framework);
            // A source beside the one that is left out.
            tree.add("kept_test.go");
            tree.add("e2e/out_test.go");
            let choice = detection::choose(&tree, Some(name), &Selection::All).unwrap();
            let request = PlanRequest { scope, ..want(&Selection::All) };
            choice.plan(kind, &tree, &request, BrowserOptions::default()).map(|(plan, _)| plan)
        };
        let whole = plan_of(&EVERYTHING, RunKind::Tests).unwrap();
        let support = framework.manifest().options.scope;
        for (entry, is_supported) in [("slow*", support.names != NameScope::Refused), ("e2e/**", support.files)] {
            let scope = TestScope { exclude: globs(entry), ..TestScope::default() };
            match plan_of(&scope, RunKind::Tests) {
                Ok(plan) => assert!(is_supported && plan != whole, "{name} ignores {entry}"),
                Err(PlanError::ScopeNotApplicable { key, framework, .. }) => {
                    assert_eq!((is_supported, key, framework), (false, "exclude", name));
                    assert!(plan_of(&scope, RunKind::Listing).is_err(), "{name} lists what it cannot run");
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
}

#[test]
fn browser_options_are_refused_where_the_manifest_has_none() {
    let headed = BrowserOptions { headed: true, ..BrowserOptions::default() };
    for framework in FRAMEWORKS {
        let name = framework.name();
        let refused = PlanError::NotApplicable { option: "headed", framework: name };
        let is_refused = plan(*framework, None, headed) == Err(refused);
        assert_ne!(is_refused, framework.manifest().options.browsers, "{name}");
    }
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<&str> = FRAMEWORKS.iter().map(|framework| framework.name()).collect();
    assert_eq!(names.len(), FRAMEWORKS.len());
    for toolchain in FRAMEWORKS.iter().flat_map(|framework| framework.manifest().toolchains) {
        let known = TOOLCHAINS.iter().find(|known| known.name == toolchain.name).unwrap();
        assert!(std::ptr::eq(*known, *toolchain), "two toolchains are called {}", toolchain.name);
    }
}

#[test]
fn every_framework_has_a_row_in_the_readmes() {
    // Frameworks that share a row are named together: `jest`, `vitest`.
    let front = include_str!("../../../README.md");
    for (path, readme) in [("README.md", front), ("supervisor/frameworks/README.md", include_str!("../README.md"))] {
        let cells = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        let named: BTreeSet<&str> = cells.flat_map(|cell| cell.trim_end_matches('`').split("`, `")).collect();
        for framework in FRAMEWORKS {
            assert!(named.contains(framework.name()), "{path} has no row of {}", framework.name());
        }
    }
}

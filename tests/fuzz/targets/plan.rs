//! Detection and command lines: files of a workspace, a filter and names of an earlier run, all of them anybody's. Must not
//! know what any framework's files mean.
//!
//! Sections as in `input`: a file is `f`, the rest is by letter: `q` a filter, `p` a package and `t` a package, a newline and
//! a test to run again, `n` a file to run.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proctor_core::filter::{FILTER_CHARS_MAX, Filter};
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use proctor_frameworks::{FRAMEWORKS, FileTree, Framework, Plan, Project, detection};
use proctor_fuzz::input::SEPARATOR;
use proctor_fuzz::subject::want;
use std::collections::BTreeSet;

#[derive(Default)]
struct Asked {
    tree: FileTree,
    filter: Option<Filter>,
    targets: Vec<RerunTarget>,
    files: Vec<String>,
}

fuzz_target!(|bytes: &[u8]| {
    let asked = asked(bytes);
    let Asked { tree, filter, targets, files } = &asked;
    _ = detection::choose(tree, None, &Selection::All);
    for framework in FRAMEWORKS.iter().copied() {
        let projects = framework.detect(tree);
        assert_eq!(projects, framework.detect(tree));
        assert!(projects.is_sorted_by(|a, b| a.dir <= b.dir), "{projects:?}");
        projects.iter().for_each(|project| _ = framework.is_default_for(tree, project));
        if projects.is_empty() {
            continue;
        }
        let ours = options(&plans(framework, &projects, tree, &Selection::All));
        let matching = |filter: &Option<Filter>| Selection::Matching { filter: filter.clone(), files: files.clone() };
        let filtered = options(&plans(framework, &projects, tree, &matching(filter)));
        let plain = Filter::parse("x").expect("a filter").filter(|_| filter.is_some());
        assert_eq!(filtered, options(&plans(framework, &projects, tree, &matching(&plain))), "{filter:?} is an option");
        targets.iter().for_each(|target| _ = framework.owns_target(&projects, tree, target));
        let again = plans(framework, &projects, tree, &Selection::Exactly(targets.clone()));
        let names = targets.iter().flat_map(|target| match target {
            RerunTarget::Package(package) => vec![package.as_str()],
            RerunTarget::Test(test) => vec![test.package.as_str(), test.name.as_str()],
        });
        let given = options(&again);
        // A test may be called like an option that we give anyhow.
        for name in names.filter(|name| name.starts_with('-') && !ours.contains(*name)) {
            assert!(!given.contains(name), "{} takes {name} for an option", framework.name());
        }
    }
});

fn asked(bytes: &[u8]) -> Asked {
    let mut asked = Asked::default();
    for section in bytes.split(|byte| *byte == SEPARATOR) {
        let Some((letter, rest)) = section.split_first() else { continue };
        let text = String::from_utf8_lossy(rest).into_owned();
        let (first, second) = text.split_once('\n').unwrap_or((&text, ""));
        match letter {
            b'f' => asked.tree.add_with_content(first, second),
            b'q' => asked.filter = guarded(&text),
            b'p' => asked.targets.push(RerunTarget::Package(text)),
            b't' => {
                asked.targets.push(RerunTarget::Test(TestId { package: first.to_owned(), name: second.to_owned() }))
            }
            b'n' => asked.files.push(text),
            _ => asked.tree.add(text),
        }
    }
    asked
}

fn guarded(text: &str) -> Option<Filter> {
    let filter = Filter::parse(text).ok()??;
    let it = filter.as_str();
    assert!(it == text && !it.starts_with('-') && !it.contains("..") && it.chars().count() <= FILTER_CHARS_MAX);
    assert!(!it.chars().any(char::is_control));
    Some(filter)
}

fn plans(framework: &dyn Framework, projects: &[Project], tree: &FileTree, selection: &Selection) -> Plan {
    let want = want(selection);
    _ = framework.plan_listing(projects, tree, &want);
    framework.plan(projects, tree, &want).unwrap_or_default()
}

/// The options of all commands, without their values and what stands behind `--`.
fn options(plan: &Plan) -> BTreeSet<String> {
    let own = |args: &[String]| -> Vec<String> {
        let options = args.iter().take_while(|arg| *arg != "--").filter(|arg| arg.starts_with('-'));
        options.map(|arg| arg.split('=').next().unwrap_or(arg).to_owned()).collect()
    };
    plan.steps.iter().flat_map(|step| own(&step.args)).collect()
}

//! Detection and command lines, with untrusted workspace files, filters and names of an earlier run.
//!
//! Sections as in `input`, with these letters: `f` a file, `q` a filter, `p` a package to rerun, `t` a test to rerun (package,
//! newline, name), `m` the name of a test to run, `n` a file to run.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proctor_core::filter::{FILTER_CHARS_MAX, Filter};
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use proctor_core::test_name::TestName;
use proctor_frameworks::{FRAMEWORKS, FileTree, Framework, Plan, Project, detection};
use proctor_fuzz::input::SEPARATOR;
use proctor_fuzz::subject::want;
use std::collections::BTreeSet;

#[derive(Default)]
struct Input {
    tree: FileTree,
    filter: Option<Filter>,
    targets: Vec<RerunTarget>,
    names: Vec<TestName>,
    files: Vec<String>,
}

fuzz_target!(|bytes: &[u8]| {
    let Input { tree, filter, targets, names, files } = &parse_input(bytes);
    _ = detection::choose(tree, None, &Selection::All);
    for framework in FRAMEWORKS.iter().copied() {
        let projects = framework.detect(tree);
        assert_eq!(projects, framework.detect(tree));
        assert!(projects.is_sorted_by(|a, b| a.dir <= b.dir), "{projects:?}");
        projects.iter().for_each(|project| _ = framework.is_default_for(tree, project));
        if projects.is_empty() {
            continue;
        }
        let plain_options = options(&plans(framework, &projects, tree, &Selection::All));
        let matching = |filter: &Option<Filter>| Selection::Matching { filter: filter.clone(), files: files.clone() };
        let filtered = options(&plans(framework, &projects, tree, &matching(filter)));
        let plain = Filter::parse("x").expect("a filter").filter(|_| filter.is_some());
        assert_eq!(
            filtered,
            options(&plans(framework, &projects, tree, &matching(&plain))),
            "{filter:?} is taken as an option"
        );
        targets.iter().filter_map(RerunTarget::package).for_each(|package| {
            _ = framework.owns_package(&projects, tree, package);
        });
        let resolved = framework.resolve_names(&projects, tree, names);
        assert_eq!(resolved.len(), names.len());
        _ = plans(framework, &projects, tree, &Selection::Exactly(resolved));
        let again = plans(framework, &projects, tree, &Selection::Exactly(targets.clone()));
        let selected = targets.iter().flat_map(|target| match target {
            RerunTarget::Package(package) => vec![package.as_str()],
            RerunTarget::Test(test) => vec![test.package.as_str(), test.name.as_str()],
            RerunTarget::Name(name) => vec![name.as_str()],
        });
        let rerun_options = options(&again);
        // A test may have the name of an option that the plan contains anyway.
        for name in selected.filter(|name| name.starts_with('-') && !plain_options.contains(*name)) {
            assert!(!rerun_options.contains(name), "{} takes {name} as an option", framework.name());
        }
    }
});

fn parse_input(bytes: &[u8]) -> Input {
    let mut input = Input::default();
    for section in bytes.split(|byte| *byte == SEPARATOR) {
        let Some((letter, rest)) = section.split_first() else { continue };
        let text = String::from_utf8_lossy(rest).into_owned();
        let (first, second) = text.split_once('\n').unwrap_or((&text, ""));
        match letter {
            b'f' => input.tree.add_with_content(first, second),
            b'q' => input.filter = parse_filter(&text),
            b'p' => input.targets.push(RerunTarget::Package(text)),
            b't' => {
                input.targets.push(RerunTarget::Test(TestId { package: first.to_owned(), name: second.to_owned() }))
            }
            b'm' => {
                input.targets.push(RerunTarget::Name(text.clone()));
                input.names.extend(TestName::parse_all(&[text]).into_iter().flatten());
            }
            b'n' => input.files.push(text),
            _ => input.tree.add(text),
        }
    }
    input
}

fn parse_filter(text: &str) -> Option<Filter> {
    let filter = Filter::parse(text).ok()??;
    let accepted = filter.as_str();
    assert!(accepted == text && !accepted.starts_with('-') && !accepted.contains(".."));
    assert!(accepted.chars().count() <= FILTER_CHARS_MAX && !accepted.chars().any(char::is_control));
    Some(filter)
}

fn plans(framework: &dyn Framework, projects: &[Project], tree: &FileTree, selection: &Selection) -> Plan {
    let want = want(selection);
    _ = framework.plan_listing(projects, tree, &want);
    framework.plan(projects, tree, &want).unwrap_or_default()
}

/// Collects the options of all commands, without values and without arguments after `--`.
fn options(plan: &Plan) -> BTreeSet<String> {
    let names = |args: &[String]| -> Vec<String> {
        let options = args.iter().take_while(|arg| *arg != "--").filter(|arg| arg.starts_with('-'));
        options.map(|arg| arg.split('=').next().unwrap_or(arg).to_owned()).collect()
    };
    plan.steps.iter().flat_map(|step| names(&step.args)).collect()
}

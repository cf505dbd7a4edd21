//! Turns a request's selection into the values of `-Dtest` and `-pl`, for each reactor.
//!
//! Only class and method of a test can be selected: a parametrised one runs with all its parameters.

use super::NAME;
use super::detect::{MARKER, module_of};
use crate::contract::{FileTree, PlanError, Project, TestSelection, innermost_project, outside, owner_of};
use crate::ecosystems::jvm::{class_from_path, locate_names, method_identifier, split};
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Longest `-Dtest`, in bytes: the kernel refuses an argument of 128 KiB. Beyond that the modules run as a whole.
const TEST_BYTES_MAX: usize = 64 * 1024;

/// Tests to run in one reactor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReactorSelection<'a> {
    pub(super) reactor: &'a Project,
    /// Modules relative to the reactor; empty for all.
    pub(super) modules: BTreeSet<String>,
    /// Values of `-Dtest`; `None` runs everything.
    pub(super) tests: Option<Vec<String>>,
}

/// The selected tests of each reactor, in the order of the reactors.
pub(super) fn reactor_selections<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<ReactorSelection<'a>>, PlanError> {
    match TestSelection::new(selection) {
        TestSelection::Everything { filter } => Ok(select_everything(projects, filter.map(Filter::as_str))),
        TestSelection::Files { files, filter } => select_files(projects, tree, files, filter.map(Filter::as_str)),
        TestSelection::Targets(targets) => Ok(select_targets(projects, tree, targets)),
    }
}

fn select_everything<'a>(projects: &'a [Project], filter: Option<&str>) -> Vec<ReactorSelection<'a>> {
    let tests = filter.map(|filter| vec![filter.to_owned()]);
    projects
        .iter()
        .map(|reactor| ReactorSelection { reactor, modules: BTreeSet::new(), tests: tests.clone() })
        .collect()
}

/// Gathers selected tests by reactor.
struct ReactorSelections<'a, 't> {
    tree: &'t FileTree,
    /// Modules with their tests; `None` for a module that runs as a whole.
    found: BTreeMap<&'a Project, BTreeMap<String, Option<BTreeSet<String>>>>,
}

impl<'a> ReactorSelections<'a, '_> {
    /// Adds some tests of the module that contains `path`, or all.
    fn add(&mut self, reactor: &'a Project, path: &str, tests: Option<Vec<String>>) {
        let module = module_of(self.tree, reactor, path);
        let relative = module.strip_prefix(reactor.dir.as_str()).unwrap_or(module).trim_start_matches('/');
        let entry =
            self.found.entry(reactor).or_default().entry(relative.to_owned()).or_insert_with(|| Some(BTreeSet::new()));
        match (entry.as_mut(), tests) {
            (Some(known), Some(tests)) => known.extend(tests),
            _ => *entry = None,
        }
    }

    /// One command for the modules with selected tests, since a name runs in every module that has it; another for those that
    /// run as a whole.
    fn finish(self) -> Vec<ReactorSelection<'a>> {
        let mut selections = Vec::new();
        for (reactor, modules) in self.found {
            let (some, all): (Vec<_>, Vec<_>) = modules.into_iter().partition(|(_, tests)| tests.is_some());
            let names: BTreeSet<String> = some.iter().flat_map(|(_, tests)| tests.iter().flatten().cloned()).collect();
            let too_long = names.iter().map(|name| name.len() + 1).sum::<usize>() > TEST_BYTES_MAX;
            let mut add = |modules: Vec<(String, _)>, tests: Option<Vec<String>>| {
                if !modules.is_empty() {
                    let mut modules: BTreeSet<String> = modules.into_iter().map(|(module, _)| module).collect();
                    if tests.is_none() && modules.contains("") {
                        // The root's own files affect every module.
                        modules.clear();
                    }
                    selections.push(ReactorSelection { reactor, modules, tests });
                }
            };
            add(some, Some(names.into_iter().collect()).filter(|_| !too_long));
            add(all, None);
        }
        selections
    }
}

fn select_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    filter: Option<&str>,
) -> Result<Vec<ReactorSelection<'a>>, PlanError> {
    // Surefire cannot express "of these classes those that match".
    let method = match filter.map(|filter| filter.strip_prefix('#')) {
        Some(None) => {
            return Err(PlanError::NotApplicable {
                option: "a filter that is not `#method`, together with files,",
                framework: NAME,
            });
        }
        method => method.flatten(),
    };
    let mut selections = ReactorSelections { tree, found: BTreeMap::new() };
    for file in files {
        let (path, reactor) = owner_of(NAME, projects, file)?;
        let known = tree.contains(&path) || tree.has_below(&path) || tree.is_truncated();
        if !known {
            return Err(outside(NAME, file));
        }
        let named = |class: String| method.map_or_else(|| class.clone(), |method| format!("{class}#{method}"));
        let tests = classes(tree, &path).map(|classes| classes.into_iter().map(named).collect());
        // All tests of a module, narrowed by the filter.
        let tests = tests.or_else(|| method.map(|method| vec![format!("*#{method}")]));
        selections.add(reactor, &path, tests);
    }
    Ok(selections.finish())
}

/// The classes of a test's file, or of all files in a directory below a module's tests. `None` for other files, which affect
/// all tests of their module.
fn classes(tree: &FileTree, path: &str) -> Option<Vec<String>> {
    let found: Vec<String> = if tree.contains(path) {
        class_from_path(path).into_iter().collect()
    } else {
        tree.files_below(path).filter_map(class_from_path).collect()
    };
    let is_below_tests = format!("/{path}/").contains("/src/test/") || class_from_path(path).is_some();
    (is_below_tests && !found.is_empty()).then_some(found)
}

/// Exactly these classes and methods.
fn select_targets<'a>(projects: &'a [Project], tree: &FileTree, targets: &[RerunTarget]) -> Vec<ReactorSelection<'a>> {
    let mut selections = ReactorSelections { tree, found: BTreeMap::new() };
    let mut methods: BTreeMap<(&Project, &str, &str), Option<BTreeSet<&str>>> = BTreeMap::new();
    let (located, names) = locate_names(tree, targets);
    for target in &located {
        let Some(reactor) = target.package().and_then(|package| innermost_project(projects, package)) else {
            return select_everything(projects, None);
        };
        match target {
            RerunTarget::Name(_) => {}
            RerunTarget::Package(package) => selections.add(reactor, package, None),
            RerunTarget::Test(test) => {
                let (class, method) = split(&test.name);
                let method = method.and_then(method_identifier);
                let path = test.package.strip_suffix(MARKER).unwrap_or(&test.package);
                let known = methods.entry((reactor, path, class)).or_insert_with(|| Some(BTreeSet::new()));
                match (known.as_mut(), method) {
                    (Some(known), Some(method)) => drop(known.insert(method)),
                    _ => *known = None,
                }
            }
        }
    }
    for ((reactor, path, class), methods) in methods {
        selections.add(reactor, path, Some(vec![pattern(class, methods.iter().flatten().copied())]));
    }
    let mut all = selections.finish();
    if !names.is_empty() {
        let of_name = |name: &String| pattern(split(name).0, split(name).1.and_then(method_identifier));
        let tests: Vec<String> = names.iter().map(of_name).collect();
        let anywhere = select_everything(projects, None).into_iter();
        all.extend(anywhere.map(|selection| ReactorSelection { tests: Some(tests.clone()), ..selection }));
    }
    all
}

/// The value of `-Dtest` for a class, or for some of its methods.
fn pattern<'m>(class: &str, methods: impl IntoIterator<Item = &'m str>) -> String {
    // JUnit 4 and TestNG append the parameters to the name.
    let all: Vec<String> = methods.into_iter().map(|method| format!("{method}+{method}[*]")).collect();
    if all.is_empty() { class.to_owned() } else { format!("{class}#{}", all.join("+")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_case::TestId;

    #[test]
    fn a_long_list_becomes_the_whole_module() {
        let projects = [Project { dir: String::new(), name: "p".into() }];
        let mut tree = FileTree::default();
        tree.add_with_content("pom.xml", "");
        let targets: Vec<RerunTarget> = (0..5_000)
            .map(|number| {
                let package = format!("src/test/java/com/x/Foo{number}Test.java");
                RerunTarget::Test(TestId { package, name: format!("com.x.Foo{number}Test#adds") })
            })
            .collect();
        let selections = select_targets(&projects, &tree, &targets);
        assert_eq!(selections.len(), 1);
        assert_eq!(selections[0].tests, None);
    }
}

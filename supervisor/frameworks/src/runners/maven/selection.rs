//! Turns what a request selects into what `-Dtest` and `-pl` say, for each reactor. Must not know the rest of the command
//! line.
//!
//! Of a test only its class and method can be selected: a parametrised one runs with all its parameters.

use super::NAME;
use super::detect::{MARKER, module_of};
use crate::contract::FileTree;
use crate::contract::PlanError;
use crate::contract::{Project, innermost_project};
use crate::ecosystems::jvm::{class_from_path, method_identifier};
use crate::parsing::workspace_paths::join;
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Longest `-Dtest`, in bytes: the kernel refuses an argument of 128 KiB. Past this the modules run as a whole.
const TEST_BYTES_MAX: usize = 64 * 1024;

/// What one reactor is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share<'a> {
    pub(super) reactor: &'a Project,
    /// Modules relative to the reactor; none for all.
    pub(super) modules: BTreeSet<String>,
    /// What Surefire is to run, if not everything.
    pub(super) tests: Option<Vec<String>>,
}

/// The shares of a selection, in the order of the reactors.
pub(super) fn shares<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<Share<'a>>, PlanError> {
    match selection {
        Selection::Matching { filter, files } => {
            let filter = filter.as_ref().map(|filter| filter.as_str());
            if files.is_empty() { Ok(whole(projects, filter)) } else { of_files(projects, tree, files, filter) }
        }
        Selection::Exactly(targets) => Ok(exactly(projects, tree, targets)),
        // The session resolves LastFailed; a caller that does not gets the superset.
        Selection::All | Selection::LastFailed { .. } => Ok(whole(projects, None)),
    }
}

fn whole<'a>(projects: &'a [Project], filter: Option<&str>) -> Vec<Share<'a>> {
    let tests = filter.map(|filter| vec![filter.to_owned()]);
    projects.iter().map(|reactor| Share { reactor, modules: BTreeSet::new(), tests: tests.clone() }).collect()
}

/// Gathers what is to run, by reactor.
struct Shares<'a, 't> {
    tree: &'t FileTree,
    /// Modules, and the tests of those that do not run as a whole.
    found: BTreeMap<&'a Project, BTreeMap<String, Option<BTreeSet<String>>>>,
}

impl<'a> Shares<'a, '_> {
    /// Some tests of the module that `path` lies in, or all.
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

    /// One share for the modules of which some tests run, since a name runs wherever it is; one for those that run as a
    /// whole.
    fn finish(self) -> Vec<Share<'a>> {
        let mut shares = Vec::new();
        for (reactor, modules) in self.found {
            let (some, all): (Vec<_>, Vec<_>) = modules.into_iter().partition(|(_, tests)| tests.is_some());
            let names: BTreeSet<String> = some.iter().flat_map(|(_, tests)| tests.iter().flatten().cloned()).collect();
            let too_long = names.iter().map(|name| name.len() + 1).sum::<usize>() > TEST_BYTES_MAX;
            let mut add = |modules: Vec<(String, _)>, tests: Option<Vec<String>>| {
                if !modules.is_empty() {
                    let mut modules: BTreeSet<String> = modules.into_iter().map(|(module, _)| module).collect();
                    if tests.is_none() && modules.contains("") {
                        // What is the root's is for every module.
                        modules.clear();
                    }
                    shares.push(Share { reactor, modules, tests });
                }
            };
            add(some, Some(names.into_iter().collect()).filter(|_| !too_long));
            add(all, None);
        }
        shares
    }
}

fn of_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    filter: Option<&str>,
) -> Result<Vec<Share<'a>>, PlanError> {
    // Surefire has no way to say "of these classes those that match".
    let method = match filter.map(|filter| filter.strip_prefix('#')) {
        Some(None) => {
            return Err(PlanError::NotApplicable {
                option: "a filter that is not `#method`, together with files,",
                framework: NAME,
            });
        }
        method => method.flatten(),
    };
    let mut shares = Shares { tree, found: BTreeMap::new() };
    for file in files {
        let outside = || PlanError::FileOutsideProject { file: file.clone(), framework: NAME };
        if file.starts_with('/') || file.split('/').any(|part| part == "..") {
            return Err(outside());
        }
        let path = join("", file);
        let reactor = innermost_project(projects, &path).ok_or_else(outside)?;
        let known = tree.contains(&path) || tree.has_below(&path) || tree.is_truncated();
        if !known {
            return Err(outside());
        }
        let named = |class: String| method.map_or_else(|| class.clone(), |method| format!("{class}#{method}"));
        let tests = classes(tree, &path).map(|classes| classes.into_iter().map(named).collect());
        // All tests of a module, of which the filter takes some.
        let tests = tests.or_else(|| method.map(|method| vec![format!("*#{method}")]));
        shares.add(reactor, &path, tests);
    }
    Ok(shares.finish())
}

/// The classes of a test's file, or of all in a directory below a module's tests. Other files are for all tests of their
/// module.
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
fn exactly<'a>(projects: &'a [Project], tree: &FileTree, targets: &[RerunTarget]) -> Vec<Share<'a>> {
    let mut shares = Shares { tree, found: BTreeMap::new() };
    let mut methods: BTreeMap<(&Project, &str, &str), Option<BTreeSet<&str>>> = BTreeMap::new();
    for target in targets {
        let Some(reactor) = innermost_project(projects, target.package()) else { return whole(projects, None) };
        match target {
            RerunTarget::Package(package) => shares.add(reactor, package, None),
            RerunTarget::Test(test) => {
                let (class, method) = test
                    .name
                    .split_once('#')
                    .map_or((test.name.as_str(), None), |(class, method)| (class, method_identifier(method)));
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
        let test = match methods {
            Some(methods) => {
                // JUnit 4 and TestNG count the parameters as a part of the name.
                let all: Vec<String> = methods.iter().map(|method| format!("{method}+{method}[*]")).collect();
                format!("{class}#{}", all.join("+"))
            }
            None => class.to_owned(),
        };
        shares.add(reactor, path, Some(vec![test]));
    }
    shares.finish()
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
        let shares = exactly(&projects, &tree, &targets);
        assert_eq!(shares.len(), 1);
        assert_eq!(shares[0].tests, None);
    }
}

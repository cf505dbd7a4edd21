//! Finds CMake projects that define tests.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::is_within;
use regex::Regex;
use std::sync::LazyLock;

/// The file that marks a CMake project.
pub(super) const MARKER: &str = "CMakeLists.txt";

/// Directories of third-party code and of build output: projects in there are not the workspace's own.
const FOREIGN_DIRS: [&str; 10] = [
    "vendor",
    "third_party",
    "thirdparty",
    "3rdparty",
    "external",
    "extern",
    "deps",
    "_deps",
    "testdata",
    "node_modules",
];

/// Test property that inverts a test's result.
pub(super) const WILL_FAIL: &str = "WILL_FAIL";

static PROJECT_COMMAND: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?im)^\s*project\s*\(\s*"?(?P<name>[\w.+-]*)"#).ok());

static TEST_COMMANDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?im)^\s*(?:enable_testing\s*\(|add_test\s*\(|include\s*\(\s*CTest\s*\))").ok());

/// The outermost directories with a `project()` whose tree defines tests, sorted.
pub(super) fn projects(tree: &FileTree) -> Vec<Project> {
    let files: Vec<(&str, &str)> = tree.directories_with(MARKER).filter(|(dir, _)| !is_foreign(dir)).collect();
    let has_tests =
        |dir: &str| files.iter().any(|(below, content)| is_within(below, dir) && matches(&TEST_COMMANDS, content));
    let mut roots: Vec<(&str, &str)> =
        files.iter().filter(|(_, content)| matches(&PROJECT_COMMAND, content)).copied().collect();
    roots.sort_unstable();
    let mut projects: Vec<Project> = Vec::new();
    for (dir, content) in roots {
        let is_part = projects.iter().any(|outer| is_within(dir, &outer.dir));
        if !is_part && has_tests(dir) {
            projects.push(Project { dir: dir.to_owned(), name: project_name(content) });
        }
    }
    projects
}

/// Whether a CMakeLists.txt of the workspace mentions `WILL_FAIL`.
pub(super) fn mentions_will_fail(tree: &FileTree) -> bool {
    tree.directories_with(MARKER).any(|(_, content)| content.contains(WILL_FAIL))
}

fn is_foreign(dir: &str) -> bool {
    dir.split('/').any(|part| part.starts_with('.') || FOREIGN_DIRS.contains(&part))
}

fn matches(regex: &LazyLock<Option<Regex>>, content: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(content))
}

fn project_name(content: &str) -> String {
    let found = PROJECT_COMMAND.as_ref().and_then(|regex| regex.captures(content));
    found.map(|found| found["name"].to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut tree = FileTree::default();
        files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
        projects(&tree).into_iter().map(|project| (project.dir, project.name)).collect()
    }

    #[test]
    fn detects_each_way_to_define_tests() {
        for tests in ["enable_testing()", "  ENABLE_TESTING( )", "include(CTest)", "add_test(NAME x COMMAND y)"] {
            let file = format!("cmake_minimum_required(VERSION 3.20)\nproject(calc CXX)\n{tests}\n");
            assert_eq!(detect(&[(MARKER, &file)]), [(String::new(), "calc".to_owned())], "{tests}");
        }
        for none in ["project(x)", "project(x)\n# enable_testing()", "enable_testing()", "project(x)\ninclude(CTestX)"]
        {
            assert_eq!(detect(&[(MARKER, none)]), [], "{none}");
        }
    }

    #[test]
    fn detects_the_outermost_project_and_skips_third_party_code() {
        let whole = "project(p)\nenable_testing()";
        assert_eq!(
            detect(&[
                ("a/CMakeLists.txt", "project(a)\nadd_subdirectory(tests)"),
                ("a/tests/CMakeLists.txt", "project(inner)\nadd_test(NAME t COMMAND t)"),
                ("ab/CMakeLists.txt", whole),
                ("a/third_party/gtest/CMakeLists.txt", whole),
                ("vendor/x/CMakeLists.txt", whole),
                ("b/build/_deps/y/CMakeLists.txt", whole),
                ("library/CMakeLists.txt", "project(library)"),
            ]),
            [("a".to_owned(), "a".to_owned()), ("ab".to_owned(), "p".to_owned())]
        );
    }
}

//! Finds CMake projects that have tests. Must not know how they are built.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::is_within;
use regex::Regex;
use std::sync::LazyLock;

/// The file by which CMake knows a project.
pub(super) const MARKER: &str = "CMakeLists.txt";

/// Directories that hold the code of others, or what a build made: not this workspace's projects.
const OTHERS: [&str; 10] = [
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

/// The property of a test that is to fail.
pub(super) const TO_FAIL: &str = "WILL_FAIL";

static PROJECT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?im)^\s*project\s*\(\s*"?(?P<name>[\w.+-]*)"#).ok());

static TESTS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?im)^\s*(?:enable_testing\s*\(|add_test\s*\(|include\s*\(\s*CTest\s*\))").ok());

/// The outermost directories with a `project()` that has tests, itself or in a directory of it, sorted.
pub(super) fn projects(tree: &FileTree) -> Vec<Project> {
    let files: Vec<(&str, &str)> = tree.directories_with(MARKER).filter(|(dir, _)| !is_of_others(dir)).collect();
    let has_tests = |dir: &str| files.iter().any(|(below, content)| is_within(below, dir) && matches(&TESTS, content));
    let mut roots: Vec<(&str, &str)> =
        files.iter().filter(|(_, content)| matches(&PROJECT, content)).copied().collect();
    roots.sort_unstable();
    let mut projects: Vec<Project> = Vec::new();
    for (dir, content) in roots {
        let is_part = projects.iter().any(|outer| is_within(dir, &outer.dir));
        if !is_part && has_tests(dir) {
            projects.push(Project { dir: dir.to_owned(), name: name(content) });
        }
    }
    projects
}

/// Whether a test may be one that is to fail.
pub(super) fn has_tests_to_fail(tree: &FileTree) -> bool {
    tree.directories_with(MARKER).any(|(_, content)| content.contains(TO_FAIL))
}

fn is_of_others(dir: &str) -> bool {
    dir.split('/').any(|part| part.starts_with('.') || OTHERS.contains(&part))
}

fn matches(regex: &LazyLock<Option<Regex>>, content: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(content))
}

fn name(content: &str) -> String {
    let found = PROJECT.as_ref().and_then(|regex| regex.captures(content));
    found.map(|found| found["name"].to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut tree = FileTree::default();
        files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
        projects(&tree).into_iter().map(|project| (project.dir, project.name)).collect()
    }

    #[test]
    fn a_project_with_tests_is_found_by_any_way_to_say_so() {
        for tests in ["enable_testing()", "  ENABLE_TESTING( )", "include(CTest)", "add_test(NAME x COMMAND y)"] {
            let file = format!("cmake_minimum_required(VERSION 3.20)\nproject(calc CXX)\n{tests}\n");
            assert_eq!(found(&[(MARKER, &file)]), [(String::new(), "calc".to_owned())], "{tests}");
        }
        for none in ["project(x)", "project(x)\n# enable_testing()", "enable_testing()", "project(x)\ninclude(CTestX)"]
        {
            assert_eq!(found(&[(MARKER, none)]), [], "{none}");
        }
    }

    #[test]
    fn the_outermost_project_is_the_one_and_the_code_of_others_is_none() {
        let whole = "project(p)\nenable_testing()";
        assert_eq!(
            found(&[
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

//! Finds PHPUnit projects: directories with PHPUnit's settings, or with a `composer.json` that requires it and a directory of tests.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::join;
use serde_json::Value;
use std::collections::BTreeSet;

/// Files whose content detection reads.
pub(super) const MARKERS: &[&str] = &["phpunit.xml", "phpunit.dist.xml", "phpunit.xml.dist", COMPOSER];

/// Composer's list of packages.
const COMPOSER: &str = "composer.json";

/// PHPUnit's settings, in the order in which it looks for them.
const SETTINGS: [&str; 3] = ["phpunit.xml", "phpunit.dist.xml", "phpunit.xml.dist"];

/// Directories of tests of projects without settings.
const TESTS: [&str; 2] = ["tests", "test"];

/// Directories of installed packages and of other tools' files.
const IGNORED_DIRS: [&str; 2] = ["vendor", "node_modules"];

/// All projects, sorted by directory.
pub(super) fn projects(tree: &FileTree) -> Vec<Project> {
    let settings = SETTINGS.iter().flat_map(|name| tree.directories_with(name)).map(|(dir, _)| dir);
    let listed = tree.directories_with(COMPOSER).filter(|(_, content)| requires(content, "phpunit/phpunit"));
    let listed = listed.map(|(dir, _)| dir).filter(|dir| default_path(tree, dir).is_some());
    let dirs: BTreeSet<&str> = settings.chain(listed).filter(|dir| !is_ignored(dir)).collect();
    let name = |dir: &str| dir.rsplit('/').next().unwrap_or_default().to_owned();
    dirs.into_iter().map(|dir| Project { dir: dir.to_owned(), name: name(dir) }).collect()
}

/// The directory of tests that PHPUnit must be given where it has no settings.
pub(super) fn default_path(tree: &FileTree, dir: &str) -> Option<&'static str> {
    let has_settings = SETTINGS.iter().any(|name| tree.contains(&join(dir, name)));
    let has_tests = |tests: &&str| tree.files_below(&join(dir, tests)).any(is_test);
    TESTS.into_iter().find(has_tests).filter(|_| !has_settings)
}

/// Whether PHPUnit takes a file for tests by its name, unless the settings have other suffixes.
pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("Test.php") || path.ends_with(".phpt")
}

/// Whether the project requires Pest.
pub(super) fn has_pest(tree: &FileTree, dir: &str) -> bool {
    tree.content(&join(dir, COMPOSER)).is_some_and(|content| requires(content, "pestphp/pest"))
}

fn requires(composer: &str, package: &str) -> bool {
    let Ok(composer) = serde_json::from_str::<Value>(composer) else { return false };
    ["require", "require-dev"].iter().any(|list| composer[*list].get(package).is_some())
}

fn is_ignored(dir: &str) -> bool {
    dir.split('/').any(|part| IGNORED_DIRS.contains(&part) || (part.starts_with('.') && part.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIRED: &str = r#"{"require-dev":{"phpunit/phpunit":"^11"}}"#;

    fn detect(files: &[(&str, &str)]) -> Vec<String> {
        projects(&FileTree::with_contents(files)).into_iter().map(|project| project.dir).collect()
    }

    #[test]
    fn detects_settings_and_required_packages() {
        for name in SETTINGS {
            assert_eq!(detect(&[(name, "")]), [""]);
        }
        assert_eq!(detect(&[("a/phpunit.xml", ""), ("b/phpunit.xml.dist", "")]), ["a", "b"]);
        assert_eq!(detect(&[("api/composer.json", REQUIRED), ("api/test/ATest.php", "")]), ["api"]);
        for none in [
            [("composer.json", REQUIRED), ("src/ATest.php", "")],
            [("composer.json", "{\"require\":{\"symfony/console\":\"7\"}}"), ("tests/ATest.php", "")],
            [("composer.json", "phpunit/phpunit"), ("tests/ATest.php", "")],
            [("vendor/a/b/phpunit.xml", ""), ("tests/ATest.php", "")],
            [("web/node_modules/x/phpunit.xml", ""), (".build/phpunit.xml", "")],
        ] {
            assert_eq!(detect(&none), [""; 0], "{none:?}");
        }
    }

    #[test]
    fn a_project_without_settings_has_its_tests_in_a_known_directory() {
        let tree =
            FileTree::with_contents(&[("tests/ATest.php", ""), ("b/test/x.phpt", ""), ("c/tests/readme.md", "")]);
        assert_eq!([default_path(&tree, ""), default_path(&tree, "b")], [Some("tests"), Some("test")]);
        assert_eq!(default_path(&tree, "c"), None);
        let tree = FileTree::with_contents(&[("tests/ATest.php", ""), ("phpunit.xml", "")]);
        assert_eq!(default_path(&tree, ""), None, "its settings name the tests");
    }
}

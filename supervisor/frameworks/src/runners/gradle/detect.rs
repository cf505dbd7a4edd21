//! Finds Gradle builds: a directory with settings, or the outermost directory with a build script.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::is_within;
use std::collections::BTreeSet;

/// The scripts that mark builds and their projects; the first [`SETTINGS`] are settings scripts.
pub(super) const MARKERS: &[&str] = &["settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts"];

/// Number of settings scripts in [`MARKERS`].
const SETTINGS: usize = 2;

/// Directories whose scripts are test data, build output, or part of the build around them.
const IGNORED_DIRS: [&str; 4] = ["src", "build", "buildSrc", "node_modules"];

/// All builds, sorted by directory.
pub(super) fn builds(tree: &FileTree) -> Vec<Project> {
    let (settings, scripts) = MARKERS.split_at(SETTINGS);
    let mut roots: BTreeSet<&str> = directories(tree, settings).collect();
    // Sorted, so a directory comes before those below it.
    for dir in directories(tree, scripts).collect::<BTreeSet<_>>() {
        if !roots.iter().any(|root| is_within(dir, root)) {
            roots.insert(dir);
        }
    }
    roots.into_iter().map(|dir| Project { dir: dir.to_owned(), name: name(tree, dir) }).collect()
}

/// The project directory of a file: the innermost one above it with a script of its own.
pub(super) fn project_dir<'a>(tree: &'a FileTree, build: &'a Project, path: &str) -> &'a str {
    let within = directories(tree, MARKERS).filter(|dir| is_within(dir, &build.dir) && is_within(path, dir));
    within.max_by_key(|dir| dir.len()).unwrap_or(&build.dir)
}

/// Whether the path is a Gradle script.
pub(super) fn is_script(path: &str) -> bool {
    MARKERS.contains(&path.rsplit('/').next().unwrap_or(path))
}

fn directories<'a>(tree: &'a FileTree, names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let is_ignored = |dir: &str| dir.split('/').any(|part| IGNORED_DIRS.contains(&part) || part.starts_with('.'));
    names.iter().flat_map(|name| tree.directories_with(name)).map(|(dir, _)| dir).filter(move |dir| !is_ignored(dir))
}

/// The name in the settings, else the directory's name.
fn name(tree: &FileTree, dir: &str) -> String {
    let settings = MARKERS[..SETTINGS].iter().flat_map(|name| tree.directories_with(name));
    let named = settings.filter(|(found, _)| *found == dir).find_map(|(_, settings)| {
        let (_, value) = settings.split_once("rootProject.name")?;
        let value = value.lines().next()?.trim_start_matches([' ', '=']);
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        value[1..].split_once(quote).map(|(name, _)| name.to_owned())
    });
    let otherwise = || dir.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("project").to_owned();
    named.unwrap_or_else(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> FileTree {
        let mut tree = FileTree::default();
        for (path, script) in [
            ("settings.gradle", "rootProject.name = 'shop'\ninclude 'core', 'web'"),
            ("build.gradle", ""),
            ("core/build.gradle.kts", ""),
            ("buildSrc/build.gradle", ""),
            ("core/src/test/resources/sample/settings.gradle", ""),
            ("tools/settings.gradle.kts", "rootProject.name = \"tools\""),
            ("tools/cli/build.gradle.kts", ""),
        ] {
            tree.add_with_content(path, script);
        }
        tree
    }

    fn found(tree: &FileTree) -> Vec<(String, String)> {
        builds(tree).into_iter().map(|build| (build.dir, build.name)).collect()
    }

    #[test]
    fn a_settings_script_makes_a_build_of_all_below_it() {
        let owned = |(dir, name): (&str, &str)| (dir.to_owned(), name.to_owned());
        assert_eq!(found(&tree()), [("", "shop"), ("tools", "tools")].map(owned));
        let mut tree = FileTree::default();
        ["a/build.gradle", "a/b/build.gradle", "c/build.gradle.kts"]
            .iter()
            .for_each(|script| tree.add_with_content(*script, ""));
        assert_eq!(found(&tree), [("a", "a"), ("c", "c")].map(owned));
    }

    #[test]
    fn a_file_belongs_to_the_innermost_script() {
        let (tree, build) = (tree(), Project { dir: String::new(), name: "shop".into() });
        for (file, dir) in [("core/src/test/java/T.java", "core"), ("web/src/test/java/T.java", ""), ("README.md", "")]
        {
            assert_eq!(project_dir(&tree, &build, file), dir, "{file}");
        }
        assert!(is_script("core/build.gradle.kts") && !is_script("core/build.gradle.java"));
    }
}

//! Finds Maven reactors: a `pom.xml` with the modules that it names, and theirs.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::{is_within, join};
use std::collections::BTreeSet;

/// The file that marks a module.
pub(super) const MARKER: &str = "pom.xml";

/// Directories whose projects are test data or build output.
const IGNORED_DIRS: [&str; 3] = ["src", "target", "node_modules"];

/// All projects that are no other project's module, sorted by directory.
pub(super) fn reactors(tree: &FileTree) -> Vec<Project> {
    let named: BTreeSet<String> =
        poms(tree).flat_map(|(dir, pom)| elements(pom, "module").map(move |module| module_dir(dir, module))).collect();
    let project = |(dir, pom): (&str, &str)| Project { dir: dir.to_owned(), name: artifact_id(pom, dir) };
    let mut reactors: Vec<Project> = poms(tree).filter(|(dir, _)| !named.contains(*dir)).map(project).collect();
    if reactors.is_empty() {
        // Modules that name each other in a cycle: Maven reports the error.
        reactors.extend(poms(tree).next().map(project));
    }
    reactors.sort();
    reactors
}

/// The directories of a reactor's modules, itself included.
pub(super) fn modules<'a>(tree: &'a FileTree, reactor: &'a Project) -> impl Iterator<Item = &'a str> {
    poms(tree).map(|(dir, _)| dir).filter(|dir| is_within(dir, &reactor.dir))
}

/// The module that a file belongs to: the innermost one above it.
pub(super) fn module_of<'a>(tree: &'a FileTree, reactor: &'a Project, path: &str) -> &'a str {
    modules(tree, reactor).filter(|dir| is_within(path, dir)).max_by_key(|dir| dir.len()).unwrap_or(&reactor.dir)
}

/// Whether a module of the reactor uses Failsafe, whose tests run after packaging.
pub(super) fn has_failsafe(tree: &FileTree, reactor: &Project) -> bool {
    poms(tree).any(|(dir, pom)| {
        is_within(dir, &reactor.dir) && elements(pom, "artifactId").any(|name| name == "maven-failsafe-plugin")
    })
}

fn poms(tree: &FileTree) -> impl Iterator<Item = (&str, &str)> {
    let is_ignored = |dir: &str| dir.split('/').any(|part| IGNORED_DIRS.contains(&part) || part.starts_with('.'));
    tree.directories_with(MARKER).filter(move |(dir, _)| !is_ignored(dir))
}

/// The directory of a module, which is named by its directory or by its file.
fn module_dir(dir: &str, module: &str) -> String {
    let path = join(dir, module);
    match path.rsplit_once('/') {
        Some((parent, file)) if file.ends_with(".xml") => parent.to_owned(),
        _ => path,
    }
}

/// The project's own `artifactId`, not its parent's.
fn artifact_id(pom: &str, dir: &str) -> String {
    let own = pom.split_once("</parent>").map_or(pom, |(_, rest)| rest);
    let otherwise = || dir.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("project");
    elements(own, "artifactId").next().unwrap_or_else(otherwise).to_owned()
}

/// The texts of the elements with this name, without those in comments.
fn elements<'a>(pom: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    pom.split("<!--").enumerate().flat_map(move |(number, part)| {
        let live = if number == 0 { part } else { part.split_once("-->").map_or("", |(_, rest)| rest) };
        live.split('<').filter_map(move |piece| Some(piece.strip_prefix(name)?.strip_prefix('>')?.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> FileTree {
        let mut tree = FileTree::default();
        for (path, pom) in [
            (
                "pom.xml",
                "<project><parent><artifactId>p</artifactId></parent><artifactId>root</artifactId><modules>\
                 <module>core</module><!-- <module>old</module> --><module> web/pom.xml </module></modules></project>",
            ),
            ("core/pom.xml", "<artifactId>core</artifactId><module>deep</module>"),
            ("core/deep/pom.xml", "<artifactId>deep</artifactId><artifactId>maven-failsafe-plugin</artifactId>"),
            ("web/pom.xml", "<project/>"),
            ("old/pom.xml", "<artifactId>old</artifactId>"),
            ("core/src/it/sample/pom.xml", "<artifactId>it</artifactId>"),
            ("core/target/pom.xml", ""),
            (".cache/pom.xml", ""),
        ] {
            tree.add_with_content(path, pom);
        }
        tree
    }

    #[test]
    fn a_module_belongs_to_the_pom_that_names_it() {
        let tree = tree();
        let found: Vec<(String, String)> = reactors(&tree).into_iter().map(|one| (one.dir, one.name)).collect();
        assert_eq!(found, [("", "root"), ("old", "old")].map(|(dir, name)| (dir.to_owned(), name.to_owned())));
    }

    #[test]
    fn a_file_belongs_to_the_innermost_module() {
        let tree = tree();
        let root = &reactors(&tree)[0];
        for (file, module) in
            [("core/deep/src/test/java/T.java", "core/deep"), ("core/src/it/sample/T.java", "core"), ("README.md", "")]
        {
            assert_eq!(module_of(&tree, root, file), module, "{file}");
        }
        assert!(has_failsafe(&tree, root));
        assert!(!has_failsafe(&tree, &reactors(&tree)[1]));
    }

    #[test]
    fn modules_that_name_each_other_are_one_project() {
        let mut tree = FileTree::default();
        tree.add_with_content("pom.xml", "<module>.</module>");
        assert_eq!(reactors(&tree).len(), 1);
    }
}

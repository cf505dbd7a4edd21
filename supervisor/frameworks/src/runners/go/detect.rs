//! Finds Go modules in a file tree, and maps files to packages and packages to modules.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::{is_within, join};
use std::collections::BTreeSet;

/// All modules of the workspace, sorted by directory.
pub(crate) fn modules(tree: &FileTree) -> Vec<Project> {
    let mut modules: Vec<Project> = tree
        .directories_with("go.mod")
        .filter(|(dir, _)| !is_ignored(dir))
        .map(|(dir, content)| Project { dir: dir.to_owned(), name: module_path(content, dir) })
        .collect();
    modules.sort();
    modules
}

/// Whether the go tool skips this directory when it expands `./...`.
fn is_ignored(dir: &str) -> bool {
    dir.split('/')
        .any(|part| part.starts_with(['_', '.']) || part == "vendor" || part == "testdata" || part == "node_modules")
}

/// The path after `module`. The go tool refuses a file without one, so the directory's name is enough for messages.
fn module_path(go_mod: &str, dir: &str) -> String {
    directives(go_mod, "module")
        .next()
        .unwrap_or_else(|| dir.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("module").to_owned())
}

/// First arguments of a directive of `go.mod` or `go.work`, in its one-line and its block form
/// (<https://go.dev/ref/mod#go-mod-file-lexical>).
fn directives<'a>(file: &'a str, keyword: &'a str) -> impl Iterator<Item = String> + 'a {
    let mut in_block = false;
    file.lines().filter_map(move |line| {
        let line = line.split("//").next().unwrap_or_default().trim();
        let argument = if in_block {
            in_block = line != ")";
            line
        } else {
            let rest = line.strip_prefix(keyword).filter(|rest| rest.starts_with([' ', '\t', '(', '"', '`']))?.trim();
            in_block = rest == "(";
            rest
        };
        let argument = argument.trim_matches(['"', '`']);
        (!argument.is_empty() && argument != "(" && argument != ")").then(|| argument.to_owned())
    })
}

/// Whether the `go.work` of the workspace's root uses the module.
pub(super) fn is_used_by_root_go_work(tree: &FileTree, module: &Project) -> bool {
    let root = tree.directories_with("go.work").find(|(dir, _)| dir.is_empty());
    root.is_some_and(|(_, content)| directives(content, "use").any(|used| join("", &used) == module.dir))
}

/// Whether a `go.work` governs the module's directory without using the module; the go tool would then refuse to run it.
pub(super) fn is_excluded_by_go_work(tree: &FileTree, module: &Project) -> bool {
    let governing = tree
        .directories_with("go.work")
        .filter(|(dir, _)| is_within(&module.dir, dir))
        .max_by_key(|(dir, _)| dir.len());
    governing
        .is_some_and(|(work_dir, content)| !directives(content, "use").any(|used| join(work_dir, &used) == module.dir))
}

/// The module of an import path and the package's directory within it; the longest module path wins, as in Go.
pub(super) fn module_of_package<'a>(
    projects: &'a [Project],
    go_directories: &BTreeSet<&str>,
    package: &str,
) -> Option<(&'a Project, String)> {
    let mut candidates: Vec<(&Project, String)> = projects
        .iter()
        .filter(|project| is_within(package, &project.name) && !project.name.is_empty())
        .map(|project| (project, package[project.name.len()..].trim_start_matches('/').to_owned()))
        .collect();
    candidates.sort_by_key(|(project, _)| std::cmp::Reverse(project.name.len()));
    // Copies of one module may share a path; the copy that contains the package wins.
    let holds_package =
        candidates.iter().position(|(project, dir)| go_directories.contains(join(&project.dir, dir).as_str()));
    (!candidates.is_empty()).then(|| candidates.swap_remove(holds_package.unwrap_or(0)))
}

/// Whether the go tool reads the file as source.
pub(super) fn is_go_file(path: &str) -> bool {
    path.ends_with(".go")
}

/// Directories that contain Go files, collected once because a rerun looks up hundreds of packages.
pub(super) fn go_directories(tree: &FileTree) -> BTreeSet<&str> {
    tree.files().filter(|file| is_go_file(file)).map(|file| file.rsplit_once('/').map_or("", |(dir, _)| dir)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> FileTree {
        let mut tree = FileTree::default();
        for (path, content) in files {
            tree.add_with_content(*path, *content);
        }
        tree
    }

    #[test]
    fn finds_modules_where_the_go_tool_looks() {
        let tree = tree(&[
            ("go.mod", "// a comment\nmodule example.com/root // another\n\ngo 1.21\n"),
            ("tools/go.mod", "module \"example.com/quoted\"\n"),
            ("block/go.mod", "module (\n\texample.com/block\n)\n"),
            ("vendor/x/go.mod", "module x"),
            ("a/testdata/m/go.mod", "module x"),
            ("node_modules/m/go.mod", "module x"),
            ("_old/go.mod", "module x"),
            (".cache/go.mod", "module x"),
            ("broken/go.mod", "mod"),
            ("modulex/go.mod", "modulex y\nmodule example.com/y"),
        ]);
        let found: Vec<(String, String)> = modules(&tree).into_iter().map(|module| (module.dir, module.name)).collect();
        let expected = [
            ("", "example.com/root"),
            ("block", "example.com/block"),
            ("broken", "broken"),
            ("modulex", "example.com/y"),
            ("tools", "example.com/quoted"),
        ];
        assert_eq!(found, expected.map(|(dir, name)| (dir.to_owned(), name.to_owned())));
    }

    #[test]
    fn a_module_that_its_go_work_does_not_use_is_outside() {
        let tree = tree(&[
            ("go.work", "go 1.21\nuse (\n\t./a\n\t\"./b\" // why\n)\nuse ./d\n"),
            ("a/go.mod", "module a"),
            ("b/go.mod", "module b"),
            ("c/go.mod", "module c"),
            ("d/go.mod", "module d"),
            ("d/e/go.mod", "module e"),
            ("d/e/go.work", "use .\n"),
        ]);
        let outside: Vec<String> = modules(&tree)
            .into_iter()
            .filter(|module| is_excluded_by_go_work(&tree, module))
            .map(|module| module.name)
            .collect();
        assert_eq!(outside, ["c"]);
    }

    #[test]
    fn assigns_a_package_to_the_longest_module_path_that_contains_it() {
        let project = |dir: &str, name: &str| Project { dir: dir.to_owned(), name: name.to_owned() };
        let projects = [project("", "m"), project("sub", "m/sub"), project("copy", "m")];
        let tree = tree(&[("sub/x/x.go", ""), ("copy/y/y.go", ""), ("a.go", "")]);
        let module_dir = |package: &str| {
            module_of_package(&projects, &go_directories(&tree), package)
                .map(|(project, dir)| format!("{}|{dir}", project.dir))
        };
        assert_eq!(module_dir("m/sub/x").unwrap(), "sub|x");
        assert_eq!(module_dir("m/y").unwrap(), "copy|y");
        assert_eq!(module_dir("m").unwrap(), "|");
        assert_eq!(module_dir("mm"), None);
    }
}

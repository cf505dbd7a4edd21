//! Names of the files that decide what a checker finds in other files: its settings, those of the build, and lock files.
//!
//! A check of changed files looks at all files once such a file was changed, added or deleted. The names are compared
//! without reading anything, so a file of another name that settings extend is not among them.

use super::CHECKERS;

/// What decides how Go packages are built.
pub(super) const GO: &[&str] = &["go.mod", "go.sum", "go.work", "go.work.sum", "vendor/modules.txt"];

/// What decides how Cargo builds.
pub(super) const CARGO: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain*",
    "clippy.toml",
    ".clippy.toml",
    ".cargo/config.toml",
    ".cargo/config",
];

/// What decides about the packages and the version of Python.
pub(super) const PYTHON: &[&str] = &[
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "requirements*",
    "constraints*.txt",
    "uv.lock",
    "uv.toml",
    "poetry.lock",
    "pdm.lock",
    "pylock*.toml",
    "Pipfile",
    "Pipfile.lock",
    "environment.yml",
    "environment.yaml",
    ".python-version",
];

/// What decides about packages of Node, and how TypeScript reads sources.
pub(super) const NODE: &[&str] = &[
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.json",
    "deno.jsonc",
    "deno.lock",
    "tsconfig*.json",
    "jsconfig*.json",
];

/// Names of files that a checker leaves out.
pub(super) const IGNORE: &[&str] = &[".gitignore", ".ignore"];

/// Whether a change of the file at this path may change what a checker finds in others.
#[must_use]
pub fn is_settings_path(path: &str) -> bool {
    let mut names = CHECKERS.iter().flat_map(|checker| checker.manifest().settings.iter().copied().flatten());
    names.any(|pattern| is_named(path, pattern))
}

/// Whether the last components of a path, as many as the pattern has, are those of the pattern. Its first `*` stands
/// for any text.
fn is_named(path: &str, pattern: &str) -> bool {
    let above = path.rmatch_indices('/').nth(pattern.matches('/').count());
    let name = path.get(above.map_or(0, |(at, _)| at + 1)..).unwrap_or_default();
    match pattern.split_once('*') {
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::FileTree;

    #[test]
    fn settings_of_every_checker_the_build_and_lock_files_are_known_in_every_directory() {
        for name in [
            ".golangci.yml",
            ".golangci.json",
            "go.mod",
            "go.sum",
            "go.work",
            "vendor/modules.txt",
            "ruff.toml",
            ".ruff.toml",
            "pyproject.toml",
            "requirements-dev.txt",
            "mypy.ini",
            ".mypy.ini",
            "setup.cfg",
            "pyrightconfig.json",
            "eslint.config.mjs",
            ".eslintrc.yaml",
            ".eslintrc",
            ".eslintignore",
            ".gitignore",
            "biome.jsonc",
            ".biome.json",
            "package.json",
            "pnpm-lock.yaml",
            "tsconfig.json",
            "tsconfig.base.json",
            "Cargo.toml",
            "Cargo.lock",
            "clippy.toml",
            "rust-toolchain",
            "rust-toolchain.toml",
            ".cargo/config.toml",
        ] {
            assert!(is_settings_path(name), "{name}");
            assert!(is_settings_path(&format!("services/a/{name}")), "services/a/{name}");
        }
    }

    #[test]
    fn sources_documents_and_other_settings_are_no_settings_of_a_checker() {
        for name in [
            "main.go",
            "a.py",
            "src/lib.rs",
            "README.md",
            "config.toml",
            "modules.txt",
            "my-go.mod",
            "data/cases.json",
            ".github/workflows/ci.yml",
            "ruff.toml/a.py",
            "tsconfig",
        ] {
            assert!(!is_settings_path(name), "{name}");
        }
    }

    #[test]
    fn what_selects_a_checker_is_among_its_settings() {
        for checker in CHECKERS {
            let tree = FileTree::with_contents(checker.manifest().sample);
            let projects = checker.detect(&tree);
            assert!(!projects.is_empty());
            let name = checker.manifest().name;
            let mut names = checker.manifest().settings.iter().copied().flatten();
            let config = &projects[0].config;
            assert!(names.any(|pattern| is_named(config, pattern)), "{name}: {config}");
            assert!(checker.manifest().markers.iter().all(|marker| is_settings_path(marker)), "{name}");
        }
    }
}

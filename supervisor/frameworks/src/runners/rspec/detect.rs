//! Finds RSpec projects: directories with a `.rspec`, with spec files below `spec`, or with a Gemfile that names RSpec.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::{ancestors, join};
use std::collections::BTreeSet;

/// Files whose content detection reads.
pub(super) const MARKERS: &[&str] = &[".rspec", "Gemfile", "gems.rb", "Gemfile.lock", "gems.locked"];

/// Files that list a project's gems.
const GEMFILES: [&str; 2] = ["Gemfile", "gems.rb"];

/// Files that pin the versions of a project's gems.
const LOCKS: [&str; 2] = ["Gemfile.lock", "gems.locked"];

/// Directory that RSpec looks for specs in by default.
pub(super) const SPECS: &str = "spec";

/// Directories of installed gems and of other tools' files.
const IGNORED_DIRS: [&str; 4] = ["vendor", "node_modules", "tmp", "pkg"];

/// All projects, sorted by directory.
pub(super) fn projects(tree: &FileTree) -> Vec<Project> {
    let settings = tree.directories_with(".rspec").map(|(dir, _)| dir);
    let specs = tree.files().filter(|file| is_spec(file)).filter_map(above_specs);
    let gemfiles = GEMFILES.iter().flat_map(|name| tree.directories_with(name));
    let listed = gemfiles.filter(|(_, gemfile)| names_rspec(gemfile)).map(|(dir, _)| dir);
    let dirs: BTreeSet<&str> = settings.chain(specs).chain(listed).filter(|dir| !is_ignored(dir)).collect();
    let name = |dir: &str| dir.rsplit('/').next().unwrap_or_default().to_owned();
    dirs.into_iter().map(|dir| Project { dir: dir.to_owned(), name: name(dir) }).collect()
}

/// Whether a file is a spec by its name.
pub(super) fn is_spec(path: &str) -> bool {
    path.ends_with("_spec.rb")
}

/// Whether Bundler runs the project's RSpec: the nearest Gemfile with a lock that names it. As Bundler does, looks in all
/// directories above.
pub(super) fn is_bundled(tree: &FileTree, dir: &str) -> bool {
    let lock = ancestors(dir).find_map(|dir| LOCKS.iter().find_map(|name| tree.content(&join(dir, name))));
    lock.is_some_and(|lock| lock.lines().any(|line| line.trim_start().starts_with("rspec-core ")))
}

/// The directory above the outermost `spec` directory of a spec file.
fn above_specs(file: &str) -> Option<&str> {
    let mut end = 0;
    for part in file.split('/') {
        if part == SPECS && end + part.len() < file.len() {
            return Some(file[..end].trim_end_matches('/'));
        }
        end += part.len() + 1;
    }
    None
}

/// Whether a Gemfile lists RSpec or a gem that brings it: `gem "rspec-rails"`.
fn names_rspec(gemfile: &str) -> bool {
    let gems = gemfile.lines().filter_map(|line| line.trim_start().strip_prefix("gem "));
    gems.map(|rest| rest.trim_start().trim_start_matches(['"', '\''])).any(|name| name.starts_with("rspec"))
}

fn is_ignored(dir: &str) -> bool {
    dir.split('/').any(|part| IGNORED_DIRS.contains(&part) || (part.starts_with('.') && part.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(files: &[(&str, &str)]) -> Vec<String> {
        projects(&FileTree::with_contents(files)).into_iter().map(|project| project.dir).collect()
    }

    #[test]
    fn detects_settings_spec_files_and_gemfiles() {
        assert_eq!(detect(&[(".rspec", "")]), [""]);
        assert_eq!(
            detect(&[("spec/models/user_spec.rb", ""), ("engines/core/spec/a_spec.rb", "")]),
            ["", "engines/core"]
        );
        assert_eq!(detect(&[("web/Gemfile", "source 'x'\n  gem 'rspec-rails', '~> 6'\n")]), ["web"]);
        for none in [
            ("Gemfile", "gem 'minitest'\n# gem 'rspec'"),
            ("spec/spec_helper.rb", ""),
            ("lib/a_spec.rb", ""),
            ("vendor/bundle/gems/x/spec/a_spec.rb", ""),
            ("web/node_modules/x/.rspec", ""),
        ] {
            assert_eq!(detect(&[none]), [""; 0], "{none:?}");
        }
        assert_eq!(detect(&[("spec/fixtures/app/spec/a_spec.rb", "")]), [""], "the outermost spec directory");
    }

    #[test]
    fn bundler_runs_the_rspec_of_the_nearest_lock() {
        let lock = "GEM\n  specs:\n    rspec-core (3.13.0)\n";
        let tree = FileTree::with_contents(&[
            ("Gemfile.lock", lock),
            ("a/b/.rspec", ""),
            ("c/gems.locked", "    rake (13)\n"),
        ]);
        assert!(is_bundled(&tree, "") && is_bundled(&tree, "a/b") && !is_bundled(&tree, "c"));
        assert!(!is_bundled(&FileTree::default(), ""));
    }
}

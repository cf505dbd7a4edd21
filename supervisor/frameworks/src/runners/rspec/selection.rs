//! The spec files of a path.

use super::NAME;
use super::detect::{SPECS, is_spec};
use crate::contract::{FileTree, Project};
use crate::ecosystems::path_selection::PathRules;
use crate::parsing::workspace_paths::{is_within, join};

/// Directories of sources whose specs lie at the same path below `spec`: `app/models/a.rb` and `spec/models/a_spec.rb`.
const SOURCES: [&str; 2] = ["app", "lib"];

/// RSpec takes spec files and directories.
pub(super) const RULES: PathRules = PathRules {
    framework: NAME,
    noun: "spec",
    extension: ".rb",
    tests_of: specs_of,
    files_of_name: |_, _, _| Vec::new(),
    reruns_by_path: true,
};

/// The spec files or directories of a path relative to the project: a spec and a directory below `spec` are their own, a source
/// has the spec that is named after it. Empty where any spec may be affected.
fn specs_of(tree: &FileTree, project: &Project, path: &str) -> Vec<String> {
    let whole = |path: &str| join(&project.dir, path);
    if !tree.contains(&whole(path)) || is_spec(path) {
        let has_specs = is_spec(path) || tree.files_below(&whole(path)).any(is_spec);
        return has_specs.then(|| path.to_owned()).into_iter().collect();
    }
    let Some(stem) = path.strip_suffix(".rb").filter(|_| !is_within(path, SPECS)) else { return Vec::new() };
    let below = SOURCES.iter().find_map(|dir| stem.strip_prefix(dir)?.strip_prefix('/'));
    let candidates = [Some(stem), below].into_iter().flatten().map(|stem| format!("{SPECS}/{stem}_spec.rb"));
    candidates.filter(|spec| tree.contains(&whole(spec))).collect()
}

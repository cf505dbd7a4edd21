//! Which framework a workspace is for: the request's word first, then what the tree shows, then the files that the request
//! names. Must not know any framework.

use crate::paths::{is_within, project_of};
use crate::together::Chosen;
use crate::tree::FileTree;
use crate::{FRAMEWORKS, Framework, Project};
use proctor_core::request::{ALL_FRAMEWORKS, Selection};
use thiserror::Error;

/// A framework and its projects in one workspace.
#[derive(Clone)]
pub struct Detected {
    /// The adapter.
    pub framework: &'static dyn Framework,
    /// Its projects, at least one.
    pub projects: Vec<Project>,
}

impl Detected {
    /// Whether a file or directory is one of its projects' own.
    pub(crate) fn has(&self, tree: &FileTree, path: &str) -> bool {
        holds(self.framework.extensions(), &self.projects, tree, path)
    }
}

/// Whether `path` is a source file of these projects, or a directory with one.
pub(crate) fn holds(extensions: &[&str], projects: &[Project], tree: &FileTree, path: &str) -> bool {
    let is_own = |file: &str| {
        let extension = file.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension);
        extension.is_some_and(|extension| extensions.contains(&extension)) && project_of(projects, file).is_some()
    };
    if tree.contains(path) { is_own(path) } else { tree.files().any(|file| is_within(file, path) && is_own(file)) }
}

/// Why no single framework could be chosen. The texts are part of the contract with agents.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DetectError {
    /// Nothing that any adapter knows.
    #[error("no supported project detected in workspace root")]
    NoProject,
    /// Several frameworks, and the request names none.
    #[error("polyglot workspace: {} project types detected ({}) — pass `framework` to pick one", names.len(), names.join(", "))]
    Polyglot {
        /// Their names.
        names: Vec<&'static str>,
    },
    /// The request names a framework that no adapter knows.
    #[error("unknown framework `{asked}`: known are {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The request names a framework of which the workspace has no project.
    #[error("no {framework} project detected in the workspace: one is recognised by {markers}")]
    NotHere {
        /// The framework.
        framework: &'static str,
        /// What its projects are recognised by.
        markers: String,
    },
}

/// Chooses the frameworks of a run: the one that is asked for, all with `all`, the only one there is, or those that have the
/// selected files.
pub fn choose(tree: &FileTree, asked: Option<&str>, selection: &Selection) -> Result<Chosen, DetectError> {
    choose_among(FRAMEWORKS, tree, asked, selection).map(Chosen)
}

fn choose_among(
    frameworks: &[&'static dyn Framework],
    tree: &FileTree,
    asked: Option<&str>,
    selection: &Selection,
) -> Result<Vec<Detected>, DetectError> {
    let everything = asked == Some(ALL_FRAMEWORKS);
    if let Some(name) = asked.filter(|_| !everything) {
        let framework =
            *frameworks.iter().find(|framework| framework.name() == name).ok_or_else(|| DetectError::Unknown {
                asked: name.to_owned(),
                known: frameworks.iter().map(|framework| framework.name()).collect(),
            })?;
        let projects = framework.asked(tree);
        if projects.is_empty() {
            return Err(DetectError::NotHere { framework: framework.name(), markers: framework.signs() });
        }
        return Ok(vec![Detected { framework, projects }]);
    }
    let found: Vec<Detected> = frameworks
        .iter()
        .map(|framework| {
            let mut projects = framework.detect(tree);
            projects.retain(|project| framework.claims(tree, project));
            Detected { framework: *framework, projects }
        })
        .filter(|detected| !detected.projects.is_empty())
        .collect();
    match found.len() {
        0 => Err(DetectError::NoProject),
        1 => Ok(found),
        _ if everything => Ok(found),
        _ if let Selection::Matching { files, .. } = selection
            && !files.is_empty()
            && files.iter().all(|file| found.iter().any(|detected| detected.has(tree, file))) =>
        {
            Ok(found.into_iter().filter(|detected| files.iter().any(|file| detected.has(tree, file))).collect())
        }
        _ => Err(DetectError::Polyglot { names: found.iter().map(|detected| detected.framework.name()).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::together::tests::{A, B};

    fn chosen(asked: Option<&str>, files: &[&str]) -> Result<String, DetectError> {
        let mut tree = FileTree::default();
        ["x.a", "both/y.a", "both/y.b", "z.b", "notes"].iter().for_each(|file| tree.add(*file));
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        let selection = Selection::Matching { filter: None, files };
        choose_among(&[&A, &B], &tree, asked, &selection).map(|found| Chosen(found).name())
    }

    #[test]
    fn the_request_decides_then_its_files_and_else_it_is_asked_to() {
        assert_eq!(chosen(Some("b"), &[]).unwrap(), "b");
        assert_eq!(chosen(Some("all"), &["x.a"]).unwrap(), "a, b");
        assert_eq!(chosen(None, &["x.a"]).unwrap(), "a");
        assert_eq!(chosen(None, &["both", "z.b"]).unwrap(), "a, b");
        for files in [&[][..], &["notes"], &["x.a", "gone"]] {
            let told = chosen(None, files).unwrap_err().to_string();
            let wanted = "polyglot workspace: 2 project types detected (a, b) — pass `framework` to pick one";
            assert_eq!(told, wanted);
        }
    }
}

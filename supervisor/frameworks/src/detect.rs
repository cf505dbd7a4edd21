//! Which framework a workspace is for: the request's word first, then what the tree shows. Must not know any framework.

use crate::tree::FileTree;
use crate::{FRAMEWORKS, Framework, Project};
use thiserror::Error;

/// A framework and its projects in one workspace.
#[derive(Clone)]
pub struct Detected {
    /// The adapter.
    pub framework: &'static dyn Framework,
    /// Its projects, at least one.
    pub projects: Vec<Project>,
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
    #[error("no {framework} project detected in the workspace: {markers} not found")]
    NotHere {
        /// The framework.
        framework: &'static str,
        /// What its projects are recognised by.
        markers: String,
    },
}

/// Chooses the frameworks of a run: the one that is asked for, all with `all`, or the only one there is.
pub fn choose(tree: &FileTree, asked: Option<&str>) -> Result<Vec<Detected>, DetectError> {
    choose_among(FRAMEWORKS, tree, asked)
}

fn choose_among(
    frameworks: &[&'static dyn Framework],
    tree: &FileTree,
    asked: Option<&str>,
) -> Result<Vec<Detected>, DetectError> {
    let everything = asked == Some("all");
    if let Some(name) = asked.filter(|_| !everything) {
        let framework =
            *frameworks.iter().find(|framework| framework.name() == name).ok_or_else(|| DetectError::Unknown {
                asked: name.to_owned(),
                known: frameworks.iter().map(|framework| framework.name()).collect(),
            })?;
        let projects = framework.detect(tree);
        if projects.is_empty() {
            return Err(DetectError::NotHere { framework: framework.name(), markers: framework.markers().join(", ") });
        }
        return Ok(vec![Detected { framework, projects }]);
    }
    let found: Vec<Detected> = frameworks
        .iter()
        .map(|framework| Detected { framework: *framework, projects: framework.detect(tree) })
        .filter(|detected| !detected.projects.is_empty())
        .collect();
    match found.len() {
        0 => Err(DetectError::NoProject),
        1 => Ok(found),
        _ if everything => Ok(found),
        _ => Err(DetectError::Polyglot { names: found.iter().map(|detected| detected.framework.name()).collect() }),
    }
}

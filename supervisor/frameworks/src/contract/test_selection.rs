//! A request's selection as adapters plan it, and the paths of the files that it names.

use crate::contract::{PlanError, Project, innermost_project};
use crate::parsing::workspace_paths::{join, leaves_workspace};
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};

/// The tests that a plan runs. Unlike a [`Selection`] it has no failures of an earlier run, which the session resolves, and no names
/// without a target, which the frameworks resolve: an unresolved one runs everything, the superset.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TestSelection<'a> {
    /// All tests of the projects, or those that match a filter.
    Everything {
        /// The runner's own filter expression.
        filter: Option<&'a Filter>,
    },
    /// The tests of these files and directories, or those of them that match a filter.
    Files {
        /// At least one, relative to the workspace, as the request has them: see [`path_of`] and [`owner_of`].
        files: &'a [String],
        /// The runner's own filter expression.
        filter: Option<&'a Filter>,
    },
    /// Exactly these tests and packages, and the tests of these names.
    Targets(&'a [RerunTarget]),
}

impl<'a> TestSelection<'a> {
    pub(crate) fn new(selection: &'a Selection) -> TestSelection<'a> {
        match selection {
            Selection::All | Selection::LastFailed { .. } | Selection::Affected { .. } | Selection::Named(_) => {
                TestSelection::Everything { filter: None }
            }
            Selection::Matching { filter, files } if files.is_empty() => {
                TestSelection::Everything { filter: filter.as_ref() }
            }
            Selection::Matching { filter, files } => TestSelection::Files { files, filter: filter.as_ref() },
            Selection::Exactly(targets) => TestSelection::Targets(targets),
        }
    }
}

/// The normal form of a file's path. An error for one that is absolute or has a `..`: it could leave the workspace.
pub(crate) fn path_of(framework: &'static str, file: &str) -> Result<String, PlanError> {
    if leaves_workspace(file) {
        return Err(outside(framework, file));
    }
    Ok(join("", file))
}

/// The same with the innermost project that contains the file. An error for a file in no project.
pub(crate) fn owner_of<'a>(
    framework: &'static str,
    projects: &'a [Project],
    file: &str,
) -> Result<(String, &'a Project), PlanError> {
    let path = path_of(framework, file)?;
    let project = innermost_project(projects, &path).ok_or_else(|| outside(framework, file))?;
    Ok((path, project))
}

/// The error for a file that is in no project of the framework.
pub(crate) fn outside(framework: &'static str, file: &str) -> PlanError {
    PlanError::FileOutsideProject { file: file.to_owned(), framework }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_name::TestName;

    #[test]
    fn a_file_outside_of_the_workspace_or_of_all_projects_is_an_error() {
        let projects = [Project { dir: "a".to_owned(), name: String::new() }];
        assert_eq!(owner_of("go", &projects, "./a//b.go").unwrap(), ("a/b.go".to_owned(), &projects[0]));
        for file in ["/a/b.go", "a/../../b.go", "..", "b.go"] {
            assert_eq!(owner_of("go", &projects, file).unwrap_err(), outside("go", file));
        }
    }

    #[test]
    fn an_unresolved_selection_runs_everything() {
        let named = Selection::Named(TestName::parse_all(&["a".to_owned()]).unwrap());
        for selection in [Selection::All, Selection::LastFailed { limit: None }, named] {
            assert!(matches!(TestSelection::new(&selection), TestSelection::Everything { filter: None }));
        }
    }
}

//! Chooses the frameworks of a run: by the request, then by what the tree shows, then by the files that the request names.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::run::framework_choice::{DetectedFramework, FrameworkChoice};
use crate::{FRAMEWORKS, Framework};
use proctor_core::human_units::first_names;
use proctor_core::request::{ALL_FRAMEWORKS, RerunTarget, Selection};
use thiserror::Error;

/// Why no single framework could be chosen. The texts are part of the contract with agents.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DetectError {
    /// No framework has a project.
    #[error("no supported project detected in workspace root")]
    NoProject,
    /// Several frameworks, and the request names none.
    #[error("polyglot workspace: {} project types detected ({}) — pass `framework` to pick one", names.len(), names.join(", "))]
    Polyglot {
        /// Their names.
        names: Vec<&'static str>,
    },
    /// The request names an unknown framework.
    #[error("unknown framework `{requested}`: known are {}", known.join(", "))]
    Unknown {
        /// The requested name.
        requested: String,
        /// The known names.
        known: Vec<&'static str>,
    },
    /// The request names a framework that has no project in the workspace.
    #[error("no {framework} project detected in the workspace: one is recognised by {markers}")]
    NotHere {
        /// The framework's name.
        framework: &'static str,
        /// What its projects are recognised by.
        markers: String,
    },
}

/// Most projects that a note names.
const FURTHER_MAX: usize = 8;

/// Chooses the frameworks of a run, by the first of these that applies: the requested one; every one for `all`; those with the
/// selected files; those with a project at the root; the only one found.
///
/// Their projects are the root's and those it includes. A project below the root is named in a note, and run if its files are
/// selected.
pub fn choose(tree: &FileTree, requested: Option<&str>, selection: &Selection) -> Result<FrameworkChoice, DetectError> {
    choose_among(FRAMEWORKS, tree, requested, selection)
}

fn choose_among(
    frameworks: &[&'static dyn Framework],
    tree: &FileTree,
    requested: Option<&str>,
    selection: &Selection,
) -> Result<FrameworkChoice, DetectError> {
    let everything = requested == Some(ALL_FRAMEWORKS);
    let files = match selection {
        Selection::Matching { files, .. } => files.as_slice(),
        Selection::Exactly(_)
        | Selection::All
        | Selection::LastFailed { .. }
        | Selection::Affected { .. }
        | Selection::Named(_) => &[],
    };
    let may_narrow = files.is_empty() && !matches!(selection, Selection::Exactly(_));
    if let Some(name) = requested.filter(|_| !everything) {
        let framework =
            *frameworks.iter().find(|framework| framework.name() == name).ok_or_else(|| DetectError::Unknown {
                requested: name.to_owned(),
                known: frameworks.iter().map(|framework| framework.name()).collect(),
            })?;
        let projects = framework.detect_explicit(tree);
        if projects.is_empty() {
            return Err(DetectError::NotHere {
                framework: framework.name(),
                markers: framework.describe_markers_in(tree),
            });
        }
        let mut found = vec![DetectedFramework { framework, projects }];
        let mut notes = Vec::new();
        drop_covered(tree, &mut found, selection);
        if may_narrow && owners_of_names(tree, &found, selection).is_none() {
            notes.extend(keep_root_projects(tree, &mut found, false));
            notes.extend(unrequested_note(tree, &found[0], &detected(frameworks, tree)));
        }
        return Ok(FrameworkChoice { detected: found, notes });
    }
    let mut found = detected(frameworks, tree);
    drop_covered(tree, &mut found, selection);
    if !files.is_empty() && found.len() > 1 && !everything {
        if files.iter().all(|file| found.iter().any(|detected| detected.owns(tree, file))) {
            found.retain(|detected| files.iter().any(|file| detected.owns(tree, file)));
            return Ok(FrameworkChoice { detected: found, notes: Vec::new() });
        }
        return Err(polyglot(&found));
    }
    let owners = owners_of_names(tree, &found, selection);
    if let Some(owners) = owners.as_deref().filter(|_| !everything) {
        let mut is_owner = owners.iter();
        found.retain(|_| is_owner.next().is_some_and(|is_owner| *is_owner));
        return Ok(FrameworkChoice { detected: found, notes: Vec::new() });
    }
    let notes = if may_narrow && owners.is_none() { keep_root_projects(tree, &mut found, !everything) } else { None };
    match found.len() {
        0 => Err(DetectError::NoProject),
        1 => Ok(FrameworkChoice { detected: found, notes: notes.into_iter().collect() }),
        _ if everything || share_one_script(tree, &found) => {
            Ok(FrameworkChoice { detected: found, notes: notes.into_iter().collect() })
        }
        _ => Err(polyglot(&found)),
    }
}

/// For each framework, whether it has the package of one of the selected names; `None` unless the package of every name is known.
fn owners_of_names(tree: &FileTree, found: &[DetectedFramework], selection: &Selection) -> Option<Vec<bool>> {
    let Selection::Named(names) = selection else { return None };
    let is_located = |target: &RerunTarget| target.package().is_some();
    let located: Vec<Vec<bool>> =
        found.iter().map(|one| one.resolve_names(tree, names).iter().map(is_located).collect()).collect();
    let has_owner = |index: usize| located.iter().any(|of_names| of_names.get(index) == Some(&true));
    (0..names.len()).all(has_owner).then(|| located.iter().map(|of_names| of_names.contains(&true)).collect())
}

/// Every framework with projects that it runs by default. A fallback framework has a project only where no other framework has
/// one, or where one file starts both.
fn detected(frameworks: &[&'static dyn Framework], tree: &FileTree) -> Vec<DetectedFramework> {
    let mut found: Vec<DetectedFramework> = frameworks
        .iter()
        .map(|framework| {
            let mut projects = framework.detect(tree);
            projects.retain(|project| framework.is_default_for(tree, project));
            DetectedFramework { framework: *framework, projects }
        })
        .collect();
    let others: Vec<DetectedFramework> =
        found.iter().filter(|one| !one.framework.manifest().is_fallback).cloned().collect();
    let is_available = |project: &Project| {
        let neighbours = others.iter().filter(|other| other.projects.iter().any(|own| own.dir == project.dir));
        let stands_alone = neighbours.clone().next().is_none();
        let file = |other: &DetectedFramework| {
            let own = other.projects.iter().find(|own| own.dir == project.dir)?;
            other.framework.test_script(tree, own)
        };
        stands_alone || neighbours.filter_map(file).next().is_some()
    };
    for fallback in found.iter_mut().filter(|one| one.framework.manifest().is_fallback) {
        fallback.projects.retain(is_available);
    }
    found.retain(|detected| !detected.projects.is_empty());
    found
}

fn polyglot(found: &[DetectedFramework]) -> DetectError {
    DetectError::Polyglot { names: found.iter().map(|detected| detected.framework.name()).collect() }
}

/// Whether one file starts all of them.
fn share_one_script(tree: &FileTree, found: &[DetectedFramework]) -> bool {
    let files = |DetectedFramework { framework, projects }: &DetectedFramework| -> Vec<String> {
        projects.iter().filter_map(|project| framework.test_script(tree, project)).collect()
    };
    let mut all = found.iter().map(files);
    let Some(first) = all.next() else { return false };
    !all.fold(first, |common, files| common.into_iter().filter(|file| files.contains(file)).collect()).is_empty()
}

/// Drops projects whose tests the root project collects too: failures there are rerun as the root's. If the selection names
/// files, nothing is dropped, since a file keeps its own project.
fn drop_covered(tree: &FileTree, found: &mut [DetectedFramework], selection: &Selection) {
    if matches!(selection, Selection::Matching { files, .. } if !files.is_empty()) {
        return;
    }
    for DetectedFramework { framework, projects } in found {
        if let Some(root) = projects.iter().find(|project| project.dir.is_empty()).cloned() {
            projects.retain(|project| *project == root || !framework.collects_tests_of(tree, &root, project));
        }
    }
}

/// Keeps the root's projects and those they include, if the root has any, and returns a note that names the others. With
/// `drop_others`, a framework without a project at the root loses all of its projects.
fn keep_root_projects(tree: &FileTree, found: &mut Vec<DetectedFramework>, drop_others: bool) -> Option<String> {
    let is_root = |project: &Project| project.dir.is_empty();
    if !found.iter().any(|detected| detected.projects.iter().any(is_root)) {
        return None;
    }
    let mut further: Vec<String> = Vec::new();
    for DetectedFramework { framework, projects } in found.iter_mut() {
        let root = projects.iter().find(|project| is_root(project)).cloned();
        projects.retain(|project| {
            let stays = match &root {
                Some(root) => project == root || framework.includes(tree, root, project),
                None => !drop_others,
            };
            if !stays {
                further.push(format!("{} ({})", project.dir, framework.name()));
            }
            stays
        });
    }
    found.retain(|detected| !detected.projects.is_empty());
    (!further.is_empty()).then(|| {
        let named = first_names(&further, FURTHER_MAX);
        format!("the project of the root was run, and not those below it: {named} (--file DIR runs one)")
    })
}

/// A note that names the frameworks that the same file starts and that were not requested.
fn unrequested_note(tree: &FileTree, requested: &DetectedFramework, all: &[DetectedFramework]) -> Option<String> {
    let others = all.iter().filter(|other| other.framework.name() != requested.framework.name());
    let is_beside = |other: &&DetectedFramework| share_one_script(tree, &[requested.clone(), (*other).clone()]);
    let names: Vec<&str> = others.filter(is_beside).map(|other| other.framework.name()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the test script also starts what was not asked for: {} (without --framework all of it runs)",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::framework_choice::tests::{A, B};

    fn chosen(requested: Option<&str>, files: &[&str]) -> Result<String, DetectError> {
        let mut tree = FileTree::default();
        ["x.a", "both/y.a", "both/y.b", "z.b", "notes"].iter().for_each(|file| tree.add(*file));
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        let selection = Selection::Matching { filter: None, files };
        choose_among(&[&A, &B], &tree, requested, &selection).map(|found| found.name())
    }

    #[test]
    fn chooses_by_the_request_then_by_its_files_and_else_refuses() {
        assert_eq!(chosen(Some("b"), &[]).unwrap(), "b");
        assert_eq!(chosen(Some("all"), &["x.a"]).unwrap(), "a, b");
        assert_eq!(chosen(None, &["x.a"]).unwrap(), "a");
        assert_eq!(chosen(None, &["both", "z.b"]).unwrap(), "a, b");
        for files in [&[][..], &["notes"], &["x.a", "gone"]] {
            let text = chosen(None, files).unwrap_err().to_string();
            let wanted = "polyglot workspace: 2 project types detected (a, b) — pass `framework` to pick one";
            assert_eq!(text, wanted);
        }
    }

    fn choose_from(files: &[(&str, &str)], requested: Option<&str>, selection: &Selection) -> String {
        let mut tree = FileTree::default();
        files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
        match choose(&tree, requested, selection) {
            Ok(chosen) => [&[chosen.name()], chosen.notes.as_slice()].concat().join("; "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn runs_everything_that_one_test_script_starts() {
        let package =
            |script: &str| format!(r#"{{"scripts":{{"test":"{script}"}},"devDependencies":{{"mocha":"11"}}}}"#);
        let choose_for =
            |script: &str, requested| choose_from(&[("package.json", &package(script))], requested, &Selection::All);
        assert_eq!(choose_for("jest && borp && tap test/*.js", None), "jest, node, script");
        assert_eq!(choose_for("eslint . && borp", None), "node");
        assert_eq!(choose_for("node bin/hot.js mocha x && karma start", None), "script");
        let text =
            "mocha; the test script also starts what was not asked for: script (without --framework all of it runs)";
        assert_eq!(choose_for("mocha && tape x", Some("mocha")), text);
        let text = choose_for("tap", Some("node"));
        assert!(text.contains("starts node --test") && text.ends_with("that of package.json is `tap`"), "{text}");
        let pytest = [("package.json", package("make check")), ("pytest.ini", "[pytest]".to_owned())];
        let pytest: Vec<(&str, &str)> = pytest.iter().map(|(path, content)| (*path, content.as_str())).collect();
        assert_eq!(choose_from(&pytest, None, &Selection::All), "pytest");
    }

    #[test]
    fn runs_the_root_project_and_names_those_below_it() {
        let cmake = "project(p)\nenable_testing()";
        let jest = r#"{"scripts":{"test":"jest"}}"#;
        let files = [
            ("CMakeLists.txt", cmake),
            ("support/build.gradle", ""),
            ("examples/web/package.json", jest),
            ("go/go.mod", "module m"),
            ("go/a_test.go", ""),
        ];
        let text = choose_from(&files, None, &Selection::All);
        let note = "the project of the root was run, and not those below it: go (go), examples/web (jest), support (gradle) \
                    (--file DIR runs one)";
        assert_eq!(text, format!("ctest; {note}"));
        let named = |dir: &str| Selection::Matching { filter: None, files: vec![dir.to_owned()] };
        assert_eq!(choose_from(&files, None, &named("go")), "go");
        assert!(choose_from(&files[1..], None, &Selection::All).starts_with("polyglot workspace: 3"));
        let mocha = r#"{"scripts":{"test":"mocha"}}"#;
        let text = choose_from(&[("package.json", mocha), ("a/package.json", mocha)], None, &Selection::All);
        assert!(
            text.starts_with("mocha; the project of the root was run, and not those below it: a (mocha)"),
            "{text}"
        );
        let flask = [
            ("pyproject.toml", "[tool.pytest.ini_options]\ntestpaths = ['tests']"),
            ("tests/test_a.py", ""),
            ("tests/samples/pytest.ini", ""),
            ("examples/tutorial/pyproject.toml", "[tool.pytest.ini_options]"),
            ("examples/tutorial/tests/test_b.py", ""),
            ("downstream/recipes/pytest.toml", "[package]\nname = 'pytest'"),
        ];
        let text = choose_from(&flask, None, &Selection::All);
        let of_flask = "the project of the root was run, and not those below it: examples/tutorial (pytest)";
        assert_eq!(text, format!("pytest; {of_flask} (--file DIR runs one)"));
        assert_eq!(choose_from(&flask, Some("pytest"), &Selection::All), text);
        let everywhere = [&[("pyproject.toml", "[tool.pytest.ini_options]")], &flask[1..]].concat();
        assert_eq!(
            choose_from(&everywhere, None, &Selection::All),
            "pytest",
            "pytest collects what is below it as well"
        );
        let linked = r#"{"scripts":{"test":"mocha"},"workspaces":["a"]}"#;
        assert_eq!(choose_from(&[("package.json", linked), ("a/package.json", mocha)], None, &Selection::All), "mocha");
    }
}

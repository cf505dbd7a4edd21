//! Which framework a workspace is for: the request's word first, then what the tree shows, then the files that the request
//! names. Must not know any framework.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::run::framework_choice::{DetectedFramework, FrameworkChoice};
use crate::{FRAMEWORKS, Framework};
use proctor_core::request::{ALL_FRAMEWORKS, Selection};
use thiserror::Error;

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

/// Most projects that a note names.
const FURTHER_MAX: usize = 8;

/// Chooses the frameworks of a run: the one that is asked for, all with `all`, those that have the selected files, else those
/// of the workspace's root, else the only one there is. Of their projects, those of the root and what these include: a
/// project below it is announced, and run where its files are selected.
pub fn choose(tree: &FileTree, asked: Option<&str>, selection: &Selection) -> Result<FrameworkChoice, DetectError> {
    choose_among(FRAMEWORKS, tree, asked, selection)
}

fn choose_among(
    frameworks: &[&'static dyn Framework],
    tree: &FileTree,
    asked: Option<&str>,
    selection: &Selection,
) -> Result<FrameworkChoice, DetectError> {
    let everything = asked == Some(ALL_FRAMEWORKS);
    let files = match selection {
        Selection::Matching { files, .. } => files.as_slice(),
        Selection::Exactly(_) | Selection::All | Selection::LastFailed { .. } => &[],
    };
    let narrows = files.is_empty() && !matches!(selection, Selection::Exactly(_));
    if let Some(name) = asked.filter(|_| !everything) {
        let framework =
            *frameworks.iter().find(|framework| framework.name() == name).ok_or_else(|| DetectError::Unknown {
                asked: name.to_owned(),
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
        if narrows {
            notes.extend(of_the_root(tree, &mut found, false));
            notes.extend(left_to_others(tree, &found[0], &detected(frameworks, tree)));
        }
        return Ok(FrameworkChoice { detected: found, notes });
    }
    let mut found = detected(frameworks, tree);
    drop_covered(tree, &mut found, selection);
    if !files.is_empty() && found.len() > 1 && !everything {
        if files.iter().all(|file| found.iter().any(|detected| detected.has(tree, file))) {
            found.retain(|detected| files.iter().any(|file| detected.has(tree, file)));
            return Ok(FrameworkChoice { detected: found, notes: Vec::new() });
        }
        return Err(polyglot(&found));
    }
    let notes = if narrows { of_the_root(tree, &mut found, !everything) } else { None };
    match found.len() {
        0 => Err(DetectError::NoProject),
        1 => Ok(FrameworkChoice { detected: found, notes: notes.into_iter().collect() }),
        _ if everything || is_of_one_script(tree, &found) => {
            Ok(FrameworkChoice { detected: found, notes: notes.into_iter().collect() })
        }
        _ => Err(polyglot(&found)),
    }
}

/// Every framework with projects that are its own to run. What is a last resort has them where no other has any, or where one
/// file starts both.
fn detected(frameworks: &[&'static dyn Framework], tree: &FileTree) -> Vec<DetectedFramework> {
    let mut found: Vec<DetectedFramework> = frameworks
        .iter()
        .map(|framework| {
            let mut projects = framework.detect(tree);
            projects.retain(|project| framework.is_default_for(tree, project));
            DetectedFramework { framework: *framework, projects }
        })
        .collect();
    let others: Vec<DetectedFramework> = found.iter().filter(|one| !one.framework.is_fallback()).cloned().collect();
    let is_free = |project: &Project| {
        let beside = others.iter().filter(|other| other.projects.iter().any(|own| own.dir == project.dir));
        let stands_alone = beside.clone().next().is_none();
        let file = |other: &DetectedFramework| {
            let own = other.projects.iter().find(|own| own.dir == project.dir)?;
            other.framework.test_script(tree, own)
        };
        stands_alone || beside.filter_map(file).next().is_some()
    };
    for last in found.iter_mut().filter(|one| one.framework.is_fallback()) {
        last.projects.retain(is_free);
    }
    found.retain(|detected| !detected.projects.is_empty());
    found
}

fn polyglot(found: &[DetectedFramework]) -> DetectError {
    DetectError::Polyglot { names: found.iter().map(|detected| detected.framework.name()).collect() }
}

/// Whether one file starts all of them.
fn is_of_one_script(tree: &FileTree, found: &[DetectedFramework]) -> bool {
    let files = |DetectedFramework { framework, projects }: &DetectedFramework| -> Vec<String> {
        projects.iter().filter_map(|project| framework.test_script(tree, project)).collect()
    };
    let mut all = found.iter().map(files);
    let Some(first) = all.next() else { return false };
    !all.fold(first, |common, files| common.into_iter().filter(|file| files.contains(file)).collect()).is_empty()
}

/// Leaves out projects whose tests a run of the root's has among its own: what failed in it is its own to run again. Files that
/// are named keep the project that they are in.
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

/// Leaves the projects of the root and what these include, if there are any; `among` says whether a framework without one goes
/// as well. What is left out is told.
fn of_the_root(tree: &FileTree, found: &mut Vec<DetectedFramework>, among: bool) -> Option<String> {
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
                None => !among,
            };
            if !stays {
                further.push(format!("{} ({})", project.dir, framework.name()));
            }
            stays
        });
    }
    found.retain(|detected| !detected.projects.is_empty());
    let more = further.len().saturating_sub(FURTHER_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    further.truncate(FURTHER_MAX);
    (!further.is_empty()).then(|| {
        format!(
            "the project of the root was run, and not those below it: {}{more} (--file DIR runs one)",
            further.join(", ")
        )
    })
}

/// A sentence about frameworks that the same file starts and that were not asked for.
fn left_to_others(tree: &FileTree, asked: &DetectedFramework, all: &[DetectedFramework]) -> Option<String> {
    let others = all.iter().filter(|other| other.framework.name() != asked.framework.name());
    let is_beside = |other: &&DetectedFramework| is_of_one_script(tree, &[asked.clone(), (*other).clone()]);
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

    fn chosen(asked: Option<&str>, files: &[&str]) -> Result<String, DetectError> {
        let mut tree = FileTree::default();
        ["x.a", "both/y.a", "both/y.b", "z.b", "notes"].iter().for_each(|file| tree.add(*file));
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        let selection = Selection::Matching { filter: None, files };
        choose_among(&[&A, &B], &tree, asked, &selection).map(|found| found.name())
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

    fn of_files(files: &[(&str, &str)], asked: Option<&str>, selection: &Selection) -> String {
        let mut tree = FileTree::default();
        files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
        match choose(&tree, asked, selection) {
            Ok(chosen) => [&[chosen.name()], chosen.notes.as_slice()].concat().join("; "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn runs_everything_that_one_test_script_starts() {
        let package =
            |script: &str| format!(r#"{{"scripts":{{"test":"{script}"}},"devDependencies":{{"mocha":"11"}}}}"#);
        let of = |script: &str, asked| of_files(&[("package.json", &package(script))], asked, &Selection::All);
        assert_eq!(of("jest && borp && tap test/*.js", None), "jest, node, script");
        assert_eq!(of("eslint . && borp", None), "node");
        assert_eq!(of("node bin/hot.js mocha x && karma start", None), "script");
        let told =
            "mocha; the test script also starts what was not asked for: script (without --framework all of it runs)";
        assert_eq!(of("mocha && tape x", Some("mocha")), told);
        let told = of("tap", Some("node"));
        assert!(told.contains("starts node --test") && told.ends_with("that of package.json is `tap`"), "{told}");
        let pytest = [("package.json", package("make check")), ("pytest.ini", "[pytest]".to_owned())];
        let pytest: Vec<(&str, &str)> = pytest.iter().map(|(path, content)| (*path, content.as_str())).collect();
        assert_eq!(of_files(&pytest, None, &Selection::All), "pytest");
    }

    #[test]
    fn runs_the_project_of_the_root_and_announces_those_below_it() {
        let cmake = "project(p)\nenable_testing()";
        let jest = r#"{"scripts":{"test":"jest"}}"#;
        let files = [
            ("CMakeLists.txt", cmake),
            ("support/build.gradle", ""),
            ("examples/web/package.json", jest),
            ("go/go.mod", "module m"),
            ("go/a_test.go", ""),
        ];
        let told = of_files(&files, None, &Selection::All);
        let note = "the project of the root was run, and not those below it: go (go), examples/web (jest), support (gradle) \
                    (--file DIR runs one)";
        assert_eq!(told, format!("ctest; {note}"));
        let named = |dir: &str| Selection::Matching { filter: None, files: vec![dir.to_owned()] };
        assert_eq!(of_files(&files, None, &named("go")), "go");
        assert!(of_files(&files[1..], None, &Selection::All).starts_with("polyglot workspace: 3"));
        let mocha = r#"{"scripts":{"test":"mocha"}}"#;
        let told = of_files(&[("package.json", mocha), ("a/package.json", mocha)], None, &Selection::All);
        assert!(
            told.starts_with("mocha; the project of the root was run, and not those below it: a (mocha)"),
            "{told}"
        );
        let flask = [
            ("pyproject.toml", "[tool.pytest.ini_options]\ntestpaths = ['tests']"),
            ("tests/test_a.py", ""),
            ("tests/samples/pytest.ini", ""),
            ("examples/tutorial/pyproject.toml", "[tool.pytest.ini_options]"),
            ("examples/tutorial/tests/test_b.py", ""),
            ("downstream/recipes/pytest.toml", "[package]\nname = 'pytest'"),
        ];
        let told = of_files(&flask, None, &Selection::All);
        let of_flask = "the project of the root was run, and not those below it: examples/tutorial (pytest)";
        assert_eq!(told, format!("pytest; {of_flask} (--file DIR runs one)"));
        assert_eq!(of_files(&flask, Some("pytest"), &Selection::All), told);
        let everywhere = [&[("pyproject.toml", "[tool.pytest.ini_options]")], &flask[1..]].concat();
        assert_eq!(of_files(&everywhere, None, &Selection::All), "pytest", "pytest collects what is below it as well");
        let linked = r#"{"scripts":{"test":"mocha"},"workspaces":["a"]}"#;
        assert_eq!(of_files(&[("package.json", linked), ("a/package.json", mocha)], None, &Selection::All), "mocha");
    }
}

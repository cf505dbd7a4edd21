//! Turns what a request selects into files and names, one group for each command. Must not know how a runner is told.

use super::{EXTENSIONS, TITLE_SEPARATOR};
use crate::contract::FileTree;
use crate::contract::PlanError;
use crate::contract::{Project, innermost_project};
use crate::parsing::workspace_paths::join;
use proctor_core::bounds::NAME_BYTES_MAX;
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Most commands for one project. Each starts a runner, which takes about a second; past this, files whose selected tests
/// have other names share a command, and a test of the same name in another of those files runs as well.
const COMMANDS_MAX: usize = 8;

/// Longest expression, in bytes. The kernel refuses an argument of 128 KiB.
const EXPRESSION_BYTES_MAX: usize = 64 * 1024;

/// Longest list of files in one command, in bytes; an argument list may have some MB in all.
const FILES_BYTES_MAX: usize = 512 * 1024;

/// What one command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestGroup<'a> {
    /// The project.
    pub(crate) project: &'a Project,
    /// Files relative to the project's directory, sorted; none for all.
    pub(crate) files: Vec<String>,
    /// Which tests of them.
    pub(crate) names: NameFilter,
    /// Whether the files are files of tests, and not sources whose tests are meant.
    pub(crate) exactly: bool,
}

/// Which tests of some files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameFilter {
    /// All.
    All,
    /// Those that the caller's filter picks, in the runner's own language.
    Filter(String),
    /// Exactly those of these names, as an expression over what a runner makes of their titles.
    Exactly(String),
}

impl NameFilter {
    /// The expression, if not all are meant.
    pub(crate) fn expression(&self) -> Option<&str> {
        match self {
            NameFilter::All => None,
            NameFilter::Filter(expression) | NameFilter::Exactly(expression) => Some(expression),
        }
    }
}

/// The groups of a selection, in the order of projects. `framework` is named in refusals.
///
/// The files of a caller may be sources as well as tests, and for a directory are all that are below it; those of what ran
/// before are files of tests.
pub(crate) fn group_selection<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
    framework: &'static str,
) -> Result<Vec<TestGroup<'a>>, PlanError> {
    group_selection_with(projects, tree, selection, framework, spelt)
}

/// The expression for the test with these titles, of which the last was clipped where it is kept if the second says so:
/// then it matches however the name goes on.
pub(crate) type Spelling = fn(&[&str], bool) -> String;

/// The same for a runner that makes something else of titles than to join them with blanks or with [`TITLE_SEPARATOR`].
pub(crate) fn group_selection_with<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
    framework: &'static str,
    spelling: Spelling,
) -> Result<Vec<TestGroup<'a>>, PlanError> {
    let whole = |names: &NameFilter| {
        projects
            .iter()
            .map(|project| TestGroup { project, files: Vec::new(), names: names.clone(), exactly: false })
            .collect()
    };
    Ok(match selection {
        Selection::Matching { filter, files } => {
            let names =
                filter.as_ref().map_or(NameFilter::All, |filter| NameFilter::Filter(filter.as_str().to_owned()));
            if files.is_empty() { whole(&names) } else { of_files(projects, tree, files, &names, framework)? }
        }
        Selection::Exactly(targets) => {
            exactly(projects, tree, targets, spelling).unwrap_or_else(|| whole(&NameFilter::All))
        }
        // The session resolves LastFailed; a caller that does not gets the superset.
        Selection::All | Selection::LastFailed { .. } => whole(&NameFilter::All),
    })
}

fn of_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    names: &NameFilter,
    framework: &'static str,
) -> Result<Vec<TestGroup<'a>>, PlanError> {
    let mut found: BTreeMap<&Project, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let outside = || PlanError::FileOutsideProject { file: file.clone(), framework };
        if file.starts_with('/') || file.split('/').any(|part| part == "..") {
            return Err(outside());
        }
        let path = join("", file);
        let is_file = tree.contains(&path);
        let mut members: Vec<&str> = vec![&path];
        if !is_file {
            let inside: Vec<&str> = tree.files_below(&path).filter(|file| is_source(file)).collect();
            members = if inside.is_empty() { members } else { inside };
        }
        for member in members {
            let project = innermost_project(projects, member).ok_or_else(outside)?;
            found.entry(project).or_default().insert(within(project, member));
        }
    }
    Ok(found.into_iter().flat_map(|(project, files)| split(project, files, names, false)).collect())
}

fn is_source(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
}

fn within(project: &Project, path: &str) -> String {
    path.strip_prefix(&project.dir).map_or(path, |path| path.trim_start_matches('/')).to_owned()
}

/// Exactly these files and tests; `None` when one of them is in no project, which only the whole can show then.
fn exactly<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    targets: &[RerunTarget],
    spelling: Spelling,
) -> Option<Vec<TestGroup<'a>>> {
    let mut files: BTreeMap<(&Project, String), Option<BTreeSet<&str>>> = BTreeMap::new();
    for target in targets {
        let (path, name) = match target {
            RerunTarget::Package(path) => (path, None),
            RerunTarget::Test(test) => (&test.package, Some(test.name.as_str())),
        };
        if !tree.contains(path) && !tree.is_truncated() {
            return None;
        }
        let project = innermost_project(projects, path)?;
        let names = files.entry((project, within(project, path))).or_insert_with(|| Some(BTreeSet::new()));
        match (name, names.as_mut()) {
            (Some(name), Some(names)) => drop(names.insert(name)),
            _ => *names = None,
        }
    }
    // One key per command: files that want the same names share it, so names never cross between files.
    let mut groups: BTreeMap<(&Project, Option<BTreeSet<&str>>), BTreeSet<String>> = BTreeMap::new();
    for ((project, file), names) in files {
        groups.entry((project, names)).or_default().insert(file);
    }
    Some(merged(groups).into_iter().flat_map(|named| of_names(named, spelling)).collect())
}

type Named<'a, 'n> = ((&'a Project, Option<BTreeSet<&'n str>>), BTreeSet<String>);

/// Puts the named groups of a project together when there are too many of them.
fn merged<'a, 'n>(groups: BTreeMap<(&'a Project, Option<BTreeSet<&'n str>>), BTreeSet<String>>) -> Vec<Named<'a, 'n>> {
    let mut by_project: BTreeMap<&Project, Vec<Named<'a, 'n>>> = BTreeMap::new();
    for group in groups {
        by_project.entry(group.0.0).or_default().push(group);
    }
    let mut all = Vec::new();
    for (project, groups) in by_project {
        if groups.len() <= COMMANDS_MAX {
            all.extend(groups);
            continue;
        }
        let (named, whole): (Vec<_>, Vec<_>) = groups.into_iter().partition(|((_, names), _)| names.is_some());
        let files = named.iter().flat_map(|(_, files)| files.iter().cloned()).collect();
        let names = named.iter().flat_map(|((_, names), _)| names.iter().flatten().copied()).collect();
        all.extend(whole);
        all.push(((project, Some(names)), files));
    }
    all
}

fn of_names<'a>(((project, names), files): Named<'a, '_>, spelling: Spelling) -> Vec<TestGroup<'a>> {
    let Some(names) = names else { return split(project, files, &NameFilter::All, true) };
    let groups = |expression: String| split(project, files.clone(), &NameFilter::Exactly(expression), true);
    expressions(&names, spelling).into_iter().flat_map(groups).collect()
}

/// As many groups as the files need.
fn split<'a>(project: &'a Project, files: BTreeSet<String>, names: &NameFilter, exactly: bool) -> Vec<TestGroup<'a>> {
    let group = |files| TestGroup { project, files, names: names.clone(), exactly };
    let mut groups = vec![group(Vec::new())];
    let mut bytes = 0;
    for file in files {
        bytes += file.len() + 1;
        if bytes > FILES_BYTES_MAX {
            bytes = file.len() + 1;
            groups.push(group(Vec::new()));
        }
        if let Some(group) = groups.last_mut() {
            group.files.push(file);
        }
    }
    groups
}

/// Expressions that match exactly these names: `^(?:a (?:> )?b|c)$`.
fn expressions(names: &BTreeSet<&str>, spelling: Spelling) -> Vec<String> {
    let mut expressions: Vec<String> = Vec::new();
    for name in names {
        let name = of_name(name, spelling);
        match expressions.last_mut() {
            Some(last) if last.len() + name.len() < EXPRESSION_BYTES_MAX => {
                last.push('|');
                last.push_str(&name);
            }
            _ => expressions.push(format!("^(?:{name}")),
        }
    }
    expressions.into_iter().map(|expression| expression + ")$").collect()
}

/// The expression for one name.
fn of_name(name: &str, spelling: Spelling) -> String {
    let clipped = name.strip_suffix('…').filter(|_| name.len() + 8 > NAME_BYTES_MAX);
    let titles: Vec<&str> = clipped.unwrap_or(name).split(TITLE_SEPARATOR).collect();
    spelling(&titles, clipped.is_some())
}

/// A runner joins titles with blanks, or with [`TITLE_SEPARATOR`].
fn spelt(titles: &[&str], is_clipped: bool) -> String {
    let titles: Vec<String> = titles.iter().map(|title| quote_regex(title)).collect();
    let rest = if is_clipped { "[\\s\\S]*" } else { "" };
    titles.join(" (?:> )?") + rest
}

/// `text` as a regular expression of JavaScript that matches it and nothing else.
pub(crate) fn quote_regex(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for char in text.chars() {
        if "\\^$.*+?()[]{}|/-".contains(char) {
            quoted.push('\\');
        }
        match char {
            '\n' => quoted.push_str("\\n"),
            // Stands for half of a character, which a report cannot have.
            char::REPLACEMENT_CHARACTER => quoted.push('.'),
            char => quoted.push(char),
        }
    }
    quoted
}

/// The selection with other tests in the place of each: a runner can be told some of what it reports only roughly.
pub(crate) fn map_targets(selection: &Selection, of: impl Fn(&RerunTarget) -> Vec<RerunTarget>) -> Selection {
    match selection {
        Selection::Exactly(targets) => Selection::Exactly(targets.iter().flat_map(of).collect()),
        other => other.clone(),
    }
}

/// Of files that a caller names, those that are called or placed as tests are; all of them if none is. A directory stands
/// for all of its sources, and such runners would execute whatever they are given.
pub(crate) fn likely_test_files(files: &[String]) -> Vec<String> {
    let is_test = |file: &&String| {
        let lower = file.to_lowercase();
        let (dirs, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
        let is_word = |word: &str| ["test", "tests", "spec", "specs"].contains(&word);
        dirs.split('/').any(|dir| is_word(dir.trim_matches('_')))
            || name.split(|char: char| !char.is_ascii_alphanumeric()).any(is_word)
    };
    let tests: Vec<String> = files.iter().filter(is_test).cloned().collect();
    if tests.is_empty() { files.to_vec() } else { tests }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::filter::Filter;
    use proctor_core::test_case::TestId;

    fn tree() -> FileTree {
        let mut tree = FileTree::default();
        ["a.test.js", "b.test.js", "src/x.js", "src/x.css", "pkg/c.test.ts"].iter().for_each(|file| tree.add(*file));
        tree
    }

    fn projects() -> Vec<Project> {
        ["", "pkg"].map(|dir| Project { dir: dir.to_owned(), name: String::new() }).into()
    }

    fn told(selection: &Selection) -> Vec<String> {
        let projects = projects();
        let groups = group_selection(&projects, &tree(), selection, "jest").unwrap();
        let of = |group: TestGroup<'_>| format!("{}|{}|{:?}", group.project.dir, group.files.join(" "), group.names);
        groups.into_iter().map(of).collect()
    }

    fn test(package: &str, name: &str) -> RerunTarget {
        RerunTarget::Test(TestId { package: package.to_owned(), name: name.to_owned() })
    }

    #[test]
    fn files_go_to_their_projects() {
        assert_eq!(told(&Selection::All), ["||All", "pkg||All"]);
        let files = ["src", "pkg/c.test.ts", "./a.test.js"].map(str::to_owned).to_vec();
        let filter = Filter::parse("x y").unwrap();
        let matching = Selection::Matching { filter, files };
        assert_eq!(told(&matching), ["|a.test.js src/x.js|Filter(\"x y\")", "pkg|c.test.ts|Filter(\"x y\")"]);
        let projects = projects();
        for outside in ["../x.js", "/x.js", "a/../../x.js"] {
            let selection = Selection::Matching { filter: None, files: vec![outside.to_owned()] };
            assert!(group_selection(&projects, &tree(), &selection, "jest").is_err(), "{outside}");
        }
        let selection = Selection::Matching { filter: None, files: vec!["a.test.js".to_owned()] };
        assert!(group_selection(&projects[1..], &tree(), &selection, "jest").is_err());
    }

    #[test]
    fn names_never_cross_between_files() {
        let targets = vec![
            test("a.test.js", "s > x (1)"),
            test("a.test.js", "y"),
            test("b.test.js", "y\u{fffd}"),
            RerunTarget::Package("pkg/c.test.ts".to_owned()),
            test("pkg/c.test.ts", "whole anyway"),
        ];
        let expected = [
            r#"|a.test.js|Exactly("^(?:s (?:> )?x \\(1\\)|y)$")"#,
            r#"|b.test.js|Exactly("^(?:y.)$")"#,
            "pkg|c.test.ts|All",
        ];
        assert_eq!(told(&Selection::Exactly(targets)), expected);
        assert_eq!(told(&Selection::Exactly(vec![test("gone.test.js", "x")])), ["||All", "pkg||All"]);
    }

    #[test]
    fn many_names_become_few_commands() {
        let names: Vec<String> = (0..10_000).map(|number| format!("{number}: {}", "x".repeat(90))).collect();
        let expressions = expressions(&names.iter().map(String::as_str).collect(), spelt);
        assert!(expressions.iter().all(|expression| expression.len() <= EXPRESSION_BYTES_MAX + 16));
        assert_eq!(expressions.iter().map(|expression| expression.matches('|').count() + 1).sum::<usize>(), 10_000);
        let (projects, mut tree) = (projects(), FileTree::default());
        let targets = (0..20).map(|number| {
            tree.add(format!("{number}.test.js"));
            test(&format!("{number}.test.js"), &number.to_string())
        });
        let targets = Selection::Exactly(targets.collect());
        let groups = group_selection(&projects, &tree, &targets, "jest").unwrap();
        assert_eq!((groups.len(), groups[0].files.len()), (1, 20));
    }

    #[test]
    fn a_directory_stands_for_its_tests() {
        let files = ["src/a.js", "src/a.test.js", "test/b.mjs", "src/latest.js", "src/__tests__/c.js", "d_spec.ts"];
        let tests = likely_test_files(&files.map(str::to_owned));
        assert_eq!(tests, ["src/a.test.js", "test/b.mjs", "src/__tests__/c.js", "d_spec.ts"]);
        assert_eq!(likely_test_files(&["src/a.js".to_owned()]), ["src/a.js"]);
    }
}

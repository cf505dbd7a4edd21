//! Turns a selection into groups of files and names, one group for each command.

use super::{EXTENSIONS, TITLE_SEPARATOR};
use crate::contract::{FileTree, PlanError, Project, TestSelection, innermost_project, outside, path_of};
use proctor_core::bounds::NAME_BYTES_MAX;
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Most commands for one project. Each starts a runner, which takes about a second. Beyond this, files whose selected tests have
/// different names share a command, and a test of the same name in another of those files runs as well.
const COMMANDS_MAX: usize = 8;

/// Longest expression, in bytes. The kernel refuses an argument of 128 KiB.
const EXPRESSION_BYTES_MAX: usize = 64 * 1024;

/// Longest list of files in one command, in bytes; all arguments together may have some MB.
const FILES_BYTES_MAX: usize = 512 * 1024;

/// What one command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestGroup<'a> {
    /// The project.
    pub(crate) project: &'a Project,
    /// Files relative to the project's directory, sorted; empty for all.
    pub(crate) files: Vec<String>,
    /// Which of their tests.
    pub(crate) names: NameFilter,
    /// Whether `files` are test files, not sources whose tests are meant.
    pub(crate) are_test_files: bool,
}

/// Which tests of some files run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameFilter {
    /// All tests.
    All,
    /// Tests that match the caller's filter, in the runner's own syntax.
    Filter(String),
    /// Tests with exactly the selected names, as a regular expression over the runner's full name of a test.
    Exactly(String),
}

impl NameFilter {
    /// The expression; `None` for all tests.
    pub(crate) fn expression(&self) -> Option<&str> {
        match self {
            NameFilter::All => None,
            NameFilter::Filter(expression) | NameFilter::Exactly(expression) => Some(expression),
        }
    }
}

/// Groups a selection, in the order of projects. Errors name `framework`.
///
/// Files of a caller may be sources as well as tests, and a directory stands for all sources below it; files of a rerun are test
/// files.
pub(crate) fn group_selection<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
    framework: &'static str,
) -> Result<Vec<TestGroup<'a>>, PlanError> {
    group_selection_with(projects, tree, selection, framework, default_title_expression)
}

/// Makes the expression for a test with these titles. `true` as second argument: the stored name was clipped within the last title,
/// and the expression has to match any continuation.
pub(crate) type TitleExpression = fn(&[&str], bool) -> String;

/// Like [`group_selection`], for a runner that joins titles otherwise than with blanks or [`TITLE_SEPARATOR`].
pub(crate) fn group_selection_with<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
    framework: &'static str,
    title_expression: TitleExpression,
) -> Result<Vec<TestGroup<'a>>, PlanError> {
    let whole = |names: &NameFilter| {
        projects
            .iter()
            .map(|project| TestGroup { project, files: Vec::new(), names: names.clone(), are_test_files: false })
            .collect()
    };
    let names = |filter: Option<&Filter>| {
        filter.map_or(NameFilter::All, |filter| NameFilter::Filter(filter.as_str().to_owned()))
    };
    Ok(match TestSelection::new(selection) {
        TestSelection::Everything { filter } => whole(&names(filter)),
        TestSelection::Files { files, filter } => group_files(projects, tree, files, &names(filter), framework)?,
        TestSelection::Targets(targets) => {
            group_targets(projects, tree, targets, title_expression).unwrap_or_else(|| whole(&NameFilter::All))
        }
    })
}

fn group_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    names: &NameFilter,
    framework: &'static str,
) -> Result<Vec<TestGroup<'a>>, PlanError> {
    let mut found: BTreeMap<&Project, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let path = path_of(framework, file)?;
        let is_file = tree.contains(&path);
        let mut members: Vec<&str> = vec![&path];
        if !is_file {
            let inside: Vec<&str> = tree.files_below(&path).filter(|file| is_source(file)).collect();
            members = if inside.is_empty() { members } else { inside };
        }
        for member in members {
            let project = innermost_project(projects, member).ok_or_else(|| outside(framework, file))?;
            found.entry(project).or_default().insert(relative_to_project(project, member));
        }
    }
    Ok(found.into_iter().flat_map(|(project, files)| split(project, files, names, false)).collect())
}

fn is_source(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
}

fn relative_to_project(project: &Project, path: &str) -> String {
    path.strip_prefix(&project.dir).map_or(path, |path| path.trim_start_matches('/')).to_owned()
}

/// Groups for exactly these files and tests; `None` if one of them is in no project, since then only a full run can show it. For names
/// without a file, a group of each project has all of its files.
fn group_targets<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    targets: &[RerunTarget],
    title_expression: TitleExpression,
) -> Option<Vec<TestGroup<'a>>> {
    let mut files: BTreeMap<(&Project, String), Option<BTreeSet<&str>>> = BTreeMap::new();
    let mut in_any_file: BTreeSet<&str> = BTreeSet::new();
    for target in targets {
        let (path, name) = match target {
            RerunTarget::Package(path) => (path, None),
            RerunTarget::Test(test) => (&test.package, Some(test.name.as_str())),
            RerunTarget::Name(name) => {
                in_any_file.insert(name);
                continue;
            }
        };
        if !tree.contains(path) && !tree.is_truncated() {
            return None;
        }
        let project = innermost_project(projects, path)?;
        let names = files.entry((project, relative_to_project(project, path))).or_insert_with(|| Some(BTreeSet::new()));
        match (name, names.as_mut()) {
            (Some(name), Some(names)) => drop(names.insert(name)),
            _ => *names = None,
        }
    }
    // One key per command: files with the same selected names share it, so no name reaches another file.
    let mut groups: BTreeMap<(&Project, Option<BTreeSet<&str>>), BTreeSet<String>> = BTreeMap::new();
    for ((project, file), names) in files {
        groups.entry((project, names)).or_default().insert(file);
    }
    let whole = projects.iter().filter(|_| !in_any_file.is_empty());
    let whole = whole.map(|project| ((project, Some(in_any_file.clone())), BTreeSet::new()));
    let all = merge_groups(groups).into_iter().chain(whole);
    Some(all.flat_map(|named| group_names(named, title_expression)).collect())
}

type Named<'a, 'n> = ((&'a Project, Option<BTreeSet<&'n str>>), BTreeSet<String>);

/// Merges the groups with names of a project if there are too many.
fn merge_groups<'a, 'n>(
    groups: BTreeMap<(&'a Project, Option<BTreeSet<&'n str>>), BTreeSet<String>>,
) -> Vec<Named<'a, 'n>> {
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

fn group_names<'a>(((project, names), files): Named<'a, '_>, title_expression: TitleExpression) -> Vec<TestGroup<'a>> {
    let Some(names) = names else { return split(project, files, &NameFilter::All, true) };
    let groups = |expression: String| split(project, files.clone(), &NameFilter::Exactly(expression), true);
    expressions(&names, title_expression).into_iter().flat_map(groups).collect()
}

/// Splits the files into as many groups as the length of an argument list requires.
fn split<'a>(
    project: &'a Project,
    files: BTreeSet<String>,
    names: &NameFilter,
    are_test_files: bool,
) -> Vec<TestGroup<'a>> {
    let group = |files| TestGroup { project, files, names: names.clone(), are_test_files };
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
fn expressions(names: &BTreeSet<&str>, title_expression: TitleExpression) -> Vec<String> {
    let mut expressions: Vec<String> = Vec::new();
    for name in names {
        let name = name_expression(name, title_expression);
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
fn name_expression(name: &str, title_expression: TitleExpression) -> String {
    let clipped = name.strip_suffix('…').filter(|_| name.len() + 8 > NAME_BYTES_MAX);
    let titles: Vec<&str> = clipped.unwrap_or(name).split(TITLE_SEPARATOR).collect();
    title_expression(&titles, clipped.is_some())
}

/// Expression for titles that a runner joins with blanks, or with [`TITLE_SEPARATOR`].
pub(crate) fn default_title_expression(titles: &[&str], is_clipped: bool) -> String {
    let titles: Vec<String> = titles.iter().map(|title| quote_regex(title)).collect();
    let rest = if is_clipped { "[\\s\\S]*" } else { "" };
    titles.join(" (?:> )?") + rest
}

/// `text` as a JavaScript regular expression that matches only this text.
pub(crate) fn quote_regex(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for char in text.chars() {
        if "\\^$.*+?()[]{}|/-".contains(char) {
            quoted.push('\\');
        }
        match char {
            '\n' => quoted.push_str("\\n"),
            // A picture stands for its control character, which no reported title contains.
            '\u{2400}'..='\u{241f}' => quoted.push_str(&format!("[{char}\\x{:02x}]", u32::from(char) - 0x2400)),
            '\u{2421}' => quoted.push_str("[\u{2421}\\x7f]"),
            // Stands for an unpaired surrogate, which a report cannot carry.
            char::REPLACEMENT_CHARACTER => quoted.push('.'),
            char => quoted.push(char),
        }
    }
    quoted
}

/// Replaces each target of an exact selection: a runner can select some of what it reports only by something larger.
pub(crate) fn map_targets(selection: &Selection, replace: impl Fn(&RerunTarget) -> Vec<RerunTarget>) -> Selection {
    match selection {
        Selection::Exactly(targets) => Selection::Exactly(targets.iter().flat_map(replace).collect()),
        other => other.clone(),
    }
}

/// Of the files that a caller names, those that are named or placed like tests; all of them if none is. A directory stands for all
/// of its sources, and such runners execute every file they get.
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
        ["a.test.js", "b.test.js", "d.test.js", "src/x.js", "src/x.css", "pkg/c.test.ts"]
            .iter()
            .for_each(|file| tree.add(*file));
        tree
    }

    fn projects() -> Vec<Project> {
        ["", "pkg"].map(|dir| Project { dir: dir.to_owned(), name: String::new() }).into()
    }

    fn rendered(selection: &Selection) -> Vec<String> {
        let projects = projects();
        let groups = group_selection(&projects, &tree(), selection, "jest").unwrap();
        let render =
            |group: TestGroup<'_>| format!("{}|{}|{:?}", group.project.dir, group.files.join(" "), group.names);
        groups.into_iter().map(render).collect()
    }

    fn test(package: &str, name: &str) -> RerunTarget {
        RerunTarget::Test(TestId { package: package.to_owned(), name: name.to_owned() })
    }

    #[test]
    fn groups_files_by_project() {
        assert_eq!(rendered(&Selection::All), ["||All", "pkg||All"]);
        let files = ["src", "pkg/c.test.ts", "./a.test.js"].map(str::to_owned).to_vec();
        let filter = Filter::parse("x y").unwrap();
        let matching = Selection::Matching { filter, files };
        assert_eq!(rendered(&matching), ["|a.test.js src/x.js|Filter(\"x y\")", "pkg|c.test.ts|Filter(\"x y\")"]);
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
            test("d.test.js", "two\u{240a}lines"),
            RerunTarget::Package("pkg/c.test.ts".to_owned()),
            test("pkg/c.test.ts", "whole anyway"),
        ];
        let expected = [
            r#"|a.test.js|Exactly("^(?:s (?:> )?x \\(1\\)|y)$")"#,
            r#"|d.test.js|Exactly("^(?:two[␊\\x0a]lines)$")"#,
            r#"|b.test.js|Exactly("^(?:y.)$")"#,
            "pkg|c.test.ts|All",
        ];
        assert_eq!(rendered(&Selection::Exactly(targets)), expected);
        assert_eq!(rendered(&Selection::Exactly(vec![test("gone.test.js", "x")])), ["||All", "pkg||All"]);
    }

    #[test]
    fn merges_many_names_into_few_commands() {
        let names: Vec<String> = (0..10_000).map(|number| format!("{number}: {}", "x".repeat(90))).collect();
        let expressions = expressions(&names.iter().map(String::as_str).collect(), default_title_expression);
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

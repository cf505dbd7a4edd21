//! Finds flows and reads their headers above the `---`, and reads from a workspace's `config.yaml` which flows belong to the
//! suite.
//!
//! **YAML.** Only lines that begin with a key are read, and scalars and lists of scalars after it. All other syntax is skipped,
//! so no anchor, alias or nesting costs more than the bytes it is written in.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::{is_within, join};
use regex::Regex;
use serde::{Deserialize, Serialize};

/// Directories that contain flows (<https://docs.maestro.dev>, "Test suites").
const DIRECTORIES: [&str; 2] = [".maestro", "maestro"];

/// Names of a workspace's configuration, in order of precedence.
const CONFIGS: [&str; 2] = ["config.yaml", "config.yml"];

/// Most patterns, and most tags, that are read from a configuration.
const LIST_MAX: usize = 256;

/// A flow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Flow {
    /// Its file, relative to the workspace.
    pub(super) file: String,
    /// The name under which Maestro reports it.
    pub(super) name: String,
}

impl Flow {
    /// The flow in `file`; its name falls back to the file's.
    pub(super) fn from_file(tree: &FileTree, file: &str) -> Flow {
        let name = tree.content(file).and_then(Header::parse).and_then(|header| header.name);
        Flow { file: file.to_owned(), name: name.unwrap_or_else(|| stem(file).to_owned()) }
    }
}

/// The outermost directory of flows that contains `path`.
pub(super) fn directory_of(path: &str) -> Option<&str> {
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        if DIRECTORIES.contains(&part) && end < path.len() {
            return path.get(..end);
        }
        end += 1;
    }
    None
}

/// Whether a file is a YAML file.
pub(super) fn is_yaml(path: &str) -> bool {
    path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).is_some_and(|(_, end)| matches!(end, "yaml" | "yml"))
}

/// All directories with a flow, sorted.
pub(super) fn projects(tree: &FileTree) -> Vec<Project> {
    let mut dirs: Vec<&str> = tree
        .files()
        .filter_map(|file| directory_of(file).map(|dir| (dir, file)))
        .filter(|(_, file)| is_flow(tree, file))
        .map(|(dir, _)| dir)
        .collect();
    dirs.dedup();
    let name = |dir: &str| parent(dir).rsplit('/').next().unwrap_or_default().to_owned();
    let mut projects: Vec<Project> =
        dirs.into_iter().map(|dir| Project { dir: dir.to_owned(), name: name(dir) }).collect();
    projects.sort();
    projects.dedup();
    projects
}

/// The parent directory.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The configuration of a directory of flows, if any.
pub(super) fn config(tree: &FileTree, project: &Project) -> Option<String> {
    CONFIGS.iter().map(|name| join(&project.dir, name)).find(|path| tree.contains(path))
}

/// Flows below `dir`, sorted by file.
pub(super) fn below(tree: &FileTree, dir: &str) -> Vec<Flow> {
    tree.files()
        .filter(|file| is_within(file, dir) && is_flow(tree, file))
        .map(|file| Flow::from_file(tree, file))
        .collect()
}

/// The flows that Maestro runs for this directory: those directly in it, or those that match the configuration's patterns,
/// filtered by its tags.
pub(super) fn suite(tree: &FileTree, project: &Project) -> Vec<Flow> {
    let config = config(tree, project).and_then(|path| tree.content(&path)).unwrap_or_default();
    let mut patterns = list(config, "flows");
    if patterns.is_empty() {
        patterns.push("*".to_owned());
    }
    let patterns: Vec<Regex> = patterns.iter().filter_map(|pattern| glob(pattern)).collect();
    let (included, excluded) = (list(config, "includeTags"), list(config, "excludeTags"));
    let belongs = |flow: &Flow| {
        let path = flow.file.get(project.dir.len() + 1..).unwrap_or_default();
        let tags = tree.content(&flow.file).and_then(Header::parse).map(|header| header.tags).unwrap_or_default();
        let has = |list: &[String]| tags.iter().any(|tag| list.contains(tag));
        patterns.iter().any(|pattern| pattern.is_match(path))
            && (included.is_empty() || has(&included))
            && !has(&excluded)
    };
    below(tree, &project.dir).into_iter().filter(belongs).collect()
}

fn is_flow(tree: &FileTree, file: &str) -> bool {
    is_yaml(file)
        && stem(file) != "config"
        && tree.content(file).is_some_and(|content| Header::parse(content).is_some())
}

fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// The header of a flow, above its `---`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    name: Option<String>,
    tags: Vec<String>,
}

impl Header {
    /// Parses the header of a flow; `None` for any other file.
    fn parse(content: &str) -> Option<Header> {
        let content = content.trim_start_matches('\u{feff}');
        let content = content.strip_prefix("---\n").unwrap_or(content);
        let (header, _) = content.split_once("\n---")?;
        let has = |key: &str| value(header, key).is_some();
        let name = value(header, "name").and_then(|rest| rest.lines().next()).and_then(|line| scalar(line.trim()));
        (has("appId") || has("url")).then(|| Header { name, tags: list(header, "tags") })
    }
}

/// The text after a key at the beginning of a line, to the end of the file.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        if let Some(after) = rest.strip_prefix(key).and_then(|rest| rest.trim_start_matches(' ').strip_prefix(':')) {
            return Some(after);
        }
        from += rest.find('\n')? + 1;
    }
}

/// A list of scalars: a single one, several in brackets, or one in each of the lines below.
fn list(text: &str, key: &str) -> Vec<String> {
    let Some(rest) = value(text, key) else { return Vec::new() };
    let (line, below) = rest.split_once('\n').unwrap_or((rest, ""));
    let line = line.trim();
    let items: Vec<&str> = if let Some(inside) = line.strip_prefix('[') {
        inside.split(']').next().unwrap_or_default().split(',').collect()
    } else if line.is_empty() || line.starts_with('#') {
        let lines = below.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map_while(|line| line.strip_prefix("- ")).collect()
    } else {
        vec![line]
    };
    items.into_iter().take(LIST_MAX).filter_map(|item| scalar(item.trim())).collect()
}

/// Parses a scalar of one line; `None` for any other value.
fn scalar(text: &str) -> Option<String> {
    let (first, rest) = (text.chars().next()?, text.get(1..).unwrap_or_default());
    match first {
        // The escapes that YAML shares with JSON are the usual ones.
        '"' => serde_json::from_str(text.get(..=1 + closing(rest)?)?).ok(),
        '\'' => Some(rest.get(..rest.replace("''", "  ").find('\'')?)?.replace("''", "'")),
        '|' | '>' | '&' | '*' | '!' | '[' | '{' | '#' => None,
        _ => Some(text.split(" #").next().unwrap_or(text).trim().to_owned()),
    }
}

/// Index of the closing quote.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

/// A regular expression for Java's path pattern (`java.nio.file.FileSystem.getPathMatcher`, syntax `glob`).
fn glob(pattern: &str) -> Option<Regex> {
    let mut expression = String::from("^");
    let mut depth = 0_usize;
    let mut chars = pattern.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '*' if chars.next_if_eq(&'*').is_some() => expression.push_str(".*"),
            '*' => expression.push_str("[^/]*"),
            '?' => expression.push_str("[^/]"),
            '{' => {
                depth += 1;
                expression.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                expression.push(')');
            }
            ',' if depth > 0 => expression.push('|'),
            other => expression.push_str(&regex::escape(&other.to_string())),
        }
    }
    expression.push('$');
    Regex::new(&expression).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: &str = "appId: com.example\n---\n- launchApp\n";

    #[test]
    fn reads_headers_in_their_usual_forms() {
        for (content, name) in [
            (FLOW, None),
            ("---\nname: Log in # first\nurl: https://x\n---\n- tapOn: a\n", Some("Log in")),
            ("appId: x\nname: 'It''s'\n---\n", Some("It's")),
            ("appId: x\nname: \"a \\\"b\\\" \\u00e4\"\n---\n", Some("a \"b\" ä")),
            ("appId: x\nenv:\n  name: inner\n---\n", None),
            ("appId: x\nname: |\n  block\n---\n", None),
            ("appId: x\nname: *alias\n---\n- name: body\n", None),
        ] {
            assert_eq!(Header::parse(content).unwrap().name.as_deref(), name, "{content}");
        }
        for none in
            ["", "---", "name: x\n---\n- y", "appId: x\n- launchApp", "  appId: x\n---\n", "apiVersion: v1\n---\n"]
        {
            assert_eq!(Header::parse(none), None, "{none}");
        }
    }

    #[test]
    fn reads_lists_in_their_usual_forms() {
        for text in ["tags: [a, 'b']\n", "tags:\n  - a\n  # c\n  - \"b\"\nname: c\n", "x: y\ntags:\n- a # c\n- b"] {
            assert_eq!(list(text, "tags"), ["a", "b"], "{text}");
        }
        assert_eq!(list("flows: sub/**", "flows"), ["sub/**"]);
        assert!(list("nested:\n  tags: a\n", "tags").is_empty());
    }

    #[test]
    fn a_hostile_file_costs_no_more_than_its_bytes() {
        let bomb = format!("a: &a [x,x]\n{}appId: x\nname: *a\n---\n", "b: &b [*a,*a,*a]\n".repeat(30_000));
        assert_eq!(Header::parse(&bomb).unwrap(), Header::default());
        for deep in
            ["[".repeat(500_000), "{".repeat(500_000), "\"".repeat(500_001), "'".repeat(500_001), "\\\"".repeat(99)]
        {
            let content = format!("appId: x\nname: {deep}\ntags: {deep}\n---\n");
            assert!(Header::parse(&content).is_some());
        }
        let long: String = (0..200_000).map(|number| format!("- t{number}\n")).collect();
        assert_eq!(list(&format!("tags:\n{long}"), "tags").len(), LIST_MAX);
        assert!(glob(&"{".repeat(100_000)).is_none());
    }

    #[test]
    fn directories_with_flows_are_projects() {
        let tree = FileTree::with_contents(&[
            (".maestro/login.yaml", FLOW),
            (".maestro/config.yaml", "flows: '*'\n---\nappId: x\n---\n"),
            ("app/maestro/sub/deep.yml", FLOW),
            ("chart/maestro/values.yaml", "appId: x\n"),
            ("flows/login.yaml", FLOW),
            ("src/maestro/Main.java", FLOW),
            ("web/.maestro/maestro/x.yaml", FLOW),
        ]);
        let dirs: Vec<String> = projects(&tree).into_iter().map(|project| project.dir).collect();
        assert_eq!(dirs, [".maestro", "app/maestro", "web/.maestro"]);
    }

    #[test]
    fn the_configuration_decides_what_belongs_to_the_suite() {
        let tagged = "appId: x\nname: T\ntags:\n  - slow\n---\n- launchApp\n";
        let names = |config: Option<&str>| -> String {
            let mut tree = FileTree::with_contents(&[
                ("m/.maestro/a.yaml", FLOW),
                ("m/.maestro/b.yml", tagged),
                ("m/.maestro/sub/c.yaml", FLOW),
                ("m/.maestro/sub/sub/d.yaml", FLOW),
            ]);
            config.into_iter().for_each(|config| tree.add_with_content("m/.maestro/config.yaml", config));
            let flows = suite(&tree, &projects(&tree)[0]);
            flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(None), "a T");
        assert_eq!(names(Some("flows:\n  - '**'\n")), "a T c d");
        assert_eq!(names(Some("flows:\n  - \"sub/*\"\n  - a.{yaml,yml}\n")), "a c");
        assert_eq!(names(Some("includeTags: [slow]")), "T");
        assert_eq!(names(Some("excludeTags:\n- slow\n")), "a");
    }
}

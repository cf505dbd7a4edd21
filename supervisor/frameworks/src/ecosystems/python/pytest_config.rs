//! pytest's configuration files: which of a directory's files is one, and its `testpaths`.
//!
//! The rules are pytest's own (`_pytest/config/findpaths.py`, 9.0): the first file of a directory, in the order of [`FILES`], that
//! has a table of pytest's. A file with pytest's name also counts without a table, unless it has other content: a `pytest.toml` with
//! other tables is another tool's recipe for a package of that name.

use crate::contract::FileTree;
use crate::parsing::workspace_paths::join;

/// Files with pytest's name.
pub(super) const OWN_FILES: [&str; 4] = ["pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"];

/// Files shared by several tools, each with the start of pytest's table header.
pub(super) const SHARED_FILES: [(&str, &str); 3] =
    [("pyproject.toml", "[tool.pytest"), ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]")];

/// Configuration files in pytest's order, each with the keys of the tables that have its options.
const FILES: [(&str, &[&str]); 7] = [
    ("pytest.toml", &["pytest"]),
    (".pytest.toml", &["pytest"]),
    ("pytest.ini", &["pytest"]),
    (".pytest.ini", &["pytest"]),
    ("pyproject.toml", &["tool.pytest", "tool.pytest.ini_options"]),
    ("tox.ini", &["pytest"]),
    ("setup.cfg", &["tool:pytest"]),
];

/// Whether the file at `path` has pytest's name and another tool's content.
pub(super) fn is_of_another_tool(tree: &FileTree, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_toml = name.ends_with(".toml") && OWN_FILES.contains(&name);
    let is_empty = |content: &str| content.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'));
    let holds_other =
        |content: &str| !has_table(content, "[pytest]") && !has_table(content, "[pytest.") && !is_empty(content);
    is_toml && tree.content(path).is_some_and(holds_other)
}

/// Whether a line of `content` starts with the table header `header`.
pub(super) fn has_table(content: &str, header: &str) -> bool {
    content.lines().any(|line| line.trim_start().starts_with(header))
}

/// The option `testpaths` of the configuration in `dir`; empty where pytest looks for tests everywhere below it.
pub(super) fn test_paths(tree: &FileTree, dir: &str) -> Vec<String> {
    let options = FILES.iter().find_map(|(name, tables)| {
        let path = join(dir, name);
        let is_own = OWN_FILES.contains(name) && tree.contains(&path) && !is_of_another_tool(tree, &path);
        let content = tree.content(&path).unwrap_or_default();
        let found =
            if name.ends_with(".toml") { toml_test_paths(content, tables) } else { ini_test_paths(content, tables) };
        found.or_else(|| is_own.then(Vec::new))
    });
    options.unwrap_or_default()
}

/// `testpaths` of a TOML file; `None` without a table of pytest's.
fn toml_test_paths(content: &str, tables: &[&str]) -> Option<Vec<String>> {
    let document: toml::Table = toml::from_str(content).ok()?;
    let table = |keys: &str| {
        let mut keys = keys.split('.');
        let first = document.get(keys.next()?)?;
        keys.try_fold(first, |value, key| value.get(key))
    };
    let found: Vec<&toml::Value> = tables.iter().filter_map(|keys| table(keys)).collect();
    let paths = found.iter().find_map(|table| table.get("testpaths"));
    (!found.is_empty()).then(|| match paths {
        Some(toml::Value::Array(paths)) => paths.iter().filter_map(|path| Some(path.as_str()?.to_owned())).collect(),
        Some(toml::Value::String(paths)) => words(paths),
        _ => Vec::new(),
    })
}

/// `testpaths` of an INI file; `None` without a section of pytest's. A value continues on indented lines.
fn ini_test_paths(content: &str, tables: &[&str]) -> Option<Vec<String>> {
    let header = |line: &str| line.strip_prefix('[')?.split_once(']').map(|(name, _)| name.to_owned());
    let is_own = |line: &str| header(line).is_some_and(|name| tables.contains(&name.as_str()));
    let mut lines = content.lines().skip_while(|line| !is_own(line)).peekable();
    lines.next()?;
    let section = lines.take_while(|line| header(line).is_none());
    let mut value: Option<String> = None;
    for line in section.filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with(['#', ';'])) {
        match &mut value {
            Some(value) if line.starts_with([' ', '\t']) => {
                value.push(' ');
                value.push_str(line.trim());
            }
            Some(_) => break,
            None => {
                let named = line.strip_prefix("testpaths").map(str::trim_start);
                value = named.and_then(|rest| rest.strip_prefix(['=', ':'])).map(|rest| rest.trim().to_owned());
            }
        }
    }
    Some(words(&value.unwrap_or_default()))
}

fn words(value: &str) -> Vec<String> {
    value.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_test_paths_in_every_form_and_the_first_file_decides() {
        for (file, content, paths) in [
            ("pytest.toml", "[pytest]\ntestpaths = ['a', 'b']", &["a", "b"][..]),
            (".pytest.ini", "[pytest]\ntestpaths=a b\naddopts = -q", &["a", "b"]),
            ("tox.ini", "[tox]\ntestpaths = x\n[pytest]\ntestpaths =\n    a\n    # no\n    b\n[y]\n  z", &["a", "b"]),
            ("setup.cfg", "[tool:pytest]\nfilterwarnings =\n  error\ntestpaths: a", &["a"]),
            ("setup.cfg", "[pytest]\ntestpaths: a", &[]),
            ("pyproject.toml", "[tool.pytest.ini_options]\ntestpaths = [\n 'a',\n]", &["a"]),
            ("pyproject.toml", "[tool.pytest]\ntestpaths = ['a']", &["a"]),
            ("pyproject.toml", "[tool.pytest.ini_options]\ntestpaths = 'a b'", &["a", "b"]),
            ("pyproject.toml", "[tool.pytest]", &[]),
            ("pyproject.toml", "not [ toml", &[]),
        ] {
            assert_eq!(test_paths(&FileTree::with_contents(&[(file, content)]), ""), paths, "{file}: {content}");
            let (deep, other) = (format!("d/{file}"), ("d/setup.cfg", "[tool:pytest]\ntestpaths = other"));
            let found = test_paths(&FileTree::with_contents(&[other, (&deep, content)]), "d");
            let decides = paths != [""; 0] || content == "[tool.pytest]" || file == "setup.cfg";
            assert_eq!(found, if decides { paths } else { &["other"] }, "{file}: {content}");
        }
        let ini =
            FileTree::with_contents(&[("pytest.ini", ""), ("pyproject.toml", "[tool.pytest]\ntestpaths = ['a']")]);
        assert!(test_paths(&ini, "").is_empty(), "an empty pytest.ini is a configuration");
    }

    #[test]
    fn a_toml_file_with_other_content_is_another_tools() {
        for (content, is_other) in [
            ("[pytest]\naddopts = ['-q']", false),
            ("# nothing yet\n", false),
            ("[package]\nname = 'pytest'", true),
            ("# [pytest]\nname = 'x'", true),
        ] {
            let tree = FileTree::with_contents(&[("recipes/pytest.toml", content)]);
            assert_eq!(is_of_another_tool(&tree, "recipes/pytest.toml"), is_other, "{content}");
        }
        assert!(!is_of_another_tool(&FileTree::with_contents(&[("pytest.ini", "[x]")]), "pytest.ini"));
    }
}

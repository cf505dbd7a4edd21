//! Reads settings files as far as selection needs them: whether a file has a tool's table, and JSON with comments.

use super::CheckProject;
use crate::contract::FileTree;

/// Whether a `pyproject.toml` has settings of this tool.
pub(super) fn has_toml_table(text: &str, tool: &str) -> bool {
    match toml::from_str::<toml::Table>(text) {
        Ok(table) => table.get("tool").and_then(|tools| tools.get(tool)).is_some(),
        // The tool itself reports what is wrong with the file.
        Err(_) => text.lines().any(|line| {
            let header = line.trim().trim_start_matches('[').strip_prefix("tool.");
            header.and_then(|rest| rest.strip_prefix(tool)).is_some_and(|rest| rest.starts_with(['.', ']']))
        }),
    }
}

/// Whether a file in INI's form has this section.
pub(super) fn has_ini_section(text: &str, section: &str) -> bool {
    text.lines().any(|line| {
        line.trim()
            .strip_prefix('[')
            .and_then(|rest| rest.strip_prefix(section))
            .is_some_and(|rest| rest.starts_with(']'))
    })
}

/// These projects, or the root if there are none and the workspace has a file with one of these extensions.
pub(super) fn or_root(projects: Vec<CheckProject>, tree: &FileTree, extensions: &[&str]) -> Vec<CheckProject> {
    let has_extension =
        |file: &str| file.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension));
    if projects.is_empty() && tree.files().any(has_extension) { vec![CheckProject::new("", "")] } else { projects }
}

/// JSON without the comments and commas before a closing bracket that TypeScript and others allow in settings.
pub(super) fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.trim_start_matches('\u{feff}').chars().peekable();
    let mut in_string = false;
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some(_)) if in_string => {
                plain.push(letter);
                plain.extend(letters.next());
                continue;
            }
            ('"', _) => in_string = !in_string,
            ('/', Some('/')) if !in_string => {
                while letters.next_if(|letter| *letter != '\n').is_some() {}
                continue;
            }
            ('/', Some('*')) if !in_string => {
                let mut last = letters.next().unwrap_or_default();
                // The star that begins the comment does not end it.
                last = if last == '*' { ' ' } else { last };
                for letter in letters.by_ref() {
                    if last == '*' && letter == '/' {
                        break;
                    }
                    last = letter;
                }
                continue;
            }
            (']' | '}', _) if !in_string => {
                let kept = plain.trim_end().strip_suffix(',').map(str::len);
                kept.into_iter().for_each(|kept| plain.truncate(kept));
            }
            _ => {}
        }
        plain.push(letter);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn finds_tables_and_sections_of_a_tool() {
        assert!(
            has_toml_table("[tool.ruff.lint]\nselect = []", "ruff") && has_toml_table("[tool.ruff]\nx = [", "ruff")
        );
        assert!(!has_toml_table("[tool.ruffian]\n", "ruff") && !has_toml_table("# [tool.ruff]\n", "ruff"));
        assert!(has_ini_section("[metadata]\n[mypy]\nstrict = 1", "mypy") && !has_ini_section("[mypy-x.*]\n", "mypy"));
    }

    #[test]
    fn reads_json_with_comments_and_trailing_commas() {
        let text =
            "\u{feff}{ // a \"comment\"\n \"a\": \"// no /* comment */ \\\" ,}\", /* more, } */ \"b\": [1, 2,], }";
        let value: serde_json::Value = serde_json::from_str(&plain_json(text)).unwrap();
        assert_eq!(value, serde_json::json!({"a": "// no /* comment */ \" ,}", "b": [1, 2]}));
        assert_eq!(plain_json("/**/1/***/").trim(), "1");
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in ".*") {
            plain_json(&text);
            has_toml_table(&text, "ruff");
            has_ini_section(&text, "mypy");
        }
    }
}

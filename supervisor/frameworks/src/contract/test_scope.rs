//! The scope of a run of all tests: which of them the project file leaves in.
//!
//! An entry is a glob for names of tests or for files. `*` stands for any text, in a file's path within one directory; `**`
//! also for any directories; `?` for one character.

use crate::FRAMEWORKS;
use crate::contract::FileTree;
use crate::ecosystems::js;
use crate::parsing::workspace_paths::leaves_workspace;
use regex::Regex;
use thiserror::Error;

/// Most entries of one list. More belong in the runner's own configuration.
pub const SCOPE_ENTRIES_MAX: usize = 64;

/// Longest entry, in characters: that of a filter.
pub const SCOPE_CHARS_MAX: usize = proctor_core::filter::FILTER_CHARS_MAX;

/// Why an entry is no glob.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScopeError {
    /// It has no characters.
    #[error("an entry is empty")]
    Empty,
    /// It is longer than any name that a person would write.
    #[error("an entry has more than {SCOPE_CHARS_MAX} characters")]
    TooLong,
    /// Names of tests and files have none.
    #[error("an entry contains control characters")]
    ControlCharacters,
    /// It could only match outside of the workspace.
    #[error("`{entry}` is no path below the workspace")]
    Outside {
        /// The entry.
        entry: String,
    },
    /// It is the workspace itself.
    #[error("`{entry}` is the whole workspace: leave the entry out")]
    Workspace {
        /// The entry.
        entry: String,
    },
    /// It is a test in a file, as pytest writes it.
    #[error("`{entry}` is a test in a file: an entry is a glob for files, or one for names of tests")]
    FileAndName {
        /// The entry.
        entry: String,
    },
    /// More than [`SCOPE_ENTRIES_MAX`].
    #[error("has more than {SCOPE_ENTRIES_MAX} entries")]
    TooMany,
}

/// The globs of one list, by what they match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScopeGlobs {
    names: Vec<String>,
    files: Vec<String>,
}

/// Which tests a run of all tests includes. Empty lists include everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TestScope {
    /// Only tests whose names match one of these names, and whose files match one of these files.
    pub patterns: ScopeGlobs,
    /// No test whose name or file matches one of these.
    pub exclude: ScopeGlobs,
}

/// How a framework applies the globs for names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// The runner cannot select tests by such globs, and the run is refused.
    Refused,
    /// As a filter, a regular expression over the full title, whose end may be anything behind a blank.
    Titles,
    /// Its adapter reads [`PlanRequest::scope`](crate::PlanRequest::scope).
    Adapter,
}

/// Which globs a framework can apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScopeSupport {
    /// Those for names of tests.
    pub names: NameScope,
    /// Those for files.
    pub files: bool,
}

/// The scope that includes everything.
pub static EVERYTHING: TestScope = TestScope {
    patterns: ScopeGlobs { names: Vec::new(), files: Vec::new() },
    exclude: ScopeGlobs { names: Vec::new(), files: Vec::new() },
};

impl ScopeGlobs {
    /// Parses the entries of a list. An entry with a `/`, or with the extension of a framework's source files, is a glob for
    /// files.
    pub fn parse(entries: &[String]) -> Result<ScopeGlobs, ScopeError> {
        if entries.len() > SCOPE_ENTRIES_MAX {
            return Err(ScopeError::TooMany);
        }
        let mut globs = ScopeGlobs::default();
        for entry in entries {
            match entry {
                entry if entry.trim().is_empty() => return Err(ScopeError::Empty),
                entry if entry.chars().count() > SCOPE_CHARS_MAX => return Err(ScopeError::TooLong),
                entry if entry.chars().any(char::is_control) => return Err(ScopeError::ControlCharacters),
                _ => {}
            }
            if entry.split_once("::").is_some_and(|(file, _)| is_file_glob(file)) {
                return Err(ScopeError::FileAndName { entry: entry.clone() });
            }
            if entry.split('/').all(|part| part.is_empty() || part == ".") {
                return Err(ScopeError::Workspace { entry: entry.clone() });
            }
            if !is_file_glob(entry) {
                globs.names.push(entry.clone());
            } else if leaves_workspace(entry) {
                return Err(ScopeError::Outside { entry: entry.clone() });
            } else {
                globs.files.push(entry.clone());
            }
        }
        Ok(globs)
    }

    /// Globs for names of tests.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Globs for files, relative to the workspace.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Whether the list has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.files.is_empty()
    }

    /// A regular expression for names: `Test.*|Bench.*`; `None` without globs for names. Go, JavaScript and Python read it alike.
    pub(crate) fn name_expression(&self) -> Option<String> {
        alternatives(&self.names, |glob| translate(glob, ".*", "."))
    }

    /// A regular expression for whole paths of files; `None` without globs for files. A glob without `/` is a file's or
    /// directory's name in any directory, and what matches a directory matches everything below it.
    pub(crate) fn file_expression(&self) -> Option<String> {
        alternatives(&self.files, translate_file)
    }

    fn rendered(&self) -> String {
        let entries: Vec<String> = self.names.iter().chain(&self.files).map(|entry| format!("`{entry}`")).collect();
        entries.join(", ")
    }
}

impl TestScope {
    /// The two lists by their keys in the project file.
    fn lists(&self) -> [(&'static str, &ScopeGlobs); 2] {
        [("patterns", &self.patterns), ("exclude", &self.exclude)]
    }

    /// Whether it includes everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.patterns.is_empty() && self.exclude.is_empty()
    }

    /// The first glob that a framework cannot apply, with its list and what it matches.
    #[must_use]
    pub fn unsupported(&self, support: ScopeSupport) -> Option<(&'static str, &'static str, &str)> {
        self.lists().into_iter().find_map(|(key, globs)| {
            let name = globs.names.first().filter(|_| support.names == NameScope::Refused);
            let file = globs.files.first().filter(|_| !support.files);
            name.map(|glob| (key, "names of tests", glob.as_str()))
                .or_else(|| file.map(|glob| (key, "files", glob.as_str())))
        })
    }

    /// A sentence for the report.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let lists: Vec<String> = self
            .lists()
            .into_iter()
            .filter(|(_, globs)| !globs.is_empty())
            .map(|(key, globs)| format!("{key} {}", globs.rendered()))
            .collect();
        (!lists.is_empty()).then(|| format!("the project file selects the tests: {}", lists.join("; ")))
    }

    /// A sentence for each entry that may not mean what its author thinks: a glob for files that matches none in the workspace, and a
    /// glob for names that is also the name of a directory.
    #[must_use]
    pub fn doubts(&self, tree: &FileTree) -> Vec<String> {
        let mut doubts = Vec::new();
        for (key, globs) in self.lists() {
            for glob in globs.files.iter().filter(|_| !tree.is_truncated()) {
                let matches = Regex::new(&format!("^(?:{})$", translate_file(glob)));
                if matches.is_ok_and(|matches| !tree.files().any(|file| matches.is_match(file))) {
                    doubts.push(format!(
                        "the project file's {key} has `{glob}`, which matches no file: an entry with a `/` or an extension is a glob \
                         for files"
                    ));
                }
            }
            for glob in globs.names.iter().filter(|name| tree.has_below(name)) {
                doubts.push(format!(
                    "the project file's {key} has `{glob}`, a glob for names of tests: the directory of this name is `{glob}/`"
                ));
            }
        }
        doubts
    }

    /// An expression for full titles, in which titles are joined by blanks, or as a listing prints them: a glob matches the whole of
    /// it, or its beginning up to a blank. Vitest before 2 begins each title with a blank. `None` without globs for names.
    pub(crate) fn title_filter(&self) -> Option<String> {
        let titles = |globs: &ScopeGlobs| alternatives(&globs.names, translate_titles);
        let (wanted, excluded) = (titles(&self.patterns), titles(&self.exclude));
        if wanted.is_none() && excluded.is_none() {
            return None;
        }
        let excluded = excluded.map(|names| format!("(?! *(?:{names})(?: |$))")).unwrap_or_default();
        let wanted = wanted.map(|names| format!(" *(?:{names})(?: |$)")).unwrap_or_default();
        Some(format!("^{excluded}{wanted}"))
    }
}

/// Whether an entry matches files and not names.
fn is_file_glob(entry: &str) -> bool {
    let has_extension = |extension: &&str| entry.strip_suffix(*extension).is_some_and(|stem| stem.ends_with('.'));
    entry.contains('/') || FRAMEWORKS.iter().any(|one| one.manifest().extensions.iter().any(has_extension))
}

fn alternatives(globs: &[String], translate: impl Fn(&str) -> String) -> Option<String> {
    let all: Vec<String> = globs.iter().map(|glob| translate(glob)).collect();
    (!all.is_empty()).then(|| all.join("|"))
}

/// The regular expression of a glob for files. `./` before it anchors it at the workspace's root.
fn translate_file(glob: &str) -> String {
    let relative = glob.trim_start_matches("./");
    let is_anchored = relative.len() < glob.len();
    let relative = relative.trim_end_matches('/');
    let (anywhere, relative) = match relative.strip_prefix("**/") {
        Some(rest) => (true, rest),
        None => (!is_anchored && !relative.contains('/'), relative),
    };
    let start = if anywhere { "(?:.*/)?" } else { "" };
    format!("{start}{}(?:/.*)?", translate(relative, "[^/]*", "[^/]"))
}

/// The regular expression of a glob for titles. A blank may stand between two titles, which runners join by a blank and a listing by
/// [`TITLE_SEPARATOR`](crate::ecosystems::js::TITLE_SEPARATOR). Titles may have line ends.
fn translate_titles(glob: &str) -> String {
    let titles = glob.replace(js::TITLE_SEPARATOR, " ");
    translate(&titles, r"[\s\S]*", r"[\s\S]").replace(' ', " (?:> )?")
}

/// The regular expression of a glob. Only characters that every dialect reads as escaped literals are escaped.
fn translate(glob: &str, any: &str, one: &str) -> String {
    let mut expression = String::with_capacity(glob.len() * 2);
    let mut rest = glob;
    while let Some(char) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/") {
            expression.push_str("(?:.*/)?");
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix("**") {
            expression.push_str(".*");
            rest = after;
            continue;
        }
        match char {
            '*' => expression.push_str(any),
            '?' => expression.push_str(one),
            char if r"\.+()|[]{}^$".contains(char) => expression.extend(['\\', char]),
            char => expression.push(char),
        }
        rest = &rest[char.len_utf8()..];
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(entries: &[&str]) -> ScopeGlobs {
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        ScopeGlobs::parse(&entries).unwrap()
    }

    fn matches(expression: Option<String>, text: &str) -> bool {
        Regex::new(&format!("^(?:{})$", expression.unwrap())).unwrap().is_match(text)
    }

    #[test]
    fn an_entry_with_a_directory_or_an_extension_matches_files() {
        let all = globs(&["Test*", "TestA.B", "tests/slow", "test_*.py", "*.test.ts", "./a/*"]);
        assert_eq!(all.names(), ["Test*", "TestA.B"]);
        assert_eq!(all.files(), ["tests/slow", "test_*.py", "*.test.ts", "./a/*"]);
    }

    #[test]
    fn refuses_what_no_name_or_file_matches() {
        let error = |entry: &str| ScopeGlobs::parse(&[entry.to_owned()]).unwrap_err();
        assert_eq!(error(" "), ScopeError::Empty);
        assert_eq!(error("a\nb"), ScopeError::ControlCharacters);
        assert_eq!(error(&"x".repeat(201)), ScopeError::TooLong);
        for outside in ["/etc/*", "../x", "a/../b"] {
            assert_eq!(error(outside), ScopeError::Outside { entry: outside.to_owned() });
        }
        for whole in [".", "./", "././", "/"] {
            assert_eq!(error(whole), ScopeError::Workspace { entry: whole.to_owned() });
        }
        for both in ["tests/test_a.py::test_x", "test_a.py::TestA::test_x"] {
            assert_eq!(error(both), ScopeError::FileAndName { entry: both.to_owned() });
        }
        assert_eq!(globs(&["TestA::test_x"]).names(), ["TestA::test_x"]);
        assert_eq!(ScopeGlobs::parse(&vec!["x".to_owned(); 65]).unwrap_err(), ScopeError::TooMany);
    }

    #[test]
    fn globs_match_names_and_paths() {
        for (glob, path, expected) in [
            ("integration/**", "integration/a_test.go", true),
            ("integration/**", "x/integration/a_test.go", false),
            ("integration/", "integration/a/b_test.go", true),
            ("**/slow", "a/b/slow/x.py", true),
            ("**/slow", "slow/x.py", true),
            ("tests/*.py", "tests/a/b.py", false),
            ("tests/**/*_it.py", "tests/a_it.py", true),
            ("tests/**/*_it.py", "tests/b/c/a_it.py", true),
            ("test_?.py", "x/test_a.py", true),
            ("test_?.py", "x/test_ab.py", false),
            ("test_a.py", "test_aXpy", false),
            ("./test_a.py", "test_a.py", true),
            ("./test_a.py", "sub/test_a.py", false),
            ("./slow/", "slow/a.py", true),
            ("./slow/", "a/slow/a.py", false),
        ] {
            assert_eq!(matches(globs(&[glob]).file_expression(), path), expected, "{glob} {path}");
        }
        for (glob, name, expected) in
            [("Test*", "TestA", true), ("TestA", "TestAB", false), ("a(b)|c", "a(b)|c", true), ("a(b)|c", "c", false)]
        {
            assert_eq!(matches(globs(&[glob]).name_expression(), name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn says_what_a_framework_cannot_apply() {
        let scope = TestScope { patterns: globs(&["Test*"]), exclude: globs(&["slow/**"]) };
        let support = |names, files| scope.unsupported(ScopeSupport { names, files });
        assert_eq!(support(NameScope::Refused, true), Some(("patterns", "names of tests", "Test*")));
        assert_eq!(support(NameScope::Titles, false), Some(("exclude", "files", "slow/**")));
        assert_eq!(support(NameScope::Adapter, true), None);
        assert_eq!(scope.note().unwrap(), "the project file selects the tests: patterns `Test*`; exclude `slow/**`");
        assert_eq!((EVERYTHING.note(), EVERYTHING.title_filter()), (None, None));
        let titles = TestScope { patterns: globs(&["cart"]), exclude: globs(&["cart slow*"]) };
        assert_eq!(titles.title_filter().unwrap(), r"^(?! *(?:cart (?:> )?slow[\s\S]*)(?: |$)) *(?:cart)(?: |$)");
    }

    #[test]
    fn doubts_entries_that_match_no_file_and_names_of_directories() {
        let mut tree = FileTree::default();
        ["integration/a_test.go", "b_test.go"].iter().for_each(|file| tree.add(*file));
        let scope =
            TestScope { patterns: globs(&["Test*", "b_*.go"]), exclude: globs(&["TestDB/slow", "integration"]) };
        let doubts = scope.doubts(&tree);
        assert!(doubts[0].contains("exclude has `TestDB/slow`, which matches no file"), "{doubts:?}");
        assert!(doubts[1].contains("the directory of this name is `integration/`"), "{doubts:?}");
        assert_eq!(doubts.len(), 2);
        tree.set_truncated();
        assert_eq!(scope.doubts(&tree).len(), 1);
    }

    #[test]
    fn a_glob_for_titles_matches_titles_joined_by_blanks_and_as_listed() {
        for glob in ["cart > slow case", "cart slow case", "cart slow*", "cart", "c?rt > slow"] {
            let scope = TestScope { patterns: globs(&[glob]), exclude: ScopeGlobs::default() };
            let expression = Regex::new(&scope.title_filter().unwrap()).unwrap();
            for title in ["cart slow case", "cart > slow case", "cart slow > case", " cart slow case"] {
                assert!(expression.is_match(title), "{glob}: {title}");
            }
            assert!(!expression.is_match("carts slow case"), "{glob}");
        }
        let lines = TestScope { patterns: globs(&["a*c"]), exclude: ScopeGlobs::default() };
        assert!(Regex::new(&lines.title_filter().unwrap()).unwrap().is_match("a\nb c"));
    }
}

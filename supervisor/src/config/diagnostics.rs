//! Parses the text of a host file and reports each problem with its line.

use super::Config;
use proctor_core::redact::redact;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Most values of a wrong type reported for one file.
const TYPE_ERRORS_MAX: usize = 100;

/// Explanations for duplicate tables, by the start of their header: TOML has single brackets for one table and double
/// brackets for an array of tables.
const TENANT_HEADERS: [(&str, &str); 3] = [
    ("[tenant]", DOUBLE_BRACKETS),
    ("[tenant.", "duplicate key; start the next tenant with [[tenant]], in double brackets"),
    ("[[tenant]]", "duplicate key; start the tenant above it with [[tenant]] too, in double brackets"),
];

const DOUBLE_BRACKETS: &str = "a tenant table starts with [[tenant]], in double brackets";

/// A problem in a host file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path of the key: `listen.tcp`, `tenant.0.roots.1`. Array indexes count from 0.
    pub at: String,
    /// The key in readable form, what is wrong, and the remedy.
    pub text: String,
    /// Whether the file can be used nevertheless.
    pub is_note: bool,
}

impl Problem {
    /// An error in the value of `at`.
    pub fn new(at: impl Into<String>, text: impl Into<String>) -> Problem {
        Problem { at: at.into(), text: text.into(), is_note: false }
    }

    /// A note about the value of `at` that does not prevent the use of the file.
    pub fn note(at: impl Into<String>, text: impl Into<String>) -> Problem {
        Problem { is_note: true, ..Problem::new(at, text) }
    }
}

/// A finished message with path and line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diagnostic {
    /// An error: the file cannot be used.
    Problem(String),
    /// A note for the author of the file.
    Note(String),
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Diagnostic::Problem(text) | Diagnostic::Note(text)) = self;
        f.write_str(text)
    }
}

/// A problem with its line number, in the order in which problems are reported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LocatedProblem {
    line: usize,
    is_note: bool,
    text: String,
}

/// A host file, parsed as far as possible: values of a wrong type are dropped.
pub struct ConfigReader<'t> {
    text: &'t str,
    root: DeTable<'t>,
    config: Config,
    problems: BTreeSet<LocatedProblem>,
    /// Keys that were dropped. Nothing is reported as missing merely because it was dropped.
    dropped_keys: Vec<String>,
    /// Whether syntax and types are correct, so that the meaning of the file can be checked.
    is_complete: bool,
}

impl<'t> ConfigReader<'t> {
    /// Parses the text of a file.
    #[must_use]
    pub fn new(text: &'t str) -> ConfigReader<'t> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut reader = ConfigReader {
            text,
            root: root.into_inner(),
            config: Config::default(),
            problems: BTreeSet::new(),
            dropped_keys: Vec::new(),
            is_complete: errors.is_empty(),
        };
        for error in &errors {
            // An error at the end of a text without a final newline has no span.
            let offset = error.span().map_or(text.len(), |span| span.start);
            match reader.tenant_header(offset).filter(|_| error.message() == "duplicate key") {
                Some((line, text)) => {
                    _ = reader.problems.insert(LocatedProblem { line, is_note: false, text: text.to_owned() })
                }
                None => reader.add_at(offset, error.message().to_owned()),
            }
        }
        reader.deserialize_values();
        reader
    }

    /// The parsed configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the configuration is complete: syntax and all types are correct.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Adds problems with the meaning of the file. Has no effect unless the file is complete.
    pub fn add(&mut self, problems: Vec<Problem>) {
        if !self.is_complete {
            return;
        }
        for problem in problems {
            let overlaps = |key: &&String| is_below(key, &problem.at) || is_below(&problem.at, key);
            if self.dropped_keys.iter().find(overlaps).is_none() {
                let line = self.line(self.offset(&problem.at));
                self.problems.insert(LocatedProblem { line, is_note: problem.is_note, text: problem.text });
            }
        }
    }

    /// Returns the configuration and its notes, or all messages about the file at `path` in the order of lines.
    pub fn finish(self, path: &Path) -> Result<(Config, Vec<String>), Vec<Diagnostic>> {
        let message = |LocatedProblem { line, is_note, text }: &LocatedProblem| {
            // Secrets pasted in a wrong place must not appear in messages.
            format!("{}:{line}: {}{}", path.display(), if *is_note { "note: " } else { "" }, redact(text))
        };
        if self.problems.iter().all(|problem| problem.is_note) {
            return Ok((self.config, self.problems.iter().map(message).collect()));
        }
        let kind = |problem: &LocatedProblem| if problem.is_note { Diagnostic::Note } else { Diagnostic::Problem };
        Err(self.problems.iter().map(|problem| kind(problem)(message(problem))).collect())
    }

    fn add_at(&mut self, offset: usize, text: String) {
        let line = self.line(offset);
        self.problems.insert(LocatedProblem { line, is_note: false, text });
    }

    // If `offset` is in a tenant's table with a wrong header: the line of that header, and the explanation.
    fn tenant_header(&self, offset: usize) -> Option<(usize, &'static str)> {
        let lines = self.text.lines().map(str::trim_start).enumerate().take(self.line(offset));
        let (number, header) = lines.filter(|(_, line)| line.starts_with('[')).last()?;
        let (_, text) = TENANT_HEADERS.iter().find(|(begin, _)| header.starts_with(begin))?;
        Some((number + 1, text))
    }

    // The line number at `offset`.
    fn line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(self.text);
        before.bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    // Deserializes the values. On an error the offending value is dropped and the rest tried again, so that one error
    // does not hide the next.
    fn deserialize_values(&mut self) {
        let damaged: BTreeSet<usize> = self.problems.iter().map(|problem| problem.line).collect();
        for _ in 0..TYPE_ERRORS_MAX {
            let spanned = Spanned::new(0..self.text.len(), self.root.clone());
            let error = match Config::deserialize(toml::Deserializer::from(spanned)) {
                Ok(config) => {
                    self.config = config;
                    return;
                }
                Err(error) => error,
            };
            let mut key = Vec::new();
            let dropped = error.span().is_some_and(|span| remove_at(&mut self.root, &span, &mut key));
            if !dropped {
                break;
            }
            let named = self.key_label(&key);
            let key = key.join(".");
            let offset = error.span().map_or(0, |span| span.start);
            // A syntax error may leave a value of any type on its line.
            if !damaged.contains(&self.line(offset)) {
                let is_tenant_table = named == "tenant" && error.message().starts_with("invalid type: map");
                let text = format!("{named}: {}", type_error(&named, error.message()));
                self.add_at(offset, if is_tenant_table { DOUBLE_BRACKETS.to_owned() } else { text });
            }
            self.dropped_keys.push(key);
        }
        self.is_complete = false;
        if self.problems.is_empty() {
            self.add_at(0, "the file cannot be read".to_owned());
        }
    }

    // The key in readable form: array indexes are left out, as the line is known, and a tenant is named by its id.
    fn key_label(&self, key: &[String]) -> String {
        let is_index = |part: &&String| part.bytes().all(|byte| byte.is_ascii_digit());
        let tenants = self.root.get("tenant").and_then(|tenants| tenants.get_ref().as_array());
        let id = |index: &String| {
            Some(tenants?.get(index.parse::<usize>().ok()?)?.get_ref().get("id")?.get_ref().as_str()?.to_owned())
        };
        let below = |parts: &[String]| {
            let end = parts.len() - parts.iter().rev().take_while(is_index).count();
            parts[..end].join(".")
        };
        match key {
            [tenant, index, rest @ ..] if tenant == "tenant" && !rest.is_empty() => match id(index) {
                Some(id) => format!("tenant {id:?}: {}", below(rest)),
                None => below(key),
            },
            _ => below(key),
        }
    }

    // The offset of the value of `key`, or of its nearest existing parent.
    fn offset(&self, key: &str) -> usize {
        let mut parts = key.split('.');
        let Some((name, mut value)) = parts.next().and_then(|part| self.root.get_key_value(part)) else { return 0 };
        let mut offset = name.span().start;
        for part in parts {
            let next = match value.get_ref() {
                DeValue::Table(table) => table.get_key_value(part).map(|(name, value)| (name.span().start, value)),
                DeValue::Array(array) => {
                    let at = part.parse().ok().and_then(|at: usize| array.get(at));
                    at.map(|value| (value.span().start, value))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            (offset, value) = next;
        }
        offset
    }
}

// The type error of a value, without the value itself if it may be secret.
fn type_error(key: &str, message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if key.ends_with("token_hashes") => format!("expected {expected}"),
        _ => message.to_owned(),
    }
}

fn is_below(key: &str, above: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

// Removes the innermost value, or the key and value, that contains `span`. `key` becomes the path of the removed value.
fn remove_at(table: &mut DeTable<'_>, span: &Range<usize>, key: &mut Vec<String>) -> bool {
    let mut wrong = None;
    for (name, value) in table.iter_mut() {
        key.push(name.get_ref().to_string());
        if remove_inside(value, span, key) {
            return true;
        }
        if contains(&name.span(), span) || contains(&value.span(), span) {
            wrong = Some(name.get_ref().to_string());
            break;
        }
        key.pop();
    }
    wrong.is_some_and(|name| table.remove(name.as_str()).is_some())
}

fn remove_inside(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>, key: &mut Vec<String>) -> bool {
    match value.get_mut() {
        DeValue::Table(table) => remove_at(table, span, key),
        DeValue::Array(array) => {
            let mut wrong = None;
            for (at, element) in array.iter_mut().enumerate() {
                key.push(at.to_string());
                if remove_inside(element, span, key) {
                    return true;
                }
                if contains(&element.span(), span) {
                    wrong = Some(at);
                    break;
                }
                key.pop();
            }
            let Some(wrong) = wrong else { return false };
            let all = std::mem::replace(array, DeArray::new());
            *array = all.into_iter().enumerate().filter(|(at, _)| *at != wrong).map(|(_, element)| element).collect();
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages_of(text: &str) -> Vec<String> {
        let mut reader = ConfigReader::new(text);
        let problems = reader.config().problems();
        reader.add(problems);
        texts(reader)
    }

    fn texts(reader: ConfigReader<'_>) -> Vec<String> {
        reader.finish(Path::new("f")).map(drop).unwrap_err().iter().map(Diagnostic::to_string).collect()
    }

    #[test]
    fn reports_each_problem_with_its_line_and_key() {
        let messages = messages_of(
            "state_dir = \"relative\"\n\
             state_dri = 1\n\
             [listen]\n\
             unix = 7\n\
             [host]\n\
             toolchains = [\"opt\"]\n\
             [defaults]\n\
             memory = \"much\"\n\
             pids = 1\n\
             [[tenant]]\n\
             id = \"a b\"\n\
             uids = [1001,\n\
             -1,\n\
             \"x\"]\n\
             roots = [\"/\",\n\
             \"relative\"]\n\
             [[tenant]]\n\
             roots = \"/\"\n\
             uid_range = { first = 70000 }\n\
             netwrok = \"host\"\n",
        );
        let lines: Vec<(usize, &str)> = messages
            .iter()
            .map(|line| line.strip_prefix("f:").unwrap().split_once(": ").unwrap())
            .map(|(line, text)| (line.parse().unwrap(), text))
            .collect();
        for (line, text) in [
            (1, "state_dir: must be an absolute path"),
            (2, "state_dri: unknown field `state_dri`"),
            (4, "listen.unix: invalid type: integer `7`"),
            (6, "host.toolchains: opt is not absolute"),
            (8, "defaults.memory: expected something like 2GiB"),
            (9, "defaults: pids must be at least"),
            (11, "tenant \"a b\": id must be 1 to 64"),
            (13, "tenant \"a b\": uids: invalid value: integer `-1`"),
            (14, "tenant \"a b\": uids: invalid type: string \"x\""),
            (16, "tenant \"a b\": root relative is not absolute"),
            (17, "tenant \"\": id must be"),
            (18, "tenant.1.roots: invalid type: string"),
            (19, "tenant.1.uid_range: missing field `count`"),
            (20, "tenant.1.netwrok: unknown field `netwrok`"),
        ] {
            let there = lines.iter().any(|(at, message)| *at == line && message.starts_with(text));
            assert!(there, "{line}: {text} in\n{}", messages.join("\n"));
        }
        assert!(lines.is_sorted_by_key(|(line, _)| *line), "{messages:?}");
        // A dropped key is not reported as missing too.
        for text in ["neither unix nor tcp", "roots is empty", "uid_range is missing: layer tenant_uid\n"] {
            assert!(!messages.join("\n").contains(text), "{text} in\n{}", messages.join("\n"));
        }
    }

    #[test]
    fn reports_every_syntax_error_and_type_errors_beside_them() {
        let messages =
            messages_of("state_dir = \n[listen]\ntcp = 7\nunix = \"/a\" \"b\"\n[host\nmemory = \"x\"\n").join("\n");
        for expected in ["f:1: ", "f:3: listen.tcp: invalid type", "f:4: ", "f:5: "] {
            assert!(messages.contains(expected), "{expected} in\n{messages}");
        }
        assert!(!messages.contains("[[tenant]]"), "missing keys are not reported after a syntax error:\n{messages}");
    }

    #[test]
    fn never_repeats_a_misplaced_secret() {
        let token = format!("proctor_{}", "a1".repeat(32));
        let messages =
            messages_of(&format!("[[tenant]]\nuids = [{token:?}]\ntoken_hashes = \"hunter2\"\n{token} = 1\n"))
                .join("\n");
        assert!(messages.contains("f:2: ") && messages.contains("f:3: ") && messages.contains("f:4: "), "{messages}");
        assert!(!messages.contains(&token) && !messages.contains("hunter2"), "{messages}");
        assert!(messages.contains("token_hashes: expected a sequence"), "{messages}");
    }

    #[test]
    fn explains_a_tenant_table_with_single_brackets() {
        let (one, many) = ("[tenant]\nid = \"a\"\n", "[[tenant]]\nid = \"b\"\n");
        let quota = "[tenant.quota]\nweight = 1\n";
        for (text, expected) in [
            (one.to_owned(), &[(1, DOUBLE_BRACKETS)][..]),
            ([one, one].concat(), &[(3, DOUBLE_BRACKETS)]),
            ([many, one].concat(), &[(3, DOUBLE_BRACKETS)]),
            ([many, quota, quota].concat(), &[(5, TENANT_HEADERS[1].1)]),
            (
                [one, quota, many, quota].concat(),
                &[(1, DOUBLE_BRACKETS), (5, TENANT_HEADERS[2].1), (7, TENANT_HEADERS[1].1)],
            ),
            ("tenant = 7\n".to_owned(), &[(1, "tenant: invalid type: integer `7`, expected a sequence")]),
            (
                "state_dir = \"/x\"\nstate_dir = \"/y\"\n[tenant]\n".to_owned(),
                &[(2, "duplicate key"), (3, DOUBLE_BRACKETS)],
            ),
        ] {
            let messages = texts(ConfigReader::new(&text));
            let expected: Vec<String> = expected.iter().map(|(line, text)| format!("f:{line}: {text}")).collect();
            assert_eq!(messages, expected, "{text}");
        }
    }

    #[test]
    fn a_note_has_a_line_and_does_not_fail_the_file() {
        let finish = |problems: &[Problem]| {
            let mut reader = ConfigReader::new("state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n");
            reader.add(problems.to_vec());
            reader.finish(Path::new("f")).map(|(_, notes)| notes)
        };
        let (note, problem) = (Problem::note("listen.unix", "look"), Problem::new("listen.unix", "wrong"));
        assert_eq!(finish(std::slice::from_ref(&note)), Ok(vec!["f:3: note: look".to_owned()]));
        assert_eq!(
            finish(&[note, problem]),
            Err(vec![Diagnostic::Problem("f:3: wrong".to_owned()), Diagnostic::Note("f:3: note: look".to_owned())])
        );
    }

    #[test]
    fn reports_the_missing_keys_of_an_empty_file() {
        let messages = messages_of("");
        assert_eq!(
            messages,
            [
                "f:1: listen: neither unix nor tcp is set; name a socket or an address",
                "f:1: state_dir: is missing; name a directory of the supervisor's own",
                "f:1: tenant: at least one [[tenant]] is needed",
            ]
        );
    }
}

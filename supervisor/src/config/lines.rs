//! A host file's text as it is read: what it says, and each thing that is wrong with it on its line. Must not know what
//! any key means.

use super::Config;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Values of a wrong kind that are told of one file.
const WRONG_MAX: usize = 100;

/// Something that is wrong with a host file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key that it is about, from the top: `listen.tcp`, `tenant.0.roots.1`. Places of arrays count from 0.
    pub at: String,
    /// The key as people know it, what is wrong, and what helps.
    pub text: String,
}

impl Problem {
    /// A problem with the value of `at`.
    pub fn new(at: impl Into<String>, text: impl Into<String>) -> Problem {
        Problem { at: at.into(), text: text.into() }
    }
}

/// A host file that has been read as far as it can be: what is of a wrong kind is left out of it.
pub struct Reading<'t> {
    text: &'t str,
    root: DeTable<'t>,
    config: Config,
    found: BTreeSet<(usize, String)>,
    /// Keys that were left out. What is missing for that reason alone is no problem of its own.
    left_out: Vec<String>,
    /// Whether so much was understood that it can be asked what is missing.
    is_whole: bool,
}

impl<'t> Reading<'t> {
    /// Reads a file's text.
    #[must_use]
    pub fn of(text: &'t str) -> Reading<'t> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut reading = Reading {
            text,
            root: root.into_inner(),
            config: Config::default(),
            found: BTreeSet::new(),
            left_out: Vec::new(),
            is_whole: errors.is_empty(),
        };
        for error in &errors {
            // At the end of a text without a last newline there is nothing to point at.
            let offset = error.span().map_or(text.len(), |span| span.start);
            reading.tell(offset, error.message().to_owned());
        }
        reading.take_kinds();
        reading
    }

    /// What the file says.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether what the file says can be looked at: its syntax and all kinds are as they should be.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Notes what is wrong with the meaning of what was read.
    pub fn add(&mut self, problems: Vec<Problem>) {
        if !self.is_whole {
            return;
        }
        for problem in problems {
            let beside = |left_out: &&String| is_below(left_out, &problem.at) || is_below(&problem.at, left_out);
            if self.left_out.iter().find(beside).is_none() {
                let offset = self.offset(&problem.at);
                self.tell(offset, problem.text);
            }
        }
    }

    /// The config, or everything that is wrong with the file at `path`, in the order of its lines.
    pub fn finish(self, path: &Path) -> Result<Config, Vec<String>> {
        if self.found.is_empty() {
            return Ok(self.config);
        }
        let told = |(line, text): &(usize, String)| format!("{}:{line}: {text}", path.display());
        Err(self.found.iter().map(told).collect())
    }

    fn tell(&mut self, offset: usize, text: String) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        self.found.insert((line, text));
    }

    // Reads the values as what they should be, and again without the one that is none, so that one does not hide the next.
    fn take_kinds(&mut self) {
        let damaged: BTreeSet<usize> = self.found.iter().map(|(line, _)| *line).collect();
        for _ in 0..WRONG_MAX {
            let spanned = Spanned::new(0..self.text.len(), self.root.clone());
            let error = match Config::deserialize(toml::Deserializer::from(spanned)) {
                Ok(config) => {
                    self.config = config;
                    return;
                }
                Err(error) => error,
            };
            let mut key = Vec::new();
            let dropped = error.span().is_some_and(|span| drop_at(&mut self.root, &span, &mut key));
            if !dropped {
                break;
            }
            let key = key.join(".");
            let offset = error.span().map_or(0, |span| span.start);
            let before = self.text.get(..offset).unwrap_or(self.text);
            let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
            // What a syntax error has left of its line is of any kind.
            if !damaged.contains(&line) {
                let named = key.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('.');
                self.tell(offset, format!("{named}: {}", error.message()));
            }
            self.left_out.push(key);
        }
        self.is_whole = false;
        if self.found.is_empty() {
            self.tell(0, "the file cannot be read".to_owned());
        }
    }

    // Where the value of `key` is, or of the nearest key above it that is there.
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

fn is_below(key: &str, above: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

// Takes out the innermost value that an error is about, or that its key is. `key` becomes its name from the top.
fn drop_at(table: &mut DeTable<'_>, span: &Range<usize>, key: &mut Vec<String>) -> bool {
    let mut wrong = None;
    for (name, value) in table.iter_mut() {
        key.push(name.get_ref().to_string());
        if drop_below(value, span, key) {
            return true;
        }
        if holds(&name.span(), span) || holds(&value.span(), span) {
            wrong = Some(name.get_ref().to_string());
            break;
        }
        key.pop();
    }
    wrong.is_some_and(|name| table.remove(name.as_str()).is_some())
}

fn drop_below(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>, key: &mut Vec<String>) -> bool {
    match value.get_mut() {
        DeValue::Table(table) => drop_at(table, span, key),
        DeValue::Array(array) => {
            let mut wrong = None;
            for (at, element) in array.iter_mut().enumerate() {
                key.push(at.to_string());
                if drop_below(element, span, key) {
                    return true;
                }
                if holds(&element.span(), span) {
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

    fn told(text: &str) -> Vec<String> {
        let mut reading = Reading::of(text);
        let problems = reading.config().problems();
        reading.add(problems);
        reading.finish(Path::new("f")).map(drop).unwrap_err()
    }

    #[test]
    fn each_problem_is_told_on_its_line_with_its_key() {
        let said = told(
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
        let lines: Vec<(usize, &str)> = said
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
            (13, "tenant.0.uids: invalid value: integer `-1`"),
            (14, "tenant.0.uids: invalid type: string \"x\""),
            (16, "tenant \"a b\": root relative is not absolute"),
            (17, "tenant \"\": id must be"),
            (18, "tenant.1.roots: invalid type: string"),
            (19, "tenant.1.uid_range: missing field `count`"),
            (20, "tenant.1.netwrok: unknown field `netwrok`"),
        ] {
            let there = lines.iter().any(|(at, said)| *at == line && said.starts_with(text));
            assert!(there, "{line}: {text} in\n{}", said.join("\n"));
        }
        assert!(lines.is_sorted_by_key(|(line, _)| *line), "{said:?}");
        // What was left out because of its kind is not missing too.
        for text in ["neither unix nor tcp", "roots is empty", "uid_range is missing: layer tenant_uid\n"] {
            assert!(!said.join("\n").contains(text), "{text} in\n{}", said.join("\n"));
        }
    }

    #[test]
    fn every_syntax_error_is_told_and_does_not_hide_a_value_of_a_wrong_kind() {
        let said = told("state_dir = \n[listen]\ntcp = 7\nunix = \"/a\" \"b\"\n[host\nmemory = \"x\"\n").join("\n");
        for wanted in ["f:1: ", "f:3: listen.tcp: invalid type", "f:4: ", "f:5: "] {
            assert!(said.contains(wanted), "{wanted} in\n{said}");
        }
        assert!(!said.contains("[[tenant]]"), "what is missing is not known:\n{said}");
    }

    #[test]
    fn what_is_missing_from_an_empty_file_is_told() {
        let said = told("");
        assert_eq!(
            said,
            [
                "f:1: listen: neither unix nor tcp is set; name a socket or an address",
                "f:1: state_dir: is missing; name a directory of the supervisor's own",
                "f:1: tenant: at least one [[tenant]] is needed",
            ]
        );
    }
}

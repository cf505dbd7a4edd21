//! A host file's text as it is read: what it says, and each thing that is wrong with it on its line. Must not know what
//! any key means.

use super::Config;
use proctor_core::redact::redact;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Values of a wrong kind that are told of one file.
const WRONG_MAX: usize = 100;

/// What is told of a table that is there twice, by how it begins: TOML has one bracket for a table and two for each of several.
const TENANT_HEADERS: [(&str, &str); 3] = [
    ("[tenant]", TWO_BRACKETS),
    ("[tenant.", "duplicate key; the next tenant begins with [[tenant]], in two brackets"),
    ("[[tenant]]", "duplicate key; the tenant above it has to begin with [[tenant]] too, in two brackets"),
];

const TWO_BRACKETS: &str = "a tenant begins with [[tenant]], in two brackets";

/// Something that is wrong with a host file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key that it is about, from the top: `listen.tcp`, `tenant.0.roots.1`. Places of arrays count from 0.
    pub at: String,
    /// The key as people know it, what is wrong, and what helps.
    pub text: String,
    /// Whether the file can be used all the same.
    pub is_note: bool,
}

impl Problem {
    /// A problem with the value of `at`.
    pub fn new(at: impl Into<String>, text: impl Into<String>) -> Problem {
        Problem { at: at.into(), text: text.into(), is_note: false }
    }

    /// Something about the value of `at` that its author should know, and that is in nobody's way.
    pub fn note(at: impl Into<String>, text: impl Into<String>) -> Problem {
        Problem { is_note: true, ..Problem::new(at, text) }
    }
}

/// What is said of a host file, with its path and line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diagnostic {
    /// For this the file cannot be used.
    Problem(String),
    /// What its author should know.
    Note(String),
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Diagnostic::Problem(text) | Diagnostic::Note(text)) = self;
        f.write_str(text)
    }
}

/// A problem on its line: the order in which problems are told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    line: usize,
    is_note: bool,
    text: String,
}

/// A host file that has been read as far as it can be: what is of a wrong kind is left out of it.
pub struct ConfigReader<'t> {
    text: &'t str,
    root: DeTable<'t>,
    config: Config,
    found: BTreeSet<Found>,
    /// Keys that were left out. What is missing for that reason alone is no problem of its own.
    left_out: Vec<String>,
    /// Whether so much was understood that it can be asked what is missing.
    is_whole: bool,
}

impl<'t> ConfigReader<'t> {
    /// Reads a file's text.
    #[must_use]
    pub fn of(text: &'t str) -> ConfigReader<'t> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut reading = ConfigReader {
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
            match reading.of_a_tenant(offset).filter(|_| error.message() == "duplicate key") {
                Some((line, text)) => _ = reading.found.insert(Found { line, is_note: false, text: text.to_owned() }),
                None => reading.tell(offset, error.message().to_owned()),
            }
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
                let line = self.line(self.offset(&problem.at));
                self.found.insert(Found { line, is_note: problem.is_note, text: problem.text });
            }
        }
    }

    /// The config and the notes about it, or everything that is wrong with the file at `path`, in the order of its lines.
    pub fn finish(self, path: &Path) -> Result<(Config, Vec<String>), Vec<Diagnostic>> {
        let told = |Found { line, is_note, text }: &Found| {
            // Whatever was pasted where it does not belong.
            format!("{}:{line}: {}{}", path.display(), if *is_note { "note: " } else { "" }, redact(text))
        };
        if self.found.iter().all(|found| found.is_note) {
            return Ok((self.config, self.found.iter().map(told).collect()));
        }
        let kind = |found: &Found| if found.is_note { Diagnostic::Note } else { Diagnostic::Problem };
        Err(self.found.iter().map(|found| kind(found)(told(found))).collect())
    }

    fn tell(&mut self, offset: usize, text: String) {
        let line = self.line(offset);
        self.found.insert(Found { line, is_note: false, text });
    }

    // The line on which the table of `offset` begins if it is a tenant's, and what its author has to know of such.
    fn of_a_tenant(&self, offset: usize) -> Option<(usize, &'static str)> {
        let lines = self.text.lines().map(str::trim_start).enumerate().take(self.line(offset));
        let (number, header) = lines.filter(|(_, line)| line.starts_with('[')).last()?;
        let (_, text) = TENANT_HEADERS.iter().find(|(begin, _)| header.starts_with(begin))?;
        Some((number + 1, text))
    }

    // The number of the line at `offset`.
    fn line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(self.text);
        before.bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    // Reads the values as what they should be, and again without the one that is none, so that one does not hide the next.
    fn take_kinds(&mut self) {
        let damaged: BTreeSet<usize> = self.found.iter().map(|found| found.line).collect();
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
            let named = self.called(&key);
            let key = key.join(".");
            let offset = error.span().map_or(0, |span| span.start);
            // What a syntax error has left of its line is of any kind.
            if !damaged.contains(&self.line(offset)) {
                let of_tenant = named == "tenant" && error.message().starts_with("invalid type: map");
                let text = format!("{named}: {}", shown(&named, error.message()));
                self.tell(offset, if of_tenant { TWO_BRACKETS.to_owned() } else { text });
            }
            self.left_out.push(key);
        }
        self.is_whole = false;
        if self.found.is_empty() {
            self.tell(0, "the file cannot be read".to_owned());
        }
    }

    // The key as people know it: places of arrays say nothing beside a line, but a tenant has a name where it has an id.
    fn called(&self, key: &[String]) -> String {
        let is_place = |part: &&String| part.bytes().all(|byte| byte.is_ascii_digit());
        let tenants = self.root.get("tenant").and_then(|tenants| tenants.get_ref().as_array());
        let id = |place: &String| {
            Some(tenants?.get(place.parse::<usize>().ok()?)?.get_ref().get("id")?.get_ref().as_str()?.to_owned())
        };
        let below = |parts: &[String]| {
            let end = parts.len() - parts.iter().rev().take_while(is_place).count();
            parts[..end].join(".")
        };
        match key {
            [tenant, place, rest @ ..] if tenant == "tenant" && !rest.is_empty() => match id(place) {
                Some(id) => format!("tenant {id:?}: {}", below(rest)),
                None => below(key),
            },
            _ => below(key),
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

// What is wrong with the kind of a value, with the value itself where it is no secret.
fn shown(key: &str, message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if key.ends_with("token_hashes") => format!("expected {expected}"),
        _ => message.to_owned(),
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
        let mut reading = ConfigReader::of(text);
        let problems = reading.config().problems();
        reading.add(problems);
        texts(reading)
    }

    fn texts(reading: ConfigReader<'_>) -> Vec<String> {
        reading.finish(Path::new("f")).map(drop).unwrap_err().iter().map(Diagnostic::to_string).collect()
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
            (13, "tenant \"a b\": uids: invalid value: integer `-1`"),
            (14, "tenant \"a b\": uids: invalid type: string \"x\""),
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
    fn what_was_pasted_where_it_does_not_belong_is_not_repeated() {
        let token = format!("proctor_{}", "a1".repeat(32));
        let said =
            told(&format!("[[tenant]]\nuids = [{token:?}]\ntoken_hashes = \"hunter2\"\n{token} = 1\n")).join("\n");
        assert!(said.contains("f:2: ") && said.contains("f:3: ") && said.contains("f:4: "), "{said}");
        assert!(!said.contains(&token) && !said.contains("hunter2"), "{said}");
        assert!(said.contains("token_hashes: expected a sequence"), "{said}");
    }

    #[test]
    fn a_tenant_in_one_bracket_is_told_what_it_needs() {
        let (one, many) = ("[tenant]\nid = \"a\"\n", "[[tenant]]\nid = \"b\"\n");
        let quota = "[tenant.quota]\nweight = 1\n";
        for (text, wanted) in [
            (one.to_owned(), &[(1, TWO_BRACKETS)][..]),
            ([one, one].concat(), &[(3, TWO_BRACKETS)]),
            ([many, one].concat(), &[(3, TWO_BRACKETS)]),
            ([many, quota, quota].concat(), &[(5, TENANT_HEADERS[1].1)]),
            (
                [one, quota, many, quota].concat(),
                &[(1, TWO_BRACKETS), (5, TENANT_HEADERS[2].1), (7, TENANT_HEADERS[1].1)],
            ),
            ("tenant = 7\n".to_owned(), &[(1, "tenant: invalid type: integer `7`, expected a sequence")]),
            (
                "state_dir = \"/x\"\nstate_dir = \"/y\"\n[tenant]\n".to_owned(),
                &[(2, "duplicate key"), (3, TWO_BRACKETS)],
            ),
        ] {
            let said = texts(ConfigReader::of(&text));
            let wanted: Vec<String> = wanted.iter().map(|(line, text)| format!("f:{line}: {text}")).collect();
            assert_eq!(said, wanted, "{text}");
        }
    }

    #[test]
    fn a_note_is_told_on_its_line_and_in_nobodys_way() {
        let finish = |problems: &[Problem]| {
            let mut reading = ConfigReader::of("state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n");
            reading.add(problems.to_vec());
            reading.finish(Path::new("f")).map(|(_, notes)| notes)
        };
        let (note, problem) = (Problem::note("listen.unix", "look"), Problem::new("listen.unix", "wrong"));
        assert_eq!(finish(std::slice::from_ref(&note)), Ok(vec!["f:3: note: look".to_owned()]));
        assert_eq!(
            finish(&[note, problem]),
            Err(vec![Diagnostic::Problem("f:3: wrong".to_owned()), Diagnostic::Note("f:3: note: look".to_owned())])
        );
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

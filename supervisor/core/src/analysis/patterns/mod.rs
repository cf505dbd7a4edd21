//! The patterns: a table for each language, tried in order, between one for proctor's own messages and one for all languages. A row has the words that a language or runner
//! prints and what follows from them.

mod any;
mod cpp;
mod go;
mod javascript;
mod jvm;
mod php;
mod proctor;
mod python;
mod ruby;
mod rust;

use super::pattern_kind::PatternKind;

pub(super) use any::NOT_DOWNLOADED;

/// The form of a message, and what follows from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    pub(super) kind: PatternKind,
    /// Template of one line of the message.
    pub(super) message: &'static str,
    /// Template of the suggestion, with the holes of `message` and `{install}`; empty where nothing certain follows.
    pub(super) suggestion: &'static str,
    /// Whether only a compiler or collector says this. A test may print the same words for any reason.
    pub(super) is_build_only: bool,
}

impl Pattern {
    const fn new(kind: PatternKind, message: &'static str, suggestion: &'static str) -> Pattern {
        Pattern { kind, message, suggestion, is_build_only: false }
    }

    /// A pattern of what a compiler or collector says about a file that it rejects.
    const fn build(kind: PatternKind, message: &'static str, suggestion: &'static str) -> Pattern {
        Pattern { is_build_only: true, ..Pattern::new(kind, message, suggestion) }
    }
}

/// A language whose messages have their own patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Go,
    Python,
    JavaScript,
    Rust,
    Jvm,
    Ruby,
    Php,
    Cpp,
    Other,
}

impl Language {
    /// The language of a framework's tests.
    pub(super) fn of_framework(framework: &str) -> Language {
        match framework {
            "go" => Language::Go,
            "pytest" | "unittest" => Language::Python,
            "jest" | "mocha" | "node" | "vitest" | "playwright" | "cypress" | "script" => Language::JavaScript,
            "cargo" | "nextest" => Language::Rust,
            "maven" | "gradle" => Language::Jvm,
            "rspec" => Language::Ruby,
            "phpunit" => Language::Php,
            "ctest" => Language::Cpp,
            _ => Language::Other,
        }
    }

    /// The patterns of proctor's own messages, of the language, and of all languages.
    pub(super) fn patterns(self) -> impl Iterator<Item = &'static Pattern> {
        let own = match self {
            Language::Go => go::TABLE,
            Language::Python => python::TABLE,
            Language::JavaScript => javascript::TABLE,
            Language::Rust => rust::TABLE,
            Language::Jvm => jvm::TABLE,
            Language::Ruby => ruby::TABLE,
            Language::Php => php::TABLE,
            Language::Cpp => cpp::TABLE,
            Language::Other => &[],
        };
        proctor::TABLE.iter().chain(own).chain(any::TABLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const LANGUAGES: [Language; 9] = [
        Language::Go,
        Language::Python,
        Language::JavaScript,
        Language::Rust,
        Language::Jvm,
        Language::Ruby,
        Language::Php,
        Language::Cpp,
        Language::Other,
    ];

    fn holes(template: &str) -> BTreeSet<&str> {
        template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
    }

    #[test]
    fn a_suggestion_has_no_hole_that_its_message_lacks() {
        for pattern in LANGUAGES.into_iter().flat_map(Language::patterns) {
            let mut known = holes(pattern.message);
            if known.contains("module") {
                known.insert("install");
            }
            let of_suggestion = holes(pattern.suggestion);
            assert!(of_suggestion.is_subset(&known), "{}: {of_suggestion:?}", pattern.message);
        }
    }

    #[test]
    fn no_template_stands_twice_in_a_table() {
        for language in LANGUAGES {
            let mut seen = BTreeSet::new();
            for pattern in language.patterns() {
                let row = (pattern.message, pattern.is_build_only);
                assert!(seen.insert(row), "{language:?}: {}", pattern.message);
            }
        }
    }
}

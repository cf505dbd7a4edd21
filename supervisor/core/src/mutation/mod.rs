//! Mutants: single-line changes of a source text that a good test notices. Pure: a text goes in, changes come out.
//!
//! `tokens` splits the text, so that no string and no comment is changed; `operators` has the changes; `choice` picks some of
//! many evenly. A mutant may be no valid program: the run of its tests shows that.

mod choice;
mod operators;
#[cfg(test)]
mod tests;
mod tokens;

pub use choice::choose;
pub use operators::Operator;

use crate::untested::SourceLanguage;
use std::ops::Range;

/// Languages whose sources can be mutated: those with lines by test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// Go.
    Go,
    /// Python.
    Python,
    /// JavaScript.
    JavaScript,
    /// TypeScript.
    TypeScript,
}

/// The languages by extension.
const EXTENSIONS: [(&str, Language); 10] = [
    ("go", Language::Go),
    ("py", Language::Python),
    ("js", Language::JavaScript),
    ("cjs", Language::JavaScript),
    ("mjs", Language::JavaScript),
    ("jsx", Language::JavaScript),
    ("ts", Language::TypeScript),
    ("cts", Language::TypeScript),
    ("mts", Language::TypeScript),
    ("tsx", Language::TypeScript),
];

impl Language {
    /// The language of the product's source at `path`; `None` for tests, and for files that are no source.
    #[must_use]
    pub fn of_product(path: &str) -> Option<Language> {
        SourceLanguage::of_path(path).filter(|language| language.is_product(path))?;
        let (_, extension) = path.rsplit_once('.')?;
        EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, language)| *language)
    }

    /// Whether it is JavaScript or TypeScript.
    fn is_script(self) -> bool {
        matches!(self, Language::JavaScript | Language::TypeScript)
    }
}

/// A change of one line of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The changed line, from 1.
    pub line: u32,
    /// What kind of change it is.
    pub operator: Operator,
    /// Bytes of the text that are replaced, within the line.
    pub range: Range<usize>,
    /// What stands there instead, without a line break.
    pub replacement: String,
}

impl Mutant {
    /// The text with this change.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        let (before, after) = (text.get(..self.range.start), text.get(self.range.end..));
        [before.unwrap_or(text), &self.replacement, after.unwrap_or_default()].concat()
    }

    /// The line before and after the change, without its indentation.
    #[must_use]
    pub fn lines(&self, text: &str) -> (String, String) {
        let start = text[..self.range.start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[self.range.end..].find('\n').map_or(text.len(), |at| self.range.end + at);
        let before = text[start..end].trim().to_owned();
        let after = [&text[start..self.range.start], &self.replacement, &text[self.range.end..end]].concat();
        (before, after.trim().to_owned())
    }
}

/// Longest line of a text that has mutants, in bytes: longer ones are generated.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// Every mutant of a text, by line and place.
#[must_use]
pub fn mutants(language: Language, text: &str) -> Vec<Mutant> {
    if text.lines().any(|line| line.len() > LINE_BYTES_MAX) {
        return Vec::new();
    }
    let tokens = tokens::tokens(language, text);
    let mut found = operators::mutants(language, text, &tokens);
    found.retain(|mutant| {
        !text[mutant.range.clone()].contains('\n') && text[mutant.range.clone()] != mutant.replacement
    });
    found.sort_by_key(|mutant| (mutant.range.start, mutant.range.end, mutant.operator));
    found.dedup_by(|a, b| a.range == b.range && a.replacement == b.replacement);
    found
}

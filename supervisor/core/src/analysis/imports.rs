//! Whether a source file names another file of the project in an import. Lines are read as text, not parsed: what begins like an import
//! of the language is one. Where the import names a directory before the file, it has to be the file's own; a name that stands alone is
//! possibly that of another file.

use super::changes::TestSource;

/// Most lines of a file that are looked at. Imports stand at its beginning, but those of Rust's modules and of Ruby may not.
const LINES_MAX: usize = 2_000;

/// Words that begin an import, by the extensions of the languages.
const IMPORTS: [(&[&str], &[&str]); 8] = [
    (&["py", "pyi"], &["import ", "from "]),
    (
        &["js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx", "vue", "svelte"],
        &["import ", "export ", "require(", "} from "],
    ),
    (&["go"], &["import ", "\""]),
    (&["rs"], &["use ", "mod ", "pub use ", "pub mod "]),
    (&["java", "kt", "kts", "groovy", "scala"], &["import "]),
    (&["rb", "rake"], &["require ", "require_relative ", "load ", "autoload "]),
    (
        &["php", "phtml"],
        &["use ", "require ", "require_once ", "include ", "include_once ", "require_once(", "require("],
    ),
    (&["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "m", "mm"], &["#include "]),
];

/// Words before a name that say no directory of the file: relative imports, and the roots of aliases.
const RELATIVE: [&str; 4] = ["", "crate", "self", "super"];

/// Directories of sources, which imports need not name: a file below them is named by its package or by the project's own name.
const SOURCE_ROOTS: [&str; 10] = ["src", "lib", "app", "main", "java", "kotlin", "python", "test", "tests", "include"];

/// Names of files that stand for their directory.
const OF_DIRECTORY: [&str; 4] = ["__init__", "index", "mod", "lib"];

/// The imports of one source file.
pub(super) struct Imports<'a> {
    path: &'a str,
    /// Of the files that it may import.
    extensions: &'static [&'static str],
    lines: Vec<&'a str>,
}

impl<'a> Imports<'a> {
    /// The imports of `source`; `None` if its language is not known.
    pub(super) fn of(source: &'a TestSource) -> Option<Imports<'a>> {
        let own = extension(&source.path)?;
        let (extensions, words) = IMPORTS.iter().find(|(extensions, _)| extensions.contains(&own))?;
        let lines = source.text.lines().take(LINES_MAX).map(str::trim_start);
        Some(Imports { path: &source.path, extensions, lines: lines.filter(|line| is_import(line, words)).collect() })
    }

    /// Whether one of them names the file at `path`, which is another one.
    pub(super) fn name(&self, path: &str) -> bool {
        let extension = extension(path).filter(|extension| self.path != path && self.extensions.contains(extension));
        let module = extension.and_then(|extension| ModuleName::new(path, extension));
        module.is_some_and(|module| self.lines.iter().any(|line| module.is_in(line)))
    }
}

fn extension(path: &str) -> Option<&str> {
    path.rsplit('/').next()?.rsplit_once('.').map(|(_, extension)| extension)
}

/// The words by which imports name a file.
struct ModuleName<'a> {
    /// Its name without extension, or that of its directory.
    name: &'a str,
    /// The directory that has it, if imports have to name it where they name any.
    parent: Option<&'a str>,
}

impl<'a> ModuleName<'a> {
    fn new(path: &'a str, extension: &str) -> Option<ModuleName<'a>> {
        let mut parts = path.rsplit('/');
        let stem = parts.next()?.strip_suffix(extension)?.strip_suffix('.')?;
        let is_of_directory = extension == "go" || OF_DIRECTORY.contains(&stem);
        let name = if is_of_directory { parts.next() } else { Some(stem) }.filter(|name| !name.is_empty())?;
        Some(ModuleName { name, parent: parts.next().filter(|parent| !SOURCE_ROOTS.contains(parent)) })
    }

    fn is_in(&self, line: &str) -> bool {
        words(line, self.name).any(|at| match (self.parent, segment_before(line, at)) {
            (Some(parent), Some(before)) => RELATIVE.contains(&before) || before.eq_ignore_ascii_case(parent),
            _ => true,
        })
    }
}

// The segment of a path or of a qualified name before the word at `at`; `None` if the word stands alone.
fn segment_before(line: &str, at: usize) -> Option<&str> {
    let is_separator = |c: char| matches!(c, '/' | '.' | ':' | '\\');
    let before = match line.strip_prefix("from ").and_then(|after| after.split_once(" import ")) {
        Some((package, _)) if at >= "from ".len() + package.len() => package.trim(),
        _ => line[..at].strip_suffix(is_separator)?,
    };
    let before = before.trim_end_matches(':');
    before.rsplit(|c: char| !is_part(c)).next()
}

fn is_import(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        line.starts_with(word)
            || (word.ends_with('(') && line.contains(word))
            || (word.starts_with('}') && line.contains(word))
    })
}

// Where `word` stands in `line` as a whole word.
fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + use<'a> {
    line.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !line[..*at].chars().next_back().is_some_and(is_part)
            && !line[at + word.len()..].chars().next().is_some_and(is_part)
    })
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_names_a_file_in_the_words_of_its_language() {
        for (test, text, path, is_named) in [
            ("test_a.py", "from shop.client import get", "shop/client.py", true),
            ("test_a.py", "import shop", "shop/__init__.py", true),
            ("test_a.py", "# the client is imported elsewhere", "shop/client.py", false),
            ("test_a.py", "from shop.clients import get", "shop/client.py", false),
            ("test_a.py", "from cart.client import get", "shop/client.py", false),
            ("test_a.py", "from cart import client", "shop/client.py", false),
            ("test_a.py", "from shop import client", "shop/client.py", true),
            ("test_a.py", "from . import client", "shop/client.py", true),
            ("test_a.py", "from .client import get", "shop/client.py", true),
            ("test_a.py", "import client", "shop/client.py", true),
            ("a.test.ts", "import { a } from './shop/price';", "shop/price.ts", true),
            ("a.test.ts", "import { a } from './cart/price';", "shop/price.ts", false),
            ("a.test.ts", "import { a } from './price';", "shop/price.ts", true),
            ("a_test.go", "\t\"example.com/shop/cart/core\"", "shop/core/price.go", false),
            ("tests/a.rs", "use shop::cart::price::Price;", "src/shop/price.rs", false),
            ("ATest.java", "import cart.Price;", "src/main/java/shop/Price.java", false),
            ("a.test.js", "const a = require('../setup');", "setup.js", true),
            ("a_test.go", "\t\"example.com/shop/core\"", "core/price.go", true),
            ("a_test.go", "\t\"example.com/shop/core\"", "cart/price.go", false),
            ("tests/a.rs", "mod common;", "tests/common/mod.rs", true),
            ("tests/a.rs", "use shop::price::Price;", "src/price.rs", true),
            ("ATest.java", "import shop.Price;", "src/main/java/shop/Price.java", true),
            ("a_spec.rb", "require_relative \"../lib/price\"", "lib/price.rb", true),
            ("ATest.php", "require_once __DIR__ . '/../src/Price.php';", "src/Price.php", true),
            ("a_test.cpp", "#include \"price.h\"", "src/price.h", true),
            ("test_a.py", "import shop", "shop.go", false),
            ("README", "import shop", "shop.py", false),
        ] {
            let source = TestSource { path: test.to_owned(), text: text.to_owned() };
            assert_eq!(
                Imports::of(&source).is_some_and(|imports| imports.name(path)),
                is_named,
                "{test}: {text}: {path}"
            );
        }
    }
}

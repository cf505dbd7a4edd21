//! The languages whose lines are measured, and which of their files belong to the product.

use super::rust_source::declared_function;
use crate::selection::{Ecosystem, FileKind};

/// A language whose runs measure lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceLanguage {
    /// Go.
    Go,
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
    /// Rust.
    Rust,
}

/// Words in the paths of files that only tests use.
const TEST_WORDS: [&str; 13] = [
    "test", "tests", "testing", "spec", "specs", "conftest", "fixture", "fixtures", "mock", "mocks", "testdata", "e2e",
    "cypress",
];

/// How lines begin that are code in JavaScript, as opposed to types and imports.
const JAVASCRIPT_CODE: [&str; 18] = [
    "const ",
    "let ",
    "var ",
    "function ",
    "async ",
    "class ",
    "export const ",
    "export let ",
    "export function ",
    "export async ",
    "export class ",
    "export default ",
    "return",
    "if ",
    "if(",
    "throw ",
    "module.exports",
    "exports.",
];

impl SourceLanguage {
    /// The languages of a run of these frameworks, `go` or `go, jest`.
    #[must_use]
    pub fn of_frameworks(frameworks: &str) -> Vec<SourceLanguage> {
        let of_one = |name: &str| match name {
            "go" => Some(SourceLanguage::Go),
            "pytest" | "unittest" => Some(SourceLanguage::Python),
            "jest" | "mocha" | "node" | "vitest" => Some(SourceLanguage::JavaScript),
            "cargo" | "nextest" => Some(SourceLanguage::Rust),
            _ => None,
        };
        frameworks.split(", ").filter_map(of_one).collect()
    }

    /// The language of the source at `path`, by its name.
    #[must_use]
    pub fn of_path(path: &str) -> Option<SourceLanguage> {
        match Ecosystem::of_source(path) {
            Some(Ecosystem::Go) => Some(SourceLanguage::Go),
            Some(Ecosystem::Python) => Some(SourceLanguage::Python),
            Some(Ecosystem::JavaScript) if !path.ends_with(".svelte") => Some(SourceLanguage::JavaScript),
            Some(Ecosystem::Rust) => Some(SourceLanguage::Rust),
            Some(Ecosystem::JavaScript) | None => None,
        }
    }

    /// Whether the file at `path` is a source of the product in this language: no test, no set-up of tests, no settings.
    #[must_use]
    pub fn is_product(self, path: &str) -> bool {
        let is_product = match self {
            SourceLanguage::Go => FileKind::of(Ecosystem::Go, path) == FileKind::Source,
            SourceLanguage::Python => FileKind::of(Ecosystem::Python, path) == FileKind::Source,
            SourceLanguage::JavaScript => {
                let name = path.rsplit('/').next().unwrap_or(path);
                !name.starts_with('.') && ![".d.ts", ".d.cts", ".d.mts"].iter().any(|end| name.ends_with(end)) && {
                    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
                    !stem.ends_with(".config") && !stem.ends_with(".setup") && !["setup", "setupTests"].contains(&stem)
                }
            }
            SourceLanguage::Rust => {
                !path.split('/').any(|part| ["benches", "build.rs", "examples", "target", "vendor"].contains(&part))
            }
        };
        let words = path.split(['/', '.', '_', '-']);
        SourceLanguage::of_path(path) == Some(self)
            && is_product
            && !words.into_iter().any(|word| TEST_WORDS.contains(&word.to_ascii_lowercase().as_str()))
    }

    /// Whether a source has code of its own, and not only types or imports of other files.
    pub(super) fn has_code(self, source: &str) -> bool {
        let mut lines = source.lines().map(str::trim_start);
        match self {
            SourceLanguage::Go => lines.any(|line| line.starts_with("func ") || line.contains("func(")),
            SourceLanguage::Python => true,
            SourceLanguage::JavaScript => lines.any(|line| JAVASCRIPT_CODE.iter().any(|begin| line.starts_with(begin))),
            // What a macro declares is executed where the macro is used.
            SourceLanguage::Rust => {
                !source.contains("macro_rules!") && lines.any(|line| declared_function(line).is_some())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_sources_of_the_product() {
        let of = |path: &str| {
            let language = SourceLanguage::of_path(path)?;
            language.is_product(path).then_some(language)
        };
        for (path, language) in [
            ("shop/cart.py", Some(SourceLanguage::Python)),
            ("shop/config.py", Some(SourceLanguage::Python)),
            ("latest/contest.py", Some(SourceLanguage::Python)),
            ("shop/test_cart.py", None),
            ("tests/helper.py", None),
            ("conftest.py", None),
            ("setup.py", None),
            ("a/cart.go", Some(SourceLanguage::Go)),
            ("a/cart_test.go", None),
            ("vendor/x/x.go", None),
            ("src/Cart.tsx", Some(SourceLanguage::JavaScript)),
            ("src/Cart.test.tsx", None),
            ("src/__mocks__/fs.js", None),
            ("src/types.d.ts", None),
            ("jest.config.js", None),
            ("setup.ts", None),
            (".eslintrc.cjs", None),
            ("notes.md", None),
            ("src/cart.rs", Some(SourceLanguage::Rust)),
            ("crates/a/src/bin/shop.rs", Some(SourceLanguage::Rust)),
            ("src/cart/tests.rs", None),
            ("tests/shop.rs", None),
            ("benches/shop.rs", None),
            ("examples/shop.rs", None),
            ("build.rs", None),
        ] {
            assert_eq!(of(path), language, "{path}");
        }
        let three = [SourceLanguage::Go, SourceLanguage::Rust, SourceLanguage::JavaScript];
        assert_eq!(SourceLanguage::of_frameworks("go, cargo, ctest, vitest"), three);
    }

    #[test]
    fn tells_code_from_types() {
        let has_code = |language: SourceLanguage, source: &str| language.has_code(source);
        assert!(!has_code(SourceLanguage::JavaScript, "import { A } from './a';\nexport interface B {\n  a: A;\n}\n"));
        assert!(has_code(SourceLanguage::JavaScript, "export function a() {\n  return 1;\n}\n"));
        assert!(!has_code(SourceLanguage::Rust, "pub struct A {\n    pub fn_name: u8,\n}\npub use b::C;\n"));
        assert!(!has_code(SourceLanguage::Rust, "macro_rules! a {\n    () => {\n        fn b() {}\n    };\n}\n"));
        assert!(has_code(SourceLanguage::Rust, "impl A {\n    pub(crate) const fn b<T>() {}\n}\n"));
        assert!(!has_code(SourceLanguage::Go, "package a\n\ntype A struct{}\n"));
        assert!(has_code(SourceLanguage::Go, "package a\n\nfunc A() {}\n"));
    }
}

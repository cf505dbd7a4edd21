//! Names of test binaries: nextest's form, which both runners share here. `crate` for a library's own tests, `crate::it` for
//! `tests/it.rs`, `crate::bin/x`, `crate::example/x`, `crate::bench/x`; and `crate::doc/lib` for doctests, which no such
//! name can be. A test's node id is `crate::it$path::of::test`. Must not know where names come from.

/// The tests of one target of a package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binary {
    /// The library's unit tests, also those of a procedural macro.
    Lib,
    /// A program's unit tests.
    Bin(String),
    /// A file below `tests`.
    Test(String),
    /// A file below `examples`.
    Example(String),
    /// A file below `benches`.
    Bench(String),
    /// The examples in the library's documentation.
    Doctests,
}

/// What comes between an item's name and its line in a doctest's name.
pub(super) const DOCTEST_LINE: &str = " (line ";

impl Binary {
    /// From Cargo's kind of target and its name.
    pub(super) fn of(kind: &str, name: &str) -> Binary {
        match kind {
            "bin" => Binary::Bin(name.to_owned()),
            "test" => Binary::Test(name.to_owned()),
            "example" => Binary::Example(name.to_owned()),
            "bench" => Binary::Bench(name.to_owned()),
            _ => Binary::Lib,
        }
    }

    /// Package and binary of a name, or none if nothing has such a name.
    pub(super) fn parse(id: &str) -> Option<(&str, Binary)> {
        let Some((package, binary)) = id.split_once("::") else { return Some((id, Binary::Lib)) };
        let binary = match binary.split_once('/') {
            None => Binary::Test(binary.to_owned()),
            Some(("doc", "lib")) => Binary::Doctests,
            Some((kind @ ("bin" | "example" | "bench"), name)) => Binary::of(kind, name),
            Some(_) => return None,
        };
        Some((package, binary))
    }

    /// The name of this binary of `package`.
    pub(super) fn id(&self, package: &str) -> String {
        match self {
            Binary::Lib => package.to_owned(),
            Binary::Test(name) => format!("{package}::{name}"),
            Binary::Bin(name) => format!("{package}::bin/{name}"),
            Binary::Example(name) => format!("{package}::example/{name}"),
            Binary::Bench(name) => format!("{package}::bench/{name}"),
            Binary::Doctests => format!("{package}::doc/lib"),
        }
    }

    /// Cargo's option that chooses it, in one token.
    pub(super) fn option(&self) -> String {
        match self {
            Binary::Lib => "--lib".to_owned(),
            Binary::Bin(name) => format!("--bin={name}"),
            Binary::Test(name) => format!("--test={name}"),
            Binary::Example(name) => format!("--example={name}"),
            Binary::Bench(name) => format!("--bench={name}"),
            Binary::Doctests => "--doc".to_owned(),
        }
    }
}

/// The node id of a test.
pub(super) fn node_id(binary: &str, test: &str) -> String {
    format!("{binary}${test}")
}

/// The package in Cargo's identifier of it: since 1.77 a URL, before that words.
pub(super) fn package_of(package_id: &str) -> &str {
    let Some((url, rest)) = package_id.rsplit_once('#') else {
        return package_id.split(' ').next().unwrap_or_default();
    };
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => url.rsplit('/').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_the_one_that_its_name_says() {
        for (kind, name, id) in [
            ("lib", "x", "p"),
            ("proc-macro", "x", "p"),
            ("test", "it", "p::it"),
            ("bin", "x", "p::bin/x"),
            ("example", "x", "p::example/x"),
            ("bench", "x", "p::bench/x"),
        ] {
            let binary = Binary::of(kind, name);
            assert_eq!(binary.id("p"), id);
            assert_eq!(Binary::parse(id), Some(("p", binary)));
        }
        assert_eq!(Binary::parse(&Binary::Doctests.id("p")), Some(("p", Binary::Doctests)));
        assert_eq!(Binary::parse("p::what/x"), None);
    }

    #[test]
    fn a_package_is_read_out_of_every_form_of_identifier() {
        for (id, name) in [
            ("path+file:///ws/t#0.1.0", "t"),
            ("path+file:///ws/crates/a#a-b@0.1.0", "a-b"),
            ("registry+https://example.invalid/index#itoa@1.0.0", "itoa"),
            ("t 0.1.0 (path+file:///ws/t)", "t"),
        ] {
            assert_eq!(package_of(id), name);
        }
    }
}

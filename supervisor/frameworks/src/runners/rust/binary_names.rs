//! NameSelection of test binaries, in nextest's form for both runners: `crate` for a library's own tests, `crate::it` for
//! `tests/it.rs`, `crate::bin/x`, `crate::example/x`, `crate::bench/x`; and `crate::doc/lib` for doctests, a form that no
//! other name can have. A test's node id is `crate::it$path::of::test`.

/// A test binary of a package.
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

/// Separates an item's name from its line in a doctest's name.
pub(super) const DOCTEST_LINE: &str = " (line ";

impl Binary {
    /// From Cargo's target kind and name.
    pub(super) fn from_target(kind: &str, name: &str) -> Binary {
        match kind {
            "bin" => Binary::Bin(name.to_owned()),
            "test" => Binary::Test(name.to_owned()),
            "example" => Binary::Example(name.to_owned()),
            "bench" => Binary::Bench(name.to_owned()),
            _ => Binary::Lib,
        }
    }

    /// Parses package and binary from a name; `None` for any other text.
    pub(super) fn parse(id: &str) -> Option<(&str, Binary)> {
        let Some((package, binary)) = id.split_once("::") else { return Some((id, Binary::Lib)) };
        let binary = match binary.split_once('/') {
            None => Binary::Test(binary.to_owned()),
            Some(("doc", "lib")) => Binary::Doctests,
            Some((kind @ ("bin" | "example" | "bench"), name)) => Binary::from_target(kind, name),
            Some(_) => return None,
        };
        Some((package, binary))
    }

    /// The name of this binary in `package`.
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

    /// Cargo's option that selects it, in one token.
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

/// Separates binary and test in a node id.
pub(super) const NODE_ID_SEPARATOR: &str = "$";

/// The node id of a test.
pub(super) fn node_id(binary: &str, test: &str) -> String {
    format!("{binary}{NODE_ID_SEPARATOR}{test}")
}

/// The package name in Cargo's package ID: a URL since 1.77, words before.
pub(super) fn package_name(package_id: &str) -> &str {
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
    fn a_binary_round_trips_through_its_name() {
        for (kind, name, id) in [
            ("lib", "x", "p"),
            ("proc-macro", "x", "p"),
            ("test", "it", "p::it"),
            ("bin", "x", "p::bin/x"),
            ("example", "x", "p::example/x"),
            ("bench", "x", "p::bench/x"),
        ] {
            let binary = Binary::from_target(kind, name);
            assert_eq!(binary.id("p"), id);
            assert_eq!(Binary::parse(id), Some(("p", binary)));
        }
        assert_eq!(Binary::parse(&Binary::Doctests.id("p")), Some(("p", Binary::Doctests)));
        assert_eq!(Binary::parse("p::what/x"), None);
    }

    #[test]
    fn reads_the_package_from_every_form_of_package_id() {
        for (id, name) in [
            ("path+file:///ws/t#0.1.0", "t"),
            ("path+file:///ws/crates/a#a-b@0.1.0", "a-b"),
            ("registry+https://example.invalid/index#itoa@1.0.0", "itoa"),
            ("t 0.1.0 (path+file:///ws/t)", "t"),
        ] {
            assert_eq!(package_name(id), name);
        }
    }
}

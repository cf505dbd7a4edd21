//! The name of a test as a request gives it: verbatim from a listing or a report.

use crate::bounds::{REQUEST_TEST_BYTES_MAX, REQUEST_TESTS_BYTES_MAX, REQUEST_TESTS_MAX};
use thiserror::Error;

/// A name that passed the guard: a test's node id, or its name within its package.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct TestName(String);

impl TestName {
    /// Parses the names of a request, sorted and without duplicates: their order has no meaning. Names are not trimmed,
    /// as a blank may be part of one.
    pub fn parse_all(names: &[String]) -> Result<Vec<TestName>, TestNameError> {
        if names.len() > REQUEST_TESTS_MAX {
            return Err(TestNameError::TooMany { names: names.len() });
        }
        let mut parsed = names.iter().map(|name| TestName::parse(name)).collect::<Result<Vec<_>, _>>()?;
        parsed.sort_unstable();
        parsed.dedup();
        let bytes = parsed.iter().map(|name| name.0.len()).sum();
        if bytes > REQUEST_TESTS_BYTES_MAX {
            return Err(TestNameError::TooManyBytes { bytes });
        }
        Ok(parsed)
    }

    fn parse(name: &str) -> Result<TestName, TestNameError> {
        if name.trim().is_empty() {
            return Err(TestNameError::Empty);
        }
        if name.len() > REQUEST_TEST_BYTES_MAX {
            return Err(TestNameError::TooLong { bytes: name.len() });
        }
        if name.chars().any(char::is_control) {
            return Err(TestNameError::ControlCharacters);
        }
        Ok(TestName(name.to_owned()))
    }

    /// The name as the request has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why the names of a request are rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TestNameError {
    /// A blank name selects nothing.
    #[error("tests: a name is empty: leave it out, or leave out tests to run all")]
    Empty,
    /// Reported names have none: they are replaced where a runner prints some.
    #[error("tests: a name contains control characters: take names verbatim from a listing or a failure")]
    ControlCharacters,
    /// Longer than any name that is reported.
    #[error("tests: a name has {bytes} bytes, at most {REQUEST_TEST_BYTES_MAX} are accepted: select its file")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// More names than are accepted.
    #[error("tests: {names} names, at most {REQUEST_TESTS_MAX} are accepted: select their files, or run all tests")]
    TooMany {
        /// Number of names.
        names: usize,
    },
    /// More bytes than are accepted.
    #[error(
        "tests: {bytes} bytes together, at most {REQUEST_TESTS_BYTES_MAX} are accepted: select files, or run all tests"
    )]
    TooManyBytes {
        /// Bytes of all names together.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(names: &[&str]) -> Result<Vec<String>, TestNameError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        TestName::parse_all(&names).map(|parsed| parsed.iter().map(|name| name.as_str().to_owned()).collect())
    }

    #[test]
    fn sorts_names_and_keeps_every_printable_character() {
        let nasty = ["test_s[a b]", "adds (a+b)", "-x", "$", "a/../b", "ends in a blank ", "\"q\" 'r' `s`", "größe*"];
        let mut sorted = nasty.map(str::to_owned).to_vec();
        sorted.sort_unstable();
        assert_eq!(parse(&[nasty, nasty].concat()).unwrap(), sorted);
        assert!(parse(&[]).unwrap().is_empty());
    }

    #[test]
    fn rejects_names_that_no_test_can_have_and_lists_beyond_their_bounds() {
        assert_eq!(parse(&["a", " "]), Err(TestNameError::Empty));
        assert_eq!(parse(&["a\nb"]), Err(TestNameError::ControlCharacters));
        assert_eq!(parse(&["a\u{1b}[1m"]), Err(TestNameError::ControlCharacters));
        let longest = "é".repeat(REQUEST_TEST_BYTES_MAX / 2);
        assert!(parse(&[&longest]).is_ok());
        let too_long = format!("{longest}x");
        assert_eq!(parse(&[&too_long]), Err(TestNameError::TooLong { bytes: REQUEST_TEST_BYTES_MAX + 1 }));
        assert_eq!(
            parse(&vec!["a"; REQUEST_TESTS_MAX + 1]),
            Err(TestNameError::TooMany { names: REQUEST_TESTS_MAX + 1 })
        );
        let many: Vec<String> = (10..90).map(|number| format!("{number}{}", &longest[4..])).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(matches!(parse(&many), Err(TestNameError::TooManyBytes { .. })));
    }
}

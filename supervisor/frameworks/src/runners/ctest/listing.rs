//! Reads what `ctest --show-only=json-v1` prints. Must not know what was asked for.

use super::detect::TO_FAIL;
use serde::Deserialize;

/// Longest document that is read, in bytes: about 50,000 tests.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The document as it comes.
#[derive(Debug, Default)]
pub(super) struct Listing {
    bytes: Vec<u8>,
    too_long: bool,
}

#[derive(Debug, Deserialize)]
struct Document {
    tests: Vec<Test>,
}

#[derive(Debug, Deserialize)]
struct Test {
    name: String,
    #[serde(default)]
    properties: Vec<Property>,
}

#[derive(Debug, Deserialize)]
struct Property {
    name: String,
    value: serde_json::Value,
}

impl Listing {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.too_long |= self.bytes.len() + bytes.len() > BYTES_MAX;
        if !self.too_long {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The names of the tests, or what is wrong with the document.
    pub(super) fn names(&self) -> Result<Vec<String>, String> {
        Ok(self.tests()?.into_iter().map(|test| test.name).collect())
    }

    /// The names of the tests that are to fail.
    pub(super) fn to_fail(&self) -> Result<Vec<String>, String> {
        let is_to = |test: &Test| test.properties.iter().any(|one| one.name == TO_FAIL && one.value == true);
        Ok(self.tests()?.into_iter().filter(is_to).map(|test| test.name).collect())
    }

    fn tests(&self) -> Result<Vec<Test>, String> {
        if self.too_long {
            return Err(format!("the list of tests has more than {BYTES_MAX} bytes"));
        }
        let document: Document = serde_json::from_slice(&self.bytes)
            .map_err(|error| format!("the list of tests cannot be read: {error}"))?;
        Ok(document.tests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(document: &str) -> Result<Vec<String>, String> {
        let mut listing = Listing::default();
        document.as_bytes().chunks(7).for_each(|chunk| listing.add(chunk));
        listing.names()
    }

    #[test]
    fn tests_that_are_to_fail_are_known() {
        let mut listing = Listing::default();
        listing.add(
            br#"{"tests":[{"name":"a","properties":[{"name":"WILL_FAIL","value":true}]},{"name":"b","properties":
            [{"name":"WORKING_DIRECTORY","value":"/x"},{"name":"WILL_FAIL","value":false}]},{"name":"c"}]}"#,
        );
        assert_eq!(listing.to_fail(), Ok(vec!["a".to_owned()]));
    }

    #[test]
    fn names_are_read_and_anything_else_is_an_error() {
        let document = r#"{"kind":"ctestInfo","tests":[{"backtrace":1,"name":"a b","properties":[]},{"name":"c"}]}"#;
        assert_eq!(names(document), Ok(vec!["a b".to_owned(), "c".to_owned()]));
        for broken in ["", "{}", "[]", &document[..document.len() - 1]] {
            assert!(names(broken).unwrap_err().starts_with("the list of tests cannot be read"), "{broken}");
        }
        let mut listing = Listing::default();
        (0..65).for_each(|_| listing.add(&[b'x'; 1024 * 1024]));
        assert!(listing.names().unwrap_err().contains("more than"));
    }
}

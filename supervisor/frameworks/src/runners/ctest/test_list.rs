//! Reads the JSON that `ctest --show-only=json-v1` prints.

use super::detect::WILL_FAIL;
use serde::Deserialize;

/// Largest document that is read, in bytes: about 50,000 tests.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Collects the document and parses it.
#[derive(Debug, Default)]
pub(super) struct TestList {
    bytes: Vec<u8>,
    too_long: bool,
}

#[derive(Debug, Deserialize)]
struct Document {
    tests: Vec<ListedTest>,
}

#[derive(Debug, Deserialize)]
struct ListedTest {
    name: String,
    #[serde(default)]
    properties: Vec<Property>,
}

#[derive(Debug, Deserialize)]
struct Property {
    name: String,
    value: serde_json::Value,
}

impl TestList {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.too_long |= self.bytes.len() + bytes.len() > BYTES_MAX;
        if !self.too_long {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The names of the tests, or why the document cannot be read.
    pub(super) fn names(&self) -> Result<Vec<String>, String> {
        Ok(self.tests()?.into_iter().map(|test| test.name).collect())
    }

    /// The names of the tests with `WILL_FAIL`.
    pub(super) fn will_fail_names(&self) -> Result<Vec<String>, String> {
        let has_property =
            |test: &ListedTest| test.properties.iter().any(|one| one.name == WILL_FAIL && one.value == true);
        Ok(self.tests()?.into_iter().filter(has_property).map(|test| test.name).collect())
    }

    fn tests(&self) -> Result<Vec<ListedTest>, String> {
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
        let mut listing = TestList::default();
        document.as_bytes().chunks(7).for_each(|chunk| listing.add(chunk));
        listing.names()
    }

    #[test]
    fn reads_the_tests_with_will_fail() {
        let mut listing = TestList::default();
        listing.add(
            br#"{"tests":[{"name":"a","properties":[{"name":"WILL_FAIL","value":true}]},{"name":"b","properties":
            [{"name":"WORKING_DIRECTORY","value":"/x"},{"name":"WILL_FAIL","value":false}]},{"name":"c"}]}"#,
        );
        assert_eq!(listing.will_fail_names(), Ok(vec!["a".to_owned()]));
    }

    #[test]
    fn reads_names_and_rejects_anything_else() {
        let document = r#"{"kind":"ctestInfo","tests":[{"backtrace":1,"name":"a b","properties":[]},{"name":"c"}]}"#;
        assert_eq!(names(document), Ok(vec!["a b".to_owned(), "c".to_owned()]));
        for broken in ["", "{}", "[]", &document[..document.len() - 1]] {
            assert!(names(broken).unwrap_err().starts_with("the list of tests cannot be read"), "{broken}");
        }
        let mut listing = TestList::default();
        (0..65).for_each(|_| listing.add(&[b'x'; 1024 * 1024]));
        assert!(listing.names().unwrap_err().contains("more than"));
    }
}

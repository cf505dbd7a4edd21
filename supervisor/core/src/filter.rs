//! The filter guard: rejects a test filter that could be read as an option or a path, before any process starts.

pub use crate::bounds::FILTER_CHARS_MAX;
use thiserror::Error;

/// A filter that passed the guard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Filter(String);

impl Filter {
    /// Parses `text`; an empty one means no filter.
    pub fn parse(text: &str) -> Result<Option<Filter>, FilterError> {
        let chars = text.chars().count();
        if text.is_empty() {
            return Ok(None);
        }
        if chars > FILTER_CHARS_MAX {
            return Err(FilterError::TooLong { chars });
        }
        if text.starts_with('-') {
            return Err(FilterError::LooksLikeOption);
        }
        if text.contains("..") {
            return Err(FilterError::ParentPath);
        }
        if text.chars().any(char::is_control) {
            return Err(FilterError::ControlCharacters);
        }
        Ok(Some(Filter(text.to_owned())))
    }

    /// A filter that proctor wrote itself, so that the guard of a caller's text does not apply.
    #[must_use]
    pub fn from_expression(expression: String) -> Filter {
        Filter(expression)
    }

    /// The filter as passed to the runner.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a filter is rejected. The texts are part of the contract with agents.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FilterError {
    /// A leading dash would become an option of the runner.
    #[error("filter cannot start with '-' (looks like a CLI option, not a test name)")]
    LooksLikeOption,
    /// A filter is not a path; some runners turn it into a glob.
    #[error("filter cannot contain '..'")]
    ParentPath,
    /// Newlines and escape characters have no place in a test name.
    #[error("filter contains control characters")]
    ControlCharacters,
    /// Longer than any test name that a person would type.
    #[error("filter too long ({chars} > {FILTER_CHARS_MAX} chars)")]
    TooLong {
        /// Its length in characters.
        chars: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_filters_with_the_contract_texts() {
        let text = |filter: &str| Filter::parse(filter).unwrap_err().to_string();
        assert_eq!(text("-exec=sh"), "filter cannot start with '-' (looks like a CLI option, not a test name)");
        assert_eq!(text("a/../b"), "filter cannot contain '..'");
        assert_eq!(text("a\nb"), "filter contains control characters");
        assert_eq!(text(&"é".repeat(201)), "filter too long (201 > 200 chars)");
        assert!(Filter::parse(&"é".repeat(200)).is_ok());
        assert_eq!(Filter::parse("").unwrap(), None);
        assert_eq!(Filter::parse("TestA|TestB/x y").unwrap().unwrap().as_str(), "TestA|TestB/x y");
    }
}

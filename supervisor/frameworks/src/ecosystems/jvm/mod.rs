//! What the JVM runners share: source files of classes and stack frames, and test cases from JUnit XML.

mod junit_case;
mod source_index;
mod test_names;

pub(crate) use junit_case::{CaseNamer, class_id, test_id};
pub(crate) use source_index::{EXTENSIONS, SourceIndex};
pub(crate) use test_names::{class_from_path, method_identifier, split};

//! What the runners of the Java world share: where a class and a line of a stack are in the workspace, and what JUnit XML
//! says in their words. Must not know any build tool.

mod junit_case;
mod source_index;
mod test_names;

pub(crate) use junit_case::{CaseNamer, class_id, test_id};
pub(crate) use source_index::{EXTENSIONS, SourceIndex};
pub(crate) use test_names::{class_from_path, method_identifier, split};

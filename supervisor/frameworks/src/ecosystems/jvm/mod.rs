//! What the JVM runners share: source files of classes and stack frames, test cases from JUnit XML, and the stacks of hung tests.

mod junit_case;
mod source_index;
mod stacks;
mod test_names;
mod toolchain;

pub(crate) use junit_case::{CaseNamer, class_id, test_id};
pub(crate) use source_index::{EXTENSIONS, SourceIndex};
pub(crate) use stacks::STACK_DUMP;
pub(crate) use test_names::{class_from_path, is_class_failure, locate_names, method_identifier, split};
pub(crate) use toolchain::JVM;

use crate::contract::RerunNames;

/// How names of the JVM's tests relate to each other.
pub(crate) const RERUN_NAMES: RerunNames =
    RerunNames { is_reported_only_on_failure: is_class_failure, ..RerunNames::PLAIN };

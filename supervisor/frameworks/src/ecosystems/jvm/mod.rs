//! What the runners of the Java world share: where a class and a line of a stack are in the workspace, and what JUnit XML
//! says in their words. Must not know any build tool.

mod case;
mod names;
mod sources;

pub(crate) use case::{Seen, id_of, whole_class};
pub(crate) use names::{class_of, identifier, split};
pub(crate) use sources::{EXTENSIONS, Sources};

//! Code that the runners of one language, or of one kind, share: project files, test selection, source locations.

pub(crate) mod js;
pub(crate) mod jvm;
pub(crate) mod path_selection;
pub(crate) mod python;

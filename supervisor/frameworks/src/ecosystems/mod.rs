//! Code that the runners of one language share: project files, test selection, source locations.

pub(crate) mod js;
pub(crate) mod jvm;
pub(crate) mod python;

//! Building blocks that the parsers of several runners share.

pub(crate) mod assertion_values;
pub(crate) mod bounded_measurements;
pub(crate) mod growing_spans;
pub(crate) mod line_splitter;
pub(crate) mod loaded_sources;
pub(crate) mod notes;
pub(crate) mod output_tail;
pub(crate) mod proof_tracker;
pub(crate) mod running_tests;
pub(crate) mod stack_frames;
pub(crate) mod thread_stacks;
pub(crate) mod workspace_paths;

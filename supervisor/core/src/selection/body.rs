//! Where the body of a function is.

/// First and last line of a body, both counted from 0, with its brackets.
pub(super) type Body = (usize, usize);

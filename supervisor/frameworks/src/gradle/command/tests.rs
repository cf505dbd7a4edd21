//! The exact command lines.

//! Names of doctests, which contain a line that changes with every edit above the doctest.

use crate::contract::RerunNames;

/// How names of Rust's tests relate to each other.
pub(super) const RERUN_NAMES: RerunNames = RerunNames { stable_part: doctest_item, ..RerunNames::PLAIN };

/// End of a doctest's name, with the line number.
const DOCTEST_LINE: &str = " (line ";

/// `src/lib.rs - item`, without the line number behind it.
fn doctest_item(name: &str) -> Option<&str> {
    let (item, _) = name.split_once(DOCTEST_LINE)?;
    let (file, _) = item.rsplit_once(" -")?;
    [".rs", ".md"].iter().any(|extension| file.ends_with(extension)).then_some(item)
}

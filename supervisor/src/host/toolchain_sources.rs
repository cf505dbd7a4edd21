//! Reads the sources of an installed toolchain from which a plan makes changed copies.

use proctor_frameworks::{Toolchain, ToolchainSources};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes of one file. The largest of Go's is about 90,000.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The sources of the installation that `program` is of, which is in a directory of it (`bin/go`). `is_visible` tells what runs
/// see; a program elsewhere has no sources.
#[must_use]
pub fn read_sources(
    toolchain: &Toolchain,
    program: &Path,
    is_visible: impl Fn(&Path) -> bool,
) -> Option<ToolchainSources> {
    let program = program.canonicalize().ok().filter(|program| is_visible(program))?;
    let root = program.parent()?.parent()?;
    let read = |file: &&'static str| Some((*file, text(&root.join(file))?));
    let files = toolchain.sources.iter().filter_map(read).collect();
    Some(ToolchainSources { root: root.to_str()?.to_owned(), files })
}

fn text(path: &Path) -> Option<String> {
    let is_readable = path.metadata().is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX);
    let file = is_readable.then(|| File::open(path).ok()).flatten()?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

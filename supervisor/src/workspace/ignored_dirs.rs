//! What a look at a workspace passes over, because no test of the project is there: what tools fill and nobody edits. Must not
//! know how one looks.

use proctor_frameworks::FRAMEWORKS;
use rustix::fs::{Mode, OFlags, openat};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;

/// Directories that tools fill and nobody edits: looking into them costs much and says nothing about an edit, and a run that
/// fills them must not look like an edit. A name that a project might choose itself is not here.
const BY_NAME: [&str; 8] = [".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".gradle", ".kotlin"];

/// The file by which tools mark a directory as a cache (the Cache Directory Tagging specification). Anybody can put one beside
/// tests, so it hides only what is known to be a cache by its name or its maker's own files too.
const TAG: &CStr = c"CACHEDIR.TAG";

/// What the file has to begin with.
const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Names of directories that are caches where they have the tag.
const CACHES: [&str; 8] =
    ["target", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache"];

/// Files and directories of a cache's maker, whatever the directory with the tag is called: Cargo, Python environments, Meson.
const OF_MAKERS: [&CStr; 3] = [c".rustc_info.json", c"pyvenv.cfg", c"meson-private"];

/// Extensions of data and of what compilers write, which no runner takes for tests, settings or sources. Of a workspace that has
/// masses of it not every such name is kept.
const DATA: [&str; 60] = [
    "a",
    "avi",
    "avif",
    "bin",
    "bmp",
    "bz2",
    "class",
    "csv",
    "d",
    "dat",
    "db",
    "dll",
    "eot",
    "exe",
    "feather",
    "flac",
    "gif",
    "gz",
    "h5",
    "ico",
    "jar",
    "jpeg",
    "jpg",
    "jsonl",
    "lib",
    "log",
    "map",
    "mp3",
    "mp4",
    "npy",
    "npz",
    "o",
    "obj",
    "ogg",
    "onnx",
    "parquet",
    "pdf",
    "pkl",
    "png",
    "pt",
    "pth",
    "pyc",
    "rlib",
    "rmeta",
    "safetensors",
    "so",
    "sqlite",
    "svg",
    "tif",
    "tiff",
    "tsv",
    "ttf",
    "wasm",
    "wav",
    "webm",
    "webp",
    "woff",
    "woff2",
    "xz",
    "zip",
];

/// Whether no look goes into a directory of this name.
pub(super) fn is_by_name(name: &CStr) -> bool {
    BY_NAME.iter().any(|passed| passed.as_bytes() == name.to_bytes())
}

/// Whether the directory `dir`, of this name, is a cache. `has` tells whether an entry of this name is there.
pub(super) fn is_cache(dir: BorrowedFd<'_>, name: &CStr, has: impl Fn(&CStr) -> bool) -> bool {
    let is_known = || CACHES.iter().any(|known| known.as_bytes() == name.to_bytes());
    has(TAG) && (is_known() || OF_MAKERS.iter().any(|file| has(file))) && is_tagged(dir)
}

fn is_tagged(dir: BorrowedFd<'_>) -> bool {
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(tag) = openat(dir, TAG, how, Mode::empty()) else { return false };
    let mut found = [0; SIGNATURE.len()];
    File::from(tag).read_exact(&mut found).is_ok() && found == SIGNATURE
}

/// Whether a file of this name is data.
pub(super) fn is_data(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    let extension = bytes.iter().rposition(|byte| *byte == b'.').map(|dot| &bytes[dot + 1..]);
    extension.is_some_and(|extension| DATA.iter().any(|data| data.as_bytes().eq_ignore_ascii_case(extension)))
}

/// Whether a directory is filled by the tool whose marker stands beside it, in a sorted listing: Maven and Gradle compile into
/// the workspace, and a run that does so must not look like an edit, or the same request would never join it. That tool
/// empties the directory whole when it is told to clean, so nobody keeps there what they edit. Elsewhere the same name is a
/// directory like any other.
pub(super) fn is_filled(name: &CStr, beside: &[CString]) -> bool {
    let is_there = |marker: &&str| beside.binary_search_by(|found| found.to_bytes().cmp(marker.as_bytes())).is_ok();
    let is_it = |filled: &&str| filled.as_bytes() == name.to_bytes();
    FRAMEWORKS.iter().any(|framework| framework.fills().iter().any(is_it) && framework.markers().iter().any(is_there))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_frameworks::Concerns;

    #[test]
    fn no_framework_takes_data_for_anything() {
        for extension in DATA {
            assert!(Concerns::of(&format!("tests/test.{extension}")).is_empty(), "{extension}");
        }
        assert!(is_data(c"a/b.PNG") && !is_data(c"png") && !is_data(c"test.txt"));
    }
}

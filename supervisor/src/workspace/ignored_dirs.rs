//! Directories and files that a workspace scan ignores because they hold no tests of the project: caches and build
//! output that tools fill.

use proctor_frameworks::{FRAMEWORKS, ignored_dirs};
use rustix::fs::{Mode, OFlags, openat};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::sync::LazyLock;

/// Directories of version control that are always ignored, besides those of frameworks and toolchains.
const VERSION_CONTROL: [&str; 3] = [".git", ".hg", ".svn"];

/// A name that any tool may give to its cache, which is ignored if tagged.
const ANY_CACHE: &str = ".cache";

/// An entry of a build directory of Meson, which is ignored if tagged.
const MESON: &str = "meson-private";

/// Names of directories that are always ignored.
static ALWAYS_IGNORED: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let of_tools = ignored_dirs().flat_map(|dirs| dirs.always);
    VERSION_CONTROL.iter().chain(of_tools).copied().collect()
});

/// Names of directories that are caches if tagged.
static CACHES: LazyLock<Vec<&str>> =
    LazyLock::new(|| ignored_dirs().flat_map(|dirs| dirs.tagged).chain([&ANY_CACHE]).copied().collect());

/// Entries of tools whose tagged directory may have any name.
static TOOL_FILES: LazyLock<Vec<CString>> = LazyLock::new(|| {
    let names = ignored_dirs().flat_map(|dirs| dirs.tagged_with).chain([&MESON]);
    names.filter_map(|name| CString::new(*name).ok()).collect()
});

/// The file that marks a directory as a cache (Cache Directory Tagging Specification). Anyone could place one beside
/// tests, so it hides only directories that are also known as caches by name or by their tool's files.
const TAG: &CStr = c"CACHEDIR.TAG";

/// The first bytes of that file.
const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Extensions of data and compiler output, which no runner takes for tests, settings or sources. In a workspace with
/// very many files, such names are dropped.
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

/// Whether directories of this name are always ignored.
pub(super) fn is_always_ignored(name: &CStr) -> bool {
    ALWAYS_IGNORED.iter().any(|ignored| ignored.as_bytes() == name.to_bytes())
}

/// Whether the directory `dir` named `name` is a cache. `has` tells whether it has an entry of a given name.
pub(super) fn is_cache(dir: BorrowedFd<'_>, name: &CStr, has: impl Fn(&CStr) -> bool) -> bool {
    let is_known = || CACHES.iter().any(|known| known.as_bytes() == name.to_bytes());
    has(TAG) && (is_known() || TOOL_FILES.iter().any(|file| has(file))) && is_tagged(dir)
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

/// Whether a tool whose marker is among the siblings (sorted) fills the directory: Maven and Gradle compile into the
/// workspace, and a run that does so must not look like an edit, or an identical request would never join it. The tool
/// deletes the whole directory on `clean`, so it holds no edited files. Without the marker, the same name is an
/// ordinary directory.
pub(super) fn is_build_output(name: &CStr, siblings: &[CString]) -> bool {
    let is_sibling = |marker: &&str| siblings.binary_search_by(|found| found.to_bytes().cmp(marker.as_bytes())).is_ok();
    let is_name = |filled: &&str| filled.as_bytes() == name.to_bytes();
    FRAMEWORKS
        .iter()
        .map(|framework| framework.manifest())
        .any(|manifest| manifest.output_dirs.iter().any(is_name) && manifest.markers.iter().any(is_sibling))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_frameworks::FrameworkSet;

    #[test]
    fn no_framework_uses_a_data_file() {
        for extension in DATA {
            assert!(FrameworkSet::for_path(&format!("tests/test.{extension}")).is_empty(), "{extension}");
        }
        assert!(is_data(c"a/b.PNG") && !is_data(c"png") && !is_data(c"test.txt"));
    }
}

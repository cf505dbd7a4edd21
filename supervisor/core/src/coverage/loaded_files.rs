//! Which files of the workspace each test file loaded (Jest, Vitest, Node), or depends on where test files share their modules (Mocha).

use crate::bounds::{COVERED_FILES_MAX, LOADED_FILES_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use roaring::RoaringBitmap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Memory of one entry besides its name and numbers, in bytes.
const ENTRY_BYTES: usize = 128;

/// The files that test files loaded, bounded by [`LOADED_FILES_BYTES_MAX`] and [`COVERED_FILES_MAX`]. A test file that is not here
/// may load any file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedFiles {
    /// Numbers of all names.
    numbers: BTreeMap<String, u32>,
    by_test_file: BTreeMap<String, FileNumbers>,
    /// Files that the runner loaded for itself; `None` while these are not known.
    by_runner: Option<FileNumbers>,
    bytes: usize,
}

impl Eq for FileNumbers {}

/// Numbers of files, stored in the portable form of roaring bitmaps, in base 64.
#[derive(Debug, Clone, Default, PartialEq)]
struct FileNumbers(RoaringBitmap);

impl FileNumbers {
    fn memory_bytes(&self) -> usize {
        self.0.serialized_size() + ENTRY_BYTES
    }
}

impl Serialize for FileNumbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(self.0.serialized_size());
        self.0.serialize_into(&mut bytes).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&BASE64.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for FileNumbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileNumbers, D::Error> {
        let bytes = BASE64.decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)?;
        RoaringBitmap::deserialize_from(&bytes[..]).map(FileNumbers).map_err(serde::de::Error::custom)
    }
}

impl LoadedFiles {
    /// Adds files that a test file loaded to those that it is known to load. If they do not fit, nothing is known of it.
    pub fn add<'a>(&mut self, test_file: &str, files: impl IntoIterator<Item = &'a str>) {
        let mut own = self.take(test_file).unwrap_or_default();
        let fits = self.number_all(files, &mut own);
        let bytes = test_file.len() + own.memory_bytes();
        if fits && self.bytes + bytes <= LOADED_FILES_BYTES_MAX {
            self.bytes += bytes;
            self.by_test_file.insert(test_file.to_owned(), own);
        }
    }

    /// Adds files that the runner loaded for itself: its settings, reporters, set-up of all tests.
    pub fn add_runner<'a>(&mut self, files: impl IntoIterator<Item = &'a str>) {
        let mut own = self.by_runner.take().unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(own.memory_bytes());
        let fits = self.number_all(files, &mut own);
        let bytes = own.memory_bytes();
        if fits && self.bytes + bytes <= LOADED_FILES_BYTES_MAX {
            self.bytes += bytes;
            self.by_runner = Some(own);
        }
    }

    /// Adds what a later run of some test files loaded. `ran`: the test files of that run, of which the earlier files are forgotten
    /// if it does not know theirs.
    pub(super) fn merge<'a>(&mut self, later: &LoadedFiles, ran: impl IntoIterator<Item = &'a str>) {
        for test_file in ran {
            if !later.by_test_file.contains_key(test_file) {
                self.forget(test_file);
            }
        }
        let names: BTreeMap<u32, &str> = later.numbers.iter().map(|(name, number)| (*number, name.as_str())).collect();
        let named =
            |own: &FileNumbers| own.0.iter().filter_map(|number| names.get(&number).copied()).collect::<Vec<_>>();
        for (test_file, own) in &later.by_test_file {
            self.add(test_file, named(own));
        }
        // A run of some test files may not know what one of all does not.
        if let Some(own) = later.by_runner.as_ref().filter(|_| self.by_runner.is_some()) {
            self.add_runner(named(own));
        }
    }

    /// Forgets what test files load, but those for which `is_kept` holds.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.by_test_file.keys().filter(|file| !is_kept(file)).cloned().collect();
        gone.iter().for_each(|file| self.forget(file));
    }

    /// The test files of which it is known what they load.
    pub fn test_files(&self) -> impl Iterator<Item = &str> {
        self.by_test_file.keys().map(String::as_str)
    }

    /// Forgets what `test_file` loads.
    pub fn forget(&mut self, test_file: &str) {
        drop(self.take(test_file));
    }

    fn take(&mut self, test_file: &str) -> Option<FileNumbers> {
        let own = self.by_test_file.remove(test_file)?;
        self.bytes = self.bytes.saturating_sub(test_file.len() + own.memory_bytes());
        Some(own)
    }

    /// Whether all of `files` have a number, which are added to `own`.
    fn number_all<'a>(&mut self, files: impl IntoIterator<Item = &'a str>, own: &mut FileNumbers) -> bool {
        for file in files {
            let number = match self.numbers.get(file) {
                Some(number) => *number,
                None => {
                    let bytes = file.len() + ENTRY_BYTES;
                    let next =
                        u32::try_from(self.numbers.len()).ok().filter(|_| self.numbers.len() < COVERED_FILES_MAX);
                    let Some(next) = next.filter(|_| self.bytes + bytes <= LOADED_FILES_BYTES_MAX) else {
                        return false;
                    };
                    self.bytes += bytes;
                    self.numbers.insert(file.to_owned(), next);
                    next
                }
            };
            own.0.insert(number);
        }
        true
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_test_file.is_empty() && self.by_runner.is_none()
    }

    /// Whether it is known what the runner loaded for itself.
    #[must_use]
    pub fn knows_runner(&self) -> bool {
        self.by_runner.is_some()
    }

    /// Whether the runner loaded `file` for itself.
    #[must_use]
    pub fn is_of_runner(&self, file: &str) -> bool {
        let number = self.numbers.get(file);
        number.zip(self.by_runner.as_ref()).is_some_and(|(number, own)| own.0.contains(*number))
    }

    /// Whether it is known what `test_file` loads.
    #[must_use]
    pub fn knows(&self, test_file: &str) -> bool {
        self.by_test_file.contains_key(test_file)
    }

    /// The test files that loaded one of `files`, sorted.
    #[must_use]
    pub fn test_files_loading<'a>(&self, files: impl IntoIterator<Item = &'a str>) -> Vec<&str> {
        let wanted: RoaringBitmap = files.into_iter().filter_map(|file| self.numbers.get(file).copied()).collect();
        let loading = self.by_test_file.iter().filter(|(_, own)| !own.0.is_disjoint(&wanted));
        loading.map(|(test_file, _)| test_file.as_str()).collect()
    }

    /// The names of all files that are known to be loaded, or were.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.numbers.keys().map(String::as_str)
    }

    /// The names of all files that the runner loaded for itself.
    pub fn runner_files(&self) -> impl Iterator<Item = &str> {
        let own = self.by_runner.iter();
        own.flat_map(|own| {
            self.numbers.iter().filter(|(_, number)| own.0.contains(**number)).map(|(name, _)| name.as_str())
        })
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(of: &[(&str, &[&str])]) -> LoadedFiles {
        let mut loaded = LoadedFiles::default();
        for (test_file, files) in of {
            loaded.add(test_file, files.iter().copied());
        }
        loaded
    }

    #[test]
    fn finds_the_test_files_that_loaded_a_file() {
        let mut loaded = loaded(&[("a.test.js", &["a.js", "b.js"]), ("b.test.js", &["b.js"]), ("c.test.js", &[])]);
        assert_eq!(loaded.test_files_loading(["b.js"]), ["a.test.js", "b.test.js"]);
        assert_eq!(loaded.test_files_loading(["a.js", "gone.js"]), ["a.test.js"]);
        assert!(loaded.knows("c.test.js") && !loaded.knows("d.test.js") && !loaded.knows_runner());
        loaded.add_runner(["jest.config.js", "b.js"]);
        assert!(loaded.is_of_runner("b.js") && !loaded.is_of_runner("a.js"));
        assert_eq!(loaded.runner_files().collect::<Vec<_>>(), ["b.js", "jest.config.js"]);
        let stored = serde_json::to_string(&loaded).unwrap();
        assert_eq!(serde_json::from_str::<LoadedFiles>(&stored).unwrap(), loaded);
    }

    #[test]
    fn a_run_that_does_not_know_what_its_test_files_loaded_forgets_what_was_known() {
        let mut known = loaded(&[("a.test.js", &["a.js"]), ("b.test.js", &["b.js"]), ("c.test.js", &["c.js"])]);
        known.merge(&loaded(&[("a.test.js", &["z.js", "c.js"])]), ["a.test.js", "b.test.js"]);
        assert_eq!(known.test_files_loading(["a.js"]), ["a.test.js"], "a part of its tests may have run");
        assert_eq!(known.test_files_loading(["c.js"]), ["a.test.js", "c.test.js"]);
        assert!(!known.knows("b.test.js") && known.knows("c.test.js"));
        let mut of_some = loaded(&[]);
        of_some.add_runner(["setup.js"]);
        known.merge(&of_some, []);
        assert!(!known.knows_runner(), "the run of all test files does not know it");
        known.add_runner([]);
        known.merge(&of_some, []);
        assert!(known.is_of_runner("setup.js"));
    }

    #[test]
    fn what_does_not_fit_is_not_known() {
        let mut loaded = LoadedFiles::default();
        let many: Vec<String> = (0..=COVERED_FILES_MAX).map(|number| number.to_string()).collect();
        loaded.add("a.test.js", many.iter().map(String::as_str));
        loaded.add("b.test.js", ["0"]);
        assert!(!loaded.knows("a.test.js") && loaded.knows("b.test.js"));
        assert!(loaded.memory_bytes() <= LOADED_FILES_BYTES_MAX);
        let name = "x".repeat(LOADED_FILES_BYTES_MAX);
        loaded.add("b.test.js", [name.as_str()]);
        assert!(!loaded.knows("b.test.js"));
    }
}

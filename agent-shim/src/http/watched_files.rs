//! A value that is read from files, and read again once one of them was replaced.

use anyhow::Error;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Inode, size, and time of the last change of content, owner or mode: differs after a rotation.
type FileStamp = (u64, u64, i64, i64);

type Load<T> = Box<dyn Fn() -> anyhow::Result<T> + Send + Sync>;

/// The value and its files.
pub(super) struct WatchedFiles<T> {
    paths: Vec<PathBuf>,
    load: Load<T>,
    known: Mutex<KnownValue<T>>,
}

/// The value as last read. `None` while a file is unusable.
struct KnownValue<T> {
    stamps: Vec<Option<FileStamp>>,
    value: Option<Arc<T>>,
}

impl<T> WatchedFiles<T> {
    /// Reads the value with `load`, from the files at `paths`.
    pub(super) fn open(
        paths: Vec<PathBuf>,
        load: impl Fn() -> anyhow::Result<T> + Send + Sync + 'static,
    ) -> anyhow::Result<WatchedFiles<T>> {
        // Before the files are read, so that a change in between is seen later.
        let stamps = stamps(&paths);
        let value = Some(Arc::new(load()?));
        Ok(WatchedFiles { paths, load: Box::new(load), known: Mutex::new(KnownValue { stamps, value }) })
    }

    /// The value of the files as they are now. `None`, and a line in the log, if they have become unusable.
    pub(super) fn current(&self) -> Option<Arc<T>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.paths);
        let is_replaced = stamps != known.stamps;
        // What made a file unusable may be over, as a lack of descriptors.
        if is_replaced || known.value.is_none() {
            let value = (self.load)().inspect_err(|error: &Error| {
                if is_replaced {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "no access is given by this file before it is mended");
                }
            });
            *known = KnownValue { stamps, value: value.ok().map(Arc::new) };
        }
        known.value.clone()
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<FileStamp>> {
    paths.iter().map(|path| stamp(path)).collect()
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.size(), file.ctime(), file.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_replaced_file_again_and_has_no_value_without_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let replace = |text: &str| {
            let next = dir.path().join("next");
            std::fs::write(&next, text).unwrap();
            std::fs::rename(&next, &path).unwrap();
        };
        replace("one");
        let read = path.clone();
        let load = move || Ok(std::fs::read_to_string(&read)?);
        let files = WatchedFiles::open(vec![path.clone()], load).unwrap();
        let current = || files.current().map(|text| text.as_str().to_owned());
        assert_eq!(current().as_deref(), Some("one"));
        replace("two");
        assert_eq!(current().as_deref(), Some("two"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(current(), None);
        replace("three");
        assert_eq!(current().as_deref(), Some("three"));
    }

    #[test]
    fn a_file_that_could_not_be_read_for_a_moment_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "one").unwrap();
        let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let shared = Arc::clone(&fails);
        let load = move || {
            anyhow::ensure!(!shared.load(std::sync::atomic::Ordering::Relaxed), "no descriptor");
            Ok("value")
        };
        let files = WatchedFiles::open(vec![path.clone()], load).unwrap();
        fails.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(files.current().is_some(), "an unchanged file is not read");
        std::fs::write(&path, "longer").unwrap();
        assert_eq!(files.current(), None);
        fails.store(false, std::sync::atomic::Ordering::Relaxed);
        assert!(files.current().is_some());
    }
}

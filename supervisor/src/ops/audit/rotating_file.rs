//! An append-only file of lines that is rotated by size.

use super::AuditLogConfig;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Only the owner may read the log.
const MODE: u32 = 0o600;

/// Lines to be written together, with the numbers of missing lines that each reports.
#[derive(Debug, Default)]
pub(super) struct Batch {
    text: String,
    lines: Vec<BatchLine>,
}

#[derive(Debug)]
struct BatchLine {
    /// End of the line in the text.
    end: usize,
    lost: u64,
    suppressed: u64,
}

impl Batch {
    pub(super) fn add(&mut self, line: &str, lost: u64, suppressed: u64) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines.push(BatchLine { end: self.text.len(), lost, suppressed });
    }
}

/// Lines that could not be written.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) error: io::Error,
    /// These lines, and the missing lines that they would have reported.
    pub(super) lost: u64,
    /// Whether they would have reported lost lines: then the loss has been logged already.
    pub(super) is_reported: bool,
}

/// The file and its length. It has one writer.
pub(super) struct RotatingFile {
    config: AuditLogConfig,
    open: Option<(File, u64)>,
}

impl RotatingFile {
    pub(super) fn open(config: AuditLogConfig) -> io::Result<RotatingFile> {
        if let Some(dir) = config.path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut file = RotatingFile { config, open: None };
        file.reopen()?;
        Ok(file)
    }

    fn reopen(&mut self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .append(true)
            .create(true)
            .mode(MODE)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let mut file = options.open(&self.config.path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        file.set_permissions(Permissions::from_mode(MODE))?;
        let mut len = found.len();
        let mut last = [b'\n'];
        if len > 0 {
            file.read_exact_at(&mut last, len - 1)?;
        }
        // The process that wrote the file was killed within a line.
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            len += 1;
        }
        self.open = Some((file, len));
        Ok(())
    }

    // Closes the file if it is no longer at its path, for example after an external rotation, as lines written to it
    // would never be found. Takes over the length of a file that was truncated in place.
    fn check_path(&mut self) {
        let Some((file, len)) = &mut self.open else { return };
        let current = match fs::symlink_metadata(&self.config.path) {
            Ok(current) => Some(current),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // The state of the path is unknown, so the file stays open.
            Err(_) => return,
        };
        let Ok(own) = file.metadata() else { return };
        match current.filter(|current| (current.dev(), current.ino()) == (own.dev(), own.ino())) {
            Some(_) => *len = own.len(),
            None => self.open = None,
        }
    }

    /// Appends all lines, in as many files as they need.
    pub(super) fn append(&mut self, batch: &Batch) -> Result<(), WriteError> {
        let mut written = 0;
        while written < batch.lines.len() {
            match self.append_some(batch, written) {
                Ok(now) => written = now,
                Err(error) => {
                    let unwritten = &batch.lines[written..];
                    let lost_before: u64 = unwritten.iter().map(|line| line.lost).sum();
                    let suppressed: u64 = unwritten.iter().map(|line| line.suppressed).sum();
                    let lost = unwritten.len() as u64 + lost_before + suppressed;
                    return Err(WriteError { error, lost, is_reported: lost_before > 0 });
                }
            }
        }
        Ok(())
    }

    // Writes the lines from index `from` on that fit, at least one, and returns the index of the next.
    fn append_some(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.check_path();
        if self.open.is_none() {
            self.reopen()?;
        }
        let begin = from.checked_sub(1).map_or(0, |last| batch.lines[last].end);
        let fitting = |len: u64| {
            let room = self.config.bytes_max.saturating_sub(len);
            batch.lines[from..].iter().take_while(|line| (line.end - begin) as u64 <= room).count()
        };
        let len = self.open.as_ref().map_or(0, |(_, len)| *len);
        let mut count = fitting(len);
        if count == 0 && len > 0 {
            self.rotate()?;
            count = batch.lines[from..].len().min(1);
        }
        // A line longer than a file may be gets a file of its own.
        let next = from + count.max(1);
        self.write(&batch.text.as_bytes()[begin..batch.lines[next - 1].end])?;
        Ok(next)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some((file, len)) = &mut self.open else { return Err(io::Error::other("not open")) };
        match file.write_all(bytes) {
            Ok(()) => {
                *len += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Remove the partial line. If that fails, reopening the file ends the line.
                _ = file.set_len(*len);
                self.open = None;
                Err(error)
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        let suffixed_path = |number: u32| {
            let mut name = self.config.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        // Rotation shifts files up to the first free number only, so that a last step that keeps failing does not
        // discard earlier files.
        let is_free = |number: &u32| fs::symlink_metadata(suffixed_path(*number)).is_err();
        let first_free = (1..=self.config.keep).find(is_free).unwrap_or(self.config.keep);
        for number in (1..first_free).rev() {
            match fs::rename(suffixed_path(number), suffixed_path(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let result = match self.config.keep {
            0 => fs::remove_file(&self.config.path),
            _ => fs::rename(&self.config.path, suffixed_path(1)),
        };
        match result {
            // An external rotation was faster.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.open = None,
        }
        self.reopen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_vanishes_during_rotation_costs_no_earlier_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let mut file = RotatingFile::open(AuditLogConfig { path: path.clone(), bytes_max: 100, keep: 2 }).unwrap();
        fs::write(dir.path().join("audit.jsonl.1"), "earlier").unwrap();
        for _ in 0..4 {
            fs::remove_file(&path).unwrap();
            file.rotate().unwrap();
            assert!(path.exists());
        }
        assert_eq!(fs::read_to_string(dir.path().join("audit.jsonl.2")).unwrap(), "earlier");
    }
}

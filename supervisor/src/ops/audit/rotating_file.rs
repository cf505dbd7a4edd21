//! A file that lines are appended to and that is rotated by size. Must not know what the lines say.

use super::AuditLogConfig;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Most lines of one write.
pub(super) const BATCH_MAX: usize = 256;

/// Its owner alone reads who did what.
const MODE: u32 = 0o600;

/// Lines that are written together, and what each tells of those that are missing before it.
#[derive(Debug, Default)]
pub(super) struct Batch {
    text: String,
    lines: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    /// Where it ends in the text.
    end: usize,
    lost: u64,
    suppressed: u64,
}

impl Batch {
    pub(super) fn add(&mut self, line: &str, lost: u64, suppressed: u64) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines.push(Counted { end: self.text.len(), lost, suppressed });
    }
}

/// Lines that could not be written.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) why: io::Error,
    /// These, and those of which they would have told.
    pub(super) lost: u64,
    /// Whether they would have told of any that are lost: then it is known.
    pub(super) is_known: bool,
}

/// The file and how long it is. It has one writer.
pub(super) struct Rotated {
    place: AuditLogConfig,
    open: Option<(File, u64)>,
}

impl Rotated {
    pub(super) fn open(place: AuditLogConfig) -> io::Result<Rotated> {
        if let Some(dir) = place.path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut rotated = Rotated { place, open: None };
        rotated.reopen()?;
        Ok(rotated)
    }

    fn reopen(&mut self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(MODE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let mut file = options.open(&self.place.path)?;
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
        // Whoever wrote it was killed within a line.
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            len += 1;
        }
        self.open = Some((file, len));
        Ok(())
    }

    // Lets go of a file that is not at its path any more, as after somebody else has rotated it: what would be written to it
    // now is nowhere that anybody looks. One that was cut short in place is as long as it is.
    fn look_again(&mut self) {
        let Some((file, len)) = &mut self.open else { return };
        let there = match fs::symlink_metadata(&self.place.path) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // It cannot be said, so it stays.
            Err(_) => return,
        };
        let Ok(ours) = file.metadata() else { return };
        match there.filter(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            Some(_) => *len = ours.len(),
            None => self.open = None,
        }
    }

    /// Appends all lines, in as many files as they take.
    pub(super) fn append(&mut self, batch: &Batch) -> Result<(), Unwritten> {
        let mut written = 0;
        while written < batch.lines.len() {
            match self.append_some(batch, written) {
                Ok(now) => written = now,
                Err(why) => {
                    let left = &batch.lines[written..];
                    let told: u64 = left.iter().map(|line| line.lost).sum();
                    let suppressed: u64 = left.iter().map(|line| line.suppressed).sum();
                    let lost = left.len() as u64 + told + suppressed;
                    return Err(Unwritten { why, lost, is_known: told > 0 });
                }
            }
        }
        Ok(())
    }

    // Writes what fits of the lines from the number `from` on, at least one, and returns the number of the next.
    fn append_some(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.look_again();
        if self.open.is_none() {
            self.reopen()?;
        }
        let begin = from.checked_sub(1).map_or(0, |last| batch.lines[last].end);
        let fitting = |len: u64| {
            let room = self.place.bytes_max.saturating_sub(len);
            batch.lines[from..].iter().take_while(|line| (line.end - begin) as u64 <= room).count()
        };
        let len = self.open.as_ref().map_or(0, |(_, len)| *len);
        let mut count = fitting(len);
        if count == 0 && len > 0 {
            self.rotate()?;
            count = batch.lines[from..].len().min(1);
        }
        // A line that is longer than a file may be has one of its own.
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
                // No part of a line stays. Where even that fails, opening it anew ends the line.
                _ = file.set_len(*len);
                self.open = None;
                Err(error)
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.place.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        // The first number that is free is enough: where the last step fails each time, nothing earlier goes for nothing.
        let is_free = |number: &u32| fs::symlink_metadata(numbered(*number)).is_err();
        let free = (1..=self.place.keep).find(is_free).unwrap_or(self.place.keep);
        for number in (1..free).rev() {
            match fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let moved = match self.place.keep {
            0 => fs::remove_file(&self.place.path),
            _ => fs::rename(&self.place.path, numbered(1)),
        };
        match moved {
            // Somebody else was faster.
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
    fn a_file_that_goes_while_it_is_put_aside_costs_no_earlier_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let mut file = Rotated::open(AuditLogConfig { path: path.clone(), bytes_max: 100, keep: 2 }).unwrap();
        fs::write(dir.path().join("audit.jsonl.1"), "earlier").unwrap();
        for _ in 0..4 {
            fs::remove_file(&path).unwrap();
            file.rotate().unwrap();
            assert!(path.exists());
        }
        assert_eq!(fs::read_to_string(dir.path().join("audit.jsonl.2")).unwrap(), "earlier");
    }
}

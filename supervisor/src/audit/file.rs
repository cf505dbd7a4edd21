//! A file that lines are appended to and that is rotated by size. Must not know what the lines say.

use super::Place;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
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
    /// Those of which they would have told.
    pub(super) suppressed: u64,
    /// Whether they would have told of any: then it is known that lines are lost.
    pub(super) is_known: bool,
}

/// The file and how long it is. It has one writer.
pub(super) struct Rotated {
    place: Place,
    open: Option<(File, u64)>,
}

impl Rotated {
    pub(super) fn open(place: Place) -> io::Result<Rotated> {
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

    /// Appends all lines, in as many files as they take.
    pub(super) fn append(&mut self, batch: &Batch) -> Result<(), Unwritten> {
        let mut written = 0;
        while written < batch.lines.len() {
            match self.append_some(batch, written) {
                Ok(now) => written = now,
                Err(why) => {
                    let left = &batch.lines[written..];
                    let told: u64 = left.iter().map(|line| line.lost).sum();
                    let suppressed = left.iter().map(|line| line.suppressed).sum();
                    return Err(Unwritten { why, lost: left.len() as u64 + told, suppressed, is_known: told > 0 });
                }
            }
        }
        Ok(())
    }

    // Writes what fits of the lines from the number `from` on, at least one, and returns the number of the next.
    fn append_some(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
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
        for number in (1..self.place.keep).rev() {
            match fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.place.keep == 0 {
            fs::remove_file(&self.place.path)?;
        } else {
            fs::rename(&self.place.path, numbered(1))?;
        }
        self.open = None;
        self.reopen()
    }
}

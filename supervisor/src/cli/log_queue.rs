//! Lines on their way to where somebody may read them: a thread of their own writes them, and whoever tells one neither waits nor
//! fails. What finds no room or cannot be written is counted, and the next line that is written says so (`lost`). Must not know
//! what lines say, nor where they go.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may wait: some thousands of lines, in memory that nobody misses.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// How long the end waits for the last lines.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The way in of whoever has a line to tell.
#[derive(Clone, Default)]
pub(super) struct LogQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Of all lines that wait.
    bytes: usize,
    /// Lines that nobody will see, for the next one to tell.
    lost: u64,
    is_writing: bool,
}

impl LogQueue {
    /// A queue to `file`. Its thread lasts as long as the process.
    pub(super) fn to(file: impl Write + Send + 'static) -> io::Result<LogQueue> {
        let queue = LogQueue::default();
        let shared = Arc::clone(&queue.0);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(&shared, Lines { file, torn: false }))?;
        Ok(queue)
    }

    /// Tells a line, with its end.
    pub(super) fn tell(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > WAITING_BYTES_MAX {
            state.lost += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        self.0.changed.notify_all();
    }

    /// Returns when everything that was told is written, or has had its time.
    pub(super) fn finish(&self) {
        let unwritten = |state: &mut State| state.is_writing || !state.lines.is_empty();
        _ = self.0.changed.wait_timeout_while(self.0.lock(), LAST_WORDS, unwritten);
    }
}

/// Takes whole lines.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.tell(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    // Nothing that is done under the lock can leave it half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// The thread. The lock is never held while something is written, which may take for ever.
fn write(shared: &Shared, mut lines: Lines<impl Write>) {
    loop {
        let nothing = |state: &mut State| state.lines.is_empty();
        let mut state = shared.changed.wait_while(shared.lock(), nothing).unwrap_or_else(PoisonError::into_inner);
        let line = state.lines.pop_front().unwrap_or_default();
        let lost = std::mem::take(&mut state.lost);
        state.bytes -= line.len();
        state.is_writing = true;
        drop(state);
        let is_written = lines.write(&line, lost);
        let mut state = shared.lock();
        state.lost += if is_written { 0 } else { lost + 1 };
        state.is_writing = false;
        shared.changed.notify_all();
    }
}

struct Lines<W> {
    file: W,
    /// Whether a part of a line has been written, and not the rest.
    torn: bool,
}

impl<W: Write> Lines<W> {
    // Whether the line has been written, with what it tells of those that are lost.
    fn write(&mut self, line: &[u8], lost: u64) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let torn: &[u8] = if self.torn { b"\n" } else { b"" };
        let lost = if lost > 0 { format!(" lost={lost}\n") } else { "\n".to_owned() };
        let text = [torn, line, lost.as_bytes()].concat();
        let mut left = text.as_slice();
        while !left.is_empty() {
            match self.file.write(left) {
                Ok(0) => break,
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.torn = !left.is_empty() && (self.torn || left.len() < text.len());
        left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Instant;

    /// Has room for so many bytes, as a disk does.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Disk {
        fn with_room(&self, bytes: usize) {
            self.0.lock().unwrap().1 = bytes;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let fits = bytes.len().min(disk.1);
            if fits == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            disk.1 -= fits;
            disk.0.extend(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_loses_is_told_in_the_next_line() {
        let disk = Disk::default();
        let queue = LogQueue::to(disk.clone()).unwrap();
        for (line, room) in [("one\n", 100), ("two\n", 2), ("three\n", 0), ("four\n", 100), ("five\n", 100)] {
            disk.with_room(room);
            queue.tell(line.as_bytes());
            queue.finish();
        }
        assert_eq!(disk.text(), "one\ntw\nfour lost=2\nfive\n");
    }

    #[test]
    fn a_reader_who_does_not_read_holds_nobody_up_and_is_told_how_much_it_missed() {
        let (mut reader, writer) = io::pipe().unwrap();
        let queue = LogQueue::to(writer).unwrap();
        let told = 20_000;
        let before = Instant::now();
        (0..told).for_each(|_| queue.tell(&[&[b'x'; 999][..], b"\n"].concat()));
        queue.finish();
        assert!(before.elapsed() >= LAST_WORDS, "there was more to write than the pipe holds");
        let reading = std::thread::spawn(move || {
            let (mut text, mut piece) = (String::new(), vec![0; WAITING_BYTES_MAX]);
            while !text.contains("the last\n") && !text.contains("the last lost=") {
                let read = reader.read(&mut piece).unwrap();
                text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
            }
            text
        });
        while queue.0.lock().bytes > 0 {
            queue.finish();
        }
        queue.tell(b"the last\n");
        let text = reading.join().unwrap();
        let lost: usize =
            text.split("lost=").skip(1).map(|rest| rest.lines().next().unwrap().parse::<usize>().unwrap()).sum();
        assert_eq!(text.lines().count() + lost, told + 1);
        assert!(text.lines().count() >= WAITING_BYTES_MAX / 1_000);
    }

    #[test]
    fn a_reader_who_has_gone_is_no_failure() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut queue = LogQueue::to(writer).unwrap();
        for _ in 0..3 {
            queue.write_all(b"x\n").unwrap();
        }
        queue.finish();
        assert_eq!(queue.0.lock().lost, 3);
    }
}

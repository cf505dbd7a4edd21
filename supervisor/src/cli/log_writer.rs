//! The lines of a daemon's log on their way to where somebody may read them, or a disk be full: the next line that is written tells
//! how many are lost (`lost=`). Must not know what lines say.

use crate::ops::nonblocking_writer::{LostCount, Message, NonBlockingWriter};
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Lines that may wait, of 100 to 300 bytes as a rule.
const LINES_MAX: usize = 4_096;

/// How long the end waits for the last lines.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The way in of whoever has a line to tell.
#[derive(Clone)]
pub(super) struct LogQueue(NonBlockingWriter<Vec<u8>>);

impl LogQueue {
    /// A queue to `file`.
    pub(super) fn to(file: impl Write + Send + 'static) -> io::Result<LogQueue> {
        let write = |messages: &_, lost: &_| write(messages, Lines { file, torn: false }, lost);
        Ok(LogQueue(NonBlockingWriter::open("log", LINES_MAX, write)?))
    }

    /// Tells a line, with its end.
    pub(super) fn tell(&self, line: &[u8]) {
        self.0.send(line.to_vec());
    }

    /// Returns when everything that was told is written, or has had its time; says which.
    pub(super) fn finish(&self) -> bool {
        self.0.flush(LAST_WORDS)
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

fn write(messages: &Receiver<Message<Vec<u8>>>, mut lines: Lines<impl Write>, lost: &LostCount) {
    for message in messages {
        match message {
            Message::Line(line) => {
                let before = lost.take();
                if !lines.write(&line, before) {
                    lost.add(before + 1);
                }
            }
            // Whoever asked may have given up.
            Message::Flush(done) => _ = done.send(()),
        }
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
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    /// Has room for so many bytes, as a disk does.
    struct Disk {
        room: Arc<AtomicUsize>,
        file: File,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.room.load(Ordering::Relaxed));
            if fits == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room.fetch_sub(fits, Ordering::Relaxed);
            self.file.write(&bytes[..fits])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_loses_is_told_in_the_next_line() {
        let (room, mut written) = (Arc::<AtomicUsize>::default(), tempfile::tempfile().unwrap());
        let queue = LogQueue::to(Disk { room: Arc::clone(&room), file: written.try_clone().unwrap() }).unwrap();
        for (line, bytes) in [("one\n", 100), ("two\n", 2), ("three\n", 0), ("four\n", 100), ("five\n", 100)] {
            room.store(bytes, Ordering::Relaxed);
            queue.tell(line.as_bytes());
            while !queue.finish() {}
        }
        let mut text = String::new();
        written.rewind().unwrap();
        written.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntw\nfour lost=2\nfive\n");
    }

    #[test]
    fn a_reader_who_does_not_read_holds_nobody_up_and_is_told_how_much_it_missed() {
        let (mut reader, writer) = io::pipe().unwrap();
        let queue = LogQueue::to(writer).unwrap();
        let told = 20_000;
        let before = Instant::now();
        (0..told).for_each(|_| queue.tell(&[&[b'x'; 999][..], b"\n"].concat()));
        assert!(!queue.finish(), "there was more to write than the pipe holds");
        assert!(before.elapsed() >= LAST_WORDS);
        let reading = std::thread::spawn(move || {
            let (mut text, mut piece) = (String::new(), vec![0; 65_536]);
            while !text.contains("the last\n") && !text.contains("the last lost=") {
                let read = reader.read(&mut piece).unwrap();
                text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
            }
            text
        });
        while !queue.finish() {}
        queue.tell(b"the last\n");
        let text = reading.join().unwrap();
        let lost: usize =
            text.split("lost=").skip(1).map(|rest| rest.lines().next().unwrap().parse::<usize>().unwrap()).sum();
        assert_eq!(text.lines().count() + lost, told + 1);
        assert!(text.lines().count() >= LINES_MAX);
    }

    #[test]
    fn a_reader_who_has_gone_is_no_failure() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut queue = LogQueue::to(writer).unwrap();
        for _ in 0..3 {
            queue.write_all(b"x\n").unwrap();
        }
        while !queue.finish() {}
    }
}

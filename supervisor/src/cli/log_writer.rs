//! Writes a daemon's log through a bounded queue, so that a slow reader or a full disk never blocks. The next written
//! line reports lost lines (`lost=`). `tracing-appender` counts only lines that find its queue full, not those that a
//! full disk loses, and its guard writes to stdout with `println!` when it gives up; the queue is the audit log's anyway.

use crate::ops::nonblocking_writer::{LostCount, Message, NonBlockingWriter};
use proctor_core::bounds::LOG_QUEUED_LINES_MAX;
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The sending side of the queue.
#[derive(Clone)]
pub(super) struct LogWriter(NonBlockingWriter<Vec<u8>>);

impl LogWriter {
    /// Starts a writer thread for `file`.
    pub(super) fn open(file: impl Write + Send + 'static) -> io::Result<LogWriter> {
        let write = |messages: &_, lost: &_| write(messages, LineWriter { file, is_partial: false }, lost);
        Ok(LogWriter(NonBlockingWriter::open("log", LOG_QUEUED_LINES_MAX, write)?))
    }

    /// Queues a line including its line end.
    pub(super) fn send(&self, line: &[u8]) {
        self.0.send(line.to_vec());
    }

    /// Waits until all lines are written, within a limit; returns whether they are.
    pub(super) fn finish(&self) -> bool {
        self.0.flush(FLUSH_TIMEOUT)
    }
}

/// Each write is one whole line.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.send(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(messages: &Receiver<Message<Vec<u8>>>, mut lines: LineWriter<impl Write>, lost: &LostCount) {
    for message in messages {
        match message {
            Message::Line(line) => {
                let before = lost.take();
                if !lines.write(&line, before) {
                    lost.add(before + 1);
                }
            }
            // The caller may have given up.
            Message::Flush(done) => _ = done.send(()),
        }
    }
}

struct LineWriter<W> {
    file: W,
    /// Whether a line has been written in part.
    is_partial: bool,
}

impl<W: Write> LineWriter<W> {
    // Returns whether the line was written, with its report of lost lines.
    fn write(&mut self, line: &[u8], lost: u64) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let separator: &[u8] = if self.is_partial { b"\n" } else { b"" };
        let lost = if lost > 0 { format!(" lost={lost}\n") } else { "\n".to_owned() };
        let text = [separator, line, lost.as_bytes()].concat();
        let mut remaining = text.as_slice();
        while !remaining.is_empty() {
            match self.file.write(remaining) {
                Ok(0) => break,
                Ok(written) => remaining = &remaining[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.is_partial = !remaining.is_empty() && (self.is_partial || remaining.len() < text.len());
        remaining.is_empty()
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

    /// A disk with room for a number of bytes.
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
    fn the_next_line_reports_lines_lost_to_a_full_disk() {
        let (room, mut written) = (Arc::<AtomicUsize>::default(), tempfile::tempfile().unwrap());
        let writer = LogWriter::open(Disk { room: Arc::clone(&room), file: written.try_clone().unwrap() }).unwrap();
        for (line, bytes) in [("one\n", 100), ("two\n", 2), ("three\n", 0), ("four\n", 100), ("five\n", 100)] {
            room.store(bytes, Ordering::Relaxed);
            writer.send(line.as_bytes());
            while !writer.finish() {}
        }
        let mut text = String::new();
        written.rewind().unwrap();
        written.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntw\nfour lost=2\nfive\n");
    }

    #[test]
    fn a_stalled_reader_blocks_nothing_and_sees_the_number_of_lost_lines() {
        let (mut reader, pipe) = io::pipe().unwrap();
        let writer = LogWriter::open(pipe).unwrap();
        let sent = 20_000;
        let before = Instant::now();
        (0..sent).for_each(|_| writer.send(&[&[b'x'; 999][..], b"\n"].concat()));
        assert!(!writer.finish(), "more lines than the pipe holds");
        assert!(before.elapsed() >= FLUSH_TIMEOUT);
        let reading = std::thread::spawn(move || {
            let (mut text, mut piece) = (String::new(), vec![0; 65_536]);
            while !text.contains("the last\n") && !text.contains("the last lost=") {
                let read = reader.read(&mut piece).unwrap();
                text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
            }
            text
        });
        while !writer.finish() {}
        writer.send(b"the last\n");
        let text = reading.join().unwrap();
        let lost: usize =
            text.split("lost=").skip(1).map(|rest| rest.lines().next().unwrap().parse::<usize>().unwrap()).sum();
        assert_eq!(text.lines().count() + lost, sent + 1);
        assert!(text.lines().count() >= LOG_QUEUED_LINES_MAX);
    }

    #[test]
    fn a_closed_reader_is_no_failure() {
        let (reader, pipe) = io::pipe().unwrap();
        drop(reader);
        let mut writer = LogWriter::open(pipe).unwrap();
        for _ in 0..3 {
            writer.write_all(b"x\n").unwrap();
        }
        while !writer.finish() {}
    }
}

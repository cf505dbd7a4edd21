//! The shim's own log, on stderr. Many clients never read it, and a pipe that is full must not hold up their calls: a thread of
//! its own writes the lines, and those that find no room in the queue before it are lost. Must not know what lines say.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// LineTransport that may wait, of 100 to 300 bytes as a rule.
const LINES_MAX: usize = 1_000;

/// How long the end waits for the last lines, and how often it looks whether they are written.
const LAST_WORDS: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(1);

/// The way in of whoever has a line to tell. Clones lead to the same thread.
#[derive(Clone)]
pub(crate) struct StderrLog {
    queue: SyncSender<Vec<u8>>,
    unwritten: Arc<AtomicUsize>,
}

impl StderrLog {
    /// A queue to `file`.
    pub(crate) fn to(mut file: impl Write + Send + 'static) -> io::Result<StderrLog> {
        let (queue, lines) = sync_channel::<Vec<u8>>(LINES_MAX);
        let log = StderrLog { queue, unwritten: Arc::default() };
        let unwritten = Arc::clone(&log.unwritten);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            for line in lines {
                // Nobody can be told that it could not be written.
                _ = file.write_all(&line);
                unwritten.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(log)
    }

    /// Returns when everything that was told is written, or has had its time.
    pub(crate) fn finish(&self) {
        let until = Instant::now() + LAST_WORDS;
        while self.unwritten.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Takes whole lines, and never waits.
impl Write for StderrLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.unwritten.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(line.to_vec()).is_err() {
            self.unwritten.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! The shim's log on stderr. Many clients never read it, and a full pipe must not block their calls: a separate thread writes
//! the lines, and a line that finds the queue full is dropped.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Most lines in the queue, of 100 to 300 bytes as a rule.
const LINES_MAX: usize = 1_000;

/// How long [`StderrLog::finish`] waits for the last lines.
const FLUSH_MAX: Duration = Duration::from_millis(100);
/// How often it checks whether they are written.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A writer to the log thread. Clones share the thread.
#[derive(Clone)]
pub(crate) struct StderrLog {
    queue: SyncSender<Vec<u8>>,
    unwritten: Arc<AtomicUsize>,
}

impl StderrLog {
    /// Starts the thread that writes to `file`.
    pub(crate) fn start(mut file: impl Write + Send + 'static) -> io::Result<StderrLog> {
        let (queue, lines) = sync_channel::<Vec<u8>>(LINES_MAX);
        let log = StderrLog { queue, unwritten: Arc::default() };
        let unwritten = Arc::clone(&log.unwritten);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            for line in lines {
                // There is nowhere to report a failed write.
                _ = file.write_all(&line);
                unwritten.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(log)
    }

    /// Waits until all queued lines are written, at most [`FLUSH_MAX`].
    pub(crate) fn finish(&self) {
        let until = Instant::now() + FLUSH_MAX;
        while self.unwritten.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Accepts whole lines, and never blocks.
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

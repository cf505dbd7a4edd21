//! Threads that execute runs. One that has ended its run waits a while for another: a run that needs no new thread starts
//! sooner.

use crossbeam_channel::{Receiver, Sender, bounded};
use proctor_sandbox::shorten_slice;
use std::io;
use std::thread::Builder;
use std::time::Duration;

/// How long a thread without a run is kept.
const KEPT_FOR: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Executes each run on a thread of its own. Runs do not share the runtime's threads, which are bounded and must not be occupied
/// for as long as a run lasts. The number of these threads is bounded by the turns of the host. Those that wait end with this
/// value.
pub struct RunThreads {
    /// Has no room: a job is sent only to a thread that waits for one.
    jobs: Sender<Job>,
    waiting: Receiver<Job>,
}

impl Default for RunThreads {
    fn default() -> RunThreads {
        let (jobs, waiting) = bounded(0);
        RunThreads { jobs, waiting }
    }
}

impl RunThreads {
    /// Starts `job` on a thread that executes nothing else meanwhile. Fails if the host has no thread for it, which drops it.
    pub fn start(&self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let Err(unsent) = self.jobs.try_send(Box::new(job)) else { return Ok(()) };
        let (job, waiting) = (unsent.into_inner(), self.waiting.clone());
        Builder::new().name("run".to_owned()).spawn(move || execute_jobs(job, &waiting))?;
        Ok(())
    }
}

fn execute_jobs(first: Job, waiting: &Receiver<Job>) {
    // Callers wait for these runs: reduce this thread's scheduling latency.
    shorten_slice();
    first();
    while let Ok(next) = waiting.recv_timeout(KEPT_FOR) {
        next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{SyncSender, sync_channel};
    use std::thread::yield_now;

    /// Starts a job that reports its thread, as a directory below `/proc`, and ends when the sender is dropped.
    fn start(threads: &RunThreads) -> (PathBuf, SyncSender<()>) {
        let ((report, thread), (end, ended)) = (sync_channel(1), sync_channel::<()>(1));
        let job = move || {
            report.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
            _ = ended.recv();
        };
        threads.start(job).unwrap();
        (Path::new("/proc").join(thread.recv().unwrap()), end)
    }

    #[test]
    fn jobs_at_the_same_time_have_a_thread_each_and_a_later_one_has_a_kept_thread() {
        let threads = RunThreads::default();
        let (first, end) = start(&threads);
        let (second, _other) = start(&threads);
        assert_ne!(first, second);
        drop(end);
        // The thread waits for its next job a moment after the end of the last.
        while start(&threads).0 != first {
            yield_now();
        }
    }

    #[test]
    fn a_job_that_panics_ends_its_thread_alone_and_kept_threads_end_with_the_value() {
        let threads = RunThreads::default();
        threads.start(|| panic!("a job")).unwrap();
        let (thread, end) = start(&threads);
        drop((end, threads));
        while thread.exists() {
            yield_now();
        }
    }
}

//! The audit log: calls and runs with caller, limits and outcome, as one line of JSON each. No call and no run ever
//! waits for a disk (see [`NonBlockingWriter`]).

mod rate_limit;
mod record;
mod rotating_file;
mod untrusted_text;

pub use record::{AuditEvent, AuditRecord, AuthMethod};
pub use untrusted_text::UntrustedText;

use crate::clock::Clock;
use crate::ops::nonblocking_writer::{LostCount, Message, NonBlockingWriter};
use proctor_core::bounds::AUDIT_QUEUED_LINES_MAX;
use rate_limit::RateLimiter;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Most lines in one write.
const BATCH_MAX: usize = 256;

/// How long a line waits so that others are written with it.
const GATHER_TIME: Duration = Duration::from_millis(2);

/// How long the end of the supervisor waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Path and size limits of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLogConfig {
    /// The current file. Earlier files have the suffix `.1`, `.2`, …; the highest number is the oldest.
    pub path: PathBuf,
    /// Size in bytes at which a new file is started.
    pub bytes_max: u64,
    /// Number of earlier files that are kept.
    pub keep: u32,
}

/// Handle of the audit log.
#[derive(Debug, Clone)]
pub struct Audit {
    writer: Option<NonBlockingWriter<Box<AuditRecord>>>,
}

impl Audit {
    /// A log that discards everything, for a private supervisor or a command.
    #[must_use]
    pub fn off() -> Audit {
        Audit { writer: None }
    }

    /// Opens the log and starts its writer thread. Fails if the file cannot be opened; later errors only count lost
    /// lines.
    pub fn open(config: AuditLogConfig, clock: Clock) -> io::Result<Audit> {
        let mut file = rotating_file::RotatingFile::open(config)?;
        let write = move |messages: &_, lost: &_| write(messages, &mut file, clock, lost);
        Ok(Audit { writer: Some(NonBlockingWriter::open("audit", AUDIT_QUEUED_LINES_MAX, write)?) })
    }

    /// Queues an event without waiting.
    pub fn record(&self, mut record: AuditRecord) {
        let Some(writer) = &self.writer else { return };
        // The supervisor's own clock lags behind the wall clock after a suspend or a clock change.
        record.set_time(Clock::wall_time());
        if writer.send(Box::new(record)) {
            tracing::error!("the audit log is behind: lines are lost, and the next line has their number");
        }
    }

    /// Waits until all queued lines are written, within a limit. Blocks.
    pub fn finish(&self) {
        if let Some(writer) = &self.writer {
            writer.flush(FLUSH_TIMEOUT);
        }
    }
}

// The writer thread. It ends when the last handle is dropped.
fn write(
    messages: &Receiver<Message<Box<AuditRecord>>>,
    file: &mut rotating_file::RotatingFile,
    clock: Clock,
    lost: &LostCount,
) {
    let mut limiter = RateLimiter::default();
    loop {
        let first = match limiter.is_pending() {
            true => messages.recv_timeout(Duration::from_nanos(rate_limit::FLUSH_INTERVAL_NS)),
            false => messages.recv().map_err(RecvTimeoutError::from),
        };
        match first {
            Err(RecvTimeoutError::Disconnected) => return,
            // Waking for each line would cost a busy host as much as the lines themselves.
            Ok(Message::Line(_)) => std::thread::sleep(GATHER_TIME),
            _ => {}
        }
        let now_ns = clock.elapsed_ms().saturating_mul(1_000_000);
        let (mut lines, mut ended) = (Vec::new(), None);
        limiter.flush_suppressed(now_ns, &mut lines);
        for message in first.into_iter().chain(messages.try_iter().take(BATCH_MAX)) {
            match message {
                Message::Line(line) => limiter.admit(*line, now_ns, &mut lines),
                Message::Flush(reply) => ended = Some(reply),
            }
        }
        // Lines that this thread has added.
        lines.iter_mut().filter(|line| line.time.is_empty()).for_each(|line| line.set_time(Clock::wall_time()));
        write_all(file, lines, lost);
        if let Some(reply) = ended {
            _ = reply.send(());
        }
    }
}

fn write_all(file: &mut rotating_file::RotatingFile, lines: Vec<AuditRecord>, lost: &LostCount) {
    let mut batch = rotating_file::Batch::default();
    for mut line in lines {
        line.lost = Some(lost.take()).filter(|lost| *lost > 0);
        let text = serde_json::to_string(&line).unwrap_or_default();
        batch.add(&text, line.lost.unwrap_or(0), line.suppressed.unwrap_or(0));
    }
    if let Err(unwritten) = file.append(&batch) {
        let is_first = lost.add(unwritten.lost);
        if is_first && !unwritten.is_reported {
            let error = unwritten.error;
            tracing::error!(%error, "the audit log cannot be written: lines are lost, and the next line has their number");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn audit(dir: &Path, bytes_max: u64) -> Audit {
        let config = AuditLogConfig { path: dir.join("audit.jsonl"), bytes_max, keep: 2 };
        Audit::open(config, Clock::new()).unwrap()
    }

    fn lines(path: &Path) -> Vec<AuditRecord> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    #[test]
    fn documented_lines_match_what_is_written() {
        let documented = include_str!("../../../../deploy/audit.example.jsonl");
        let mut events = Vec::new();
        for text in documented.lines() {
            let line: AuditRecord = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(serde_json::to_string(&line).unwrap(), text);
            events.push(line.event);
        }
        for event in AuditEvent::ALL {
            assert!(events.contains(&event), "{event:?} has no example");
        }
    }

    #[test]
    fn lines_are_complete_in_order_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        fs::write(&path, "{\"half\":").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let audit = audit(dir.path(), 1 << 20);
        for number in 0..100 {
            audit.record(AuditRecord {
                session: Some(number.to_string().into()),
                ..AuditRecord::new(AuditEvent::SessionCreated)
            });
        }
        audit.finish();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        let (half, rest) = text.split_once('\n').unwrap();
        assert_eq!(half, "{\"half\":", "the fragment left by a killed supervisor stays a line of its own");
        let sessions: Vec<String> = rest
            .lines()
            .map(|line| serde_json::from_str::<AuditRecord>(line).unwrap().session.unwrap().to_string())
            .collect();
        assert_eq!(sessions, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn rotates_by_size_and_removes_the_oldest_file() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 1_000);
        for number in 0..100 {
            audit.record(AuditRecord {
                session: Some(number.to_string().into()),
                ..AuditRecord::new(AuditEvent::SessionCreated)
            });
            audit.finish();
        }
        let mut names: Vec<String> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]);
        let mut remaining = Vec::new();
        for name in ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"] {
            assert!(fs::metadata(dir.path().join(name)).unwrap().len() <= 1_000);
            remaining.extend(lines(&dir.path().join(name)).into_iter().map(|line| line.session.unwrap().to_string()));
        }
        let last = 100 - remaining.len();
        assert!(remaining.len() > 10);
        assert_eq!(remaining, (last..100).map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn reopens_a_file_that_was_moved_or_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, earlier) = (dir.path().join("audit.jsonl"), dir.path().join("audit.jsonl.1"));
        fs::write(&earlier, "earlier\n").unwrap();
        let audit = audit(dir.path(), 300);
        let record = |session: &str| {
            audit.record(AuditRecord { session: Some(session.into()), ..AuditRecord::new(AuditEvent::SessionCreated) });
            audit.finish();
        };
        let sessions =
            |path: &Path| lines(path).into_iter().map(|line| line.session.unwrap().to_string()).collect::<Vec<_>>();
        record("0");
        let aside = dir.path().join("audit.jsonl-20260101");
        fs::rename(&path, &aside).unwrap();
        record("1");
        assert_eq!((sessions(&aside), sessions(&path)), (vec!["0".to_owned()], vec!["1".to_owned()]));
        // A full file that was removed, and a file that was replaced.
        (2..).map(|number| record(&number.to_string())).find(|()| fs::metadata(&path).unwrap().len() > 200).unwrap();
        fs::remove_file(&path).unwrap();
        record("removed");
        assert_eq!(sessions(&path), ["removed"]);
        fs::rename(&path, &aside).unwrap();
        fs::write(&path, "").unwrap();
        record("replaced");
        assert_eq!(sessions(&path), ["replaced"]);
        assert_eq!(fs::read_to_string(&earlier).unwrap(), "earlier\n", "earlier files are not rotated needlessly");
    }

    #[test]
    fn a_truncated_file_has_room_again() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 300);
        for _ in 0..20 {
            audit.record(AuditRecord::new(AuditEvent::Started));
            audit.finish();
            fs::File::options().write(true).open(dir.path().join("audit.jsonl")).unwrap().set_len(0).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no file was rotated");
    }

    #[test]
    fn the_next_line_reports_lost_lines() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 1_000);
        audit.record(AuditRecord::new(AuditEvent::Started));
        audit.finish();
        // No new file can be started while directories are in the way.
        let in_the_way = ["audit.jsonl.1", "audit.jsonl.2"].map(|name| dir.path().join(name));
        in_the_way.iter().for_each(|dir| fs::create_dir_all(dir.join("x")).unwrap());
        for _ in 0..30 {
            audit.record(AuditRecord::new(AuditEvent::SessionCreated));
            audit.finish();
        }
        let written = lines(&dir.path().join("audit.jsonl")).len();
        in_the_way.iter().for_each(|dir| fs::remove_dir_all(dir).unwrap());
        audit.record(AuditRecord::new(AuditEvent::Stopped));
        audit.finish();
        let next = lines(&dir.path().join("audit.jsonl"));
        assert_eq!(next.len(), 1);
        assert_eq!((next[0].event, next[0].lost), (AuditEvent::Stopped, Some(31 - written as u64)));
    }

    #[test]
    fn authentication_failures_are_rate_limited_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (audit, began) = (audit(dir.path(), 1 << 20), std::time::Instant::now());
        for number in 0..1_000 {
            audit.record(AuditRecord::new(AuditEvent::AuthenticationRefused));
            // Lets the thread keep up: this test is not about a full queue.
            if number % 100 == 0 {
                audit.finish();
            }
        }
        audit.record(AuditRecord::new(AuditEvent::Stopped));
        audit.finish();
        let lines = lines(&dir.path().join("audit.jsonl"));
        let suppressed: u64 = lines.iter().filter_map(|line| line.suppressed).sum();
        let logged = lines.iter().filter(|line| line.event == AuditEvent::AuthenticationRefused).count() as u64;
        assert_eq!((logged + suppressed, lines.last().unwrap().event), (1_000, AuditEvent::Stopped));
        let most = 10 * (began.elapsed().as_secs() + 2);
        assert!((10..=most).contains(&logged), "{logged} of {most}");
    }

    #[test]
    fn suppressed_events_are_reported_without_further_events() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 1 << 20);
        for _ in 0..30 {
            audit.record(AuditRecord { tenant: Some("a".to_owned()), ..AuditRecord::new(AuditEvent::Denied) });
        }
        let suppressed =
            || lines(&dir.path().join("audit.jsonl")).iter().filter_map(|line| line.suppressed).sum::<u64>();
        let before = std::time::Instant::now();
        while suppressed() == 0 {
            assert!(before.elapsed() < Duration::from_secs(120), "the suppressed count is not written");
            std::thread::yield_now();
        }
        assert!(lines(&dir.path().join("audit.jsonl")).iter().all(|line| !line.time.is_empty()));
    }

    #[test]
    fn known_secrets_are_redacted() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 1 << 20);
        let secret = format!("glpat-{}", "a1B2".repeat(5));
        // The second secret has no end marker; the fields after it in the line must stay readable.
        for text in [secret, "-----BEGIN PRIVATE KEY-----".to_owned()] {
            audit.record(AuditRecord {
                session: Some(text.into()),
                code: Some("NotFound".to_owned()),
                ..AuditRecord::new(AuditEvent::Denied)
            });
        }
        audit.finish();
        let lines = lines(&dir.path().join("audit.jsonl"));
        let texts = lines.iter().map(|line| (line.session.as_deref().unwrap(), line.code.as_deref().unwrap()));
        let kinds = ["[redacted: gitlab]", "[redacted: private key]"];
        assert_eq!(texts.collect::<Vec<_>>(), kinds.map(|kind| (kind, "NotFound")));
    }
}

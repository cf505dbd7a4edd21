//! The audit log: who did what, with which limits, and what came of it. One line of JSON for each event, of which no call and no
//! run ever waits for a disk (see `outbox`). Must not know how a line gets to the file (that is [`rotating_file`]) or which are spared
//! (that is `sparing`), nor decide anything about a call.

mod rate_limit;
mod record;
mod rotating_file;
mod untrusted_text;

pub use record::{AuditEvent, AuditRecord, AuthMethod};
pub use untrusted_text::UntrustedText;

use crate::clock::Clock;
use crate::ops::nonblocking_writer::{LostCount, Message, NonBlockingWriter};
use rate_limit::Sparing;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Lines that may wait: what a host of 10,000 calls a second tells while a disk takes most of a second, some 4 MiB, and
/// 16 MiB of the longest there are.
const LINES_MAX: usize = 8_192;

/// How long a line waits for others to be written with.
const GATHER: Duration = Duration::from_millis(2);

/// How long the end of the supervisor waits for the last lines.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Where the audit log is, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLogConfig {
    /// The file that is written to. Earlier ones have `.1`, `.2`, … after its name, the highest is the oldest.
    pub path: PathBuf,
    /// Bytes after which another file is begun.
    pub bytes_max: u64,
    /// Earlier files that are kept.
    pub keep: u32,
}

impl AuditLogConfig {
    /// `bytes_max` where nothing is said.
    pub const BYTES_MAX: u64 = 64 * 1024 * 1024;

    /// `keep` where nothing is said.
    pub const KEEP: u32 = 8;
}

/// The audit log, to whoever has something to tell.
#[derive(Debug, Clone)]
pub struct Audit {
    outbox: Option<NonBlockingWriter<Box<AuditRecord>>>,
}

impl Audit {
    /// The log of a supervisor that keeps none: a private one, or a command.
    #[must_use]
    pub fn off() -> Audit {
        Audit { outbox: None }
    }

    /// Opens the log and begins to write, on a thread of its own. That it cannot be opened is an error now; what goes wrong
    /// later is counted.
    pub fn open(place: AuditLogConfig, clock: Clock) -> io::Result<Audit> {
        let mut file = rotating_file::Rotated::open(place)?;
        let write = move |messages: &_, lost: &_| write(messages, &mut file, clock, lost);
        Ok(Audit { outbox: Some(NonBlockingWriter::open("audit", LINES_MAX, write)?) })
    }

    /// Tells of an event, without waiting.
    pub fn tell(&self, mut line: AuditRecord) {
        let Some(outbox) = &self.outbox else { return };
        // A host that was asleep, or whose clock was set, has left the supervisor's own clock behind.
        line.at(Clock::wall_time());
        if outbox.tell(Box::new(line)) {
            tracing::error!("the audit log is behind: lines are lost, and the next one says how many");
        }
    }

    /// Returns when everything that was told is written, or has had its time. Blocks.
    pub fn finish(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.finish(LAST_WORDS);
        }
    }
}

// The thread of the log. It ends when nobody is left to tell of anything.
fn write(
    messages: &Receiver<Message<Box<AuditRecord>>>,
    file: &mut rotating_file::Rotated,
    clock: Clock,
    lost: &LostCount,
) {
    let mut sparing = Sparing::default();
    loop {
        let first = match sparing.is_pending() {
            true => messages.recv_timeout(Duration::from_nanos(rate_limit::SETTLE_NS)),
            false => messages.recv().map_err(RecvTimeoutError::from),
        };
        match first {
            Err(RecvTimeoutError::Disconnected) => return,
            // To be woken for each line would cost a busy host as much as the lines themselves.
            Ok(Message::Line(_)) => std::thread::sleep(GATHER),
            _ => {}
        }
        let now_ns = clock.elapsed_ms().saturating_mul(1_000_000);
        let (mut lines, mut ended) = (Vec::new(), None);
        sparing.settle(now_ns, &mut lines);
        for message in first.into_iter().chain(messages.try_iter().take(rotating_file::BATCH_MAX)) {
            match message {
                Message::Line(line) => sparing.take_in(*line, now_ns, &mut lines),
                Message::End(reply) => ended = Some(reply),
            }
        }
        // What nobody has told, but this thread.
        lines.iter_mut().filter(|line| line.time.is_empty()).for_each(|line| line.at(Clock::wall_time()));
        write_all(file, lines, lost);
        if let Some(reply) = ended {
            _ = reply.send(());
        }
    }
}

fn write_all(file: &mut rotating_file::Rotated, lines: Vec<AuditRecord>, lost: &LostCount) {
    let mut batch = rotating_file::Batch::default();
    for mut line in lines {
        line.lost = Some(lost.take()).filter(|lost| *lost > 0);
        let text = serde_json::to_string(&line).unwrap_or_default();
        batch.add(&text, line.lost.unwrap_or(0), line.suppressed.unwrap_or(0));
    }
    if let Err(unwritten) = file.append(&batch) {
        let is_first = lost.add(unwritten.lost);
        if is_first && !unwritten.is_known {
            let error = unwritten.why;
            tracing::error!(%error, "the audit log cannot be written: lines are lost, and the next one says how many");
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
        let place = AuditLogConfig { path: dir.join("audit.jsonl"), bytes_max, keep: 2 };
        Audit::open(place, Clock::new()).unwrap()
    }

    fn lines(path: &Path) -> Vec<AuditRecord> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    #[test]
    fn the_documented_lines_are_what_is_written() {
        let documented = include_str!("../../../../deploy/audit.example.jsonl");
        let mut events = Vec::new();
        for text in documented.lines() {
            let line: AuditRecord = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(serde_json::to_string(&line).unwrap(), text);
            events.push(line.event);
        }
        for event in AuditEvent::ALL {
            assert!(events.contains(&event), "{event:?} has an example");
        }
    }

    #[test]
    fn lines_are_whole_and_in_order_and_nobody_elses_to_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        fs::write(&path, "{\"half\":").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let audit = audit(dir.path(), 1 << 20);
        for number in 0..100 {
            audit.tell(AuditRecord {
                session: Some(number.to_string().into()),
                ..AuditRecord::of(AuditEvent::SessionCreated)
            });
        }
        audit.finish();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        let (half, rest) = text.split_once('\n').unwrap();
        assert_eq!(half, "{\"half\":", "what a killed supervisor left stays a line of its own");
        let sessions: Vec<String> = rest
            .lines()
            .map(|line| serde_json::from_str::<AuditRecord>(line).unwrap().session.unwrap().to_string())
            .collect();
        assert_eq!(sessions, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn it_is_rotated_by_size_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 1_000);
        for number in 0..100 {
            audit.tell(AuditRecord {
                session: Some(number.to_string().into()),
                ..AuditRecord::of(AuditEvent::SessionCreated)
            });
            audit.finish();
        }
        let mut names: Vec<String> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]);
        let mut kept = Vec::new();
        for name in ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"] {
            assert!(fs::metadata(dir.path().join(name)).unwrap().len() <= 1_000);
            kept.extend(lines(&dir.path().join(name)).into_iter().map(|line| line.session.unwrap().to_string()));
        }
        let last = 100 - kept.len();
        assert!(kept.len() > 10);
        assert_eq!(kept, (last..100).map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_that_somebody_else_takes_away_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, earlier) = (dir.path().join("audit.jsonl"), dir.path().join("audit.jsonl.1"));
        fs::write(&earlier, "earlier\n").unwrap();
        let audit = audit(dir.path(), 300);
        let tell = |session: &str| {
            audit.tell(AuditRecord { session: Some(session.into()), ..AuditRecord::of(AuditEvent::SessionCreated) });
            audit.finish();
        };
        let sessions =
            |path: &Path| lines(path).into_iter().map(|line| line.session.unwrap().to_string()).collect::<Vec<_>>();
        tell("0");
        let aside = dir.path().join("audit.jsonl-20260101");
        fs::rename(&path, &aside).unwrap();
        tell("1");
        assert_eq!((sessions(&aside), sessions(&path)), (vec!["0".to_owned()], vec!["1".to_owned()]));
        // One that is full as well, and one in whose place there is another already.
        (2..).map(|number| tell(&number.to_string())).find(|()| fs::metadata(&path).unwrap().len() > 200).unwrap();
        fs::remove_file(&path).unwrap();
        tell("removed");
        assert_eq!(sessions(&path), ["removed"]);
        fs::rename(&path, &aside).unwrap();
        fs::write(&path, "").unwrap();
        tell("replaced");
        assert_eq!(sessions(&path), ["replaced"]);
        assert_eq!(fs::read_to_string(&earlier).unwrap(), "earlier\n", "what was kept is not shifted for nothing");
    }

    #[test]
    fn a_file_that_was_cut_short_has_room_again() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 300);
        for _ in 0..20 {
            audit.tell(AuditRecord::of(AuditEvent::Started));
            audit.finish();
            fs::File::options().write(true).open(dir.path().join("audit.jsonl")).unwrap().set_len(0).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no file was full");
    }

    #[test]
    fn what_is_lost_is_told_in_the_next_line() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 1_000);
        audit.tell(AuditRecord::of(AuditEvent::Started));
        audit.finish();
        // No other file can be begun as long as something is in the way.
        let in_the_way = ["audit.jsonl.1", "audit.jsonl.2"].map(|name| dir.path().join(name));
        in_the_way.iter().for_each(|dir| fs::create_dir_all(dir.join("x")).unwrap());
        for _ in 0..30 {
            audit.tell(AuditRecord::of(AuditEvent::SessionCreated));
            audit.finish();
        }
        let written = lines(&dir.path().join("audit.jsonl")).len();
        in_the_way.iter().for_each(|dir| fs::remove_dir_all(dir).unwrap());
        audit.tell(AuditRecord::of(AuditEvent::Stopped));
        audit.finish();
        let next = lines(&dir.path().join("audit.jsonl"));
        assert_eq!(next.len(), 1);
        assert_eq!((next[0].event, next[0].lost), (AuditEvent::Stopped, Some(31 - written as u64)));
    }

    #[test]
    fn guesses_are_told_of_within_a_bound_and_counted_beyond() {
        let dir = tempfile::tempdir().unwrap();
        let (audit, began) = (audit(dir.path(), 1 << 20), std::time::Instant::now());
        for number in 0..1_000 {
            audit.tell(AuditRecord::of(AuditEvent::AuthenticationRefused));
            // The thread keeps up: what is lost in the queue is another matter.
            if number % 100 == 0 {
                audit.finish();
            }
        }
        audit.tell(AuditRecord::of(AuditEvent::Stopped));
        audit.finish();
        let lines = lines(&dir.path().join("audit.jsonl"));
        let suppressed: u64 = lines.iter().filter_map(|line| line.suppressed).sum();
        let told = lines.iter().filter(|line| line.event == AuditEvent::AuthenticationRefused).count() as u64;
        assert_eq!((told + suppressed, lines.last().unwrap().event), (1_000, AuditEvent::Stopped));
        let most = 10 * (began.elapsed().as_secs() + 2);
        assert!((10..=most).contains(&told), "{told} of {most}");
    }

    #[test]
    fn what_was_suppressed_is_told_although_nobody_tells_of_anything_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 1 << 20);
        for _ in 0..30 {
            audit.tell(AuditRecord { tenant: Some("a".to_owned()), ..AuditRecord::of(AuditEvent::Denied) });
        }
        let told = || lines(&dir.path().join("audit.jsonl")).iter().filter_map(|line| line.suppressed).sum::<u64>();
        let before = std::time::Instant::now();
        while told() == 0 {
            assert!(before.elapsed() < Duration::from_secs(120), "nobody tells");
            std::thread::yield_now();
        }
        assert!(lines(&dir.path().join("audit.jsonl")).iter().all(|line| !line.time.is_empty()));
    }

    #[test]
    fn no_secret_of_a_known_form_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let audit = audit(dir.path(), 1 << 20);
        let secret = format!("glpat-{}", "a1B2".repeat(5));
        // The second has no end, and what comes after it in the line is none of it.
        for said in [secret, "-----BEGIN PRIVATE KEY-----".to_owned()] {
            audit.tell(AuditRecord {
                session: Some(said.into()),
                code: Some("NotFound".to_owned()),
                ..AuditRecord::of(AuditEvent::Denied)
            });
        }
        audit.finish();
        let lines = lines(&dir.path().join("audit.jsonl"));
        let told = lines.iter().map(|line| (line.session.as_deref().unwrap(), line.code.as_deref().unwrap()));
        let kinds = ["[redacted: gitlab]", "[redacted: private key]"];
        assert_eq!(told.collect::<Vec<_>>(), kinds.map(|kind| (kind, "NotFound")));
    }
}

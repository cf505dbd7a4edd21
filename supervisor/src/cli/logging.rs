//! Logs: what the supervisor says on stderr, without secrets of a known form. Must not know what is logged, nor
//! how lines of a daemon wait (that is `log_queue`).

use super::arguments::Command;
use super::log_writer::LogQueue;
use super::print;
use proctor_core::redact::redact;
use proctor_proto::printable;
use std::io::{self, IsTerminal, Write};

/// Most bytes of a line. What is longer was made so by whoever is told of in it.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Where this process says what it has to say beside its output.
pub(super) enum Logs {
    /// Of a daemon, which goes on whatever becomes of its stderr.
    Queued(LogQueue),
    /// Of a command, whose person reads along.
    Direct,
}

impl Logs {
    /// Sends logs to stderr. A daemon tells what it does; a command at a terminal only what went wrong.
    pub(super) fn begin(command: &Command) -> io::Result<Logs> {
        let default = if matches!(command, Command::Serve(serve) if !serve.private) { "info" } else { "error" };
        let filter = tracing_subscriber::EnvFilter::try_from_env("PROCTOR_LOG")
            .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        // A line that cannot be written would be told of on stderr, by a macro that panics when it cannot write.
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).log_internal_errors(false);
        if !matches!(command, Command::Serve(serve) if !serve.check) {
            lines.with_writer(|| Redacting(io::stderr())).init();
            return Ok(Logs::Direct);
        }
        let queue = LogQueue::to(io::stderr())?;
        let lined_up = queue.clone();
        lines.with_writer(move || Redacting(lined_up.clone())).init();
        // The default one writes to stderr itself, which may take for ever, and so keeps a session that broke from its end.
        std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        Ok(Logs::Queued(queue))
    }

    /// Says why the process ends, whatever is logged.
    pub(super) fn say(&self, text: &str) {
        match self {
            Logs::Queued(queue) => queue.tell(format!("{}\n", printable::coloured(text)).as_bytes()),
            // Whoever does not read it has the exit status.
            Logs::Direct => print::beside(text),
        }
    }

    /// Returns when everything is written, or has had its time.
    pub(super) fn finish(&self) {
        if let Logs::Queued(queue) = self {
            queue.finish();
        }
    }
}

// One event comes in one piece, and leaves as one line: what a caller or a project said may be in it.
struct Redacting<W>(W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Before it is looked through for secrets, which takes as long as it is.
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LINE_BYTES_MAX)]);
        let cut = if bytes.len() > LINE_BYTES_MAX { "…" } else { "" };
        let mut line = one_line(&redact(&format!("{}{cut}", text.trim_end_matches('\n'))));
        line.push('\n');
        self.0.write_all(line.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

// What would end the line or steer a terminal is escaped, but for colours.
fn one_line(text: &str) -> String {
    printable::coloured(text).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_no_secret_of_a_known_form() {
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let mut written = Redacting(Vec::new());
        let line = format!("INFO run not started reason={secret} run=x\n");
        assert_eq!(written.write(line.as_bytes()).unwrap(), line.len());
        assert_eq!(written.0, b"INFO run not started reason=[redacted: github] run=x\n");
    }

    #[test]
    fn nobody_writes_a_line_of_his_own_into_a_log() {
        let mut written = Redacting(Vec::new());
        let line = "\x1b[32m INFO\x1b[0m reason=x\n2026 INFO forged\x1b[2J\r\n";
        assert_eq!(written.write(line.as_bytes()).unwrap(), line.len());
        written.write_all(&[b'x'; 100_000]).unwrap();
        let text = String::from_utf8(written.0).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "\x1b[32m INFO\x1b[0m reason=x\\n2026 INFO forged\\u{1b}[2J\\r");
        assert_eq!((lines.len(), lines[1].len()), (2, LINE_BYTES_MAX + "…".len()));
    }

    #[test]
    fn a_secret_that_the_end_of_a_line_cuts_is_none_either() {
        let (before, secret) = ("x".repeat(LINE_BYTES_MAX - 10), "ghp_".to_owned() + &"a1B2".repeat(9));
        let mut written = Redacting(Vec::new());
        written.write_all(format!("{before} {secret}\n").as_bytes()).unwrap();
        let text = String::from_utf8(written.0).unwrap();
        assert!(!text.contains("ghp_") && text.len() > LINE_BYTES_MAX - 10, "{}", &text[before.len()..]);
    }
}

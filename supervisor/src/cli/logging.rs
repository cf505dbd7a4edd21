//! Sends log lines to stderr, with secrets redacted and terminal control removed.

use super::arguments::Command;
use super::log_writer::LogWriter;
use super::print;
use proctor_core::bounds::LOG_LINE_BYTES_MAX;
use proctor_core::redact::redact;
use proctor_proto::printable;
use std::io::{self, IsTerminal, Write};

/// Where log lines go.
pub(super) enum LogOutput {
    /// To a queue: a daemon continues whatever happens to its stderr.
    Queued(LogWriter),
    /// Directly to stderr: a command whose user is reading along.
    Direct,
}

impl LogOutput {
    /// Initializes logging. A daemon logs its activity, a command only errors.
    pub(super) fn init(command: &Command) -> io::Result<LogOutput> {
        let default = if matches!(command, Command::Serve(serve) if !serve.private) { "info" } else { "error" };
        let filter = tracing_subscriber::EnvFilter::try_from_env("PROCTOR_LOG")
            .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        // With internal errors on, a failed write would be reported on stderr by a macro that panics if that fails.
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).log_internal_errors(false);
        if !matches!(command, Command::Serve(serve) if !serve.check) {
            lines.with_writer(|| Redacting(io::stderr())).init();
            return Ok(LogOutput::Direct);
        }
        let writer = LogWriter::open(io::stderr())?;
        let thread_writer = writer.clone();
        lines.with_writer(move || Redacting(thread_writer.clone())).init();
        // The default hook writes to stderr itself, which may block for ever and keep a crashed session from ending.
        std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        Ok(LogOutput::Queued(writer))
    }

    /// Reports why the process ends, independent of the log level.
    pub(super) fn report(&self, text: &str) {
        match self {
            LogOutput::Queued(writer) => writer.send(format!("{}\n", printable::coloured(text)).as_bytes()),
            // If stderr is not read, the exit status remains.
            LogOutput::Direct => print::message(text),
        }
    }

    /// Waits until all lines are written, within a limit.
    pub(super) fn finish(&self) {
        if let LogOutput::Queued(writer) = self {
            writer.finish();
        }
    }
}

// Each event arrives in one piece and leaves as one line: it may contain text of callers or projects.
struct Redacting<W>(W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Clipped before redaction, which takes time in proportion to the length.
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LOG_LINE_BYTES_MAX)]);
        let cut = if bytes.len() > LOG_LINE_BYTES_MAX { "…" } else { "" };
        let mut line = one_line(&redact(&format!("{}{cut}", text.trim_end_matches('\n'))));
        line.push('\n');
        self.0.write_all(line.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

// Escapes line ends and terminal control, but not colours.
fn one_line(text: &str) -> String {
    printable::coloured(text).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_known_secrets() {
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let mut written = Redacting(Vec::new());
        let line = format!("INFO run not started reason={secret} run=x\n");
        assert_eq!(written.write(line.as_bytes()).unwrap(), line.len());
        assert_eq!(written.0, b"INFO run not started reason=[redacted: github] run=x\n");
    }

    #[test]
    fn escapes_line_ends_and_terminal_control() {
        let mut written = Redacting(Vec::new());
        let line = "\x1b[32m INFO\x1b[0m reason=x\n2026 INFO forged\x1b[2J\r\n";
        assert_eq!(written.write(line.as_bytes()).unwrap(), line.len());
        written.write_all(&[b'x'; 100_000]).unwrap();
        let text = String::from_utf8(written.0).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "\x1b[32m INFO\x1b[0m reason=x\\n2026 INFO forged\\u{1b}[2J\\r");
        assert_eq!((lines.len(), lines[1].len()), (2, LOG_LINE_BYTES_MAX + "…".len()));
    }

    #[test]
    fn redacts_a_secret_cut_by_the_line_limit() {
        let (before, secret) = ("x".repeat(LOG_LINE_BYTES_MAX - 10), "ghp_".to_owned() + &"a1B2".repeat(9));
        let mut written = Redacting(Vec::new());
        written.write_all(format!("{before} {secret}\n").as_bytes()).unwrap();
        let text = String::from_utf8(written.0).unwrap();
        assert!(!text.contains("ghp_") && text.len() > LOG_LINE_BYTES_MAX - 10, "{}", &text[before.len()..]);
    }
}

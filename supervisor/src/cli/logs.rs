//! Logs: what the supervisor says on stderr, without secrets of a known form. Must not know what is logged.

use super::arguments::Command;
use proctor_core::redact::redact;
use std::io::{self, IsTerminal, Write};

/// Sends logs to stderr. A daemon tells what it does; a command at a terminal only what went wrong.
pub(super) fn begin(command: &Command) {
    let default = if matches!(command, Command::Serve(serve) if !serve.private) { "info" } else { "error" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("PROCTOR_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let writer = || Redacting(io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(writer).init();
}

// One event comes in one piece.
struct Redacting<W>(W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(redact(text).as_bytes())?,
            Err(_) => self.0.write_all(redact(&String::from_utf8_lossy(bytes)).as_bytes())?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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
}

//! Sends log lines to stderr, with secrets redacted and terminal control removed, and spans to the collector of traces.

use super::arguments::Command;
use super::log_writer::LogWriter;
use super::print;
use crate::config::TracesTable;
use crate::telemetry::traces::TARGET;
use crate::telemetry::traces::recording::Recording;
use crate::telemetry::traces::settings::TraceSettings;
use proctor_core::bounds::LOG_LINE_BYTES_MAX;
use proctor_core::redact::redact;
use proctor_proto::printable;
use std::io::{self, IsTerminal, Write};
use tracing_subscriber::filter::{Directive, LevelFilter};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Where log lines go.
enum LogOutput {
    /// To a queue: a daemon continues whatever happens to its stderr.
    Queued(LogWriter),
    /// Directly to stderr: a command whose user is reading along.
    Direct,
}

/// The log of this process, and its traces.
pub(super) struct Logs {
    output: LogOutput,
    recording: Option<Recording>,
}

impl Logs {
    /// Initializes logging and tracing. A daemon logs its activity, a command only errors.
    pub(super) fn init(command: &Command) -> io::Result<Logs> {
        let default = if matches!(command, Command::Serve(serve) if !serve.private) { "info" } else { "error" };
        let filter = EnvFilter::try_from_env("PROCTOR_LOG").unwrap_or_else(|_| EnvFilter::new(default));
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let output = match command {
            Command::Serve(serve) if !serve.check => LogOutput::Queued(LogWriter::open(io::stderr())?),
            _ => LogOutput::Direct,
        };
        let writer = match &output {
            LogOutput::Direct => BoxMakeWriter::new(|| Redacting(io::stderr())),
            LogOutput::Queued(writer) => {
                let writer = writer.clone();
                BoxMakeWriter::new(move || Redacting(writer.clone()))
            }
        };
        let (recording, problem) = match start_recording(command) {
            Ok(recording) => (recording, None),
            Err(problem) => (None, Some(problem)),
        };
        // With internal errors on, a failed write would be reported on stderr by a macro that panics if that fails.
        let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours).log_internal_errors(false);
        let (registry, filter) = (tracing_subscriber::registry(), without_spans(filter));
        match &recording {
            Some(recording) => registry.with(lines.with_filter(filter)).with(recording.layer()).init(),
            // One filter for all, and no layer: as an absent `Option` it would enable every callsite of every crate.
            None => registry.with(lines).with(filter).init(),
        }
        if matches!(output, LogOutput::Queued(_)) {
            // The default hook writes to stderr itself, which may block for ever and keep a crashed session from
            // ending.
            std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        }
        if let Some(problem) = problem {
            tracing::error!(problem, "no traces are recorded");
        }
        Ok(Logs { output, recording })
    }

    /// Reports why the process ends, independent of the log level.
    pub(super) fn report(&self, text: &str) {
        match &self.output {
            LogOutput::Queued(writer) => writer.send(format!("{}\n", printable::coloured(text)).as_bytes()),
            // If stderr is not read, the exit status remains.
            LogOutput::Direct => print::message(text),
        }
    }

    /// Waits until all spans are sent and all lines written, within a limit each.
    pub(super) fn finish(self) {
        if let Some(recording) = self.recording {
            recording.finish();
        }
        if let LogOutput::Queued(writer) = self.output {
            writer.finish();
        }
    }
}

/// Starts the recording of traces for a command that runs tests. The host file is read for it alone, before it is
/// checked.
fn start_recording(command: &Command) -> Result<Option<Recording>, String> {
    let table = match command {
        Command::Serve(serve) if serve.check => return Ok(None),
        Command::Serve(serve) => serve.config.as_deref().map(TracesTable::peek).unwrap_or_default(),
        Command::Run(_) => TracesTable::default(),
        _ => return Ok(None),
    };
    let settings = TraceSettings::resolve(&table, |name| std::env::var(name).ok())?;
    settings.map(|settings| Recording::start(&settings)).transpose()
}

/// A filter of log lines that leaves out the spans of traces, which would precede each line within them.
fn without_spans(filter: EnvFilter) -> EnvFilter {
    let off = format!("{TARGET}={}", LevelFilter::OFF).parse::<Directive>();
    // The directive is well-formed.
    off.map_or(filter.clone(), |off| filter.add_directive(off))
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

//! `proctor run`: one run of the workspace at hand, watched to its end. Must not know how it looks on a terminal.

use super::arguments::{Browser, Coverage, Network, Output, Run};
use super::last_run_store::Total;
use super::live_output::Live;
use super::progress_line::Progress;
use super::signals::Signals;
use super::{Failure, HOST, USAGE, in_process, print, terminal_report};
use crate::host::environment::check_env;
use crate::runs::prepare::PrepareError;
use crate::runs::{NotStarted, OutputFiles, RunEnd};
use crate::sessions::{SessionError, StartedRun};
use crate::workspace::Workspace;
use proctor_core::event::{RunEvent, Stream};
use proctor_core::filter::Filter;
use proctor_core::isolation;
use proctor_core::limits::LimitRequest;
use proctor_core::outcome::Evidence;
use proctor_core::report::{Report, Summary};
use proctor_core::request::{self, BrowserOptions, CoverageMode, IfBusy, RunKind, RunRequest, Selection};
use proctor_core::session::StartRejected;
use proctor_frameworks::detect::DetectError;
use proctor_proto::reason;
use proctor_proto::text::{self, Reader};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// Bytes of a stream that are shown at once.
const PART: usize = 256 * 1_024;

/// Carries out the command; the result is the exit status of the program.
pub(super) fn run(arguments: &Run) -> Result<u8, Failure> {
    let workspace = in_process::workspace(&arguments.path)?;
    let request = request(arguments, &workspace)?;
    in_process::runtime()?.block_on(watch(arguments, workspace, request))
}

async fn watch(arguments: &Run, workspace: Workspace, request: RunRequest) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (session, remembered) = in_process::session(workspace)?;
    let is_whole = request.selection.is_whole() && request.command.is_empty();
    let expected = if is_whole { remembered.total(request.framework.as_deref()) } else { None };
    let started = match session.start(request, RunKind::Tests, IfBusy::Queue).await {
        Ok(started) => started,
        Err(error) => return not_accepted(&error, arguments.output),
    };
    let mut screen = Screen::new(arguments, expected);
    let report = follow(&started, &session, &mut screen, &mut signals).await;
    screen.progress.clear();
    let report = report?;
    let memory = session.memory().await.map_err(|error| Failure::host(error.to_string()))?;
    let files = started.handle.files().await.map_err(|error| Failure::host(error.to_string()))?;
    screen.rest(&files);
    session.close().await;
    let printed = match arguments.output {
        Output::Human => print::answer(&terminal_report::report(&report, screen.output.is_some())),
        Output::Json => print::document(&*report),
    };
    // That the next command will not know of it is only a pity.
    if let Err(failure) = remembered.keep(&memory, &report, &files) {
        print::beside(&format!("proctor: this run is not remembered: {}", failure.text));
    } else if is_whole && !report.partial {
        remembered.keep_total(&Total { framework: report.framework.clone(), tests: report.summary.total });
    }
    printed?;
    Ok(report.outcome.exit_code(report.evidence.signal))
}

/// What a person sees of a run while it goes on.
struct Screen {
    progress: Progress,
    /// What a command writes, at a terminal.
    output: Option<Shown>,
}

/// The two streams of a command, as far as they have been shown.
#[derive(Default)]
struct Shown {
    stdout: (u64, Live),
    stderr: (u64, Live),
}

impl Screen {
    fn new(arguments: &Run, expected: Option<u64>) -> Screen {
        let (is_human, is_command) = (arguments.output == Output::Human, !arguments.command.is_empty());
        let work = if is_command { "running" } else { "building" };
        let is_visible = is_human && is_command && std::io::stdout().is_terminal();
        Screen { progress: Progress::new(is_human, expected, work), output: is_visible.then(Shown::default) }
    }

    fn show(&mut self, event: &RunEvent, files: Option<&OutputFiles>) {
        self.progress.show(event);
        if let (RunEvent::Output { stream, offset, len }, Some(files), Some(shown)) = (event, files, &mut self.output) {
            shown.until(offset + u64::from(*len), *stream, files, &self.progress);
        }
    }

    // Also what the run's log had no room for.
    fn rest(&mut self, files: &OutputFiles) {
        let Some(shown) = &mut self.output else { return };
        for stream in [Stream::Stdout, Stream::Stderr] {
            shown.until(files.output_len(stream), stream, files, &self.progress);
        }
        let (stdout, stderr) = (shown.stdout.1.rest(), shown.stderr.1.rest());
        self.progress.above(|| write_live(&stdout, &stderr));
    }
}

impl Shown {
    fn until(&mut self, end: u64, stream: Stream, files: &OutputFiles, progress: &Progress) {
        let (at, live) = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        while *at < end {
            let part = usize::try_from(end - *at).unwrap_or(usize::MAX).min(PART);
            // What cannot be read back is in no report either: the run goes on.
            let bytes = files.read_output(stream, *at, part).unwrap_or_default();
            *at += part as u64;
            let lines = live.take(&bytes);
            if lines.is_empty() {
                continue;
            }
            progress.above(|| match stream {
                Stream::Stdout => write_live(&lines, ""),
                Stream::Stderr => write_live("", &lines),
            });
        }
    }
}

// A terminal that has gone away takes its user along, and the run ends by a signal.
fn write_live(stdout: &str, stderr: &str) {
    _ = anstream::stdout().write_all(stdout.as_bytes());
    _ = anstream::stderr().write_all(stderr.as_bytes());
}

// A signal cancels; the run then ends by itself and its partial report is printed.
async fn follow(
    started: &StartedRun,
    session: &crate::sessions::SessionHandle,
    screen: &mut Screen,
    signals: &mut Signals,
) -> Result<Arc<Report>, Failure> {
    let _watch = started.handle.watch();
    let lost = || Failure::host("the session broke; see the log above");
    let mut cursor = 0;
    loop {
        let batch = tokio::select! {
            batch = started.handle.read(cursor) => batch.map_err(|_| lost())?,
            () = signals.any() => {
                _ = session.cancel(started.run.clone()).await;
                continue;
            }
        };
        let Some(last) = batch.last() else { break };
        cursor = last.sequence + 1;
        let files = match &screen.output {
            Some(_) => started.handle.files().await.ok(),
            None => None,
        };
        for entry in &batch {
            screen.show(&entry.event, files.as_ref());
        }
    }
    ended(started.handle.end().await.map_err(|_| lost())?)
}

/// The report of a run that has ended, or how one that never started ends a command.
pub(super) fn ended(end: RunEnd) -> Result<Arc<Report>, Failure> {
    match end {
        RunEnd::Report(report) => Ok(report),
        RunEnd::NotStarted(NotStarted::Prepare(error)) => Err(refused(&error)),
        RunEnd::NotStarted(why @ NotStarted::Invalid { .. }) => Err(Failure::usage(why.to_string())),
        RunEnd::NotStarted(why) => Err(Failure::host(why.to_string())),
    }
}

/// How a request that did not become a run ends a command.
pub(super) fn failure(error: &SessionError) -> Failure {
    match error {
        SessionError::Prepare(error) => refused(error),
        other => Failure::host(other.to_string()),
    }
}

fn not_accepted(error: &SessionError, output: Output) -> Result<u8, Failure> {
    match error {
        // Nothing to do is no failure: everything that failed has been mended.
        SessionError::Rejected(StartRejected::NothingToRerun { framework }) => {
            let note = text::nothing_to_rerun(framework, Reader::Person);
            match output {
                Output::Human => print::answer(&note)?,
                // Nothing ran, so it has come to no outcome. The same words as in what agents get, beside what programs read
                // of every report.
                Output::Json => print::document(&json!({
                    "nothing_ran": reason::NOTHING_TO_RERUN,
                    "outcome": null,
                    "exit_code": 0,
                    "raw_exit_code": null,
                    "framework": framework,
                    "summary": Summary::default(),
                    "partial": false,
                    "tests": [],
                    "collectors": [],
                    "artifacts": [],
                    "evidence": Evidence { notes: vec![note], ..Evidence::default() },
                }))?,
            }
            Ok(0)
        }
        SessionError::Rejected(StartRejected::NoRunYet) => {
            Err(Failure::usage("no run here yet: `proctor run` first, then --failed"))
        }
        other => Err(failure(other)),
    }
}

fn refused(error: &PrepareError) -> Failure {
    let text = match error {
        PrepareError::Detect(DetectError::NoProject) => {
            format!("{error}: name one with --framework NAME, or give a command after --")
        }
        PrepareError::Detect(DetectError::Polyglot { names }) => format!(
            "{} project types here ({}): pick one with --framework NAME, or run all with --framework all",
            names.len(),
            names.join(", ")
        ),
        _ => error.to_string(),
    };
    let code = match error {
        PrepareError::RunnerMissing { .. } => HOST,
        PrepareError::Detect(_)
        | PrepareError::Plan(_)
        | PrepareError::ProjectFile(_)
        | PrepareError::NetworkDenied
        | PrepareError::PathNotUtf8 => USAGE,
        PrepareError::WorkspaceReplaced | PrepareError::WorkspaceOwner { .. } | PrepareError::HostFailed { .. } => HOST,
    };
    Failure { code, text }
}

fn request(arguments: &Run, workspace: &Workspace) -> Result<RunRequest, Failure> {
    let limits = LimitRequest {
        memory_bytes: arguments.memory.map(|size| size.bytes),
        cpu_millis: arguments.cpus.map(|cpus| cpus.millis),
        pids: arguments.pids,
        wall_ms: arguments.timeout.map(|timeout| timeout.ms),
        disk_bytes: arguments.disk.map(|size| size.bytes),
    };
    limits.check().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(RunRequest {
        framework: arguments.framework.clone(),
        selection: selection(arguments, workspace)?,
        command: arguments.command.clone(),
        limits,
        network: Some(match arguments.network {
            Network::None => isolation::Network::None,
            Network::Host => isolation::Network::Host,
        }),
        coverage: match arguments.coverage {
            Coverage::Auto => CoverageMode::Auto,
            Coverage::Off => CoverageMode::Off,
        },
        env: env(&arguments.env)?,
        parallel: arguments.parallel,
        browsing: BrowserOptions {
            headed: arguments.headed,
            browser: arguments.browser.map(|browser| match browser {
                Browser::Chromium => request::Browser::Chromium,
                Browser::Firefox => request::Browser::Firefox,
                Browser::Webkit => request::Browser::Webkit,
            }),
        },
        fresh: arguments.fresh,
    })
}

fn selection(arguments: &Run, workspace: &Workspace) -> Result<Selection, Failure> {
    if arguments.failed {
        return Ok(Selection::LastFailed { limit: None });
    }
    let filter = Filter::parse(arguments.filter.as_deref().unwrap_or_default())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let files = arguments
        .file
        .iter()
        .map(|file| workspace.existing(file).map_err(|error| in_process::unseen("--file", &error)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(if filter.is_none() && files.is_empty() { Selection::All } else { Selection::Matching { filter, files } })
}

fn env(given: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut env = BTreeMap::new();
    for pair in given {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| Failure::usage(format!("--env: expected K=V, got {pair:?}")))?;
        env.insert(name.to_owned(), value.to_owned());
    }
    check_env(&env).map_err(|why| Failure::usage(format!("--env: {why}")))?;
    Ok(env)
}

//! `proctor run`: one run of a workspace, followed to its end.

use super::arguments::{Browser, Coverage, Network, RunArgs};
use super::event_lines::EventLines;
use super::last_run_store::{LastRunStore, Total};
use super::live_output::LiveOutput;
use super::progress_line::ProgressLine;
use super::report_arguments::RunOutput;
use super::report_documents::{OpenedFile, ShownRun};
use super::run_summary::RunView;
use super::signals::Signals;
use super::{CommandError, HOST, USAGE, in_process, print, report_documents, terminal_report, watch};
use crate::clock::Clock;
use crate::host::environment::check_env;
use crate::runs::prepare::PrepareError;
use crate::runs::{LoggedEvent, NotStarted, OutputFiles, RunEnd, analyze_run};
use crate::sessions::{SessionError, SessionHandle, StartedRun};
use crate::telemetry::traces::adopt_parent;
use crate::workspace::Workspace;
use proctor_core::bounds::ANALYSIS_PATTERNS_MAX;
use proctor_core::event::{RunEvent, Stream};
use proctor_core::filter::Filter;
use proctor_core::id::RunId;
use proctor_core::isolation;
use proctor_core::outcome::Evidence;
use proctor_core::repetition::Repetition;
use proctor_core::report::{Report, Summary};
use proctor_core::request::{self, BrowserOptions, CoverageMode, EarlierState, IfBusy, RunKind, RunRequest, Selection};
use proctor_core::session::StartRejected;
use proctor_core::test_name::TestName;
use proctor_core::test_order::TestOrder;
use proctor_frameworks::detection::DetectError;
use proctor_proto::reason;
use proctor_proto::report_format::ReportFormat;
use proctor_proto::text::{self, Reader};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// Chunk size for live output, in bytes.
const CHUNK_BYTES: usize = 256 * 1_024;

/// How long the command waits at its end, after the report is printed, until its run is in the history.
const HISTORY_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the command; returns the exit status of the program.
pub(super) fn run(arguments: &RunArgs) -> Result<u8, CommandError> {
    let workspace = in_process::workspace(&arguments.path)?;
    let request = request(arguments, &workspace)?;
    if arguments.watch && matches!(arguments.output, RunOutput::Report(_)) {
        return Err(CommandError::usage(
            "--watch prints no documents, as each run has one: name a file, such as --junit FILE",
        ));
    }
    let targets = report_documents::open_targets(&arguments.files);
    let runtime = in_process::runtime()?;
    // A pipeline that starts this command within a trace names it.
    let trace = adopt_parent(std::env::var("TRACEPARENT").ok().as_deref(), "proctor run");
    let followed = async {
        let mut signals = Signals::new()?;
        let (session, store) = in_process::session(workspace.clone())?;
        let terminal =
            Terminal { arguments, workspace: &workspace, targets: &targets, session: &session, store: &store };
        let status = match arguments.watch {
            true => watch::watch(&terminal, &request, &mut signals).await,
            false => run_in(&terminal, request, &mut signals).await.map(|ended| ended.exit_code()),
        };
        session.close().await;
        status
    };
    let status = runtime.block_on(followed.instrument(trace));
    if arguments.watch {
        // The thread that reads the keyboard does not end.
        runtime.shutdown_background();
    }
    status
}

/// Starts a run, follows it, prints its report, and stores it for later commands.
pub(super) async fn run_in(
    terminal: &Terminal<'_>,
    request: RunRequest,
    signals: &mut Signals,
) -> Result<Ended, CommandError> {
    let Terminal { arguments, workspace, targets, session, store } = *terminal;
    let is_rerun_of_failures = matches!(request.selection, Selection::LastFailed { .. });
    // Of a repeated run, the tests of all executions are counted.
    let is_complete = request.selection.is_whole() && request.command.is_empty() && request.repetition.is_once();
    let expected = if is_complete { store.total(request.framework.as_deref()) } else { None };
    let started = match session.start(request, RunKind::Tests, IfBusy::Queue).await {
        Ok(started) => started,
        Err(error) => return not_accepted(&error, arguments),
    };
    let mut screen = Screen::new(arguments, expected);
    let report = follow_run(&started, session, &mut screen, signals).await;
    screen.progress.clear();
    let report = report?;
    let memory = session.memory().await.map_err(|error| CommandError::host(error.to_string()))?;
    let files = started.handle.files().await.map_err(|error| CommandError::host(error.to_string()))?;
    screen.show_rest(&files);
    if report_documents::show_history(arguments) {
        // With this run in it.
        flush_history(session).await;
    }
    let run = ShownRun { run_id: started.run.as_str(), report: &report, workspace, index: &memory.index };
    let printed = match arguments.output {
        RunOutput::Human => {
            let analysis = analyze_run(&report, workspace, &Clock::new(), ANALYSIS_PATTERNS_MAX);
            let output_seen = screen.output.is_some();
            let is_partial = report.affected.as_ref().is_some_and(|affected| affected.left_out > 0);
            let is_rerun = is_rerun_of_failures || is_partial;
            let view = RunView { output_seen, workspace: &arguments.path, is_rerun, analysis: &analysis };
            print::text(&terminal_report::report(&report, &view))
        }
        RunOutput::Events => screen.events.map_or(Ok(()), EventLines::finish),
        RunOutput::Report(format) => report_documents::print(format, &run),
    };
    let written = report_documents::write_all(targets, &run);
    // A failure to store the result for later commands does not fail this one.
    if let Err(failure) = store.write(&memory, &report, &files) {
        print::message(&format!("proctor: this run is not stored for later commands: {}", failure.text));
    } else if is_complete && !report.is_scoped && !report.partial {
        store.write_total(&Total { framework: report.framework.clone(), tests: report.summary.total });
    }
    flush_history(session).await;
    store.write_plan(|| report_documents::render(ReportFormat::Optimization, &run));
    printed?;
    written?;
    Ok(Ended::Report(report))
}

// On a thread that may block: signals are still handled meanwhile.
pub(super) async fn flush_history(session: &SessionHandle) {
    let history = session.history();
    _ = tokio::task::spawn_blocking(move || history.flush(HISTORY_FLUSH_TIMEOUT)).await;
}

/// How a requested run ended.
pub(super) enum Ended {
    /// With a report, which was printed.
    Report(Arc<Report>),
    /// There was no failure to rerun.
    NothingToRun,
}

impl Ended {
    /// Exit status of the program.
    fn exit_code(&self) -> u8 {
        match self {
            Ended::Report(report) => report.outcome.exit_code(report.evidence.signal),
            Ended::NothingToRun => 0,
        }
    }
}

/// A session whose runs are followed and printed at a terminal.
#[derive(Clone, Copy)]
pub(super) struct Terminal<'a> {
    pub(super) arguments: &'a RunArgs,
    pub(super) workspace: &'a Workspace,
    /// The report files that were asked for, as they were before the first run.
    pub(super) targets: &'a [OpenedFile],
    pub(super) session: &'a SessionHandle,
    pub(super) store: &'a LastRunStore,
}

/// Executes a request in an open session and shows its progress.
pub(super) async fn execute(
    session: &SessionHandle,
    request: RunRequest,
    kind: RunKind,
    is_human: bool,
    signals: &mut Signals,
) -> Result<(RunId, Arc<Report>), ExecuteError> {
    let started = session.start(request, kind, IfBusy::Queue).await.map_err(ExecuteError::NotAccepted)?;
    let work = if kind == RunKind::Check { "checking" } else { "building" };
    let mut screen = Screen { progress: ProgressLine::new(is_human, None, work), output: None, events: None };
    let report = follow_run(&started, session, &mut screen, signals).await;
    screen.progress.clear();
    Ok((started.run, report.map_err(ExecuteError::Ended)?))
}

/// Why a request has no report.
pub(super) enum ExecuteError {
    /// It was refused.
    NotAccepted(SessionError),
    /// It ended without one.
    Ended(CommandError),
}

impl From<ExecuteError> for CommandError {
    fn from(error: ExecuteError) -> CommandError {
        match error {
            ExecuteError::NotAccepted(error) => failure(&error),
            ExecuteError::Ended(error) => error,
        }
    }
}

/// What a person sees of a run in progress.
struct Screen {
    progress: ProgressLine,
    /// Lines for a program instead.
    events: Option<EventLines>,
    /// Live output of a command, at a terminal.
    output: Option<StreamProgress>,
}

/// Progress in showing the two streams of a command.
#[derive(Default)]
struct StreamProgress {
    stdout: (u64, LiveOutput),
    stderr: (u64, LiveOutput),
}

impl Screen {
    fn new(arguments: &RunArgs, expected: Option<u64>) -> Screen {
        let (is_human, is_command) = (arguments.output == RunOutput::Human, !arguments.command.is_empty());
        let work = if is_command { "running" } else { "building" };
        let is_visible = is_human && is_command && std::io::stdout().is_terminal();
        Screen {
            progress: ProgressLine::new(is_human, expected, work),
            events: (arguments.output == RunOutput::Events).then(EventLines::default),
            output: is_visible.then(StreamProgress::default),
        }
    }

    fn show(&mut self, logged: &LoggedEvent, files: Option<&OutputFiles>) {
        let event = &logged.event;
        self.progress.show(event);
        if let Some(lines) = &mut self.events {
            lines.show(logged, files);
        }
        if let (RunEvent::Output { stream, offset, len }, Some(files), Some(streams)) = (event, files, &mut self.output)
        {
            streams.show_until(offset + u64::from(*len), *stream, files, &self.progress);
        }
    }

    // Shows the remaining output, including what the run's log had no room for.
    fn show_rest(&mut self, files: &OutputFiles) {
        let Some(streams) = &mut self.output else { return };
        for stream in [Stream::Stdout, Stream::Stderr] {
            streams.show_until(files.output_len(stream), stream, files, &self.progress);
        }
        let (stdout, stderr) = (streams.stdout.1.finish(), streams.stderr.1.finish());
        self.progress.above(|| write_live(&stdout, &stderr));
    }
}

impl StreamProgress {
    fn show_until(&mut self, end: u64, stream: Stream, files: &OutputFiles, progress: &ProgressLine) {
        let (at, live) = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        while *at < end {
            let chunk = usize::try_from(end - *at).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            // Output that cannot be read back is in no report either; the run continues.
            let bytes = files.read_output(stream, *at, chunk).unwrap_or_default();
            *at += chunk as u64;
            let lines = live.push(&bytes);
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

// Errors are ignored: if the terminal is closed, a signal ends the run.
fn write_live(stdout: &str, stderr: &str) {
    _ = anstream::stdout().write_all(stdout.as_bytes());
    _ = anstream::stderr().write_all(stderr.as_bytes());
}

// A signal cancels the run, which then ends by itself with a partial report.
async fn follow_run(
    started: &StartedRun,
    session: &SessionHandle,
    screen: &mut Screen,
    signals: &mut Signals,
) -> Result<Arc<Report>, CommandError> {
    let _watch = started.handle.watch();
    let crashed = || CommandError::host("the session crashed; see the log above");
    let mut cursor = 0;
    loop {
        let batch = tokio::select! {
            batch = started.handle.read(cursor) => batch.map_err(|_| crashed())?,
            () = signals.any() => {
                _ = session.cancel(started.run.clone()).await;
                continue;
            }
        };
        let Some(last) = batch.last() else { break };
        cursor = last.sequence + 1;
        let files = match screen.output.is_some() || screen.events.is_some() {
            true => started.handle.files().await.ok(),
            false => None,
        };
        for entry in &batch {
            screen.show(entry, files.as_ref());
        }
    }
    report_of(started.handle.end().await.map_err(|_| crashed())?)
}

/// The report of a run, or the error of a run that never started.
pub(super) fn report_of(end: RunEnd) -> Result<Arc<Report>, CommandError> {
    match end {
        RunEnd::Report(report) => Ok(report),
        RunEnd::NotStarted(NotStarted::Prepare(error)) => Err(prepare_failure(&error)),
        RunEnd::NotStarted(error @ NotStarted::Invalid { .. }) => Err(CommandError::usage(error.to_string())),
        RunEnd::NotStarted(error) => Err(CommandError::host(error.to_string())),
    }
}

/// The error of a request that was not accepted.
pub(super) fn failure(error: &SessionError) -> CommandError {
    match error {
        SessionError::Prepare(error) => prepare_failure(error),
        other => CommandError::host(other.to_string()),
    }
}

fn not_accepted(error: &SessionError, arguments: &RunArgs) -> Result<Ended, CommandError> {
    match error {
        // Nothing to rerun is not a failure: everything that failed has been fixed. No report is written, since there was no
        // run.
        SessionError::Rejected(StartRejected::NothingToRerun { framework }) => {
            let note = text::nothing_to_rerun(framework, Reader::Person);
            nothing_ran(reason::NOTHING_TO_RERUN, note, framework, arguments)
        }
        SessionError::Prepare(PrepareError::NothingAffected(affected)) => {
            let note = text::nothing_affected(&affected.since, affected.left_out);
            nothing_ran(reason::NOTHING_AFFECTED, note, "", arguments)
        }
        SessionError::Rejected(StartRejected::NoRunYet) => {
            Err(CommandError::usage("no run here yet: `proctor run` first, then --failed"))
        }
        other => Err(failure(other)),
    }
}

// Nothing ran, so there is no outcome. The note has the words that agents get, and the other fields are those that programs
// read in every report.
fn nothing_ran(reason: &str, note: String, framework: &str, arguments: &RunArgs) -> Result<Ended, CommandError> {
    match arguments.output {
        RunOutput::Human => print::text(&note)?,
        RunOutput::Report(ReportFormat::Json) => print::document(&json!({
            "nothing_ran": reason,
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
        RunOutput::Events | RunOutput::Report(_) => print::message(&note),
    }
    Ok(Ended::NothingToRun)
}

fn prepare_failure(error: &PrepareError) -> CommandError {
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
        PrepareError::RunnerMissing { .. } | PrepareError::CheckerMissing { .. } => HOST,
        PrepareError::Detect(_)
        | PrepareError::Plan(_)
        | PrepareError::ProjectFile(_)
        | PrepareError::NetworkDenied
        | PrepareError::NothingAffected(_)
        | PrepareError::NoChecker(_)
        | PrepareError::NothingToCheck { .. }
        | PrepareError::Since(_)
        | PrepareError::PathNotUtf8 => USAGE,
        PrepareError::WorkspaceReplaced | PrepareError::WorkspaceOwner { .. } | PrepareError::HostFailed { .. } => HOST,
    };
    CommandError { code, text }
}

fn request(arguments: &RunArgs, workspace: &Workspace) -> Result<RunRequest, CommandError> {
    let limits = arguments.resources.limits(arguments.timeout, arguments.disk)?;
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
            Coverage::On => CoverageMode::On,
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
        order: TestOrder::Project,
        repetition: Repetition {
            repeat: arguments.repeat.unwrap_or(1),
            until_different: arguments.until_different,
            retry_failed: arguments.retry_failed.unwrap_or(0),
        },
        check: None,
        stop_at_first_failure: false,
        replaced_file: None,
    })
}

fn selection(arguments: &RunArgs, workspace: &Workspace) -> Result<Selection, CommandError> {
    if arguments.failed {
        return Ok(Selection::LastFailed { limit: None });
    }
    if let Some(since) = &arguments.affected {
        let since = EarlierState::new(since).unwrap_or(EarlierState::LastRun);
        return Ok(Selection::Affected { since });
    }
    if !arguments.test.is_empty() {
        let names = TestName::parse_all(&arguments.test).map_err(|error| CommandError::usage(error.to_string()))?;
        return Ok(Selection::Named(names));
    }
    let filter = Filter::parse(arguments.filter.as_deref().unwrap_or_default())
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let files = arguments
        .file
        .iter()
        .map(|file| workspace.existing(file).map_err(|error| in_process::path_failure("--file", &error)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(if filter.is_none() && files.is_empty() { Selection::All } else { Selection::Matching { filter, files } })
}

fn env(variables: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let mut env = BTreeMap::new();
    for pair in variables {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| CommandError::usage(format!("--env: expected K=V, got {pair:?}")))?;
        env.insert(name.to_owned(), value.to_owned());
    }
    check_env(&env).map_err(|error| CommandError::usage(format!("--env: {error}")))?;
    Ok(env)
}

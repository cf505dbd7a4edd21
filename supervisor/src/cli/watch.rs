//! `proctor run --watch`: runs the tests, and again whenever a file of the workspace changes.
//!
//! After a change the tests that it may affect run first, if these are some of the project and not all, else those that failed; all
//! run if these pass. A file that changes during a run, and during the run that follows, is written by the tests themselves and starts no further
//! run.

use super::affected::affected_in;
use super::file_watcher::{Change, FileWatcher};
use super::run::{Ended, Terminal, run_in};
use super::signals::Signals;
use super::{CommandError, print};
use proctor_core::outcome::Outcome;
use proctor_core::request::{EarlierState, RunRequest, Selection};
use proctor_frameworks::FRAMEWORKS;
use proctor_proto::printable::line;
use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};
use tokio::sync::mpsc;

/// Changed files that a line names.
const NAMES_SHOWN: usize = 3;

/// What the keyboard does between runs.
const KEYS: &str = "Enter runs all tests, q Enter or Ctrl-C ends";

/// The same without a keyboard.
const CTRL_C: &str = "SIGINT ends";

/// What a person asks for on the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    RunAll,
    Quit,
}

/// What ended the wait between two runs.
enum Reason {
    Changed(Change),
    Key(Key),
    Signal,
}

/// Watches until a person quits. Returns the exit status of the last run.
pub(super) async fn watch(
    terminal: &Terminal<'_>,
    request: &RunRequest,
    signals: &mut Signals,
) -> Result<u8, CommandError> {
    let mut watcher = FileWatcher::start(terminal.workspace)?;
    let mut keys = Keyboard::open();
    let root = terminal.workspace.root();
    let mut written: BTreeSet<String> = terminal.targets.iter().filter_map(|target| target.path_below(root)).collect();
    let mut changed_during_last: BTreeSet<String> = BTreeSet::new();
    // Whether names of files were lost during the last run: tests that write so many files do so in each run.
    let mut lost_during_last = false;
    let mut first = First::All;
    loop {
        // What changed before the run is part of it.
        watcher.changed_so_far()?;
        let before = watcher.known().clone();
        let status = match run(terminal, request, &first, signals).await {
            Ok(run) => run,
            // A person is about to correct it: a mistake in the project file, a runner that is not installed yet.
            Err(error) => {
                print::message(&format!("proctor: {}", error.text));
                RunStatus { code: error.code, has_failures: false, is_cancelled: false }
            }
        };
        if status.is_cancelled {
            return Ok(status.code);
        }
        first = First::Affected { has_failures: status.has_failures };
        let during = watcher.changed_so_far()?;
        let is_lost = during.is_incomplete && !lost_during_last;
        lost_during_last = during.is_incomplete;
        let during: BTreeSet<String> =
            during.files.into_iter().filter(|file| before.contains(file) || is_source(file)).collect();
        written.extend(during.intersection(&changed_during_last).cloned());
        changed_during_last.clone_from(&during);
        let edited: BTreeSet<String> = during.difference(&written).cloned().collect();
        if is_lost || !edited.is_empty() {
            print::message(&format!("changed during the run: {}", names(&edited, is_lost)));
            continue;
        }
        let directories = watcher.refresh()?;
        let keyboard = if keys.is_open() { KEYS } else { CTRL_C };
        print::message(&format!("watching {directories} directories: {keyboard}"));
        loop {
            let reason = tokio::select! {
                changed = watcher.change() => Reason::Changed(changed?),
                key = keys.next() => Reason::Key(key),
                () = signals.any() => Reason::Signal,
            };
            match reason {
                Reason::Changed(Change { files, is_incomplete }) => {
                    let edited: BTreeSet<String> = files.difference(&written).cloned().collect();
                    if edited.is_empty() && !is_incomplete {
                        continue;
                    }
                    print::message(&format!("\nchanged: {}", names(&edited, is_incomplete)));
                }
                Reason::Key(Key::RunAll) => first = First::All,
                Reason::Key(Key::Quit) | Reason::Signal => return Ok(status.code),
            }
            break;
        }
    }
}

/// How a run, or two of them, ended.
struct RunStatus {
    code: u8,
    has_failures: bool,
    is_cancelled: bool,
}

/// What runs first.
enum First {
    All,
    /// The tests that a change may affect, or else those that failed in the run before.
    Affected {
        has_failures: bool,
    },
}

/// Runs some tests first, and then all unless these fail.
async fn run(
    terminal: &Terminal<'_>,
    request: &RunRequest,
    first: &First,
    signals: &mut Signals,
) -> Result<RunStatus, CommandError> {
    if let Some((what, selection)) = first_selection(terminal, request, first).await {
        print::message(&format!("running {what}, then all"));
        let some = RunRequest { selection, framework: None, parallel: None, ..request.clone() };
        // The files are to hold the run of all tests.
        let without_files = Terminal { targets: &[], ..*terminal };
        if let Ended::Report(report) = run_in(&without_files, some, signals).await? {
            let status = RunStatus::new(&report);
            // A test that is gone fails its rerun, and no longer the suite.
            let is_done = matches!(report.outcome, Outcome::Passed | Outcome::Failed | Outcome::NoTests);
            if status.has_failures || !is_done {
                return Ok(status);
            }
        }
    }
    match run_in(terminal, request.clone(), signals).await? {
        Ended::Report(report) => Ok(RunStatus::new(&report)),
        Ended::NothingToRun => Ok(RunStatus { code: 0, has_failures: false, is_cancelled: false }),
    }
}

/// What runs first, if that is less than all tests, and a name for it.
async fn first_selection(
    terminal: &Terminal<'_>,
    request: &RunRequest,
    first: &First,
) -> Option<(&'static str, Selection)> {
    let First::Affected { has_failures } = first else { return None };
    if !request.command.is_empty() {
        return None;
    }
    let since = EarlierState::LastRun;
    if request.selection == Selection::All && request.repetition.is_once() {
        // A fault is reported by the run of all tests.
        let affected = affected_in(terminal.session, terminal.workspace, &since).await.ok();
        if affected.is_some_and(|affected| affected.left_out() > 0 && !affected.targets.is_empty()) {
            return Some(("what the change may affect", Selection::Affected { since }));
        }
    }
    has_failures.then_some(("what failed", Selection::LastFailed { limit: None }))
}

impl RunStatus {
    fn new(report: &proctor_core::report::Report) -> RunStatus {
        RunStatus {
            code: report.outcome.exit_code(report.evidence.signal),
            has_failures: report.summary.failures() > 0 || !report.collectors.is_empty(),
            is_cancelled: report.outcome == Outcome::Cancelled,
        }
    }
}

/// Whether a framework reads such files. A new file of another kind during a run is what the run itself leaves.
fn is_source(file: &str) -> bool {
    let extension = file.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|it| FRAMEWORKS.iter().any(|framework| framework.manifest().extensions.contains(&it)))
}

/// The first of these files, and how many more there are. The names of some may be lost.
fn names(files: &BTreeSet<String>, is_incomplete: bool) -> String {
    let shown: Vec<_> = files.iter().take(NAMES_SHOWN).map(|file| line(file)).collect();
    let more = files.len() - shown.len();
    let more = match (more, is_incomplete) {
        (_, true) if shown.is_empty() => "files whose names the system lost".to_owned(),
        (_, true) => " and others".to_owned(),
        (0, false) => String::new(),
        (more, false) => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// Lines from the keyboard; none without a terminal.
struct Keyboard(Option<mpsc::Receiver<Key>>);

impl Keyboard {
    /// Reads in a thread of its own, which ends with the program: a read of a terminal cannot be interrupted.
    fn open() -> Keyboard {
        if !std::io::stdin().is_terminal() {
            return Keyboard(None);
        }
        // One key waits while a run is going on; further ones have the same meaning.
        let (sender, keys) = mpsc::channel(1);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                let key = if line.trim().eq_ignore_ascii_case("q") { Key::Quit } else { Key::RunAll };
                if sender.blocking_send(key).is_err() {
                    break;
                }
            }
        });
        Keyboard(Some(keys))
    }

    fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// The next key; never without a terminal.
    async fn next(&mut self) -> Key {
        match &mut self.0 {
            Some(keys) => match keys.recv().await {
                Some(key) => key,
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_first_changed_files() {
        let files = |all: &[&str]| names(&all.iter().map(|file| (*file).to_owned()).collect(), false);
        assert_eq!(files(&["a.go"]), "a.go");
        assert_eq!(files(&["a", "b", "c", "d", "e\n"]), "a, b, c and 2 more");
        assert_eq!(names(&BTreeSet::new(), true), "files whose names the system lost");
        assert_eq!(names(&["a.go".to_owned()].into(), true), "a.go and others");
    }
}

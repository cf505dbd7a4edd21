//! Runs the checkers on recorded runs of their tools. `goldens/checks/README.md` says how the recordings were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod plans;
#[path = "../support/want.rs"]
mod want;

use proctor_core::check::{CheckReport, CheckRequest, CheckerStatus, Finding};
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_frameworks::checks::{CHECKERS, CheckParser, Checker, choose};
use proctor_frameworks::{FileTree, Parser};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use want::want;

/// Number of random inputs for each recording.
const CASES: u32 = 16;

/// A recorded command.
#[derive(Debug, Clone)]
struct Recording {
    checker: &'static str,
    name: String,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit: Exit,
}

#[expect(clippy::disallowed_methods, reason = "recordings are files")]
fn recordings_of(checker: &'static str) -> Vec<Recording> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens/checks").join(checker);
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "exit"));
    let read = |file: PathBuf| Recording {
        checker,
        name: file.file_stem().unwrap().to_str().unwrap().to_owned(),
        stdout: std::fs::read(file.with_extension("stdout")).unwrap(),
        stderr: std::fs::read(file.with_extension("stderr")).unwrap(),
        exit: Exit::Code(std::fs::read_to_string(&file).unwrap().trim().parse().unwrap()),
    };
    files.into_iter().map(read).collect()
}

fn recordings() -> Vec<Recording> {
    CHECKERS.iter().flat_map(|checker| recordings_of(checker.manifest().name)).collect()
}

fn sample(checker: &dyn Checker) -> FileTree {
    let mut tree = FileTree::default();
    checker.manifest().sample.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
    tree
}

/// The parser of a check of the whole workspace with one command.
fn parser_of(checker: &str) -> CheckParser {
    let tree = sample(*CHECKERS.iter().find(|one| one.manifest().name == checker).unwrap());
    let request = CheckRequest { checkers: vec![checker.to_owned()], ..CheckRequest::default() };
    let (plan, parser) = choose(&tree, &request).unwrap().plan(&tree, &want(&Selection::All), &|_| true);
    assert_eq!(plan.steps.len(), 1, "{checker}");
    parser
}

/// The report of a command that prints this and ends so.
fn replay(checker: &str, stdout: &[&[u8]], stderr: &[u8], exit: Exit, killed: bool) -> CheckReport {
    let mut parser = parser_of(checker);
    let mut events = Vec::new();
    parser.step_started(0);
    stdout.iter().for_each(|bytes| parser.stdout(bytes, &mut events));
    parser.stderr(stderr, &mut events);
    parser.step_ended(exit, killed, &mut events);
    assert!(events.is_empty());
    parser.report()
}

impl Recording {
    fn replay(&self) -> CheckReport {
        replay(self.checker, &[&self.stdout], &self.stderr, self.exit, false)
    }
}

fn render(report: &CheckReport) -> String {
    let mut text = format!("{}\n", report.summary());
    for one in &report.checkers {
        writeln!(text, "{} {}: {} {}", one.checker, one.kind.name(), one.status.name(), one.status.text()).unwrap();
    }
    for Finding { file, range, rule, severity, message, fix, url, .. } in &report.findings {
        let (line, column, end_line, end_column) = (range.line, range.column, range.end_line, range.end_column);
        writeln!(text, "{file}:{line}:{column}-{end_line}:{end_column} {} [{rule}] {message:?} {url}", severity.name())
            .unwrap();
        if let Some(fix) = fix {
            writeln!(text, "  fix: {:?} safe: {}", fix.description, fix.is_safe).unwrap();
            for edit in &fix.edits {
                let at = edit.range;
                writeln!(text, "  edit: {}:{}-{}:{} {:?}", at.line, at.column, at.end_line, at.end_column, edit.text)
                    .unwrap();
            }
        }
    }
    report.notes.iter().for_each(|note| writeln!(text, "note: {note}").unwrap());
    text
}

#[test]
fn every_recording_is_read_as_its_snapshot_has_it() {
    for recording in recordings() {
        insta::assert_snapshot!(format!("{}-{}", recording.checker, recording.name), render(&recording.replay()));
    }
}

#[test]
fn every_checker_is_recorded_with_findings_without_and_with_broken_settings() {
    for checker in CHECKERS {
        let name = checker.manifest().name;
        let report = |case: &str| {
            let recording = recordings_of(name).into_iter().find(|one| one.name == case);
            recording.unwrap_or_else(|| panic!("{name} has no recording {case}")).replay()
        };
        let clean = report("clean");
        assert!(clean.is_clean(), "{name}: {}", render(&clean));
        let found = report("findings");
        assert!(!found.is_clean() && found.total() > 0, "{name}: {}", render(&found));
        let broken = report("broken");
        assert!(matches!(broken.checkers[0].status, CheckerStatus::Failed { .. }), "{name}: {}", render(&broken));
        assert!(!broken.is_clean());
    }
}

#[test]
fn only_the_recordings_without_findings_are_clean() {
    for recording in recordings() {
        // Biome and ruff check their own settings, so that they find a file where these leave out all others.
        let is_clean = ["clean", "excluded", "clean-ts5"].contains(&recording.name.as_str());
        assert_eq!(recording.replay().is_clean(), is_clean, "{} {}", recording.checker, recording.name);
    }
}

#[test]
fn a_command_that_proctor_or_a_signal_ended_has_failed() {
    for recording in recordings() {
        let Recording { checker, name, stdout, stderr, exit } = &recording;
        for (exit, killed) in [(*exit, true), (Exit::Signal(9), false)] {
            let report = replay(checker, &[stdout], stderr, exit, killed);
            assert!(matches!(report.checkers[0].status, CheckerStatus::Failed { .. }), "{checker} {name}");
            assert!(!report.is_clean());
        }
        let missing = replay(checker, &[], b"", Exit::NotStarted(2), false);
        assert!(matches!(missing.checkers[0].status, CheckerStatus::Missing { .. }) && !missing.is_clean());
    }
}

#[test]
fn a_command_that_never_ended_has_failed() {
    for checker in CHECKERS {
        let report = parser_of(checker.manifest().name).report();
        assert!(matches!(report.checkers[0].status, CheckerStatus::Failed { .. }) && !report.is_clean());
    }
}

/// Checkers whose output shows no end: only their exit status says that they reached it. The documents of `go vet` and
/// `go list` are one for each package.
const WITHOUT_END: [&str; 3] = ["mypy", "go-vet", "go-types"];

#[test]
fn an_output_without_its_end_is_not_clean() {
    for recording in recordings() {
        let Recording { checker, name, stdout, stderr, exit } = &recording;
        let whole = recording.replay();
        let mut run =
            proptest::test_runner::TestRunner::new(ProptestConfig { cases: CASES, ..ProptestConfig::default() });
        let property = |at: Index| {
            if stdout.is_empty() {
                return Ok(());
            }
            let cut = stdout.get(..at.index(stdout.len())).unwrap();
            let report = replay(checker, &[cut], stderr, *exit, false);
            // What follows the last line that counts is no part of the end.
            let may_be_whole = WITHOUT_END.contains(checker) || report.findings == whole.findings;
            prop_assert!(may_be_whole || !report.is_complete(), "{} {}: {}", checker, name, render(&report));
            prop_assert!(
                WITHOUT_END.contains(checker) || whole.is_clean() || !report.is_clean(),
                "{} {}: {}",
                checker,
                name,
                render(&report)
            );
            Ok(())
        };
        run.run(&any::<Index>(), property).unwrap_or_else(|error| panic!("{checker} {name}: {error}"));
    }
}

#[test]
fn no_output_at_all_is_clean_for_no_checker_but_mypy() {
    for checker in CHECKERS {
        let name = checker.manifest().name;
        assert_eq!(replay(name, &[], b"", Exit::Code(0), false).is_clean(), name == "mypy", "{name}");
    }
}

#[test]
fn pieces_are_read_as_the_whole() {
    for recording in recordings() {
        let Recording { checker, stdout, stderr, exit, .. } = &recording;
        let pieces: Vec<&[u8]> = stdout.chunks(7).collect();
        assert_eq!(replay(checker, &pieces, stderr, *exit, false), recording.replay());
    }
}

#[test]
fn files_outside_of_the_workspace_have_no_findings() {
    for recording in recordings().into_iter().filter(|one| one.name == "findings") {
        let Recording { checker, stdout, stderr, exit, .. } = &recording;
        let outside = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace("/workspace/", "/etc/");
            let names: BTreeSet<String> = recording.replay().findings.into_iter().map(|finding| finding.file).collect();
            let up = |text: String, name: &String| text.replace(name.as_str(), &format!("../../{name}"));
            names.iter().fold(text, up).into_bytes()
        };
        let report = replay(checker, &[&outside(stdout)], &outside(stderr), *exit, false);
        assert_eq!(report.findings, [], "{checker}");
        // Where the status alone says that something was found, it was found elsewhere.
        assert!(!report.is_clean() || *exit == Exit::Code(0), "{checker}: {}", render(&report));
    }
}

#[test]
fn lines_of_settings_and_plugins_before_a_document_are_no_part_of_it() {
    for checker in ["ruff", "pyright", "eslint", "biome"] {
        let recording = recordings_of(checker).into_iter().find(|one| one.name == "findings").unwrap();
        let stdout = [b"[plugin] 3 rules\n{x\n", recording.stdout.as_slice()].concat();
        let report = replay(checker, &[&stdout], &recording.stderr, recording.exit, false);
        assert_eq!(report, recording.replay(), "{checker}");
    }
}

#[test]
fn more_output_than_is_read_is_a_failure() {
    let mut parser = parser_of("ruff");
    let (spaces, mut events) = (vec![b' '; 1 << 20], Vec::new());
    parser.step_started(0);
    (0..9).for_each(|_| parser.stdout(&spaces, &mut events));
    parser.step_ended(Exit::Code(0), false, &mut events);
    assert_eq!(
        parser.report().checkers[0].status,
        CheckerStatus::Failed {
            reason: "it printed more than 8 MiB, and the rest was not read: name the files or directories to check"
                .to_owned()
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_output_is_read_and_makes_findings_in_the_workspace_only(
        which in any::<Index>(),
        at in any::<Index>(),
        noise in prop_oneof![proptest::collection::vec(any::<u8>(), 0..64), ".{0,20}".prop_map(String::into_bytes)],
        status in 0..4i32,
    ) {
        let all = recordings();
        let Recording { checker, stdout, stderr, .. } = &all[which.index(all.len())];
        let mut noisy = stdout.clone();
        let at = at.index(noisy.len() + 1);
        noisy.splice(at..(at + noise.len()).min(stdout.len()), noise.iter().copied());
        let report = replay(checker, &[&noisy], stderr, Exit::Code(status), false);
        for finding in &report.findings {
            let file = &finding.file;
            prop_assert!(!file.starts_with('/') && file.split('/').all(|part| part != ".." && !part.is_empty()), "{}", file);
            prop_assert!(!file.chars().any(char::is_control), "{:?}", file);
        }
        prop_assert_eq!(report.severities.total(), report.findings.len() as u64 + report.omitted);
    }
}

//! Recordings of the Maven adapter: the console and the report of each run.

use crate::jvm;
use crate::recording::{Channel, Killed, Recordings, Replay, Run};
use crate::render::{self, BRIEF, Detail, Style};
use proctor_core::outcome::Exit;
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::Framework;
use proctor_frameworks::runners::maven::Maven;

const TESTS: &[&str] =
    &["Alive", "Before", "Calc", "Exit", "Greet", "Hang", "Ng", "Old", "SetUp", "Bad", "Plain", "Three"];

const STYLE: Style = Style {
    suffix: |test| format!(" of {}", test.package),
    stack: Detail::Omitted,
    output: Detail::Whole,
    collector_output: Detail::Whole,
    ..BRIEF
};

pub(crate) static MAVEN: Recordings = Recordings {
    channels: &[("out", Channel::Stdout), ("report", Channel::Report)],
    workspace: |_| jvm::tree("pom.xml", TESTS),
    render: |replay| STYLE.render(&replay.events) + &render::conclusions(replay),
    unproven_bytes: |report| report.len() - 1,
    runs: &[(0, "pass nothing"), (1, "fail junit4 testng modules builderror crash offline badpom stopped")],
    killed: &[Killed {
        name: "hang-killed",
        passed: "com.example.AliveTest#holds",
        running: ("src/test/java/com/example/HangTest.java", "com.example.HangTest"),
    }],
    listings: &["list-fail", "list-junit4"],
    proof: &[
        ("\0token end \nsuccess\0", "\0"),
        ("token end", "nobody end"),
        ("ran \n4 0", "ran \n5 0"),
        (r#"tests="4""#, r#"tests="5""#),
    ],
    ..Recordings::of(&Maven)
};

/// The last record of a successful run.
const END: &[u8] = b"token end \nsuccess\0";

/// A run that exits with 0, of the console of the run `pass` and pieces of a report.
fn reported(report: &[&[u8]]) -> Run {
    let pass = MAVEN.run("pass");
    let report = report.iter().map(|piece| (Channel::Report, *piece));
    Run::new(&std::iter::once((Channel::Stdout, pass.bytes(0))).chain(report).collect::<Vec<_>>(), Exit::Code(0))
}

#[test]
fn a_listing_without_an_end_record_has_no_proof() {
    let listing = MAVEN.load("list-fail", 0).listing();
    let without = listing.with_last(listing.last().strip_suffix(END).unwrap());
    assert!(!MAVEN.replay(&listing).is_unproven() && MAVEN.replay(&without).is_unproven());
}

#[test]
fn no_forged_record_or_line_makes_a_run_green() {
    let (pass, fail) = (MAVEN.run("pass"), MAVEN.run("fail"));
    let report = pass.last();
    let without_end = report.strip_suffix(END).unwrap();
    let is_unproven = |report: &[&[u8]]| MAVEN.replay(&reported(report)).is_unproven();
    assert!(is_unproven(&[without_end]));
    assert!(is_unproven(&[without_end, b"end \nsuccess\0"]), "a test does not know the token");
    assert!(is_unproven(&[b"x file a\n\0", report]), "a test wrote");
    assert!(!is_unproven(&[report]));
    // Printing a success does not undo a test's failure.
    let forged = [b"[INFO] BUILD SUCCESS\n[INFO] Tests run: 9, Failures: 0\n", fail.bytes(0)].concat();
    let channels = [(Channel::Stdout, &forged[..]), (Channel::Report, fail.last())];
    assert!(MAVEN.replay(&Run::new(&channels, Exit::Code(0))).has_failure());
}

#[test]
fn a_test_that_passed_when_surefire_reran_it_is_flaky() {
    let report: &[u8] =
        b"begin \ntoken\0token file target/surefire-reports/TEST-com.example.ATest.xml\n<testsuite tests='1' failures='0'><testcase \
        classname='com.example.ATest' name='adds'><flakyFailure type='x'/></testcase></testsuite>\0token ran \n1 0\0\
        token end \nsuccess\0";
    let replay = MAVEN.replay(&reported(&[report]));
    assert_eq!((replay.events.len(), replay.flaky, replay.is_unproven()), (1, 1, false));
    assert!(replay.summary.notes.iter().any(|note| note.contains("adds passed after 1 failed attempt(s)")));
}

/// Surefire writes the result of a class after each attempt, and the file may be read between two attempts.
#[test]
fn does_not_report_the_result_of_an_attempt_that_was_repeated() {
    let file = |result: &str| {
        format!(
            "token file target/surefire-reports/TEST-com.example.ATest.xml\n<testsuite tests='1'><testcase \
             classname='com.example.ATest' name='adds'>{result}</testcase></testsuite>\0"
        )
    };
    let mut tree = jvm::tree("pom.xml", &["A"]);
    tree.add_with_content("pom.xml", "<rerunFailingTestsCount>1</rerunFailingTestsCount>");
    let run = |results: &[&str]| {
        let report: String = results.iter().map(|result| file(result)).collect();
        reported(&[b"begin \ntoken\0", report.as_bytes(), END])
    };
    let outcomes = |run: &Run| {
        let replay = MAVEN.replay_in(&tree, run);
        assert_eq!(replay.events.len(), replay.finished().count(), "{:?}", replay.events);
        (replay.finished().map(|test| test.outcome).collect::<Vec<_>>(), replay.flaky)
    };
    let (failed, flaky) = ("<failure type='x'/>", "<flakyFailure type='x'/>");
    assert_eq!(outcomes(&run(&[failed, flaky])), (vec![TestOutcome::Passed], 1));
    let mut once = run(&[failed]);
    assert_eq!(outcomes(&once.clone().killed()), (vec![TestOutcome::Failed], 0), "what is known stays");
    once.steps[0].exit = Exit::Code(1);
    assert_eq!(outcomes(&once), (vec![TestOutcome::Failed], 0));
}

/// In parallel, JUnit 4 does not report the tests that it skips.
#[test]
fn a_run_that_may_have_stopped_after_failures_is_incomplete() {
    let mut tree = jvm::tree("pom.xml", &["Greet"]);
    let mut unreached = |count: &str| {
        tree.add_with_content("pom.xml", format!("<skipAfterFailureCount>{count}</skipAfterFailureCount>"));
        let request = crate::want::want(&proctor_core::request::Selection::All);
        let notes = Maven.plan(&Maven.detect(&tree), &tree, &request).unwrap().notes.len();
        let is_unreached = |name| {
            let mut run = MAVEN.run(name);
            run.steps[0].exit = Exit::Code(1);
            MAVEN.replay_in(&tree, &run).summary.unreached
        };
        (is_unreached("fail"), is_unreached("pass"), notes)
    };
    assert_eq!(unreached("5"), (true, false, 1), "five failed");
    assert_eq!(unreached("6"), (false, false, 1));
    assert_eq!(unreached("${most}"), (true, false, 1), "it may be the first");
    assert_eq!(unreached("0"), (false, false, 0), "it is turned off");
}

#[test]
fn reports_a_file_once_that_comes_twice() {
    let pass = MAVEN.run("pass");
    let twice = reported(&[pass.last().strip_suffix(END).unwrap(), pass.last()]);
    assert_eq!(MAVEN.replay(&twice).events, MAVEN.replay(&pass).events);
}

/// Any process beside Surefire can rewrite and remove its files.
#[test]
fn files_with_fewer_tests_or_failures_than_surefire_counted_are_no_proof() {
    let report = String::from_utf8(MAVEN.run("pass").last().to_vec()).unwrap();
    let counted = |count: &str| -> Replay {
        MAVEN.replay(&reported(&[report.replace("ran \n4 0", &format!("ran \n{count}")).as_bytes()]))
    };
    for (count, noted) in
        [("5 0", "counted 5 test(s), 0 of them failed, and its files have 4 and 0"), ("4 1", "4 and 0")]
    {
        let summary = counted(count).summary;
        assert!(summary.proof.is_missing() && summary.notes.iter().any(|note| note.contains(noted)), "{summary:?}");
    }
    // An old Surefire does not log its counts through Maven.
    assert!(!counted("").is_unproven());
}

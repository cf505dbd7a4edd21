//! The output of linters and type checkers.
//!
//! The first byte is the number of the checker, the second the exit status as a digit; standard output and standard
//! error follow, separated as sections are.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proctor_core::outcome::Exit;
use proctor_frameworks::Parser;
use proctor_fuzz::input::SEPARATOR;
use proctor_fuzz::subject::check_parser;

fuzz_target!(|bytes: &[u8]| {
    let [checker, status, rest @ ..] = bytes else { return };
    let (mut parser, mut events) = (check_parser(usize::from(*checker)), Vec::new());
    let mut streams = rest.splitn(2, |byte| *byte == SEPARATOR);
    parser.step_started(0);
    parser.stdout(streams.next().unwrap_or_default(), &mut events);
    parser.stderr(streams.next().unwrap_or_default(), &mut events);
    parser.step_ended(Exit::Code(i32::from(status % 10)), false, &mut events);
    let report = parser.report();
    assert!(events.is_empty());
    assert_eq!(report.total(), report.findings.len() as u64 + report.omitted);
    for finding in &report.findings {
        let file = &finding.file;
        assert!(!file.starts_with('/') && file.split('/').all(|part| !part.is_empty() && part != ".."), "{file:?}");
        assert!(!file.chars().any(char::is_control), "{file:?}");
    }
});

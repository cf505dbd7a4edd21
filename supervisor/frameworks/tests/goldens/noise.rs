//! Feeds parsers with bytes that no runner wrote.

use crate::recording::Recordings;
use proctor_core::outcome::Exit;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

/// Bytes made of `lines`, which resemble the runner's own, and of others reach no panic, and no test is left running.
pub(crate) fn no_bytes_make_the_parser_panic(recordings: &Recordings, lines: impl Strategy<Value = Vec<u8>>) {
    let noise = prop::collection::vec(any::<u8>(), 0..30);
    let bytes = prop::collection::vec(prop_oneof![4 => lines, 1 => noise], 0..40).prop_map(|parts| parts.concat());
    let inputs = (bytes, any::<Index>(), 0_usize..8, any::<bool>());
    TestRunner::default()
        .run(&inputs, |(bytes, at, step, killed)| {
            let (mut parser, mut events) = (recordings.parser(), Vec::new());
            let (head, tail) = bytes.split_at(at.index(bytes.len() + 1));
            parser.step_started(step);
            parser.stdout(head, &mut events);
            parser.stderr(&bytes, &mut events);
            parser.stdout(tail, &mut events);
            parser.step_ended(Exit::Code(2), killed, &mut events);
            parser.follow_up();
            parser.summary();
            prop_assert!(killed || parser.running().is_empty());
            Ok(())
        })
        .unwrap();
}

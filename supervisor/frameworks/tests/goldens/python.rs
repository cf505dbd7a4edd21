//! Recordings of the two Python adapters.

use crate::recording::{Channel, Killed, Recordings, Run};
use proctor_core::outcome::Exit;
use proctor_frameworks::runners::pytest::Pytest;
use proctor_frameworks::runners::unittest::Unittest;

/// Removes the end record, its counts, or their agreement.
const PROOF: &[(&str, &str)] = &[
    (r#"{"event": "end","#, r#"{"event": "note", "text": "x","#),
    (r#", "left": 0}"#, "}"),
    (r#""end", "tests": "#, r#""end", "tests": 1"#),
    (r#""left": 0"#, r#""left": 1"#),
];

pub(crate) static PYTEST: Recordings = Recordings {
    runs: &[
        (0, "pass crash stops"),
        (
            1,
            "fail error skip workers unicode fail-pytest7 error-pytest7 skip-pytest7 workers-pytest7 fail-parallel doctest",
        ),
        (2, "collection collection-pytest7"),
        (3, "breaks"),
        (4, "conftest conftest-pytest7"),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "test_hang.py::test_ends",
        running: ("test_hang.py", "test_hangs"),
    }],
    listings: &["list"],
    proof: PROOF,
    ..Recordings::of(&Pytest)
};

pub(crate) static UNITTEST: Recordings = Recordings {
    runs: &[(0, "pass skip crash"), (1, "fail error collection unicode brought others"), (5, "functions")],
    killed: &[Killed {
        name: "hang-killed",
        passed: "test_hang.TestHang.test_a_ends",
        running: ("test_hang.py", "TestHang.test_b_hangs"),
    }],
    listings: &["list"],
    proof: PROOF,
    ..Recordings::of(&Unittest)
};

#[test]
fn reports_a_missing_pytest_with_a_remedy() {
    let stderr = b"/workspace/.venv/bin/python: No module named pytest\n";
    let replay = PYTEST.replay(&Run::new(&[(Channel::Stderr, stderr)], Exit::Code(1)));
    assert!(replay.summary.runner_missing && replay.events.is_empty(), "{:?}", replay.events);
    assert!(replay.summary.notes[0].contains(".venv/bin/pip install pytest"), "{:?}", replay.summary.notes);
}

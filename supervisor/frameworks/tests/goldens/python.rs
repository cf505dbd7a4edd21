//! Recordings of the two Python adapters.

use crate::recording::{Channel, Killed, Recordings, Run};
use proctor_core::outcome::Exit;
use proctor_frameworks::runners::pytest::Pytest;
use proctor_frameworks::runners::unittest::Unittest;

pub(crate) static PYTEST: Recordings = Recordings {
    runs: &[
        ("pass", 0),
        ("fail", 1),
        ("error", 1),
        ("skip", 1),
        ("collection", 2),
        ("conftest", 4),
        ("crash", 0),
        ("stops", 0),
        ("breaks", 3),
        ("workers", 1),
        ("unicode", 1),
        ("fail-pytest7", 1),
        ("error-pytest7", 1),
        ("skip-pytest7", 1),
        ("collection-pytest7", 2),
        ("conftest-pytest7", 4),
        ("workers-pytest7", 1),
        ("fail-parallel", 1),
        ("doctest", 1),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "test_hang.py::test_ends",
        running: ("test_hang.py", "test_hangs"),
    }],
    listings: &["list"],
    ..Recordings::of(&Pytest)
};

pub(crate) static UNITTEST: Recordings = Recordings {
    runs: &[
        ("pass", 0),
        ("fail", 1),
        ("error", 1),
        ("skip", 0),
        ("collection", 1),
        ("crash", 0),
        ("unicode", 1),
        ("brought", 1),
        ("others", 1),
        ("functions", 5),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "test_hang.TestHang.test_a_ends",
        running: ("test_hang.py", "TestHang.test_b_hangs"),
    }],
    listings: &["list"],
    ..Recordings::of(&Unittest)
};

#[test]
fn reports_a_missing_pytest_with_a_remedy() {
    let stderr = b"/workspace/.venv/bin/python: No module named pytest\n";
    let replay = PYTEST.replay(&Run::new(&[(Channel::Stderr, stderr)], Exit::Code(1)));
    assert!(replay.summary.runner_missing && replay.events.is_empty(), "{:?}", replay.events);
    assert!(replay.summary.notes[0].contains(".venv/bin/pip install pytest"), "{:?}", replay.summary.notes);
}

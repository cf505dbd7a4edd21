//! Recordings of PHPUnit.

use crate::recording::{Killed, Recordings};
use proctor_frameworks::runners::phpunit::Phpunit;

pub(crate) static PHPUNIT: Recordings = Recordings {
    runs: &[
        (0, "crash pass pass-phpunit11 pass-phpunit13 skip skip-phpunit11 skip-phpunit13"),
        (1, "risky risky-phpunit11 stops stops-phpunit11 teardown"),
        (
            2,
            "collection error error-phpunit11 error-phpunit13 fail fail-phpunit11 fail-phpunit13 provider provider-phpunit11 provider-phpunit13 teardown-phpunit11 unicode unicode-phpunit13",
        ),
    ],
    killed: &[
        Killed {
            name: "hang-killed",
            passed: "tests/HangTest.php::HangTest::testEnds",
            running: ("tests/HangTest.php", "HangTest::testHangs"),
        },
        Killed {
            name: "hang-killed-phpunit11",
            passed: "tests/HangTest.php::HangTest::testEnds",
            running: ("tests/HangTest.php", "HangTest::testHangs"),
        },
    ],
    listings: &["list", "list-phpunit11"],
    ..Recordings::of(&Phpunit)
};

//! Recordings of PHPUnit.

use crate::recording::{Killed, Recordings};
use proctor_frameworks::runners::phpunit::Phpunit;

pub(crate) static PHPUNIT: Recordings = Recordings {
    runs: &[
        ("collection", 2),
        ("crash", 0),
        ("error", 2),
        ("error-phpunit11", 2),
        ("error-phpunit13", 2),
        ("fail", 2),
        ("fail-phpunit11", 2),
        ("fail-phpunit13", 2),
        ("pass", 0),
        ("pass-phpunit11", 0),
        ("pass-phpunit13", 0),
        ("provider", 2),
        ("provider-phpunit11", 2),
        ("provider-phpunit13", 2),
        ("risky", 1),
        ("risky-phpunit11", 1),
        ("skip", 0),
        ("skip-phpunit11", 0),
        ("skip-phpunit13", 0),
        ("stops", 1),
        ("stops-phpunit11", 1),
        ("teardown", 1),
        ("teardown-phpunit11", 2),
        ("unicode", 2),
        ("unicode-phpunit13", 2),
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

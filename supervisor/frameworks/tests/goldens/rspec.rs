//! Recordings of RSpec.

use crate::recording::{Killed, Recordings};
use proctor_frameworks::runners::rspec::Rspec;

pub(crate) static RSPEC: Recordings = Recordings {
    runs: &[
        ("collection", 1),
        ("collection-rspec313", 1),
        ("crash", 0),
        ("dryrun", 0),
        ("error", 1),
        ("error-rspec313", 1),
        ("fail", 1),
        ("fail-rspec313", 1),
        ("pass", 0),
        ("skip", 0),
        ("skip-rspec313", 0),
        ("stops", 1),
        ("suite", 1),
        ("syntax", 1),
        ("teardown", 1),
        ("teardown-rspec313", 1),
        ("unicode", 1),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "spec/hang_spec.rb > hang > a ends",
        running: ("spec/hang_spec.rb", "hang > b hangs"),
    }],
    listings: &["list"],
    ..Recordings::of(&Rspec)
};

//! Recordings of RSpec.

use crate::recording::{Killed, Recordings};
use proctor_frameworks::runners::rspec::Rspec;

pub(crate) static RSPEC: Recordings = Recordings {
    runs: &[
        (0, "crash dryrun pass skip skip-rspec313"),
        (
            1,
            "collection collection-rspec313 error error-rspec313 fail fail-rspec313 stops suite syntax teardown teardown-rspec313 unicode",
        ),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "spec/hang_spec.rb > hang > a ends",
        running: ("spec/hang_spec.rb", "hang > b hangs"),
    }],
    listings: &["list"],
    ..Recordings::of(&Rspec)
};

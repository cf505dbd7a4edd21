//! Expected results of RSpec's fixtures.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "rspec", ..Row::PASSED };
const FAILED: Row = Row { framework: "rspec", ..Row::FAILED };

const CALLED: &str = "(Double \"recorder\").note(*(any args))\n    expected: 1 time with any arguments\n    \
                      received: 0 times with any arguments";

const LISTED: &str = "expected collection contained:  [1, 3]\nactual collection contained:    [1, 2]\n\
                      the missing elements were:      [3]\nthe extra elements were:        [2]";

/// The rows. RSpec exits with 1, whatever failed.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "rspec/pass",
        tests: &[
            Case::passed("spec/calc_spec.rb > Calc > .add > adds two numbers"),
            Case::passed("spec/calc_spec.rb > Calc > .add > adds 0 cents"),
            Case::passed("spec/calc_spec.rb > Calc > .add > adds 99 cents"),
            Case::passed("spec/text/shout_spec.rb > Calc.shout > example [1:1]"),
        ],
        ..PASSED
    },
    // The project has a Gemfile.lock, so Bundler sets up its gems.
    Row {
        name: "bundled",
        fixture: "rspec/bundled",
        tests: &[Case::passed("spec/bundled_spec.rb > Bundler > has set itself up")],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "rspec/fail",
        tests: &[
            Case::passed("spec/shout_spec.rb > shout > holds"),
            Case::failed("spec/shout_spec.rb > shout > differs")
                .at("spec/shout_spec.rb", 10)
                .with_message("expected: \"a\"\n     got: \"A\"")
                .with_values("\"a\"", "\"A\""),
            Case::failed("spec/shout_spec.rb > shout > lacks a part")
                .at("spec/shout_spec.rb", 14)
                .with_message("expected [\"B\"] to include \"b\""),
            Case::failed("spec/shout_spec.rb > shout > lists others")
                .at("spec/shout_spec.rb", 18)
                .with_message(LISTED)
                .with_values("[1, 3]", "[1, 2]"),
            Case::failed("spec/shout_spec.rb > shout > raises in the source")
                .at("lib/shout.rb", 2)
                .with_message("ArgumentError: nothing to shout"),
            Case::failed("spec/shout_spec.rb > shout > needs what cannot be made")
                .at("spec/shout_spec.rb", 2)
                .with_message("IOError: no fixture"),
            Case::failed("spec/shout_spec.rb > shout > fails twice")
                .at("spec/shout_spec.rb", 30)
                .with_message("expected: 2\n     got: 1\n(and 1 more)")
                .with_values("2", "1"),
            Case::failed("spec/shout_spec.rb > shout > is not called")
                .at("spec/shout_spec.rb", 36)
                .with_message(CALLED),
            Case::failed("spec/shout_spec.rb > shout > was to fail")
                .at("spec/shout_spec.rb", 39)
                .with_message("Expected example to fail since it is pending, but it passed."),
            Case::failed("spec/shout_spec.rb > shout > with a nil > example [1:10:1]")
                .at("spec/shout_spec.rb", 47)
                .with_message("expected: nil\n     got: \"C\"")
                .with_values("nil", "\"C\""),
            Case::passed("spec/shout_spec.rb > shout > has a twin"),
            Case::failed("spec/shout_spec.rb > shout > has a twin (2)")
                .at("spec/shout_spec.rb", 55)
                .with_message("expected `\"twin\".empty?` to be truthy, got false"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "rspec/error",
        tests: &[
            Case::passed("spec/error_spec.rb > errors > holds"),
            Case::error("spec/error_spec.rb > errors > before each > never begins")
                .at("spec/error_spec.rb", 7)
                .with_message("IOError: no database"),
            Case::error("spec/error_spec.rb > errors > before all > has no group")
                .at("spec/error_spec.rb", 14)
                .with_message("IOError: no group"),
            Case::error("spec/error_spec.rb > errors > before all > has none either")
                .at("spec/error_spec.rb", 14)
                .with_message("IOError: no group"),
            Case::error("spec/error_spec.rb > errors > after each > cannot be undone")
                .at("spec/error_spec.rb", 24)
                .with_message("IOError: cannot be removed"),
        ],
        ..FAILED
    },
    // A hook after all examples of a group belongs to no example.
    Row {
        name: "teardown",
        fixture: "rspec/teardown",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        tests: &[Case::passed("spec/teardown_spec.rb > teardown > holds")],
        collectors: &[Collector::collection(
            "spec/teardown_spec.rb",
            "failed outside of its examples: IOError: cannot be removed",
        )
        .at("spec/teardown_spec.rb", 2)],
        ..FAILED
    },
    // A hook before all examples: none of them runs.
    Row {
        name: "suite",
        fixture: "rspec/suite",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        unreached: true,
        collectors: &[Collector::collection(
            "spec/suite_spec.rb",
            "failed outside of its examples: IOError: no server",
        )
        .at("spec/suite_spec.rb", 2)],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "rspec/skip",
        tests: &[
            Case::passed("spec/skip_spec.rb > skips > holds"),
            Case::skipped("spec/skip_spec.rb > skips > is marked")
                .at("spec/skip_spec.rb", 6)
                .with_message("needs a moon phase"),
            Case::skipped("spec/skip_spec.rb > skips > skips inside")
                .at("spec/skip_spec.rb", 9)
                .with_message("no moon today"),
            Case::skipped("spec/skip_spec.rb > skips > is crossed out")
                .at("spec/skip_spec.rb", 13)
                .with_message("Temporarily skipped with xit"),
            Case::xfailed("spec/skip_spec.rb > skips > is expected to fail")
                .at("spec/skip_spec.rb", 16)
                .with_message("bug 7"),
            Case::skipped("spec/skip_spec.rb > skips > is not written yet")
                .at("spec/skip_spec.rb", 21)
                .with_message("Not yet implemented"),
        ],
        ..PASSED
    },
    // RSpec loads all files and runs nothing when one fails.
    Row {
        name: "collection",
        fixture: "rspec/collection",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        unreached: true,
        collectors: &[
            Collector::collection("spec/import_spec.rb", "LoadError: cannot load such file -- nowhere")
                .at("spec/import_spec.rb", 1),
            Collector::collection("spec/raises_spec.rb", "ArgumentError: cannot be loaded").at("lib/broken.rb", 1),
        ],
        ..FAILED
    },
    // `--fail-fast` in the project's options.
    Row {
        name: "stops",
        fixture: "rspec/stops",
        unreached: true,
        tests: &[Case::failed("spec/stops_spec.rb > stops > a fails")
            .at("spec/stops_spec.rb", 3)
            .with_message("RuntimeError: enough")],
        ..FAILED
    },
    // `--dry-run` in the project's options: RSpec says that all examples passed, and ran none.
    Row { name: "dryrun", fixture: "rspec/dryrun", raw_exit_code: Some(0), unreached: true, ..FAILED },
    Row {
        name: "hang",
        fixture: "rspec/hang",
        options: RunOptions { timeout_s: Some(10), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("spec/hang_spec.rb > hang > a ends")],
        running: &["spec/hang_spec.rb/hang > b hangs"],
        hung: &[("spec/hang_spec.rb/hang > b hangs", "spec/hang_spec.rb", 6)],
        announced: Some(2),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "rspec/crash",
        raw_exit_code: Some(0),
        partial: true,
        tests: &[
            Case::passed("spec/crash_spec.rb > crash > a holds before"),
            Case::error("spec/crash_spec.rb > crash > b leaves")
                .with_message("did not finish: the runner exited with 0"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "rspec/unicode",
        tests: &[
            Case::failed("spec/größe_spec.rb > Größe > misst füße 日本")
                .at("spec/größe_spec.rb", 3)
                .with_message("expected: \"日本\"\n     got: \"\\e[31mfüße\\e[0m\"")
                .with_values("\"日本\"", "\"\\e[31mfüße\\e[0m\""),
            Case::failed("spec/größe_spec.rb > Größe > has no half characters")
                .at("spec/größe_spec.rb", 7)
                .with_message("RuntimeError: größer \u{fffd}"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        fixture: "rspec/many",
        numbered_passed: ("spec/many_spec.rb > many > is small {}", 10_000),
        ..PASSED
    },
    // `--tag ~slow` in the project's options.
    Row {
        name: "filters",
        fixture: "rspec/filters",
        tests: &[Case::passed("spec/filters_spec.rb > filters > is quick")],
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "rspec/fail",
        options: RunOptions { filter: "shout differs", ..RunOptions::ALL },
        tests: &[Case::failed("spec/shout_spec.rb > shout > differs")
            .at("spec/shout_spec.rb", 10)
            .with_message("expected: \"a\"\n     got: \"A\"")
            .with_values("\"a\"", "\"A\"")],
        ..FAILED
    },
    Row {
        name: "filtered_out",
        fixture: "rspec/fail",
        options: RunOptions { filter: "nobody wrote this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];

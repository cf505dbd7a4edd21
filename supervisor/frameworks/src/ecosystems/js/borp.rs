//! The options of borp, which runs files of Node's test runner, as a test script gives them
//! (<https://github.com/mcollina/borp>, "Options"). Must not know how it is started.

use super::options::{Flag, Handed, Takes};

/// What a test script's start of a program that is not the runner's own hands on.
pub(super) const HANDED: Handed = Handed::These {
    flags: &[
        Flag { names: &["--pattern", "-p"], takes: Takes::Value },
        Flag { names: &["--ignore", "-i"], takes: Takes::Value },
        Flag { names: &["--timeout", "-t"], takes: Takes::Value },
        Flag { names: &["--concurrency", "-c"], takes: Takes::Value },
        Flag { names: &["--post-compile", "-P"], takes: Takes::Value },
        Flag { names: &["--no-timeout"], takes: Takes::Nothing },
        Flag { names: &["--no-typescript", "-T"], takes: Takes::Nothing },
        Flag { names: &["--expose-gc"], takes: Takes::Nothing },
        Flag { names: &["--only", "-o"], takes: Takes::Nothing },
    ],
    valued: &["--reporter", "-r", "--coverage-exclude", "-X", "--lines", "--branches", "--functions", "--statements"],
    bare: &["--coverage", "-C", "--check-coverage", "--watch", "-w"],
    subcommands: &[],
};

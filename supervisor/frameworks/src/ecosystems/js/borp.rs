//! The options of borp, which runs files of Node's test runner (<https://github.com/mcollina/borp>, "Options").

use super::forwarded_options::{Arity, Flag, ForwardPolicy};

/// The options of a test script's borp command that are forwarded.
pub(super) const FORWARDED: ForwardPolicy = ForwardPolicy::Only {
    flags: &[
        Flag { names: &["--pattern", "-p"], arity: Arity::Value },
        Flag { names: &["--ignore", "-i"], arity: Arity::Value },
        Flag { names: &["--timeout", "-t"], arity: Arity::Value },
        Flag { names: &["--concurrency", "-c"], arity: Arity::Value },
        Flag { names: &["--post-compile", "-P"], arity: Arity::Value },
        Flag { names: &["--no-timeout"], arity: Arity::Nothing },
        Flag { names: &["--no-typescript", "-T"], arity: Arity::Nothing },
        Flag { names: &["--expose-gc"], arity: Arity::Nothing },
        Flag { names: &["--only", "-o"], arity: Arity::Nothing },
    ],
    valued: &["--reporter", "-r", "--coverage-exclude", "-X", "--lines", "--branches", "--functions", "--statements"],
    bare: &["--coverage", "-C", "--check-coverage", "--watch", "-w"],
    subcommands: &[],
};

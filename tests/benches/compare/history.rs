//! The history of 10,000 runs of 2,000 tests: time of a record and of each question, and the size of the database. That nothing
//! is lost by SIGKILL is a test of `tests/history.rs`.

use crate::targets::Figure;
use anyhow::{Context as _, Result, ensure};
use proctor_tests::process::{command, program, wait_for_exit};
use std::process::Stdio;

const RUNS: &str = "10000";
const TESTS: &str = "2000";

/// What the example prints: its words before the figure, the name of the figure, its unit and its target.
const FIGURES: [(&str, &str, &str, f64); 6] = [
    ("record: ", "history: a record, on average", "ms", 10.0),
    ("latest 20 runs: ", "history: the latest runs", "ms", 50.0),
    ("one test: ", "history: the trend of a test", "ms", 50.0),
    ("flaky tests: ", "history: flaky tests", "ms", 50.0),
    ("slow tests: ", "history: slow tests", "ms", 50.0),
    (SIZE, "history: size of the database", "MiB", 1_024.0),
];

/// The one figure that no other load on the machine changes.
const SIZE: &str = "size: ";

/// Fills a history and prints the example's output.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let dir = tempfile::tempdir()?;
    let mut load = command(&program("examples/history_load"));
    load.arg(dir.path()).args([RUNS, TESTS, "measure"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait_for_exit(load.spawn()?);
    ensure!(output.status == 0, "history_load: {output:?}");
    anstream::println!("\nhistory of {RUNS} runs of {TESTS} tests\n{}", output.stdout.trim_end());
    let whole = format!("integrity: ok, {RUNS} runs, 0 without results");
    ensure!(output.stdout.lines().any(|line| line == whole), "the history is not whole");
    let figure = |(words, name, unit, target)| {
        let line = output.stdout.lines().find_map(|line| line.strip_prefix(words));
        let number = line.and_then(|rest| rest.split(' ').next()?.parse().ok());
        let figure = Figure::at_most(name, unit, number.with_context(|| format!("no {words:?}"))?, target);
        Ok(if words == SIZE { figure.firm() } else { figure })
    };
    FIGURES.into_iter().map(figure).collect()
}

//! The benchmark: costs of proctor compared with the same work without it and through its rivals. Prints figures with their
//! targets, and exits with 1 when a time is worse than twice its target or a firm limit is exceeded.
//!
//! Runs all parts except the long ones, or the named parts: `cargo bench -p proctor-tests -- soak`.

#![expect(clippy::disallowed_macros, reason = "an internal program that prints to a terminal")]

mod bench_setup;
mod capacity;
#[path = "../../src/bin/demo/demo_supervisor.rs"]
mod demo_supervisor;
mod dispatch_latency;
mod go_event_stream;
mod history;
mod idle_sessions;
mod kill_latency;
mod load;
mod noisy_neighbours;
mod parser_throughput;
mod reporter_overhead;
mod rivals;
mod run_throughput;
mod seeded_random;
mod shim_overhead;
mod soak;
mod targets;

use anyhow::{Result, bail};
use std::process::ExitCode;
use targets::Figure;

type Part = (&'static str, fn() -> Result<Vec<Figure>>);

const PARTS: [Part; 11] = [
    ("dispatch", dispatch_latency::bench),
    ("throughput", run_throughput::bench),
    ("kill", kill_latency::bench),
    ("neighbours", noisy_neighbours::bench),
    ("leaks", soak::bench),
    ("sessions", idle_sessions::bench),
    ("shim", shim_overhead::bench),
    ("faults", load::bench),
    ("history", history::bench),
    ("parser", parser_throughput::bench),
    ("reporters", reporter_overhead::bench),
];

/// Parts that take long, or are no comparison, and run only when named.
const LONG: [Part; 3] = [("soak", soak::long), ("load", load::long), ("capacity", capacity::bench)];

fn measure() -> Result<Vec<Figure>> {
    // Cargo passes `--bench`.
    let named: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let parts: Vec<Part> = match named.is_empty() {
        true => PARTS.to_vec(),
        false => PARTS.into_iter().chain(LONG).filter(|(name, _)| named.iter().any(|wanted| wanted == name)).collect(),
    };
    if parts.is_empty() {
        bail!("no part is named {}", named.join(" "));
    }
    let mut figures = Vec::new();
    for (_, bench) in parts {
        figures.extend(bench()?);
    }
    Ok(figures)
}

fn main() -> ExitCode {
    match measure() {
        Ok(figures) => targets::print_verdict(&figures),
        Err(error) => {
            anstream::eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

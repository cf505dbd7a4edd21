//! What proctor costs, beside what the same work costs without it and through its rivals: figures from one run on one machine,
//! each with its target. Exits with 1 when a time is worse than twice its target, or a promise is broken. Must not know how anything is measured.
//!
//! Everything but what is long, or the parts that are named: `cargo bench -p proctor-tests -- soak`.

#![expect(clippy::disallowed_macros, reason = "a program of ours that nobody depends on")]

mod bench_setup;
#[path = "../../src/bin/demo/demo_supervisor.rs"]
mod demo_supervisor;
mod dispatch_latency;
mod go_event_stream;
mod idle_sessions;
mod kill_latency;
mod load;
mod noisy_neighbours;
mod parser_throughput;
mod reporter_overhead;
mod rival_sandboxes;
mod run_throughput;
mod seeded_random;
mod soak;
mod targets;

use anyhow::{Result, bail};
use std::process::ExitCode;
use targets::Figure;

type Part = (&'static str, fn() -> Result<Vec<Figure>>);

const PARTS: [Part; 9] = [
    ("dispatch", dispatch_latency::bench),
    ("throughput", run_throughput::bench),
    ("kill", kill_latency::bench),
    ("neighbours", noisy_neighbours::bench),
    ("leaks", soak::bench),
    ("sessions", idle_sessions::bench),
    ("faults", load::bench),
    ("parser", parser_throughput::bench),
    ("reporters", reporter_overhead::bench),
];

/// They take minutes, and each is run by its name alone.
const LONG: [Part; 2] = [("soak", soak::long), ("load", load::long)];

fn measure() -> Result<Vec<Figure>> {
    // Cargo itself says `--bench`.
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
        Ok(figures) => targets::conclude(&figures),
        Err(error) => {
            anstream::eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! What proctor costs, beside what the same work costs without it: ratios from one run on one machine, each with its target.
//! Exits with 1 when a figure is worse than twice its target. Must not know how anything is measured.

mod dispatch;
mod figures;
mod parser;
mod stream;
#[path = "../../src/bin/demo/supervisor.rs"]
mod supervisor;

use std::process::ExitCode;

fn main() -> ExitCode {
    let measured = dispatch::bench().and_then(|mut figures| {
        figures.extend(parser::bench()?);
        Ok(figures)
    });
    match measured {
        Ok(figures) => figures::conclude(&figures),
        Err(error) => {
            anstream::eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

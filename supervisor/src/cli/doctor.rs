//! `proctor doctor`: what this host can enforce, for a person or a program. Changes nothing on the host.

use super::arguments::{DoctorArgs, Output};
use super::{CommandError, in_process, print};
use crate::host::checks::{Check, checks};
use proctor_proto::printable::line;
use proctor_sandbox::Status;
use std::fmt::Write as _;

/// Exit status if a layer or limit of this version is not usable.
const INCOMPLETE: u8 = 1;

/// Prints all checks; exit status 0 if every layer and limit is usable, 1 otherwise.
pub(super) fn doctor(arguments: &DoctorArgs) -> Result<u8, CommandError> {
    // The scheduler is a task, although no run here asks it for a turn.
    let runtime = in_process::runtime()?;
    let context = {
        let _guard = runtime.enter();
        in_process::read_only_context()?
    };
    let checks = checks(&context);
    match arguments.output {
        Output::Human => print::text(&human(&checks))?,
        Output::Json => print::document(&checks)?,
    }
    let complete = checks.iter().filter(|check| check.needed).all(|check| check.status == Status::Usable);
    Ok(if complete { 0 } else { INCOMPLETE })
}

fn human(checks: &[Check]) -> String {
    let mut text = String::new();
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for group in checks.chunk_by(|a, b| a.group == b.group) {
        let _ = writeln!(text, "\x1b[1m{}\x1b[0m", group[0].group);
        for check in group {
            let mark = match check.status {
                Status::Usable => "\x1b[32m✓\x1b[0m",
                Status::Present => "\x1b[33m!\x1b[0m",
                Status::Missing => "\x1b[31m✗\x1b[0m",
            };
            let _ = writeln!(text, "  {mark} {:width$}  {}", check.name, line(&check.detail));
            if !check.remedy.is_empty() {
                let _ = writeln!(text, "    {:width$}  \x1b[2mremedy:\x1b[0m {}", "", line(&check.remedy));
            }
        }
    }
    text
}

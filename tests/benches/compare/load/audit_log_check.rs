//! The audit log against what the watchers saw: every run that was accepted has ended once, as they say. Must not know how
//! the load went.

use super::tally::{Ledger, name};
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

#[derive(Deserialize)]
struct Line {
    event: String,
    run: Option<String>,
    outcome: Option<String>,
    #[serde(default)]
    lost: u64,
}

/// How many runs were accepted; what does not fit is told to the ledger.
pub(super) fn compare(files: &[PathBuf], ledger: &Ledger) -> Result<usize> {
    let (mut accepted, mut ended) = (HashSet::new(), HashMap::<String, Vec<String>>::new());
    for file in files {
        for line in BufReader::new(File::open(file)?).lines() {
            let line: Line = serde_json::from_str(&line?).context("a line of the audit log")?;
            if line.lost > 0 {
                ledger.broken(format!("the audit log has lost {} lines", line.lost));
            }
            let Some(run) = line.run else { continue };
            match line.event.as_str() {
                "run_accepted" | "run_joined" if line.outcome.as_deref() == Some("ok") => _ = accepted.insert(run),
                "run_finished" => ended.entry(run).or_default().push(line.outcome.unwrap_or_default()),
                _ => {}
            }
        }
    }
    for run in &accepted {
        if !ended.contains_key(run) {
            ledger.broken(format!("{run} was accepted and has no end in the audit log"));
        }
    }
    for (run, ends) in &ended {
        let seen = ledger.tally().ends.get(run).map(|(end, _)| name(end));
        if ends.len() != 1 || seen.as_ref().is_some_and(|seen| *seen != ends[0]) {
            ledger.broken(format!("{run} ended as {ends:?} in the audit log, as {seen:?} for its watchers"));
        }
    }
    let unknown = ledger.tally().ends.keys().filter(|run| !ended.contains_key(*run)).count();
    if unknown > 0 {
        ledger.broken(format!("{unknown} runs that were seen to end have no end in the audit log"));
    }
    Ok(accepted.len())
}

//! Compares the audit log with what the watchers saw: every accepted run ended once, with the outcome that they saw.

use super::tally::{SharedTally, name};
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

/// Number of accepted runs. Differences are recorded as violations.
pub(super) fn compare(files: &[PathBuf], tally: &SharedTally) -> Result<usize> {
    let (mut accepted, mut ended) = (HashSet::new(), HashMap::<String, Vec<String>>::new());
    for file in files {
        for line in BufReader::new(File::open(file)?).lines() {
            let line: Line = serde_json::from_str(&line?).context("a line of the audit log")?;
            if line.lost > 0 {
                tally.record_violation(format!("the audit log has lost {} lines", line.lost));
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
            tally.record_violation(format!("{run} was accepted and has no end in the audit log"));
        }
    }
    for (run, ends) in &ended {
        let watched = tally.lock().ends.get(run).map(|(end, _)| name(end));
        if ends.len() != 1 || watched.as_ref().is_some_and(|watched| *watched != ends[0]) {
            tally
                .record_violation(format!("{run} ended as {ends:?} in the audit log, as {watched:?} for its watchers"));
        }
    }
    let unknown = tally.lock().ends.keys().filter(|run| !ended.contains_key(*run)).count();
    if unknown > 0 {
        tally.record_violation(format!("{unknown} runs that watchers saw ending have no end in the audit log"));
    }
    Ok(accepted.len())
}

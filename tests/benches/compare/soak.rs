//! Many runs through one supervisor, and its resource usage after each tenth of them. Shows leaks of one resource in a thousand
//! runs.

use crate::bench_setup::{BenchSetup, WORKSPACES};
use crate::targets::Figure;
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measurements of the supervisor at equal intervals. Usage must not grow from the first to the last.
const MEASUREMENTS: usize = 10;

/// Pause between two measurements at rest, which must agree: meanwhile workers are prepared and dead ones reaped.
const SETTLE: Duration = Duration::from_millis(500);

/// Most attempts to measure at rest. A supervisor still busy after ten seconds is measured as it is.
const ATTEMPTS_MAX: usize = 20;

/// Runs before the first measurement, in which every session and all pools fill.
const WARM_UP: usize = 1_000;

/// Deepest level below the cgroup root that is searched.
const GROUP_DEPTH_MAX: u32 = 6;

/// Resources that a supervisor holds; processes, namespaces and cgroups include those of its descendants.
pub(crate) struct ResourceUsage {
    pub(crate) rss_kib: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) processes: usize,
    pub(crate) namespaces: usize,
    pub(crate) groups: usize,
}

impl ResourceUsage {
    /// Measures until two consecutive measurements agree.
    pub(crate) fn measure_at_rest(pid: u32) -> Result<ResourceUsage> {
        let mut usage = ResourceUsage::measure(pid)?;
        for _ in 0..ATTEMPTS_MAX {
            std::thread::sleep(SETTLE);
            let before = std::mem::replace(&mut usage, ResourceUsage::measure(pid)?);
            if before.total() == usage.total() {
                break;
            }
        }
        Ok(usage)
    }

    pub(crate) fn measure(pid: u32) -> Result<ResourceUsage> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).context("reading the supervisor's status")?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        let mut family = Vec::new();
        collect_descendants(pid, &mut family);
        let namespaces = family
            .iter()
            .flat_map(|pid| entries(format!("/proc/{pid}/ns")))
            .filter_map(|path| fs::read_link(path).ok());
        Ok(ResourceUsage {
            rss_kib: field("VmRSS:").and_then(|kib| kib.parse().ok()).context("no VmRSS")?,
            threads: field("Threads:").and_then(|count| count.parse().ok()).context("no Threads")?,
            descriptors: entries(format!("/proc/{pid}/fd")).count(),
            namespaces: namespaces.collect::<BTreeSet<_>>().len(),
            processes: family.len(),
            groups: supervisor_cgroups(pid).len(),
        })
    }

    fn print(&self, runs: usize, rate: f64) {
        let ResourceUsage { rss_kib, descriptors, threads, processes, namespaces, groups } = self;
        anstream::println!(
            "{runs:>8}{rate:>8.0}{rss_kib:>10}{descriptors:>13}{threads:>9}{processes:>11}{namespaces:>12}{groups:>9}"
        );
    }

    /// Sum of the counts that are constant at rest. Threads and memory vary within bounds.
    fn total(&self) -> usize {
        self.descriptors + self.processes + self.namespaces + self.groups
    }
}

pub(crate) fn entries(dir: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Adds `pid` and all of its descendants to `family`.
pub(crate) fn collect_descendants(pid: u32, family: &mut Vec<u32>) {
    family.push(pid);
    for task in entries(format!("/proc/{pid}/task")) {
        let children = fs::read_to_string(task.join("children")).unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .for_each(|child| collect_descendants(child, family));
    }
}

/// Cgroups of the supervisor in every hierarchy, parents before children.
pub(crate) fn supervisor_cgroups(pid: u32) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    groups_below(Path::new("/sys/fs/cgroup"), &format!("proctor-{pid}-"), GROUP_DEPTH_MAX, &mut groups);
    groups
}

fn groups_below(dir: &Path, prefix: &str, depth: u32, groups: &mut Vec<PathBuf>) {
    for path in entries(dir).filter(|path| path.is_dir() && !path.is_symlink()) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) {
            groups.push(path.clone());
        }
        if depth > 0 {
            groups_below(&path, prefix, depth - 1, groups);
        }
    }
}

/// The short soak, part of the benchmark.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    soak(2_000)
}

/// The long soak.
pub(crate) fn long() -> Result<Vec<Figure>> {
    soak(100_000)
}

#[expect(clippy::cast_precision_loss, reason = "counts of resources, and kibibytes")]
fn soak(runs: usize) -> Result<Vec<Figure>> {
    let setup = BenchSetup::start()?;
    let pid = setup.supervisor.as_ref().context("no supervisor")?.pid();
    let sessions = (0..WORKSPACES).map(|number| setup.session(number)).collect::<Result<Vec<_>>>()?;
    setup.run_in_parallel(&sessions, WARM_UP)?;
    anstream::println!("\nsoak: {runs} runs in a row, {WORKSPACES} sessions, what the supervisor holds at rest");
    anstream::println!(
        "{:>8}{:>8}{:>10}{:>13}{:>9}{:>11}{:>12}{:>9}",
        "runs",
        "runs/s",
        "RSS KiB",
        "descriptors",
        "threads",
        "processes",
        "namespaces",
        "cgroups"
    );
    let (mut measurements, each) = (Vec::new(), runs / MEASUREMENTS);
    for number in 1..=MEASUREMENTS {
        let took = setup.run_in_parallel(&sessions, each)?;
        let usage = ResourceUsage::measure_at_rest(pid)?;
        usage.print(number * each, each as f64 / took.as_secs_f64());
        measurements.push(usage);
    }
    setup.stop()?;
    let (first, last) = measurements.first().zip(measurements.last()).context("no measurement")?;
    let mib = (last.rss_kib as f64 - first.rss_kib as f64) / 1024.0;
    let threads = last.threads as f64 - first.threads as f64;
    let total = last.total() as f64 - first.total() as f64;
    Ok(vec![
        Figure::at_most("soak: RSS grown", "MiB", mib, 8.0),
        Figure::at_most("soak: threads grown", "", threads, 8.0),
        Figure::at_most("soak: other things that are held, grown", "", total, 0.0),
    ])
}

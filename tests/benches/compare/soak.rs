//! Many runs in a row through one supervisor, and what it holds after each tenth of them: a leak of one thing in a thousand
//! runs is seen. Must not know where anything could leak.

use crate::bench_setup::{Stage, WORKSPACES};
use crate::targets::Figure;
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks at the supervisor, at equal distances. What it holds may not grow from the first to the last.
const LOOKS: usize = 10;

/// Pause between two looks that have to see the same: until then workers are prepared and dead ones put away.
const REST: Duration = Duration::from_millis(500);

/// Pairs of looks at most: who is not at rest after ten seconds is told as he is.
const LOOKS_MAX: usize = 20;

/// Runs before the first look: every session has its room, and the pools their threads.
const WARM_UP: usize = 1_000;

/// Deepest level below a hierarchy's root at which a group of ours is looked for.
const GROUP_DEPTH_MAX: u32 = 6;

/// What a supervisor holds: itself, and with all that descends from it.
pub(crate) struct Held {
    pub(crate) rss_kib: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) processes: usize,
    pub(crate) namespaces: usize,
    pub(crate) groups: usize,
}

impl Held {
    /// When everything is at rest.
    pub(crate) fn at_rest(pid: u32) -> Result<Held> {
        let mut held = Held::by(pid)?;
        for _ in 0..LOOKS_MAX {
            std::thread::sleep(REST);
            let before = std::mem::replace(&mut held, Held::by(pid)?);
            if before.fixed() == held.fixed() {
                break;
            }
        }
        Ok(held)
    }

    pub(crate) fn by(pid: u32) -> Result<Held> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).context("looking at the supervisor")?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        let mut family = Vec::new();
        descend(pid, &mut family);
        let namespaces = family
            .iter()
            .flat_map(|pid| entries(format!("/proc/{pid}/ns")))
            .filter_map(|path| fs::read_link(path).ok());
        Ok(Held {
            rss_kib: field("VmRSS:").and_then(|kib| kib.parse().ok()).context("no VmRSS")?,
            threads: field("Threads:").and_then(|count| count.parse().ok()).context("no Threads")?,
            descriptors: entries(format!("/proc/{pid}/fd")).count(),
            namespaces: namespaces.collect::<BTreeSet<_>>().len(),
            processes: family.len(),
            groups: groups_of(pid).len(),
        })
    }

    fn print(&self, runs: usize, rate: f64) {
        let Held { rss_kib, descriptors, threads, processes, namespaces, groups } = self;
        anstream::println!(
            "{runs:>8}{rate:>8.0}{rss_kib:>10}{descriptors:>13}{threads:>9}{processes:>11}{namespaces:>12}{groups:>9}"
        );
    }

    /// What is the same whenever everything is at rest. Threads and memory come and go within bounds.
    fn fixed(&self) -> usize {
        self.descriptors + self.processes + self.namespaces + self.groups
    }
}

pub(crate) fn entries(dir: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

pub(crate) fn descend(pid: u32, family: &mut Vec<u32>) {
    family.push(pid);
    for task in entries(format!("/proc/{pid}/task")) {
        let children = fs::read_to_string(task.join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|child| child.parse().ok()).for_each(|child| descend(child, family));
    }
}

/// Groups of the supervisor in every hierarchy, those inside of a group after it.
pub(crate) fn groups_of(pid: u32) -> Vec<PathBuf> {
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

/// The short one, which is a part of the benchmark.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    soak(2_000)
}

/// The long one.
pub(crate) fn long() -> Result<Vec<Figure>> {
    soak(100_000)
}

#[expect(clippy::cast_precision_loss, reason = "counts of what a process holds, and kibibytes")]
fn soak(runs: usize) -> Result<Vec<Figure>> {
    let stage = Stage::open()?;
    let pid = stage.supervisor.as_ref().context("no supervisor")?.pid();
    let sessions = (0..WORKSPACES).map(|number| stage.session(number)).collect::<Result<Vec<_>>>()?;
    stage.storm(&sessions, WARM_UP)?;
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
    let (mut looks, each) = (Vec::new(), runs / LOOKS);
    for look in 1..=LOOKS {
        let took = stage.storm(&sessions, each)?;
        let held = Held::at_rest(pid)?;
        held.print(look * each, each as f64 / took.as_secs_f64());
        looks.push(held);
    }
    stage.close()?;
    let (first, last) = looks.first().zip(looks.last()).context("no look")?;
    let mib = (last.rss_kib as f64 - first.rss_kib as f64) / 1024.0;
    let threads = last.threads as f64 - first.threads as f64;
    let fixed = last.fixed() as f64 - first.fixed() as f64;
    Ok(vec![
        Figure::at_most("soak: RSS grown", "MiB", mib, 8.0),
        Figure::at_most("soak: threads grown", "", threads, 8.0),
        Figure::at_most("soak: other things that are held, grown", "", fixed, 0.0),
    ])
}

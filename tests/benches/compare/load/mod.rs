//! Many tenants at once with mixed runs, while things are taken from the supervisor: every accepted run has one end, which all
//! of its watchers see, without an event too few or too many; and what the supervisor holds is in the end what it held before.
//! Must not know what runs or faults there are.

mod audit_log_check;
mod client_lane;
mod event_checker;
mod fault_injection;
mod load_setup;
mod run_kinds;
mod tally;
mod tenant_client;
mod watched_run;

use crate::soak::{Held, entries};
use crate::targets::Figure;
use anyhow::{Context as _, Result, anyhow};
use client_lane::Lane;
use load_setup::House;
use proctor_proto::reason;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally::{Harm, Ledger};
use tenant_client::{Caller, PATIENCE, Refused};
use tokio::runtime::Runtime;
use tonic::Code;

/// Seconds of the long one, which the Makefile sets.
const SECONDS: &str = "PROCTOR_LOAD_SECONDS";

/// Clients of each tenant, each with a session and a workspace of its own.
const LANES: usize = 6;

/// One load.
struct Scale {
    /// Besides the guest.
    tenants: usize,
    warm_up: Duration,
    lasts: Duration,
    /// Between two faults.
    pause: Duration,
    /// Memory at the end.
    rss_mib: f64,
    /// By how much memory may grow from the middle to the end, where the first half is long enough for that.
    grown_mib: Option<f64>,
}

/// Whoever runs, watches and breaks things has this.
struct World {
    house: Arc<House>,
    ledger: Arc<Ledger>,
    over_at: Instant,
}

impl World {
    fn is_over(&self) -> bool {
        Instant::now() >= self.over_at
    }

    /// A new connection, as soon as there is one; `None` when there is none for too long, which is told.
    async fn connected(&self, tenant: usize) -> Option<Caller> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Ok(caller) = self.house.call(tenant).await {
                return Some(caller);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.ledger.broken(format!("no connection for {PATIENCE:?}"));
        None
    }

    /// Counts a call that was not carried out, asked at `since`, and says so if nothing explains it.
    fn refused(&self, tenant: usize, refused: &Refused, since: Instant) {
        let is_guest = tenant == self.house.guest();
        let harmed = |harm| self.ledger.harmed(harm, since);
        let (name, is_due) = match refused {
            // No connection can be accepted without a descriptor.
            Refused::Lost => ("connection lost".to_owned(), harmed(Harm::Descriptors)),
            Refused::Typed { code: Code::ResourceExhausted, reason: quota, .. } => (format!("quota {quota}"), true),
            Refused::Typed { code: code @ (Code::Unauthenticated | Code::PermissionDenied), .. } => {
                (format!("{code:?}"), is_guest)
            }
            // The one way to say that the host is the cause. A worker that is killed before it has begun is replaced, unless
            // too many are.
            Refused::Typed { code: Code::Unavailable, reason, .. } if reason == reason::HOST_FAILED => {
                let is_due = [Harm::Descriptors, Harm::Host, Harm::Kill].into_iter().any(harmed);
                (reason.clone(), is_due)
            }
            // A worker that is not installed any more needs somebody to repair that.
            Refused::Typed { code: Code::Internal, text, .. } => (format!("Internal: {text}"), harmed(Harm::Host)),
            Refused::Typed { code, reason, .. } => (format!("{code:?}: {reason}"), false),
        };
        if !is_due {
            let text = match refused {
                Refused::Typed { text, .. } => text,
                Refused::Lost => "",
            };
            self.ledger.broken(format!("tenant {tenant} was refused: {name}: {text:?}"));
        }
        self.ledger.refused(&name);
    }
}

/// The short one, which is a part of the benchmark.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let second = Duration::from_secs(1);
    load(&Scale {
        tenants: 10,
        warm_up: 3 * second,
        lasts: 20 * second,
        pause: second / 5,
        rss_mib: 128.0,
        grown_mib: None,
    })
}

/// The long one.
pub(crate) fn long() -> Result<Vec<Figure>> {
    let seconds = std::env::var(SECONDS).ok().map_or(Ok(600), |text| text.parse()).context(SECONDS)?;
    let second = Duration::from_secs(1);
    load(&Scale {
        tenants: 50,
        warm_up: 20 * second,
        lasts: seconds * second,
        pause: second / 2,
        rss_mib: 256.0,
        grown_mib: Some(32.0),
    })
}

/// What is held beyond what the supervisor itself has open.
struct Rest {
    held: Held,
    mounts: usize,
    files: usize,
}

impl Rest {
    fn of(house: &House) -> Result<Rest> {
        let held = Held::at_rest(house.pid())?;
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", house.pid()))?.lines().count();
        Ok(Rest { held, mounts, files: entries(house.tmp()).count() })
    }

    /// Everything that may not grow at all.
    fn fixed(&self) -> [usize; 6] {
        let Held { descriptors, processes, namespaces, groups, .. } = self.held;
        [descriptors, processes, namespaces, groups, self.mounts, self.files]
    }

    fn print(&self, when: &str) {
        let [descriptors, processes, namespaces, groups, mounts, files] = self.fixed();
        let Held { rss_kib, threads, .. } = self.held;
        anstream::println!(
            "  {when}: RSS {rss_kib} KiB, {threads} threads, {descriptors} descriptors, {processes} processes, {namespaces} \
             namespaces, {groups} cgroups, {mounts} mounts, {files} temporary files"
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of what a process holds, and kibibytes")]
fn load(scale: &Scale) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tenants = scale.tenants + 1;
    let house = Arc::new(House::open(tenants, LANES)?);
    let ledger = Arc::new(Ledger::of(tenants));
    // What it brings up is of no interest, but for what is broken.
    spend(&runtime, &house, &ledger, scale.warm_up, None)?;
    let before = Rest::of(&house)?;
    ledger.begin_anew();
    let begun = Instant::now();
    spend(&runtime, &house, &ledger, scale.lasts / 2, Some(scale.pause))?;
    let middle = Rest::of(&house)?;
    spend(&runtime, &house, &ledger, scale.lasts / 2, Some(scale.pause))?;
    let took = begun.elapsed().as_secs_f64();
    let after = Rest::of(&house)?;

    let mut house = Arc::into_inner(house).context("somebody still uses the house")?;
    runtime.block_on(house.stop())?;
    for line in house.panics()? {
        ledger.broken(line);
    }
    let accepted = audit_log_check::compare(&house.audit(), &ledger)?;
    let lost = ledger.tally().lost;
    let kills = ledger.tally().kills();
    anstream::println!(
        "\nload: {} tenants and a guest, {LANES} clients each, {took:.0} s; {accepted} runs accepted, {lost} workers lost",
        scale.tenants
    );
    if lost > kills {
        ledger.broken(format!("{lost} workers were lost, and only {kills} times was anything killed"));
    }
    let tally = ledger.tally();
    let least = tally.print_shares(scale.tenants, load_setup::weight);
    tally.print();
    before.print("before");
    middle.print("middle");
    after.print("after ");
    let mib = |rest: &Rest| rest.held.rss_kib as f64 / 1024.0;
    let grown = before.fixed().into_iter().zip(after.fixed()).map(|(before, after)| after.saturating_sub(before));
    let mut figures = vec![
        Figure::at_most("load: promises broken", "", tally.broken_count as f64, 0.0),
        Figure::at_most("load: other things that are held, grown", "", grown.sum::<usize>() as f64, 0.0),
        Figure::at_most("load: RSS at the end", "MiB", mib(&after), scale.rss_mib).promised(),
        Figure::at_least("load: least share, over its weight", "x", least, 0.8).promised(),
    ];
    if let Some(grown_mib) = scale.grown_mib {
        figures.push(Figure::at_most(
            "load: RSS grown in the second half",
            "MiB",
            mib(&after) - mib(&middle),
            grown_mib,
        ));
    }
    Ok(figures)
}

/// Lives for so long, with faults where there is a pause between them, until every client has ended what it began.
fn spend(
    runtime: &Runtime,
    house: &Arc<House>,
    ledger: &Arc<Ledger>,
    lasts: Duration,
    pause: Option<Duration>,
) -> Result<()> {
    let world = World { house: Arc::clone(house), ledger: Arc::clone(ledger), over_at: Instant::now() + lasts };
    let world = Arc::new(world);
    let faults = pause.map(|pause| {
        let world = Arc::clone(&world);
        std::thread::spawn(move || fault_injection::inject(&world, pause))
    });
    let lanes: Vec<_> = (0..=house.guest())
        .flat_map(|tenant| (0..LANES).map(move |lane| (tenant, lane)))
        .map(|(tenant, lane)| runtime.spawn(Lane::new(&world, tenant, lane).live()))
        .collect();
    for lane in lanes {
        runtime.block_on(lane).context("a client broke")?;
    }
    if let Some(faults) = faults {
        faults.join().map_err(|_| anyhow!("the faults broke"))??;
    }
    Ok(())
}

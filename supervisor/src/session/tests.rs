//! The actor and its runs, with a sandbox that does as it is told: the one place where the operating system is faked.

use super::*;
use crate::allowance::Allowance;
use crate::audit::{self, Audit};
use crate::clock::Clock;
use crate::context::Policy;
use crate::registry::{Bounds, CreateError, Registry, Wanted};
use crate::run::RunEnd;
use crate::scheduler::{Place, Scheduler};
use crate::tenant::{Credential, Tenant, Tenants};
use crate::toolchain::Toolchain;
use proctor_core::event::{RunEvent, Stream};
use proctor_core::id::TenantId;
use proctor_core::isolation::{Isolation, Layer, Network};
use proctor_core::limits::Limits;
use proctor_core::outcome::{Exit, KillReason};
use proctor_core::quota::{Amount, Quota};
use proctor_core::session::DETACHED_MS_MAX;
use proctor_frameworks::detect::DetectError;
use proctor_sandbox::{Ending, KillSwitch, RunAs, RunSpec, Sandbox, SandboxError, SandboxEvent};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;
use tokio::time::timeout;

/// What the fake does next.
enum Do {
    Write(&'static str),
    Exit(i32),
    Panic,
}

/// Does as it is told until it is killed, and tells why it was.
struct Fake {
    orders: Mutex<std_mpsc::Receiver<Do>>,
    killed: Mutex<Vec<KillReason>>,
}

impl Sandbox for Fake {
    fn run(
        &self,
        _spec: &RunSpec,
        kill: &KillSwitch,
        sink: &mut dyn FnMut(SandboxEvent<'_>),
    ) -> Result<Ending, SandboxError> {
        let isolation = Isolation { layers: vec![Layer::PidNamespace], ..Isolation::default() };
        sink(SandboxEvent::Started { isolation });
        sink(SandboxEvent::CommandStarted { index: 0 });
        loop {
            if let Some(reason) = kill.wait(Duration::from_millis(2)) {
                self.killed.lock().unwrap().push(reason);
                sink(SandboxEvent::Killing { reason });
                return Ok(Ending { killed: Some(reason), ..Ending::default() });
            }
            let order = self.orders.lock().unwrap().try_recv();
            match order {
                Ok(Do::Write(text)) => {
                    sink(SandboxEvent::Output { stream: Stream::Stdout, bytes: text.as_bytes() });
                }
                Ok(Do::Exit(code)) => {
                    let exit = Exit::Code(code);
                    sink(SandboxEvent::CommandExited { index: 0, exit });
                    return Ok(Ending { exits: vec![exit], ..Ending::default() });
                }
                Ok(Do::Panic) => panic!("a test asked for it"),
                Err(_) => {}
            }
        }
    }
}

/// Room for eight runs that ask for nothing.
const BUDGET: Amount = Amount { memory_bytes: 16 << 30, cpu_millis: 16_000 };

struct World {
    context: Arc<Context>,
    fake: Arc<Fake>,
    order: std_mpsc::SyncSender<Do>,
    dir: tempfile::TempDir,
    /// Where the audit log is.
    log: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let (order, orders) = std_mpsc::sync_channel(64);
        let fake = Arc::new(Fake { orders: Mutex::new(orders), killed: Mutex::default() });
        let (clock, log) = (Clock::new(), tempfile::tempdir().unwrap());
        let place = audit::Place { path: log.path().join("audit.jsonl"), bytes_max: 1 << 20, keep: 0 };
        let context = Arc::new(Context {
            sandbox: Arc::clone(&fake) as Arc<dyn Sandbox>,
            toolchain: Toolchain::default(),
            clock,
            audit: Audit::open(place, clock).unwrap(),
            scheduler: Scheduler::start(clock, BUDGET),
        });
        World { context, fake, order, dir: tempfile::tempdir().unwrap(), log }
    }

    /// Another tenant's run that takes the whole host.
    async fn occupy(&self) -> Place {
        let scheduler = self.context.scheduler.clone();
        let enter = move || scheduler.enter(TenantId::new("other"), Quota::UNBOUNDED, BUDGET).unwrap();
        tokio::task::spawn_blocking(enter).await.unwrap()
    }

    fn policy(&self) -> Policy {
        Policy {
            owner: "acme".to_owned(),
            quota: Quota::UNBOUNDED,
            kept: Arc::default(),
            kept_bytes_max: 100,
            run_as: RunAs::Supervisor,
            owners: None,
            defaults: Limits::DEFAULT,
            timeouts: BTreeMap::new(),
            ceiling: Limits::CEILING,
            required_layers: Vec::new(),
            left_off: Vec::new(),
            require_limits: false,
            may_use_network: false,
            network: Network::None,
            cache: self.dir.path().join("cache"),
            cache_bytes_max: crate::caches::BYTES_MAX,
        }
    }

    fn workspace(&self) -> Workspace {
        Workspace::open(self.dir.path()).unwrap()
    }

    fn open(&self, name: &str) -> SessionHandle {
        let policy = Arc::new(self.policy());
        open(SessionId::new(name), Arc::clone(&self.context), policy, self.workspace(), Memory::default()).0
    }

    fn tell(&self, order: Do) {
        self.order.send(order).unwrap();
    }

    // What the audit log has by now.
    fn told(&self) -> Vec<audit::Line> {
        self.context.audit.finish();
        let text = std::fs::read_to_string(self.log.path().join("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn killed_because(&self) -> KillReason {
        within(async {
            loop {
                if let Some(reason) = self.fake.killed.lock().unwrap().first() {
                    return *reason;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }
}

fn command(word: &str) -> RunRequest {
    RunRequest { command: vec!["/bin/true".into(), word.into()], ..RunRequest::default() }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), future).await.expect("it takes too long")
}

async fn start(session: &SessionHandle, word: &str) -> Started {
    within(session.start(command(word), RunKind::Tests, IfBusy::Queue)).await.unwrap()
}

async fn outcome(started: &Started) -> Outcome {
    match within(started.handle.end()).await.unwrap() {
        RunEnd::Report(report) => report.outcome,
        RunEnd::NotStarted(why) => panic!("not started: {why}"),
    }
}

async fn events(started: &Started, mut from: u64) -> Vec<(u64, &'static str)> {
    let mut seen = Vec::new();
    loop {
        let batch = within(started.handle.read(from)).await.unwrap();
        let Some(last) = batch.last() else { return seen };
        from = last.sequence + 1;
        seen.extend(batch.iter().map(|entry| (entry.sequence, name(&entry.event))));
    }
}

fn name(event: &RunEvent) -> &'static str {
    match event {
        RunEvent::Queued { .. } => "queued",
        RunEvent::Started { .. } => "started",
        RunEvent::Output { .. } => "output",
        RunEvent::Finished(_) => "finished",
        _ => "other",
    }
}

/// Invariant 4: the actor never waits for a run.
#[tokio::test]
async fn questions_are_answered_while_a_run_goes_on() {
    let world = World::new();
    let session = world.open("s");
    let run = start(&session, "a").await;
    let status = within(session.status()).await.unwrap();
    assert_eq!((status.running, status.waiting), (Some(run.run.clone()), 0));
    assert_eq!(within(session.last_run(10)).await.unwrap(), None);
    assert_eq!(within(session.covering("a.go".into(), None)).await.unwrap(), None);
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
    assert_eq!(within(session.status()).await.unwrap().last, Some((run.run, Outcome::Passed)));
    assert_eq!(within(session.last_run(10)).await.unwrap().unwrap().outcome, Outcome::Passed);
}

#[tokio::test]
async fn an_identical_request_joins_and_reads_every_event_from_the_first() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    world.tell(Do::Write("hello\n"));
    let second = start(&session, "a").await;
    assert_eq!(second.run, first.run);
    assert!(second.attached_age_ms.is_some() && first.attached_age_ms.is_none());
    let third = start(&session, "b").await;
    assert_ne!(third.run, first.run);
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&second).await, Outcome::Passed);
    let all = events(&second, 0).await;
    let names: Vec<_> = all.iter().map(|(_, name)| *name).collect();
    assert_eq!(names, ["queued", "started", "output", "finished"]);
    assert_eq!(all.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(events(&first, 2).await, all[2..]);
    assert_eq!(second.handle.read_output(Stream::Stdout, 1, 3).unwrap(), b"ell");
    world.tell(Do::Exit(1));
    assert_eq!(outcome(&third).await, Outcome::Failed);
}

#[tokio::test]
async fn a_waiting_run_that_is_cancelled_ends_with_a_report() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    let second = start(&session, "b").await;
    assert!(within(session.cancel(second.run.clone())).await.unwrap());
    assert_eq!(outcome(&second).await, Outcome::Cancelled);
    assert!(within(session.cancel(first.run.clone())).await.unwrap());
    assert_eq!(outcome(&first).await, Outcome::Cancelled);
    assert_eq!(world.killed_because().await, KillReason::Cancelled);
    assert!(!within(session.cancel(RunId::new("s-99"))).await.unwrap());
}

#[tokio::test]
async fn a_request_that_the_workspace_refuses_is_no_run_whether_it_would_wait_or_not() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&first).await, Outcome::Passed);
    let refused = || async {
        let request = RunRequest::default();
        within(session.start(request, RunKind::Tests, IfBusy::Queue)).await.err()
    };
    let no_project = SessionError::Prepare(DetectError::NoProject.into());
    // More of them than a session keeps runs.
    for _ in 0..20 {
        assert_eq!(refused().await.as_ref(), Some(&no_project));
    }
    let running = start(&session, "a").await;
    assert_eq!(refused().await, Some(no_project));
    let status = within(session.status()).await.unwrap();
    assert_eq!((status.running, status.waiting), (Some(running.run.clone()), 0));
    assert!(within(session.run(first.run.clone())).await.unwrap().is_some(), "nothing was forgotten for them");
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&running).await, Outcome::Passed);
}

#[tokio::test]
async fn a_run_without_a_turn_on_the_host_is_accepted_and_can_be_cancelled() {
    let world = World::new();
    let all = world.occupy().await;
    let session = world.open("s");
    let waiting = start(&session, "a").await;
    assert!(within(session.cancel(waiting.run.clone())).await.unwrap());
    assert_eq!(outcome(&waiting).await, Outcome::Cancelled);
    let waiting = start(&session, "a").await;
    drop(all);
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&waiting).await, Outcome::Passed);
}

/// 60 bytes each where a tenant may keep 100: one session forgets, and another cannot.
#[tokio::test]
async fn what_is_kept_of_ended_runs_is_bounded_for_the_whole_tenant() {
    const SAID: &str = "sixty bytes of output, which is more than half of all room.\n";
    let world = World::new();
    let policy = Arc::new(world.policy());
    let session_of = |name: &str| {
        let (id, context) = (SessionId::new(name), Arc::clone(&world.context));
        open(id, context, Arc::clone(&policy), world.workspace(), Memory::default()).0
    };
    let run = async |session: &SessionHandle, request: &str| {
        let run = start(session, request).await;
        world.tell(Do::Write(SAID));
        world.tell(Do::Exit(0));
        assert_eq!(outcome(&run).await, Outcome::Passed);
        run.run
    };
    let session = session_of("first");
    let first = run(&session, "a").await;
    assert_eq!(policy.kept.bytes(), 60);
    let second = run(&session, "b").await;
    assert_eq!(policy.kept.bytes(), 60, "the first made room for the second");
    assert!(within(session.run(first)).await.unwrap().is_none());
    assert!(within(session.run(second)).await.unwrap().is_some());
    let other = session_of("other");
    run(&other, "a").await;
    assert_eq!(policy.kept.bytes(), 120, "the last run of each session stays");
    let refused = within(other.start(command("b"), RunKind::Tests, IfBusy::Queue)).await.err();
    assert_eq!(refused, Some(SessionError::Quota(Refused::KeptBytes { max: 100 })));
    within(session.close()).await;
    run(&other, "b").await;
    assert_eq!(policy.kept.bytes(), 60);
}

/// A panic costs one session: its run is killed, its callers get a typed error, the rest goes on.
#[tokio::test]
async fn a_panic_costs_one_session() {
    let world = World::new();
    let (broken, other) = (world.open("broken"), world.open("other"));
    let run = start(&broken, "a").await;
    within(broken.panic()).await;
    assert_eq!(world.killed_because().await, KillReason::Closed);
    assert!(broken.is_gone());
    assert_eq!(within(broken.status()).await, Err(SessionError::Gone));
    assert!(within(run.handle.end()).await.is_err(), "whoever waited is told");
    let run = start(&other, "a").await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
}

#[tokio::test]
async fn a_broken_driver_costs_one_run() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    let second = start(&session, "b").await;
    world.tell(Do::Panic);
    assert!(matches!(within(first.handle.end()).await.unwrap(), RunEnd::NotStarted(_)));
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&second).await, Outcome::Passed);
}

#[tokio::test]
async fn closing_a_session_kills_its_run_and_leaves_nothing() {
    let world = World::new();
    let session = world.open("s");
    let run = start(&session, "a").await;
    let waiting = start(&session, "b").await;
    within(session.close()).await;
    assert_eq!(world.killed_because().await, KillReason::Closed);
    assert_eq!(outcome(&run).await, Outcome::Cancelled);
    assert_eq!(outcome(&waiting).await, Outcome::Cancelled);
    assert!(session.is_gone());
}

#[tokio::test]
async fn how_every_run_ended_is_in_the_audit_log() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    let second = start(&session, "b").await;
    let third = start(&session, "c").await;
    assert!(within(session.cancel(second.run.clone())).await.unwrap());
    world.tell(Do::Exit(1));
    assert_eq!(outcome(&first).await, Outcome::Failed);
    assert!(within(session.cancel(third.run.clone())).await.unwrap());
    assert_eq!(outcome(&third).await, Outcome::Cancelled);
    let told: Vec<_> =
        world.told().into_iter().map(|line| (line.event, line.run.unwrap(), line.outcome.unwrap())).collect();
    let line = |run: &Started, outcome: &str| (audit::Event::RunFinished, run.run.to_string(), outcome.to_owned());
    assert_eq!(told, [line(&second, "cancelled"), line(&first, "failed"), line(&third, "cancelled")]);
    let lines = world.told();
    assert!(lines.iter().all(|line| line.tenant.as_deref() == Some("acme") && line.session.as_deref() == Some("s")));
    assert!(lines.iter().all(|line| line.limits.is_some() && line.duration_ms.is_some()));
    assert_eq!((lines[0].reason.as_deref(), lines[1].reason.as_deref()), (Some("cancelled"), None));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_ends_and_the_audit_log_says_so() {
    let world = World::new();
    let session = world.open("s");
    within(session.status()).await.unwrap();
    // The clock runs by itself to the one thing that is waited for.
    tokio::time::sleep(Duration::from_secs(13 * 60 * 60)).await;
    assert!(session.is_gone());
    let told = world.told();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].event, told[0].session.as_deref()), (audit::Event::SessionExpired, Some("s")));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_watches_dies_after_its_grace() {
    let world = World::new();
    let session = world.open("s");
    let run = start(&session, "a").await;
    let watch = run.handle.watch();
    // A whole tick and more passes while somebody watches.
    tokio::time::advance(Duration::from_millis(2 * DETACHED_MS_MAX)).await;
    assert!(within(session.status()).await.unwrap().running.is_some());
    drop(watch);
    let before = tokio::time::Instant::now();
    // The fake's thread keeps the clock from running by itself, so the test moves it.
    while world.fake.killed.lock().unwrap().is_empty() {
        assert!(before.elapsed() < Duration::from_millis(3 * DETACHED_MS_MAX), "nobody killed it");
        tokio::time::advance(Duration::from_millis(500)).await;
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(before.elapsed() >= Duration::from_millis(DETACHED_MS_MAX));
    assert_eq!(world.killed_because().await, KillReason::Abandoned);
}

fn tenant(world: &World, uid: u32, sessions_max: usize) -> Arc<Tenant> {
    let tenants = Tenants::private(uid, world.dir.path().to_owned(), world.policy());
    let tenant = tenants.identify(Credential::Uid(uid)).unwrap().tenant.unwrap();
    let policy = Arc::clone(&tenant.policy);
    Arc::new(Tenant {
        id: TenantId::new(uid.to_string()),
        roots: tenant.roots.clone(),
        reserved: Vec::new(),
        policies: Arc::new(tokio::sync::watch::Sender::new(Arc::clone(&policy))),
        policy,
        sessions_max,
        allowance: Arc::new(Allowance::new(1_000, 1_000)),
    })
}

/// A registry with these bounds, and how its sessions are asked for.
struct Book {
    registry: Registry,
}

impl Book {
    fn with(world: &World, bounds: Bounds) -> Book {
        Book { registry: Registry::start(Arc::clone(&world.context), bounds) }
    }

    async fn open(&self, tenant: &Arc<Tenant>, workspace: &Workspace, key: &str, separate: bool) -> Got {
        let (tenant, workspace, client_request_id) = (Arc::clone(tenant), workspace.clone(), key.to_owned());
        let opened = self.registry.create(Wanted { tenant, workspace, client_request_id, separate });
        within(opened).await.map(|opened| (opened.session, opened.existing))
    }

    async fn separate(&self, tenant: &Arc<Tenant>, workspace: &Workspace) -> SessionHandle {
        let (session, existing) = self.open(tenant, workspace, "", true).await.unwrap();
        assert!(!existing);
        session
    }

    async fn sessions(&self) -> usize {
        within(self.registry.census()).await.iter().map(|holding| holding.sessions).sum()
    }
}

type Got = Result<(SessionHandle, bool), CreateError>;

fn refused(got: Got) -> CreateError {
    match got {
        Ok((session, _)) => panic!("it got {}", session.id()),
        Err(why) => why,
    }
}

#[tokio::test]
async fn the_registry_keeps_tenants_apart_and_quotas() {
    let world = World::new();
    let bounds = Bounds { sessions_max: 4, ..Bounds::default() };
    let (book, place) = (Book::with(&world, bounds), world.workspace());
    let (ours, theirs) = (tenant(&world, 1, 2), tenant(&world, 2, 3));
    let (first, _) = book.open(&ours, &place, "key", true).await.unwrap();
    let (same, existing) = book.open(&ours, &place, "key", true).await.unwrap();
    assert_eq!((first.id(), existing), (same.id(), true));
    let (foreign, _) = book.open(&theirs, &place, "key", true).await.unwrap();
    assert_ne!(first.id(), foreign.id());
    book.separate(&ours, &place).await;
    let again = book.open(&ours, &place, "", true).await;
    assert_eq!(refused(again), CreateError::TooMany { max: 2 });
    let registry = &book.registry;
    assert!(registry.find(theirs.id.clone(), first.id().clone()).await.is_none());
    assert!(registry.find(ours.id.clone(), first.id().clone()).await.is_some());
    assert_eq!(registry.list(ours.id.clone(), String::new(), 10).await.len(), 2);
    first.close().await;
    assert!(registry.find(ours.id.clone(), first.id().clone()).await.is_none());
    let (replaced, existing) = book.open(&ours, &place, "key", true).await.unwrap();
    assert!(!existing, "a closed session is not found again by its request");
    assert_ne!(replaced.id(), first.id());

    // The host's own bound holds whoever asks.
    book.separate(&theirs, &place).await;
    assert_eq!(refused(book.open(&theirs, &place, "", true).await), CreateError::HostFull);
    foreign.close().await;
    let last = book.separate(&theirs, &place).await;
    let closed = within(registry.drain(std::future::ready(()))).await;
    assert_eq!(closed, Closed::default());
    assert!(replaced.is_gone() && last.is_gone());
    assert_eq!(refused(book.open(&ours, &place, "", false).await), CreateError::Draining);
    eventually(&book, 0).await;
}

#[tokio::test]
async fn callers_of_a_tenant_share_the_session_of_a_workspace_unless_they_want_their_own() {
    let world = World::new();
    let (book, place) = (Book::with(&world, Bounds::default()), world.workspace());
    let (ours, theirs) = (tenant(&world, 1, 9), tenant(&world, 2, 9));
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = Workspace::open(elsewhere.path()).unwrap();
    let own = book.separate(&ours, &place).await;
    let (shared, existing) = book.open(&ours, &place, "", false).await.unwrap();
    assert!(!existing && shared.id() != own.id(), "a separate one is nobody else's");
    for key in ["", "a", "b"] {
        let (again, existing) = book.open(&ours, &place, key, false).await.unwrap();
        assert_eq!((again.id(), existing), (shared.id(), true), "{key}");
    }
    let others = [book.open(&theirs, &place, "", false).await, book.open(&ours, &elsewhere, "", false).await];
    for other in others {
        let (other, existing) = other.unwrap();
        assert!(!existing && other.id() != shared.id());
    }
    // Its end makes room for the next, whichever is taken in first.
    shared.close().await;
    let (next, existing) = book.open(&ours, &place, "", false).await.unwrap();
    assert!(!existing && next.id() != shared.id());
    eventually(&book, 4).await;
    let (again, existing) = book.open(&ours, &place, "", false).await.unwrap();
    assert_eq!((again.id(), existing), (next.id(), true));
}

async fn eventually(book: &Book, sessions: usize) {
    within(async {
        while book.sessions().await != sessions {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_expires_and_whoever_looks_at_it_does_not_use_it() {
    let world = World::new();
    let minute = Duration::from_secs(60);
    let (book, place) = (Book::with(&world, Bounds { idle_max: minute, ..Bounds::default() }), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (session, _) = book.open(&ours, &place, "", false).await.unwrap();
    assert_eq!(session.idle_max(), minute);
    let half = Duration::from_secs(40);
    tokio::time::sleep(half).await;
    assert_eq!(session.last_run(1).await.unwrap(), None, "this is a use of it");
    tokio::time::sleep(half).await;
    let status = session.status().await.unwrap();
    assert_eq!(world.context.clock.now().ms_since(status.used_at), 40_000);
    assert_eq!(session.unfinished().await.unwrap().len(), 0);
    tokio::time::sleep(half).await;
    assert!(session.is_gone());
    eventually(&book, 0).await;
}

#[tokio::test]
async fn a_drain_lets_runs_end_and_takes_on_none() {
    let world = World::new();
    let (book, place) = (Book::with(&world, Bounds::default()), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (one, idle) = (book.separate(&ours, &place).await, book.separate(&ours, &place).await);
    let (first, second) = (start(&one, "a").await, start(&one, "b").await);
    assert!(one.is_busy() && !idle.is_busy());
    let registry = book.registry.clone();
    let draining = tokio::spawn(async move { registry.drain(std::future::pending()).await });
    let refusal = within(async {
        loop {
            match one.start(command("c"), RunKind::Tests, IfBusy::Refuse).await {
                Err(SessionError::Refused(Refusal::Busy)) => tokio::task::yield_now().await,
                other => return other.err(),
            }
        }
    });
    assert_eq!(refusal.await, Some(SessionError::Refused(Refusal::Draining)));
    assert_eq!(one.unfinished().await.unwrap().len(), 2, "what was accepted goes on");
    world.tell(Do::Exit(0));
    world.tell(Do::Exit(1));
    assert_eq!((outcome(&first).await, outcome(&second).await), (Outcome::Passed, Outcome::Failed));
    assert_eq!(within(draining).await.unwrap(), Closed { finished: 2, cancelled: 0 });
    assert!(one.is_gone() && idle.is_gone() && world.fake.killed.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_drain_cancels_what_has_not_ended_at_its_deadline() {
    let world = World::new();
    let (book, place) = (Book::with(&world, Bounds::default()), world.workspace());
    let ours = tenant(&world, 1, 9);
    let session = book.separate(&ours, &place).await;
    let runs = [start(&session, "a").await, start(&session, "b").await, start(&session, "c").await];
    let (over, deadline) = oneshot::channel::<()>();
    let registry = book.registry.clone();
    let draining = tokio::spawn(async move { registry.drain(async { _ = deadline.await }).await });
    // Until the drain is known in the session, what ends is no run of the drain.
    within(async {
        while !matches!(
            session.start(command("d"), RunKind::Tests, IfBusy::Refuse).await,
            Err(SessionError::Refused(Refusal::Draining))
        ) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&runs[0]).await, Outcome::Passed);
    assert!(!draining.is_finished());
    over.send(()).unwrap();
    assert_eq!(within(draining).await.unwrap(), Closed { finished: 1, cancelled: 2 });
    assert_eq!((outcome(&runs[1]).await, outcome(&runs[2]).await), (Outcome::Cancelled, Outcome::Cancelled));
    assert_eq!(world.killed_because().await, KillReason::Closed);
}

/// Most sessions are at rest, and there may be 100,000 of them.
#[tokio::test]
async fn a_session_at_rest_costs_its_actor_little() {
    let world = World::new();
    let (_handle, actor) = prepare_actor(Opening {
        id: SessionId::new("s"),
        context: Arc::clone(&world.context),
        policy: Arc::new(world.policy()).into(),
        workspace: world.workspace(),
        idle_max: IDLE_MAX,
        memory: Memory::default(),
    });
    let bytes = size_of_val(&actor);
    assert!(bytes <= 2_048, "{bytes} bytes");
}

//! Test harness for sessions: a sandbox that follows orders, the one workspace where the operating system is faked, and
//! helpers that start sessions and runs.

use crate::clock::Clock;
use crate::history::History;
use crate::host::monitor::HostMonitor;
use crate::host::toolchain::Toolchain;
use crate::ops::audit::{self, Audit};
use crate::runs::context::ScanPermits;
use crate::runs::prepare::prepare;
use crate::runs::scheduler::{RunSlot, Scheduler, SlotRequest};
use crate::runs::{self, Phase, RunEnd, RunKiller, RunTask, RunThreads, Spools};
use crate::sessions::limits::SessionLimits;
use crate::sessions::registry::{self, CreateError, Registry};
use crate::sessions::*;
use crate::tenants::Tenant;
use crate::tenants::allowance::{Allowance, MemoryReservation};
use crate::tenants::policy::Policy;
use crate::workspace::Root;
use proctor_core::bounds::RETAINED_FILE_BYTES_MIN;
use proctor_core::event::Stream;
use proctor_core::id::{SessionId, TenantId};
use proctor_core::isolation::{Isolation, Layer};
use proctor_core::outcome::{Exit, KillReason};
use proctor_core::queue::QueueEntry;
use proctor_core::quota::{Amount, Quota};
use proctor_core::report::Report;
use proctor_sandbox::{Ending, KillSwitch, RunSpec, Sandbox, SandboxError, SandboxEvent};
use std::sync::Mutex;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;
use tokio::time::timeout;

/// An order to the fake sandbox.
pub(super) enum Order {
    Write(&'static str),
    Exit(i32),
    Panic,
}

/// A sandbox that follows orders until it is killed, and records the kill reasons.
pub(super) struct FakeSandbox {
    orders: Mutex<std_mpsc::Receiver<Order>>,
    pub(super) killed: Mutex<Vec<KillReason>>,
}

impl Sandbox for FakeSandbox {
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
                Ok(Order::Write(text)) => {
                    sink(SandboxEvent::Output { stream: Stream::Stdout, bytes: text.as_bytes() });
                }
                Ok(Order::Exit(code)) => {
                    let exit = Exit::Code(code);
                    sink(SandboxEvent::CommandExited { index: 0, exit });
                    return Ok(Ending { exits: vec![exit], ..Ending::default() });
                }
                Ok(Order::Panic) => panic!("a test asked for it"),
                Err(_) => {}
            }
        }
    }
}

pub(super) type Sink<'a> = &'a mut dyn FnMut(SandboxEvent<'_>);

/// A sandbox that runs one function and ignores kills.
pub(super) struct ScriptedSandbox(pub(super) fn(Sink<'_>) -> Result<Ending, SandboxError>);

impl Sandbox for ScriptedSandbox {
    fn run(
        &self,
        _spec: &RunSpec,
        _kill: &KillSwitch,
        sink: &mut dyn FnMut(SandboxEvent<'_>),
    ) -> Result<Ending, SandboxError> {
        (self.0)(sink)
    }
}

/// A host budget for eight runs with default limits.
const BUDGET: Amount = Amount { memory_bytes: 16 << 30, cpu_millis: 16_000 };

pub(super) struct World {
    pub(super) context: Arc<Context>,
    pub(super) fake: Arc<FakeSandbox>,
    orders: std_mpsc::SyncSender<Order>,
    dir: tempfile::TempDir,
    /// Directory of the audit log.
    log: tempfile::TempDir,
}

impl World {
    pub(super) fn new() -> World {
        let (order, orders) = std_mpsc::sync_channel(64);
        let fake = Arc::new(FakeSandbox { orders: Mutex::new(orders), killed: Mutex::default() });
        let (clock, log) = (Clock::new(), tempfile::tempdir().unwrap());
        let config = audit::AuditLogConfig { path: log.path().join("audit.jsonl"), bytes_max: 1 << 20, keep: 0 };
        let context = Arc::new(Context {
            sandbox: Arc::clone(&fake) as Arc<dyn Sandbox>,
            toolchain: Toolchain::default(),
            clock,
            audit: Audit::open(config, clock).unwrap(),
            host: HostMonitor::new(clock),
            scheduler: Scheduler::start(clock, BUDGET),
            scan_permits: ScanPermits::for_host(),
            counters: Arc::default(),
            history: History::off(),
            run_threads: RunThreads::default(),
        });
        World { context, fake, orders: order, dir: tempfile::tempdir().unwrap(), log }
    }

    /// The same with another sandbox.
    pub(super) fn with(sandbox: impl Sandbox + 'static) -> World {
        let world = World::new();
        let (clock, path) = (world.context.clock, world.log.path().join("other.jsonl"));
        let context = Arc::new(Context {
            sandbox: Arc::new(sandbox),
            toolchain: Toolchain::default(),
            clock,
            audit: Audit::open(audit::AuditLogConfig { path, bytes_max: 1 << 20, keep: 0 }, clock).unwrap(),
            host: HostMonitor::new(clock),
            scheduler: Scheduler::start(clock, BUDGET),
            scan_permits: ScanPermits::for_host(),
            counters: Arc::default(),
            history: History::off(),
            run_threads: RunThreads::default(),
        });
        World { context, ..world }
    }

    /// Drives a run with these output files and returns its report.
    pub(super) async fn driven(&self, spools: Spools) -> Arc<Report> {
        let clock = self.context.clock;
        let (log, _handle) = runs::open(clock, &spools, MemoryReservation::unbounded());
        let (policy, workspace, request) = (self.policy(), self.workspace(), command("a"));
        let (session, scan) = (SessionId::new("s"), workspace.scan().unwrap());
        let prepared = prepare(&self.context, &policy, &session, &workspace, &scan, &request, RunKind::Tests);
        let task = RunTask {
            context: Arc::clone(&self.context),
            policy: Arc::new(policy),
            workspace,
            workspace_key: None,
            session,
            scan_permits: ScanPermits::for_tenant(),
            runtime: tokio::runtime::Handle::current(),
            run: RunId::new("s-1"),
            request,
            kind: RunKind::Tests,
            fingerprint: None,
            affected: None,
            earlier: None,
            earlier_checks: Arc::default(),
            index: Arc::default(),
            baseline: None,
            tools: std::collections::BTreeMap::new(),
            notes: Vec::new(),
            accepted_at: clock.now(),
            log,
            spools,
            killer: RunKiller::new().unwrap(),
            trace: crate::telemetry::traces::run::RunTrace::default(),
        };
        let slot = self.enter("acme", Amount { memory_bytes: 1, cpu_millis: 1 }).await;
        match within(runs::drive(task, prepared.ok().unwrap(), slot)).await.end {
            RunEnd::Report(report) => report,
            RunEnd::NotStarted(why) => panic!("not started: {why}"),
        }
    }

    /// Occupies the whole host with another tenant's run.
    pub(super) async fn occupy(&self) -> RunSlot {
        self.enter("other", BUDGET).await
    }

    async fn enter(&self, tenant: &str, demand: Amount) -> RunSlot {
        let entry = QueueEntry { tenant: TenantId::new(tenant), demand, priority: Priority::Normal };
        let request = SlotRequest { entry, quota: Quota::UNBOUNDED, queued: Arc::default(), queue_reservation: None };
        self.context.scheduler.enter(request).await.unwrap()
    }

    pub(super) fn policy(&self) -> Policy {
        // One file of an ended run, and no second one.
        let quota = Quota { retained_bytes_max: RETAINED_FILE_BYTES_MIN * 3 / 2, ..Quota::UNBOUNDED };
        Policy { quota, cache: Some(self.log.path().join("cache")), ..Policy::new("acme") }
    }

    pub(super) fn workspace(&self) -> Workspace {
        Workspace::open(self.dir.path()).unwrap()
    }

    pub(super) fn open(&self, name: &str) -> SessionHandle {
        let policy = self.policy();
        open(SessionId::new(name), Arc::clone(&self.context), policy, self.workspace(), SessionMemory::default()).0
    }

    pub(super) fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
    }

    /// The audit records so far.
    pub(super) fn audit_records(&self) -> Vec<audit::AuditRecord> {
        self.context.audit.finish();
        let text = std::fs::read_to_string(self.log.path().join("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) async fn killed_because(&self) -> KillReason {
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

/// Keeps a paused clock from advancing by itself until it is dropped: a task on a blocking thread does that, a run's
/// own thread does not.
pub(super) fn freeze_clock() -> std_mpsc::SyncSender<()> {
    let (guard, receiver) = std_mpsc::sync_channel(0);
    tokio::task::spawn_blocking(move || _ = receiver.recv());
    guard
}

pub(super) fn command(word: &str) -> RunRequest {
    RunRequest { command: vec!["/bin/true".into(), word.into()], ..RunRequest::default() }
}

pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(120), future).await.expect("it takes too long")
}

pub(super) async fn start(session: &SessionHandle, word: &str) -> StartedRun {
    within(session.start(command(word), RunKind::Tests, IfBusy::Queue)).await.unwrap()
}

/// Waits until the run is in the sandbox.
pub(super) async fn until_running(started: &StartedRun) {
    while within(started.handle.snapshot()).await.unwrap().phase != Phase::Running {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn outcome(started: &StartedRun) -> Outcome {
    match within(started.handle.end()).await.unwrap() {
        RunEnd::Report(report) => report.outcome,
        RunEnd::NotStarted(why) => panic!("not started: {why}"),
    }
}

pub(super) fn tenant(world: &World, uid: u32, sessions_max: usize) -> Arc<Tenant> {
    let (id, roots) = (TenantId::new(uid.to_string()), vec![Root::new(world.dir.path())]);
    let allowance = Allowance::new(1_000, 1_000);
    Arc::new(Tenant { sessions_max, allowance, ..Tenant::new(id, roots, world.policy()) })
}

/// A registry with helpers to open sessions.
pub(super) struct TestRegistry {
    pub(super) handle: Registry,
}

impl TestRegistry {
    pub(super) fn with(world: &World, bounds: SessionLimits) -> TestRegistry {
        TestRegistry { handle: Registry::start(Arc::clone(&world.context), bounds) }
    }

    pub(super) async fn open(
        &self,
        tenant: &Arc<Tenant>,
        workspace: &Workspace,
        key: &str,
        separate: bool,
    ) -> CreateResult {
        let (tenant, workspace, client_request_id) = (Arc::clone(tenant), workspace.clone(), key.to_owned());
        let opened = self.handle.create(registry::CreateRequest {
            tenant,
            workspace,
            client_request_id,
            separate,
            idle_max: None,
        });
        within(opened).await.map(|opened| (opened.session, opened.existing))
    }

    pub(super) async fn separate(&self, tenant: &Arc<Tenant>, workspace: &Workspace) -> SessionHandle {
        let (session, existing) = self.open(tenant, workspace, "", true).await.unwrap();
        assert!(!existing);
        session
    }

    pub(super) async fn sessions(&self) -> usize {
        within(self.handle.sessions_by_tenant()).await.iter().map(|tenant| tenant.sessions).sum()
    }
}

pub(super) type CreateResult = Result<(SessionHandle, bool), CreateError>;

pub(super) fn refused(got: CreateResult) -> CreateError {
    match got {
        Ok((session, _)) => panic!("got session {}", session.id()),
        Err(why) => why,
    }
}

pub(super) async fn eventually(registry: &TestRegistry, sessions: usize) {
    within(async {
        while registry.sessions().await != sessions {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

//! `proctor serve`: the daemon, and the private supervisor for an agent shim.

use super::arguments::ServeArgs;
use super::config_reload::{ConfigReloader, UidHistory, create_cache_dir, exposed_roots};
use super::in_process::{self, HostSettings};
use super::{CommandError, USAGE, print};
use crate::clock::Clock;
use crate::config::{Config, Diagnostic, Machine, Problem};
use crate::grpc::Api;
use crate::host::resolved_path::ResolvedPath;
use crate::host::state_dir::lock_dir;
use crate::host::toolchain::ToolchainConfig;
use crate::net::{self, Listener, ServerParts};
use crate::ops::audit::{Audit, AuditEvent, AuditRecord};
use crate::ops::drain::Drain;
use crate::ops::systemd::ServiceManager;
use crate::page::PageService;
use crate::runs::context::Context;
use crate::sessions::limits::SessionLimits;
use crate::sessions::registry::Registry;
use crate::telemetry;
use crate::telemetry::collector::MetricsCollector;
use crate::telemetry::listener::MetricsService;
use crate::telemetry::otlp::metrics::{MetricsExport, MetricsSettings};
use crate::tenants::Tenants;
use crate::tenants::access::{self, Access, CurrentAccess, LoadedConfig};
use proctor_core::isolation::Layer;
use proctor_proto::printable;
use proctor_sandbox::{PoolBounds, SandboxError};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How long the end of the supervisor waits until the last runs are in the history.
const HISTORY_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until SIGTERM, SIGINT or, for a private supervisor, the end of its connection.
pub(super) fn serve(arguments: &ServeArgs) -> Result<u8, CommandError> {
    match (&arguments.config, &arguments.root) {
        (Some(path), _) => {
            let may_switch = in_process::own_uid()? == 0;
            let loaded =
                access::load(path, may_switch, &Tenants::default(), |config| path_problems(config, arguments.check))
                    .map_err(|diagnostics| {
                        diagnostics.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\nproctor: ")
                    })
                    .map_err(|text| CommandError { code: USAGE, text })?;
            if arguments.check {
                loaded.notes.iter().for_each(|note| print::message(&format!("proctor: {note}")));
                print::text(&format!("{}: ok", printable::line(&path.display().to_string())))?;
                return Ok(0);
            }
            in_process::runtime()?.block_on(daemon(path, loaded, may_switch))
        }
        (None, Some(root)) => in_process::runtime()?.block_on(private(root)),
        (None, None) => Err(CommandError::usage("serve needs --config or --private --root")),
    }
}

// Roots that the toolchains on this process's PATH would expose to all runs. As an error at start and reload, as a note
// for `--check`, which may run with another PATH than the supervisor.
fn path_problems(config: &Config, is_check: bool) -> Vec<Problem> {
    let names = config.private_paths().iter().flat_map(ResolvedPath::names).collect();
    // Toolchains named in the file are checked with the file, independent of PATH.
    let toolchains = ToolchainConfig { toolchains: Vec::new(), private: watch::channel(names).1 };
    let problems = exposed_roots(&in_process::toolchain(toolchains), config).into_iter();
    let as_note = |problem: Problem| {
        Problem::note(problem.at, format!("{}; according to the PATH of `--check` itself", problem.text))
    };
    if is_check { problems.map(as_note).collect() } else { problems.collect() }
}

async fn daemon(path: &Path, loaded: LoadedConfig, may_switch: bool) -> Result<u8, CommandError> {
    let LoadedConfig { config, access, private, notes } = loaded;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    if !may_switch && config.sandbox.required().contains(&Layer::TenantUid) {
        return Err(CommandError::host(cannot_switch().to_string()));
    }
    // Installed before the process can be found: without a handler, SIGHUP would kill it.
    let mut hangup = hangup_signal()?;
    // Held to the end. Two supervisors that shared caches and UIDs would mistake each other's files for their own.
    let _lock = lock_dir(&config.state_dir).map_err(|error| CommandError::host(error.to_string()))?;
    for tenant in access.tenants.all() {
        create_cache_dir(&config, tenant).map_err(CommandError::host)?;
    }
    let (private, private_rx) = watch::channel(private);
    let toolchains = ToolchainConfig { toolchains: config.host.toolchains.clone(), private: private_rx };
    let clock = Clock::new();
    let log_config = config.audit.log_config(&config.state_dir);
    let label = format!("the audit log {}", log_config.path.display());
    let audit = Audit::open(log_config, clock).map_err(|error| CommandError::host(format!("{label}: {error}")))?;
    let budget = config.host.budget(Machine::current());
    let settings =
        HostSettings { budget, pool: config.host.pool.bounds(), toolchains, clock, audit: Some(audit.clone()) };
    let context = in_process::context(settings)?;
    let (access, current) = watch::channel(Arc::new(access));
    let api = api(context, current.clone(), config.host.session_limits(), Drain::new(config.host.drain()));
    let mut listeners = Vec::new();
    if let Some(path) = &config.listen.unix {
        let mode = config.listen.mode().map_err(|error| CommandError::usage(error.to_string()))?;
        listeners.push(net::bind_unix(path, mode).await.map_err(|error| CommandError::host(error.to_string()))?);
        tracing::info!(socket = %path.display(), "listening");
    }
    if let Some(address) = config.listen.tcp {
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|error| CommandError::host(format!("{address}: {error}")))?;
        // With port 0 the kernel chooses the port; the starting process reads it here.
        tracing::info!(address = %listener.local_addr().unwrap_or(address), "listening");
        listeners.push(match config.listen.tls {
            Some(_) => Listener::Tls { listener, access: current },
            None => Listener::Tcp(listener),
        });
    }
    let export = start_metrics(&config, &api, access.subscribe()).await?;
    let manager = ServiceManager::from_env(|name| std::env::var_os(name));
    if let Some(manager) = manager.map_err(|error| CommandError::host(format!("NOTIFY_SOCKET: {error}")))? {
        let registry = api.registry.clone();
        let answers = move || {
            let registry = registry.clone();
            async move { registry.ping().await }
        };
        tokio::spawn(manager.run_notifications(api.drain.clone(), answers));
    }
    let (path, context, registry) = (path.to_owned(), Arc::clone(&api.context), api.registry.clone());
    let uid_history = UidHistory::from_config(&config);
    let mut reloader = ConfigReloader { path, config, uid_history, may_switch, access, private, context, registry };
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reloader.reload().await;
        }
    });
    audit.record(AuditRecord::new(AuditEvent::Started));
    let ended = until_signalled(api, listeners).await;
    if let Some(export) = export {
        export.finish().await;
    }
    audit.record(AuditRecord::new(AuditEvent::Stopped));
    // Flushing blocks. It fails only by a panic.
    _ = tokio::task::spawn_blocking(move || audit.finish()).await;
    ended
}

/// Serves `/metrics`, and the page for people if the host file has it, if there is an address for them, and sends the metrics
/// if there is a collector for them.
async fn start_metrics(
    config: &Config,
    api: &Api,
    access: CurrentAccess,
) -> Result<Option<MetricsExport>, CommandError> {
    let settings = MetricsSettings::resolve(&config.telemetry.metrics, |name| std::env::var(name).ok());
    let listen = config.telemetry.listen;
    if listen.is_none() && settings == Ok(None) {
        return Ok(None);
    }
    let collector = MetricsCollector::start(api.clone(), config.state_dir.clone());
    let clock = api.context.clock;
    let export = settings.and_then(|settings| {
        settings.map(|settings| MetricsExport::start(&settings, collector.clone(), clock)).transpose()
    });
    if let Some(address) = listen {
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|error| CommandError::host(format!("telemetry.listen: {address}: {error}")))?;
        tracing::info!(metrics = %listener.local_addr().unwrap_or(address), "listening for scrapes");
        let operators = config.telemetry.needs_token().then_some(access);
        let mut routes = MetricsService { collector, operators }.routes();
        if config.telemetry.page {
            routes = routes.merge(PageService::start(api.clone(), &config.telemetry.page_hosts).routes());
        }
        tokio::spawn(telemetry::listener::serve(listener, routes));
    }
    // As for traces: what a supervisor reports about itself does not keep it from working.
    Ok(export.unwrap_or_else(|problem| {
        tracing::error!(problem, "no metrics are sent");
        None
    }))
}

fn cannot_switch() -> SandboxError {
    SandboxError::LayerMissing {
        layer: Layer::TenantUid,
        reason: "only root can run tests as another user".to_owned(),
        remedy: "start the supervisor as root, or add tenant_uid to sandbox.left_off".to_owned(),
    }
}

async fn private(root: &Path) -> Result<u8, CommandError> {
    let workspace = in_process::workspace(root)?;
    let policy = in_process::policy(&workspace)?;
    let tenants = Tenants::private(in_process::own_uid()?, workspace.root().to_owned(), policy);
    let access = watch::channel(Arc::new(Access::from_tenants(tenants))).1;
    // Its one client ends it and does not wait for runs.
    let drain = Drain::new(Duration::ZERO);
    let api = api(
        in_process::context(HostSettings::for_single_user(PoolBounds::DEFAULT))?,
        access,
        SessionLimits::default(),
        drain,
    );
    let mut hangup = hangup_signal()?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::warn!("SIGHUP: a private supervisor has no host file to reload");
        }
    });
    let not_a_socket =
        |error| CommandError::usage(format!("file descriptor 0 is not a connected unix socket: {error}"));
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map_err(not_a_socket)?;
    let stream = std::os::unix::net::UnixStream::from(stdin);
    stream.peer_addr().map_err(not_a_socket)?;
    stream.set_nonblocking(true).map_err(not_a_socket)?;
    let stream = UnixStream::from_std(stream).map_err(not_a_socket)?;
    until_signalled(api, vec![Listener::Connected(stream)]).await
}

fn api(context: Arc<Context>, access: CurrentAccess, bounds: SessionLimits, drain: Drain) -> Api {
    let registry = Registry::start(Arc::clone(&context), bounds);
    Api { registry, context, access, drain }
}

fn hangup_signal() -> Result<Signal, CommandError> {
    signal(SignalKind::hangup()).map_err(no_signals)
}

fn no_signals(error: std::io::Error) -> CommandError {
    CommandError::host(format!("signals: {error}"))
}

async fn until_signalled(api: Api, listeners: Vec<Listener>) -> Result<u8, CommandError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let drain = api.drain.clone();
    tokio::spawn(async move {
        // The first signal grants runs their grace period; a second one ends it.
        let mut within = None;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            drain.begin(within);
            within = Some(Duration::ZERO);
        }
    });
    let history = api.context.history.clone();
    let (registry, drain, sandbox) = (api.registry.clone(), api.drain.clone(), Arc::clone(&api.context.sandbox));
    let reflection_failure =
        |error| CommandError::host(format!("the description of the services cannot be read: {error}"));
    let routes = api.routes().await.map_err(reflection_failure)?;
    let served = ServerParts { routes, registry, drain, sandbox };
    let ended = net::serve(served, listeners).await.map_err(|error| CommandError::host(error.to_string()));
    // Waiting for the disk blocks. It fails only by a panic.
    _ = tokio::task::spawn_blocking(move || history.flush(HISTORY_FLUSH_TIMEOUT)).await;
    ended.map(|()| 0)
}

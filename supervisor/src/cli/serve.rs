//! `proctor serve`: the daemon, and the private supervisor that an agent shim starts. Must not know how calls are
//! answered.

use super::arguments::Serve;
use super::local::{self, Shared};
use super::{Failure, USAGE};
use crate::api::Api;
use crate::config::{self, Config};
use crate::context::Context;
use crate::notify::Manager;
use crate::owned::own_dir;
use crate::registry::{Bounds, Registry};
use crate::serve::{self, Drain, Listener};
use crate::tenant::Tenants;
use crate::toolchain::Offer;
use proctor_core::isolation::Layer;
use proctor_sandbox::{PoolBounds, RunAs, SandboxError};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

/// Serves until SIGTERM, SIGINT or, for a private supervisor, the end of its connection.
pub(super) fn serve(arguments: &Serve) -> Result<u8, Failure> {
    match (&arguments.config, &arguments.root) {
        (Some(path), _) => {
            let config =
                config::load(path).map_err(|problems| Failure { code: USAGE, text: problems.join("\nproctor: ") })?;
            if arguments.check {
                anstream::println!("{}: ok", path.display());
                return Ok(0);
            }
            local::runtime()?.block_on(daemon(config))
        }
        (None, Some(root)) => local::runtime()?.block_on(private(root)),
        (None, None) => Err(Failure::usage("serve needs --config or --private --root")),
    }
}

async fn daemon(config: Config) -> Result<u8, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let runs_max = config.host.runs_max.map_or(processors, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let may_switch = local::own_uid()? == 0;
    if !may_switch && config.sandbox.required().contains(&Layer::TenantUid) {
        return Err(Failure::host(cannot_switch().to_string()));
    }
    let tenants = Tenants::from_config(&config, may_switch);
    for tenant in tenants.all() {
        let owner = match tenant.policy.run_as {
            RunAs::User { uid, gid } => Some((uid, gid)),
            RunAs::Supervisor | RunAs::Nobody { .. } => None,
        };
        let made = own_dir(&config.state_dir, &["tenants", tenant.id.as_str(), "cache"], owner);
        made.map_err(|error| Failure::host(format!("the build cache of tenant {:?}: {error}", tenant.id.as_str())))?;
    }
    let offer = Offer {
        toolchains: config.host.toolchains.clone(),
        private: config.private_places().map(Path::to_owned).collect(),
    };
    let context = local::context(Shared { runs_max, pool: config.host.pool.pool(), offer })?;
    let api = api(context, tenants, config.host.bounds(), Drain::new(config.host.drain()));
    let mut listeners = Vec::new();
    if let Some(path) = &config.listen.unix {
        let mode = config.listen.mode().map_err(|error| Failure::usage(error.to_string()))?;
        listeners.push(serve::bind_unix(path, mode).await.map_err(|error| Failure::host(error.to_string()))?);
        tracing::info!(socket = %path.display(), "listening");
    }
    if let Some(address) = config.listen.tcp {
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|error| Failure::host(format!("{address}: {error}")))?;
        // With port 0 the kernel has chosen one; whoever started us reads it here.
        tracing::info!(address = %listener.local_addr().unwrap_or(address), "listening");
        listeners.push(Listener::Tcp(listener));
    }
    let manager = Manager::from_env(|name| std::env::var_os(name));
    if let Some(manager) = manager.map_err(|error| Failure::host(format!("NOTIFY_SOCKET: {error}")))? {
        let registry = api.registry.clone();
        let answers = move || {
            let registry = registry.clone();
            async move { registry.ping().await }
        };
        tokio::spawn(manager.keep_told(api.drain.clone(), answers));
    }
    until_signalled(api, listeners).await
}

fn cannot_switch() -> SandboxError {
    SandboxError::LayerMissing {
        layer: Layer::TenantUid,
        reason: "only root can run tests as another user".to_owned(),
        remedy: "start the supervisor as root, or add tenant_uid to sandbox.left_off".to_owned(),
    }
}

async fn private(root: &Path) -> Result<u8, Failure> {
    let workspace = local::workspace(root)?;
    let policy = local::policy(&workspace)?;
    let tenants = Tenants::private(local::own_uid()?, workspace.root().to_owned(), policy);
    // Its one client ends it, and does not wait.
    let drain = Drain::new(Duration::ZERO);
    let api = api(local::context(Shared::alone(PoolBounds::DEFAULT))?, tenants, Bounds::default(), drain);
    let not_a_socket = |error| Failure::usage(format!("file descriptor 0 is not a connected unix socket: {error}"));
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map_err(not_a_socket)?;
    let stream = std::os::unix::net::UnixStream::from(stdin);
    stream.peer_addr().map_err(not_a_socket)?;
    stream.set_nonblocking(true).map_err(not_a_socket)?;
    let stream = UnixStream::from_std(stream).map_err(not_a_socket)?;
    until_signalled(api, vec![Listener::Connected(stream)]).await
}

fn api(context: Arc<Context>, tenants: Tenants, bounds: Bounds, drain: Drain) -> Api {
    let registry = Registry::start(Arc::clone(&context), bounds);
    Api { registry, context, tenants: Arc::new(tenants), drain }
}

async fn until_signalled(api: Api, listeners: Vec<Listener>) -> Result<u8, Failure> {
    let no_signals = |error| Failure::host(format!("signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(no_signals)?;
    let drain = api.drain.clone();
    tokio::spawn(async move {
        // The first signal gives runs their time; who sends another does not want to wait.
        let mut within = None;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {
                    tracing::warn!("SIGHUP: tenants are read at start only in this version");
                    continue;
                }
            }
            drain.begin(within);
            within = Some(Duration::ZERO);
        }
    });
    serve::serve(api, listeners).await.map_err(|error| Failure::host(error.to_string()))?;
    Ok(0)
}

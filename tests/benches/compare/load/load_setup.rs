//! The supervisor under load: a real one with many tenants, a small file system of its own for temporary files, a worker binary
//! that can be removed, and a guest tenant that comes and goes.

use super::tenant_client::{TenantClient, WAIT_MAX};
use crate::demo_supervisor::{Supervisor, program};
use anyhow::{Context as _, Result, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// User id of the first tenant; each tenant has one.
const FIRST_UID: u32 = 600_000;

/// Concurrent runs that the host has room for, each with half a processor: fewer than clients want, so that tenants share.
const CONCURRENT_RUNS: usize = 6;
pub(super) const RUN_CPU_MILLIS: u32 = 500;

/// Runs that a tenant may queue: fewer than it has lanes, so that some are refused.
const QUEUED_RUNS: usize = 4;

/// Sessions per tenant beyond one per lane.
const SPARE_SESSIONS: usize = 2;

/// Space for temporary files per lane: twice what the runs of a session use.
const TMP_PER_LANE: usize = 3 << 20;

/// A mounted file system, unmounted on drop.
struct TmpfsMount(PathBuf);

impl TmpfsMount {
    fn tmpfs(path: PathBuf, bytes: usize) -> Result<TmpfsMount> {
        fs::create_dir(&path)?;
        let options = format!("size={bytes},mode=0700");
        let mounted = mount(Some("tmpfs"), &path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()));
        mounted.context("mounting a tmpfs for the supervisor's temporary files, which takes root")?;
        Ok(TmpfsMount(path))
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        // On an error the directory around it stays as well, without a message.
        _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// The supervisor and its files, removed on drop.
pub(super) struct LoadSupervisor {
    supervisor: Option<Supervisor>,
    address: SocketAddr,
    tmp: TmpfsMount,
    dir: TempDir,
    tenants: usize,
    lanes: usize,
}

impl LoadSupervisor {
    /// Starts a supervisor with this number of tenants (including the guest) and lanes per tenant.
    pub(super) fn start(tenants: usize, lanes: usize) -> Result<LoadSupervisor> {
        let dir = tempfile::Builder::new().prefix("proctor-load-").tempdir().context("making a directory")?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        for tenant in 0..tenants {
            for lane in 0..lanes {
                fs::create_dir_all(workspace(dir.path(), tenant, lane))?;
                chown_to_tenant(&workspace(dir.path(), tenant, lane), tenant)?;
            }
        }
        fs::copy(program("proctor-worker")?, dir.path().join("worker")).context("copying the worker")?;
        let tmp = TmpfsMount::tmpfs(dir.path().join("tmp"), tenants * lanes * TMP_PER_LANE)?;
        let (config, log) = (dir.path().join("proctor.toml"), dir.path().join("supervisor.log"));
        fs::write(&config, host_file(dir.path(), tenants, lanes, true)).context("writing the host file")?;
        let env = [("TMPDIR", tmp.0.as_path()), ("PROCTOR_WORKER", &dir.path().join("worker"))];
        let supervisor = Supervisor::spawn(&config, log.clone(), &env)?;
        let address = wait_for_address(&log)?;
        Ok(LoadSupervisor { supervisor: Some(supervisor), address, tmp, dir, tenants, lanes })
    }

    pub(super) fn pid(&self) -> u32 {
        self.supervisor.as_ref().map_or(0, Supervisor::pid)
    }

    /// Index of the tenant that is not always in the host file.
    pub(super) fn guest(&self) -> usize {
        self.tenants - 1
    }

    /// Opens a connection for a tenant; an error when the supervisor accepts none.
    pub(super) async fn connect(&self, tenant: usize) -> Result<TenantClient, tonic::transport::Error> {
        TenantClient::connect(self.address, &token(tenant)).await
    }

    pub(super) fn workspace(&self, tenant: usize, lane: usize) -> PathBuf {
        workspace(self.dir.path(), tenant, lane)
    }

    /// Writes the host file with or without the guest. The caller sends SIGHUP.
    pub(super) fn rewrite_host_file(&self, with_guest: bool) -> Result<()> {
        let text = host_file(self.dir.path(), self.tenants, self.lanes, with_guest);
        let (new, config) = (self.dir.path().join("proctor.toml.new"), self.dir.path().join("proctor.toml"));
        fs::write(&new, text).and_then(|()| fs::rename(new, config)).context("rewriting the host file")
    }

    /// TMPDIR of the supervisor.
    pub(super) fn tmp(&self) -> &Path {
        &self.tmp.0
    }

    /// Path of the worker binary, which can be moved away.
    pub(super) fn worker(&self) -> PathBuf {
        self.dir.path().join("worker")
    }

    /// Lines of the supervisor's log about panics.
    pub(super) fn panics(&self) -> Result<Vec<String>> {
        let log = fs::read_to_string(self.dir.path().join("supervisor.log")).context("reading the log")?;
        Ok(log.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect())
    }

    /// All files of the audit log.
    pub(super) fn audit_files(&self) -> Vec<PathBuf> {
        let is_audit =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("audit"));
        crate::soak::entries(self.dir.path()).filter(is_audit).collect()
    }

    /// Stops the supervisor and checks its exit status. Its files stay until drop.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let supervisor = self.supervisor.take().context("the supervisor was stopped already")?;
        let status = supervisor.stop().await?;
        if !status.success() {
            bail!("the supervisor ended with {status}");
        }
        Ok(())
    }
}

/// Weight of a tenant: three classes in turn.
pub(super) fn weight(tenant: usize) -> u32 {
    [1, 2, 4][tenant % 3]
}

/// Gives a directory to the tenant's user.
pub(super) fn chown_to_tenant(path: &Path, tenant: usize) -> std::io::Result<()> {
    chown(path, Some(uid(tenant)), Some(uid(tenant)))
}

fn uid(tenant: usize) -> u32 {
    FIRST_UID + u32::try_from(tenant).unwrap_or(0)
}

fn token(tenant: usize) -> String {
    format!("token-of-{tenant}")
}

fn root(dir: &Path, tenant: usize) -> PathBuf {
    dir.join("workspaces").join(tenant.to_string())
}

fn workspace(dir: &Path, tenant: usize, lane: usize) -> PathBuf {
    root(dir, tenant).join(lane.to_string())
}

fn host_file(dir: &Path, tenants: usize, lanes: usize, with_guest: bool) -> String {
    let cpus = CONCURRENT_RUNS * usize::try_from(RUN_CPU_MILLIS).unwrap_or(0) / 1_000;
    let mut text = format!(
        "state_dir = {state:?}\n[listen]\ntcp = \"127.0.0.1:0\"\n[host]\nmemory = \"64GiB\"\ncpus = {cpus}\ndrain = \"1s\"\n\
         [defaults]\nkill_grace = \"500ms\"\n[audit]\npath = {audit:?}\nmax_bytes = \"1GiB\"\nkeep = 8\n",
        state = dir.join("state"),
        audit = dir.join("audit.jsonl"),
    );
    for tenant in 0..if with_guest { tenants } else { tenants - 1 } {
        text += &format!(
            "[[tenant]]\nid = \"t{tenant}\"\ntoken_hashes = [\"{hash}\"]\nroots = [{root:?}]\nsessions_max = {sessions}\n\
             uid_range = {{ first = {uid}, count = 1 }}\n\
             [tenant.quota]\nweight = {weight}\nqueued_runs = {QUEUED_RUNS}\n",
            hash = blake3::hash(token(tenant).as_bytes()),
            root = root(dir, tenant),
            sessions = lanes + SPARE_SESSIONS,
            uid = uid(tenant),
            weight = weight(tenant),
        );
    }
    text
}

// Port 0 lets the kernel choose a port, which the log names.
fn wait_for_address(log: &Path) -> Result<SocketAddr> {
    let until = Instant::now() + WAIT_MAX;
    while Instant::now() < until {
        let text = fs::read_to_string(log).unwrap_or_default();
        let found = text.lines().find_map(|line| line.split("address=").nth(1)?.trim().parse().ok());
        if let Some(address) = found {
            return Ok(address);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("the supervisor logs no address; its log:\n{}", fs::read_to_string(log).unwrap_or_default())
}

//! The host checks of `proctor doctor` and `GetHost`: kernel layers as probed by the sandbox, and the toolchains, each
//! started once.

use crate::host::environment::{HOME, home};
use crate::host::read_access::ReadAccess;
use crate::host::toolchain::is_visible;
use crate::runs::context::Context;
use proctor_core::limits::Limits;
use proctor_core::outcome::Exit;
use proctor_frameworks::{Probe, TOOLCHAINS};
use proctor_sandbox::{CommandSpec, HostReport, Jail, KillSwitch, RowGroup, RunSpec, SandboxEvent, Status};
use serde::Serialize;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// One line of the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// kernel, cgroup, namespace, security or toolchain.
    pub group: &'static str,
    /// The layer, limit or program that was checked.
    pub name: String,
    /// Whether runs can use it.
    pub status: Status,
    /// The measured value, version or cause.
    pub detail: String,
    /// Whether runs lack a layer or limit of this version if it is not usable.
    pub needed: bool,
    /// The command or setting that repairs it; empty if it is usable or not needed.
    pub remedy: String,
}

/// Runs all checks. Starts each toolchain once, in the sandbox, so not for a tokio thread.
#[must_use]
pub fn checks(context: &Context) -> Vec<Check> {
    checks_until(context, None)
}

/// Like [`checks`], but stops early once `kill` is triggered.
#[must_use]
pub fn checks_until(context: &Context, kill: Option<&KillSwitch>) -> Vec<Check> {
    let report = context.sandbox.probe();
    let mut checks = kernel_checks(&report);
    checks.push(worker_check(context));
    checks.extend(report.rows.iter().map(|row| Check {
        group: match row.group {
            RowGroup::Cgroup => "cgroup",
            RowGroup::Namespace => "namespace",
            RowGroup::Filter => "security",
        },
        name: row.name.clone(),
        status: row.status,
        detail: row.detail.clone(),
        needed: row.needed,
        remedy: row.remedy.clone(),
    }));
    let probes = TOOLCHAINS.iter().filter_map(|toolchain| toolchain.probe);
    let probes = probes.take_while(|_| kill.is_none_or(|kill| kill.reason().is_none()));
    checks.extend(probes.map(|probe| toolchain_check(context, kill, probe)));
    checks
}

fn kernel_checks(report: &HostReport) -> Vec<Check> {
    let fact = |name: &str, detail: String| Check {
        group: "kernel",
        name: name.to_owned(),
        status: Status::Usable,
        detail,
        needed: false,
        remedy: String::new(),
    };
    let memory = match report.memory_bytes {
        0 => "unknown".to_owned(),
        bytes => proctor_core::human_units::format_bytes(bytes),
    };
    let privileged =
        if report.privileged { "yes" } else { "no: runs get a user namespace, and limits need a delegated cgroup" };
    vec![
        fact("release", report.kernel.clone()),
        fact("processors", report.cpus.to_string()),
        fact("memory", memory),
        fact("privileged", privileged.to_owned()),
        fact("cgroup mode", report.cgroup_mode.clone()),
    ]
}

/// Workers of this supervisor that did not start or did not die. A new supervisor knows of none.
fn worker_check(context: &Context) -> Check {
    let (trouble, unkillable) = context.host.trouble();
    let (status, detail) = match (trouble, unkillable) {
        (Some((what, for_ms)), _) => (Status::Missing, format!("runs are refused since {} s: {what}", for_ms / 1_000)),
        (None, 0) => (Status::Usable, "none is known to be stuck".to_owned()),
        (None, unkillable) => (Status::Present, format!("{unkillable} are alive although they were killed")),
    };
    let remedy = match status {
        Status::Usable => "",
        _ => {
            "look for processes in state D (ps -eo pid,stat,wchan,args) and for kernel messages (dmesg); if they stay, \
             restart the host"
        }
    };
    let (name, remedy) = ("workers".to_owned(), remedy.to_owned());
    Check { group: "kernel", name, status, detail, needed: true, remedy }
}

fn toolchain_check(context: &Context, kill: Option<&KillSwitch>, probe: Probe) -> Check {
    let Probe { program, argument, remedy } = probe;
    let line = |status, detail: String| Check {
        group: "toolchain",
        name: program.to_owned(),
        remedy: if status == Status::Usable { String::new() } else { remedy.to_owned() },
        status,
        detail,
        // Only a workspace decides which toolchains it needs.
        needed: false,
    };
    let workspace = match EmptyWorkspace::new() {
        Ok(workspace) => workspace,
        Err(error) => return line(Status::Present, format!("no directory to try it in: {error}")),
    };
    let read_only = context.toolchain.read_only(&workspace.0, ReadAccess::Supervisor);
    let Some(path) = context.toolchain.find(program, |path| is_visible(path, &workspace.0, &read_only)) else {
        return line(Status::Missing, "not found on PATH".to_owned());
    };
    match version(context, kill, path, argument, Jail { read_only, ..Jail::new(&workspace.0) }) {
        Ok(version) => line(Status::Usable, version),
        Err(why) => line(Status::Present, why),
    }
}

/// An empty directory that stands in for a workspace; removed when dropped.
struct EmptyWorkspace(PathBuf);

impl EmptyWorkspace {
    fn new() -> io::Result<EmptyWorkspace> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let name = format!("proctor-check-{:016x}", u64::from_ne_bytes(bytes));
        let workspace = std::env::temp_dir().canonicalize()?.join(name);
        DirBuilder::new().mode(0o700).create(&workspace)?;
        Ok(EmptyWorkspace(workspace))
    }
}

impl Drop for EmptyWorkspace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "a directory for checking toolchains could not be removed");
        }
    }
}

// The first line that the program prints, on either stream.
fn version(
    context: &Context,
    kill: Option<&KillSwitch>,
    program: PathBuf,
    argument: &str,
    jail: Jail,
) -> Result<String, String> {
    let spec = RunSpec {
        commands: vec![CommandSpec {
            program,
            args: vec![argument.to_owned()],
            dir: jail.workspace.clone(),
            env: context.toolchain.base_env(&home()).into_iter().collect(),
        }],
        jail,
        stack_requests: vec![],
        scratch_files: Vec::new(),
        scratch_dirs: vec![HOME.to_owned()],
        artifacts: String::new(),
        report: false,
        alone: false,
        limits: Limits { wall_ms_max: 10_000, grace_ms: 100, ..Limits::DEFAULT },
        required_limits: Vec::new(),
    };
    let kill = kill.cloned().map_or_else(KillSwitch::new, Ok).map_err(|error| error.to_string())?;
    let mut output = Vec::new();
    let ending = context
        .sandbox
        .run(&spec, &kill, &mut |event| {
            if let SandboxEvent::Output { bytes, .. } = event {
                // A version is one line; the rest of a longer output is ignored.
                output.extend_from_slice(&bytes[..bytes.len().min(4_096)]);
            }
        })
        .map_err(|error| error.client_text())?;
    let output = String::from_utf8_lossy(&output).lines().next().unwrap_or_default().trim().to_owned();
    match ending.exits.first() {
        Some(Exit::Code(0)) => Ok(output),
        other => Err(format!("does not run: {other:?} {output}")),
    }
}

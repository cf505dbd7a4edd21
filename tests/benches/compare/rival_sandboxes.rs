//! The rivals of one run: Debian's bubblewrap, crun and runc with the settings that come nearest to proctor's. Must not know
//! how long anything takes.

use crate::bench_setup::{Stage, TRUE, command};
use anyhow::{Context as _, Result, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use proctor_core::limits::Limits;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Where a hybrid host has its v2 hierarchy.
const UNIFIED: &str = "/sys/fs/cgroup/unified";

/// Directories of the host that are links into `/usr`, and are so inside.
const LINKS: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// What a run may not call, as far as a filter by numbers alone can say it.
const DENIED: &[&str] = &[
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_settime",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_setup",
    "kcmp",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "reboot",
    "request_key",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "userfaultfd",
];

/// Where `.ci/tools rivals` has unpacked them.
fn unpacked(program: &str) -> Result<PathBuf> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools");
    let tools = std::env::var_os("PROCTOR_TOOLS").map_or_else(own, PathBuf::from);
    let path = tools.join("rivals").join(program);
    ensure!(path.exists(), "{program} is missing: `.ci/tools rivals` unpacks it");
    Ok(path)
}

fn rival(program: &str) -> Result<Command> {
    let mut command = command(unpacked(program)?);
    command.env_clear().env("LD_LIBRARY_PATH", unpacked("lib")?).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.stdin(Stdio::null());
    Ok(command)
}

fn succeeds(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{} ended with {status}", command.get_program().display());
    Ok(())
}

/// The bare spawn: what everything is compared with.
pub(crate) fn bare() -> Result<()> {
    succeeds(&mut command(TRUE))
}

pub(crate) fn bubblewrap(stage: &Stage) -> Result<impl FnMut() -> Result<()> + use<>> {
    let workspace = stage.workspace(0);
    let user = fs::metadata(&workspace)?;
    let mut bwrap = rival("bwrap")?;
    bwrap.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "run"]);
    bwrap.args(["--cap-drop", "ALL", "--uid", &user.uid().to_string(), "--gid", &user.gid().to_string()]);
    bwrap.args(["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]);
    for link in LINKS {
        bwrap.args(["--symlink", &format!("usr/{link}"), &format!("/{link}")]);
    }
    bwrap.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    bwrap.arg("--bind").args([&workspace, &workspace]).arg("--chdir").arg(&workspace);
    bwrap.arg(TRUE);
    Ok(move || succeeds(&mut bwrap))
}

/// A bundle for one of the OCI runtimes, and what runs it.
pub(crate) fn oci(stage: &Stage, runtime: &'static str) -> Result<impl FnMut() -> Result<()> + use<>> {
    let bundle = stage.path().join(runtime);
    let tree = bundle.join("rootfs");
    for dir in ["usr", "etc", "proc", "dev", "tmp", "work"] {
        fs::create_dir_all(tree.join(dir))?;
    }
    for link in LINKS {
        symlink(format!("usr/{link}"), tree.join(link))?;
    }
    fs::write(bundle.join("config.json"), config(&stage.workspace(0), runtime)?.to_string())?;
    let (program, state) = (rival(runtime)?.get_program().to_owned(), bundle.join("state"));
    let library = unpacked("lib")?;
    let mut number = 0;
    Ok(move || {
        number += 1;
        let mut once = command(&program);
        once.env_clear().env("LD_LIBRARY_PATH", &library).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        once.stdin(Stdio::null()).arg("--root").arg(&state).args(["run", "--bundle"]).arg(&bundle);
        succeeds(once.arg(format!("proctor-bench-{}-{number}", std::process::id())))
    })
}

fn config(workspace: &Path, runtime: &str) -> Result<Value> {
    let (user, limits) = (fs::metadata(workspace)?, Limits::DEFAULT);
    let mounted = |at: &str, kind: &str, from: &str, options: &[&str]| json!({ "destination": at, "type": kind, "source": from, "options": options });
    let workspace = workspace.to_str().context("the workspace's path is not UTF-8")?;
    let none: [&str; 0] = [];
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "cgroup", "user"].map(|kind| json!({ "type": kind }));
    Ok(json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": [TRUE],
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/work",
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": none, "effective": none, "inheritable": none, "permitted": none, "ambient": none,
            },
            "rlimits": [{ "type": "RLIMIT_CORE", "hard": 0, "soft": 0 }],
        },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "run",
        "mounts": [
            mounted("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
            mounted("/dev", "tmpfs", "tmpfs", &["nosuid", "mode=755", "size=64k"]),
            mounted("/dev/pts", "devpts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666"]),
            mounted("/dev/shm", "tmpfs", "shm", &["nosuid", "nodev", "noexec", "size=64m"]),
            mounted("/tmp", "tmpfs", "tmpfs", &["nosuid", "nodev", "size=1g"]),
            mounted("/usr", "bind", "/usr", &["rbind", "ro", "nosuid"]),
            mounted("/etc", "bind", "/etc", &["rbind", "ro", "nosuid"]),
            mounted("/work", "bind", workspace, &["bind", "rw", "nosuid"]),
        ],
        "linux": {
            "namespaces": namespaces,
            "uidMappings": [{ "containerID": 0, "hostID": user.uid(), "size": 1 }],
            "gidMappings": [{ "containerID": 0, "hostID": user.gid(), "size": 1 }],
            "cgroupsPath": format!("/proctor-bench-{}-{runtime}", std::process::id()),
            "resources": {
                "memory": { "limit": limits.memory_bytes_max, "swap": limits.memory_bytes_max },
                "cpu": { "quota": u64::from(limits.cpu_millis_max) * 100, "period": 100_000 },
                "pids": { "limit": limits.pids_max },
            },
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "architectures": ["SCMP_ARCH_X86_64"],
                "syscalls": [{ "names": DENIED, "action": "SCMP_ACT_ERRNO" }],
            },
        },
    }))
}

/// A thread that sees no v2 hierarchy beside those of v1, since crun 1.8 refuses hybrid hosts. Ends with this value.
pub(crate) struct WithoutV2 {
    turn: SyncSender<()>,
    done: Receiver<Result<()>>,
}

impl WithoutV2 {
    pub(crate) fn running(mut work: impl FnMut() -> Result<()> + Send + 'static) -> WithoutV2 {
        let (turn, turns) = sync_channel(1);
        let (tell, done) = sync_channel(1);
        std::thread::spawn(move || {
            let hidden = hide_v2();
            for () in turns {
                let outcome = hidden.as_ref().map_err(|error| anyhow::anyhow!("{error:#}")).and_then(|()| work());
                if tell.send(outcome).is_err() {
                    return;
                }
            }
        });
        WithoutV2 { turn, done }
    }

    pub(crate) fn run(&self) -> Result<()> {
        self.turn.send(())?;
        self.done.recv()?
    }
}

/// For the calling thread alone.
fn hide_v2() -> Result<()> {
    if !Path::new(UNIFIED).exists() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS).context("a mount namespace for crun")?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    umount2(UNIFIED, MntFlags::MNT_DETACH).context("hiding the v2 hierarchy from crun")
}

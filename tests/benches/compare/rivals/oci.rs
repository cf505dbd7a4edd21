//! crun and runc, which run bundles of the Open Container Initiative.

use super::{DENIED, LINKS, rival, run_successfully, unpacked_path};
use crate::bench_setup::{BenchSetup, TRUE, command};
use anyhow::{Context as _, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use proctor_core::limits::Limits;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Mount point of the v2 hierarchy on a hybrid host.
const UNIFIED: &str = "/sys/fs/cgroup/unified";

/// Makes a bundle for an OCI runtime and returns the function that runs it.
pub(crate) fn runner(setup: &BenchSetup, runtime: &'static str) -> Result<impl FnMut() -> Result<()> + use<>> {
    let bundle = setup.path().join(runtime);
    let tree = bundle.join("rootfs");
    for dir in ["usr", "etc", "proc", "dev", "tmp", "work"] {
        fs::create_dir_all(tree.join(dir))?;
    }
    for link in LINKS {
        symlink(format!("usr/{link}"), tree.join(link))?;
    }
    fs::write(bundle.join("config.json"), config(&setup.workspace(0), runtime)?.to_string())?;
    let (program, state) = (rival(runtime)?.get_program().to_owned(), bundle.join("state"));
    let library = unpacked_path("lib")?;
    let mut number = 0;
    Ok(move || {
        number += 1;
        let mut once = command(&program);
        once.env_clear().env("LD_LIBRARY_PATH", &library).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        once.stdin(Stdio::null()).arg("--root").arg(&state).args(["run", "--bundle"]).arg(&bundle);
        run_successfully(once.arg(format!("proctor-bench-{}-{number}", std::process::id())))
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

/// A thread that sees only the v1 hierarchies, since crun 1.8 refuses hybrid hosts. It ends on drop.
pub(crate) struct ThreadWithoutV2 {
    turn: SyncSender<()>,
    done: Receiver<Result<()>>,
}

impl ThreadWithoutV2 {
    pub(crate) fn start(mut work: impl FnMut() -> Result<()> + Send + 'static) -> ThreadWithoutV2 {
        let (turn, turns) = sync_channel(1);
        let (send_result, done) = sync_channel(1);
        std::thread::spawn(move || {
            let hidden = hide_v2();
            for () in turns {
                let outcome = hidden.as_ref().map_err(|error| anyhow::anyhow!("{error:#}")).and_then(|()| work());
                if send_result.send(outcome).is_err() {
                    return;
                }
            }
        });
        ThreadWithoutV2 { turn, done }
    }

    pub(crate) fn run(&self) -> Result<()> {
        self.turn.send(())?;
        self.done.recv()?
    }
}

/// Unmounts the v2 hierarchy in a mount namespace of the calling thread.
fn hide_v2() -> Result<()> {
    if !Path::new(UNIFIED).exists() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS).context("a mount namespace for crun")?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    umount2(UNIFIED, MntFlags::MNT_DETACH).context("hiding the v2 hierarchy from crun")
}

//! The rivals: bubblewrap, nsjail, crun, runc and go-judge with settings as close as possible to proctor's.

pub(crate) mod go_judge;
pub(crate) mod nsjail;
pub(crate) mod oci;

use crate::bench_setup::{BenchSetup, TRUE, command};
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Directories that are symlinks into `/usr`, on the host and in the sandboxes.
const LINKS: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// System calls denied to runs, as far as a filter by call numbers can express it.
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

/// Path of a program or library that `.ci/tools rivals` has unpacked.
fn unpacked_path(program: &str) -> Result<PathBuf> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools");
    let tools = std::env::var_os("PROCTOR_TOOLS").map_or_else(own, PathBuf::from);
    let path = tools.join("rivals").join(program);
    ensure!(path.exists(), "{program} is missing: `.ci/tools rivals` unpacks it");
    Ok(path)
}

fn rival(program: &str) -> Result<Command> {
    let mut command = command(unpacked_path(program)?);
    command.env_clear().env("LD_LIBRARY_PATH", unpacked_path("lib")?).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.stdin(Stdio::null());
    Ok(command)
}

fn run_successfully(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{} ended with {status}", command.get_program().display());
    Ok(())
}

/// The bare spawn, the baseline of the comparison.
pub(crate) fn bare() -> Result<()> {
    run_successfully(&mut command(TRUE))
}

pub(crate) fn bubblewrap(setup: &BenchSetup) -> Result<impl FnMut() -> Result<()> + use<>> {
    let workspace = setup.workspace(0);
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
    Ok(move || run_successfully(&mut bwrap))
}

//! nsjail: namespaces, a seccomp filter and cgroups, made anew for each run.

use super::{DENIED, LINKS, rival, run_successfully};
use crate::bench_setup::{BenchSetup, TRUE};
use anyhow::{Context as _, Result};
use proctor_core::limits::Limits;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CGROUPS: &str = "/sys/fs/cgroup";

/// v1 hierarchies that hold limits of a run, with nsjail's word for each.
const CONTROLLERS: [(&str, &str); 3] = [("memory", "mem"), ("pids", "pids"), ("cpu", "cpu")];

/// nsjail for runs of [`TRUE`]. Its cgroups are removed on drop.
pub(crate) struct Nsjail {
    command: Command,
    groups: Vec<PathBuf>,
}

impl Nsjail {
    pub(crate) fn new(setup: &BenchSetup) -> Result<Nsjail> {
        let workspace = setup.workspace(0);
        let user = fs::metadata(&workspace)?;
        let limits = Limits::DEFAULT;
        let mut command = rival("nsjail")?;
        command.args(["-Mo", "--really_quiet", "--hostname", "run", "--iface_no_lo"]).stderr(Stdio::null());
        command.args(["--user", &format!("65534:{}:1", user.uid()), "--group", &format!("65534:{}:1", user.gid())]);
        command.args(["--rlimit_as", "inf", "--rlimit_fsize", "inf", "--rlimit_core", "0"]);
        command.args(["--bindmount_ro", "/usr", "--bindmount_ro", "/etc"]);
        for link in LINKS {
            command.args(["--symlink", &format!("usr/{link}:/{link}")]);
        }
        command.args(["--mount", &format!("none:/tmp:tmpfs:size={}", limits.tmp_bytes_max)]);
        command.arg("--bindmount").arg(&workspace).arg("--cwd").arg(&workspace).args(["--env", "PATH=/usr/bin:/bin"]);
        command.args(["--cgroup_mem_max", &limits.memory_bytes_max.to_string()]);
        command.args(["--cgroup_pids_max", &limits.pids_max.to_string()]);
        command.args(["--cgroup_cpu_ms_per_sec", &limits.cpu_millis_max.to_string()]);
        let mut groups = Vec::new();
        if Path::new(CGROUPS).join("cgroup.controllers").exists() {
            command.arg("--use_cgroupv2");
        } else {
            let parent = format!("proctor-bench-{}-nsjail", std::process::id());
            for (controller, word) in CONTROLLERS {
                let hierarchy = Path::new(CGROUPS).join(controller);
                let group = hierarchy.join(&parent);
                fs::create_dir(&group).with_context(|| format!("making {}", group.display()))?;
                groups.push(group);
                command.arg(format!("--cgroup_{word}_mount")).arg(hierarchy);
                command.arg(format!("--cgroup_{word}_parent")).arg(&parent);
            }
        }
        // The policy language calls it by the name of its first generation.
        let denied = DENIED.join(", ").replace("umount2", "umount");
        let policy = format!("POLICY p {{ ERRNO(1) {{ {denied} }} }} USE p DEFAULT ALLOW");
        command.args(["--seccomp_string", &policy, "--", TRUE]);
        Ok(Nsjail { command, groups })
    }

    pub(crate) fn run(&mut self) -> Result<()> {
        run_successfully(&mut self.command)
    }
}

impl Drop for Nsjail {
    fn drop(&mut self) {
        for group in &self.groups {
            match fs::remove_dir(group) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    anstream::eprintln!("bench: {} stays: {error}", group.display());
                }
                _ => {}
            }
        }
    }
}

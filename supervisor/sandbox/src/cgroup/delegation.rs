//! Delegates controllers from the supervisor's own v2 group to its leaves. A group can delegate controllers only while
//! no process is in it, so the supervisor moves into a group beside its leaves. The root group is exempt from that
//! rule.

use super::group;
use super::hierarchy::Hierarchies;
use super::leaf::CpuBoost;
use std::fs;
use std::io;
use std::path::Path;

/// The v2 controllers that a leaf uses.
pub(super) const CONTROLLERS: [&str; 4] = ["memory", "cpu", "pids", "io"];

/// Enables the controllers of the own group for the groups below it. A failure is reported by
/// [`explain_missing_controller`] when a limit is missing.
///
/// Does nothing if they are enabled, and on hybrid hosts whose v2 hierarchy has none of these controllers.
pub(crate) fn delegate_controllers(hierarchies: &Hierarchies) {
    let Some(own) = &hierarchies.v2 else { return };
    let missing_controllers = missing_controllers(own);
    if missing_controllers.is_empty() {
        return;
    }
    if !is_root(own) {
        if has_other_processes(own) {
            return;
        }
        let supervisor_group = own.join(hierarchies.supervisor.supervisor_name());
        let created = match fs::create_dir(&supervisor_group) {
            // The name belongs to this process alone.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created,
        };
        if let Err(error) = created.and_then(|()| move_self(&supervisor_group)) {
            tracing::debug!(%error, "the supervisor could not move into a group of its own");
            // It may not even exist.
            let _removed = fs::remove_dir(&supervisor_group);
            return;
        }
    }
    for controller in missing_controllers {
        if let Err(error) = enable_controller(own, controller) {
            tracing::warn!(%error, controller, "a cgroup controller could not be delegated");
        }
    }
    if !is_root(own) {
        // Best effort: the supervisor serves all tenants, so no tenant gets a higher weight.
        let _written =
            group::write(&own.join(hierarchies.supervisor.supervisor_name()), "cpu.weight", CpuBoost::On.weight());
    }
}

/// Undoes [`delegate_controllers`], for a clean shutdown after the last leaf was removed: moves this process back and
/// removes its group. The root group keeps its delegation, since others may rely on it meanwhile.
pub(crate) fn undo_delegation(hierarchies: &Hierarchies) -> io::Result<()> {
    let Some(own) = &hierarchies.v2 else { return Ok(()) };
    let supervisor_group = own.join(hierarchies.supervisor.supervisor_name());
    if !supervisor_group.exists() {
        return Ok(());
    }
    for controller in read_words(own, "cgroup.subtree_control") {
        group::write(own, "cgroup.subtree_control", &format!("-{controller}"))?;
    }
    move_self(own)?;
    fs::remove_dir(supervisor_group)
}

/// Whether [`delegate_controllers`] would enable `controller` for the leaves; for a caller that only probes a host.
pub(crate) fn can_delegate(hierarchies: &Hierarchies, controller: &str) -> bool {
    let is_free = |own: &Path| is_root(own) || !has_other_processes(own);
    hierarchies
        .v2
        .as_deref()
        .is_some_and(|own| missing_controllers(own).contains(&controller) && is_writable(own) && is_free(own))
}

/// Why the groups below `own` lack `controller`, and what a person can do about it.
pub(super) fn explain_missing_controller(own: &Path, controller: &str) -> (String, String) {
    let delegate = "start proctor in a group of its own that this user may change (systemd: Delegate=yes, or systemd-run \
                    --user --scope -p Delegate=yes proctor ...)";
    let (reason, remedy) = match () {
        () if !contains(&read_words(own, "cgroup.controllers"), controller) && is_root(own) => (
            format!("the kernel does not offer the {controller} controller to cgroup v2"),
            "boot it with the controller enabled (cgroup_enable=memory, no cgroup_disable) and not mounted as v1",
        ),
        () if !contains(&read_words(own, "cgroup.controllers"), controller) => (
            format!("the {controller} controller is not delegated to the group that proctor was started in"),
            "delegate it from the groups above (systemd: Delegate=yes)",
        ),
        () if !is_writable(own) => (
            format!("proctor may not delegate the {controller} controller in its own group: permission denied"),
            delegate,
        ),
        () if !is_root(own) && has_other_processes(own) => {
            ("the group that proctor was started in holds other processes".to_owned(), delegate)
        }
        () => (
            format!("the {controller} controller is not delegated to runs"),
            "proctor delegates it before its first run; if that failed, its log says why",
        ),
    };
    (reason, remedy.to_owned())
}

/// Words of a file; none if it cannot be read.
pub(super) fn read_words(dir: &Path, file: &str) -> Vec<String> {
    try_read_words(dir, file).unwrap_or_default()
}

/// Words of a file, or the error of reading it.
pub(super) fn try_read_words(dir: &Path, file: &str) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(dir.join(file))?;
    Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
}

pub(super) fn contains(words: &[String], name: &str) -> bool {
    words.iter().any(|word| word == name)
}

/// Enables one controller, so that a controller that cannot be enabled does not prevent the others.
pub(super) fn enable_controller(dir: &Path, controller: &str) -> io::Result<()> {
    group::write(dir, "cgroup.subtree_control", &format!("+{controller}"))
}

/// Controllers that `dir` could delegate and does not; none if they cannot be read.
pub(super) fn missing_controllers(dir: &Path) -> Vec<&'static str> {
    try_missing_controllers(dir).unwrap_or_default()
}

/// Like [`missing_controllers`], with the error of reading them.
pub(super) fn try_missing_controllers(dir: &Path) -> io::Result<Vec<&'static str>> {
    let (offered, enabled) =
        (try_read_words(dir, "cgroup.controllers")?, try_read_words(dir, "cgroup.subtree_control")?);
    Ok(CONTROLLERS.into_iter().filter(|name| contains(&offered, name) && !contains(&enabled, name)).collect())
}

/// Whether `dir` is the root group of the hierarchy, the only one without a type.
fn is_root(dir: &Path) -> bool {
    !dir.join("cgroup.type").exists()
}

/// Whether other processes than this one are in `dir`. A process outside of this pid namespace reads as 0.
fn has_other_processes(dir: &Path) -> bool {
    let own = std::process::id().to_string();
    read_words(dir, "cgroup.procs").iter().any(|pid| *pid != own)
}

fn is_writable(dir: &Path) -> bool {
    use rustix::fs::{Access, access};
    ["cgroup.procs", "cgroup.subtree_control"].iter().all(|file| access(dir.join(file), Access::WRITE_OK).is_ok())
}

/// Moves the calling process, all its threads: the kernel takes 0 for the writing process.
fn move_self(to: &Path) -> io::Result<()> {
    group::write(to, "cgroup.procs", "0")
}

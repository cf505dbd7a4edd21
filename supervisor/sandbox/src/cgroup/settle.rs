//! Where the supervisor lives in the v2 hierarchy, so that controllers reach the leaves. A group hands controllers down only
//! while no process is in it, so the supervisor moves into a group beside its leaves. The root group is free of that rule.
//! Must not move any other process, nor make leaves.

use super::Places;
use super::favour::Favour;
use super::group;
use std::fs;
use std::io;
use std::path::Path;

/// The v2 controllers that a leaf uses.
pub(super) const CONTROLLERS: [&str; 4] = ["memory", "cpu", "pids", "io"];

/// Hands the controllers of the own group down to the groups below it. What stands in the way is told by [`obstacle`] when
/// a limit is missed.
///
/// Nothing happens where that is done, and on hybrid hosts whose v2 hierarchy has none of these controllers.
pub(crate) fn settle(places: &Places) {
    let Some(own) = &places.v2 else { return };
    let lacking = lacking(own);
    if lacking.is_empty() {
        return;
    }
    if !is_root(own) {
        if is_shared(own) {
            return;
        }
        let supervisor = own.join(places.maker.supervisor());
        let made = match fs::create_dir(&supervisor) {
            // The name is this process's alone.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        };
        if let Err(error) = made.and_then(|()| move_self(&supervisor)) {
            tracing::debug!(%error, "the supervisor could not move into a group of its own");
            // It may not even be there.
            let _removed = fs::remove_dir(&supervisor);
            return;
        }
    }
    for controller in lacking {
        if let Err(error) = enable(own, controller) {
            tracing::warn!(%error, controller, "a cgroup controller could not be handed down");
        }
    }
    if !is_root(own) {
        // The supervisor serves all tenants, so none of them goes before it. A help only.
        let _told = group::write(&own.join(places.maker.supervisor()), "cpu.weight", Favour::In.weight());
    }
}

/// Undoes [`settle`], for a clean end after the last leaf has gone: moves this process back and removes its group. The
/// root group goes on handing down, since others may have come to rely on it.
pub(crate) fn leave(places: &Places) -> io::Result<()> {
    let Some(own) = &places.v2 else { return Ok(()) };
    let supervisor = own.join(places.maker.supervisor());
    if !supervisor.exists() {
        return Ok(());
    }
    for controller in words(own, "cgroup.subtree_control") {
        group::write(own, "cgroup.subtree_control", &format!("-{controller}"))?;
    }
    move_self(own)?;
    fs::remove_dir(supervisor)
}

/// Whether [`settle`] would bring `controller` to the leaves, for who only looks at a host.
pub(crate) fn would_hand_down(places: &Places, controller: &str) -> bool {
    let is_free = |own: &Path| is_root(own) || !is_shared(own);
    places.v2.as_deref().is_some_and(|own| lacking(own).contains(&controller) && may_write(own) && is_free(own))
}

/// Why the groups below `own` lack `controller`, and what a person can do about it.
pub(super) fn obstacle(own: &Path, controller: &str) -> (String, String) {
    let delegate = "start proctor in a group of its own that this user may change (systemd: Delegate=yes, or systemd-run \
                    --user --scope -p Delegate=yes proctor ...)";
    let (reason, remedy) = match () {
        () if !is_in(&words(own, "cgroup.controllers"), controller) && is_root(own) => (
            format!("the kernel does not offer the {controller} controller to cgroup v2"),
            "boot it with the controller enabled (cgroup_enable=memory, no cgroup_disable) and not mounted as v1",
        ),
        () if !is_in(&words(own, "cgroup.controllers"), controller) => (
            format!("the {controller} controller is not handed down to the group that proctor was started in"),
            "hand it down from the groups above (systemd: Delegate=yes)",
        ),
        () if !may_write(own) => {
            (format!("the own group cannot hand the {controller} controller down: permission denied"), delegate)
        }
        () if !is_root(own) && is_shared(own) => {
            ("the group that proctor was started in holds other processes".to_owned(), delegate)
        }
        () => (
            format!("the {controller} controller is not handed down to runs"),
            "proctor hands it down before its first run; when it could not, its log says why",
        ),
    };
    (reason, remedy.to_owned())
}

/// The words of a file; none when it cannot be read.
pub(super) fn words(dir: &Path, file: &str) -> Vec<String> {
    try_words(dir, file).unwrap_or_default()
}

/// The same for whom it counts that it was read.
pub(super) fn try_words(dir: &Path, file: &str) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(dir.join(file))?;
    Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
}

pub(super) fn is_in(words: &[String], name: &str) -> bool {
    words.iter().any(|word| word == name)
}

/// One controller at a time, so that one that cannot be had does not keep the others away.
pub(super) fn enable(dir: &Path, controller: &str) -> io::Result<()> {
    group::write(dir, "cgroup.subtree_control", &format!("+{controller}"))
}

/// What `dir` could hand down and does not.
pub(super) fn lacking(dir: &Path) -> Vec<&'static str> {
    try_lacking(dir).unwrap_or_default()
}

/// The same for whom it counts that it was read.
pub(super) fn try_lacking(dir: &Path) -> io::Result<Vec<&'static str>> {
    let (offered, enabled) = (try_words(dir, "cgroup.controllers")?, try_words(dir, "cgroup.subtree_control")?);
    Ok(CONTROLLERS.into_iter().filter(|name| is_in(&offered, name) && !is_in(&enabled, name)).collect())
}

/// The root group of the hierarchy, and no other, has no type.
fn is_root(dir: &Path) -> bool {
    !dir.join("cgroup.type").exists()
}

/// Whether processes other than this one are in `dir`. One that this pid namespace does not show reads as 0.
fn is_shared(dir: &Path) -> bool {
    let own = std::process::id().to_string();
    words(dir, "cgroup.procs").iter().any(|pid| *pid != own)
}

fn may_write(dir: &Path) -> bool {
    use rustix::fs::{Access, access};
    ["cgroup.procs", "cgroup.subtree_control"].iter().all(|file| access(dir.join(file), Access::WRITE_OK).is_ok())
}

/// The kernel takes 0 for the writing process, all threads of it.
fn move_self(to: &Path) -> io::Result<()> {
    group::write(to, "cgroup.procs", "0")
}

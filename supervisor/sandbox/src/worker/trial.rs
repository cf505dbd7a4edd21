//! Tries each namespace for real, in a child that is gone afterwards, for `probe`. Must not change anything that outlives
//! the child.

use super::layers::user_namespace;
use super::mounts;
use crate::probe::is_privileged;
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use proctor_core::isolation::Layer;
use serde::{Deserialize, Serialize};
use std::io;
use std::process::ExitCode;

/// The outcome of one trial, as the worker tells it on stdout.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// The layer's name.
    pub(crate) layer: Layer,
    /// Why it cannot be had; `None` when it can.
    pub(crate) failure: Option<String>,
}

const NAMESPACES: [(Layer, CloneFlags); 7] = [
    (Layer::UserNamespace, CloneFlags::CLONE_NEWUSER),
    (Layer::MountNamespace, CloneFlags::CLONE_NEWNS),
    (Layer::PidNamespace, CloneFlags::CLONE_NEWPID),
    (Layer::NetNamespace, CloneFlags::CLONE_NEWNET),
    (Layer::IpcNamespace, CloneFlags::CLONE_NEWIPC),
    (Layer::UtsNamespace, CloneFlags::CLONE_NEWUTS),
    (Layer::CgroupNamespace, CloneFlags::CLONE_NEWCGROUP),
];

pub(super) fn run() -> ExitCode {
    let privileged = is_privileged();
    let trials: Vec<Trial> = NAMESPACES
        .into_iter()
        .map(|(layer, flag)| Trial { layer, failure: try_one(layer, flag, privileged).err().map(|e| e.to_string()) })
        .collect();
    match serde_json::to_writer(io::stdout(), &trials) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// In a child, whose exit status is the errno of what failed. All of the namespaces' errnos are below 256.
fn try_one(layer: Layer, flag: CloneFlags, privileged: bool) -> io::Result<()> {
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let outcome = enter(layer, flag, privileged);
            let errno = outcome.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
            // SAFETY: ends the child without running anything that belongs to the parent.
            unsafe { libc::_exit(errno) }
        }
        ForkResult::Parent { child } => match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            WaitStatus::Exited(_, errno) => Err(Errno::from_raw(errno).into()),
            _ => Err(io::Error::other("the trial was killed")),
        },
    }
}

fn enter(layer: Layer, flag: CloneFlags, privileged: bool) -> io::Result<()> {
    if layer == Layer::UserNamespace {
        return user_namespace();
    }
    if !privileged {
        user_namespace()?;
    }
    unshare(flag)?;
    if layer == Layer::MountNamespace { mounts::make_private() } else { Ok(()) }
}

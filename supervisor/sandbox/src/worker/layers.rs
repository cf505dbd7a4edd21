//! Carries out the rows of a plan, one after the other, and keeps account of what is in force. Must not decide which rows
//! there are (`plan`).

use super::launcher::Halt;
use super::mounts;
use crate::message::{MissingLayer, Plan};
use crate::plan::{Demand, Row, Stage, Step};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, setrlimit};
use proctor_core::isolation::Layer;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The host name inside every run.
const HOST_NAME: &str = "proctor";

/// The worker at work on its own isolation.
pub(super) struct Hands {
    pub(super) plan: Plan,
    /// The bytes of all scratch files.
    files: Vec<u8>,
    /// The scratch directory, once the private `/tmp` is there.
    pub(super) scratch: Option<OwnedFd>,
    pub(super) missing: Vec<MissingLayer>,
}

impl Hands {
    pub(super) fn new(plan: Plan, files: Vec<u8>) -> Self {
        Hands { plan, files, scratch: None, missing: Vec::new() }
    }

    /// Carries out all rows of `stage`. Halts at the first failure without which there is no run.
    pub(super) fn put_on_all(&mut self, stage: Stage) -> Result<(), Halt> {
        let rows: Vec<Row> = self.plan.rows.iter().filter(|row| row.stage == stage).copied().collect();
        for row in &rows {
            // A layer that has failed in part is not in force; what would rest on it cannot be.
            if self.missing.iter().any(|missing| missing.layer == row.layer) {
                continue;
            }
            if let Err(error) = self.put_on(row.step) {
                let missing = explain(row, &error);
                if row.demand != Demand::Wanted {
                    return Err(Halt::Refused(missing));
                }
                self.missing.push(missing);
            }
        }
        Ok(())
    }

    /// The layers of which every row was carried out.
    pub(super) fn applied(&self) -> Vec<Layer> {
        let mut layers: Vec<Layer> = self.plan.rows.iter().map(|row| row.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        layers.retain(|layer| !self.missing.iter().any(|missing| missing.layer == *layer));
        layers
    }

    fn put_on(&mut self, step: Step) -> io::Result<()> {
        match step {
            Step::UserNamespace => user_namespace(),
            Step::MountNamespace => {
                unshare(CloneFlags::CLONE_NEWNS)?;
                mounts::make_private()
            }
            Step::PidNamespace => Ok(unshare(CloneFlags::CLONE_NEWPID)?),
            Step::NetNamespace => Ok(unshare(CloneFlags::CLONE_NEWNET)?),
            Step::IpcNamespace => Ok(unshare(CloneFlags::CLONE_NEWIPC)?),
            Step::UtsNamespace => Ok(unshare(CloneFlags::CLONE_NEWUTS)?),
            Step::OwnProc => mounts::own_proc(),
            Step::PrivateTmp => {
                self.scratch = Some(mounts::private_tmp(&self.plan, &self.files)?);
                self.files = Vec::new();
                Ok(())
            }
            Step::PrivateShm => mounts::private_shm(&self.plan),
            Step::Loopback => loopback_up(),
            Step::HostName => Ok(nix::unistd::sethostname(HOST_NAME)?),
            Step::NoNewPrivs => Ok(rustix::thread::set_no_new_privs(true)?),
            // A core file is the memory of a test, as large as that, in the workspace or worse.
            Step::Rlimits => Ok(setrlimit(Resource::RLIMIT_CORE, 0, 0)?),
        }
    }
}

fn explain(row: &Row, error: &io::Error) -> MissingLayer {
    MissingLayer {
        layer: row.layer,
        reason: format!("{}: {error}", row.step.name()),
        remedy: row.step.remedy().to_owned(),
    }
}

/// A user namespace in which the caller is who it was, and nobody else exists.
pub(super) fn user_namespace() -> io::Result<()> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // Without this the kernel does not let an ordinary user map a group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// The part of `struct ifreq` that `SIOCSIFFLAGS` reads, at its full size.
#[repr(C)]
struct InterfaceFlags {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// A fresh network namespace has `lo`, and it is down.
fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    let mut name = [0; libc::IFNAMSIZ];
    name[..2].copy_from_slice(b"lo");
    let up = libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?;
    let request = InterfaceFlags { name, flags: up, rest: [0; 22] };
    // SAFETY: the request is at least as large as the kernel's `struct ifreq` (40 bytes) and outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_request_is_as_large_as_the_kernel_reads() {
        assert_eq!(size_of::<InterfaceFlags>(), size_of::<libc::ifreq>());
    }
}

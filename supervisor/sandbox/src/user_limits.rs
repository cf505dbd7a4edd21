//! The host's limits of kernel objects for one user (`/proc/sys/user`), and a run's share of them.

use crate::layer_plan::Step;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// The kernel shows each process the limits of its own user namespace.
const LIMITS: &str = "/proc/sys/user";

/// Kinds of namespaces, as in `max_KIND_namespaces`.
const KINDS: [&str; 7] = ["user", "mnt", "net", "uts", "pid", "ipc", "cgroup"];

/// Limits of which a run gets half, so that other processes of the same user keep the other half.
pub(crate) const HALVED: [&str; 4] =
    ["max_inotify_instances", "max_inotify_watches", "max_fanotify_groups", "max_fanotify_marks"];

/// Limits of the supervisor's user namespace, read before another one is entered.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct UserLimits {
    /// Kinds of namespaces that the host forbids: the kernel returns ENOSPC for these and for a limit that is reached.
    forbidden: Vec<String>,
    /// The run's share of each limit of [`HALVED`], by name.
    shares: Vec<(String, u64)>,
}

fn read_limit(name: &str) -> Option<u64> {
    fs::read_to_string(Path::new(LIMITS).join(name)).ok()?.trim().parse().ok()
}

impl UserLimits {
    pub(crate) fn read() -> UserLimits {
        let forbidden = KINDS.iter().filter(|kind| read_limit(&format!("max_{kind}_namespaces")) == Some(0));
        let shares = HALVED.iter().filter_map(|name| Some(((*name).to_owned(), read_limit(name)?.div_ceil(2))));
        UserLimits { forbidden: forbidden.map(|kind| (*kind).to_owned()).collect(), shares: shares.collect() }
    }

    /// Limits the calling process's user namespace to its share. Requires `CAP_SYS_RESOURCE` there.
    pub(crate) fn apply_share(&self) -> io::Result<()> {
        self.shares.iter().try_for_each(|(name, share)| fs::write(Path::new(LIMITS).join(name), share.to_string()))
    }

    /// Replaces ENOSPC of `step`: by a sentence if the host forbids that kind of namespace, by EUSERS if the limit is
    /// reached only for the moment.
    pub(crate) fn explain(&self, step: Step, error: io::Error) -> io::Error {
        match step.namespace() {
            Some(kind) if error.raw_os_error() == Some(libc::ENOSPC) => {
                if self.forbidden.iter().any(|forbidden| forbidden == kind) {
                    io::Error::other(format!("the host allows none (sysctl user.max_{kind}_namespaces = 0)"))
                } else {
                    io::Error::from_raw_os_error(libc::EUSERS)
                }
            }
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exhausted_resource::{exhausted_resource, is_permanent};

    #[test]
    fn distinguishes_a_reached_limit_from_a_forbidden_namespace() {
        let limits = UserLimits { forbidden: vec!["net".to_owned()], ..UserLimits::default() };
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        let forbidden = limits.explain(Step::NetNamespace, full());
        assert!(is_permanent(&forbidden) && forbidden.to_string().contains("max_net_namespaces = 0"), "{forbidden}");
        assert!(exhausted_resource(&limits.explain(Step::RunMountNamespace, full())).is_some());
        let refused = limits.explain(Step::NetNamespace, io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }
}

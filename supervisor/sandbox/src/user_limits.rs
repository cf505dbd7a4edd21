//! What the host lets one user have of the kernel's objects (`/proc/sys/user`), and what of it a run gets. Must not know what
//! a run needs.

use crate::plan::Step;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// The kernel shows each process the limits of the user namespace that it is in.
const LIMITS: &str = "/proc/sys/user";

/// Kinds of namespaces, as in `max_KIND_namespaces`.
const KINDS: [&str; 7] = ["user", "mnt", "net", "uts", "pid", "ipc", "cgroup"];

/// What a run gets half of, so that whoever runs as the same user has as much.
pub(crate) const HALVED: [&str; 4] =
    ["max_inotify_instances", "max_inotify_watches", "max_fanotify_groups", "max_fanotify_marks"];

/// Read before there is another user namespace.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct UserLimits {
    /// Kinds of namespaces of which the host allows none: the kernel says ENOSPC to that and to a limit which is reached.
    forbidden: Vec<String>,
    /// A run's share of [`HALVED`], by name.
    shares: Vec<(String, u64)>,
}

fn limit(name: &str) -> Option<u64> {
    fs::read_to_string(Path::new(LIMITS).join(name)).ok()?.trim().parse().ok()
}

impl UserLimits {
    pub(crate) fn read() -> UserLimits {
        let forbidden = KINDS.iter().filter(|kind| limit(&format!("max_{kind}_namespaces")) == Some(0));
        let shares = HALVED.iter().filter_map(|name| Some(((*name).to_owned(), limit(name)?.div_ceil(2))));
        UserLimits { forbidden: forbidden.map(|kind| (*kind).to_owned()).collect(), shares: shares.collect() }
    }

    /// Gives the calling process's user namespace its share. It takes `CAP_SYS_RESOURCE` there.
    pub(crate) fn give_share(&self) -> io::Result<()> {
        self.shares.iter().try_for_each(|(name, share)| fs::write(Path::new(LIMITS).join(name), share.to_string()))
    }

    /// `error` of `step`, with the kernel's word for both replaced: by a sentence where the host allows none of that kind, by
    /// EUSERS where there are too many for the moment.
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
    use crate::lack::{is_for_good, lack};

    #[test]
    fn a_limit_that_is_reached_is_told_from_one_of_zero() {
        let limits = UserLimits { forbidden: vec!["net".to_owned()], ..UserLimits::default() };
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        let forbidden = limits.explain(Step::NetNamespace, full());
        assert!(is_for_good(&forbidden) && forbidden.to_string().contains("max_net_namespaces = 0"), "{forbidden}");
        assert!(lack(&limits.explain(Step::RunMounts, full())).is_some());
        let refused = limits.explain(Step::NetNamespace, io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }
}

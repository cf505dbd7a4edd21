//! The names of groups, which identify their supervisor: `proctor-<pid>-<start>-<pid namespace>-<kind>`, the numbers in
//! the middle hexadecimal. `<kind>` is `run-<random>`, `tenant-<hash>-<readable part>` or `supervisor`.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use std::collections::hash_map::{DefaultHasher, RandomState};
use std::fs;
use std::hash::{BuildHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Most bytes of an owner's name in the name of its group, for operators.
const READABLE_BYTES_MAX: usize = 32;

/// The supervisor process that made a group, identified so that no other process is ever mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SupervisorId {
    pid: Pid,
    /// Clock ticks from the boot to the start of the process.
    start_ticks: u64,
    /// Number of the pid namespace in which `pid` is valid. Unique among the namespaces that exist at the same time.
    namespace: u64,
}

impl SupervisorId {
    /// The calling process. If its namespace number cannot be read it is 0, and its groups are never swept.
    pub(crate) fn current() -> SupervisorId {
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
        SupervisorId { pid: getpid(), start_ticks: start_ticks(Path::new("/proc/self/stat")).unwrap_or(0), namespace }
    }

    #[cfg(test)]
    pub(super) fn of_process(pid: u32) -> SupervisorId {
        let start_ticks = start_ticks(Path::new(&format!("/proc/{pid}/stat"))).unwrap();
        SupervisorId {
            pid: Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
            start_ticks,
            ..SupervisorId::current()
        }
    }

    #[cfg(test)]
    pub(super) fn namespace(self) -> u64 {
        self.namespace
    }

    /// A new name that no other leaf on this host has.
    pub(super) fn leaf_name(self) -> String {
        let random = RandomState::new().build_hasher().finish();
        format!("{}-run-{random:016x}", self.prefix())
    }

    /// Name of the group around all leaves of `owner`. The hash distinguishes owners with the same readable part.
    pub(super) fn tenant_name(self, owner: &str) -> String {
        // Unlike `RandomState`, the same for the same owner every time.
        let mut hasher = DefaultHasher::new();
        owner.hash(&mut hasher);
        let plain = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '_' };
        let readable: String = owner.bytes().take(READABLE_BYTES_MAX).map(plain).collect();
        format!("{}-tenant-{:016x}-{readable}", self.prefix(), hasher.finish())
    }

    /// Name of the group into which the supervisor moves itself.
    pub(super) fn supervisor_name(self) -> String {
        format!("{}-supervisor", self.prefix())
    }

    fn prefix(self) -> String {
        format!("proctor-{}-{:x}-{:08x}", self.pid, self.start_ticks, self.namespace)
    }

    /// Parses the supervisor from the name of a group; `None` unless it is exactly a name of ours.
    pub(super) fn from_group_name(name: &str) -> Option<SupervisorId> {
        let mut fields = name.strip_prefix("proctor-")?.splitn(4, '-');
        let (pid, start_ticks, namespace, kind) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let is_valid = match kind.split_once('-') {
            None => kind == "supervisor",
            Some(("run", random)) => is_hex(random, 16),
            Some(("tenant", rest)) => rest.split_once('-').is_some_and(|(hash, readable)| {
                is_hex(hash, 16)
                    && readable.len() <= READABLE_BYTES_MAX
                    && readable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            }),
            Some(_) => false,
        };
        if !is_valid
            || !is_hex(start_ticks, 1)
            || !is_hex(namespace, 8)
            || !pid.bytes().all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        let pid = pid.parse::<i32>().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)?;
        Some(SupervisorId { pid, start_ticks: hex(start_ticks)?, namespace: hex(namespace)? })
    }

    /// Whether the supervisor is certainly dead, seen from the process `own`. Never true for another pid namespace,
    /// since `own` cannot tell whether processes there are alive.
    pub(super) fn has_ended(self, own: SupervisorId) -> bool {
        if self.namespace != own.namespace || own.namespace == 0 {
            return false;
        }
        // The kernel is asked before `/proc`, which may hide processes of other users.
        match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(process) => {
                // Readable when all threads have ended, even if the process is not reaped yet.
                let mut fds = [PollFd::new(&process, PollFlags::IN)];
                let is_dead = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|readable| readable > 0);
                is_dead || self.is_pid_reused()
            }
            Err(error) => error == Errno::SRCH,
        }
    }

    /// Whether a younger process has the supervisor's pid.
    fn is_pid_reused(self) -> bool {
        // A `/proc` of another pid namespace would show another process.
        let is_own_proc = fs::read_link("/proc/self").is_ok_and(|own| own.to_str() == Some(&getpid().to_string()));
        is_own_proc
            && start_ticks(Path::new(&format!("/proc/{}/stat", self.pid)))
                .is_some_and(|start_ticks| start_ticks != self.start_ticks)
    }
}

/// Whether `text` is a lowercase hexadecimal number of `digits` to 16 digits.
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() >= digits && text.len() <= 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Start time of a process: field 22 of `proc_pid_stat(5)`. Field 2 is a name in brackets that may contain anything.
fn start_ticks(stat: &Path) -> Option<u64> {
    let text = fs::read(stat).ok()?;
    let after_name = text.rsplit(|byte| *byte == b')').next()?;
    std::str::from_utf8(after_name).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_identify_their_supervisor_and_no_owner_can_form_a_path() {
        let own = SupervisorId::current();
        assert!(own.start_ticks > 0 && own.namespace > 0);
        let long = "x".repeat(1_000);
        for owner in ["", "team-a", "..", "../../x", "a/b", "\0", "ä\n", &long] {
            let name = own.tenant_name(owner);
            assert_eq!(SupervisorId::from_group_name(&name), Some(own), "{name}");
            assert!(name.len() < 120 && !name.contains(['/', '.', '\0']), "{name}");
            assert_eq!(name, own.tenant_name(owner));
        }
        assert_ne!(own.tenant_name("a/b"), own.tenant_name("a_b"));
        for name in [own.leaf_name(), own.supervisor_name()] {
            assert_eq!(SupervisorId::from_group_name(&name), Some(own), "{name}");
        }
        assert_ne!(own.leaf_name(), own.leaf_name());
    }

    #[test]
    fn parses_no_other_names() {
        let random = "0123456789abcdef";
        for name in [
            "proctor".to_owned(),
            "proctor-12".to_owned(),
            "proctor-12-1f-f0000000".to_owned(),
            format!("proctor-x-1f-f0000000-run-{random}"),
            format!("proctor--1f-f0000000-run-{random}"),
            format!("proctor-0-1f-f0000000-run-{random}"),
            format!("proctor-+1-1f-f0000000-run-{random}"),
            format!("proctor-12--f0000000-run-{random}"),
            format!("proctor-12-1f-f000-run-{random}"),
            format!("proctor-12-1f-F0000000-run-{random}"),
            format!("proctor-12-1f-f0000000-run-{random}.service"),
            format!("proctor-12-1f-f0000000-walk-{random}"),
            format!("proctor-12-1f-f0000000-tenant-{random}"),
            format!("proctor-12-1f-f0000000-tenant-{random}-ä"),
            "proctor-12-1f-f0000000-supervisor.slice".to_owned(),
        ] {
            assert_eq!(SupervisorId::from_group_name(&name), None, "{name}");
        }
    }

    #[test]
    fn only_dead_supervisors_and_reused_pids_have_ended() {
        let own = SupervisorId::current();
        let no_pid = Pid::from_raw(i32::MAX).unwrap();
        assert!(!own.has_ended(own));
        assert!(SupervisorId { pid: no_pid, ..own }.has_ended(own));
        assert!(SupervisorId { start_ticks: own.start_ticks - 1, ..own }.has_ended(own));
        assert!(!SupervisorId { pid: no_pid, namespace: own.namespace ^ 1, ..own }.has_ended(own));
        let without_namespace = SupervisorId { namespace: 0, ..own };
        assert!(!SupervisorId { pid: no_pid, ..without_namespace }.has_ended(without_namespace));
    }
}

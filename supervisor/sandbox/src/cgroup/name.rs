//! The names of groups, which tell whose they are: `proctor-<pid>-<start>-<pid namespace>-<what>`, the numbers in the
//! middle hexadecimal. `<what>` is `run-<random>`, `tenant-<hash>-<readable part>` or `supervisor`. Must not make or remove
//! anything.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use std::collections::hash_map::{DefaultHasher, RandomState};
use std::fs;
use std::hash::{BuildHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of an owner's name that an operator finds in the name of its group.
const READABLE_BYTES_MAX: usize = 32;

/// The process that made a group, told so that no other process is ever taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Maker {
    pid: Pid,
    /// Clock ticks from the boot to the start of the process.
    start: u64,
    /// Number of the pid namespace in which `pid` means anything. No two have the same one at the same time.
    namespace: u64,
}

impl Maker {
    /// The calling process. Nobody takes a group of namespace 0 for his own, so without that number it is never swept.
    pub(crate) fn own() -> Maker {
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
        Maker { pid: getpid(), start: start(Path::new("/proc/self/stat")).unwrap_or(0), namespace }
    }

    #[cfg(test)]
    pub(super) fn of_process(pid: u32) -> Maker {
        let start = start(Path::new(&format!("/proc/{pid}/stat"))).unwrap();
        Maker { pid: Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), start, ..Maker::own() }
    }

    #[cfg(test)]
    pub(super) fn namespace(self) -> u64 {
        self.namespace
    }

    /// A name that no other leaf on this host has.
    pub(super) fn leaf(self) -> String {
        let random = RandomState::new().build_hasher().finish();
        format!("{}-run-{random:016x}", self.prefix())
    }

    /// The name of the group around all leaves of `owner`. The hash keeps apart what its readable part does not.
    pub(super) fn tenant(self, owner: &str) -> String {
        // Always the same one for the same owner, unlike `RandomState`.
        let mut hasher = DefaultHasher::new();
        owner.hash(&mut hasher);
        let plain = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '_' };
        let readable: String = owner.bytes().take(READABLE_BYTES_MAX).map(plain).collect();
        format!("{}-tenant-{:016x}-{readable}", self.prefix(), hasher.finish())
    }

    /// The name of the group into which the supervisor moves itself.
    pub(super) fn supervisor(self) -> String {
        format!("{}-supervisor", self.prefix())
    }

    fn prefix(self) -> String {
        format!("proctor-{}-{:x}-{:08x}", self.pid, self.start, self.namespace)
    }

    /// Reads the maker out of a name; `None` unless it is exactly one of ours.
    pub(super) fn of(name: &str) -> Option<Maker> {
        let mut fields = name.strip_prefix("proctor-")?.splitn(4, '-');
        let (pid, start, namespace, what) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let is_ours = match what.split_once('-') {
            None => what == "supervisor",
            Some(("run", random)) => is_hex(random, 16),
            Some(("tenant", rest)) => rest.split_once('-').is_some_and(|(hash, readable)| {
                is_hex(hash, 16)
                    && readable.len() <= READABLE_BYTES_MAX
                    && readable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            }),
            Some(_) => false,
        };
        if !is_ours || !is_hex(start, 1) || !is_hex(namespace, 8) || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        let pid = pid.parse::<i32>().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)?;
        Some(Maker { pid, start: hex(start)?, namespace: hex(namespace)? })
    }

    /// Whether the maker is certainly dead, seen from the process `own`. Never of a maker in another pid namespace, since
    /// nothing here tells whether that one lives.
    pub(super) fn has_ended(self, own: Maker) -> bool {
        if self.namespace != own.namespace || own.namespace == 0 {
            return false;
        }
        // The kernel is asked before `/proc`, which may hide the processes of others.
        match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(process) => {
                // Readable when all threads have ended, also while nobody has reaped it.
                let mut fds = [PollFd::new(&process, PollFlags::IN)];
                let is_dead = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|readable| readable > 0);
                is_dead || self.pid_is_anothers()
            }
            Err(error) => error == Errno::SRCH,
        }
    }

    /// Whether a younger process has the maker's pid.
    fn pid_is_anothers(self) -> bool {
        // A `/proc` of another pid namespace would tell of another process.
        let is_own_proc = fs::read_link("/proc/self").is_ok_and(|own| own.to_str() == Some(&getpid().to_string()));
        is_own_proc && start(Path::new(&format!("/proc/{}/stat", self.pid))).is_some_and(|start| start != self.start)
    }
}

/// At least `digits` of them.
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() >= digits && text.len() <= 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Field 22 of `proc_pid_stat(5)`. Field 2 is a name in brackets that may hold anything.
fn start(stat: &Path) -> Option<u64> {
    let text = fs::read(stat).ok()?;
    let after_name = text.rsplit(|byte| *byte == b')').next()?;
    std::str::from_utf8(after_name).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_tells_its_maker_and_no_owner_can_form_a_path() {
        let own = Maker::own();
        assert!(own.start > 0 && own.namespace > 0);
        let long = "x".repeat(1_000);
        for owner in ["", "team-a", "..", "../../x", "a/b", "\0", "ä\n", &long] {
            let name = own.tenant(owner);
            assert_eq!(Maker::of(&name), Some(own), "{name}");
            assert!(name.len() < 120 && !name.contains(['/', '.', '\0']), "{name}");
            assert_eq!(name, own.tenant(owner));
        }
        assert_ne!(own.tenant("a/b"), own.tenant("a_b"));
        for name in [own.leaf(), own.supervisor()] {
            assert_eq!(Maker::of(&name), Some(own), "{name}");
        }
        assert_ne!(own.leaf(), own.leaf());
    }

    #[test]
    fn nothing_else_has_a_maker() {
        let random = "0123456789abcdef";
        for other in [
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
            assert_eq!(Maker::of(&other), None, "{other}");
        }
    }

    #[test]
    fn the_dead_and_those_whose_pid_another_process_has_are_ended_and_nobody_else() {
        let own = Maker::own();
        let no_pid = Pid::from_raw(i32::MAX).unwrap();
        assert!(!own.has_ended(own));
        assert!(Maker { pid: no_pid, ..own }.has_ended(own));
        assert!(Maker { start: own.start - 1, ..own }.has_ended(own));
        assert!(!Maker { pid: no_pid, namespace: own.namespace ^ 1, ..own }.has_ended(own));
        let nowhere = Maker { namespace: 0, ..own };
        assert!(!Maker { pid: no_pid, ..nowhere }.has_ended(nowhere));
    }
}

//! Confines writing to a few directories, and keeps signals and abstract sockets inside. Landlock holds even where a mount
//! or a uid should have and did not. Must not know why a directory may be written.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::error::Error;
use std::io;
use std::path::Path;

/// Devices live here.
const DEV: &str = "/dev";

/// Devices are written and controlled; none is made or removed, not even here.
const ON_DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{WriteFile | IoctlDev});

/// What no run needs in a directory of its own.
const MAKING_DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});

/// Everything may be read and executed; only what lies below the directories `writable` may be changed, and, from ABI 9,
/// a socket outside of them may not be connected to. Directories that do not exist are passed over. Devices in
/// [`DEV`] may be used. From ABI 6, nothing outside can be signalled, and no abstract socket outside be reached. No
/// process with this on can mount, or trace one without it.
///
/// Every right of the newest ABI that both the kernel and this version know is under the rule. Older kernels have fewer:
/// truncating by path is free before ABI 3, and before ABI 2 nothing can be renamed from one directory to another.
///
/// # Errors
///
/// `ENOSYS` or `EOPNOTSUPP` when the kernel has no Landlock or does not use it, `ENOTDIR` when a path is no directory, and
/// any other failure, such as a missing `no_new_privs`: nothing is left out in silence.
pub(super) fn restrict(writable: &[&Path]) -> io::Result<()> {
    let abi = abi()?;
    let handled = AccessFs::from_write(abi);
    let scopes = Scope::from_all(abi);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)
        .and_then(|rules| if scopes.is_empty() { Ok(rules) } else { rules.scope(scopes) })
        .and_then(Ruleset::create)
        .map_err(kernels_word)?
        .no_new_privs(false);
    let on_devices = (DEV.as_ref(), ON_DEVICES & handled);
    let in_writable = writable.iter().map(|&path| (path, handled & !MAKING_DEVICES));
    for (path, rights) in std::iter::once(on_devices).chain(in_writable) {
        let directory = match open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        rules = rules.add_rule(PathBeneath::new(directory, rights)).map_err(kernels_word)?;
    }
    let status = rules.restrict_self().map_err(kernels_word)?;
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        Err(io::Error::other(format!("Landlock is not in force as asked for: {status:?}")))
    }
}

/// What the kernel said, where it said something: by its number a failure of the moment is told from a kernel that cannot.
fn kernels_word(error: RulesetError) -> io::Error {
    let mut cause: Option<&dyn Error> = Some(&error);
    while let Some(here) = cause {
        if let Some(errno) = here.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(errno);
        }
        cause = here.source();
    }
    io::Error::other(error)
}

/// The newest ABI that both the kernel and the library know.
pub(super) fn abi() -> io::Result<ABI> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: asked for its version, the kernel reads no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<()>(), 0_usize, VERSION) };
    match i32::try_from(version).map_err(io::Error::other)?.into() {
        ABI::Unsupported => Err(io::Error::last_os_error()),
        abi => Ok(abi),
    }
}

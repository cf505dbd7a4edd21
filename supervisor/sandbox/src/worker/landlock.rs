//! Confines writes to a few directories, and signals and abstract sockets to the run, by Landlock. It holds even if a
//! mount or a uid fails to. `confined` has what
//! a command may do that is executed alone.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::error::Error;
use std::io;
use std::path::Path;

/// Directory of devices.
pub(super) const DEV: &str = "/dev";

/// Rights on devices: they are written and controlled; none is made or removed.
const ON_DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{WriteFile | IoctlDev});

/// Rights that no run needs in its own directories.
pub(super) const MAKING_DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});

/// Restricts the calling thread: everything may be read and executed, and only files below the directories `writable`
/// may be changed. Missing directories are ignored. Devices in [`DEV`] may be used. From ABI 6, processes and abstract
/// sockets outside cannot be reached; from ABI 9, sockets outside of `writable` cannot be connected to. A restricted
/// process cannot mount, or trace an unrestricted one.
///
/// Every right of the newest ABI that both the kernel and this version know is restricted. Older kernels have fewer:
/// truncating by path is free before ABI 3, and before ABI 2 no file can be renamed from one directory to another.
///
/// # Errors
///
/// `ENOSYS` or `EOPNOTSUPP` if the kernel has no Landlock or does not use it, `ENOTDIR` if a path is not a directory,
/// and any other failure, such as a missing `no_new_privs`: nothing is left out silently.
pub(super) fn restrict(writable: &[&Path]) -> io::Result<()> {
    let abi = abi()?;
    let handled = AccessFs::from_write(abi);
    let mut rules = ruleset(handled, abi)?;
    let on_devices = (DEV.as_ref(), ON_DEVICES & handled);
    let in_writable = writable.iter().map(|&path| (path, handled & !MAKING_DEVICES));
    for (path, rights) in std::iter::once(on_devices).chain(in_writable) {
        let directory = match open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        rules = rules.add_rule(PathBeneath::new(directory, rights)).map_err(kernel_error)?;
    }
    enforce(rules)
}

/// A ruleset that allows none of these rights.
pub(super) fn ruleset(handled: BitFlags<AccessFs>, abi: ABI) -> io::Result<RulesetCreated> {
    let scopes = Scope::from_all(abi);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)
        .and_then(|rules| if scopes.is_empty() { Ok(rules) } else { rules.scope(scopes) })
        .and_then(Ruleset::create)
        .map_err(kernel_error)?;
    Ok(rules.no_new_privs(false))
}

/// Restricts the calling thread to what the rules allow.
pub(super) fn enforce(rules: RulesetCreated) -> io::Result<()> {
    let status = rules.restrict_self().map_err(kernel_error)?;
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        Err(io::Error::other(format!("Landlock is not fully enforced: {status:?}")))
    }
}

/// The kernel's errno, if any: it distinguishes a transient failure from a kernel without Landlock.
pub(super) fn kernel_error(error: RulesetError) -> io::Error {
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

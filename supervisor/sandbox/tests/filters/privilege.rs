//! Privileges that a command cannot gain: capabilities, and control over init.

use crate::capabilities::drop_all;
use crate::child_process::{Answer, before_exec, call, in_child, install, needs_root, program};
use crate::seccomp::{Filter, SetId};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Uid, capabilities, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_thread_res_uid,
};
use std::io;
use std::process::Command;

#[test]
fn no_capability_is_left_in_any_set_after_execve() {
    needs_root();
    let status = |command: &mut Command| {
        let status = command.args(["-E", "^Cap(Inh|Prm|Eff|Bnd|Amb)", "/proc/self/status"]).output().unwrap();
        String::from_utf8(status.stdout).unwrap()
    };
    let empty = |line: &str| line.ends_with("\t0000000000000000");
    let mut before = program("grep");
    before_exec(&mut before, raise_ambient);
    let before = status(&mut before);
    assert_eq!(before.lines().filter(|line| empty(line)).count(), 0, "{before}");
    let mut after = program("grep");
    before_exec(&mut after, || raise_ambient().and_then(|()| drop_all()));
    let after = status(&mut after);
    assert_eq!(after.lines().filter(|line| empty(line)).count(), 5, "{after}");
}

/// Adds a capability to every set, also the ambient one.
fn raise_ambient() -> io::Result<()> {
    let current = capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::CHOWN, ..current })?;
    Ok(configure_capability_in_ambient_set(CapabilitySet::CHOWN, true)?)
}

#[test]
fn drops_capabilities_kept_over_a_change_of_uid() {
    needs_root();
    let nobody = Uid::from_raw(65_534);
    let answer = in_child(|| {
        set_keep_capabilities(true)?;
        set_thread_res_uid(nobody, nobody, nobody)?;
        drop_all()
    });
    assert_eq!(answer, Answer::Done);
}

#[test]
fn a_bounding_set_that_cannot_be_emptied_is_an_error() {
    needs_root();
    let answer = in_child(|| {
        let mut current = capabilities(None)?;
        current.permitted.remove(CapabilitySet::SETPCAP);
        current.effective.remove(CapabilitySet::SETPCAP);
        set_capabilities(None, current)?;
        drop_all()
    });
    assert_eq!(answer, Answer::Errno(libc::EPERM));
}

/// The child acts as a command of the run, its parent as init.
#[test]
fn a_command_cannot_trace_init() {
    needs_root();
    let filter = Filter::compile(SetId::Denied).unwrap();
    let child_traces_parent = || {
        let init = std::process::id();
        match in_child(|| call(libc::SYS_ptrace, [libc::PTRACE_SEIZE.into(), init.into(), 0, 0, 0])) {
            Answer::Errno(errno) => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        }
    };
    let without = in_child(|| {
        drop_all()?;
        child_traces_parent()
    });
    let with = in_child(|| {
        drop_all()?;
        install(&filter)?;
        child_traces_parent()
    });
    assert_eq!((without, with), (Answer::Done, Answer::Errno(libc::EPERM)));
}

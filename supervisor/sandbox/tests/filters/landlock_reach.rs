//! What can be reached under Landlock.

use crate::child_process::{Answer, call, in_child, program};
use crate::landlock::{abi, restrict};
use landlock::ABI;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::set_no_new_privs;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

const GRANTED: (Answer, Answer) = (Answer::Done, Answer::Done);

/// Refused with this errno from this ABI on, and granted before.
fn refused_since(first: ABI, errno: i32) -> (Answer, Answer) {
    if abi().unwrap() < first { GRANTED } else { (Answer::Done, Answer::Errno(errno)) }
}

/// Tries `work` without Landlock and under it, with every capability.
fn around_landlock(writable: &[&Path], work: impl Fn() -> io::Result<()>) -> (Answer, Answer) {
    let without = in_child(&work);
    let with = in_child(|| {
        set_no_new_privs(true)?;
        restrict(writable)?;
        work()
    });
    (without, with)
}

#[test]
fn only_the_writable_directories_can_be_written() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let missing = inside.path().join("missing");
    let writable = [inside.path(), &missing];
    let refused = refused_since(ABI::V1, libc::EACCES);
    let file = outside.path().join("file");
    fs::write(&file, "1").unwrap();
    let there = |name: &str| outside.path().join(name);
    let here = |name: &str| inside.path().join(name);

    assert_eq!(around_landlock(&writable, || fs::read(&file).map(drop)), GRANTED);
    assert_eq!(around_landlock(&writable, || fs::write(&file, "2")), refused);
    assert_eq!(around_landlock(&writable, || fs::write(there("new"), "")), refused);
    assert_eq!(around_landlock(&writable, || OpenOptions::new().append(true).open(&file).map(drop)), refused);
    assert_eq!(
        around_landlock(&writable, || Ok(nix::unistd::truncate(&file, 0)?)),
        refused_since(ABI::V3, libc::EACCES)
    );
    let twice = || fs::create_dir(there("dir")).and_then(|()| fs::remove_dir(there("dir")));
    assert_eq!(around_landlock(&writable, twice), refused);
    let moved = || fs::write(here("a"), "").and_then(|()| fs::rename(here("a"), there("a")));
    assert!(matches!(around_landlock(&writable, moved), (Answer::Done, Answer::Errno(libc::EACCES | libc::EXDEV))));

    let work = || {
        fs::create_dir_all(here("one"))?;
        fs::create_dir_all(here("two"))?;
        fs::write(here("one/file"), "1")?;
        fs::rename(here("one/file"), here("two/file"))?;
        fs::hard_link(here("two/file"), here("one/link"))?;
        std::os::unix::fs::symlink("nowhere", here("symlink"))?;
        drop(UnixListener::bind(here("socket"))?);
        fs::write("/dev/null", "1")?;
        fs::remove_dir_all(here("one"))?;
        ["symlink", "socket", "two/file"].into_iter().try_for_each(|name| fs::remove_file(here(name)))
    };
    assert_eq!(around_landlock(&writable, work), GRANTED);
}

#[test]
fn nothing_outside_can_be_signalled_connected_to_or_traced() {
    let name = SocketAddr::from_abstract_name(format!("proctor-filters-{}", std::process::id())).unwrap();
    let listener = UnixListener::bind_addr(&name).unwrap();
    let refused = refused_since(ABI::V6, libc::EPERM);
    assert_eq!(around_landlock(&[], || UnixStream::connect_addr(&name).map(drop)), refused);
    drop(listener);

    let mut outside = program("sleep").arg("30").spawn().unwrap();
    let pid = Pid::from_raw(outside.id().try_into().unwrap()).unwrap();
    let signalled = around_landlock(&[], || Ok(kill_process(pid, Signal::CONT)?));
    let traced = around_landlock(&[], || {
        call(libc::SYS_ptrace, [libc::PTRACE_SEIZE.into(), pid.as_raw_nonzero().get().into(), 0, 0, 0])
    });
    outside.kill().unwrap();
    outside.wait().unwrap();
    assert_eq!((signalled, traced), (refused, refused_since(ABI::V1, libc::EPERM)));
}

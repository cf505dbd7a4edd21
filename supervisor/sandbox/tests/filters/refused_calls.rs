//! Calls that the filter refuses, compared with the kernel's answer to root without it, and calls that it allows.

use crate::call_table::{ALLOWED, ALLOWED_WITHOUT_SET_ID, REFUSED, REFUSED_SET_ID};
use crate::child_process::{Answer, call, in_child, install, needs_root};
use crate::seccomp::{Filter, FilterRule, SetId};
use libc::c_long;
use rustix::thread::set_no_new_privs;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};

/// Calls with their arguments.
type Calls = &'static [(c_long, [c_long; 5])];

/// Refused and allowed calls under either filter.
const CASES: [(SetId, [Calls; 2], [Calls; 3]); 2] = [
    (SetId::Allowed, [REFUSED, &[]], [ALLOWED, ALLOWED_WITHOUT_SET_ID, REFUSED_SET_ID]),
    (SetId::Denied, [REFUSED, REFUSED_SET_ID], [ALLOWED, ALLOWED_WITHOUT_SET_ID, &[]]),
];

/// The kernel's answers to root without the filter and with it.
fn without_and_with(set_id: SetId, number: c_long, args: [c_long; 5]) -> (Answer, Answer) {
    let filter = Filter::compile(set_id).unwrap();
    let without = in_child(|| call(number, args));
    let with = in_child(|| {
        install(&filter)?;
        call(number, args)
    });
    (without, with)
}

#[test]
fn every_refused_call_is_allowed_without_the_filter() {
    needs_root();
    for (set_id, refused, _) in CASES {
        for &(number, args) in refused.into_iter().flatten() {
            let rules = set_id.rules().filter(|row| row.calls.contains(&number));
            let answer = |row: &FilterRule| if row.errno == 0 { Answer::Done } else { Answer::Errno(row.errno) };
            let expected: Vec<Answer> = rules.map(answer).collect();
            let (without, with) = without_and_with(set_id, number, args);
            println!("{set_id:?} call {number} {args:x?}: without {without:?}, with {with:?}");
            assert!(expected.contains(&with), "call {number} {args:x?}: {with:?}, not one of {expected:?}");
            assert_ne!(with, without, "call {number} {args:x?} is refused without the filter as well");
        }
    }
}

#[test]
fn every_call_of_the_rules_has_a_refused_case() {
    for (set_id, refused, _) in CASES {
        let in_table: BTreeSet<c_long> = set_id.rules().flat_map(|row| row.calls).copied().collect();
        let shown: BTreeSet<c_long> = refused.into_iter().flatten().map(|&(number, _)| number).collect();
        assert_eq!(in_table, shown, "{set_id:?}");
    }
}

#[test]
fn an_allowed_call_has_the_same_answer_as_without_the_filter() {
    needs_root();
    for (set_id, _, allowed) in CASES {
        for &(number, args) in allowed.into_iter().flatten() {
            let (without, with) = without_and_with(set_id, number, args);
            assert_eq!(with, without, "{set_id:?} call {number} {args:x?}");
        }
    }
}

/// Another filter carries out nothing: calls that ours allows it passes to a tracer, which does not exist, so they fail
/// with `ENOSYS`. It is installed first, since ours forbids further ones; of two results the kernel takes the stricter.
#[test]
fn refuses_no_call_outside_of_the_rules() {
    for set_id in [SetId::Allowed, SetId::Denied] {
        assert_eq!(refused_outside_of_the_rules(set_id), (Answer::Done, vec![]), "{set_id:?}");
    }
}

/// The result of the child, and the numbers, as bytes, of the calls refused to it.
fn refused_outside_of_the_rules(set_id: SetId) -> (Answer, Vec<u8>) {
    let filter = Filter::compile(set_id).unwrap();
    let in_table: BTreeSet<c_long> = set_id.rules().flat_map(|row| row.calls).copied().collect();
    let is_other = |call: &c_long| !in_table.contains(call) && !NEEDED.contains(call) && !OF_THE_KERNEL.contains(call);
    let others: Vec<c_long> = (0..1_000).filter(is_other).collect();
    let (mut reader, writer) = io::pipe().unwrap();
    let answer = in_child(|| {
        set_no_new_privs(true)?;
        hand_to_a_tracer()?;
        filter.install()?;
        let refused = others
            .iter()
            .filter(|&&number| call(number, [0; 5]).map_err(|error| error.raw_os_error()) != Err(Some(libc::ENOSYS)));
        for number in refused {
            (&writer).write_all(&number.to_ne_bytes())?;
        }
        Ok(())
    });
    drop(writer);
    let mut refused = vec![];
    reader.read_to_end(&mut refused).unwrap();
    (answer, refused)
}

/// Calls that the child needs to report its result and to install our filter after the other.
const NEEDED: [c_long; 4] = [libc::SYS_exit_group, libc::SYS_write, libc::SYS_seccomp, libc::SYS_prctl];

/// `uretprobe` and `uprobe`, which the kernel itself writes into programs, pass every filter, and kill any other
/// caller.
const OF_THE_KERNEL: std::ops::RangeInclusive<c_long> = 335..=336;

fn hand_to_a_tracer() -> io::Result<()> {
    let [exit, write, seccomp, prctl] = NEEDED.map(|number| number.try_into().unwrap());
    let step = |code, k, jt| libc::sock_filter { code, jt, jf: 0, k };
    let mut program = [
        step(0x20, 0, 0),
        step(0x15, exit, 4),
        step(0x15, write, 3),
        step(0x15, seccomp, 2),
        step(0x15, prctl, 1),
        step(0x06, libc::SECCOMP_RET_TRACE, 0),
        step(0x06, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: 7, filter: program.as_mut_ptr() };
    let program: *const libc::sock_fprog = &raw const program;
    call(libc::SYS_seccomp, [libc::SECCOMP_SET_MODE_FILTER.into(), 0, program.addr().try_into().unwrap(), 0, 0])
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_of_another_architecture_kills_the_process() {
    let filter = Filter::compile(SetId::Allowed).unwrap();
    let x32 = || call(0x4000_0000 | libc::SYS_getpid, [0; 5]);
    let in_32_bits = || {
        let pid: i64;
        // SAFETY: `getpid` of the 32-bit interface changes no register but the one of its result.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => pid, out("r8") _, out("r9") _, out("r10") _, out("r11") _)
        };
        if pid > 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOSYS)) }
    };
    let killed = Answer::Killed(libc::SIGSYS);
    assert_ne!(in_child(x32), killed);
    assert_ne!(in_child(in_32_bits), killed);
    assert_eq!(in_child(|| install(&filter).and_then(|()| x32())), killed);
    assert_eq!(in_child(|| install(&filter).and_then(|()| in_32_bits())), killed);
}

#[test]
fn installing_a_filter_requires_no_new_privs_or_privilege() {
    let filter = Filter::compile(SetId::Allowed).unwrap();
    let answer = in_child(|| {
        crate::capabilities::drop_all()?;
        filter.install()
    });
    assert_eq!(answer, Answer::Errno(libc::EACCES));
}

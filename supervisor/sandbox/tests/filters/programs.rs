//! Real programs under all filters.

use crate::child_process::{before_exec, program};
use crate::seccomp::{Filter, SetId};
use crate::{capabilities, landlock};
use rustix::thread::set_no_new_privs;
use std::fs;
use std::path::Path;

/// Keeps Go's compiled packages between runs; without it each would take half a minute.
const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// Runs a `sh` script under all filters, with `dir`, [`CACHE`] and `/dev/shm` writable, and returns its output.
fn confined(dir: &Path, script: &str) -> String {
    let mut command = program("sh");
    let tmp = dir.join("tmp");
    fs::create_dir(&tmp).unwrap();
    command.args(["-euc", script]).current_dir(dir).env("HOME", dir).env("TMPDIR", tmp);
    // Compilers are found through the old home directory, and write to the new one.
    let home = std::env::var("HOME").unwrap();
    command.env("RUSTUP_HOME", std::env::var("RUSTUP_HOME").unwrap_or(format!("{home}/.rustup")));
    command.env("GOCACHE", Path::new(CACHE).join("go")).env("GOPATH", dir.join("go")).env("GOTOOLCHAIN", "local");
    // Cargo inside must build in `dir`, not in the directory of the build that runs this test.
    command.env_remove("CARGO_TARGET_DIR");
    let filter = Filter::compile(SetId::Denied).unwrap();
    let writable = dir.to_owned();
    before_exec(&mut command, move || {
        capabilities::drop_all()?;
        set_no_new_privs(true)?;
        landlock::restrict(&[&writable, CACHE.as_ref(), "/dev/shm".as_ref()])?;
        filter.install()
    });
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_shell_works_under_all_filters() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mkfifo pipe; seq 1000 > pipe & sort -rn pipe | head -n 1; wait; echo x | tee a > /dev/null; mv a b; cat b; \
                  grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; cat /proc/self/status > /dev/stderr";
    assert_eq!(confined(dir.path(), script), "1000\nx\nNoNewPrivs:\t1\nSeccomp:\t2\n");
}

#[test]
fn go_works_under_all_filters() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("go.mod"), "module example.com/tiny\n\ngo 1.24\n").unwrap();
    let program = r#"package main

import ("fmt"; "net"; "os/exec"; "sync")

func main() {
    var all sync.WaitGroup
    for range 64 { all.Add(1); go func() { defer all.Done(); exec.Command("true").Run() }() }
    all.Wait()
    listener, err := net.Listen("tcp", "127.0.0.1:0")
    if err != nil { panic(err) }
    if _, err := net.Dial("tcp", listener.Addr().String()); err != nil { panic(err) }
    if _, err := net.Interfaces(); err != nil { panic(err) }
    fmt.Println("done")
}
"#;
    fs::write(dir.path().join("main.go"), program).unwrap();
    assert_eq!(confined(dir.path(), "go version >&2; CGO_ENABLED=0 go build -o tiny . && ./tiny"), "done\n");
}

#[test]
fn python_works_under_all_filters() {
    let dir = tempfile::tempdir().unwrap();
    let program = r#"
import asyncio, fcntl, mmap, multiprocessing, os, socket, sqlite3, subprocess, tempfile, threading

def square(n): return n * n

if __name__ == "__main__":
    threads = [threading.Thread(target=square, args=(n,)) for n in range(32)]
    for t in threads: t.start()
    for t in threads: t.join()
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(3) as pool: assert pool.map(square, range(9))[8] == 64
    assert subprocess.run(["sh", "-c", "exit 3"]).returncode == 3
    db = sqlite3.connect("db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(x)")
    db.execute("insert into t values(zeroblob(1000000))"); db.commit(); db.execute("vacuum"); db.close()
    with open("locks", "w+") as f:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.flock(f, fcntl.LOCK_UN)
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.mkfifo("fifo"); socket.socketpair()
    with open("space", "w") as f: os.posix_fallocate(f.fileno(), 0, 1 << 20)
    assert os.stat("space").st_blocks == 2048
    memory = os.memfd_create("m"); os.write(memory, b"1"); open(f"/proc/self/fd/{memory}", "r+b").write(b"2")
    with open("a", "w+b") as a, open("b", "w+b") as b: a.write(b"abc"); a.flush(); assert os.copy_file_range(a.fileno(), b.fileno(), 3, 0) == 3
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    asyncio.run(asyncio.sleep(0)); pty, _ = os.openpty(); os.ttyname(_)
    print("done")
"#;
    fs::write(dir.path().join("program.py"), program).unwrap();
    assert_eq!(confined(dir.path(), "python3 program.py"), "done\n");
}

#[test]
fn rust_works_under_all_filters() {
    let dir = tempfile::tempdir().unwrap();
    let program = r#"fn main() {
    let threads: Vec<_> = (0..32).map(|n| std::thread::spawn(move || n)).collect();
    assert_eq!(threads.into_iter().map(|t| t.join().unwrap()).sum::<i32>(), 496);
    assert!(std::process::Command::new("true").status().unwrap().success());
    println!("done");
}"#;
    fs::write(dir.path().join("main.rs"), program).unwrap();
    assert_eq!(confined(dir.path(), "rustc -C debuginfo=2 main.rs && ./main"), "done\n");
}

#[test]
fn programs_that_reserve_space_work_under_all_filters() {
    let dir = tempfile::tempdir().unwrap();
    let script = "git init --quiet all; cd all; git config user.name x; git config user.email x; git config gc.auto 0
        seq 100000 > file; git add file; git commit --quiet -m one; git repack -a -d --quiet; git fsck --strict
        cargo init --quiet --vcs none --name tiny rust; cd rust; cargo test --quiet --offline > /dev/null
        ! fallocate -l 1M space 2> why; grep -o 'Operation not supported' why
        fallocate -x -l 1M space; fallocate -p -o 0 -l 512K space; stat -c '%s %b' space";
    assert_eq!(confined(dir.path(), script), "Operation not supported\n1048576 1024\n");
}

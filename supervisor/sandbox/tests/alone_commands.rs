//! Commands that a run leaves for later: what they may do, what they leave, and that nothing of them is a part of the run's ending.

#[cfg(test)]
mod support;

use proctor_core::outcome::Exit;
use proctor_sandbox::{Artifact, Ending, Jail, RunSpec, Sandbox as _};
use std::fs;
use std::path::Path;
use support::{RunEvents, assert_exits, run, sh, spec};

/// A run in `workspace` that lists these scripts as commands for later, and then does `more`.
#[cfg(test)]
fn leaving(workspace: &Path, scripts: &[&str], more: &str) -> RunSpec {
    let mut list = b"P/bin/sh\0D/\0VPATH=/usr/bin:/bin\0VLEFT=over\0".to_vec();
    for (number, script) in scripts.iter().enumerate() {
        let file = workspace.join(format!("script-{number}"));
        fs::write(&file, script).unwrap();
        list.extend(format!("C5 {}\0", file.display()).bytes());
    }
    // The run starts later than that, on the clock of file systems.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let list: String = list.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let unit = "/tmp/proctor/artifacts/unit";
    RunSpec {
        jail: Jail::new(workspace),
        artifacts: "artifacts".into(),
        alone: true,
        ..spec(&format!("mkdir {unit} && printf '{list}' > {unit}/alone; {more}"))
    }
}

/// What the commands left in the first run that leaves this, or in the last of some: on a busy host, some have no time.
#[cfg(test)]
fn records_in_time(expected: &[&str], run: impl Fn() -> Ending) -> Vec<String> {
    let runs = (0..20).map(|_| records(&run()));
    let mut found = Vec::new();
    for records in runs {
        found = records;
        if found == expected {
            break;
        }
    }
    found
}

/// What the commands left, in the order of their texts, after a run whose own command succeeded.
#[cfg(test)]
fn records(ending: &Ending) -> Vec<String> {
    assert_exits(ending, &[Exit::Code(0)]);
    let text = |artifact: &Artifact| {
        assert!(artifact.path.starts_with("unit/alone-"), "{artifact:?}");
        String::from_utf8_lossy(&artifact.bytes).into_owned()
    };
    let mut records: Vec<String> = ending.artifacts.iter().map(text).collect();
    records.sort();
    records
}

#[cfg(test)]
fn run_in_new_workspace(scripts: &[&str], more: &str) -> (Ending, RunEvents) {
    let workspace = tempfile::tempdir().unwrap();
    run(&leaving(workspace.path(), scripts, more))
}

#[test]
fn each_command_may_leave_a_file_and_no_event_shows_it() {
    let scripts = [
        "echo one $LEFT > $PROCTOR_ALONE_FILE; echo seen; echo seen >&2",
        "echo two > $PROCTOR_ALONE_FILE; exit 1",
        "echo three > $PROCTOR_ALONE_FILE; kill -9 $$",
        "echo four > $TMPDIR/a && cp $TMPDIR/a $HOME/a && cp $HOME/a $PROCTOR_ALONE_FILE",
        "exit 0",
        "ln -s /etc/passwd $PROCTOR_ALONE_FILE",
    ];
    let expected = ["four\n", "one over\n"];
    assert_eq!(records_in_time(&expected, || run_in_new_workspace(&scripts, "echo run").0), expected);
    let (_, events) = run_in_new_workspace(&scripts, "echo run");
    assert_eq!((events.stdout.as_str(), events.stderr.as_str()), ("run\n", ""));
    assert_eq!(events.event_words, ["started", "command 0", "exited 0"]);
}

#[test]
fn a_command_changes_nothing_and_finds_no_temporary_file_of_the_run() {
    let workspace = tempfile::tempdir().unwrap();
    let file = workspace.path().join("file");
    fs::write(&file, "text\n").unwrap();
    let file = file.display().to_string();
    let script = format!(
        "exec 3> $PROCTOR_ALONE_FILE 2> /dev/null; grep text {file} >&3
        for path in {file} {file}2 /tmp/new /tmp/left /dev/shm/left /tmp/proctor/work/left /tmp/proctor/home/left \
            /tmp/proctor/artifacts/unit/alone; do
            (echo x >> $path) && echo wrote $path >&3
            (: > $path) && echo truncated $path >&3
            rm $path && echo removed $path >&3
        done
        cat /tmp/left /dev/shm/left /tmp/proctor/work/left /tmp/proctor/home/left >&3
        ls /tmp /dev/shm /tmp/proctor/work >&3"
    );
    let leave = format!(
        "for dir in /tmp /dev/shm /tmp/proctor/work /tmp/proctor/home; do echo hidden > $dir/left; done
        ln -s {} /tmp/proctor/work/alone",
        workspace.path().display()
    );
    let (ending, _) = run(&leaving(workspace.path(), &[&script], &leave));
    // The last command of the script fails, and the shell's own status is its.
    assert_eq!(records(&ending), [] as [&str; 0]);
    let script = format!("{script}; exit 0");
    let all = || run(&leaving(workspace.path(), &[&script], &leave)).0;
    assert_eq!(records_in_time(&["text\n"], all), ["text\n"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "text\n");
    assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 2, "the file and the script");
}

#[test]
fn a_command_that_ends_badly_changes_nothing_of_the_ending_and_hinders_no_other() {
    let good = "echo good > $PROCTOR_ALONE_FILE";
    for bad in [
        // Ended at its time.
        "sleep 600",
        "trap '' TERM; while :; do sleep 600; done",
        "sleep 600 & exit 0",
        // Out of memory, of processes, of output.
        "head -c 2G /dev/zero | tail",
        ":() { : | : & }; :; wait",
        "yes",
    ] {
        let (ending, events) = run_in_new_workspace(&[bad, good], "");
        assert_exits(&ending, &[Exit::Code(0)]);
        assert!(ending.limit_hits.is_empty() && ending.notes.is_empty(), "{bad}: {ending:?}");
        assert_eq!((events.killing, events.stdout.as_str()), (None, ""), "{bad}");
    }
    // One that ends when it is asked to leaves the worker alive.
    let all = ["good\n"; 3];
    assert_eq!(records_in_time(&all, || run_in_new_workspace(&["sleep 600", good, good, good], "").0), all);
}

#[test]
fn nothing_is_executed_behind_a_run_that_changed_its_workspace_or_was_killed() {
    let workspace = tempfile::tempdir().unwrap();
    fs::create_dir(workspace.path().join("dir")).unwrap();
    fs::write(workspace.path().join("dir/file"), "").unwrap();
    fs::write(workspace.path().join("dir/other"), "").unwrap();
    let script = ["echo good > $PROCTOR_ALONE_FILE"];
    let after = |more: &str| records(&run(&leaving(workspace.path(), &script, more)).0);
    let after_nothing = |more: &str| records_in_time(&["good\n"], || run(&leaving(workspace.path(), &script, more)).0);
    let dir = workspace.path().display();
    assert_eq!(after_nothing(""), ["good\n"]);
    for change in [
        "touch new",
        "echo x > dir/file",
        "chmod 700 dir",
        "chmod 600 dir/file",
        "touch -d 2001-01-01 dir/file",
        "mkdir dir/more",
        "mv dir/file file && mv file dir/file",
        "ln -s file dir/link",
    ] {
        assert_eq!(after(&format!("cd {dir} && {change}")), [] as [&str; 0], "{change}");
        assert_eq!(after_nothing(""), ["good\n"], "after {change}");
    }
    // What is made and removed again is not there for a later one.
    let made_and_removed = format!("cd {dir} && mkdir a dir/b && touch dir/b/c && rm -r a dir/b");
    assert_eq!(after_nothing(&made_and_removed), ["good\n"]);
    let mut killed = leaving(workspace.path(), &script, "sleep 600");
    killed.limits.wall_ms_max = 200;
    let (ending, _) = run(&killed);
    assert!(ending.killed.is_some() && ending.artifacts.iter().all(|file| file.path == "unit/alone"), "{ending:?}");
}

/// The third version of Landlock is the first that keeps files from being truncated.
#[test]
fn executes_nothing_that_the_kernel_cannot_confine() {
    let system = rustix::system::uname();
    let release = system.release().to_str().unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let can_confine = (numbers.next().unwrap(), numbers.next().unwrap()) >= (6, 2);
    let expected: &[&str] = if can_confine { &["good\n"] } else { &[] };
    let run = || run_in_new_workspace(&["echo good > $PROCTOR_ALONE_FILE"], "").0;
    assert_eq!(records_in_time(expected, run), expected, "{release}");
}

#[test]
fn a_worker_that_executed_them_is_replaced_as_any_other() {
    let sandbox = proctor_sandbox::LinuxSandbox::new(support::worker(), proctor_sandbox::PoolBounds::NONE).unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let kill = proctor_sandbox::KillSwitch::new().unwrap();
    let _alone = support::one_at_a_time();
    let mut two = leaving(workspace.path(), &["echo good > $PROCTOR_ALONE_FILE"], "");
    two.commands.push(sh("exit 3"));
    let mut ends = (0..20).map(|_| sandbox.run(&two, &kill, &mut |_| {}).unwrap());
    let ending = ends.find(|ending| !ending.artifacts.is_empty()).expect("a run that failed has them, too");
    assert_exits(&ending, &[Exit::Code(0), Exit::Code(3)]);
    drop(ends);
    drop(sandbox);
    support::assert_no_leftovers();
}

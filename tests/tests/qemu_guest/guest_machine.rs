//! The guest itself: its kernel, the reported status of each command, and its timeout.

use proctor_tests::qemu_guest::Guest;
use std::time::Duration;

#[test]
fn boots_a_stock_kernel_and_reports_each_exit_status() {
    let controllers = "cat /sys/fs/cgroup/cgroup.subtree_control";
    let hierarchies = "grep -c ' cgroup2\\? ' /proc/self/mounts; grep ' cgroup2 ' /proc/self/mounts";
    let network = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
    let result = Guest::new().run(&[
        &["sh", "-c", controllers],
        &["sh", "-c", hierarchies],
        &["sh", "-c", network],
        &["sh", "-c", "printf 'no line end'; echo \"it's $1\" >&2; exit 7", "sh", "here, \"there\" and $HOME"],
        &["sh", "-c", "kill -KILL $$"],
        &["python3", "-c", "import ctypes, json, socket; print(json.dumps(socket.gethostname()))"],
        &["cat", "/sys/kernel/security/lsm"],
        &["no-such-program"],
    ]);
    let all = result.describe();
    let statuses: Vec<_> = result.commands.iter().map(|command| command.status).collect();
    assert_eq!(statuses, [0, 0, 0, 7, 137, 0, 0, 127].map(Some), "{all}");
    let output: Vec<&str> = result.commands.iter().map(|command| command.output.trim_end()).collect();
    for controller in ["cpu", "cpuset", "io", "memory", "pids"] {
        assert!(output[0].split(' ').any(|word| word == controller), "{controller}: {all}");
    }
    assert!(output[1].starts_with("1\n") && output[1].contains("nsdelegate"), "{all}");
    assert_eq!(output[2..4], ["lo", "no line endit's here, \"there\" and $HOME"], "{all}");
    assert_eq!(output[5], "\"guest\"", "{all}");
    assert!(output[6].split(',').any(|module| module == "landlock"), "{all}");
    assert!(!result.timed_out && result.boot.is_some(), "{all}");
}

#[test]
fn kills_a_guest_that_exceeds_its_timeout() {
    let hung = Guest::new().timeout(Duration::from_secs(3)).run(&[&["sleep", "600"]]);
    assert!(hung.timed_out, "{}", hung.describe());
    assert!(hung.commands.iter().all(|command| command.status.is_none()), "{}", hung.describe());
}

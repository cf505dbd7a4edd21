//! Open files of the whole host, from a run's first to its end: a guest has few of them (`fs.file-max`), which no test may do to
//! this machine. Must not know how they are watched.

use proctor_tests::process::program;
use proctor_tests::qemu_guest::Guest;
use serde_json::Value;
use std::time::Duration;

/// Files that there can be in the guest.
const FILES_MAX: &str = "echo 16384 > /proc/sys/fs/file-max";

/// A run of three processes, which have 4,500 files together: more than a quarter, and less than a half. It keeps them for as many
/// seconds as its argument says.
const RUN: &str = "
import os, resource, sys, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
for _ in range(3):
    if os.fork() == 0:
        held = [os.open('/dev/null', os.O_RDONLY) for _ in range(1500)]
        time.sleep(float(sys.argv[1]))
        os._exit(0)
sys.exit(max(os.wait()[1] for _ in range(3)))";

/// Somebody else who has a third of all files, until his input ends.
const OTHER: &str = "
import os, sys
held = [os.open('/dev/null', os.O_RDONLY) for _ in range(5500)]
open('/run/held', 'w').close()
sys.stdin.read()";

/// `$1` runs `$2`, a program of Python, with the argument `$3`, as root would at a terminal.
const PROCTOR: &str = "mkdir -p /srv/few && exec \"$1\" run /srv/few --output json -- python3 -c \"$2\" \"$3\"";

/// The same while the program `$4` goes on.
const BESIDE: &str = "mkfifo /run/go
prlimit --nofile=8000 python3 -c \"$4\" < /run/go &
exec 9> /run/go
until [ -e /run/held ]; do sleep 0.1; done
\"$1\" run /srv/few --output json -- python3 -c \"$2\" \"$3\" 9>&-
status=$?
exec 9>&-
wait $!
exit $status";

#[test]
fn a_run_with_a_quarter_of_the_files_is_ended_once_half_are_open() {
    let proctor = program("proctor");
    let proctor_path = proctor.to_str().unwrap();
    let outcome = Guest::new().file(&proctor).file(program("proctor-worker")).within(Duration::from_secs(300)).run(&[
        &["sh", "-c", FILES_MAX],
        &["sh", "-c", PROCTOR, "sh", proctor_path, RUN, "3"],
        &["sh", "-c", BESIDE, "sh", proctor_path, RUN, "120", OTHER],
        &["cat", "/proc/sys/fs/file-nr"],
    ]);
    let all = outcome.all();
    let statuses: Vec<_> = outcome.commands.iter().map(|command| command.status).collect();
    // 137 is that of a run that is ended for memory, as which the kernel's own counts.
    assert_eq!(statuses, [0, 0, 137, 0].map(Some), "{all}");
    let report = |index: usize| -> Value {
        let output = &outcome.commands[index].output;
        let document = output.get(output.find('{').unwrap()..).unwrap();
        serde_json::Deserializer::from_str(document).into_iter().next().unwrap().unwrap()
    };
    let (alone, beside) = (report(1), report(2));
    assert_eq!((&alone["outcome"], &alone["evidence"]["killed"]), (&"passed".into(), &Value::Null), "{all}");
    assert_eq!(beside["outcome"], "out_of_memory", "{all}");
    assert_eq!(beside["evidence"]["killed"], "kernel_memory", "{all}");
    let notes = beside["evidence"]["notes"].to_string();
    assert!(notes.contains("ended for the host's open files") && notes.contains("of the 16384"), "{notes}");
    // All of the run's are closed again.
    let open: u64 = outcome.commands[3].output.split_whitespace().next().unwrap().parse().unwrap();
    assert!(open < 4_096, "{all}");
}

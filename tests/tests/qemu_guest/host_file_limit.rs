//! The limit on open files of the whole host (`fs.file-max`), which proctor watches during runs. Tested in a guest, where the
//! limit can be lowered without harm.

use proctor_tests::process::program;
use proctor_tests::qemu_guest::Guest;
use serde_json::Value;
use std::time::Duration;

/// Lowers the number of files that may be open in the guest.
const FILES_MAX: &str = "echo 16384 > /proc/sys/fs/file-max";

/// A run of three processes with 4,500 open files together: more than a quarter and less than half of all. It keeps them open
/// for the number of seconds in its argument.
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

/// Another process with a third of all files, until its input ends.
const OTHER: &str = "
import os, sys
held = [os.open('/dev/null', os.O_RDONLY) for _ in range(5500)]
open('/run/held', 'w').close()
sys.stdin.read()";

/// `$1` runs the Python program `$2` with the argument `$3`, as root would at a terminal.
const PROCTOR: &str = "mkdir -p /srv/few && exec \"$1\" run /srv/few --output json -- python3 -c \"$2\" \"$3\"";

/// The same while the Python program `$4` holds its files.
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
fn ends_the_largest_run_when_half_of_all_files_are_open() {
    let proctor = program("proctor");
    let proctor_path = proctor.to_str().unwrap();
    let result = Guest::new().file(&proctor).file(program("proctor-worker")).timeout(Duration::from_secs(300)).run(&[
        &["sh", "-c", FILES_MAX],
        &["sh", "-c", PROCTOR, "sh", proctor_path, RUN, "3"],
        &["sh", "-c", BESIDE, "sh", proctor_path, RUN, "120", OTHER],
        &["cat", "/proc/sys/fs/file-nr"],
    ]);
    let all = result.describe();
    let statuses: Vec<_> = result.commands.iter().map(|command| command.status).collect();
    // A run killed for kernel memory, to which open files count, exits with 137.
    assert_eq!(statuses, [0, 0, 137, 0].map(Some), "{all}");
    let report = |index: usize| -> Value {
        let output = &result.commands[index].output;
        let document = output.get(output.find('{').unwrap()..).unwrap();
        serde_json::Deserializer::from_str(document).into_iter().next().unwrap().unwrap()
    };
    let (alone, beside) = (report(1), report(2));
    assert_eq!((&alone["outcome"], &alone["evidence"]["killed"]), (&"passed".into(), &Value::Null), "{all}");
    assert_eq!(beside["outcome"], "out_of_memory", "{all}");
    assert_eq!(beside["evidence"]["killed"], "kernel_memory", "{all}");
    let notes = beside["evidence"]["notes"].to_string();
    assert!(notes.contains("ended for the host's open files") && notes.contains("of the 16384"), "{notes}");
    // All files of the run are closed again.
    let open: u64 = result.commands[3].output.split_whitespace().next().unwrap().parse().unwrap();
    assert!(open < 4_096, "{all}");
}

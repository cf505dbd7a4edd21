//! `proctor run --watch` at a pseudo terminal: it runs again on a change, what failed first, ignores what it should, and ends.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy treats as ordinary code")]

use nix::pty::{Winsize, openpty};
use proctor_tests::process::{WAIT_MAX, command, program, wait_until};
use proctor_tests::test_workspace::{TestWorkspace, find_on_path};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

const WAITS: &str = "watching ";

/// A `proctor run --watch` whose controlling terminal is a pseudo terminal.
struct Watch {
    child: Child,
    terminal: File,
    chunks: Receiver<Vec<u8>>,
    /// What it has printed since the last wait.
    printed: String,
}

impl Watch {
    fn start(workspace: &TestWorkspace, arguments: &[&str]) -> Watch {
        let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let environment = workspace.command("proctor");
        // Makes the terminal the controlling one, so that Ctrl-C is a signal.
        let mut watch = command(&find_on_path("setsid"));
        watch.arg("--ctty").arg("--wait").arg(program("proctor")).args(["run", "--watch"]).args(arguments);
        watch.env_clear().envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
        watch.env("TERM", "xterm").current_dir(&workspace.path);
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = watch.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let terminal = File::from(pty.master);
        let mut reader = terminal.try_clone().unwrap();
        let (sender, chunks) = sync_channel(1_024);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Watch { child, terminal, chunks, printed: String::new() }
    }

    /// Waits until it waits for a change, and returns all that it has printed until then.
    fn wait(&mut self) -> String {
        let end = Instant::now() + WAIT_MAX;
        loop {
            let line_end =
                self.printed.find(WAITS).and_then(|at| self.printed[at..].find('\n').map(|end| at + end + 1));
            if let Some(line_end) = line_end {
                let rest = self.printed.split_off(line_end);
                return std::mem::replace(&mut self.printed, rest);
            }
            match self.chunks.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.printed.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{error} after {:?}", self.printed),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    fn status(mut self) -> Option<i32> {
        let end = Instant::now() + WAIT_MAX;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "it does not end: {:?}", self.printed);
            _ = self.chunks.recv_timeout(std::time::Duration::from_millis(20));
        }
    }
}

fn tests(one: &str, other: &str) -> String {
    format!("def test_one():\n    assert {one}\n\ndef test_other():\n    assert {other}\n")
}

fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_shop.py", &tests("True", "True"));
    workspace.write("node_modules/x/index.js", "1");
    workspace
}

#[test]
fn runs_again_on_a_change_and_what_failed_first() {
    let workspace = workspace();
    let mut watch = Watch::start(&workspace, &[]);
    let first = watch.wait();
    assert!(first.contains("2 passed") && first.contains("q Enter or Ctrl-C ends"), "{first}");

    workspace.write("test_shop.py", &tests("False", "True"));
    let broken = watch.wait();
    assert!(broken.contains("changed: test_shop.py") && broken.contains("1 passed, 1 failed"), "{broken}");

    // It fails still: nothing else runs.
    workspace.write("test_shop.py", &tests("1 == 2", "True"));
    let again = watch.wait();
    assert!(again.contains("running what failed, then all") && again.contains("0 passed, 1 failed"), "{again}");

    workspace.write("test_shop.py", &tests("True", "True"));
    let fixed = watch.wait();
    let (rerun, all) = fixed.split_once("1 passed").unwrap_or_else(|| panic!("{fixed}"));
    assert!(rerun.contains("running what failed, then all") && all.contains("2 passed"), "{fixed}");

    // Ignored files start nothing: the run that follows is that of the key.
    workspace.write("node_modules/x/index.js", "2");
    workspace.write("test_shop.py~", "backup");
    watch.press("\n");
    let asked = watch.wait();
    assert!(asked.contains("2 passed") && !asked.contains("changed"), "{asked}");

    workspace.write("test_new.py", "def test_new():\n    assert True\n");
    let new = watch.wait();
    assert!(new.contains("changed: test_new.py") && new.contains("3 passed"), "{new}");
    watch.press("q\n");
    assert_eq!(watch.status(), Some(0));
}

#[test]
fn files_that_the_tests_write_start_no_further_run() {
    let workspace = workspace();
    let writes = "import time\n\ndef test_writes():\n    with open('written.py', 'w') as file:\n        file.write('# %s' % time.time())\n    with open('result.out', 'w') as file:\n        file.write(str(time.time()))\n";
    workspace.write("test_writes.py", writes);
    workspace.write("written.py", "");
    let mut watch = Watch::start(&workspace, &[]);
    // The first run cannot know who wrote it; the second shows that the tests do.
    let first = watch.wait();
    assert_eq!(first.matches("changed during the run: written.py").count(), 1, "{first}");
    watch.press("\n");
    let second = watch.wait();
    assert!(second.contains("3 passed") && !second.contains("changed"), "{second}");
    watch.press("\u{3}");
    assert_eq!(watch.status(), Some(0));
}

#[test]
fn ctrl_c_during_a_run_cancels_it_and_ends() {
    let workspace = workspace();
    workspace.write(
        "test_shop.py",
        "import time\n\ndef test_hangs():\n    open('began', 'w').close()\n    time.sleep(3600)\n",
    );
    let mut watch = Watch::start(&workspace, &[]);
    wait_until("the test runs", || workspace.path.join("began").exists());
    watch.press("\u{3}");
    assert_eq!(watch.status(), Some(130));
}

#[test]
fn a_mistake_in_the_project_file_is_shown_and_its_correction_runs() {
    let workspace = workspace();
    workspace.write(".proctor.yaml", "timeuot: 3s\n");
    let mut watch = Watch::start(&workspace, &[]);
    let wrong = watch.wait();
    assert!(wrong.contains("did you mean `timeout`?"), "{wrong}");
    workspace.write(".proctor.yaml", "timeout: 30s\n");
    let right = watch.wait();
    assert!(right.contains("changed: .proctor.yaml") && right.contains("2 passed"), "{right}");
    watch.press("q\n");
    assert_eq!(watch.status(), Some(0));
}

//! `proctor run --watch` at a pseudo terminal: it runs again on a change, first what this may affect or what failed, ignores what it should, and ends.

use proctor_tests::process::wait_until;
use proctor_tests::pseudo_terminal::PseudoTerminal;
use proctor_tests::test_workspace::TestWorkspace;

const WAITS: &str = "watching ";

/// Starts `proctor run --watch` at a pseudo terminal.
fn watch(workspace: &TestWorkspace) -> PseudoTerminal {
    let mut watch = workspace.command("proctor");
    watch.args(["run", "--watch"]).current_dir(&workspace.path);
    PseudoTerminal::start(&watch)
}

/// Waits until it waits for a change, and returns all that it has printed until then.
fn printed(watch: &mut PseudoTerminal) -> String {
    watch.wait_until(|printed| {
        let waits = printed.find(WAITS)?;
        Some(waits + printed[waits..].find('\n')? + 1)
    })
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
    let mut watch = watch(&workspace);
    let first = printed(&mut watch);
    assert!(first.contains("2 passed") && first.contains("q Enter or Ctrl-C ends"), "{first}");

    workspace.write("test_shop.py", &tests("False", "True"));
    let broken = printed(&mut watch);
    assert!(broken.contains("changed: test_shop.py") && broken.contains("1 passed, 1 failed"), "{broken}");

    // It fails still: nothing else runs.
    workspace.write("test_shop.py", &tests("1 == 2", "True"));
    let again = printed(&mut watch);
    assert!(again.contains("running what failed, then all") && again.contains("0 passed, 1 failed"), "{again}");

    workspace.write("test_shop.py", &tests("True", "True"));
    let fixed = printed(&mut watch);
    let (rerun, all) = fixed.split_once("1 passed").unwrap_or_else(|| panic!("{fixed}"));
    assert!(rerun.contains("running what failed, then all") && all.contains("2 passed"), "{fixed}");

    // Ignored files start nothing: the run that follows is that of the key.
    workspace.write("node_modules/x/index.js", "2");
    workspace.write("test_shop.py~", "backup");
    watch.press("\n");
    let asked = printed(&mut watch);
    assert!(asked.contains("2 passed") && !asked.contains("changed"), "{asked}");

    workspace.write("test_new.py", "def test_new():\n    assert True\n");
    let new = printed(&mut watch);
    assert!(new.contains("changed: test_new.py") && new.contains("3 passed"), "{new}");
    watch.press("q\n");
    assert_eq!(watch.status(), Some(0));
}

#[test]
fn what_a_change_may_affect_runs_first() {
    let workspace = workspace();
    let cart = |value: &str| workspace.write("test_cart.py", &format!("def test_cart():\n    assert {value}\n"));
    cart("True");
    let mut watch = watch(&workspace);
    let first = printed(&mut watch);
    assert!(first.contains("3 passed"), "{first}");

    cart("False");
    let broken = printed(&mut watch);
    assert!(broken.contains("running what the change may affect, then all"), "{broken}");
    assert!(broken.contains("0 passed, 1 failed"), "{broken}");

    cart("1 == 1");
    let fixed = printed(&mut watch);
    let (affected, all) = fixed.split_once("1 passed").unwrap_or_else(|| panic!("{fixed}"));
    assert!(affected.contains("running what the change may affect, then all") && all.contains("3 passed"), "{fixed}");
    watch.press("q\n");
    assert_eq!(watch.status(), Some(0));
}

#[test]
fn files_that_the_tests_write_start_no_further_run() {
    let workspace = workspace();
    let writes = "import time\n\ndef test_writes():\n    with open('written.py', 'w') as file:\n        file.write('# %s' % time.time())\n    with open('result.out', 'w') as file:\n        file.write(str(time.time()))\n";
    workspace.write("test_writes.py", writes);
    workspace.write("written.py", "");
    let mut watch = watch(&workspace);
    // The first run cannot know who wrote it; the second shows that the tests do.
    let first = printed(&mut watch);
    assert_eq!(first.matches("changed during the run: written.py").count(), 1, "{first}");
    watch.press("\n");
    let second = printed(&mut watch);
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
    let mut watch = watch(&workspace);
    wait_until("the test runs", || workspace.path.join("began").exists());
    watch.press("\u{3}");
    assert_eq!(watch.status(), Some(130));
}

#[test]
fn a_mistake_in_the_project_file_is_shown_and_its_correction_runs() {
    let workspace = workspace();
    workspace.write(".proctor.yaml", "timeuot: 3s\n");
    let mut watch = watch(&workspace);
    let wrong = printed(&mut watch);
    assert!(wrong.contains("did you mean `timeout`?"), "{wrong}");
    workspace.write(".proctor.yaml", "timeout: 30s\n");
    let right = printed(&mut watch);
    assert!(right.contains("changed: .proctor.yaml") && right.contains("2 passed"), "{right}");
    watch.press("q\n");
    assert_eq!(watch.status(), Some(0));
}

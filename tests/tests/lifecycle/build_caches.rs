//! Build caches: no run reads what a run in another workspace left in its caches, and no run at all reads injected
//! settings of tools or replacements of proctor's own files.

use proctor_tests::process::{ProcessOutput, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, cache_home, tree};
use serde_json::Value;

/// A pytest suite that plants bytecode in place of proctor's plugin: the plugin plus a hook that skips all test bodies.
const POISON_PYTEST: &str = r#"
import importlib.util, os, pathlib, sys
import importlib._bootstrap_external as external
import pytest

HOOK = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True
"""

def test_poison():
    for name in ("proctor_pytest", "proctor_python"):
        module = sys.modules[name]
        is_file = os.path.exists(module.__file__)
        source = open(module.__file__).read() if is_file else module.__loader__.get_source(name)
        stat = os.stat(module.__file__ if is_file else "/")
        code = compile(source + HOOK, module.__file__, "exec")
        made = external._code_to_timestamp_pyc(code, int(stat.st_mtime), len(source.encode()))
        cached = pathlib.Path(importlib.util.cache_from_source(module.__file__))
        cached.parent.mkdir(parents=True, exist_ok=True)
        for target in (cached, cached.with_name(cached.stem + "-pytest-" + pytest.__version__ + ".pyc")):
            # Keeps the header, so that Python takes the file for current.
            head = target.read_bytes()[:16] if target.exists() else made[:16]
            target.write_bytes(head + made[16:])
"#;

/// A Rust test that plants a Cargo config: a compiler wrapper that sets `cfg(poisoned)` for everything compiled.
const POISON_CARGO: &str = r##"
#[test]
fn poison() {
    let home = std::path::PathBuf::from(std::env::var_os("CARGO_HOME").unwrap());
    let aside = home.join("registry").canonicalize().map_or(home.clone(), |dir| dir.parent().unwrap().to_owned());
    for dir in [&home, &aside] {
        let wrapper = dir.join("wrapper");
        let config = format!("[build]\nrustc-wrapper = {:?}\n", wrapper);
        if std::fs::write(&wrapper, "#!/bin/sh\nexec \"$@\" --cfg poisoned\n").is_err() {
            continue;
        }
        std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(dir.join("config.toml"), config).unwrap();
    }
}
"##;

const CARGO_TOML: &str = "[package]\nname = \"crate-of-a-test\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

const FAILING: &str = "#[test]\nfn fails() {\n    assert!(cfg!(poisoned));\n}\n";

fn run(workspace: &TestWorkspace) -> ProcessOutput {
    workspace.proctor(&["run", "--output", "json"])
}

/// Outcome, and the counts of passed and failed tests.
fn summary(output: &ProcessOutput) -> (String, Value, Value) {
    let report = output.json();
    let count = |key: &str| report["summary"][key].clone();
    (report["outcome"].as_str().unwrap_or_default().to_owned(), count("passed"), count("failed"))
}

#[test]
fn poisoned_pytest_bytecode_affects_no_workspace() {
    let (hostile, other) = (TestWorkspace::empty(), TestWorkspace::empty());
    let failing = "def test_fails():\n    assert False\n";
    hostile.write("conftest.py", "");
    hostile.write("test_a.py", POISON_PYTEST);
    // Twice: the first run compiles the bytecode that the second one replaces.
    for _ in 0..2 {
        let output = run(&hostile);
        assert_eq!(output.status, 0, "{output:?}");
    }
    other.write("conftest.py", "");
    other.write("test_b.py", failing);
    assert_eq!(summary(&run(&other)), ("failed".into(), 0.into(), 1.into()));
    hostile.write("test_a.py", failing);
    assert_eq!(summary(&run(&hostile)), ("failed".into(), 0.into(), 1.into()));
}

#[test]
fn poisoned_cargo_config_affects_no_workspace() {
    let (hostile, other) = (TestWorkspace::empty(), TestWorkspace::empty());
    for workspace in [&hostile, &other] {
        workspace.write("Cargo.toml", CARGO_TOML);
    }
    hostile.write("src/lib.rs", POISON_CARGO);
    // With a network the workspace's own registry lies beside the settings.
    for network in ["none", "host"] {
        let output = hostile.proctor(&["run", "--output", "json", "--network", network]);
        assert_eq!(output.status, 0, "{output:?}");
    }
    other.write("src/lib.rs", FAILING);
    // The first run compiles.
    for network in ["host", "none"] {
        let output = other.proctor(&["run", "--output", "json", "--network", network]);
        assert_eq!(summary(&output), ("failed".into(), 0.into(), 1.into()), "{network}: {output:?}");
    }
    hostile.write("src/lib.rs", FAILING);
    let output = hostile.proctor(&["run", "--output", "json", "--network", "host"]);
    assert_eq!(summary(&output), ("failed".into(), 0.into(), 1.into()), "{output:?}");
}

/// Paths in which tools look for settings, with variables of the run's environment.
const SETTINGS: &str = r#"
"$CARGO_HOME/config.toml" "$CARGO_HOME/config" "$CARGO_HOME/credentials.toml"
"$GRADLE_USER_HOME/init.d/a.gradle" "$GRADLE_USER_HOME/init.gradle" "$GRADLE_USER_HOME/gradle.properties"
"$USER_HOME/.m2/settings.xml" "$USER_HOME/.m2/toolchains.xml" "$USER_HOME/.m2/extensions.xml"
"$HOME/.config/go/env" "$HOME/.npmrc" "$HOME/.yarnrc" "$HOME/.yarnrc.yml" "$HOME/.config/pip/pip.conf"
"$HOME/.pip/pip.conf" "$HOME/.config/uv/uv.toml" "$HOME/.mavenrc" "$HOME/.gitconfig""#;

#[test]
fn next_run_sees_no_settings_files_of_the_previous_run() {
    let workspace = TestWorkspace::empty();
    let run_for_each = |each: &str| {
        let home = "USER_HOME=$(echo \"$MAVEN_OPTS\" | sed 's/.*-Duser.home=\\([^ ]*\\).*/\\1/')";
        let files = SETTINGS.replace('\n', " ");
        let script = format!("{home}; for file in {files}; do {each}; done");
        workspace.proctor(&["run", "--network", "host", "--output", "json", "--", "sh", "-c", &script])
    };
    let output = run_for_each("mkdir -p \"${file%/*}\" && echo planted > \"$file\" || exit 1");
    assert_eq!(output.status, 0, "{output:?}");
    let output = run_for_each("if [ -e \"$file\" ]; then echo \"$file\"; fi");
    assert_eq!(output.json()["stdout_tail"], "", "{output:?}");
}

/// Lists the marker files it finds, then writes one named after `$1` into every writable directory.
const MARK: &str = r#"
open=$(awk '$6 ~ /^rw/ && $5 !~ /^\/(proc|dev|sys)/ {print $5}' /proc/self/mountinfo)
find $open "${GOCACHE%/*/*}" -name 'proctor-mark-*' 2>/dev/null
find $open -type d -writable 2>/dev/null | while read -r dir; do echo x > "$dir/proctor-mark-$1"; done
exit 0
"#;

#[test]
fn caches_are_not_shared_between_workspaces() {
    let (one, other) = (TestWorkspace::empty(), TestWorkspace::empty());
    let mark = |workspace: &TestWorkspace, name: &str, more: &[&str]| {
        let arguments = [&["run", "--output", "json"], more, &["--", "sh", "-c", MARK, "sh", name]].concat();
        let output = workspace.proctor(&arguments);
        assert_eq!(output.status, 0, "{output:?}");
        output.json()["stdout_tail"].as_str().unwrap().to_owned()
    };
    let first_mark = "proctor-mark-one";
    assert!(!mark(&one, "one", &[]).contains("proctor-mark-"));
    assert!(!mark(&other, "other", &[]).contains(first_mark));
    assert!(!mark(&other, "other", &["--network", "host"]).contains(first_mark));
    let caches = cache_home().to_str().unwrap().to_owned();
    let again = mark(&one, "one", &[]);
    assert!(again.contains(&caches) && again.contains(first_mark), "the caches of a workspace are kept: {again}");
    let fresh = mark(&one, "one", &["--fresh"]);
    assert!(!fresh.contains(&caches), "a fresh run sees empty caches: {fresh}");
}

#[test]
fn links_the_go_library_only_into_runs_that_may_use_go() {
    let workspace = TestWorkspace::empty();
    let test = "import os, unittest\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        \
                self.assertFalse(os.path.lexists(os.environ['GOCACHE'] + '/library'))\n";
    workspace.write("test_a.py", test);
    assert_eq!(summary(&run(&workspace)), ("passed".into(), 1.into(), 0.into()));
    let output = workspace.proctor(&["run", "--", "sh", "-c", "test -L \"$GOCACHE/library\""]);
    assert_eq!(output.status, 0, "{output:?}");
}

#[test]
fn removes_the_caches_of_a_fresh_run() {
    let workspace = TestWorkspace::empty();
    let home = workspace.root().join("cache");
    let mut proctor = workspace.command("proctor");
    proctor.env("XDG_CACHE_HOME", &home).args([
        "run",
        "--fresh",
        "--",
        "sh",
        "-c",
        "mkdir -p \"$GOCACHE\" && echo x > \"$GOCACHE/a\"",
    ]);
    let output = wait_for_exit(proctor.spawn().unwrap());
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(tree(&home.join("proctor/own")).keys().count(), 0);
}

//! What a run leaves in its build caches is read by no run in another workspace, and of what is proctor's own or a tool's
//! settings by none at all.

use proctor_tests::process::{ProcessOutput, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, cache_home, tree};
use serde_json::Value;

/// A suite that puts bytecode in the place of proctor's plugin for pytest: the plugin as it is, and a hook that runs no test.
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
        for place in (cached, cached.with_name(cached.stem + "-pytest-" + pytest.__version__ + ".pyc")):
            # By whatever it is known to be current, it stays so.
            head = place.read_bytes()[:16] if place.exists() else made[:16]
            place.write_bytes(head + made[16:])
"#;

/// A suite that leaves settings of Cargo's: a wrapper around the compiler by which whatever is compiled knows `poisoned`.
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

fn run(place: &TestWorkspace) -> ProcessOutput {
    place.proctor(&["run", "--output", "json"])
}

/// Outcome, and how many tests passed and failed.
fn told(said: &ProcessOutput) -> (String, Value, Value) {
    let report = said.json();
    let of = |key: &str| report["summary"][key].clone();
    (report["outcome"].as_str().unwrap_or_default().to_owned(), of("passed"), of("failed"))
}

#[test]
fn bytecode_left_for_the_pytest_plugin_stands_for_it_in_no_workspace() {
    let (hostile, other) = (TestWorkspace::empty(), TestWorkspace::empty());
    let failing = "def test_fails():\n    assert False\n";
    hostile.write("conftest.py", "");
    hostile.write("test_a.py", POISON_PYTEST);
    // Twice, so that what the first run compiles is there to be replaced.
    for _ in 0..2 {
        let said = run(&hostile);
        assert_eq!(said.status, 0, "{said:?}");
    }
    other.write("conftest.py", "");
    other.write("test_b.py", failing);
    assert_eq!(told(&run(&other)), ("failed".into(), 0.into(), 1.into()));
    hostile.write("test_a.py", failing);
    assert_eq!(told(&run(&hostile)), ("failed".into(), 0.into(), 1.into()));
}

#[test]
fn settings_left_for_cargo_are_read_in_no_workspace() {
    let (hostile, other) = (TestWorkspace::empty(), TestWorkspace::empty());
    for place in [&hostile, &other] {
        place.write("Cargo.toml", CARGO_TOML);
    }
    hostile.write("src/lib.rs", POISON_CARGO);
    // With a network it is the workspace's own registry that lies beside the settings.
    for network in ["none", "host"] {
        let said = hostile.proctor(&["run", "--output", "json", "--network", network]);
        assert_eq!(said.status, 0, "{said:?}");
    }
    other.write("src/lib.rs", FAILING);
    // The first one compiles.
    for network in ["host", "none"] {
        let said = other.proctor(&["run", "--output", "json", "--network", network]);
        assert_eq!(told(&said), ("failed".into(), 0.into(), 1.into()), "{network}: {said:?}");
    }
    hostile.write("src/lib.rs", FAILING);
    let said = hostile.proctor(&["run", "--output", "json", "--network", "host"]);
    assert_eq!(told(&said), ("failed".into(), 0.into(), 1.into()), "{said:?}");
}

/// Files in which tools look for settings, as a shell of the run names them.
const SETTINGS: &str = r#"
"$CARGO_HOME/config.toml" "$CARGO_HOME/config" "$CARGO_HOME/credentials.toml"
"$GRADLE_USER_HOME/init.d/a.gradle" "$GRADLE_USER_HOME/init.gradle" "$GRADLE_USER_HOME/gradle.properties"
"$USER_HOME/.m2/settings.xml" "$USER_HOME/.m2/toolchains.xml" "$USER_HOME/.m2/extensions.xml"
"$HOME/.config/go/env" "$HOME/.npmrc" "$HOME/.yarnrc" "$HOME/.yarnrc.yml" "$HOME/.config/pip/pip.conf"
"$HOME/.pip/pip.conf" "$HOME/.config/uv/uv.toml" "$HOME/.mavenrc" "$HOME/.gitconfig""#;

#[test]
fn settings_that_a_run_leaves_are_gone_in_the_next() {
    let place = TestWorkspace::empty();
    let with = |each: &str| {
        let home = "USER_HOME=$(echo \"$MAVEN_OPTS\" | sed 's/.*-Duser.home=\\([^ ]*\\).*/\\1/')";
        let files = SETTINGS.replace('\n', " ");
        let script = format!("{home}; for file in {files}; do {each}; done");
        place.proctor(&["run", "--network", "host", "--output", "json", "--", "sh", "-c", &script])
    };
    let said = with("mkdir -p \"${file%/*}\" && echo planted > \"$file\" || exit 1");
    assert_eq!(said.status, 0, "{said:?}");
    let said = with("if [ -e \"$file\" ]; then echo \"$file\"; fi");
    assert_eq!(said.json()["stdout_tail"], "", "{said:?}");
}

/// Says which marks it finds, and then leaves one called `$1` wherever it can write: in what is not mounted read-only.
const MARK: &str = r#"
open=$(awk '$6 ~ /^rw/ && $5 !~ /^\/(proc|dev|sys)/ {print $5}' /proc/self/mountinfo)
find $open "${GOCACHE%/*/*}" -name 'proctor-mark-*' 2>/dev/null
find $open -type d -writable 2>/dev/null | while read -r dir; do echo x > "$dir/proctor-mark-$1"; done
exit 0
"#;

#[test]
fn what_one_workspaces_run_can_write_no_other_workspace_sees() {
    let (one, other) = (TestWorkspace::empty(), TestWorkspace::empty());
    let mark = |place: &TestWorkspace, name: &str, more: &[&str]| {
        let arguments = [&["run", "--output", "json"], more, &["--", "sh", "-c", MARK, "sh", name]].concat();
        let said = place.proctor(&arguments);
        assert_eq!(said.status, 0, "{said:?}");
        said.json()["stdout_tail"].as_str().unwrap().to_owned()
    };
    let of_one = "proctor-mark-one";
    assert!(!mark(&one, "one", &[]).contains("proctor-mark-"));
    assert!(!mark(&other, "other", &[]).contains(of_one));
    assert!(!mark(&other, "other", &["--network", "host"]).contains(of_one));
    let caches = cache_home().to_str().unwrap().to_owned();
    let again = mark(&one, "one", &[]);
    assert!(again.contains(&caches) && again.contains(of_one), "the caches of a workspace are kept: {again}");
    let empty = mark(&one, "one", &["--fresh"]);
    assert!(!empty.contains(&caches), "empty caches have nothing of it: {empty}");
}

#[test]
fn links_to_gos_library_are_laid_where_a_run_may_start_go() {
    let place = TestWorkspace::empty();
    let test = "import os, unittest\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        \
                self.assertFalse(os.path.lexists(os.environ['GOCACHE'] + '/library'))\n";
    place.write("test_a.py", test);
    assert_eq!(told(&run(&place)), ("passed".into(), 1.into(), 0.into()));
    let said = place.proctor(&["run", "--", "sh", "-c", "test -L \"$GOCACHE/library\""]);
    assert_eq!(said.status, 0, "{said:?}");
}

#[test]
fn empty_caches_are_gone_with_their_run() {
    let place = TestWorkspace::empty();
    let home = place.root().join("cache");
    let mut proctor = place.command("proctor");
    proctor.env("XDG_CACHE_HOME", &home).args([
        "run",
        "--fresh",
        "--",
        "sh",
        "-c",
        "mkdir -p \"$GOCACHE\" && echo x > \"$GOCACHE/a\"",
    ]);
    let said = wait_for_exit(proctor.spawn().unwrap());
    assert_eq!(said.status, 0, "{said:?}");
    assert_eq!(tree(&home.join("proctor/own")).keys().count(), 0);
}

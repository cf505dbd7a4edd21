//! Host files that cannot be used: everything that is wrong is told at once, and nothing is made.

use proctor_tests::place::{Place, give, state_dir};
use proctor_tests::process::{Said, command, end_of, program};
use proctor_tests::supervisor::{Settings, TENANTS, host_file};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

fn check(place: &Place, text: &str) -> Said {
    fs::write(place.root().join("proctor.toml"), text).unwrap();
    let file = place.root().join("proctor.toml");
    let said = place.proctor(&["serve", "--config", file.to_str().unwrap(), "--check"]);
    Said { stderr: said.stderr.replace(file.to_str().unwrap(), "FILE"), ..said }
}

#[test]
fn every_problem_of_a_host_file_is_listed() {
    let place = Place::empty();
    let state = place.root().join("not-made");
    let text = format!(
        "state_dir = {state:?}\n[listen]\ntcp = \"0.0.0.0:7878\"\nunix_mode = \"rw\"\n[host]\n\
         toolchains = [\"opt/jdk\", {state:?}]\n\
         [sandbox]\nrequired_layers = [\"tenant_uid\", \"rlimits\"]\nleft_off = [\"rlimits\"]\n\
         [[tenant]]\nid = \"a b\"\nroots = [\"relative\", \"/no/such/directory\"]\nquota = {{ weight = 1001, queued_runs = 0, running_runs = 0, requests_per_second = 0, subscribers = 0 }}\n\
         [[tenant]]\nid = \"shop\"\nuids = [7]\nroots = []\nsessions_max = 0\nuid_range = {{ first = 60000, count = 9000 }}\n\
         [[tenant]]\nid = \"shop\"\nuids = [7]\ntoken_hashes = [\"beef\"]\nroots = [\"/\"]\nuid_range = {{ first = 7, count = 60000 }}\n"
    );
    let said = check(&place, &text);
    assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{said:?}");
    for problem in [
        "listen.unix_mode: expected octal digits",
        "listen.tcp: 0.0.0.0:7878 is not loopback and not encrypted",
        "tenant \"a b\": quota.weight must be 1 to 1000",
        "tenant \"a b\": quota.queued_runs must be at least 1",
        "tenant \"a b\": quota.running_runs must be at least 1",
        "tenant \"a b\": quota.requests_per_second must be at least 1",
        "tenant \"a b\": quota.subscribers must be at least 1",
        "host.toolchains: opt/jdk is not absolute",
        &format!("host.toolchains: {state} would show {state} to all", state = state.display()),
        "sandbox: layer rlimits is required and left off at once",
        "tenant \"a b\": uid_range is missing: layer tenant_uid is required",
        "tenant \"shop\": uid_range holds 65534, which stands for nobody",
        "tenant \"shop\": uid_range begins at 7, and user ids below 1000 are the system's",
        "tenant \"shop\": uid_range overlaps that of tenant \"shop\"",
        "tenant \"shop\": uid_range holds 7, which is tenant \"shop\"'s",
        "tenant \"a b\": id must be 1 to 64 letters",
        "tenant \"a b\": root relative is not absolute",
        "tenant \"a b\": root /no/such/directory is not a directory",
        "tenant \"a b\": neither uids nor token_hashes",
        "tenant \"shop\": roots is empty",
        "tenant \"shop\": sessions_max must be at least 1",
        "tenant \"shop\": defined twice",
        "tenant \"shop\": shares a uid or token with tenant \"shop\"",
        "tenant \"shop\": \"beef\" is not 64 hexadecimal digits",
    ] {
        let line = format!("proctor: FILE: {problem}");
        assert!(said.stderr.lines().any(|said| said.starts_with(&line)), "{line} in\n{}", said.stderr);
    }
    assert!(!state.exists(), "checking makes nothing");
}

#[test]
fn a_file_that_cannot_be_read_names_line_and_key() {
    let place = Place::empty();
    for (text, wanted) in [
        ("state_dir = \"/x\"\nstate_dri = 1\n[listen]\n", "state_dri"),
        ("state_dir = \"/x\"\n[listen]\nunix = 7\n", "line 3"),
        ("state_dir = \n", "line 1"),
        ("[defaults]\ntimeout = \"-5s\"\n", "-5s"),
    ] {
        let said = check(&place, text);
        assert_eq!(said.status, 2, "{said:?}");
        assert!(
            said.stderr.starts_with("proctor: FILE: ") && said.stderr.contains(wanted),
            "{wanted}: {}",
            said.stderr
        );
    }
    let missing = place.proctor(&["serve", "--config", "nowhere.toml"]);
    assert_eq!(missing.status, 2);
    assert_eq!(missing.stderr, "proctor: nowhere.toml: No such file or directory (os error 2)\n");
}

#[test]
fn a_good_file_is_called_good() {
    let place = Place::empty();
    for tenant in TENANTS {
        fs::create_dir(place.root().join(tenant)).unwrap();
    }
    let said = check(&place, &host_file(place.root(), &Settings::default()));
    assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{said:?}");
    assert!(said.stdout.ends_with(": ok\n"));
}

/// Only root can run tests as another user: an ordinary user who is asked for that refuses to serve at all.
#[test]
fn a_supervisor_that_cannot_be_its_tenants_does_not_start() {
    const NOBODY: u32 = 65_534;
    let place = Place::empty();
    for name in ["proctor", "proctor-worker"] {
        fs::copy(program(name), place.root().join(name)).unwrap();
    }
    let file = place.root().join("proctor.toml");
    let more = "[sandbox]\nrequired_layers = [\"tenant_uid\"]\n";
    for tenant in TENANTS {
        fs::create_dir(place.root().join(tenant)).unwrap();
    }
    let text = host_file(place.root(), &Settings::default()) + more;
    fs::write(&file, text.replace(state_dir().to_str().unwrap(), place.tmp().join("state").to_str().unwrap())).unwrap();
    give(place.root(), NOBODY);
    let mut supervisor = command(&place.root().join("proctor"));
    supervisor.args(["serve", "--config"]).arg(&file).env("NO_COLOR", "1").current_dir("/");
    supervisor.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if nix::unistd::geteuid().is_root() {
        supervisor.uid(NOBODY).gid(NOBODY);
    }
    let said = end_of(supervisor.spawn().unwrap());
    assert_eq!(
        (said.status, said.stderr.as_str()),
        (
            5,
            "proctor: layer tenant_uid is not in force: only root can run tests as another user; start the supervisor as \
             root, or add tenant_uid to sandbox.left_off\n"
        )
    );
    assert!(!place.tmp().join("state").exists(), "nothing was made");
}

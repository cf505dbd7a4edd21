//! Host files that cannot be used: everything that is wrong is told at once, and nothing is made.

use proctor_tests::process::{ProcessOutput, command, program, wait_for_exit};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, TENANTS, host_file};
use proctor_tests::test_workspace::{TestWorkspace, give};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

fn check(place: &TestWorkspace, text: &str) -> ProcessOutput {
    fs::write(place.root().join("proctor.toml"), text).unwrap();
    let file = place.root().join("proctor.toml");
    let said = place.proctor(&["serve", "--config", file.to_str().unwrap(), "--check"]);
    ProcessOutput { stderr: said.stderr.replace(file.to_str().unwrap(), "FILE"), ..said }
}

#[test]
fn every_problem_of_a_host_file_is_listed() {
    let place = TestWorkspace::empty();
    let state = place.root().join("not-made");
    let text = format!(
        "state_dir = {state:?}\n[listen]\ntcp = \"0.0.0.0:7878\"\nunix_mode = \"rw\"\n[host]\n\
         toolchains = [\"opt/jdk\", {state:?}]\n\
         [sandbox]\nrequired_layers = [\"tenant_uid\", \"rlimits\"]\nleft_off = [\"rlimits\"]\n\
         [[tenant]]\nid = \"a b\"\nroots = [\"relative\", \"/no/such/directory\"]\nquota = {{ weight = 1001, queued_runs = 0, running_runs = 0, requests_per_second = 0, subscribers = 0 }}\n\
         [[tenant]]\nid = \"shop\"\nuids = [7]\nroots = []\nsessions_max = 0\nuid_range = {{ first = 60000, count = 9000 }}\n\
         [[tenant]]\nid = \"shop\"\nuids = [7]\ntoken_hashes = [\"beef\"]\nroots = [\"/etc\"]\nuid_range = {{ first = 7, count = 60000 }}\n"
    );
    let said = check(&place, &text);
    assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{said:?}");
    let state = state.display();
    for (line, problem) in [
        (3, "listen.tcp: 0.0.0.0:7878 is not loopback and not encrypted"),
        (4, "listen.unix_mode: expected octal digits"),
        (6, "host.toolchains: opt/jdk is not absolute"),
        (6, &*format!("host.toolchains: {state} would expose {state} to all runs")),
        (9, "sandbox: layer rlimits is both required and left off"),
        (10, "tenant \"a b\": uid_range is missing: layer tenant_uid is required"),
        (
            10,
            "tenant \"a b\": no caller can authenticate as this tenant; set uids, token_hashes, jwt_subjects or cert_names",
        ),
        (11, "tenant \"a b\": id must be 1 to 64 letters"),
        (12, "tenant \"a b\": root relative is not absolute"),
        (13, "tenant \"a b\": quota.weight must be 1 to 1000"),
        (13, "tenant \"a b\": quota.queued_runs must be at least 1"),
        (13, "tenant \"a b\": quota.running_runs must be at least 1"),
        (13, "tenant \"a b\": quota.requests_per_second must be at least 1"),
        (13, "tenant \"a b\": quota.subscribers must be at least 1"),
        (12, "note: tenant \"a b\": root /no/such/directory cannot be read (No such file"),
        (17, "tenant \"shop\": roots is empty"),
        (18, "tenant \"shop\": sessions_max must be at least 1"),
        (19, "tenant \"shop\": uid_range contains 65534, a reserved user id"),
        (25, "tenant \"shop\": uid_range contains 7, a user id of tenant \"shop\""),
        (21, "tenant \"shop\": is defined twice"),
        (22, "tenant \"shop\": uids: 7 also belongs to tenant \"shop\""),
        (23, "tenant \"shop\": entry 1 of token_hashes is not 64 hexadecimal digits"),
        (24, "tenant \"shop\": root /etc is a system directory"),
        (25, "tenant \"shop\": uid_range starts at 7; user ids below 1000 belong to the system"),
        (25, "tenant \"shop\": uid_range overlaps that of tenant \"shop\""),
    ] {
        let line = format!("proctor: FILE:{line}: {problem}");
        assert!(said.stderr.lines().any(|said| said.starts_with(&line)), "{line} in\n{}", said.stderr);
    }
    let lines =
        said.stderr.lines().map(|line| line.split(':').nth(2).and_then(|line| line.parse::<u32>().ok()).unwrap());
    assert!(lines.is_sorted(), "in the order of the file:\n{}", said.stderr);
    // Serving says the same, before anything is bound.
    let file = place.root().join("proctor.toml");
    let served = place.proctor(&["serve", "--config", file.to_str().unwrap()]);
    assert_eq!((served.status, served.stderr.replace(file.to_str().unwrap(), "FILE")), (2, said.stderr));
    assert!(!place.root().join("not-made").exists(), "checking makes nothing");
}

#[test]
fn a_file_that_cannot_be_read_names_line_and_key() {
    let place = TestWorkspace::empty();
    for (text, wanted) in [
        ("state_dir = \"/x\"\nstate_dri = 1\n[listen]\n", "FILE:2: state_dri: unknown field"),
        ("state_dir = \"/x\"\n[listen]\nunix = 7\n", "FILE:3: listen.unix: invalid type"),
        ("state_dir = \n", "FILE:1: "),
        (
            "[defaults]\ntimeout = \"-5s\"\n",
            "FILE:2: defaults.timeout: expected something like 300s or 5m, got \"-5s\"",
        ),
    ] {
        let said = check(&place, text);
        assert_eq!(said.status, 2, "{said:?}");
        let wanted = format!("proctor: {wanted}");
        assert!(said.stderr.lines().any(|line| line.starts_with(&wanted)), "{wanted}: {}", said.stderr);
    }
    let missing = place.proctor(&["serve", "--config", "nowhere.toml"]);
    assert_eq!(missing.status, 2);
    assert_eq!(missing.stderr, "proctor: nowhere.toml: No such file or directory (os error 2)\n");
}

#[test]
fn a_good_file_is_called_good() {
    let place = TestWorkspace::empty();
    for tenant in TENANTS {
        fs::create_dir(place.root().join(tenant)).unwrap();
    }
    let said = check(&place, &host_file(place.root(), &place.root().join("own"), &SupervisorSettings::default()));
    assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{said:?}");
    assert!(said.stdout.ends_with(": ok\n"));
}

#[test]
fn what_cannot_be_had_at_the_start_is_told_with_its_path() {
    let place = TestWorkspace::empty();
    for dir in TENANTS.into_iter().chain(["own", "taken"]) {
        fs::create_dir(place.root().join(dir)).unwrap();
    }
    let at = |name: &str| place.root().join(name).to_str().unwrap().to_owned();
    fs::write(at("taken/tenants"), "").unwrap();
    let running = SupervisorProcess::start();
    let state = running.state();
    let text = host_file(place.root(), Path::new(&at("own")), &SupervisorSettings::default());
    for (text, told) in [
        (text.replace("audit.jsonl", "own"), format!("the audit log {}: Is a directory", at("own"))),
        (
            text.replace(&at("own"), &at("taken")),
            format!("the build cache of tenant \"alpha\": {}: Not a directory", at("taken/tenants")),
        ),
        (
            text.replace(&at("own"), state.to_str().unwrap()),
            format!("{}: another supervisor uses this directory; stop it, or give", state.display()),
        ),
    ] {
        fs::write(at("proctor.toml"), text).unwrap();
        let said = place.proctor(&["serve", "--config", &at("proctor.toml")]);
        let last = said.stderr.lines().last().unwrap_or_default();
        assert!(said.status == 5 && last.starts_with(&format!("proctor: {told}")), "{said:?}");
    }
}

/// SIGHUP looks in the same way: what starts can be read anew.
#[test]
fn a_supervisor_whose_path_leads_into_a_root_does_not_start() {
    let place = TestWorkspace::empty();
    let tools = place.root().join("alpha/tools/bin");
    for tenant in TENANTS {
        fs::create_dir(place.root().join(tenant)).unwrap();
    }
    fs::create_dir_all(&tools).unwrap();
    let file = place.root().join("proctor.toml");
    fs::write(&file, host_file(place.root(), &place.root().join("own"), &SupervisorSettings::default())).unwrap();
    let serve = |more: &[&str]| {
        let mut command = place.command("proctor");
        command.args(["serve", "--config"]).arg(&file).args(more).env("PATH", &tools);
        let said = wait_for_exit(command.spawn().unwrap());
        ProcessOutput { stderr: said.stderr.replace(place.root().to_str().unwrap(), "PLACE"), ..said }
    };
    let told = "tenant \"alpha\": root PLACE/alpha and PLACE/alpha/tools, which all runs read, overlap";
    let (started, checked) = (serve(&[]), serve(&["--check"]));
    assert_eq!(started.status, 2, "{started:?}");
    assert!(started.stderr.contains(&format!(": {told}")), "{started:?}");
    // Whoever checks the file has a PATH of their own.
    assert_eq!(checked.status, 0, "{checked:?}");
    assert!(checked.stderr.contains(&format!(": note: {told}")), "{checked:?}");
}

/// Only root can run tests as another user: an ordinary user who is asked for that refuses to serve at all.
#[test]
fn a_supervisor_that_cannot_be_its_tenants_does_not_start() {
    const NOBODY: u32 = 65_534;
    let place = TestWorkspace::empty();
    // By a process of its own: another test's would inherit the descriptor that writes, and what is open for writing cannot
    // be started.
    let mut copy = command(Path::new("/bin/cp"));
    copy.args(["proctor", "proctor-worker"].map(program)).arg(place.root());
    assert_eq!(wait_for_exit(copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()).status, 0);
    let file = place.root().join("proctor.toml");
    let more = "[sandbox]\nrequired_layers = [\"tenant_uid\"]\n";
    for tenant in TENANTS {
        fs::create_dir(place.root().join(tenant)).unwrap();
    }
    fs::write(&file, host_file(place.root(), &place.tmp().join("state"), &SupervisorSettings::default()) + more)
        .unwrap();
    give(place.root(), NOBODY);
    let mut supervisor = command(&place.root().join("proctor"));
    supervisor.args(["serve", "--config"]).arg(&file).env("NO_COLOR", "1").current_dir("/");
    supervisor.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if nix::unistd::geteuid().is_root() {
        supervisor.uid(NOBODY).gid(NOBODY);
    }
    let said = wait_for_exit(supervisor.spawn().unwrap());
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

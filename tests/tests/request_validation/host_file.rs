//! Invalid host files and hosts: every problem is listed at once, and nothing is created.

use proctor_tests::process::{ProcessOutput, command, program, wait_for_exit};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, TENANTS, host_file};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

fn check(workspace: &TestWorkspace, text: &str) -> ProcessOutput {
    fs::write(workspace.root().join("proctor.toml"), text).unwrap();
    let file = workspace.root().join("proctor.toml");
    let output = workspace.proctor(&["serve", "--config", file.to_str().unwrap(), "--check"]);
    ProcessOutput { stderr: output.stderr.replace(file.to_str().unwrap(), "FILE"), ..output }
}

#[test]
fn lists_every_problem_of_a_host_file() {
    let workspace = TestWorkspace::empty();
    let state = workspace.root().join("not-made");
    let text = format!(
        "state_dir = {state:?}\n[listen]\ntcp = \"0.0.0.0:7878\"\nunix_mode = \"rw\"\n[host]\n\
         toolchains = [\"opt/jdk\", {state:?}]\n\
         [sandbox]\nrequired_layers = [\"tenant_uid\", \"rlimits\"]\nleft_off = [\"rlimits\"]\n\
         [[tenant]]\nid = \"a b\"\nroots = [\"relative\", \"/no/such/directory\"]\nquota = {{ weight = 1001, queued_runs = 0, running_runs = 0, requests_per_second = 0, subscribers = 0 }}\n\
         [[tenant]]\nid = \"shop\"\nuids = [7]\nroots = []\nsessions_max = 0\nuid_range = {{ first = 60000, count = 9000 }}\n\
         [[tenant]]\nid = \"shop\"\nuids = [7]\ntoken_hashes = [\"beef\"]\nroots = [\"/etc\"]\nuid_range = {{ first = 7, count = 60000 }}\n"
    );
    let output = check(&workspace, &text);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
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
        assert!(output.stderr.lines().any(|found| found.starts_with(&line)), "{line} in\n{}", output.stderr);
    }
    let lines =
        output.stderr.lines().map(|line| line.split(':').nth(2).and_then(|line| line.parse::<u32>().ok()).unwrap());
    assert!(lines.is_sorted(), "in the order of the file:\n{}", output.stderr);
    // `serve` without `--check` reports the same problems before it binds anything.
    let file = workspace.root().join("proctor.toml");
    let served = workspace.proctor(&["serve", "--config", file.to_str().unwrap()]);
    assert_eq!((served.status, served.stderr.replace(file.to_str().unwrap(), "FILE")), (2, output.stderr));
    assert!(!workspace.root().join("not-made").exists(), "checking creates nothing");
}

#[test]
fn parse_errors_name_line_and_key() {
    let workspace = TestWorkspace::empty();
    for (text, wanted) in [
        ("state_dir = \"/x\"\nstate_dri = 1\n[listen]\n", "FILE:2: state_dri: unknown field"),
        ("state_dir = \"/x\"\n[listen]\nunix = 7\n", "FILE:3: listen.unix: invalid type"),
        ("state_dir = \n", "FILE:1: "),
        (
            "[defaults]\ntimeout = \"-5s\"\n",
            "FILE:2: defaults.timeout: expected something like 300s or 5m, got \"-5s\"",
        ),
    ] {
        let output = check(&workspace, text);
        assert_eq!(output.status, 2, "{output:?}");
        let wanted = format!("proctor: {wanted}");
        assert!(output.stderr.lines().any(|line| line.starts_with(&wanted)), "{wanted}: {}", output.stderr);
    }
    let missing = workspace.proctor(&["serve", "--config", "nowhere.toml"]);
    assert_eq!(missing.status, 2);
    assert_eq!(missing.stderr, "proctor: nowhere.toml: No such file or directory (os error 2)\n");
}

#[test]
fn accepts_a_valid_host_file() {
    let workspace = TestWorkspace::empty();
    for tenant in TENANTS {
        fs::create_dir(workspace.root().join(tenant)).unwrap();
    }
    let output =
        check(&workspace, &host_file(workspace.root(), &workspace.root().join("own"), &SupervisorSettings::default()));
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
    assert!(output.stdout.ends_with(": ok\n"));
}

#[test]
fn start_errors_name_the_path() {
    let workspace = TestWorkspace::empty();
    for dir in TENANTS.into_iter().chain(["own", "taken"]) {
        fs::create_dir(workspace.root().join(dir)).unwrap();
    }
    let at = |name: &str| workspace.root().join(name).to_str().unwrap().to_owned();
    fs::write(at("taken/tenants"), "").unwrap();
    let running = SupervisorProcess::start();
    let state = running.state_dir();
    let text = host_file(workspace.root(), Path::new(&at("own")), &SupervisorSettings::default());
    for (text, error) in [
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
        let output = workspace.proctor(&["serve", "--config", &at("proctor.toml")]);
        let last = output.stderr.lines().last().unwrap_or_default();
        assert!(output.status == 5 && last.starts_with(&format!("proctor: {error}")), "{output:?}");
    }
}

/// A reload by SIGHUP makes the same check, so that every file that starts can also be reloaded.
#[test]
fn refuses_a_path_entry_inside_a_tenant_root() {
    let workspace = TestWorkspace::empty();
    let tools = workspace.root().join("alpha/tools/bin");
    for tenant in TENANTS {
        fs::create_dir(workspace.root().join(tenant)).unwrap();
    }
    fs::create_dir_all(&tools).unwrap();
    let file = workspace.root().join("proctor.toml");
    fs::write(&file, host_file(workspace.root(), &workspace.root().join("own"), &SupervisorSettings::default()))
        .unwrap();
    let serve = |more: &[&str]| {
        let mut command = workspace.command("proctor");
        command.args(["serve", "--config"]).arg(&file).args(more).env("PATH", &tools);
        let output = wait_for_exit(command.spawn().unwrap());
        ProcessOutput { stderr: output.stderr.replace(workspace.root().to_str().unwrap(), "PLACE"), ..output }
    };
    let error = "tenant \"alpha\": root PLACE/alpha and PLACE/alpha/tools, which all runs read, overlap";
    let (started, checked) = (serve(&[]), serve(&["--check"]));
    assert_eq!(started.status, 2, "{started:?}");
    assert!(started.stderr.contains(&format!(": {error}")), "{started:?}");
    // `--check` runs with the PATH of the person who checks, so it is only a note there.
    assert_eq!(checked.status, 0, "{checked:?}");
    assert!(checked.stderr.contains(&format!(": note: {error}")), "{checked:?}");
}

/// Only root can run tests as another user, so an ordinary user's supervisor refuses a host file that requires it.
#[test]
fn refuses_to_start_without_privilege_for_tenant_uids() {
    const NOBODY: u32 = 65_534;
    let workspace = TestWorkspace::empty();
    // Copied by another process: a test that forks meanwhile would inherit a descriptor open for writing, and a file open
    // for writing cannot be executed.
    let mut copy = command(Path::new("/bin/cp"));
    copy.args(["proctor", "proctor-worker"].map(program)).arg(workspace.root());
    assert_eq!(wait_for_exit(copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()).status, 0);
    let file = workspace.root().join("proctor.toml");
    let more = "[sandbox]\nrequired_layers = [\"tenant_uid\"]\n";
    for tenant in TENANTS {
        fs::create_dir(workspace.root().join(tenant)).unwrap();
    }
    fs::write(
        &file,
        host_file(workspace.root(), &workspace.tmp().join("state"), &SupervisorSettings::default()) + more,
    )
    .unwrap();
    chown_tree(workspace.root(), NOBODY);
    let mut supervisor = command(&workspace.root().join("proctor"));
    supervisor.args(["serve", "--config"]).arg(&file).env("NO_COLOR", "1").current_dir("/");
    supervisor.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if nix::unistd::geteuid().is_root() {
        supervisor.uid(NOBODY).gid(NOBODY);
    }
    let output = wait_for_exit(supervisor.spawn().unwrap());
    assert_eq!(
        (output.status, output.stderr.as_str()),
        (
            5,
            "proctor: layer tenant_uid is not in force: only root can run tests as another user; start the supervisor as \
             root, or add tenant_uid to sandbox.left_off\n"
        )
    );
    assert!(!workspace.tmp().join("state").exists(), "nothing was created");
}

//! The history of runs: what the command line and gRPC say of earlier runs, across clones, restarts and tenants, and what
//! is left of it after SIGKILL.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

use nix::sys::signal::Signal;
use proctor_proto::v1;
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{command, program, search_path, signal, wait_for_exit, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, TENANTS, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// A repository of which clones have the same origin.
const GIT_CONFIG: &str = "[remote \"origin\"]\n\turl = https://example.com/team/shop.git\n";

fn test_file(a: bool, b: bool) -> String {
    let word = |holds| if holds { "True" } else { "False" };
    format!("def test_a():\n    assert {}\n\ndef test_b():\n    assert {}\n", word(a), word(b))
}

fn pytest_workspace() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_shop.py", &test_file(true, true));
    workspace
}

#[test]
fn a_run_says_what_changed_and_the_command_lists_the_runs() {
    let workspace = pytest_workspace();
    assert_eq!(
        workspace.proctor(&["history"]).stdout,
        "no recorded run of this workspace: `proctor run` records each\n"
    );
    let first = workspace.proctor(&["run"]);
    assert_eq!((first.status, first.stdout.contains("since the last run")), (0, false), "{first:?}");
    workspace.write("test_shop.py", &test_file(true, false));
    let broken = workspace.proctor(&["run"]);
    assert!(broken.status == 1 && broken.stdout.contains("\n1 new since the last run\n"), "{broken:?}");
    let again = workspace.proctor(&["run"]);
    let still = "\n1 still failing since the last run\nall tests passed 2 runs ago\n";
    assert!(again.stdout.contains(still), "{again:?}");
    let failures = workspace.proctor(&["failures"]).stdout;
    assert!(
        failures.ends_with("\ncompared with each test's last result: 1 still failing; all passed 2 runs ago\n"),
        "{failures}"
    );
    let analysis = workspace.proctor(&["analyze"]).stdout;
    assert!(
        analysis.contains("\nnote: compared with each test's last result: 1 still failing; all passed 2 runs ago\n"),
        "{analysis}"
    );
    let analysis = workspace.proctor(&["analyze", "--output", "json"]).json();
    let note = "compared with each test's last result: 1 still failing; all passed 2 runs ago";
    assert!(analysis["notes"].as_array().unwrap().contains(&note.into()), "{analysis:#}");
    let report = workspace.proctor(&["report"]).json();
    assert_eq!(report["since_last_run"]["still_failing"]["tests"][0]["name"], "test_b", "{report}");
    assert_eq!(report["since_last_green"]["runs"], 2);
    workspace.write("test_shop.py", &test_file(false, true));
    let fixed = workspace.proctor(&["run", "--test", "test_b"]);
    assert!(fixed.status == 0 && fixed.stdout.contains("1 fixed since the last run\n"), "{fixed:?}");
    let last = workspace.proctor(&["run"]);
    assert!(last.stdout.contains("\n1 new since the last run\n"), "test_b was fixed in the run before: {last:?}");

    let history = workspace.proctor(&["history", "--output", "json"]).json();
    let column = |name: &str| -> Vec<String> {
        history["runs"].as_array().unwrap().iter().map(|run| run[name].to_string()).collect()
    };
    assert_eq!(column("outcome"), ["\"failed\"", "\"passed\"", "\"failed\"", "\"failed\"", "\"passed\""]);
    assert_eq!(column("selection"), ["\"all\"", "\"tests\"", "\"all\"", "\"all\"", "\"all\""]);
    assert_eq!(column("new"), ["1", "0", "0", "1", "null"]);
    assert_eq!((&history["total_runs"], &history["red_streak"]), (&5.into(), &3.into()));
    let table = workspace.proctor(&["history", "--limit", "2"]).stdout;
    assert!(table.starts_with("AGE ") && table.contains("FRAMEWORK") && table.contains("… and 3 earlier"), "{table}");
    assert!(table.contains("all tests passed last") && table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let by_name = workspace.proctor(&["history", "--test", "test_shop.py::test_b", "--output", "json"]).json();
    let results = by_name["trends"][0]["results"].as_array().unwrap();
    let outcomes: Vec<&str> = results.iter().map(|result| result["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["passed", "passed", "failed", "failed", "passed"]);
    let trend = workspace.proctor(&["history", "--test", "test_b"]).stdout;
    assert!(trend.starts_with("test_shop.py/test_b\n") && trend.lines().count() == 6, "{trend}");
}

#[test]
fn clones_share_a_history_and_unrelated_directories_do_not() {
    let workspace = pytest_workspace();
    workspace.write(".git/config", GIT_CONFIG);
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    let total = |dir: &Path| {
        let mut history = workspace.command("proctor");
        history.args(["history", "--output", "json"]).arg(dir).current_dir(workspace.root());
        wait_for_exit(history.spawn().unwrap()).json()["total_runs"].as_u64().unwrap()
    };
    let clone = workspace.root().join("clone");
    fs::create_dir_all(clone.join(".git")).unwrap();
    fs::write(clone.join(".git/config"), GIT_CONFIG.replace("https://example.com/", "git@example.com:")).unwrap();
    let moved = workspace.root().join("moved");
    fs::rename(&workspace.path, &moved).unwrap();
    let unrelated = workspace.root().join("unrelated");
    fs::create_dir(&unrelated).unwrap();
    assert_eq!([total(&clone), total(&moved), total(&unrelated)], [1, 1, 0]);
    let dir = workspace.root().join("state/proctor/history");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("history.sqlite"))), (0o700, 0o600));
}

#[test]
fn a_test_with_both_results_on_equal_files_is_flaky() {
    let workspace = pytest_workspace();
    // The counter is in a directory that is no part of the workspace's files.
    let flaky = "import pathlib\n\n\
        def test_sound():\n    pass\n\n\
        def test_flaky():\n    \
        counter = pathlib.Path('__pycache__/counter')\n    \
        counter.parent.mkdir(exist_ok=True)\n    \
        n = int(counter.read_text()) if counter.exists() else 0\n    \
        counter.write_text(str(n + 1))\n    \
        assert n % 2 == 0\n";
    workspace.write("test_shop.py", flaky);
    for status in [0, 1, 0, 1] {
        let output = workspace.proctor(&["run"]);
        assert_eq!(output.status, status, "{output:?}");
    }
    let history = workspace.proctor(&["history", "--flaky", "--slow", "--output", "json"]).json();
    let flaky = history["flaky"].as_array().unwrap();
    assert_eq!(flaky.len(), 1, "{history}");
    let rate = (&flaky[0]["name"], &flaky[0]["runs"], &flaky[0]["failures"], &flaky[0]["rate"]);
    assert_eq!(rate, (&"test_flaky".into(), &4.into(), &2.into(), &0.5.into()));
    assert_eq!(history["slow"].as_array().unwrap().len(), 0);
    let table = workspace.proctor(&["history", "--flaky"]).stdout;
    assert!(table.contains("2 / 4") && table.contains("50%"), "{table}");
}

#[test]
fn a_damaged_or_newer_database_never_fails_a_run() {
    let workspace = pytest_workspace();
    let dir = workspace.root().join("state/proctor/history");
    fs::create_dir_all(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(dir.join("history.sqlite"), "this is not a database").unwrap();
    let damaged = workspace.proctor(&["run", "--output", "json"]);
    assert_eq!(damaged.status, 0);
    assert!(damaged.stdout.contains("the history of earlier runs was damaged"), "{damaged:?}");
    assert!(dir.join("history.sqlite.damaged").is_file());
    // A reader that closes the database leaves all of it in one file, whose bytes 60 to 63 are its version.
    assert_eq!(workspace.proctor(&["history"]).status, 0);
    let mut bytes = fs::read(dir.join("history.sqlite")).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    for left in ["history.sqlite-wal", "history.sqlite-shm"] {
        _ = fs::remove_file(dir.join(left));
    }
    fs::write(dir.join("history.sqlite"), bytes).unwrap();
    let newer = workspace.proctor(&["run", "--output", "json"]);
    assert_eq!(newer.status, 0);
    let note = "history unavailable: a newer version of proctor wrote it";
    assert!(newer.stdout.contains(note), "{newer:?}");
    let history = workspace.proctor(&["history"]);
    assert_eq!(history.status, 5);
    assert!(history.stderr.contains("a newer version of proctor wrote it"), "{history:?}");
}

async fn history(client: &Client, session: &str) -> v1::HistoryResponse {
    let request =
        v1::HistoryRequest { session_id: session.to_owned(), test: "test_b".to_owned(), ..Default::default() };
    client.results.clone().history(request).await.unwrap().into_inner()
}

fn write_tests(workspace: &Path, tenant: &str, content: &str) {
    fs::write(workspace.join("test_shop.py"), content).unwrap();
    chown_tree(workspace, first_uid(tenant));
}

#[tokio::test]
async fn two_tenants_on_one_repository_see_only_their_own_runs_also_after_a_restart() {
    let mut supervisor = SupervisorProcess::start();
    let mut sessions = Vec::new();
    for tenant in TENANTS {
        let workspace = supervisor.empty_workspace(tenant, "shop");
        fs::write(workspace.join("requirements.txt"), "pytest\n").unwrap();
        fs::create_dir(workspace.join(".git")).unwrap();
        // Another repository for each run of this test, as the state directory is used again.
        let origin = GIT_CONFIG.replace("team", &supervisor.dir().display().to_string());
        fs::write(workspace.join(".git/config"), origin).unwrap();
        write_tests(&workspace, tenant, &test_file(true, true));
        let client = supervisor.client(tenant).await;
        sessions.push((client.open_session(&workspace).await, client, workspace, tenant));
    }
    let [(alpha_session, alpha, alpha_workspace, _), (beta_session, beta, ..)] = sessions.as_slice() else {
        panic!("two tenants")
    };
    let empty = history(alpha, alpha_session).await;
    assert_eq!((empty.runs.len(), empty.total_runs, empty.last_green), (0, 0, None));
    assert_eq!(alpha.run(alpha_session).await.report().since_last_run, None);
    write_tests(alpha_workspace, TENANTS[0], &test_file(true, false));
    let broken = alpha.run(alpha_session).await;
    let since = broken.report().since_last_run.clone().unwrap();
    let new = since.new.unwrap();
    assert_eq!((new.total, new.tests[0].name.as_str(), since.fixed.unwrap().total), (1, "test_b", 0));
    assert_eq!(broken.report().since_last_green.clone().unwrap().failing.unwrap().total, 1);
    let report = beta.run(beta_session).await;
    assert_eq!((&report.report().since_last_run, &report.report().since_last_green), (&None, &None));

    let of_alpha = history(alpha, alpha_session).await;
    let selections: Vec<&str> = of_alpha.runs.iter().map(|run| run.selection.as_str()).collect();
    assert_eq!((selections, of_alpha.red_streak), (vec!["all", "all"], 1));
    let run = &of_alpha.runs[0];
    assert_eq!(
        (run.outcome(), run.new, run.fixed, run.still_failing),
        (v1::Outcome::Failed, Some(1), Some(0), Some(0))
    );
    assert_eq!(of_alpha.last_green.unwrap().runs_after, 1);
    assert_eq!((of_alpha.matches, of_alpha.trends[0].results.len(), of_alpha.trends[0].failure_streak), (1, 2, 1));
    let of_beta = history(beta, beta_session).await;
    assert_eq!((of_beta.total_runs, of_beta.runs[0].outcome()), (1, v1::Outcome::Passed));
    let too_long =
        v1::HistoryRequest { session_id: alpha_session.clone(), test: "x".repeat(9_000), ..Default::default() };
    let refused = alpha.results.clone().history(too_long).await.unwrap_err();
    assert_eq!(refused.message(), "test must have at most 8192 bytes");

    let files =
        [TENANTS[0], TENANTS[1]].map(|tenant| supervisor.state_dir().join("tenants").join(tenant).join("history"));
    for dir in &files {
        assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(dir.join("history.sqlite")).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
    let mut restarted = command(&program("proctor"))
        .args(["serve", "--config"])
        .arg(supervisor.dir().join("proctor.toml"))
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let socket = supervisor.socket();
    wait_until("the supervisor listens again", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let client = supervisor.local_client().await;
    let session = client.open_session(alpha_workspace).await;
    assert_eq!(history(&client, &session).await.total_runs, 2, "alpha's runs, recorded before the restart");
    restarted.kill().unwrap();
    restarted.wait().unwrap();
}

#[test]
fn nothing_that_was_recorded_is_lost_by_sigkill() {
    let dir = tempfile::tempdir().unwrap();
    let load = |runs: &str| {
        let mut load = command(&program("examples/history_load"));
        load.arg(dir.path()).args([runs, "200", "write"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        load.spawn().unwrap()
    };
    let mut recorded = 0;
    for round in 0..8 {
        let mut child = load("100000");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        recorded += lines.by_ref().take(1 + round * 5).count();
        signal(child.id(), Signal::SIGKILL);
        child.wait().unwrap();
        // Lines that were printed before the kill.
        recorded += lines.map_while(Result::ok).filter(|line| line.parse::<u64>().is_ok()).count();
        let after = wait_for_exit(load("0"));
        let found = after.stdout.strip_prefix("integrity: ok, ").and_then(|rest| rest.split_once(" runs, ")).unwrap();
        let runs: usize = found.0.parse().unwrap();
        assert_eq!(found.1, "0 without results\n");
        // At most the run in progress was committed and not printed, in each round.
        assert!((recorded..=recorded + round + 1).contains(&runs), "{runs} of {recorded}");
    }
}

#[test]
fn the_load_of_the_benchmark_records_each_run_and_answers_each_question() {
    let dir = tempfile::tempdir().unwrap();
    let mut load = command(&program("examples/history_load"));
    load.arg(dir.path()).args(["60", "100", "measure"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait_for_exit(load.spawn().unwrap());
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.last(), Some(&"integrity: ok, 60 runs, 0 without results"), "{output:?}");
    for words in ["record: ", "latest 20 runs: ", "one test: ", "flaky tests: ", "slow tests: ", "size: "] {
        let line = lines.iter().find_map(|line| line.strip_prefix(words));
        let figure = line.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        assert!(figure.is_some_and(f64::is_finite), "{words}: {output:?}");
    }
}

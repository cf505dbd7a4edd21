//! Each metric moves with what it measures.

use crate::{documented, run, scrape_until, settings, shell};
use nix::sys::signal::Signal;
use proctor_proto::v1::{self, IfBusy, Outcome};
use proctor_tests::metrics_scrape::{MetricsScrape, metrics_address};
use proctor_tests::process::{descendants, program, signal, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, TENANTS, first_uid};
use proctor_tests::test_workspace::chown_tree;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

const FAILS: &str = "printf 'TAP version 13\\n1..1\\nnot ok 1 - a\\n'; exit 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_has_every_metric_and_calls_and_runs_move_them() {
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings {
        tenant: "[tenant.quota]\nqueued_runs = 1\nrunning_runs = 1".to_owned(),
        ..settings()
    });
    let address = metrics_address(&supervisor);
    let before = MetricsScrape::of(address);
    assert_eq!(before.kinds, documented());
    for name in [
        "proctor_build_info",
        "proctor_uptime_seconds",
        "proctor_host_healthy",
        "proctor_host_budget_memory_bytes",
        "proctor_state_filesystem_size_bytes",
        "proctor_state_filesystem_available_bytes",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_threads",
        "process_start_time_seconds",
    ] {
        assert!(before.sum(name, &[]) > 0.0, "{name}");
    }
    assert_eq!(before.sum("proctor_host_budget_cpus", &[]), 4.0);

    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    assert_eq!(client.run(&session).await.report().outcome(), Outcome::Passed);
    for _ in 0..3 {
        assert_eq!(run(&client, shell(&session, FAILS)).await.report().outcome(), Outcome::Failed);
    }
    let limits = Some(v1::Limits { wall_ms: 200, ..Default::default() });
    let hanging = v1::RunTestsRequest { limits, ..shell(&session, "sleep 1000") };
    assert_eq!(run(&client, hanging).await.report().outcome(), Outcome::TimedOut);
    let linted = supervisor.empty_workspace("alpha", "linted");
    let ruff = linted.join(".venv/bin/ruff");
    fs::create_dir_all(ruff.parent().unwrap()).unwrap();
    for (file, content) in [(&linted.join("a.py"), "import os\n"), (&ruff, "#!/bin/sh\nexit 2\n")] {
        fs::write(file, content).unwrap();
    }
    fs::set_permissions(&ruff, Permissions::from_mode(0o755)).unwrap();
    chown_tree(&linted, first_uid(TENANTS[0]));
    let session_id = client.open_session(&linted).await;
    let checkers = vec!["ruff".to_owned()];
    let check = client.check(v1::RunChecksRequest { session_id, checkers, ..Default::default() }).await.unwrap();
    assert_eq!(check.read_to_end().await.report().outcome(), Outcome::CollectionFailed);
    supervisor.client("stranger").await.sessions.list_sessions(v1::ListSessionsRequest::default()).await.unwrap_err();

    let after = scrape_until(address, "the caches are measured", |now| {
        now.sum("proctor_tenant_cache_bytes", &["tenant=\"alpha\""]) > 0.0
    });
    let moved = |name: &str, labels: &[&str]| after.sum(name, labels) - before.sum(name, labels);
    let alpha = "tenant=\"alpha\"";
    for (name, labels, by) in [
        ("proctor_runs_total", &["framework=\"go\"", "outcome=\"passed\""][..], 1.0),
        ("proctor_runs_total", &["outcome=\"failed\""], 3.0),
        ("proctor_tenant_runs_total", &[alpha, "outcome=\"failed\""], 3.0),
        ("proctor_tenant_runs_total", &["tenant=\"beta\""], 0.0),
        ("proctor_run_kills_total", &["reason=\"deadline\""], 1.0),
        ("proctor_checks_total", &["outcome=\"collection_failed\""], 1.0),
        ("proctor_check_duration_seconds_count", &[], 1.0),
        ("proctor_run_duration_seconds_count", &[], 5.0),
        ("proctor_queue_wait_seconds_count", &[], 5.0),
        ("proctor_worker_setup_seconds_count", &[], 6.0),
        ("proctor_pool_requests_total", &[], 6.0),
        ("proctor_call_duration_seconds_count", &["method=\"Runs/RunTests\"", "code=\"OK\""], 5.0),
        ("proctor_call_duration_seconds_count", &["code=\"UNAUTHENTICATED\""], 1.0),
        ("proctor_sessions", &[alpha], 2.0),
        ("proctor_sessions_failing", &["streak=\"3\""], 1.0),
        ("proctor_sessions_failing", &["streak=\"10\""], 0.0),
        ("proctor_session_failure_streak_max", &[], 4.0),
    ] {
        assert_eq!(moved(name, labels), by, "{name} {labels:?}");
    }
    for (name, labels) in [
        ("proctor_worker_setup_seconds_count", &["worker=\"cold\""][..]),
        ("proctor_worker_setup_seconds_count", &["worker=\"warm\""]),
        ("proctor_pool_requests_total", &["result=\"hit\""]),
        ("proctor_pool_requests_total", &["result=\"miss\""]),
        ("proctor_workspace_scans_total", &[]),
        ("proctor_session_since_green_max_seconds", &[]),
        ("proctor_tenant_kept_bytes", &[alpha]),
        ("proctor_tenant_kept_memory_bytes", &[alpha]),
        ("proctor_tenant_history_bytes", &[alpha]),
        ("process_cpu_seconds_total", &[]),
    ] {
        assert!(moved(name, labels) > 0.0, "{name} {labels:?}");
    }

    assert_eq!(client.run(&session).await.report().outcome(), Outcome::Passed);
    scrape_until(address, "the row of failures has ended", |now| {
        now.sum("proctor_sessions_failing", &[]) + now.sum("proctor_session_failure_streak_max", &[]) == 0.0
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_the_budget_streams_lost_workers_and_the_drain_move_theirs() {
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings {
        tenant: "[tenant.quota]\nqueued_runs = 1\nrunning_runs = 1".to_owned(),
        ..settings()
    });
    let address = metrics_address(&supervisor);
    let client = supervisor.client("alpha").await;
    let paused = supervisor.paused_test("alpha", "waits");
    let session_id = client.open_session(&paused.workspace).await;
    let request = v1::RunTestsRequest { session_id, ..Default::default() };
    let mut active = client.start(request.clone()).await.unwrap();
    active.wait_for_test("TestWaits").await;
    let other = client.open_session(&supervisor.empty_workspace("alpha", "other")).await;
    let waiting = client.start(shell(&other, FAILS)).await.unwrap();
    let another = v1::RunTestsRequest { if_busy: IfBusy::Queue.into(), ..shell(&other, "exit 3") };
    client.start(another).await.err().unwrap();
    let busy = scrape_until(address, "a run waits", |now| now.sum("proctor_queue_depth", &[]) == 1.0);
    for (name, labels, value) in [
        ("proctor_runs_active", &[][..], 1.0),
        ("proctor_tenant_queued_runs", &["tenant=\"alpha\""], 1.0),
        ("proctor_event_streams", &["tenant=\"alpha\""], 2.0),
        ("proctor_host_budget_cpus_used", &[], 2.0),
        ("proctor_quota_refusals_total", &["quota=\"queued_runs\""], 1.0),
        ("proctor_draining", &[], 0.0),
    ] {
        assert_eq!(busy.sum(name, labels), value, "{name} {labels:?}");
    }
    let used = busy.sum("proctor_host_budget_memory_used_bytes", &[]);
    assert!(used > 0.0 && used <= busy.sum("proctor_host_budget_memory_bytes", &[]), "{used}");

    let processes = descendants(supervisor.pid());
    let workers = processes.iter().filter(|process| process.command_line.contains("proctor-worker"));
    workers.for_each(|worker| signal(worker.pid, Signal::SIGKILL));
    assert_eq!(active.read_to_end().await.report().outcome(), Outcome::WorkerLost);
    assert_eq!(waiting.read_to_end().await.report().outcome(), Outcome::Failed);
    let lost = scrape_until(address, "a worker was lost", |now| now.sum("proctor_workers_lost_total", &[]) == 1.0);
    assert_eq!(lost.sum("proctor_runs_total", &["outcome=\"worker_lost\""]), 1.0);

    fs::remove_file(paused.workspace.join(".cache/here")).unwrap();
    let last = client.start(request).await.unwrap();
    paused.wait_until_paused();
    signal(supervisor.pid(), Signal::SIGTERM);
    scrape_until(address, "the supervisor drains", |now| now.sum("proctor_draining", &[]) == 1.0);
    paused.resume();
    assert_eq!(last.read_to_end().await.report().outcome(), Outcome::Passed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_without_workers_is_not_healthy_and_its_runs_do_not_start() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let (worker, broken) = (dir.path().join("worker"), dir.path().join("broken"));
    let (path, real) = (broken.display(), program("proctor-worker"));
    fs::write(&worker, format!("#!/bin/sh\n[ -e {path} ] && exit 9\nexec {} \"$@\"\n", real.display())).unwrap();
    fs::set_permissions(&worker, Permissions::from_mode(0o755)).unwrap();
    let env = vec![("PROCTOR_WORKER".to_owned(), worker.into())];
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings { env, ..settings() });
    let address = metrics_address(&supervisor);
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    fs::write(&broken, "").unwrap();
    for _ in 0..3 {
        if let Ok(run) = client.start(shell(&session, FAILS)).await {
            run.try_read_to_end().await.err().unwrap();
        }
    }
    let sick = scrape_until(address, "the host is in trouble", |now| now.sum("proctor_host_healthy", &[]) == 0.0);
    assert!(sick.sum("proctor_runs_not_started_total", &[]) > 0.0);
    assert_eq!(sick.sum("proctor_runs_total", &[]), 0.0);
    fs::remove_file(&broken).unwrap();
    wait_until("the host has recovered", || MetricsScrape::of(address).sum("proctor_host_healthy", &[]) == 1.0);
}

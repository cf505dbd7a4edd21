//! Tests of the whole host file, and helpers for the tests of its tables.

use super::{Config, ConfigReader, Machine};
use crate::config::{MetricsTable, TracesTable};
use crate::sessions::limits::SessionLimits;
use crate::telemetry::otlp::metrics::MetricsSettings;
use crate::telemetry::traces::settings::TraceSettings;
use proctor_core::bounds::DRAIN_GRACE;
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::quota::Amount;
use proctor_frameworks::FRAMEWORKS;
use proctor_sandbox::LAYERS;
use std::path::Path;

pub(super) fn parse(text: &str) -> Config {
    ConfigReader::new(text).finish(Path::new("host")).unwrap().0
}

pub(super) fn problems(text: &str) -> String {
    let problems = parse(text).problems();
    problems.into_iter().map(|problem| problem.text).collect::<Vec<_>>().join("\n")
}

/// The problems of a file with two tenants with these `uid_range` lines.
pub(super) fn problems_of(ranges: [&str; 2], more: &str) -> String {
    let text = format!(
        "state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[operators]\nuids = [7000]\n{more}\n\
         [[tenant]]\nid = \"a\"\nuids = [1001]\nroots = [\"/tmp\"]\n{}\n\
         [[tenant]]\nid = \"b\"\nuids = [1002]\nroots = [\"/tmp\"]\n{}\n",
        ranges[0], ranges[1]
    );
    problems(&text)
}

#[test]
fn the_example_file_is_valid() {
    let example = include_str!("../../../deploy/proctor.toml");
    let config = parse(example);
    let problems: Vec<_> = config.problems().into_iter().filter(|problem| !problem.is_note).collect();
    assert_eq!(problems, []);
    assert_eq!(config.defaults.apply_to(Limits::DEFAULT), Limits::DEFAULT, "the example shows the built-in defaults");
    assert_eq!(config.sandbox.required_layers.unwrap(), LAYERS);
    assert_eq!((config.host.session_limits(), config.host.drain()), (SessionLimits::default(), DRAIN_GRACE));
    assert_eq!(config.telemetry.traces.endpoint, None, "traces are off unless an operator names a collector");
    assert_eq!(config.telemetry.metrics.endpoint, None, "so are metrics");
    let telemetry = parse(&example.replace("# endpoint = ", "endpoint = ")).telemetry;
    let (with_collector, of_metrics) = (telemetry.traces, telemetry.metrics);
    assert_eq!(with_collector.endpoint.as_deref(), Some("http://127.0.0.1:4317"));
    let settings = MetricsSettings::resolve(&of_metrics, |_| None).unwrap();
    let by_default =
        MetricsSettings::resolve(&MetricsTable { endpoint: of_metrics.endpoint, ..Default::default() }, |_| None);
    assert_eq!(settings, by_default.unwrap(), "the example shows the built-in defaults");
    let settings = TraceSettings::resolve(&with_collector, |_| None).unwrap();
    let by_default =
        TraceSettings::resolve(&TracesTable { endpoint: with_collector.endpoint, ..Default::default() }, |_| None);
    assert_eq!(settings, by_default.unwrap(), "the example shows the built-in defaults");
    let of = |name: &str| config.timeouts.get(name).map(|timeout| timeout.ms);
    assert!(FRAMEWORKS.iter().all(|framework| of(framework.name()) == framework.manifest().default_wall_ms));
}

#[test]
fn state_dir_must_be_a_directory_or_missing() {
    let dir = tempfile::tempdir().unwrap();
    let expected =
        |name: &str| problems(&format!("state_dir = {:?}\n[listen]\nunix = \"/s\"\n", dir.path().join(name)));
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert!(expected("file").contains("state_dir: is not a directory"), "{}", expected("file"));
    assert!(!expected("new/one").contains("state_dir") && !expected("").contains("state_dir"));
}

#[test]
fn reports_every_problem_at_once() {
    let text = r#"
        state_dir = "relative"
        [listen]
        tcp = "0.0.0.0:7878"
        [[tenant]]
        id = "a b"
        roots = []
        [[tenant]]
        id = "ok"
        uids = [1]
        roots = ["/tmp"]
        [[tenant]]
        id = "ok"
        uids = [1]
        roots = ["/tmp"]
        token_hashes = ["beef", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"]
        max = { pids = 1, timeout = "10h" }
        [max]
        disk = "4KiB"
        [timeouts]
        cargo = "2h"
        gotest = "1m"
    "#;
    let problems = problems(text);
    for expected in [
        "not loopback",
        "state_dir",
        "id must be",
        "roots is empty",
        "no caller can authenticate",
        "is defined twice",
        "uids: 1 also belongs to tenant \"ok\"",
        "64 hexadecimal",
        "empty token",
        "pids must be at least",
        "disk must be at least",
        "timeout must be at most",
        "timeouts.cargo: must be at most 1800s",
        "timeouts.gotest: no such framework; known are go, ",
    ] {
        assert!(problems.contains(expected), "{expected} in:\n{problems}");
    }
}

/// Every value that is cut is reported, as a note.
#[test]
fn reports_limits_above_the_maximum() {
    let notes = |text: &str| {
        let host = "[listen]\nunix = \"/s\"\n[host]\nmemory = \"14GiB\"\ncpus = 8";
        let problems = parse(&format!("state_dir = \"/x\"\n{host}\n{text}")).problems();
        let notes = problems.into_iter().filter(|problem| problem.is_note);
        notes.map(|note| format!("{} {}", note.at, note.text)).collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("[defaults]\nkill_grace = \"60s\"\nlog = \"1GiB\"\nmemory = \"14GiB\"\ndisk = \"100GiB\"", &[][..]),
        (
            "[defaults]\nmemory = \"15GiB\"\npids = 32769\n[[tenant]]\nid = \"a\"\nmax = { cpus = 9, disk = \"1TiB\" }",
            &[
                "defaults.memory defaults: memory 15 GiB exceeds [max]: runs get 14 GiB",
                "defaults.pids defaults: pids 32769 processes exceeds [max]: runs get 32768 processes",
                "tenant.0.max.cpus tenant \"a\": max: cpus 9 processors exceeds [max]: runs get 8 processors",
                "tenant.0.max.disk tenant \"a\": max: disk 1 TiB exceeds [max]: runs get 100 GiB",
            ],
        ),
        ("[defaults]\nmemory = \"1TiB\"\n[max]\nmemory = \"1TiB\"", &[]),
        (
            "[defaults]\nkill_grace = \"2m\"\nlog = \"2GiB\"",
            &[
                "defaults.kill_grace defaults: kill_grace 120 s exceeds [max]: runs get 60 s",
                "defaults.log defaults: log 2 GiB exceeds [max]: runs get 1 GiB",
            ],
        ),
        ("[defaults]\nkill_grace = \"2m\"\n[max]\nkill_grace = \"2m\"", &[]),
        (
            "[defaults]\nmemory = \"2GiB\"\ncpus = 2\n[max]\nmemory = \"1GiB\"\ncpus = 0.5\npids = 100",
            &[
                "defaults.memory defaults: memory 2 GiB exceeds [max]: runs get 1 GiB",
                "defaults.cpus defaults: cpus 2 processors exceeds [max]: runs get 0.5 processors",
            ],
        ),
        (
            "[timeouts]\ncargo = \"900s\"\nmaven = \"60s\"\n[max]\ntimeout = \"300s\"",
            &["timeouts.cargo timeouts.cargo: 900 s exceeds [max]: runs get 300 s"],
        ),
        (
            "[max]\ndisk = \"1GiB\"\n[[tenant]]\nid = \"a\"\nmax = { disk = \"2GiB\" }",
            &["tenant.0.max.disk tenant \"a\": max: disk 2 GiB exceeds [max]: runs get 1 GiB"],
        ),
        ("[defaults]\ntimeout = \"2h\"", &[]),
    ] {
        assert_eq!(notes(text), expected, "{text}");
    }
}

/// Otherwise a request could be promised what the kernel alone would refuse.
#[test]
fn a_host_file_without_max_gives_no_run_more_than_the_host_has() {
    let ceiling = |text: &str| {
        let config = parse(&format!("state_dir = \"/x\"\n[[tenant]]\nid = \"a\"\n{text}"));
        config.ceiling(&config.tenant[0])
    };
    let all = LimitRequest {
        memory_bytes: Some(u64::MAX),
        cpu_millis: Some(u32::MAX),
        pids: Some(u32::MAX),
        wall_ms: Some(u64::MAX),
        disk_bytes: Some(u64::MAX),
    };
    let (limits, clamped) = Limits::resolve(&all, Limits::DEFAULT, ceiling("[host]\nmemory = \"14GiB\"\ncpus = 3"));
    let bytes = (limits.memory_bytes_max, limits.disk_bytes_max);
    assert_eq!((bytes, limits.cpu_millis_max, limits.pids_max), ((14 << 30, 100 << 30), 3_000, 32_768));
    assert_eq!(clamped.len(), 5, "each clamp is reported: {clamped:?}");
    assert!(clamped.iter().any(|expected| expected.ends_with("to 14 GiB, the ceiling here")), "{clamped:?}");
    // Without settings for the host, the machine's resources apply.
    let machine = Machine::current().budget();
    assert_eq!(Amount::from_limits(&ceiling("")), machine);
    // Explicit values apply even if they are higher.
    let limits =
        ceiling("quota = { memory = \"1GiB\" }\n[host]\nmemory = \"4GiB\"\n[max]\nmemory = \"8GiB\"\npids = 40000");
    assert_eq!((limits.memory_bytes_max, limits.pids_max), (1 << 30, 40_000));
    let limits = ceiling("[host]\nmemory = \"4GiB\"\n[max]\nmemory = \"8GiB\"");
    assert_eq!(limits.memory_bytes_max, 8 << 30);
    // The defaults of a run are unaffected.
    let roomy = ceiling("[host]\nmemory = \"2GiB\"\ncpus = 2");
    assert_eq!(Limits::DEFAULT.min(roomy), Limits::DEFAULT);
}

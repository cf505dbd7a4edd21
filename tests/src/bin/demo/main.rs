//! `make demo`: starts `proctor serve`, opens a session per sample workspace over gRPC, runs its tests in the sandbox, shows
//! the failures, and checks that nothing is left. Exits with 1 when a result differs from the expected one.

#![expect(clippy::disallowed_macros, reason = "an internal program that prints to a terminal")]

mod cases;
mod client;
mod demo_supervisor;
mod leftovers;
mod output;

use crate::cases::{AFTER_REPAIR, CASES, COVERED, COVERED_LINE, COVERING_PACKAGES, DemoCase, ENDLESS};
use crate::cases::{ActualRun, ExpectedRun, REPAIRED, REPAIRS};
use crate::client::{Client, follow};
use crate::demo_supervisor::{ExtraKeys, Supervisor};
use anyhow::{Context as _, Result, ensure};
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Outcome, Report, RunEvent};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tempfile::TempDir;
use tonic::Streaming;

/// Variable with a directory that outlives the demo, for the build cache. The Makefile sets it.
const TOOLS: &str = "PROCTOR_TOOLS";

fn main() -> ExitCode {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = runtime.context("starting the runtime").and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                result = demo() => result,
                _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
            }
        })
    });
    let took = started.elapsed().as_secs_f64();
    match result {
        Ok(0) => {
            anstream::println!("\n\x1b[32mEverything as expected\x1b[0m, in {took:.1} s.");
            ExitCode::SUCCESS
        }
        Ok(differences) => {
            anstream::println!("\n\x1b[31m{differences} thing(s) not as expected\x1b[0m, in {took:.1} s.");
            ExitCode::FAILURE
        }
        Err(error) => {
            anstream::eprintln!("\n\x1b[31mdemo:\x1b[0m {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Directories of the demo.
struct DemoDirs {
    /// Socket, host file and log; removed at the end.
    dir: TempDir,
    /// Copies of the fixtures.
    workspaces: PathBuf,
    /// State directory of the supervisor with its caches.
    state: PathBuf,
}

/// Runs the demo and returns the number of unexpected results.
async fn demo() -> Result<usize> {
    leftovers::adopt_orphans()?;
    let dirs = DemoDirs::create()?;
    let mounts = leftovers::mounts()?;
    output::heading("proctor demo", "every workspace below is a copy; every test runs in a sandbox of its own");
    if !dirs.state.exists() {
        output::line("first time", "Go builds its standard library during the first run, which takes half a minute");
    }
    // The stop below waits for a test that never ends, so a long drain would be wasted.
    let extra = ExtraKeys { host: "drain = \"1s\"", ..ExtraKeys::default() };
    let (supervisor, channel) = Supervisor::start(dirs.dir.path(), &dirs.state, &dirs.workspaces, extra).await?;
    output::line("supervisor", &format!("`proctor serve` as process {}, on a unix socket", supervisor.pid()));
    let files = leftovers::files(dirs.dir.path())?;
    let mut demo = Demo { client: Client::new(channel), dirs, differences: 0, shown_isolation: false };
    for case in &CASES {
        demo.show(case).await.with_context(|| format!("fixture {}", case.fixture))?;
    }
    demo.stop(supervisor, &mounts, files).await?;
    Ok(demo.differences)
}

impl DemoDirs {
    fn create() -> Result<DemoDirs> {
        let dir = tempfile::Builder::new().prefix("proctor-demo-").tempdir().context("making a directory")?;
        let workspaces = dir.path().join("workspaces");
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/go");
        for case in &CASES {
            copy(&fixtures.join(case.fixture), &workspaces.join(case.fixture))?;
        }
        let tools = std::env::var_os(TOOLS).map(PathBuf::from).filter(|tools| tools.is_absolute());
        let state = tools.map_or_else(|| dir.path().join("state"), |tools| tools.join("demo"));
        Ok(DemoDirs { dir, workspaces, state })
    }

    fn keeps_state(&self) -> bool {
        !self.state.starts_with(self.dir.path())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).with_context(|| format!("writing {}", to.display()))?;
        }
    }
    Ok(())
}

struct Demo {
    client: Client,
    dirs: DemoDirs,
    differences: usize,
    shown_isolation: bool,
}

impl Demo {
    async fn show(&mut self, case: &DemoCase) -> Result<()> {
        output::heading(case.fixture, case.about);
        let session = self.client.open_session(&self.dirs.workspaces.join(case.fixture)).await?;
        let stream = self.client.run_tests(&session, case.limits).await?;
        self.run(&session, stream, &case.expected).await?;
        match case.fixture {
            COVERED => self.covering(&session).await,
            REPAIRED => self.repair(&session).await,
            _ => Ok(()),
        }
    }

    /// Reads a run's events to the end and shows its result.
    async fn run(&mut self, session: &str, stream: Streaming<RunEvent>, expected: &ExpectedRun) -> Result<()> {
        let report = follow(stream, output::progress).await?;
        output::report(&report);
        if !self.shown_isolation {
            self.shown_isolation = true;
            let isolation = report.isolation.as_ref().context("a report without isolation")?;
            output::isolation(isolation, &report.limits.unwrap_or_default());
        }
        let answer = self.client.failures(session).await?;
        if !answer.failures.is_empty() {
            output::block(&format!("\n{}", text::failures(&answer, Reader::Person)));
        }
        let failures = answer.failures.into_iter().map(|failure| failure.nodeid).collect();
        self.compare(expected, &report, failures);
        Ok(())
    }

    fn compare(&mut self, expected: &ExpectedRun, report: &Report, failures: BTreeSet<String>) {
        let running = report.evidence.iter().flat_map(|evidence| &evidence.running);
        let running = running.map(|test| format!("{}/{}", test.package, test.name)).collect();
        let summary = report.summary.unwrap_or_default();
        let actual = ActualRun { outcome: report.outcome(), summary, failures, running };
        let differences = expected.differences(&actual);
        for difference in &differences {
            self.record(false, difference);
        }
        if differences.is_empty() {
            output::finding(true, "as expected");
        }
    }

    fn record(&mut self, good: bool, text: &str) {
        output::finding(good, text);
        self.differences += usize::from(!good);
    }

    async fn covering(&mut self, session: &str) -> Result<()> {
        let (file, line) = COVERED_LINE;
        let answer = self.client.covering(session, file, line).await?;
        output::line("covering", &format!("which tests execute {file}:{line}?"));
        output::block(&text::covering(&answer, file, Reader::Person));
        let packages: BTreeSet<&str> = answer.tests.iter().map(|test| test.package.as_str()).collect();
        let good = packages == BTreeSet::from(COVERING_PACKAGES);
        self.record(good, &format!("tests of {} packages cover it", packages.len()));
        Ok(())
    }

    /// Repairs two of the failures in the copy and runs the failed tests again.
    async fn repair(&mut self, session: &str) -> Result<()> {
        output::heading(REPAIRED, "the source is repaired; only the failed tests run again");
        for (file, wrong, right) in REPAIRS {
            let path = self.dirs.workspaces.join(REPAIRED).join(file);
            let source = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            ensure!(source.contains(wrong), "{file} of fixture {REPAIRED} no longer contains {wrong:?}");
            fs::write(&path, source.replace(wrong, right)).with_context(|| format!("writing {}", path.display()))?;
        }
        let stream = self.client.run_failing_tests(session).await?;
        self.run(session, stream, &AFTER_REPAIR).await
    }

    /// Stops the supervisor while a test that never ends is running, and checks what is left.
    async fn stop(
        &mut self,
        supervisor: Supervisor,
        mounts: &BTreeSet<String>,
        files: BTreeSet<PathBuf>,
    ) -> Result<()> {
        output::heading("stop", "SIGTERM to the supervisor while a test that never ends is running");
        let session = self.client.open_session(&self.dirs.workspaces.join(ENDLESS)).await?;
        let mut stream = self.client.run_tests(&session, proctor_proto::v1::Limits::default()).await?;
        let running = CASES.iter().find(|case| case.fixture == ENDLESS).map_or(&[][..], |case| case.expected.running);
        while let Some(event) = stream.message().await? {
            if let Some(Event::TestStarted(started)) = &event.event
                && started
                    .test
                    .as_ref()
                    .is_some_and(|test| running.contains(&&*format!("{}/{}", test.package, test.name)))
            {
                break;
            }
        }
        let pid = supervisor.pid();
        // The checks below expect that no cgroup is left, so there must be some now.
        let groups = leftovers::groups(pid).len();
        self.record(groups > 0, &format!("during the run the supervisor has {groups} cgroup directories"));
        let started = Instant::now();
        let stopping = tokio::spawn(supervisor.stop());
        let report = follow(stream, |_| {}).await?;
        let outcome = report.outcome();
        self.record(outcome == Outcome::Cancelled, &format!("the run's report says {}", text::outcome_name(outcome)));
        let status = stopping.await??;
        let took = started.elapsed().as_secs_f64();
        self.record(status.success(), &format!("the supervisor ended after {took:.2} s: {status}"));
        self.check_leftovers(pid, mounts, files)
    }

    fn check_leftovers(&mut self, pid: u32, mounts: &BTreeSet<String>, before: BTreeSet<PathBuf>) -> Result<()> {
        let left = |kind: &str, names: Vec<String>| match names.as_slice() {
            [] => (true, format!("no {kind} is left")),
            names => (false, format!("{kind} left: {}", names.join(", "))),
        };
        let shown = |paths: Vec<PathBuf>| paths.iter().map(|path| path.display().to_string()).collect();
        // Descendants that lost their parent have become children of this process.
        let processes =
            if leftovers::processes()? { vec!["a descendant of the supervisor".to_owned()] } else { vec![] };
        let files = leftovers::files(self.dirs.dir.path())?;
        let state = &self.dirs.state;
        let new = files.difference(&before).filter(|path| !path.starts_with(state)).cloned().collect();
        let gone = before.difference(&files).filter(|path| !path.ends_with("proctor.sock")).cloned().collect();
        let socket = files.iter().filter(|path| path.ends_with("proctor.sock")).cloned().collect();
        for (good, text) in [
            left("process", processes),
            left("cgroup directory", shown(leftovers::groups(pid))),
            left("mount", leftovers::mounts()?.difference(mounts).cloned().collect()),
            left("socket", shown(socket)),
            left("file", shown(new)),
        ] {
            self.record(good, &text);
        }
        let gone: Vec<PathBuf> = gone;
        if !gone.is_empty() {
            self.record(false, &format!("files are gone from the workspaces: {gone:?}"));
        }
        if self.dirs.keeps_state() {
            output::line("kept", "Go's build cache, so that the next time takes seconds (`make clean` removes it)");
        }
        Ok(())
    }
}

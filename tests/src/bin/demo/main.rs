//! The main job, for real: starts `proctor serve`, opens a session for each sample workspace over gRPC, runs its tests in the
//! sandbox, shows what broke, and proves that nothing is left. Exits with 1 when anything differs from what it expects.
//! Must not know the supervisor otherwise than through its contract.

#![expect(clippy::disallowed_macros, reason = "a program of ours that nobody depends on")]

mod cases;
mod client;
mod demo_supervisor;
mod leftovers;
mod output;

use crate::cases::{AFTER_MENDING, CASES, COVERED, COVERED_LINE, COVERING_PACKAGES, Case, ENDLESS};
use crate::cases::{Expected, Found, MENDED, MENDING};
use crate::client::{Client, follow};
use crate::demo_supervisor::{More, Supervisor};
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

/// Directory that outlives the demo, for the build cache; the Makefile sets it.
const TOOLS: &str = "PROCTOR_TOOLS";

fn main() -> ExitCode {
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = runtime.context("starting the runtime").and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                result = demo() => result,
                _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
            }
        })
    });
    let took = begun.elapsed().as_secs_f64();
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

/// Where the demo takes place.
struct Stage {
    /// Socket, host file, log; gone at the end.
    dir: TempDir,
    /// Copies of the fixtures.
    workspaces: PathBuf,
    /// The supervisor's caches.
    state: PathBuf,
}

/// The number of things that were not as expected.
async fn demo() -> Result<usize> {
    leftovers::adopt_orphans()?;
    let stage = Stage::set()?;
    let mounts = leftovers::mounts()?;
    output::heading("proctor demo", "every workspace below is a copy; every test runs in a sandbox of its own");
    if !stage.state.exists() {
        output::line("first time", "Go builds its standard library during the first run, which takes half a minute");
    }
    // A test that never ends has no use for the time that others have to finish.
    let more = More { host: "drain = \"1s\"", ..More::default() };
    let (supervisor, channel) = Supervisor::start(stage.dir.path(), &stage.state, &stage.workspaces, more).await?;
    output::line("supervisor", &format!("`proctor serve` as process {}, on a unix socket", supervisor.pid()));
    let files = leftovers::files(stage.dir.path())?;
    let mut demo = Demo { client: Client::new(channel), stage, differences: 0, shown_isolation: false };
    for case in &CASES {
        demo.show(case).await.with_context(|| format!("fixture {}", case.fixture))?;
    }
    demo.stop(supervisor, &mounts, files).await?;
    Ok(demo.differences)
}

impl Stage {
    fn set() -> Result<Stage> {
        let dir = tempfile::Builder::new().prefix("proctor-demo-").tempdir().context("making a directory")?;
        let workspaces = dir.path().join("workspaces");
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/go");
        for case in &CASES {
            copy(&fixtures.join(case.fixture), &workspaces.join(case.fixture))?;
        }
        let kept = std::env::var_os(TOOLS).map(PathBuf::from).filter(|tools| tools.is_absolute());
        let state = kept.map_or_else(|| dir.path().join("state"), |tools| tools.join("demo"));
        Ok(Stage { dir, workspaces, state })
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
    stage: Stage,
    differences: usize,
    shown_isolation: bool,
}

impl Demo {
    async fn show(&mut self, case: &Case) -> Result<()> {
        output::heading(case.fixture, case.about);
        let session = self.client.open_session(&self.stage.workspaces.join(case.fixture)).await?;
        let stream = self.client.run_tests(&session, case.limits).await?;
        self.run(&session, stream, &case.expected).await?;
        match case.fixture {
            COVERED => self.covering(&session).await,
            MENDED => self.mend(&session).await,
            _ => Ok(()),
        }
    }

    /// Follows a run to its end and shows what came of it.
    async fn run(&mut self, session: &str, stream: Streaming<RunEvent>, expected: &Expected) -> Result<()> {
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

    fn compare(&mut self, expected: &Expected, report: &Report, failures: BTreeSet<String>) {
        let running = report.evidence.iter().flat_map(|evidence| &evidence.running);
        let running = running.map(|test| format!("{}/{}", test.package, test.name)).collect();
        let summary = report.summary.unwrap_or_default();
        let differences = expected.differences(&Found { outcome: report.outcome(), summary, failures, running });
        for difference in &differences {
            self.find(false, difference);
        }
        if differences.is_empty() {
            output::finding(true, "as expected");
        }
    }

    fn find(&mut self, good: bool, text: &str) {
        output::finding(good, text);
        self.differences += usize::from(!good);
    }

    async fn covering(&mut self, session: &str) -> Result<()> {
        let (file, line) = COVERED_LINE;
        let answer = self.client.covering(session, file, line).await?;
        output::line("covering", &format!("which tests execute {file}:{line}?"));
        output::block(&text::covering(&answer, file, Some(line), Reader::Person));
        let packages: BTreeSet<&str> = answer.tests.iter().map(|test| test.package.as_str()).collect();
        let good = packages == BTreeSet::from(COVERING_PACKAGES);
        self.find(good, &format!("tests of {} packages cover it", packages.len()));
        Ok(())
    }

    /// Repairs two of the failures in the copy and runs again what failed.
    async fn mend(&mut self, session: &str) -> Result<()> {
        output::heading(MENDED, "the source is mended; only what failed runs again");
        for (file, wrong, right) in MENDING {
            let path = self.stage.workspaces.join(MENDED).join(file);
            let source = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            ensure!(source.contains(wrong), "{file} of fixture {MENDED} no longer contains {wrong:?}");
            fs::write(&path, source.replace(wrong, right)).with_context(|| format!("writing {}", path.display()))?;
        }
        let stream = self.client.run_failing_tests(session).await?;
        self.run(session, stream, &AFTER_MENDING).await
    }

    /// Stops the supervisor while a test that never ends is running, and looks for what is left.
    async fn stop(
        &mut self,
        supervisor: Supervisor,
        mounts: &BTreeSet<String>,
        files: BTreeSet<PathBuf>,
    ) -> Result<()> {
        output::heading("stop", "SIGTERM to the supervisor while a test that never ends is running");
        let session = self.client.open_session(&self.stage.workspaces.join(ENDLESS)).await?;
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
        // What is looked for in vain below must be there to be seen now.
        let groups = leftovers::groups(pid).len();
        self.find(groups > 0, &format!("while it runs there are {groups} cgroup directories of the supervisor's"));
        let begun = Instant::now();
        let stopping = tokio::spawn(supervisor.stop());
        let report = follow(stream, |_| {}).await?;
        let outcome = report.outcome();
        self.find(outcome == Outcome::Cancelled, &format!("the run's report says {}", text::outcome_name(outcome)));
        let status = stopping.await??;
        let took = begun.elapsed().as_secs_f64();
        self.find(status.success(), &format!("the supervisor ended after {took:.2} s: {status}"));
        self.look_for_leftovers(pid, mounts, files)
    }

    fn look_for_leftovers(&mut self, pid: u32, mounts: &BTreeSet<String>, before: BTreeSet<PathBuf>) -> Result<()> {
        let left = |kind: &str, names: Vec<String>| match names.as_slice() {
            [] => (true, format!("no {kind} is left")),
            names => (false, format!("{kind} left: {}", names.join(", "))),
        };
        let shown = |paths: Vec<PathBuf>| paths.iter().map(|path| path.display().to_string()).collect();
        // Every descendant that lost its parent has become a child of this process.
        let processes =
            if leftovers::processes()? { vec!["a descendant of the supervisor".to_owned()] } else { vec![] };
        let files = leftovers::files(self.stage.dir.path())?;
        let state = &self.stage.state;
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
            self.find(good, &text);
        }
        let gone: Vec<PathBuf> = gone;
        if !gone.is_empty() {
            self.find(false, &format!("files are gone from the workspaces: {gone:?}"));
        }
        if self.stage.keeps_state() {
            output::line("kept", "Go's build cache, so that the next time takes seconds (`make clean` removes it)");
        }
        Ok(())
    }
}

//! The environments in which the rows run: this process, or another process with another user id or in a guest. Prints one
//! line per row and counts the results.

use crate::attack_attempt::{Attacker, Verdict};
use crate::attack_row::{AttackRow, Without};
use crate::attack_table::ROWS;
use crate::host_targets::{Programs, TENANT};
use crate::program_layout::Layout;
use proctor_sandbox::{LAYERS, LinuxSandbox, PoolBounds, RunAs};
use proctor_tests::process::command;
use proctor_tests::qemu_guest::Guest;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Time limit of the guest; it needs a tenth.
const GUEST_WAIT: Duration = Duration::from_secs(900);

/// Core dump program that reads the core to its end; otherwise the kernel does not report the dump.
const CORE_PATTERN: &str = "|/usr/bin/dd of=/dev/null";

/// User id of an ordinary user.
const USER: u32 = 64_010;

/// Where the rows run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Environment {
    /// As root on this host.
    Host,
    /// As an ordinary user of this host.
    User,
    /// As root in a guest with another kernel and cgroup v2 only.
    Guest,
}

impl Environment {
    pub(crate) const ALL: [Environment; 3] = [Environment::Host, Environment::User, Environment::Guest];

    /// User ids that runs have there. The guest, where everything is slow, tests only one: file ownership does not depend on
    /// the kernel.
    fn identities(self) -> &'static [RunAs] {
        const USER: RunAs = RunAs::User { uid: TENANT, gid: TENANT };
        const NOBODY: RunAs = RunAs::Nobody { owner_uid: TENANT, owner_gid: TENANT };
        match self {
            Environment::Host => &[USER, NOBODY],
            Environment::User => &[RunAs::Supervisor],
            Environment::Guest => &[USER],
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Environment::Host => "host",
            Environment::User => "user",
            Environment::Guest => "guest",
        }
    }
}

/// The command line of the suite.
#[derive(Debug, Default)]
pub(crate) struct SuiteOptions {
    /// Environment to run in; `None` for all.
    pub(crate) environment: Option<Environment>,
    base: Option<PathBuf>,
    attack: Option<PathBuf>,
    worker: Option<PathBuf>,
    privileged: Option<PathBuf>,
    is_survey: bool,
    names: Vec<String>,
    skipped: Vec<String>,
}

impl SuiteOptions {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> SuiteOptions {
        let mut options = SuiteOptions::default();
        while let Some(argument) = arguments.next() {
            let path = match argument.as_str() {
                "--base" => &mut options.base,
                "--attack" => &mut options.attack,
                "--worker" => &mut options.worker,
                "--gifts" => &mut options.privileged,
                "--nocapture" => continue,
                "--place" | "--exact" => {
                    let name = arguments.next().unwrap_or_default();
                    let environment = Environment::ALL.into_iter().find(|environment| environment.name() == name);
                    let environment = environment.unwrap_or_else(|| panic!("{name:?} is none of host, user, guest"));
                    options.environment = Some(environment);
                    continue;
                }
                "--survey" => {
                    options.is_survey = true;
                    continue;
                }
                "--skip" => {
                    options.skipped.extend(arguments.next());
                    continue;
                }
                option if option.starts_with('-') => panic!("unknown option {option}"),
                name => {
                    options.names.push(name.to_owned());
                    continue;
                }
            };
            *path = arguments.next().map(PathBuf::from);
        }
        options
    }

    /// Whether the programs were given, so that the rows run in this environment and not in another process.
    pub(crate) fn has_programs(&self) -> bool {
        self.attack.is_some() && self.worker.is_some()
    }

    fn rows(&self) -> Vec<&'static AttackRow> {
        let is_one_of = |row: &AttackRow, names: &[String]| names.iter().any(|name| row.name.contains(name));
        let is_selected =
            |row: &&AttackRow| (self.names.is_empty() || is_one_of(row, &self.names)) && !is_one_of(row, &self.skipped);
        ROWS.iter().filter(is_selected).collect()
    }

    /// The arguments that select rows, for another process.
    fn selection(&self) -> impl Iterator<Item = &str> {
        let names = self.names.iter().map(String::as_str);
        names.chain(self.skipped.iter().flat_map(|name| ["--skip", name.as_str()]))
    }
}

/// Counts of rows by result.
#[derive(Debug)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    filtered_out: usize,
    started: Instant,
}

impl Tally {
    fn new() -> Tally {
        Tally { passed: 0, failed: 0, filtered_out: 0, started: Instant::now() }
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// The summary line, in the format of Rust's test runner.
    pub(crate) fn summary_line(&self) -> String {
        let word = if self.is_ok() { "ok" } else { "FAILED" };
        let Tally { passed, failed, filtered_out, started } = self;
        let took = started.elapsed().as_secs_f64();
        format!(
            "{SUMMARY_PREFIX}{word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered_out} filtered out; \
             finished in {took:.2}s"
        )
    }

    /// Prints the output of another process and adds the counts of its summary line.
    fn add_output(&mut self, environment: Environment, output: impl BufRead) {
        let mut has_summary = false;
        for line in output.lines().map(Result::unwrap).filter(|line| !line.is_empty()) {
            if line.starts_with(SUMMARY_PREFIX) {
                self.add_summary_line(&line);
                has_summary = true;
            } else {
                println!("{line}");
            }
        }
        if !has_summary {
            println!("{} ... FAILED: it ended before its last row", environment.name());
            self.failed += 1;
        }
    }

    /// Adds the counts of another environment.
    pub(crate) fn add(mut self, other: &Tally) -> Tally {
        self.passed += other.passed;
        self.failed += other.failed;
        self.filtered_out += other.filtered_out;
        self
    }

    fn add_summary_line(&mut self, line: &str) {
        let count = |what: &str| {
            let before = line.split(what).next()?;
            before.split_whitespace().next_back()?.parse::<usize>().ok()
        };
        self.passed += count(" passed").unwrap_or(0);
        self.failed += count(" failed").unwrap_or(0);
        self.filtered_out += count(" filtered out").unwrap_or(0);
    }
}

const SUMMARY_PREFIX: &str = "test result: ";

/// Runs the rows in the guest, where this program makes its own layout.
pub(crate) fn run_in_guest(options: &SuiteOptions) -> Tally {
    let layout = Layout::new(options.attack.clone(), options.worker.clone());
    let (suite, attack, worker) = (layout.suite_program(), &layout.programs.attack, &layout.programs.worker);
    let [suite, attack, worker] = [&suite, attack, worker].map(|path| path.to_str().unwrap());
    let mut line = vec![suite, "--place", "guest", "--attack", attack, "--worker", worker];
    line.extend(options.is_survey.then_some("--survey"));
    line.extend(options.selection());
    let mut guest = Guest::new();
    for program in [suite, attack, worker] {
        guest = guest.file(program);
    }
    let result = guest.timeout(GUEST_WAIT).run(&[&line]);
    let mut tally = Tally::new();
    let output = result.commands.first().map(|command| command.output.as_str()).unwrap_or_default();
    tally.add_output(Environment::Guest, output.as_bytes());
    if tally.failed > 0 {
        println!("{}", result.console);
    }
    tally
}

/// Runs the rows in each environment, in a process of its own with the environment's user id.
pub(crate) fn run_in_processes(options: &SuiteOptions, environments: &[Environment]) -> Tally {
    let layout = Layout::new(options.attack.clone(), options.worker.clone());
    let mut tally = Tally::new();
    for &environment in environments {
        let owner = if environment == Environment::User { USER } else { 0 };
        let mut suite = command(&layout.suite_program());
        suite.args(["--place", environment.name()]).arg("--base").arg(layout.base(owner));
        suite.arg("--attack").arg(&layout.programs.attack).arg("--worker").arg(&layout.programs.worker);
        suite.arg("--gifts").arg(&layout.programs.privileged).args(options.is_survey.then_some("--survey"));
        suite.args(options.selection()).envs(std::env::vars_os()).current_dir("/").stdout(Stdio::piped());
        if environment == Environment::User {
            suite.uid(owner).gid(owner);
        }
        let mut child = suite.spawn().unwrap();
        tally.add_output(environment, BufReader::new(child.stdout.take().unwrap()));
        // The summary line has the result, so the exit status is not needed.
        _ = child.wait();
    }
    tally
}

/// Runs the rows in this process, or in one of its own if the layout does not exist yet.
pub(crate) fn run_here(options: &SuiteOptions, environment: Environment) -> Tally {
    let (Some(base), Some(attack), Some(worker), Some(privileged)) =
        (&options.base, &options.attack, &options.worker, &options.privileged)
    else {
        return run_in_processes(options, &[environment]);
    };
    if environment == Environment::Guest {
        // Nobody else uses the guest, so its core pattern may be changed.
        std::fs::write("/proc/sys/kernel/core_pattern", CORE_PATTERN).unwrap();
    }
    let programs = Programs { attack: attack.clone(), worker: worker.clone(), privileged: privileged.clone() };
    // Every attack has its own workspace, so a pool of prepared workers would not be used.
    let sandbox = LinuxSandbox::new(worker.clone(), PoolBounds::NONE).unwrap();
    sandbox.sweep();
    let required = if environment == Environment::User { Vec::new() } else { LAYERS.to_vec() };
    let attacker = Attacker { base: base.clone(), programs, sandbox, required, identities: environment.identities() };
    let mut rows = options.rows();
    rows.retain(|row| attacker.identities(row).next().is_some());
    let mut tally = Tally { filtered_out: ROWS.len() - rows.len(), ..Tally::new() };
    for row in rows {
        let result =
            if options.is_survey { Ok(survey(&attacker, row)) } else { check_row(&attacker, row, environment) };
        let (Ok(text) | Err(text)) = &result;
        println!("{} {} ... {text}", environment.name(), row.name);
        *(if result.is_ok() { &mut tally.passed } else { &mut tally.failed }) += 1;
    }
    tally
}

fn survey(attacker: &Attacker, row: &AttackRow) -> String {
    format!("outside {:?}, inside {:?}", attacker.run_outside(row), attacker.run_sandboxed(row))
}

/// Checks that the attack is held, and that it succeeds without protection. Returns a description or what is wrong.
fn check_row(attacker: &Attacker, row: &AttackRow, environment: Environment) -> Result<String, String> {
    let needs_privilege = row.needs_privilege.filter(|_| environment == Environment::User);
    let detail = match (attacker.run_sandboxed(row), needs_privilege) {
        (Verdict::Escaped(_), Some(reason)) => return Ok(format!("needs privilege: {reason}")),
        (verdict, Some(_)) => return Err(format!("LISTED AS NEEDING PRIVILEGE: {verdict:?}")),
        (Verdict::Held(detail) | Verdict::Absent(detail), None) => detail,
        (Verdict::Escaped(detail), None) => return Err(format!("ESCAPED: {detail}")),
        (Verdict::Inconclusive(detail), None) => return Err(format!("INCONCLUSIVE: {detail}")),
    };
    // Which layers hold an attack does not depend on the kernel, so it is checked on the host only.
    if let (Without::Layers { each, also }, Environment::Host) = (row.without, environment) {
        for alone in each {
            let others: Vec<_> = each.iter().chain(also).copied().filter(|layer| layer != alone).collect();
            let verdict = attacker.run_without_layers(row, &others);
            if let Verdict::Escaped(detail) | Verdict::Inconclusive(detail) = verdict {
                return Err(format!("NOT HELD BY {} ALONE: {detail}", alone.name()));
            }
        }
    }
    let unprotected = match (environment, row.without) {
        (Environment::Host | Environment::Guest, _) | (Environment::User, Without::Limit(_)) => {
            attacker.run_unprotected(row)
        }
        (Environment::User, _) if row.anyone => attacker.run_outside(row),
        // An ordinary user cannot carry it out at all; the run as root shows that the row can fail.
        (Environment::User, _) => return Ok(format!("held: {detail}")),
    };
    match (unprotected, row.host_may_lack) {
        (Verdict::Escaped(harm), _) => Ok(format!("held: {detail} (without: {harm})")),
        (Verdict::Absent(_), Some(what)) if matches!(attacker.run_outside(row), Verdict::Absent(_)) => {
            Ok(format!("held: {detail} (this host is without {what})"))
        }
        (verdict, _) => Err(format!("NOT SHOWN TO SUCCEED: {verdict:?}")),
    }
}

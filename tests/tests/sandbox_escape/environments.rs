//! Where the rows are run: in this process as whoever it is, or in another process that is somebody or somewhere else.
//! Prints one line for each row and counts. Must not know what an attack does.

use crate::attack_attempt::{Attacker, Verdict};
use crate::attack_programs::Layout;
use crate::attack_row::{AttackRow, Without};
use crate::attack_table::ROWS;
use crate::host_targets::{Programs, TENANT};
use proctor_sandbox::{LAYERS, LinuxSandbox, PoolBounds, RunAs};
use proctor_tests::process::command;
use proctor_tests::qemu_guest::Guest;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long the guest may take for all rows; it takes a tenth.
const GUEST_WAIT: Duration = Duration::from_secs(900);

/// Reads the core to its end, without which the kernel does not say that it was dumped.
const CORE_PATTERN: &str = "|/usr/bin/dd of=/dev/null";

/// An ordinary user.
const USER: u32 = 64_010;

/// Where the rows are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Environment {
    /// As root on this host.
    Host,
    /// As an ordinary user of this host.
    User,
    /// As root in a guest with another kernel and another cgroup hierarchy.
    Guest,
}

impl Environment {
    pub(crate) const ALL: [Environment; 3] = [Environment::Host, Environment::User, Environment::Guest];

    /// Whom a run can be there. What a run is for files does not hang on the kernel of the guest, where everything is slow.
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

/// The command line.
#[derive(Debug, Default)]
pub(crate) struct SuiteOptions {
    /// Where; everywhere when nobody says.
    pub(crate) place: Option<Environment>,
    base: Option<PathBuf>,
    attack: Option<PathBuf>,
    worker: Option<PathBuf>,
    gifts: Option<PathBuf>,
    is_survey: bool,
    names: Vec<String>,
    skipped: Vec<String>,
}

impl SuiteOptions {
    pub(crate) fn from(mut arguments: impl Iterator<Item = String>) -> SuiteOptions {
        let mut asked = SuiteOptions::default();
        while let Some(argument) = arguments.next() {
            let path = match argument.as_str() {
                "--base" => &mut asked.base,
                "--attack" => &mut asked.attack,
                "--worker" => &mut asked.worker,
                "--gifts" => &mut asked.gifts,
                "--nocapture" => continue,
                "--place" | "--exact" => {
                    let name = arguments.next().unwrap_or_default();
                    let place = Environment::ALL.into_iter().find(|place| place.name() == name);
                    asked.place = Some(place.unwrap_or_else(|| panic!("{name:?} is none of host, user, guest")));
                    continue;
                }
                "--survey" => {
                    asked.is_survey = true;
                    continue;
                }
                "--skip" => {
                    asked.skipped.extend(arguments.next());
                    continue;
                }
                option if option.starts_with('-') => panic!("nobody knows what {option} is"),
                name => {
                    asked.names.push(name.to_owned());
                    continue;
                }
            };
            *path = arguments.next().map(PathBuf::from);
        }
        asked
    }

    /// Whether this process was told what to run, and so is where the rows are to be run.
    pub(crate) fn is_in_place(&self) -> bool {
        self.attack.is_some() && self.worker.is_some()
    }

    fn rows(&self) -> Vec<&'static AttackRow> {
        let is_one_of = |row: &AttackRow, names: &[String]| names.iter().any(|name| row.name.contains(name));
        let is_asked =
            |row: &&AttackRow| (self.names.is_empty() || is_one_of(row, &self.names)) && !is_one_of(row, &self.skipped);
        ROWS.iter().filter(is_asked).collect()
    }

    /// The words that choose rows, to pass on.
    fn choice(&self) -> impl Iterator<Item = &str> {
        let names = self.names.iter().map(String::as_str);
        names.chain(self.skipped.iter().flat_map(|name| ["--skip", name.as_str()]))
    }
}

/// How many rows did what.
#[derive(Debug)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    filtered_out: usize,
    begun: Instant,
}

impl Tally {
    fn new() -> Tally {
        Tally { passed: 0, failed: 0, filtered_out: 0, begun: Instant::now() }
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// The line with which test runners close.
    pub(crate) fn closing(&self) -> String {
        let word = if self.is_ok() { "ok" } else { "FAILED" };
        let Tally { passed, failed, filtered_out, begun } = self;
        let took = begun.elapsed().as_secs_f64();
        format!(
            "{CLOSING}{word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered_out} filtered out; \
             finished in {took:.2}s"
        )
    }

    /// Passes on what another process says of its rows, and adds what it closes with.
    fn hear(&mut self, place: Environment, said: impl BufRead) {
        let mut has_closed = false;
        for line in said.lines().map(Result::unwrap).filter(|line| !line.is_empty()) {
            if line.starts_with(CLOSING) {
                self.add(&line);
                has_closed = true;
            } else {
                println!("{line}");
            }
        }
        if !has_closed {
            println!("{} ... FAILED: it ended before its last row", place.name());
            self.failed += 1;
        }
    }

    /// Takes in the rows of another place.
    pub(crate) fn with(mut self, other: &Tally) -> Tally {
        self.passed += other.passed;
        self.failed += other.failed;
        self.filtered_out += other.filtered_out;
        self
    }

    fn add(&mut self, closing: &str) {
        let count = |what: &str| {
            let before = closing.split(what).next()?;
            before.split_whitespace().next_back()?.parse::<usize>().ok()
        };
        self.passed += count(" passed").unwrap_or(0);
        self.failed += count(" failed").unwrap_or(0);
        self.filtered_out += count(" filtered out").unwrap_or(0);
    }
}

const CLOSING: &str = "test result: ";

/// Runs the rows in the guest, where this program lays everything out once more.
pub(crate) fn in_guest(asked: &SuiteOptions) -> Tally {
    let layout = Layout::new(asked.attack.clone(), asked.worker.clone());
    let (escape, attack, worker) = (layout.escape(), &layout.programs.attack, &layout.programs.worker);
    let [escape, attack, worker] = [&escape, attack, worker].map(|path| path.to_str().unwrap());
    let mut line = vec![escape, "--place", "guest", "--attack", attack, "--worker", worker];
    line.extend(asked.is_survey.then_some("--survey"));
    line.extend(asked.choice());
    let mut guest = Guest::new();
    for program in [escape, attack, worker] {
        guest = guest.file(program);
    }
    let outcome = guest.within(GUEST_WAIT).run(&[&line]);
    let mut tally = Tally::new();
    let said = outcome.commands.first().map(|ended| ended.output.as_str()).unwrap_or_default();
    tally.hear(Environment::Guest, said.as_bytes());
    if tally.failed > 0 {
        println!("{}", outcome.console);
    }
    tally
}

/// Runs the rows in each place, in a process of its own that is whoever the place demands.
pub(crate) fn everywhere(asked: &SuiteOptions, places: &[Environment]) -> Tally {
    let layout = Layout::new(asked.attack.clone(), asked.worker.clone());
    let mut tally = Tally::new();
    for &place in places {
        let owner = if place == Environment::User { USER } else { 0 };
        let mut escape = command(&layout.escape());
        escape.args(["--place", place.name()]).arg("--base").arg(layout.base(owner));
        escape.arg("--attack").arg(&layout.programs.attack).arg("--worker").arg(&layout.programs.worker);
        escape.arg("--gifts").arg(&layout.programs.gifts).args(asked.is_survey.then_some("--survey"));
        escape.args(asked.choice()).envs(std::env::vars_os()).current_dir("/").stdout(Stdio::piped());
        if place == Environment::User {
            escape.uid(owner).gid(owner);
        }
        let mut child = escape.spawn().unwrap();
        tally.hear(place, BufReader::new(child.stdout.take().unwrap()));
        // How it went was said in its closing line.
        _ = child.wait();
    }
    tally
}

/// Runs the rows in this process, or in one of its own when nothing is laid out for it yet.
pub(crate) fn here(asked: &SuiteOptions, place: Environment) -> Tally {
    let (Some(base), Some(attack), Some(worker), Some(gifts)) =
        (&asked.base, &asked.attack, &asked.worker, &asked.gifts)
    else {
        return everywhere(asked, &[place]);
    };
    if place == Environment::Guest {
        // A guest is nobody else's, so cores may go to a program there.
        std::fs::write("/proc/sys/kernel/core_pattern", CORE_PATTERN).unwrap();
    }
    let programs = Programs { attack: attack.clone(), worker: worker.clone(), gifts: gifts.clone() };
    // Every attack has a workspace of its own, so nothing that is kept would be used again.
    let sandbox = LinuxSandbox::new(worker.clone(), PoolBounds::NONE).unwrap();
    sandbox.sweep();
    let required = if place == Environment::User { Vec::new() } else { LAYERS.to_vec() };
    let attacker = Attacker { base: base.clone(), programs, sandbox, required, identities: place.identities() };
    let mut rows = asked.rows();
    rows.retain(|row| attacker.identities(row).next().is_some());
    let mut tally = Tally { filtered_out: ROWS.len() - rows.len(), ..Tally::new() };
    for row in rows {
        let judged = if asked.is_survey { Ok(survey(&attacker, row)) } else { judge(&attacker, row, place) };
        let (Ok(word) | Err(word)) = &judged;
        println!("{} {} ... {word}", place.name(), row.name);
        *(if judged.is_ok() { &mut tally.passed } else { &mut tally.failed }) += 1;
    }
    tally
}

fn survey(attacker: &Attacker, row: &AttackRow) -> String {
    format!("outside {:?}, inside {:?}", attacker.outside(row), attacker.boxed(row))
}

/// Whether the row holds and is shown to be able to fail: what is said of it, or what is wrong.
fn judge(attacker: &Attacker, row: &AttackRow, place: Environment) -> Result<String, String> {
    let needs_privilege = row.needs_privilege.filter(|_| place == Environment::User);
    let word = match (attacker.boxed(row), needs_privilege) {
        (Verdict::Escaped(_), Some(reason)) => return Ok(format!("needs privilege: {reason}")),
        (verdict, Some(_)) => return Err(format!("LISTED AS NEEDING PRIVILEGE: {verdict:?}")),
        (Verdict::Held(word) | Verdict::Absent(word), None) => word,
        (Verdict::Escaped(word), None) => return Err(format!("ESCAPED: {word}")),
        (Verdict::Untried(word), None) => return Err(format!("NOT TRIED: {word}")),
    };
    // Which layers hold it is the same under every kernel.
    if let (Without::Layers { each, also }, Environment::Host) = (row.without, place) {
        for alone in each {
            let others: Vec<_> = each.iter().chain(also).copied().filter(|layer| layer != alone).collect();
            if let Verdict::Escaped(word) | Verdict::Untried(word) = attacker.left_off(row, &others) {
                return Err(format!("NOT HELD BY {} ALONE: {word}", alone.name()));
            }
        }
    }
    let without = match (place, row.without) {
        (Environment::Host | Environment::Guest, _) | (Environment::User, Without::Limit(_)) => attacker.without(row),
        (Environment::User, _) if row.anyone => attacker.outside(row),
        // Who cannot do it outside proves nothing by not doing it; it is root who shows that the row can fail.
        (Environment::User, _) => return Ok(format!("held: {word}")),
    };
    match (without, row.host_may_lack) {
        (Verdict::Escaped(done), _) => Ok(format!("held: {word} (without: {done})")),
        (Verdict::Absent(_), Some(what)) if matches!(attacker.outside(row), Verdict::Absent(_)) => {
            Ok(format!("held: {word} (this host is without {what})"))
        }
        (verdict, _) => Err(format!("NOT SHOWN TO SUCCEED: {verdict:?}")),
    }
}

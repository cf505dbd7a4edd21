//! Where the rows are run: in this process as whoever it is, or in another process that is somebody or somewhere else.
//! Prints one line for each row and counts. Must not know what an attack does.

use crate::attempt::{Attacker, Verdict};
use crate::programs::Layout;
use crate::row::{Row, Without};
use crate::stage::Programs;
use crate::table::ROWS;
use proctor_sandbox::{LAYERS, LinuxSandbox, PoolBounds};
use proctor_tests::process::command;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

/// An ordinary user.
const USER: u32 = 64_010;

/// Where the rows are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// As root on this host.
    Host,
    /// As an ordinary user of this host.
    User,
    /// As root in a guest with another kernel and another cgroup hierarchy.
    Guest,
}

impl Place {
    const ALL: [Place; 3] = [Place::Host, Place::User, Place::Guest];

    fn name(self) -> &'static str {
        match self {
            Place::Host => "host",
            Place::User => "user",
            Place::Guest => "guest",
        }
    }
}

/// The command line.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Where; everywhere when nobody says.
    pub(crate) place: Option<Place>,
    base: Option<PathBuf>,
    programs: Option<Programs>,
    is_survey: bool,
    names: Vec<String>,
}

impl Asked {
    pub(crate) fn from(arguments: impl Iterator<Item = String>) -> Asked {
        let mut asked = Asked::default();
        let (mut attack, mut worker, mut gifts) = (None, None, None);
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut path = || arguments.next().map(PathBuf::from);
            match argument.as_str() {
                "--place" => {
                    let name = arguments.next().unwrap_or_default();
                    let place = Place::ALL.into_iter().find(|place| place.name() == name);
                    asked.place = Some(place.unwrap_or_else(|| panic!("{name:?} is none of host, user, guest")));
                }
                "--base" => asked.base = path(),
                "--attack" => attack = path(),
                "--worker" => worker = path(),
                "--gifts" => gifts = path(),
                "--survey" => asked.is_survey = true,
                option if option.starts_with('-') => panic!("nobody knows what {option} is"),
                name => asked.names.push(name.to_owned()),
            }
        }
        asked.programs = match (attack, worker, gifts) {
            (Some(attack), Some(worker), Some(gifts)) => Some(Programs { attack, worker, gifts }),
            _ => None,
        };
        asked
    }

    fn rows(&self) -> Vec<&'static Row> {
        let is_asked = |row: &&Row| self.names.is_empty() || self.names.iter().any(|name| row.name.contains(name));
        ROWS.iter().filter(is_asked).collect()
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

    /// Adds what another process has closed with.
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

/// Runs the rows in each place. The guest has its place here as well: the same program with the same arguments, there.
pub(crate) fn everywhere(asked: &Asked, places: &[Place]) -> Tally {
    let layout = Layout::new();
    let mut tally = Tally::new();
    for &place in places {
        let owner = if place == Place::User { USER } else { 0 };
        let mut escape = command(&layout.escape());
        escape.args(["--place", place.name()]).arg("--base").arg(layout.base(owner));
        escape.arg("--attack").arg(&layout.programs.attack).arg("--worker").arg(&layout.programs.worker);
        escape.arg("--gifts").arg(&layout.programs.gifts).args(asked.is_survey.then_some("--survey"));
        escape.args(&asked.names).envs(std::env::vars_os()).current_dir("/").stdout(Stdio::piped());
        if place == Place::User {
            escape.uid(owner).gid(owner);
        }
        let mut child = escape.spawn().unwrap();
        let mut has_closed = false;
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
            if line.starts_with(CLOSING) {
                tally.add(&line);
                has_closed = true;
            } else if !line.is_empty() {
                println!("{line}");
            }
        }
        let status = child.wait().unwrap();
        if !has_closed {
            println!("{} ... FAILED: it ended before its last row: {status}", place.name());
            tally.failed += 1;
        }
    }
    tally
}

/// Runs the rows in this process.
pub(crate) fn here(asked: &Asked) -> Tally {
    let place = asked.place.unwrap_or(Place::Host);
    let (Some(base), Some(programs)) = (asked.base.clone(), asked.programs.clone()) else {
        return everywhere(asked, &[place]);
    };
    let sandbox = LinuxSandbox::new(programs.worker.clone(), PoolBounds::NONE).unwrap();
    let required = if place == Place::User { Vec::new() } else { LAYERS.to_vec() };
    let attacker = Attacker { base, programs, sandbox, required };
    let rows = asked.rows();
    let mut tally = Tally { filtered_out: ROWS.len() - rows.len(), ..Tally::new() };
    for row in rows {
        if asked.is_survey {
            let (outside, inside) = (attacker.outside(row), attacker.boxed(row));
            println!("{} | {} | {outside:?} | {inside:?}", place.name(), row.name);
            tally.passed += 1;
            continue;
        }
        let (word, why) = match judge(&attacker, row, place) {
            Ok(why) => ("held", why),
            Err(why) => ("FAILED", why),
        };
        println!("{} {} ... {word}: {why}", place.name(), row.name);
        *(if word == "held" { &mut tally.passed } else { &mut tally.failed }) += 1;
    }
    tally
}

/// Whether the row holds and is shown to be able to fail, and why.
fn judge(attacker: &Attacker, row: &Row, place: Place) -> Result<String, String> {
    let privilege = row.needs_privilege.filter(|_| place == Place::User);
    let held = match (attacker.boxed(row), privilege) {
        (Verdict::Held(word) | Verdict::Absent(word), None) => word,
        (Verdict::Escaped(_), Some(reason)) => return Ok(format!("not without privilege: {reason}")),
        (verdict, Some(_)) => return Err(format!("it is listed as one that needs privilege: {verdict:?}")),
        (Verdict::Escaped(word), None) => return Err(format!("ESCAPED: {word}")),
        (Verdict::Untried(word), None) => return Err(format!("NOT TRIED: {word}")),
    };
    if let Without::Layers { each, also } = row.without
        && place != Place::User
    {
        for alone in each {
            let others: Vec<_> = each.iter().chain(also).copied().filter(|layer| layer != alone).collect();
            if let Verdict::Escaped(word) | Verdict::Untried(word) = attacker.left_off(row, &others) {
                return Err(format!("NOT HELD BY {} ALONE: {word}", alone.name()));
            }
        }
    }
    let succeeds = match (place, row.without) {
        (Place::Host | Place::Guest, _) | (Place::User, Without::Limit(_)) => attacker.without(row),
        (Place::User, _) if row.anyone => attacker.outside(row),
        (Place::User, _) => return Ok(held),
    };
    match (succeeds, row.host_may_lack) {
        (Verdict::Escaped(word), _) => Ok(format!("{held} (without: {word})")),
        (Verdict::Absent(_), Some(what)) => Ok(format!("{held} (this host has not: {what})")),
        (verdict, _) => Err(format!("NOT SHOWN TO SUCCEED: {verdict:?}")),
    }
}

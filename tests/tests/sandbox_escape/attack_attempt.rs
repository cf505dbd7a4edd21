//! Carries out one attack, inside of a sandbox or outside of any, and judges it by how the run ended and by what the
//! host looks like. Must not know which attacks there are.

use crate::attack_row::{AttackRow, End, Without};
use crate::host_targets::{HostTargets, MARK, Programs, TENANT};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, Uid};
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{CommandSpec, Ending, Jail, KillSwitch, LinuxSandbox, RunAs, RunSpec, Sandbox, SandboxEvent};
use proctor_tests::process::{command, signal, wait_until};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Bytes of output that are looked at.
const OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Characters of an attack's last line that are passed on.
const WORD_CHARS_MAX: usize = 120;

/// No attack takes longer outside of a sandbox.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// How an attack went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It did no harm.
    Held(String),
    /// It did.
    Escaped(String),
    /// This host does not have what it attacks.
    Absent(String),
    /// Nobody can tell.
    Untried(String),
}

/// What is known of an attack that was carried out.
#[derive(Debug, Default)]
struct Seen {
    exit: Option<Exit>,
    killed: Option<KillReason>,
    hits: Vec<LimitKind>,
    is_lost: bool,
    throttled_s: f64,
    output: String,
    harm: Vec<String>,
}

/// What attacks are carried out with.
pub(crate) struct Attacker {
    pub(crate) base: std::path::PathBuf,
    pub(crate) programs: Programs,
    pub(crate) sandbox: LinuxSandbox,
    /// Layers that every run must have unless it is meant to lack them.
    pub(crate) required: Vec<Layer>,
    /// Whom a run can be here. Every row holds as each of them; the first one shows what it takes.
    pub(crate) identities: &'static [RunAs],
}

impl Attacker {
    /// Whom the run of `row` can be here; a row for which that is nobody at all is of another place.
    pub(crate) fn identities(&self, row: &AttackRow) -> impl Iterator<Item = RunAs> + use<> {
        let only_as_nobody = row.only_as_nobody;
        let all = self.identities.iter().copied();
        all.filter(move |run_as| !only_as_nobody || matches!(run_as, RunAs::Nobody { .. }))
    }

    /// With everything that is meant to hold it.
    pub(crate) fn boxed(&self, row: &AttackRow) -> Verdict {
        let mut verdicts = self.identities(row).map(|run_as| self.inside(row, &[], row.limits, run_as));
        let first = verdicts.next().unwrap();
        let is_held = |verdict: &Verdict| matches!(verdict, Verdict::Held(_) | Verdict::Absent(_));
        if is_held(&first) { verdicts.find(|verdict| !is_held(verdict)).unwrap_or(first) } else { first }
    }

    /// With these layers off.
    pub(crate) fn left_off(&self, row: &AttackRow, layers: &[Layer]) -> Verdict {
        self.inside(row, layers, row.limits, self.identities(row).next().unwrap())
    }

    /// With nothing that could hold it.
    pub(crate) fn without(&self, row: &AttackRow) -> Verdict {
        match row.without {
            Without::Layers { each, also } => self.left_off(row, &[each, also].concat()),
            Without::Limit(limits) => self.inside(row, &[], limits, self.identities(row).next().unwrap()),
            Without::Sandbox | Without::SandboxAndPrivilege => self.outside(row),
        }
    }

    fn inside(&self, row: &AttackRow, left_off: &[Layer], limits: Limits, run_as: RunAs) -> Verdict {
        let mut stage = HostTargets::new(&self.base, &self.programs);
        // Process 1 is the run's as long as its namespace is: no sandbox is without.
        assert!(!left_off.contains(&Layer::PidNamespace), "{}: process 1 would be the machine's", row.name);
        let spec = RunSpec {
            jail: self.jail(&stage, left_off, run_as),
            commands: vec![CommandSpec {
                program: self.programs.attack.clone(),
                args: self.arguments(row, &stage, Some(1)),
                dir: stage.workspace.clone(),
                env: vec![(MARK.to_owned(), stage.mark.clone())],
            }],
            scratch_files: vec![],
            scratch_dirs: vec![],
            artifacts: String::new(),
            report: false,
            limits,
            required_limits: vec![],
        };
        let mut output = Vec::new();
        let ended = self.sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut |event| {
            if let SandboxEvent::Output { bytes, .. } = event {
                output.extend(bytes.iter().take(OUTPUT_BYTES_MAX.saturating_sub(output.len())));
            }
        });
        let seen = match ended {
            Ok(ending) => Seen { output: text(&output), harm: stage.harm(), ..Seen::of(&ending) },
            Err(error) => return Verdict::Untried(format!("no run: {:#}", anyhow::Error::new(error))),
        };
        self.clean(&stage, None);
        seen.verdict(row, &stage.secret)
    }

    fn jail(&self, stage: &HostTargets, left_off: &[Layer], run_as: RunAs) -> Jail {
        let tools = self.programs.attack.parent().map(Path::to_owned);
        Jail {
            owner: "attacker".to_owned(),
            read_only: tools.into_iter().chain([self.programs.gifts.clone(), stage.toolchain.clone()]).collect(),
            run_as,
            network: Network::None,
            required_layers: self.required.iter().copied().filter(|layer| !left_off.contains(layer)).collect(),
            left_off: left_off.to_vec(),
            ..Jail::new(&stage.workspace)
        }
    }

    /// As a child of this process, as whoever this is, or as an ordinary user.
    pub(crate) fn outside(&self, row: &AttackRow) -> Verdict {
        let mut stage = HostTargets::new(&self.base, &self.programs);
        let output = tempfile::NamedTempFile::new_in(&self.base).unwrap();
        let mut attack = command(&self.programs.attack);
        attack.args(self.arguments(row, &stage, None)).envs(std::env::vars_os()).env(MARK, &stage.mark);
        attack.current_dir(&stage.workspace).process_group(0);
        attack.stdin(Stdio::null()).stdout(File::create(output.path()).unwrap());
        if matches!(row.without, Without::SandboxAndPrivilege) && Uid::effective().is_root() {
            attack.uid(TENANT).gid(TENANT);
        }
        let child = attack.spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let exit = wait_for_exit(child);
        let output = std::fs::read(output.path()).unwrap();
        let seen = Seen { exit, output: text(&output), harm: stage.harm(), ..Seen::default() };
        self.clean(&stage, Some(group));
        seen.verdict(row, &stage.secret)
    }

    fn arguments(&self, row: &AttackRow, stage: &HostTargets, init: Option<u32>) -> Vec<String> {
        row.attack.iter().map(|argument| stage.fill_in(argument, init, &self.programs)).collect()
    }

    /// Ends what an attack has left on the host. Whoever is replaced by its child all the time is in `group`, and ends
    /// by itself when there is none.
    fn clean(&self, stage: &HostTargets, group: Option<Pid>) {
        wait_until("no process of the attack is alive", || {
            let alive = stage.alive();
            alive.iter().for_each(|process| signal(process.pid, Signal::SIGKILL));
            let is_somebody_left = stage.is_somebody_alive();
            if let Some(group) = group.filter(|_| is_somebody_left) {
                // The group is empty when all that are left are in other groups.
                _ = killpg(group, Signal::SIGKILL);
            }
            alive.is_empty() && !is_somebody_left
        });
        if stage.has_segment() {
            let key = stage.key().to_string();
            let removed = command(&self.programs.attack).args(["remove_shared_memory", &key]).output().unwrap();
            assert!(removed.status.success(), "{removed:?}");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wait_for_exit(mut child: Child) -> Option<Exit> {
    let until = Instant::now() + WAIT_MAX;
    let exit = |status: ExitStatus| match status.code() {
        Some(code) => Exit::Code(code),
        None => Exit::Signal(status.signal().unwrap_or(0)),
    };
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(exit(status));
        }
        if Instant::now() >= until {
            signal(child.id(), Signal::SIGKILL);
            // Dead or about to be.
            _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Seen {
    fn of(ending: &Ending) -> Seen {
        Seen {
            exit: ending.exits.first().copied(),
            killed: ending.killed,
            hits: ending.limit_hits.iter().map(|hit| hit.limit).collect(),
            is_lost: ending.worker_lost,
            throttled_s: ending.resources.throttled_s.unwrap_or(0.0),
            ..Seen::default()
        }
    }

    fn verdict(&self, row: &AttackRow, secret: &str) -> Verdict {
        let said = self.output.lines().last().unwrap_or("it says nothing");
        let verdict = ["held: ", "escaped: ", "absent: "].into_iter().find_map(|verdict| said.strip_prefix(verdict));
        let word: String = verdict.unwrap_or(said).chars().take(WORD_CHARS_MAX).collect();
        if self.output.contains(secret) {
            return Verdict::Escaped(format!("the secret was read: {word}"));
        }
        if let Some(harm) = self.harm.first() {
            return Verdict::Escaped(harm.clone());
        }
        if self.is_lost {
            return Verdict::Escaped("the worker was lost".to_owned());
        }
        self.by_its_end(row.end, word)
    }

    fn by_its_end(&self, end: End, word: String) -> Verdict {
        let otherwise = || Verdict::Untried(format!("{:?}, killed {:?}, {word}", self.exit, self.killed));
        match (end, self.exit, self.killed) {
            (End::Killed(reason), _, Some(killed)) if reason == killed => Verdict::Held(reason.name().to_owned()),
            (_, _, Some(_)) => otherwise(),
            (End::Harmless, Some(Exit::Code(0)), None) => Verdict::Held("it ended well".to_owned()),
            (End::Throttled, Some(Exit::Code(0)), None) if self.throttled_s > 0.1 => {
                Verdict::Held(format!("slowed down for {:.1} s", self.throttled_s))
            }
            (_, Some(Exit::Code(0)), None) => Verdict::Escaped(word),
            (End::Hit(limit), Some(Exit::Code(1)), None) if !self.hits.contains(&limit) => {
                Verdict::Untried(format!("{word}, and no hit of {} is told", limit.name()))
            }
            (End::Refused | End::Hit(_), Some(Exit::Code(1)), None) => Verdict::Held(word),
            (End::Refused, Some(Exit::Signal(number)), None) if number == Signal::SIGSYS as i32 => {
                Verdict::Held("the filter has ended it".to_owned())
            }
            (End::Refused, Some(Exit::Code(4)), None) => Verdict::Absent(word),
            _ => otherwise(),
        }
    }
}

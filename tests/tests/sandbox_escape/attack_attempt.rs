//! Runs one attack inside or outside of a sandbox, and judges it by how the run ended and by the state of the host.

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

/// Most bytes of output that are kept.
const OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most characters of an attack's last line that are reported.
const DETAIL_CHARS_MAX: usize = 120;

/// Longest time for an attack outside of a sandbox.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The result of an attack. The text gives details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The attack did no harm.
    Held(String),
    /// The attack did harm.
    Escaped(String),
    /// This host lacks what the attack targets.
    Absent(String),
    /// The attack ended in a way that proves nothing.
    Inconclusive(String),
}

/// What was observed of an attack.
#[derive(Debug, Default)]
struct Observation {
    exit: Option<Exit>,
    killed: Option<KillReason>,
    limit_hits: Vec<LimitKind>,
    is_lost: bool,
    throttled_s: f64,
    output: String,
    harm: Vec<String>,
}

/// Runs attacks.
pub(crate) struct Attacker {
    pub(crate) base: std::path::PathBuf,
    pub(crate) programs: Programs,
    pub(crate) sandbox: LinuxSandbox,
    /// Layers that every run must have unless the row leaves them off.
    pub(crate) required: Vec<Layer>,
    /// User ids that runs may have in this environment. Every row must hold with each; the first one proves the attack.
    pub(crate) identities: &'static [RunAs],
}

impl Attacker {
    /// User ids for runs of `row` in this environment; none if the row belongs to another environment.
    pub(crate) fn identities(&self, row: &AttackRow) -> impl Iterator<Item = RunAs> + use<> {
        let only_as_nobody = row.only_as_nobody;
        let all = self.identities.iter().copied();
        all.filter(move |run_as| !only_as_nobody || matches!(run_as, RunAs::Nobody { .. }))
    }

    /// Runs the attack with all layers and limits.
    pub(crate) fn run_sandboxed(&self, row: &AttackRow) -> Verdict {
        let mut verdicts = self.identities(row).map(|run_as| self.run_inside(row, &[], row.limits, run_as));
        let first = verdicts.next().unwrap();
        let is_held = |verdict: &Verdict| matches!(verdict, Verdict::Held(_) | Verdict::Absent(_));
        if is_held(&first) { verdicts.find(|verdict| !is_held(verdict)).unwrap_or(first) } else { first }
    }

    /// Runs the attack without these layers.
    pub(crate) fn run_without_layers(&self, row: &AttackRow, layers: &[Layer]) -> Verdict {
        self.run_inside(row, layers, row.limits, self.identities(row).next().unwrap())
    }

    /// Runs the attack without everything that holds it.
    pub(crate) fn run_unprotected(&self, row: &AttackRow) -> Verdict {
        match row.without {
            Without::Layers { each, also } => self.run_without_layers(row, &[each, also].concat()),
            Without::Limit(limits) => self.run_inside(row, &[], limits, self.identities(row).next().unwrap()),
            Without::Sandbox | Without::SandboxAndPrivilege => self.run_outside(row),
        }
    }

    fn run_inside(&self, row: &AttackRow, left_off: &[Layer], limits: Limits, run_as: RunAs) -> Verdict {
        let mut targets = HostTargets::new(&self.base, &self.programs);
        // Attacks on process 1 would hit the host's init, so no row leaves off the pid namespace.
        assert!(!left_off.contains(&Layer::PidNamespace), "{}: process 1 would be the host's", row.name);
        let spec = RunSpec {
            jail: self.jail(&targets, left_off, run_as),
            commands: vec![CommandSpec {
                program: self.programs.attack.clone(),
                args: self.arguments(row, &targets, Some(1)),
                dir: targets.workspace.clone(),
                env: vec![(MARK.to_owned(), targets.mark.clone())],
            }],
            stack_requests: vec![],
            scratch_files: vec![],
            scratch_dirs: vec![],
            artifacts: String::new(),
            report: false,
            alone: false,
            limits,
            required_limits: vec![],
        };
        let mut output = Vec::new();
        let ended = self.sandbox.run(&spec, &KillSwitch::new().unwrap(), &mut |event| {
            if let SandboxEvent::Output { bytes, .. } = event {
                output.extend(bytes.iter().take(OUTPUT_BYTES_MAX.saturating_sub(output.len())));
            }
        });
        let observation = match ended {
            Ok(ending) => {
                Observation { output: text(&output), harm: targets.harm(), ..Observation::from_ending(&ending) }
            }
            Err(error) => return Verdict::Inconclusive(format!("no run: {:#}", anyhow::Error::new(error))),
        };
        self.clean(&targets, None);
        observation.verdict(row, &targets.secret)
    }

    fn jail(&self, targets: &HostTargets, left_off: &[Layer], run_as: RunAs) -> Jail {
        let tools = self.programs.attack.parent().map(Path::to_owned);
        Jail {
            owner: "attacker".to_owned(),
            read_only: tools.into_iter().chain([self.programs.privileged.clone(), targets.toolchain.clone()]).collect(),
            run_as,
            network: Network::None,
            required_layers: self.required.iter().copied().filter(|layer| !left_off.contains(layer)).collect(),
            left_off: left_off.to_vec(),
            ..Jail::new(&targets.workspace)
        }
    }

    /// Runs the attack as a child of this process, with this process's user id or as an ordinary user.
    pub(crate) fn run_outside(&self, row: &AttackRow) -> Verdict {
        let mut targets = HostTargets::new(&self.base, &self.programs);
        let output = tempfile::NamedTempFile::new_in(&self.base).unwrap();
        let mut attack = command(&self.programs.attack);
        attack.args(self.arguments(row, &targets, None)).envs(std::env::vars_os()).env(MARK, &targets.mark);
        attack.current_dir(&targets.workspace).process_group(0);
        attack.stdin(Stdio::null()).stdout(File::create(output.path()).unwrap());
        if matches!(row.without, Without::SandboxAndPrivilege) && Uid::effective().is_root() {
            attack.uid(TENANT).gid(TENANT);
        }
        let child = attack.spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let exit = wait_for_exit(child);
        let output = std::fs::read(output.path()).unwrap();
        let observation = Observation { exit, output: text(&output), harm: targets.harm(), ..Observation::default() };
        self.clean(&targets, Some(group));
        observation.verdict(row, &targets.secret)
    }

    fn arguments(&self, row: &AttackRow, targets: &HostTargets, init: Option<u32>) -> Vec<String> {
        row.attack.iter().map(|argument| targets.fill_in(argument, init, &self.programs)).collect()
    }

    /// Kills processes that an attack has left on the host. A process that is constantly replaced by its child is in
    /// `group`; inside a sandbox there is no group, and such a chain ends with its run.
    fn clean(&self, targets: &HostTargets, group: Option<Pid>) {
        wait_until("no process of the attack is alive", || {
            let alive = targets.processes();
            alive.iter().for_each(|process| signal(process.pid, Signal::SIGKILL));
            let has_survivor = targets.has_survivor();
            if let Some(group) = group.filter(|_| has_survivor) {
                // The group may be empty, with survivors in other groups.
                _ = killpg(group, Signal::SIGKILL);
            }
            alive.is_empty() && !has_survivor
        });
        if targets.has_segment() {
            let key = targets.key().to_string();
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
            // The child is dead or about to die.
            _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Observation {
    fn from_ending(ending: &Ending) -> Observation {
        Observation {
            exit: ending.exits.first().copied(),
            killed: ending.killed,
            limit_hits: ending.limit_hits.iter().map(|hit| hit.limit).collect(),
            is_lost: ending.worker_lost,
            throttled_s: ending.resources.throttled_s.unwrap_or(0.0),
            ..Observation::default()
        }
    }

    fn verdict(&self, row: &AttackRow, secret: &str) -> Verdict {
        let last_line = self.output.lines().last().unwrap_or("no output");
        let detail =
            ["held: ", "escaped: ", "absent: "].into_iter().find_map(|verdict| last_line.strip_prefix(verdict));
        let detail: String = detail.unwrap_or(last_line).chars().take(DETAIL_CHARS_MAX).collect();
        if self.output.contains(secret) {
            return Verdict::Escaped(format!("the secret was read: {detail}"));
        }
        if let Some(harm) = self.harm.first() {
            return Verdict::Escaped(harm.clone());
        }
        if self.is_lost {
            return Verdict::Escaped("the worker was lost".to_owned());
        }
        self.verdict_of_end(row.end, detail)
    }

    fn verdict_of_end(&self, end: End, detail: String) -> Verdict {
        let inconclusive = || Verdict::Inconclusive(format!("{:?}, killed {:?}, {detail}", self.exit, self.killed));
        match (end, self.exit, self.killed) {
            (End::Killed(reason), _, Some(killed)) if reason == killed => Verdict::Held(reason.name().to_owned()),
            (_, _, Some(_)) => inconclusive(),
            (End::Harmless, Some(Exit::Code(0)), None) => Verdict::Held("it ended normally".to_owned()),
            (End::Throttled, Some(Exit::Code(0)), None) if self.throttled_s > 0.1 => {
                Verdict::Held(format!("slowed down for {:.1} s", self.throttled_s))
            }
            (_, Some(Exit::Code(0)), None) => Verdict::Escaped(detail),
            (End::Hit(limit), Some(Exit::Code(1)), None) if !self.limit_hits.contains(&limit) => {
                Verdict::Inconclusive(format!("{detail}, and no hit of {} is reported", limit.name()))
            }
            (End::Refused | End::Hit(_), Some(Exit::Code(1)), None) => Verdict::Held(detail),
            (End::Refused, Some(Exit::Signal(number)), None) if number == Signal::SIGSYS as i32 => {
                Verdict::Held("killed by the seccomp filter".to_owned())
            }
            (End::Refused, Some(Exit::Code(4)), None) => Verdict::Absent(detail),
            _ => inconclusive(),
        }
    }
}

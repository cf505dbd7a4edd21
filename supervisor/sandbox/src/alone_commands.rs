//! Executes commands that a run left for later, each alone, when everything about the run is recorded: tests that are measured once more,
//! without what earlier tests of their process had prepared for them.
//!
//! The run wrote the list, so its commands are as hostile as the run. They have its worker, monitors and limits, and may do less
//! ([`Confinement`]). Nothing that they do is a part of the run's ending but the one file that each may leave.

use crate::artifacts::read_below;
use crate::disk::ChangeCheck;
use crate::kill_switch::KillSwitch;
use crate::run_loop::RunLoop;
use crate::spec::{ALONE_COMMANDS, ALONE_RECORD, Artifact, CommandSpec, Jail, RunSpec, SCRATCH, SandboxEvent};
use crate::spec_validation::validate;
use crate::worker_protocol::Confinement;
use crate::zygote::Worker;
use proctor_core::limits::Limits;
use proctor_core::outcome::Exit;
use std::iter;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// Time for all commands: this part of the run's, from the first of these times to the second. In a longer run, the other part of it.
const RUN_PART: u32 = 4;
const ALL_TIMES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
const LONG_RUN_PART: u32 = 10;

/// Commands that are executed within the second of [`ALL_TIMES`], however short the run was.
const FIRST: usize = 10;

/// Time for one command: so many times the one that the list has for it, and at least this.
const ONE_FACTOR: u32 = 10;
const ONE_MIN: Duration = Duration::from_secs(1);

/// How long a command that is ended may take to do so.
const GRACE: Duration = Duration::from_millis(100);

/// Most bytes of all files that commands leave.
const RECORDS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Most bytes of all lists, and most texts in them. Each text takes some 50 bytes of memory more.
const LISTS_BYTES_MAX: usize = 4 * 1024 * 1024;
const LISTS_TEXTS_MAX: usize = 65_536;

/// Beginning of the name of each command's directory below [`SCRATCH`], which has the file that it leaves, a home and temporary files.
const DIRECTORY: &str = "work/alone";
const RECORD: &str = "record";
const HOME: &str = "home";
const TEMPORARY: &str = "tmp";

/// Variables that a command does not have from the list: they name places of its own.
const OWN_VARIABLES: [&str; 6] =
    ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];

/// The run whose commands are executed.
pub(crate) struct EndedRun<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) workspace: &'a OwnedFd,
    /// From before the run.
    pub(crate) change_check: ChangeCheck,
    pub(crate) kill: &'a KillSwitch,
    pub(crate) worker: &'a Worker,
    pub(crate) scratch: BorrowedFd<'a>,
    /// How long its commands took.
    pub(crate) wall: Duration,
    /// Word that the run could not know.
    pub(crate) nonce: u64,
}

impl EndedRun<'_> {
    /// Executes the commands that are listed among these artifacts as long as there is time, one of each list at a time; which comes first
    /// differs from run to run. What they left takes the place of the lists: as `DIRECTORY/alone-NUMBER`, where the list was
    /// `DIRECTORY/alone`. Returns whether the worker is idle, and no process is alive but its init.
    pub(crate) fn execute_commands(&self, artifacts: &mut Vec<Artifact>) -> bool {
        let began = Instant::now();
        let lists = take_lists(artifacts);
        // Of a command that keeps values in the workspace, it is not known what it does alone.
        if lists.is_empty() || !self.change_check.is_unchanged() {
            return true;
        }
        let left = Duration::from_millis(self.spec.limits.wall_ms_max).saturating_sub(self.wall);
        let most = (self.wall / RUN_PART).clamp(ALL_TIMES.0, ALL_TIMES.1).max(self.wall / LONG_RUN_PART);
        let first_most = most.max(ALL_TIMES.1);
        let start = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos() as usize);
        let turns = lists.iter().map(|(_, list)| list.first.len()).max().unwrap_or(0);
        let turns = (0..turns).flat_map(|turn| lists.iter().map(move |list| (turn, list)));
        let turns = turns.filter_map(|(turn, (path, list))| Some((path, list, list.at(start, turn)?)));
        let mut bytes_left = RECORDS_BYTES_MAX;
        for (number, (path, list, (took, argument))) in turns.enumerate() {
            let time_left = if number < FIRST { first_most } else { most }.min(left).saturating_sub(began.elapsed());
            if time_left.is_zero() {
                break;
            }
            let time = (*took * ONE_FACTOR).max(ONE_MIN).min(time_left);
            let Some((exit, record)) = self.execute_one(number, list, argument, (time, bytes_left)) else {
                return false;
            };
            match (exit, record) {
                // This kernel cannot confine any.
                (Exit::NotStarted(libc::ENOSYS | libc::EOPNOTSUPP), _) => break,
                (Exit::Code(0), Some(bytes)) => {
                    bytes_left = bytes_left.saturating_sub(bytes.len() as u64);
                    artifacts.push(Artifact { path: format!("{path}{ALONE_COMMANDS}-{number}"), bytes });
                }
                _ => {}
            }
        }
        true
    }

    /// Executes one command. Returns how it ended and what it left; `None` if the worker did not survive it.
    fn execute_one(
        &self,
        number: usize,
        list: &CommandList,
        argument: &str,
        (time, bytes_max): (Duration, u64),
    ) -> Option<(Exit, Option<Vec<u8>>)> {
        let own = format!("{DIRECTORY}-{:x}-{number}", self.nonce);
        let inside = |name: &str| format!("{SCRATCH}/{own}/{name}");
        let own_variables = [("HOME", HOME), ("TMPDIR", TEMPORARY), (ALONE_RECORD, RECORD)];
        let own_variables = own_variables.map(|(name, file)| (name.to_owned(), inside(file)));
        let jail = &self.spec.jail;
        let confinement = Confinement {
            writable: format!("{SCRATCH}/{own}").into(),
            readable: jail
                .read_only
                .iter()
                .chain(&jail.writable)
                .chain([&jail.workspace, &list.program])
                .cloned()
                .collect(),
        };
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let spec = RunSpec {
            // The run has them already.
            jail: Jail { links: Vec::new(), ..jail.clone() },
            commands: vec![CommandSpec {
                program: list.program.clone(),
                args: iter::once(argument).chain(list.args.iter().map(String::as_str)).map(str::to_owned).collect(),
                dir: list.dir.clone(),
                env: list.env.iter().cloned().chain(own_variables).collect(),
            }],
            stack_requests: Vec::new(),
            scratch_files: Vec::new(),
            scratch_dirs: [HOME, TEMPORARY].map(|name| format!("{own}/{name}")).into(),
            artifacts: String::new(),
            report: false,
            alone: false,
            limits: Limits { wall_ms_max: ms(time), grace_ms: ms(GRACE), ..self.spec.limits },
            required_limits: Vec::new(),
        };
        if validate(&spec).is_err() {
            return Some((Exit::NotStarted(libc::EINVAL), None));
        }
        let mut sink = |_: SandboxEvent<'_>| {};
        let run = RunLoop::new(&spec, self.workspace, self.kill, self.worker, &mut sink, Instant::now());
        let observations = run.confined(&confinement).run().ok().filter(|observations| observations.is_empty)?;
        let exit = *observations.exits.first()?;
        let is_whole = exit == Exit::Code(0) && observations.killed.is_none();
        let record = is_whole.then(|| read_below(self.scratch, &format!("{own}/{RECORD}"), bytes_max)).flatten();
        Some((exit, record))
    }
}

/// Takes the lists that can be read, with the paths of their directories, out of a run's artifacts.
fn take_lists(artifacts: &mut Vec<Artifact>) -> Vec<(String, CommandList)> {
    let is_list = |artifact: &mut Artifact| artifact.path.rsplit('/').next() == Some(ALONE_COMMANDS);
    let (mut bytes_left, mut texts_left) = (LISTS_BYTES_MAX, LISTS_TEXTS_MAX);
    let mut lists = Vec::new();
    for Artifact { path, bytes } in artifacts.extract_if(.., is_list) {
        let Some(left) = bytes_left.checked_sub(bytes.len()) else { continue };
        bytes_left = left;
        let list = CommandList::parse(&bytes, &mut texts_left);
        lists.extend(path.strip_suffix(ALONE_COMMANDS).map(str::to_owned).zip(list));
    }
    lists
}

/// Commands that differ in their first argument only.
#[derive(Debug, PartialEq, Eq)]
struct CommandList {
    program: PathBuf,
    dir: PathBuf,
    env: Vec<(String, String)>,
    args: Vec<String>,
    /// The first argument of each command, and how long it is thought to take.
    first: Vec<(Duration, String)>,
}

impl CommandList {
    /// Reads a list: texts that end with a NUL character, of which the first letter says what they are. `None` if it is damaged, or has more
    /// than `texts_left`, of which it takes its own.
    fn parse(bytes: &[u8], texts_left: &mut usize) -> Option<CommandList> {
        let (mut program, mut dir) = (None, None);
        let (mut env, mut args, mut first) = (Vec::new(), Vec::new(), Vec::new());
        for text in std::str::from_utf8(bytes).ok()?.split_terminator('\0') {
            *texts_left = texts_left.checked_sub(1)?;
            let (kind, text) = text.split_at_checked(1)?;
            match kind {
                "P" => program = Some(text.into()),
                "D" => dir = Some(text.into()),
                "V" => {
                    let (name, value) = text.split_once('=')?;
                    if !OWN_VARIABLES.contains(&name) {
                        env.push((name.to_owned(), value.to_owned()));
                    }
                }
                "A" => args.push(text.to_owned()),
                "C" => {
                    let (ms, argument) = text.split_once(' ')?;
                    first.push((Duration::from_millis(ms.parse::<u32>().ok()?.into()), argument.to_owned()));
                }
                _ => return None,
            }
        }
        Some(CommandList { program: program?, dir: dir?, env, args, first })
    }

    /// The first argument of the command of a turn, where that of the first turn has this number or one that is as good. `None` if each
    /// has had its turn.
    fn at(&self, start: usize, turn: usize) -> Option<&(Duration, String)> {
        let number = start.checked_add(turn)?.checked_rem(self.first.len())?;
        self.first.get(number).filter(|_| turn < self.first.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_list() {
        let list = CommandList::parse(b"P/s/p\0D/w\0VA=b=c\0VHOME=/h\0A-x\0C5 -run=T\0C70000 \0", &mut 7).unwrap();
        let expected = CommandList {
            program: "/s/p".into(),
            dir: "/w".into(),
            env: vec![("A".to_owned(), "b=c".to_owned())],
            args: vec!["-x".to_owned()],
            first: vec![(Duration::from_millis(5), "-run=T".to_owned()), (Duration::from_secs(70), String::new())],
        };
        assert_eq!(list, expected);
        let damaged: [&[u8]; 7] =
            [b"", b"P/p\0", b"P/p\0D/w\0X\0", b"P/p\0D/w\0\0", b"P/p\0D/w\0VA\0", b"P/p\0D/w\0C-1 a\0", b"\xff"];
        for damaged in damaged {
            assert_eq!(CommandList::parse(damaged, &mut 100), None, "{damaged:?}");
        }
        assert_eq!(CommandList::parse(b"P/p\0D/w\0A-x\0", &mut 2), None, "more texts than there may be");
    }

    #[test]
    fn takes_lists_out_of_the_artifacts() {
        let artifact = |path: &str, bytes: &[u8]| Artifact { path: path.to_owned(), bytes: bytes.to_vec() };
        let mut artifacts = vec![
            artifact("a/alone", b"P/p\0D/w\0"),
            artifact("a/alone/tests", b""),
            artifact("alone", b"P/q\0D/w\0"),
            artifact("b/alone", b"damaged"),
            artifact("c/alone", &vec![b'x'; LISTS_BYTES_MAX + 1]),
            artifact("d/not-alone", b""),
        ];
        let lists = take_lists(&mut artifacts);
        let lists: Vec<_> = lists.iter().map(|(path, list)| (path.as_str(), list.program.to_str().unwrap())).collect();
        assert_eq!(lists, [("a/", "/p"), ("", "/q")]);
        assert_eq!(artifacts, [artifact("a/alone/tests", b""), artifact("d/not-alone", b"")]);
    }

    #[test]
    fn each_command_has_one_turn() {
        let first = (0..3).map(|number| (Duration::ZERO, number.to_string())).collect();
        let list = CommandList { program: "/p".into(), dir: "/".into(), env: Vec::new(), args: Vec::new(), first };
        let turns =
            |start| (0..9).filter_map(|turn| Some(list.at(start, turn)?.1.as_str())).collect::<Vec<_>>().concat();
        assert_eq!([turns(0), turns(5), turns(usize::MAX - 1)].join(" "), "012 201 20");
    }
}

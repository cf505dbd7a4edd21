//! What is said of a command that could not be started. Must not know how one is started.

use crate::spec::CommandSpec;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// What init knows of it: the kernel's number alone tells neither a directory from a program nor a program from its
/// interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unstarted {
    pub(crate) step: Step,
    /// The kernel's number.
    pub(crate) errno: i32,
    /// The run's user, on the host as inside.
    pub(crate) uid: u32,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// To enter the working directory.
    Enter,
    /// To execute the program.
    Execute {
        /// Whether its file is there.
        is_there: bool,
    },
}

impl Unstarted {
    /// A sentence for a person.
    pub(crate) fn note(self, command: &CommandSpec, workspace: &Path) -> String {
        let Unstarted { step, errno, uid } = self;
        let (dir, program) = (place(&command.dir, workspace), place(&command.program, workspace));
        let other = io::Error::from_raw_os_error(errno);
        match (step, errno) {
            (Step::Enter, libc::EACCES) => format!("the run's user {uid} may not enter {dir}: chown or chmod it"),
            (Step::Enter, _) => format!("the run could not enter {dir}: {other}"),
            (_, libc::ENOEXEC) => {
                format!("{program} was not started: it has no `#!` line and is no program of this machine")
            }
            (Step::Execute { is_there: true }, libc::ENOENT) => format!(
                "{program} was not started: it is there, but its interpreter is missing (that of its `#!` line, or its \
                 dynamic loader)"
            ),
            (_, libc::ENOENT) => format!("{program} was not started: no such file in the sandbox"),
            (_, libc::EACCES) => format!(
                "{program} was not started: it, or the interpreter that it names, may not be executed by the run's user {uid}"
            ),
            (_, libc::EAGAIN) => {
                format!("{program} was not started: the limit of processes (pids) leaves no room for it")
            }
            _ => format!("{program} was not started: {other}"),
        }
    }
}

// As the caller knows it: where something of the host's lies is nobody's business.
fn place(path: &Path, workspace: &Path) -> String {
    match path.strip_prefix(workspace) {
        Ok(below) if below.as_os_str().is_empty() => "the workspace".to_owned(),
        Ok(below) => format!("`{}`", below.display()),
        Err(_) => format!("`{}`", Path::new(path.file_name().unwrap_or(path.as_os_str())).display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_has_its_own_words() {
        let said = |step, errno, dir: &str, program: &str| {
            let command = CommandSpec { program: program.into(), args: vec![], dir: dir.into(), env: vec![] };
            Unstarted { step, errno, uid: 7 }.note(&command, Path::new("/ws"))
        };
        let (there, gone) = (Step::Execute { is_there: true }, Step::Execute { is_there: false });
        for (step, errno, dir, program, words) in [
            (Step::Enter, libc::EACCES, "/ws", "/bin/sh", "user 7 may not enter the workspace: chown or chmod it"),
            (Step::Enter, libc::EACCES, "/ws/a/b", "/bin/sh", "user 7 may not enter `a/b`"),
            (Step::Enter, libc::ENOENT, "/ws/a", "/bin/sh", "could not enter `a`: No such file"),
            (there, libc::ENOEXEC, "/ws", "/ws/x.sh", "`x.sh` was not started: it has no `#!` line"),
            (there, libc::ENOENT, "/ws", "/ws/x.sh", "its interpreter is missing"),
            (gone, libc::ENOENT, "/ws", "/home/of/a/go", "`go` was not started: no such file"),
            (there, libc::EACCES, "/ws", "/ws/x.sh", "may not be executed by the run's user 7"),
            (there, libc::EAGAIN, "/ws", "/bin/sh", "`sh` was not started: the limit of processes (pids)"),
            (there, libc::E2BIG, "/ws", "/bin/sh", "`sh` was not started: Argument list too long"),
        ] {
            let note = said(step, errno, dir, program);
            assert!(note.contains(words), "{note}");
        }
    }
}

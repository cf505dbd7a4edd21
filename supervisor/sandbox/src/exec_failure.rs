//! Why a command could not be started, and the sentence that says so.

use crate::spec::CommandSpec;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// What init knows about a failed start: the kernel's errno alone distinguishes neither a directory from a program nor
/// a program from its interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecFailure {
    pub(crate) stage: ExecStage,
    /// Errno of the kernel.
    pub(crate) errno: i32,
    /// User of the run, the same on the host and inside.
    pub(crate) uid: u32,
}

/// Step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExecStage {
    /// Entering the working directory.
    EnterDirectory,
    /// Executing the program.
    Execute {
        /// Whether the program's file exists.
        exists: bool,
    },
}

impl ExecFailure {
    /// A sentence for a person.
    pub(crate) fn note(self, command: &CommandSpec, workspace: &Path) -> String {
        let ExecFailure { stage, errno, uid } = self;
        let (dir, program) = (displayed_path(&command.dir, workspace), displayed_path(&command.program, workspace));
        let other = io::Error::from_raw_os_error(errno);
        match (stage, errno) {
            (ExecStage::EnterDirectory, libc::EACCES) => {
                format!("the run's user {uid} may not enter {dir}: chown or chmod it")
            }
            (ExecStage::EnterDirectory, _) => format!("the run could not enter {dir}: {other}"),
            (_, libc::ENOEXEC) => {
                format!("{program} was not started: it has no `#!` line and is no program of this machine")
            }
            (ExecStage::Execute { exists: true }, libc::ENOENT) => format!(
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

// Relative to the workspace: paths of the host must not be shown.
fn displayed_path(path: &Path, workspace: &Path) -> String {
    match path.strip_prefix(workspace) {
        Ok(relative) if relative.as_os_str().is_empty() => "the workspace".to_owned(),
        Ok(relative) => format!("`{}`", relative.display()),
        Err(_) => format!("`{}`", Path::new(path.file_name().unwrap_or(path.as_os_str())).display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_each_failure_in_its_own_words() {
        let note_for = |stage, errno, dir: &str, program: &str| {
            let command = CommandSpec { program: program.into(), args: vec![], dir: dir.into(), env: vec![] };
            ExecFailure { stage, errno, uid: 7 }.note(&command, Path::new("/ws"))
        };
        let (there, gone) = (ExecStage::Execute { exists: true }, ExecStage::Execute { exists: false });
        for (stage, errno, dir, program, words) in [
            (
                ExecStage::EnterDirectory,
                libc::EACCES,
                "/ws",
                "/bin/sh",
                "user 7 may not enter the workspace: chown or chmod it",
            ),
            (ExecStage::EnterDirectory, libc::EACCES, "/ws/a/b", "/bin/sh", "user 7 may not enter `a/b`"),
            (ExecStage::EnterDirectory, libc::ENOENT, "/ws/a", "/bin/sh", "could not enter `a`: No such file"),
            (there, libc::ENOEXEC, "/ws", "/ws/x.sh", "`x.sh` was not started: it has no `#!` line"),
            (there, libc::ENOENT, "/ws", "/ws/x.sh", "its interpreter is missing"),
            (gone, libc::ENOENT, "/ws", "/home/of/a/go", "`go` was not started: no such file"),
            (there, libc::EACCES, "/ws", "/ws/x.sh", "may not be executed by the run's user 7"),
            (there, libc::EAGAIN, "/ws", "/bin/sh", "`sh` was not started: the limit of processes (pids)"),
            (there, libc::E2BIG, "/ws", "/bin/sh", "`sh` was not started: Argument list too long"),
        ] {
            let note = note_for(stage, errno, dir, program);
            assert!(note.contains(words), "{note}");
        }
    }
}

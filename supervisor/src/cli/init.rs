//! `proctor init`: writes a first project file, with every key as a comment.

use super::arguments::InitArgs;
use super::{CommandError, in_process, print};
use crate::random_id::random_id;
use crate::runs::project_file::{PATHS, schema, template};
use proctor_core::request::{ALL_FRAMEWORKS, Selection};
use proctor_frameworks::{FileTree, FrameworkChoice, detection};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Writes the file, or prints its schema.
pub(super) fn init(arguments: &InitArgs) -> Result<u8, CommandError> {
    if arguments.schema {
        return print::text(&schema()).map(|()| 0);
    }
    let workspace = in_process::workspace(&arguments.path)?;
    let scan = workspace.scan().map_err(|error| in_process::path_failure("workspace", &error))?;
    if !arguments.force {
        refuse_to_replace(&scan.tree)?;
    }
    let frameworks = detection::choose(&scan.tree, Some(ALL_FRAMEWORKS), &Selection::All)
        .map(|chosen| FrameworkChoice::names(&chosen))
        .unwrap_or_default();
    write(workspace.root(), &template(&frameworks), arguments.force)?;
    let found = if frameworks.is_empty() { "no framework is detected".to_owned() } else { frameworks.join(", ") };
    print::text(&format!("wrote {} ({found}): every key is a comment, so runs are as before", PATHS[0])).map(|()| 0)
}

fn refuse_to_replace(tree: &FileTree) -> Result<(), CommandError> {
    let [own, nested] = PATHS;
    if tree.contains(own) {
        return Err(already_there());
    }
    if tree.contains(nested) {
        let text = format!("{nested} is the project file here: --force writes {own}, which takes its place");
        return Err(CommandError::usage(text));
    }
    Ok(())
}

fn already_there() -> CommandError {
    CommandError::usage(format!("{} exists: --force replaces it", PATHS[0]))
}

/// Writes the file. Neither a file nor a link's target is ever written to: a new file, written whole, takes the place of what has
/// its name.
fn write(root: &Path, text: &str, replace: bool) -> Result<(), CommandError> {
    let path = root.join(PATHS[0]);
    let unwritten = |error: &std::io::Error| CommandError::host(format!("{} cannot be written: {error}", PATHS[0]));
    let word = random_id().ok_or_else(|| CommandError::host("the kernel gives no random numbers"))?;
    let new = root.join(format!("{}.{}.new", PATHS[0], word.as_str()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&new).map_err(|error| unwritten(&error))?;
    let written = file.write_all(text.as_bytes());
    let placed =
        written.and_then(|()| if replace { std::fs::rename(&new, &path) } else { rename_to_free(&new, &path) });
    placed.map_err(|error| {
        _ = std::fs::remove_file(&new);
        if error.kind() == ErrorKind::AlreadyExists && !replace { already_there() } else { unwritten(&error) }
    })
}

/// Renames a file to a name that nothing has. An error if something has it.
fn rename_to_free(from: &Path, to: &Path) -> std::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system has no such rename; a second name is refused as well if it is taken.
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        renamed => renamed.map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn removes_no_file_that_it_did_not_create() {
        let dir = tempfile::tempdir().unwrap();
        let other = format!("{}.{}.new", PATHS[0], std::process::id());
        fs::write(dir.path().join(&other), "mine").unwrap();
        write(dir.path(), "a: 1\n", true).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(&other)).unwrap(), "mine");
        assert_eq!(names(dir.path()), [PATHS[0].to_owned(), other]);
    }

    #[test]
    fn leaves_nothing_behind_where_the_file_cannot_be_placed() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a: 1\n", false).unwrap();
        assert!(write(dir.path(), "b: 2\n", false).unwrap_err().text.contains("--force replaces it"));
        assert_eq!(fs::read_to_string(dir.path().join(PATHS[0])).unwrap(), "a: 1\n");
        fs::remove_file(dir.path().join(PATHS[0])).unwrap();
        fs::create_dir(dir.path().join(PATHS[0])).unwrap();
        for replace in [true, false] {
            assert!(write(dir.path(), "c: 3\n", replace).is_err());
        }
        assert_eq!(names(dir.path()), [PATHS[0]]);
    }
}

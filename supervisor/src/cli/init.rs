//! `proctor init`: writes a first project file, with every key as a comment.

use super::arguments::InitArgs;
use super::{CommandError, in_process, print};
use crate::runs::project_file::{PATHS, schema, template};
use proctor_core::request::{ALL_FRAMEWORKS, Selection};
use proctor_frameworks::{FileTree, FrameworkChoice, detection};
use std::fs::{File, OpenOptions};
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

/// Writes the file. Neither a file nor a link's target is ever written to: a new file takes the place of what has its name.
fn write(root: &Path, text: &str, replace: bool) -> Result<(), CommandError> {
    let path = root.join(PATHS[0]);
    let unwritten = |error: &std::io::Error| CommandError::host(format!("{} cannot be written: {error}", PATHS[0]));
    let create = |path: &Path| -> std::io::Result<File> { OpenOptions::new().write(true).create_new(true).open(path) };
    if !replace {
        let mut file = create(&path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => already_there(),
            _ => unwritten(&error),
        })?;
        return file.write_all(text.as_bytes()).map_err(|error| unwritten(&error));
    }
    let new = root.join(format!("{}.{}.new", PATHS[0], std::process::id()));
    let written =
        create(&new).and_then(|mut file| file.write_all(text.as_bytes())).and_then(|()| std::fs::rename(&new, &path));
    written.map_err(|error| {
        _ = std::fs::remove_file(&new);
        unwritten(&error)
    })
}

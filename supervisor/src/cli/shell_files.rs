//! `proctor completions` and `proctor man-pages`: files that a shell and `man` read, generated from the definition of the
//! command line.

use super::arguments::{Cli, CompletionsArgs, ManPagesArgs};
use super::{CommandError, print};
use clap::CommandFactory;
use clap_complete::generate;

/// Prints the completions of one shell.
pub(super) fn completions(arguments: &CompletionsArgs) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut Cli::command(), "proctor", &mut script);
    print::bytes(&script).map(|()| 0)
}

/// Writes a page for the program and one for each subcommand.
pub(super) fn man_pages(arguments: &ManPagesArgs) -> Result<u8, CommandError> {
    let dir = &arguments.dir;
    clap_mangen::generate_to(Cli::command(), dir)
        .map_err(|error| CommandError::host(format!("{}: the pages cannot be written: {error}", dir.display())))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::Shell;
    use std::fs;

    #[test]
    fn completions_name_every_visible_command() {
        let mut cli = Cli::command();
        cli.build();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            generate(shell, &mut Cli::command(), "proctor", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn each_visible_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(man_pages(&ManPagesArgs { dir: dir.path().to_owned() }).unwrap(), 0);
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = fs::read_to_string(dir.path().join(format!("proctor-{}.1", command.get_name()))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{}: {page}", command.get_name());
        }
        // A dash of an option is escaped in roff.
        let page = fs::read_to_string(dir.path().join("proctor.1")).unwrap().replace(r"\-", "-");
        assert!(page.contains("proctor run --failed"), "{page}");
        assert!(!dir.path().join("proctor-man-pages.1").exists());
        assert!(man_pages(&ManPagesArgs { dir: dir.path().join("absent") }).unwrap_err().text.contains("absent"));
    }
}

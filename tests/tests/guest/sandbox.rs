//! The sandbox crate's own suites, all of them, unchanged: its unit tests and every file of `supervisor/sandbox/tests`.

use proctor_tests::guest::Guest;
use proctor_tests::process::{command, sources};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What cargo builds of a package for its tests.
struct Built {
    suites: Vec<PathBuf>,
    /// Programs that the suites expect beside them.
    examples: Vec<PathBuf>,
}

fn built(package: &str) -> Built {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = command(Path::new(&cargo));
    // Cargo is no program under test: it needs what the person's shell has.
    cargo.envs(std::env::vars_os()).current_dir(sources()).stdin(Stdio::null()).stderr(Stdio::inherit());
    cargo.args(["test", "--locked", "--quiet", "--no-run", "--message-format=json", "-p", package]);
    let output = cargo.stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "cargo: {}", output.status);
    let mut built = Built { suites: Vec::new(), examples: Vec::new() };
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        if let Some(executable) = message["executable"].as_str() {
            let test = message["profile"]["test"] == true;
            if test { &mut built.suites } else { &mut built.examples }.push(executable.into());
        }
    }
    built.suites.sort();
    built
}

#[test]
fn its_suites_hold_on_cgroup_v2() {
    let Built { suites, examples } = built("proctor-sandbox");
    let names =
        |suites: &[PathBuf]| -> Vec<String> { suites.iter().map(|suite| suite.to_str().unwrap().to_owned()).collect() };
    let suites = names(&suites);
    assert!(suites.len() >= 6, "{suites:?}");
    let guest = suites.iter().fold(Guest::new(), Guest::file);
    let guest = examples.iter().fold(guest, Guest::file);
    let lines: Vec<[&str; 1]> = suites.iter().map(|suite| [suite.as_str()]).collect();
    let lines: Vec<&[&str]> = lines.iter().map(<[&str; 1]>::as_slice).collect();
    let outcome = guest.run(&lines);
    for command in &outcome.commands {
        let closing = command.output.lines().find(|line| line.starts_with("test result: "));
        let name = Path::new(&command.line).file_name().unwrap().to_str().unwrap();
        println!("{name}: {}", closing.unwrap_or("no closing line"));
    }
    println!("boot {:?}, all {:?}, {} bytes of files", outcome.boot, outcome.took, outcome.disk_bytes);
    assert_eq!(outcome.commands.len(), suites.len(), "{}", outcome.all());
    outcome.assert_succeeded();
}

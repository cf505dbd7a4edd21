//! The sandbox crate's own suites, unchanged: its unit tests and every file of `supervisor/sandbox/tests`, but for the few
//! tests that would tell nothing new.

use proctor_tests::process::{command, source_root};
use proctor_tests::qemu_guest::Guest;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Tests that are not run, by a part of their names: they take long where every instruction is emulated, and no kernel
/// answers them in another way.
const NOT_HERE: [&str; 8] = [
    // There is no compiler and no Git in the guest.
    "programs::go_",
    "programs::rust_",
    "programs::programs_that_reserve_space_",
    // The same as what there is, where no v1 is.
    "with_v1_only_if_there_is_v1::",
    // On v2 what a run needs of descriptors before it begins is more than what it needs then.
    "a_run_whose_pipes_find_no_descriptor_was_begun_once",
    // A hundred thousand files, and as many runs as it takes to find two threads at one lock.
    "too_many_files_are_too_much_on_disk",
    "a_deleted_file_is_seen_beside_many_others",
    "many_threads_share_one_pool",
];

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
    cargo.envs(std::env::vars_os()).current_dir(source_root()).stdin(Stdio::null()).stderr(Stdio::inherit());
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
    // Ten times as long as on a machine with nothing else to do.
    let guest = examples.iter().fold(guest, Guest::file).within(Duration::from_secs(1_500));
    let skipped = || NOT_HERE.into_iter().flat_map(|name| ["--skip", name]);
    let lines: Vec<Vec<&str>> =
        suites.iter().map(|suite| std::iter::once(suite.as_str()).chain(skipped()).collect()).collect();
    let lines: Vec<&[&str]> = lines.iter().map(Vec::as_slice).collect();
    let outcome = guest.run(&lines);
    for command in &outcome.commands {
        let closing = command.output.lines().find(|line| line.starts_with("test result: "));
        let program = command.line.split(' ').next().unwrap();
        let name = Path::new(program).file_name().unwrap().to_str().unwrap();
        println!("{name}: {}, took {:?}", closing.unwrap_or("no closing line"), command.took);
    }
    println!("boot {:?}, all {:?}, {} bytes of files", outcome.boot, outcome.took, outcome.disk_bytes);
    assert_eq!(outcome.commands.len(), suites.len(), "{}", outcome.all());
    outcome.assert_succeeded();
}

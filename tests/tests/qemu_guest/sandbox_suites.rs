//! Runs the sandbox crate's own tests in the guest: its unit tests and all files of `supervisor/sandbox/tests`, except tests
//! that would add nothing there.

use proctor_tests::process::{command, source_root};
use proctor_tests::qemu_guest::Guest;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Parts of the names of tests that are skipped: they are slow under emulation, and the kernel makes no difference to them,
/// or the guest lacks what they need.
const SKIPPED: [&str; 8] = [
    // There is no compiler and no Git in the guest.
    "programs::go_",
    "programs::rust_",
    "programs::programs_that_reserve_space_",
    // Without cgroup v1 in the guest it tests the same as another test.
    "with_v1_only_if_there_is_v1::",
    // On v2 a run needs more descriptors before its start than after it.
    "a_run_whose_pipes_find_no_descriptor_was_begun_once",
    // Makes 100,000 files, or needs many runs until two threads meet at one lock.
    "too_many_files_are_too_much_on_disk",
    "a_deleted_file_is_seen_beside_many_others",
    "many_threads_share_one_pool",
];

/// Test executables that cargo builds for a package.
struct TestBuild {
    suites: Vec<PathBuf>,
    /// Programs that the suites expect beside them.
    examples: Vec<PathBuf>,
}

fn build_tests(package: &str) -> TestBuild {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = command(Path::new(&cargo));
    // Cargo is not under test and needs the caller's environment.
    cargo.envs(std::env::vars_os()).current_dir(source_root()).stdin(Stdio::null()).stderr(Stdio::inherit());
    cargo.args(["test", "--locked", "--quiet", "--no-run", "--message-format=json", "-p", package]);
    let output = cargo.stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "cargo: {}", output.status);
    let mut build = TestBuild { suites: Vec::new(), examples: Vec::new() };
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        if let Some(executable) = message["executable"].as_str() {
            let test = message["profile"]["test"] == true;
            if test { &mut build.suites } else { &mut build.examples }.push(executable.into());
        }
    }
    build.suites.sort();
    build
}

#[test]
fn sandbox_suites_pass_on_cgroup_v2() {
    let TestBuild { suites, examples } = build_tests("proctor-sandbox");
    let names =
        |suites: &[PathBuf]| -> Vec<String> { suites.iter().map(|suite| suite.to_str().unwrap().to_owned()).collect() };
    let suites = names(&suites);
    assert!(suites.len() >= 6, "{suites:?}");
    let guest = suites.iter().fold(Guest::new(), Guest::file);
    // Ten times the duration on an idle machine.
    let guest = examples.iter().fold(guest, Guest::file).timeout(Duration::from_secs(1_500));
    let skipped = || SKIPPED.into_iter().flat_map(|name| ["--skip", name]);
    let lines: Vec<Vec<&str>> =
        suites.iter().map(|suite| std::iter::once(suite.as_str()).chain(skipped()).collect()).collect();
    let lines: Vec<&[&str]> = lines.iter().map(Vec::as_slice).collect();
    let result = guest.run(&lines);
    for command in &result.commands {
        let closing = command.output.lines().find(|line| line.starts_with("test result: "));
        let program = command.line.split(' ').next().unwrap();
        let name = Path::new(program).file_name().unwrap().to_str().unwrap();
        println!("{name}: {}, took {:?}", closing.unwrap_or("no closing line"), command.duration);
    }
    println!("boot {:?}, all {:?}, {} bytes of files", result.boot, result.duration, result.disk_bytes);
    assert_eq!(result.commands.len(), suites.len(), "{}", result.describe());
    result.assert_succeeded();
}

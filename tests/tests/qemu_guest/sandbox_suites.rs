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
    "with_v1_only::",
    // On v2 a run needs more descriptors before its start than after it.
    "a_run_whose_pipes_cannot_be_received_is_started_once",
    // Makes 100,000 files, or needs many runs until two threads meet at one lock.
    "too_many_files_exceed_the_disk_limit",
    "a_deleted_file_counts_in_a_workspace_of_many_files",
    "many_threads_share_one_pool",
];

/// Executables that cargo builds for the tests of one crate.
struct TestBuild {
    suites: Vec<PathBuf>,
    /// Programs that the suites expect beside them.
    examples: Vec<PathBuf>,
}

/// What cargo has built of the crate in `dir`, a directory of the workspace. The whole workspace is named, since a part of it has
/// other features of its dependencies, which would be compiled anew.
fn build_tests(dir: &str) -> TestBuild {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = command(Path::new(&cargo));
    // Cargo is not under test and needs the caller's environment.
    cargo.envs(std::env::vars_os()).current_dir(source_root()).stdin(Stdio::null()).stderr(Stdio::inherit());
    cargo.args(["test", "--locked", "--quiet", "--no-run", "--message-format=json", "--workspace"]);
    let output = cargo.stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "cargo: {}", output.status);
    let manifest = source_root().join(dir).join("Cargo.toml");
    let mut build = TestBuild { suites: Vec::new(), examples: Vec::new() };
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        let executable =
            message["executable"].as_str().filter(|_| message["manifest_path"] == *manifest.to_string_lossy());
        if let Some(executable) = executable {
            let test = message["profile"]["test"] == true;
            if test { &mut build.suites } else { &mut build.examples }.push(executable.into());
        }
    }
    build.suites.sort();
    build
}

#[test]
fn sandbox_suites_pass_on_cgroup_v2() {
    let TestBuild { suites, examples } = build_tests("supervisor/sandbox");
    let names =
        |suites: &[PathBuf]| -> Vec<String> { suites.iter().map(|suite| suite.to_str().unwrap().to_owned()).collect() };
    let suites = names(&suites);
    assert!(suites.len() >= 6, "{suites:?}");
    // A renamed test must not run in the guest unnoticed.
    let list = |suite: &String| command(Path::new(suite)).arg("--list").output().unwrap().stdout;
    let tests: String = suites.iter().map(|suite| String::from_utf8(list(suite)).unwrap()).collect();
    for name in SKIPPED {
        assert!(tests.contains(name), "no test of the sandbox is called {name}");
    }
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

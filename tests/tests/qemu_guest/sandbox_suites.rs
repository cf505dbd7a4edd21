//! Runs the sandbox crate's own tests in the guest: its unit tests and all files of `supervisor/sandbox/tests`, except tests
//! that would add nothing there.

use proctor_tests::process::{command, source_root};
use proctor_tests::qemu_guest::Guest;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Which tests of a suite run in the guest, by parts of their names. Everything is slow under emulation.
enum Chosen {
    /// All but these: the guest lacks what they need, or its kernel and cgroup v2 make no difference to them.
    AllBut(&'static [&'static str]),
    /// Only these, of a suite of which most tests are about what proctor does and not the kernel.
    Only(&'static [&'static str]),
}

use Chosen::{AllBut, Only};

/// Every suite of the sandbox's crate.
const SUITES: &[(&str, Chosen)] = &[
    // The guest's kernel has the second version of Landlock.
    ("alone_commands", Only(&["executes_nothing_that_the_kernel_cannot_confine"])),
    // Without cgroup v1 in the guest the one left out tests the same as another.
    ("proctor_sandbox", AllBut(&["with_v1_only::"])),
    (
        "filters",
        // There is no compiler and no Git in the guest.
        AllBut(&["programs::go_", "programs::rust_", "programs::programs_that_reserve_space_"]),
    ),
    (
        "host_faults",
        AllBut(&[
            // On v2 a run needs more descriptors before its start than after it.
            "a_run_whose_pipes_cannot_be_received_is_started_once",
            // Needs many runs until a removal meets the right step of one.
            "a_removed_group_is_reported_as_removed",
        ]),
    ),
    ("isolation", AllBut(&[])),
    (
        "kills",
        Only(&[
            "at_the_deadline_a_run_gets_sigterm",
            "an_orphan_in_a_session",
            "a_double_forked_daemon",
            "a_worker_killed_from_outside",
            "a_command_stopped_for_a_tracer",
            "processes_in_any_state",
        ]),
    ),
    // These make 100,000 files.
    ("limits", AllBut(&["too_many_files_exceed_the_disk_limit", "a_deleted_file_counts_in_a_workspace_of_many_files"])),
    (
        "pool",
        Only(&["runs_of_one_session_share", "retiring_a_session_leaves_nothing", "two_sessions_in_one_workspace"]),
    ),
    (
        "run_lifecycle",
        Only(&[
            "a_command_gets_only_its_environment",
            "a_replaced_file_has_its_other_content",
            "reports_everything_in_force",
            "reports_the_resources_of_the_run",
            "reports_usage_during_a_run",
            "the_probe_finds_this_host_usable",
        ]),
    ),
    ("supervisors", AllBut(&[])),
];

impl Chosen {
    /// Arguments for the program of a suite.
    fn arguments(&self) -> Vec<&'static str> {
        match self {
            AllBut(names) => names.iter().flat_map(|name| ["--skip", name]).collect(),
            Only(names) => names.to_vec(),
        }
    }

    fn names(&self) -> &'static [&'static str] {
        let (AllBut(names) | Only(names)) = self;
        names
    }
}

/// Hexadecimal digits behind the name of an executable that cargo builds for tests.
const HASH_LEN: usize = 16;

/// The crate whose tests run in the guest.
const CRATE: &str = "supervisor/sandbox";

/// The name and the executable of each of the crate's suites, as the build of this suite left them. Cargo is not asked for them: a
/// build within the tests would have other settings, and compile everything anew.
fn built_suites() -> Vec<(String, PathBuf)> {
    let [sources, tests] = ["src", "tests"].map(|dir| source_root().join(CRATE).join(dir));
    let of_several_files = files(&tests).filter(|path| path.join("main.rs").exists());
    let suites = rust_files(&tests).chain(of_several_files).map(|path| (stem(&path), path));
    let shared = [modified(&sources), modified(&tests.join("support"))];
    let build = std::env::current_exe().unwrap();
    let built: Vec<PathBuf> = files(build.parent().unwrap()).collect();
    let newest = |(name, source): (String, PathBuf)| {
        let of_name = built.iter().filter(|path| {
            let stem = stem(path);
            path.extension().is_none() && stem.strip_prefix(&name).is_some_and(|rest| rest.len() == HASH_LEN + 1)
        });
        let executable = of_name.max_by_key(|path| modified(path)).cloned();
        let executable =
            executable.filter(|path| shared.iter().chain([&modified(&source)]).all(|time| *time <= modified(path)));
        assert!(executable.is_some(), "{name} is not built: cargo build --workspace --bins --examples --tests");
        (name, executable.unwrap())
    };
    let of_sources = ("proctor_sandbox".to_owned(), sources.clone());
    std::iter::once(of_sources).chain(suites).map(newest).collect()
}

/// Programs that the suites expect beside them.
fn built_examples() -> Vec<PathBuf> {
    let dir = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    rust_files(&source_root().join(CRATE).join("examples")).map(|path| dir.join(stem(&path))).collect()
}

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path())
}

fn rust_files(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    files(dir).filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// When a file, or the newest below a directory, was last written.
fn modified(path: &Path) -> SystemTime {
    let found = fs::metadata(path).unwrap();
    let own = found.modified().unwrap();
    if found.is_dir() { files(path).map(|path| modified(&path)).max().unwrap_or(own) } else { own }
}

#[test]
fn sandbox_suites_pass_on_cgroup_v2() {
    let mut suites = built_suites();
    suites.sort();
    let names = |suites: Vec<&str>| -> Vec<String> { suites.into_iter().map(str::to_owned).collect() };
    let mut chosen: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
    chosen.sort_unstable();
    assert_eq!(
        names(suites.iter().map(|(name, _)| name.as_str()).collect()),
        names(chosen),
        "each suite is chosen once"
    );
    let line = |(name, program): &(String, PathBuf)| -> Vec<String> {
        let (_, chosen) = SUITES.iter().find(|(suite, _)| suite == name).unwrap();
        // A renamed test must not be chosen or left out unnoticed.
        let tests = String::from_utf8(command(program).arg("--list").output().unwrap().stdout).unwrap();
        for part in chosen.names() {
            assert!(tests.contains(part), "no test of {name} is called {part}");
        }
        std::iter::once(program.to_str().unwrap().to_owned()).chain(names(chosen.arguments())).collect()
    };
    let lines: Vec<Vec<String>> = suites.iter().map(line).collect();
    let lines: Vec<Vec<&str>> = lines.iter().map(|line| line.iter().map(String::as_str).collect()).collect();
    let lines: Vec<&[&str]> = lines.iter().map(Vec::as_slice).collect();
    let guest = suites.iter().map(|(_, program)| program).chain(&built_examples()).fold(Guest::new(), Guest::file);
    // Ten times the duration on an idle machine.
    let guest = guest.timeout(Duration::from_secs(1_800));
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

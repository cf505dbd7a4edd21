//! Runs the sandbox crate's own tests in the guest: its unit tests and all files of `supervisor/sandbox/tests`, except tests
//! that would add nothing there.

use proctor_tests::process::{command, source_root};
use proctor_tests::qemu_guest::Guest;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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

/// Hexadecimal digits behind the name of an executable that cargo builds for tests.
const HASH_LEN: usize = 16;

/// The crate whose tests run in the guest.
const CRATE: &str = "supervisor/sandbox";

/// The executable of each of the crate's suites, as the build of this suite left them. Cargo is not asked for them: a build within the
/// tests would have other settings, and compile everything anew.
fn built_suites() -> Vec<PathBuf> {
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
        executable.unwrap()
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
    let (suites, examples) = (built_suites(), built_examples());
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

//! A copy of a project that can be broken, and runs of its tests there, by proctor and without it. Must not know any
//! runner.

use crate::project::{Breakage, Project};
use crate::test_results::{Account, TestWorkspace as Spot, is_failure};
use proctor_tests::process::{ProcessOutput, command, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, cache_home, copy};
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A project in a place of its own.
pub(crate) struct Scene {
    /// The project.
    pub(crate) project: &'static Project,
    /// Its copy, at a fixed place below the build directory, so that what was compiled once stays compiled.
    pub(crate) workspace: PathBuf,
    place: TestWorkspace,
}

/// How `proctor run` ended, and its report.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) report: Value,
}

impl Scene {
    /// A fresh copy.
    pub(crate) fn of(project: &'static Project) -> Scene {
        let place = TestWorkspace::empty();
        let source = project.runner.source(project.name);
        let workspace = cache_home().parent().unwrap().join("projects").join(source.file_name().unwrap());
        _ = fs::remove_dir_all(&workspace);
        copy(&source, &workspace);
        let scene = Scene { project, workspace: workspace.canonicalize().unwrap(), place };
        project.runner.prepare(&scene.workspace);
        scene
    }

    /// Runs a program in the project, with as little of our environment as it can do with.
    pub(crate) fn alone(&self, program: &Path, arguments: &[&str], env: &[(&str, OsString)]) -> ProcessOutput {
        let mut command = command(program);
        command.args(arguments).env("HOME", self.home()).env("TMPDIR", self.home()).env("LANG", "C.UTF-8");
        command.envs(env.iter().map(|(name, value)| (name, value))).current_dir(&self.workspace);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        wait_for_exit(command.spawn().unwrap())
    }

    /// A directory for what runs without proctor write.
    pub(crate) fn home(&self) -> PathBuf {
        self.place.root().join("home")
    }

    /// `proctor run`, and what its report says.
    pub(crate) fn proctor(&self, more: &[&str]) -> Ran {
        let mut proctor = self.place.command("proctor");
        proctor.args(["run", self.workspace.to_str().unwrap(), "--output", "json"]).args(more);
        let said = wait_for_exit(proctor.envs(self.project.runner.environment()).spawn().unwrap());
        assert!(!said.stdout.is_empty(), "{said:?}");
        Ran { status: said.status, report: said.json() }
    }

    /// A report as an account.
    pub(crate) fn account(&self, report: &Value) -> Account {
        let mut account = Account::default();
        for test in report["tests"].as_array().unwrap() {
            let (key, outcome) = (self.project.runner.key(test), test["outcome"].as_str().unwrap());
            account.add(&key, outcome);
            if is_failure(outcome) {
                account.failures.get_mut(&key).unwrap().extend(spot(test));
            }
        }
        account.unbuilt = report["collectors"].as_array().unwrap().iter().filter_map(spot).collect();
        account
    }

    /// Breaks the project.
    pub(crate) fn break_with(&self, breakage: &Breakage) {
        self.replace(breakage.file, breakage.from, breakage.to);
    }

    /// Takes a breakage back.
    pub(crate) fn mend(&self, breakage: &Breakage) {
        self.replace(breakage.file, breakage.to, breakage.from);
    }

    fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.workspace.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {file}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// Where the project is broken now: the line in which what takes the text's place begins.
    pub(crate) fn seed(&self, breakage: &Breakage) -> Spot {
        let text = fs::read_to_string(self.workspace.join(breakage.file)).unwrap();
        let before = &text[..text.find(breakage.to).unwrap()];
        (breakage.file.to_owned(), before.matches('\n').count() as u64 + 1)
    }

    /// A file that a runner names, relative to the workspace; nothing for one that is not the project's.
    pub(crate) fn own(&self, file: &str) -> Option<String> {
        let file = file.strip_prefix("file://").unwrap_or(file);
        let path = self.workspace.join(file).canonicalize().ok()?;
        let own = path.strip_prefix(&self.workspace).ok()?.to_str()?;
        (path.is_file() && !own.starts_with("node_modules/")).then(|| own.to_owned())
    }

    /// A place that a runner names.
    pub(crate) fn spot(&self, file: &str, line: &str) -> Option<Spot> {
        Some((self.own(file)?, line.parse().ok()?))
    }
}

fn spot(record: &Value) -> Option<Spot> {
    Some((record["file"].as_str()?.to_owned(), record["line"].as_u64()?))
}

//! A copy of a project that can be broken, and runs of its tests there, with and without proctor.

use crate::project::{Breakage, Project};
use crate::test_results::{SourceLocation, TestResults, is_failure};
use proctor_tests::process::{ProcessOutput, command, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, cache_home, copy};
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A copy of a project.
pub(crate) struct ProjectCopy {
    /// The project.
    pub(crate) project: &'static Project,
    /// The copy, at a fixed path below the build directory, so that compiled artifacts stay valid.
    pub(crate) workspace: PathBuf,
    directories: TestWorkspace,
}

/// Exit status of `proctor run` and its report.
pub(crate) struct ProctorRun {
    pub(crate) status: i32,
    pub(crate) report: Value,
}

impl ProjectCopy {
    /// Makes a fresh copy.
    pub(crate) fn new(project: &'static Project) -> ProjectCopy {
        let directories = TestWorkspace::empty();
        let source = project.runner.source(project.name);
        let workspace = cache_home().parent().unwrap().join("projects").join(source.file_name().unwrap());
        _ = fs::remove_dir_all(&workspace);
        copy(&source, &workspace);
        let copy = ProjectCopy { project, workspace: workspace.canonicalize().unwrap(), directories };
        project.runner.prepare(&copy.workspace);
        copy
    }

    /// Runs a program in the project with a minimal environment.
    pub(crate) fn run_program(&self, program: &Path, arguments: &[&str], env: &[(&str, OsString)]) -> ProcessOutput {
        let mut command = command(program);
        command.args(arguments).env("HOME", self.home()).env("TMPDIR", self.home()).env("LANG", "C.UTF-8");
        command.envs(env.iter().map(|(name, value)| (name, value))).current_dir(&self.workspace);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        wait_for_exit(command.spawn().unwrap())
    }

    /// Directory in which programs without proctor may write.
    pub(crate) fn home(&self) -> PathBuf {
        self.directories.root().join("home")
    }

    /// Runs `proctor run` and parses its report.
    pub(crate) fn run_proctor(&self, more: &[&str]) -> ProctorRun {
        let mut proctor = self.directories.command("proctor");
        proctor.args(["run", self.workspace.to_str().unwrap(), "--output", "json"]).args(more);
        let output = wait_for_exit(proctor.envs(self.project.runner.environment()).spawn().unwrap());
        assert!(!output.stdout.is_empty(), "{output:?}");
        ProctorRun { status: output.status, report: output.json() }
    }

    /// Results of a report.
    pub(crate) fn results(&self, report: &Value) -> TestResults {
        let mut results = TestResults::default();
        for test in report["tests"].as_array().unwrap() {
            let (key, outcome) = (self.project.runner.key(test), test["outcome"].as_str().unwrap());
            results.add(&key, outcome);
            if is_failure(outcome) {
                results.failures.get_mut(&key).unwrap().extend(report_location(test));
            }
        }
        results.build_errors = report["collectors"].as_array().unwrap().iter().filter_map(report_location).collect();
        results
    }

    /// Puts a bug into the copy.
    pub(crate) fn break_with(&self, breakage: &Breakage) {
        self.replace(breakage.file, breakage.from, breakage.to);
    }

    /// Removes a bug from the copy.
    pub(crate) fn repair(&self, breakage: &Breakage) {
        self.replace(breakage.file, breakage.to, breakage.from);
    }

    fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.workspace.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {file}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// Location of the bug now in the copy: the line in which the replacement text begins.
    pub(crate) fn bug_location(&self, breakage: &Breakage) -> SourceLocation {
        let text = fs::read_to_string(self.workspace.join(breakage.file)).unwrap();
        let before = &text[..text.find(breakage.to).unwrap()];
        (breakage.file.to_owned(), before.matches('\n').count() as u64 + 1)
    }

    /// Path relative to the workspace; `None` for a file that is not part of the project.
    pub(crate) fn relative_path(&self, file: &str) -> Option<String> {
        let file = file.strip_prefix("file://").unwrap_or(file);
        let path = self.workspace.join(file).canonicalize().ok()?;
        let relative = path.strip_prefix(&self.workspace).ok()?.to_str()?;
        (path.is_file() && !relative.starts_with("node_modules/")).then(|| relative.to_owned())
    }

    /// Location from a file and a line as a runner prints them.
    pub(crate) fn location(&self, file: &str, line: &str) -> Option<SourceLocation> {
        Some((self.relative_path(file)?, line.parse().ok()?))
    }
}

fn report_location(record: &Value) -> Option<SourceLocation> {
    Some((record["file"].as_str()?.to_owned(), record["line"].as_u64()?))
}

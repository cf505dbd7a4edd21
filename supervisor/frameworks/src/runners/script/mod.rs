//! The commands of a JavaScript project's test script that start no runner with an adapter: `tape test/*.js`, `tap`, `ava`,
//! `node test.js`, `make check`.
//!
//! Each command is a line for a shell, with the programs of the project's packages on PATH, as under `npm test`. A script that only a
//! shell can split (`a || b`, `server & test`, `for`) is one line. TAP in the output, also where it starts late, is read test by
//! test; `tap` and `ava` get an option for it. Of any other command the exit status counts. If the project depends on Mocha or Jest,
//! each process that runs their tests (`ts-mocha`, `react-scripts test`, a script that starts them) loads proctor's reporter through
//! `NODE_OPTIONS` (`inject.cjs`). Then tests are reported one by one instead of the command's output, and a reporter without an end
//! keeps the run from being green.
//!
//! A test's `package` is the command. Either all commands run or none, except for a filter where all commands are of AVA (`--match`)
//! or QUnit (`--filter`). Other filters, and files, are refused. A rerun runs the commands whose tests failed, and nothing is listed.
//! Builds, linters and type checks are no tests and are named in a note. Scripts around another one (`pretest:unit`) are not read,
//! and coverage is not measured.

mod reporters;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    Framework, Manifest, OptionSupport, ParallelSupport, Parser, Plan, PlanError, PlanRequest, REPORT, Step,
    StreamSummary,
};
use crate::ecosystems::js::{self, Launch, ShellCommand};
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::describe_exit;
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::workspace_paths::{WorkspacePaths, join};
use crate::runners::custom;
use crate::runners::jest;
use crate::runners::mocha;
use proctor_core::bounds::NAME_BYTES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use reporters::Reporters;

/// The adapter for commands of a test script.
#[derive(Debug, Clone, Copy)]
pub struct Script;

const NAME: &str = "script";

/// Exit status with which a shell reports a missing program.
const PROGRAM_NOT_FOUND: i32 = 127;

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "each command exited with 0, and one that prints TAP printed its plan and as many points as the plan has; where Mocha or Jest reports its tests, the runner's own proof",
    markers: js::MARKERS,
    is_fallback: true,
    options: OptionSupport { selection: false, parallel: ParallelSupport::Ignored, ..Manifest::DEFAULT.options },
    toolchains: &[&js::NODE],
    sample: &[("package.json", r#"{"scripts":{"test":"make check"}}"#)],
    ..Manifest::DEFAULT
};

impl Framework for Script {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn describe_markers(&self) -> String {
        "a test script of package.json with a command that starts no other runner known here".to_owned()
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        js::shell_projects(tree)
    }

    fn test_script(&self, _tree: &FileTree, project: &Project) -> Option<String> {
        Some(js::package_json_path(&project.dir))
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        let (filter, chosen): (_, Vec<&Project>) = match request.selection {
            Selection::Matching { filter: Some(filter), files } if files.is_empty() => {
                (Some(filter.as_str()), projects.iter().collect())
            }
            Selection::Matching { filter: Some(_), .. } => return Err(not_applicable("--filter")),
            Selection::Matching { files, .. } if !files.is_empty() => (None, projects_of_files(projects, files)?),
            _ => (None, projects.iter().collect()),
        };
        let mut plan = Plan { files: js::shared_files(&[]), ..Plan::default() };
        if chosen.iter().any(|project| js::may_start_reported_runner(tree, &project.dir)) {
            let files: Vec<(&str, &[u8])> = [mocha::FILES, jest::FILES, &[js::INJECT_FILE]].concat();
            plan = Plan { files: js::shared_files_with_lines(&files), report: true, ..Plan::default() };
        }
        let is_test = |target: &RerunTarget| !matches!(target, RerunTarget::Package(_));
        if matches!(request.selection, Selection::Exactly(targets) if targets.iter().any(is_test)) {
            plan.notes.push("commands of a test script run as a whole: single tests cannot be selected".to_owned());
        }
        for project in chosen {
            let all = js::shell_test_commands(tree, &project.dir);
            let is_selected = |command: &&ShellCommand| is_selected(request.selection, &package(project, command));
            // A command that is no longer in the script can only be rerun with all of them.
            let any_selected = all.iter().any(|command| is_selected(&command));
            for command in all.iter().filter(|command| !any_selected || is_selected(command)) {
                let filtered = filter.map(|filter| command.filtered(filter).ok_or_else(|| not_applicable("--filter")));
                let line = filtered.transpose()?.unwrap_or_else(|| command.line.clone());
                plan.steps.push(step(tree, project, command, &line, request));
            }
            plan.notes.extend(js::skipped_command_notes(tree, &project.dir));
        }
        Ok(plan)
    }

    fn plan_listing(&self, projects: &[Project], tree: &FileTree, _: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        let all = projects.iter().flat_map(|project| js::shell_test_commands(tree, &project.dir));
        let names: Vec<String> = all.map(|command| format!("`{}`", command.text)).collect();
        let note = format!("tests of commands of the test script are not known before they run: {}", names.join(", "));
        let step = Step {
            programs: vec!["true".to_owned()],
            args: Vec::new(),
            dir: String::new(),
            env: std::collections::BTreeMap::new(),
        };
        Ok(Plan { steps: vec![step], notes: vec![note], ..Plan::default() })
    }

    fn owns_package(&self, projects: &[Project], tree: &FileTree, wanted: &str) -> bool {
        projects.iter().any(|project| {
            js::shell_test_commands(tree, &project.dir).iter().any(|command| package(project, command) == wanted)
        })
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        let packages = plan.steps.iter().map(|step| step.args.last().cloned().unwrap_or_default()).collect();
        let paths = WorkspacePaths::new(request.workspace);
        Box::new(ScriptParser {
            packages,
            reporters: Reporters::new(paths.clone(), plan.steps.clone()),
            paths,
            current: None,
            flaky: 0,
            name: String::new(),
            proofs: ProofTracker::default(),
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
        })
    }
}

fn not_applicable(option: &'static str) -> PlanError {
    PlanError::NotApplicable { option, framework: "commands of a test script, which run as a whole" }
}

/// The projects whose directories the request names.
fn projects_of_files<'a>(projects: &'a [Project], files: &[String]) -> Result<Vec<&'a Project>, PlanError> {
    let find = |file: &String| projects.iter().find(|project| project.dir == join("", file));
    files.iter().map(|file| find(file).ok_or_else(|| not_applicable("a file"))).collect()
}

/// The package of a command's tests.
fn package(project: &Project, command: &ShellCommand) -> String {
    let name = if project.dir.is_empty() { command.text.clone() } else { format!("{}: {}", project.dir, command.text) };
    let end = name.floor_char_boundary(NAME_BYTES_MAX / 4);
    name[..end].to_owned()
}

fn is_selected(selection: &Selection, package: &str) -> bool {
    match selection {
        // A test of an unknown command may be of any.
        Selection::Exactly(targets) => {
            targets.iter().any(|target| target.package().is_none_or(|selected| selected == package))
        }
        _ => true,
    }
}

fn step(tree: &FileTree, project: &Project, command: &ShellCommand, line: &str, request: &PlanRequest<'_>) -> Step {
    let depth = project.dir.split('/').filter(|part| !part.is_empty()).count();
    let bins: Vec<String> =
        (0..=depth).map(|levels| format!("$PWD/{}node_modules/.bin", "../".repeat(levels))).collect();
    let line = format!("PATH=\"{}:$PATH\"; export PATH\n{line}", bins.join(":"));
    let mut script = js::Invocation { env: command.env.clone(), ..js::Invocation::default() };
    let is_injected = js::may_start_reported_runner(tree, &project.dir);
    if is_injected {
        script.node.push(format!("--require={}/{}", request.scratch, js::INJECT_FILE.0));
    }
    let mut launch = Launch::for_node(tree, project, request, &script);
    if is_injected {
        let root = format!("{}/{}", request.workspace, project.dir);
        launch = launch.with_env("PROCTOR_REPORT", format!("{}/{REPORT}", request.scratch));
        launch = launch.with_env("PROCTOR_ROOT", root.trim_end_matches('/'));
    }
    let args = ["-c".to_owned(), line, "sh".to_owned(), package(project, command)];
    Step { programs: vec!["sh".to_owned()], ..launch.step(args) }
}

/// Parses each command's output.
struct ScriptParser {
    packages: Vec<String>,
    paths: WorkspacePaths,
    current: Option<custom::CustomParser>,
    /// Reports from processes below the command. Once one has begun, the command's output is ignored.
    reporters: Reporters,
    flaky: u64,
    name: String,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
}

impl Parser for ScriptParser {
    fn step_started(&mut self, step: usize) {
        self.name = self.packages.get(step).cloned().unwrap_or_default();
        self.proofs.start_step();
        let mut current = custom::CustomParser::for_output(&self.name, &self.paths);
        current.step_started(step);
        self.current = Some(current);
        self.reporters.step_started(step, &self.name);
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        if let Some(current) = self.current.as_mut().filter(|_| !self.reporters.are_active()) {
            current.stdout(bytes, events);
        }
    }

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.reporters.report(bytes, events);
    }

    fn stderr(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let Some(mut current) = self.current.take() else { return };
        let own = if self.reporters.are_active() {
            let (own, flaky) = self.reporters.step_ended(exit, killed, events);
            self.flaky += flaky;
            self.summary.unreached |= own.unreached;
            own
        } else {
            current.step_ended(exit, killed, events);
            current.summary()
        };
        let name = &self.name;
        self.notes.extend(own.notes.into_iter().map(|note| format!("`{name}`: {note}")));
        if !own.structured && !killed {
            self.notes.add(format!(
                "`{name}` {} and printed no TAP: its exit status alone counts (a reporter that prints TAP shows its tests)",
                describe_exit(exit)
            ));
        }
        self.summary.runner_missing |= exit == Exit::Code(PROGRAM_NOT_FOUND) && !own.structured;
        self.summary.structured &= own.structured;
        if let Proof::Shown { tests } = own.proof {
            self.proofs.record(tests);
        }
    }

    fn flaky(&self) -> u64 {
        self.flaky
    }

    fn running(&self) -> Vec<TestId> {
        self.reporters.running()
    }

    fn summary(&self) -> StreamSummary {
        StreamSummary { proof: self.proofs.proof(), notes: self.notes.to_vec(), ..self.summary.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_case::TestOutcome;

    const MANIFEST: &str = r#"{"scripts":{"test":"jest && tape 'x.js' && node check.js"}}"#;

    fn tree() -> (FileTree, Vec<Project>) {
        let mut tree = FileTree::default();
        tree.add_with_content("a/package.json", MANIFEST);
        let projects = Script.detect(&tree);
        (tree, projects)
    }

    #[test]
    fn each_command_is_a_step_with_the_packages_programs_on_path() {
        let (tree, projects) = tree();
        let plan = Script.plan(&projects, &tree, &PlanRequest::plain(&Selection::All)).unwrap();
        let line = "PATH=\"$PWD/node_modules/.bin:$PWD/../node_modules/.bin:$PATH\"; export PATH\ntape 'x.js'";
        assert_eq!((plan.steps.len(), plan.steps[0].args[1].as_str(), plan.steps[0].dir.as_str()), (2, line, "a"));
        let test = TestId { package: "a: node check.js".to_owned(), name: "t".to_owned() };
        let again = Selection::Exactly(vec![RerunTarget::Test(test)]);
        let again = Script.plan(&projects, &tree, &PlanRequest::plain(&again)).unwrap();
        assert_eq!((again.steps.len(), again.steps[0].args[3].as_str()), (1, "a: node check.js"));
        let file = |file: &str| Selection::Matching { filter: None, files: vec![file.to_owned()] };
        assert!(Script.plan(&projects, &tree, &PlanRequest::plain(&file("a/x.js"))).is_err());
        assert_eq!(Script.plan(&projects, &tree, &PlanRequest::plain(&file("a"))).unwrap().steps.len(), 2);
    }

    #[test]
    fn mochas_report_replaces_the_output_of_its_command() {
        let mut tree = FileTree::default();
        let manifest = r#"{"scripts":{"test":"ts-mocha test"},"devDependencies":{"mocha":"10"}}"#;
        tree.add_with_content("package.json", manifest);
        let (projects, request) = (Script.detect(&tree), PlanRequest::plain(&Selection::All));
        let plan = Script.plan(&projects, &tree, &request).unwrap();
        let env = |name: &str| plan.steps[0].env[name].as_str();
        assert_eq!((env("NODE_OPTIONS"), env("PROCTOR_ROOT")), ("--require=/s/js/inject.cjs", "/w"));
        let test = |token: &str, outcome: &str| {
            format!(
                "{token} {{\"event\":\"finished\",\"package\":\"a.ts\",\"name\":\"t\",\"outcome\":\"{outcome}\"}}\n"
            )
        };
        let begin = |token: &str| format!("{{\"event\":\"begin\",\"token\":\"{token}\",\"runner\":\"mocha\"}}\n");
        let run = |report: String| {
            let (mut parser, mut events) = (Script.parser(&plan, &request), Vec::new());
            parser.step_started(0);
            parser.report(report.as_bytes(), &mut events);
            parser.stdout(b"TAP version 13\n1..1\nok 1 - a\n", &mut events);
            parser.step_ended(Exit::Code(0), false, &mut events);
            let summary = parser.summary();
            (events.len(), summary.structured, summary.proof.is_missing(), events)
        };
        let end = |token: &str| format!("{token} {{\"event\":\"end\",\"tests\":1,\"left\":0}}\n");
        let two = [begin("x"), begin("y"), test("y", "passed"), test("x", "failed"), end("x"), end("y")].concat();
        let (count, structured, is_missing, events) = run(two);
        assert_eq!((count, structured, is_missing), (2, true, false));
        let RunnerEvent::TestFinished(case) = &events[1] else { panic!("{events:?}") };
        assert_eq!((case.package.as_str(), case.name.as_str()), ("ts-mocha test", "a.ts > t"));
        let unended = [begin("x"), test("x", "passed")].concat();
        assert!(run(unended).2, "Mocha left before it was done");
        let forged = [begin("x"), test("z", "passed"), test("x", "passed"), end("x")].concat();
        assert!(run(forged).2, "something else wrote there");
        assert_eq!(run(String::new()).0, 1, "TAP, as without a reporter");
    }

    #[test]
    fn passes_a_filter_to_ava_and_qunit_only() {
        let line = |script: &str| {
            let mut tree = FileTree::default();
            tree.add_with_content("package.json", format!("{{\"scripts\":{{\"test\":\"{script}\"}}}}"));
            let filter = proctor_core::filter::Filter::parse("it's").unwrap();
            let selection = Selection::Matching { filter, files: Vec::new() };
            let plan = Script.plan(&Script.detect(&tree), &tree, &PlanRequest::plain(&selection));
            plan.ok().map(|plan| plan.steps[0].args[1].lines().last().unwrap().to_owned())
        };
        assert_eq!(
            line("nyc ava").as_deref(),
            None,
            "behind a wrapper it is not certain which program takes the option"
        );
        assert_eq!(line("ava test").as_deref(), Some(r"ava test --tap '--match=*it'\''s*'"));
        assert_eq!(line("qunit").as_deref(), Some(r"qunit '--filter=it'\''s'"));
        for other in ["tape x.js", "ava && tape x.js"] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn reads_tap_test_by_test_and_notes_a_bare_exit_status() {
        let (tree, projects) = tree();
        let request = PlanRequest::plain(&Selection::All);
        let plan = Script.plan(&projects, &tree, &request).unwrap();
        let run = |second: Exit| {
            let (mut parser, mut events) = (Script.parser(&plan, &request), Vec::new());
            parser.step_started(0);
            parser.stdout(b"TAP version 13\nok 1 - a\nnot ok 2 - b\n1..2\n", &mut events);
            parser.step_ended(Exit::Code(1), false, &mut events);
            parser.step_started(1);
            parser.stdout(b"all well\n", &mut events);
            parser.step_ended(second, false, &mut events);
            (events, parser.summary())
        };
        let (events, summary) = run(Exit::Code(2));
        let outcome = |event: &RunnerEvent| match event {
            RunnerEvent::TestFinished(case) => (case.id().package, case.outcome),
            other => panic!("{other:?}"),
        };
        let package = "a: tape x.js".to_owned();
        assert_eq!(
            events.iter().map(outcome).collect::<Vec<_>>(),
            [(package.clone(), TestOutcome::Passed), (package, TestOutcome::Failed)]
        );
        assert!(!summary.structured && !summary.proof.is_missing() && !summary.runner_missing);
        let note = "`a: node check.js` exited with 2 and printed no TAP: its exit status alone counts \
                    (a reporter that prints TAP shows its tests)";
        assert_eq!(summary.notes, [note]);
        assert!(run(Exit::Code(127)).1.runner_missing);
    }
}

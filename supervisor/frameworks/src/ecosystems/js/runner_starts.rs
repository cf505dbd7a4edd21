//! The starts of a runner for a selection: a script may start it several times, and each start is a command of its own.

use super::detect::{is_left_to_test_script, runner_invocations, skipped_command_notes, skipped_directory_notes};
use super::runner::JsRunner;
use super::test_script::BORP;
use super::{ForwardPolicy, ForwardedOptions, Invocation, TestGroup, borp};
use crate::contract::FileTree;

/// One start of a runner.
#[derive(Debug, Clone)]
pub(crate) struct RunnerStart<'a> {
    /// The files and names that it runs.
    pub(crate) group: TestGroup<'a>,
    /// The script's invocation.
    pub(crate) script: Invocation,
    /// The script's arguments; without positional words if the selection names files.
    pub(crate) options: ForwardedOptions,
}

/// The starts of `runner` for these groups: those of the test script, or of the first script in `names` that starts it; one start
/// without arguments if none does. Notes call the runner `name`.
pub(crate) fn runner_starts<'a>(
    tree: &FileTree,
    groups: Vec<TestGroup<'a>>,
    (runner, name): (JsRunner, &str),
    policy: ForwardPolicy,
    names: &[&str],
    notes: &mut Vec<String>,
) -> Vec<RunnerStart<'a>> {
    let mut note = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    if groups.iter().any(|group| group.files.is_empty()) {
        skipped_directory_notes(tree, runner).into_iter().for_each(&mut note);
    }
    let mut all = Vec::new();
    for group in groups {
        let mut scripts = runner_invocations(tree, &group.project.dir, runner, names);
        if scripts.is_empty() {
            if is_left_to_test_script(tree, &group.project.dir) {
                note(format!("the test script could not be read: {name} was started without its arguments"));
            }
            scripts.push(Invocation::default());
        }
        if group.files.is_empty() {
            skipped_command_notes(tree, &group.project.dir).into_iter().for_each(&mut note);
        }
        let mut starts = Vec::new();
        for script in scripts {
            let policy = if script.program == Some(BORP) { borp::FORWARDED } else { policy };
            let options = ForwardedOptions::from_invocation(&script, policy);
            options.note(name).into_iter().chain(script.note(name)).for_each(&mut note);
            starts.push(RunnerStart { group: group.clone(), script, options });
        }
        all.extend(if group.files.is_empty() { deduplicated(starts) } else { distribute_files(starts) });
    }
    all
}

/// Removes starts that differ in nothing that is forwarded.
fn deduplicated(starts: Vec<RunnerStart<'_>>) -> Vec<RunnerStart<'_>> {
    let mut all: Vec<RunnerStart<'_>> = Vec::new();
    for start in starts {
        let is_same =
            |other: &RunnerStart<'_>| other.is_like(&start) && other.options.positional == start.options.positional;
        if !all.iter().any(is_same) {
            all.push(start);
        }
    }
    all
}

/// Distributes the files over the starts, by their patterns. A file that no pattern covers goes to the starts without patterns,
/// whose settings may cover it, else to all starts.
fn distribute_files(mut starts: Vec<RunnerStart<'_>>) -> Vec<RunnerStart<'_>> {
    let files = starts.first().map(|start| start.group.files.clone()).unwrap_or_default();
    let patterns: Vec<Vec<String>> =
        starts.iter_mut().map(|start| std::mem::take(&mut start.options.positional)).collect();
    starts.iter_mut().for_each(|start| start.group.files.clear());
    for file in files {
        let is_covered = |patterns: &Vec<String>| patterns.iter().any(|pattern| covers(pattern, &file));
        let is_any_covered = patterns.iter().any(is_covered);
        let has_bare_start = patterns.iter().any(Vec::is_empty);
        for (start, patterns) in starts.iter_mut().zip(&patterns) {
            let takes = if is_any_covered { is_covered(patterns) } else { !has_bare_start || patterns.is_empty() };
            if takes {
                start.group.files.push(file.clone());
            }
        }
    }
    let mut all: Vec<RunnerStart<'_>> = Vec::new();
    for start in starts.into_iter().filter(|start| !start.group.files.is_empty()) {
        match all.iter_mut().find(|other| other.is_like(&start)) {
            Some(other) => {
                other.group.files.extend(start.group.files);
                other.group.files.sort();
                other.group.files.dedup();
            }
            None => all.push(start),
        }
    }
    all
}

impl RunnerStart<'_> {
    fn is_like(&self, other: &RunnerStart<'_>) -> bool {
        let key = |script: &Invocation| (script.env.clone(), script.node.clone(), script.program);
        let same = |one: &Invocation, other: &Invocation| key(one) == key(other);
        same(&self.script, &other.script) && self.options.are_same_as(&other.options)
    }
}

/// Whether a pattern may cover a file: it is a directory above it, a part of its path, or a glob from such a directory.
fn covers(pattern: &str, file: &str) -> bool {
    let pattern = pattern.trim_start_matches("./");
    match pattern.find(['*', '?', '[', '{', '(', '!', '\\', '^', '|']) {
        None => file.contains(pattern.trim_end_matches('/')),
        Some(at) => file.starts_with(pattern[..at].rsplit_once('/').map_or("", |(dir, _)| dir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Project;
    use crate::ecosystems::js::NameFilter;

    const FORWARDED: ForwardPolicy =
        ForwardPolicy::AllExcept { left_out: &["--coverage"], valued: &["-r"], bare: None };

    fn started(script: &str, files: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut tree = FileTree::default();
        tree.add_with_content("package.json", format!("{{\"scripts\":{{\"test\":{script:?}}}}}"));
        let project = Project { dir: String::new(), name: String::new() };
        let files = files.iter().map(|&file| file.to_owned()).collect();
        let group = TestGroup { project: &project, files, names: NameFilter::All, are_test_files: true };
        let mut notes = Vec::new();
        let starts = runner_starts(&tree, vec![group], (JsRunner::Mocha, "mocha"), FORWARDED, &[], &mut notes);
        let render = |start: RunnerStart<'_>| {
            let words = [start.options.positional.clone(), start.options.into_args().collect(), start.group.files];
            words.concat().join(" ")
        };
        (starts.into_iter().map(render).collect(), notes)
    }

    #[test]
    fn starts_a_runner_as_often_as_the_script_does() {
        let starts_of = |script: &str, files: &[&str]| started(script, files).0;
        assert_eq!(starts_of("mocha test/unit && mocha -r x test/it", &[]), ["test/unit", "test/it -r x"]);
        assert_eq!(starts_of("mocha test && mocha --coverage test", &[]), ["test"]);
        let two = "mocha test/unit && mocha -r x 'test/it/**/*.js'";
        assert_eq!(starts_of(two, &["test/unit/a.js", "test/it/b.js"]), ["test/unit/a.js", "-r x test/it/b.js"]);
        assert_eq!(starts_of(two, &["src/c.js"]), ["src/c.js", "-r x src/c.js"]);
        assert_eq!(starts_of("mocha && mocha -r x test/it", &["src/c.js"]), ["src/c.js"]);
        assert_eq!(
            starts_of("mocha test/a && mocha test/b", &["test/a/x.js", "test/b/y.js", "z.js"]),
            ["test/a/x.js test/b/y.js z.js"]
        );
    }

    #[test]
    fn notes_the_parts_of_the_script_that_could_not_be_read() {
        let note = "the test script could not be read: mocha was started without its arguments";
        for script in ["make check", "ts-mocha test", "node run.js && ./more.sh"] {
            assert_eq!(started(script, &[]), (vec![String::new()], vec![note.to_owned()]), "{script}");
        }
        for script in ["", "npm test --workspaces", "mocha"] {
            assert_eq!(started(script, &[]).1, [""; 0], "{script}");
        }
        let script = "echo a && npx tsc --noEmit && jest && mocha test && node check.js --all && tsc";
        let mut tree = FileTree::default();
        let scripts = format!("{{\"scripts\":{{\"test\":{script:?},\"pretest\":\"lint .\"}}}}");
        tree.add_with_content("package.json", scripts);
        let expected = [
            "checks of the test script were not run: `lint .`, `npx tsc --noEmit`",
            "builds of the test script were not run: `tsc` (run them first where tests need what they make)",
        ];
        assert_eq!(skipped_command_notes(&tree, ""), expected);
        let unread = "mocha was started without parts of the test script that could not be read: $X";
        assert_eq!(started("mocha $X test", &[]), (vec!["test".to_owned()], vec![unread.to_owned()]));
    }
}
